"""The bodies of bulk requests: slices of a mapped document file, never copied."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from esbench.track.prepared import DocumentFile, PreparedDocuments


def partition(document_count: int, clients: int, slot: int) -> tuple[int, int]:
    """Which documents a client sends, first (included) to last (excluded), dealt as Rally deals them.

    Rally, track/params.py, `bounds`: client i starts at round(document_count / clients * i).
    partition(10, 4, 1) is (2, 5): the shares are 2, 3, 3 and 2.
    """
    share = document_count / clients
    return round(share * slot), round(share * (slot + 1))


class BulkSource:
    """Documents first .. last - 1 of a file, in bulks of `bulk_size`; the last one may be smaller."""

    def __init__(self, documents: PreparedDocuments, first: int, last: int, bulk_size: int) -> None:
        if bulk_size < 1 or not 0 <= first <= last <= documents.document_count:
            raise ValueError(f"documents {first}..{last} of {documents.document_count} in bulks of {bulk_size}")
        self._documents = documents
        self._first, self._last, self._bulk_size = first, last, bulk_size
        self._file: DocumentFile | None = None

    def __len__(self) -> int:
        return len(range(self._first, self._last, self._bulk_size))

    def __iter__(self) -> Iterator[tuple[memoryview, int]]:
        """(body of a bulk request, its documents); the kernel reads the next two bulks ahead."""
        if self._first == self._last:
            return
        if self._file is None:
            self._file = DocumentFile(self._documents)
        file = self._file
        start = ahead = file.offset(self._first)
        for document in range(self._first, self._last, self._bulk_size):
            following = min(document + self._bulk_size, self._last)
            end = file.offset(following)
            wanted = min(end + 2 * (end - start), len(file.view))
            if wanted > ahead:
                _read_ahead(file.map, ahead, wanted)
                ahead = wanted
            yield file.view[start:end], following - document
            start = end

    def close(self) -> None:
        """Let go of the file; it is unmapped once no slice of it is held."""
        self._file = None


def _read_ahead(mapped: mmap.mmap, start: int, end: int) -> None:
    if hasattr(mmap, "MADV_WILLNEED"):
        page = start - start % mmap.PAGESIZE
        mapped.madvise(mmap.MADV_WILLNEED, page, end - page)
