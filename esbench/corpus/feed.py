"""Documents for single inserts, one after another without end, made ahead by a process of their own."""

from __future__ import annotations

import json
import os
from bisect import bisect_right
from itertools import accumulate
from typing import IO

from esbench.corpus.child_process import child_failure, end_child, enlarge, has_written
from esbench.corpus.generated_file import start_generator
from esbench.corpus.prepared import GROUP, DocumentFile, PreparedDocuments
from esbench.errors import CorpusError, TrackError

Document = list[bytes]  # id, routing value, JSON; no id or routing value: empty

_PIECE_BYTES = 1 << 16  # what is taken apart at once, while the event loop waits
_START_TIMEOUT_S = 30.0
_DRY_TIMEOUT_S = 4.0  # the worker is silent meanwhile, which the coordinator ends after 6 s


class DocumentFeed:
    """Documents first, first + step, first + 2 * step ... of a corpus.

    Generated documents never end: a child process makes them ahead and waits when its pipe is full. Those of
    files, one after the other, start over at their end. `waits` counts how often a document had to be waited for.
    """

    def __init__(self, documents: PreparedDocuments, first: int, step: int) -> None:
        if first < 0 or step < 1:
            raise ValueError(f"documents {first}, {first + step} ...")
        self._source: _GeneratedLines | _FileLines = (
            _FileLines(documents, first, step)
            if documents.generate is None
            else _GeneratedLines(documents, first, step)
        )
        self._first: list[bytes] = []

    @property
    def waits(self) -> int:
        return self._source.waits

    def start(self) -> None:
        """Wait until the first documents are there; raises TrackError or CorpusError when they cannot be."""
        self._first = self._source.first_lines()

    def take(self) -> list[Document]:
        """The next documents, as many as are there; blocks, and counts it, when none is there yet."""
        lines, self._first = self._first or self._source.lines(), []
        return [line.split(b"\t", 2) for line in lines]

    def close(self) -> None:
        """End the child process."""
        self._source.close()


class _GeneratedLines:
    """Lines of a child process: id, tab, routing value, tab, JSON."""

    def __init__(self, documents: PreparedDocuments, first: int, step: int) -> None:
        assert documents.generate is not None
        self.waits = 0
        self._where = documents.where
        self._rest = b""
        job = {"mode": "feed", "first": first, "step": step}
        self._child = start_generator(job, documents.generate, documents.where)
        assert self._child.stdout is not None
        self._pipe: IO[bytes] = self._child.stdout
        self._fd = self._pipe.fileno()
        os.set_blocking(self._fd, False)
        enlarge(self._fd)

    def first_lines(self) -> list[bytes]:
        return self._wait(_START_TIMEOUT_S)

    def lines(self) -> list[bytes]:
        lines = self._read()
        if not lines:
            self.waits += 1
            lines = self._wait(_DRY_TIMEOUT_S)
        return lines

    def close(self) -> None:
        end_child(self._child)

    def _wait(self, timeout_s: float) -> list[bytes]:
        lines: list[bytes] = []
        while not lines:
            if not has_written(self._fd, timeout_s):
                hint = "the process that makes them stands still: has this host memory and CPU to spare?"
                raise CorpusError(f"no document was made within {timeout_s:g} s", where=self._where, hint=hint)
            lines = self._read()
        return lines

    def _read(self) -> list[bytes]:
        """Whole lines that are there by now."""
        try:
            piece = os.read(self._fd, _PIECE_BYTES)
        except BlockingIOError:
            return []
        if not piece:
            raise child_failure(self._child, TrackError, self._where)
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        return lines


class _FileLines:
    """Lines of the same form from prepared files, from their beginning again after their end."""

    waits = 0

    def __init__(self, documents: PreparedDocuments, first: int, step: int) -> None:
        self._files = [DocumentFile(part) for part in documents.files]
        self._ends = list(accumulate(part.document_count for part in documents.files))
        self._position, self._step = first, step
        self._group = (-1, -1)
        self._pairs: list[bytes] = []

    def first_lines(self) -> list[bytes]:
        return self.lines()

    def lines(self) -> list[bytes]:
        """Those of the group of the next document; at least one."""
        count = self._ends[-1]
        place = self._position % count
        number = bisect_right(self._ends, place)
        file = self._files[number]
        first = self._ends[number] - file.document_count
        group = (number, (place - first) // GROUP)
        if group != self._group:
            self._group, self._pairs = group, file.group(group[1])
        begin = first + group[1] * GROUP
        end = min(begin + GROUP, self._ends[number])
        lines: list[bytes] = []
        while begin <= (place := self._position % count) < end:
            within = 2 * (place - begin)
            lines.append(_keys(self._pairs[within]) + self._pairs[within + 1])
            self._position += self._step
            if len(lines) == GROUP:
                break
        return lines

    def close(self) -> None:
        self._pairs = []


def _keys(action: bytes) -> bytes:
    """Id, tab, routing value, tab of an action line."""
    if len(action) <= len(b'{"create":{}}'):
        return b"\t\t"
    (keys,) = json.loads(action).values()
    routing = keys.get("routing", keys.get("_routing", ""))
    return f"{keys.get('_id', '')}\t{routing}\t".encode()
