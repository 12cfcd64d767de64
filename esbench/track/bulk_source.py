"""The bodies of bulk requests: slices of a mapped document file, never copied."""

from __future__ import annotations

import mmap
from collections.abc import Iterator

from esbench.track.prepared import DocumentFile, PreparedDocuments


def client_slice(document_count: int, client: int, clients: int) -> tuple[int, int]:
    """Which documents a client sends, first (included) to last (excluded), dealt as Rally deals them.

    Rally, track/params.py, `bounds`: client i starts at round(document_count / clients * i).
    client_slice(10, 1, 4) is (2, 5): the shares are 2, 3, 3 and 2.
    """
    share = document_count / clients
    return round(share * client), round(share * (client + 1))


class BulkSource:
    """Documents first .. last - 1 of a file, in bulks of `bulk_size`; the last one may be smaller."""

    def __init__(self, documents: PreparedDocuments, first: int, last: int, bulk_size: int) -> None:
        if bulk_size < 1:
            raise ValueError(f"a bulk of {bulk_size} documents")
        self._documents = documents
        self._first, self._last, self._bulk_size = first, last, bulk_size

    def __len__(self) -> int:
        return len(range(self._first, self._last, self._bulk_size))

    def __iter__(self) -> Iterator[tuple[memoryview, int]]:
        """(body of a bulk request, its documents); the kernel is asked to read the bulk after next ahead."""
        if self._first >= self._last:
            return
        file = DocumentFile(self._documents)
        start = file.offset(self._first)
        ahead = start
        for document in range(self._first, self._last, self._bulk_size):
            following = min(document + self._bulk_size, self._last)
            end = file.offset(following)
            wanted = min(end + 2 * (end - start), len(file.view))
            if wanted > ahead:
                _read_ahead(file.map, ahead, wanted)
                ahead = wanted
            yield file.view[start:end], following - document
            start = end


def _read_ahead(mapped: mmap.mmap, start: int, end: int) -> None:
    if hasattr(mmap, "MADV_WILLNEED"):
        page = start - start % mmap.PAGESIZE
        mapped.madvise(mmap.MADV_WILLNEED, page, end - page)
