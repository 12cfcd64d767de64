"""Recorded arrivals and requests: files of JSON lines, read as they are needed. Nothing of them is held in memory."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

from esbench.errors import TrackError
from esbench.errors.reasons import reason_of
from esbench.model import Recording, TrackFile
from esbench.requests.exchange import Exhausted, NotReady

NS = 1_000_000_000
_CHUNK_BYTES = 1 << 18
_CHUNKS_AHEAD = 8
_LONGEST_S = 1e9


def track_file(path: Path) -> TrackFile:
    """Return a file of a track with the digest of its content. Raises TrackError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return TrackFile(path, hashlib.file_digest(file, "sha256").hexdigest()[:16])
    except OSError as error:
        raise TrackError(f"cannot be read: {reason_of(error)}", where=str(path)) from None


def read_recording(path: Path) -> Recording:
    """Return what a file of arrivals holds; it is read once. Raises TrackError for a line that is no later time."""
    count, first_s, last_s, second, in_second, most = 0, 0.0, 0.0, 0, 0, 0
    file = track_file(path)
    for at_s in _times(path):
        if not last_s <= at_s < _LONGEST_S:
            hint = "each line is a number of seconds since the begin, and none is before the one above it"
            raise TrackError(f"line {count + 1} is not after the one before it", where=str(path), hint=hint)
        in_second = in_second + 1 if int(at_s) == second else 1
        first_s = at_s if not count else first_s
        second, last_s, most = int(at_s), at_s, max(most, in_second)
        count += 1
    if not count:
        raise TrackError("no arrival is in this file", where=str(path), hint="each line is a number of seconds")
    return Recording(file, count, first_s, last_s, most)


def recorded_arrivals(recording: Recording, *, clients: int, slots: Sequence[int]) -> Iterator[int]:
    """Return the due times (ns since the start) of the arrivals of a worker's client slots, as `schedule.arrivals`."""
    mine, from_s = frozenset(slots), recording.from_s
    times = enumerate(_times(recording.file.path))
    return (round((at_s - from_s) * NS) for number, at_s in times if at_s >= from_s and number % clients in mine)


def arrivals_before(recording: Recording) -> int:
    """Return the number of arrivals before those that a task begins with."""
    return sum(1 for _ in takewhile(lambda at_s: at_s < recording.from_s, _times(recording.file.path)))


def _times(path: Path) -> Iterator[float]:
    with path.open("rb", buffering=_CHUNK_BYTES) as file:
        for number, line in enumerate(file, 1):
            try:
                yield float(line)
            except ValueError:
                raise TrackError(f"line {number} is not a number of seconds", where=str(path)) from None


class LinesAhead:
    """The lines of a file that belong to a worker's client slots, in order; a thread reads ahead of the clients.

    Line n belongs to slot n mod `clients`, as arrival n does. `waits` counts how often no line was read yet. Where no
    event loop runs, `take` waits for the line.
    """

    def __init__(
        self, path: Path, *, clients: int, slots: Sequence[int], first: int = 0, chunk_bytes: int = _CHUNK_BYTES
    ) -> None:
        """Open the file and wait for its lines from number `first` on. Raises TrackError if it cannot be read."""
        self.waits = 0
        self._path = path
        self._chunk_bytes = chunk_bytes
        self._first = first
        self._clients, self._slots = clients, frozenset(slots)
        self._chunks: Queue[list[bytes] | OSError | None] = Queue(_CHUNKS_AHEAD)
        self._lines: Iterator[bytes] = iter(())
        self._waiting: list[Callable[[], None]] = []
        self._over = self._closed = False
        try:
            self._loop: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None
        Thread(target=self._read, name=f"reading {path.name}", daemon=True).start()
        self._turn_to(self._chunks.get())

    def take(self) -> bytes:
        """Return the next line. Raises Exhausted after the last, NotReady while it is not read, TrackError."""
        while (line := next(self._lines, None)) is None:
            if self._over:
                raise Exhausted
            try:
                self._turn_to(self._chunks.get(block=self._loop is None))
            except Empty:
                raise NotReady(self._call_back) from None
        return line

    def close(self) -> None:
        """End the reading, and forget what was read."""
        self._over = self._closed = True
        self._lines = iter(())
        with suppress(Empty):
            while True:
                self._chunks.get_nowait()  # the thread may wait for room

    def _turn_to(self, chunk: list[bytes] | OSError | None) -> None:
        self._over = self._over or not isinstance(chunk, list)
        if isinstance(chunk, OSError):
            raise TrackError(f"cannot be read: {reason_of(chunk)}", where=str(self._path))
        self._lines = iter(chunk or ())

    def _call_back(self, who: Callable[[], None]) -> None:
        self.waits += 1
        self._waiting.append(who)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for who in waiting:
            who()

    def _read(self) -> None:
        try:
            with self._path.open("rb", buffering=self._chunk_bytes) as file:
                number = 0
                while not self._closed and (lines := file.readlines(self._chunk_bytes)):
                    begin, number = number, number + len(lines)
                    own = range(max(begin, self._first), number)
                    mine = [lines[n - begin] for n in own if n % self._clients in self._slots]
                    if mine:
                        self._give(mine)
        except OSError as error:
            self._give(error)
        self._give(None)

    def _give(self, chunk: list[bytes] | OSError | None) -> None:
        if self._closed:
            return
        self._chunks.put(chunk)
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)
