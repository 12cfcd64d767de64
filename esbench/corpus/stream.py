"""Bulks that are unpacked while they are sent: a child process unpacks them ahead of the clients.

Nothing here blocks after `start`: a client that finds no bulk is called back when there is one.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from esbench.corpus.child_process import Child
from esbench.corpus.prepared import PreparedDocuments
from esbench.corpus.unpacking import HEADER
from esbench.errors import CorpusError

_AHEAD_BYTES = 32 << 20  # unpacked bulks that wait to be sent
_MOST_AHEAD_BYTES = 256 << 20  # while there are fewer of them than clients
_START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class StreamedBulk:
    """A bulk: its lines, its document count, and the number of the stream's file that they are from."""

    lines: bytearray
    documents: int
    file: int


class BulkStream:
    """The bulks of some client slots, file after file; they are given to these clients in the order in which they ask.

    `files`: each with the number of its documents to send, from its beginning. Of all bulks of the task, in order,
    numbers s, s + clients, s + 2 * clients ... belong to slot s. `waits` counts how often a client found no bulk.
    """

    def __init__(
        self, files: Sequence[tuple[PreparedDocuments, int]], bulk_size: int, clients: int, slots: Sequence[int]
    ) -> None:
        self.waits = 0
        self._slots = len(slots)
        self._where = files[0][0].where
        self._ready: deque[StreamedBulk] = deque()
        self._ready_bytes = 0
        self._waiting: deque[Callable[[], None]] = deque()
        self._over = False
        self._failure: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._watching = False
        self._head = bytearray(HEADER.size)
        self._body: bytearray | None = None  # of the bulk whose head was read
        self._filled = 0
        job = {
            "files": list(files),
            "bulk_size": bulk_size,
            "clients": clients,
            "slots": frozenset(slots),
        }
        self._child = Child("esbench.corpus.unpacking", job, CorpusError, self._where)
        self._fd = self._child.read_ahead()

    def start(self) -> None:
        """Wait until there is a bulk for each slot, or there are no more.

        From then on bulks are read in the running event loop. Raises CorpusError if unpacking fails before.
        """
        while len(self._ready) < self._slots and self._is_wanted:
            if not self._child.has_written(_START_TIMEOUT_S):
                raise CorpusError(f"no documents were unpacked within {_START_TIMEOUT_S:g} s", where=self._where)
            self._read()
        if self._failure is not None and not self._ready:
            raise self._failure
        self._loop = asyncio.get_running_loop()
        self._watch()

    def take(self) -> StreamedBulk | None:
        """Return the next bulk; None if none is ready, or after the last one (`is_over`).

        Raises CorpusError after the last good bulk of a file whose rest cannot be unpacked.
        """
        if not self._ready:
            if self._failure is not None:
                raise self._failure
            return None
        bulk = self._ready.popleft()
        self._ready_bytes -= len(bulk.lines)
        self._watch()
        return bulk

    @property
    def is_over(self) -> bool:
        """True if all bulks were taken and the unpacking did not fail."""
        return self._over and not self._ready and self._failure is None

    def call_back(self, who: Callable[[], None]) -> None:
        """Register a function to call once, when a bulk is ready or no further one will come; counts in `waits`."""
        self.waits += 1
        self._waiting.append(who)

    def close(self) -> None:
        """End the child process; drop the bulks that are ready and the functions that wait."""
        self._over = True
        self._watch()
        self._ready.clear()
        self._waiting.clear()
        self._child.close()

    @property
    def _is_wanted(self) -> bool:
        most_bytes = _MOST_AHEAD_BYTES if len(self._ready) < self._slots else _AHEAD_BYTES
        return not self._over and self._ready_bytes < most_bytes

    def _watch(self) -> None:
        """Start reading the pipe if there is room for more bulks, else stop it."""
        if self._loop is None or self._watching == self._is_wanted:
            return
        self._watching = self._is_wanted
        if self._watching:
            self._loop.add_reader(self._fd, self._read_on)
        else:
            self._loop.remove_reader(self._fd)

    def _read_on(self) -> None:
        self._read()
        self._watch()
        while self._waiting and (self._ready or self._over):
            self._waiting.popleft()()

    def _read(self) -> None:
        """Read from the pipe, at most to the end of the current header or bulk; never blocks."""
        buffer = self._head if self._body is None else self._body
        try:
            count = os.readv(self._fd, [memoryview(buffer)[self._filled :]])
        except BlockingIOError:
            return
        if not count:
            self._over = True
            self._failure = self._child.failure()
        self._filled += count
        if self._filled < len(buffer):
            return
        self._filled = 0
        file, documents, size_bytes = HEADER.unpack(self._head)
        if not documents:
            self._over = True
        elif self._body is None:
            self._body = bytearray(size_bytes)
        else:
            self._ready.append(StreamedBulk(self._body, documents, file))
            self._ready_bytes += size_bytes
            self._body = None
