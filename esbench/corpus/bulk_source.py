"""The bodies of bulk requests: slices of a mapped document file, not copied; with conflicts, new bodies from them."""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from random import Random
from typing import Any, TypeVar

from esbench.corpus.prepared import DocumentFile, PreparedDocuments
from esbench.errors import TrackError

T = TypeVar("T")


def partition(document_count: int, clients: int, slot: int) -> tuple[int, int]:
    """Return the range of documents that a client sends, (first, last), last excluded, divided as Rally divides them.

    Rally, track/params.py, `bounds`: client i starts at round(document_count / clients * i).
    partition(10, 4, 1) is (2, 5): the shares are 2, 3, 3 and 2.
    """
    share = document_count / clients
    return round(share * slot), round(share * (slot + 1))


def in_turn(corpora: Sequence[Sequence[T]], slot: int) -> list[T]:
    """Return the files of corpora in the order in which the client of `slot` sends them, as in Rally.

    Rally, track/params.py, `create_readers`: clients begin at different corpora, and each file is followed by one of
    the next corpus. in_turn([[a1, a2], [b1]], 1) is [b1, a1, a2].
    """
    if not corpora:
        return []
    start = slot % len(corpora)
    rounds = zip_longest(*corpora[start:], *corpora[:start])
    return [file for file in chain.from_iterable(rounds) if file is not None]


# The bulks that one client sends of a file: (body, document count) each; every iteration begins with the first.
Bulks = Iterable[tuple[bytes | memoryview, int]]


class BulkSource:
    """Documents first .. last - 1 of a file, in bulks of `bulk_size` documents; the last bulk may be smaller.

    `file`: the mapped file, if several sources share it. Each iteration begins with the first document. Raises
    ValueError for a range that the file does not have or a `bulk_size` below 1, TrackError for documents that are
    streamed.
    """

    def __init__(
        self,
        documents: PreparedDocuments,
        first: int,
        last: int,
        bulk_size: int,
        file: DocumentFile | None = None,
    ) -> None:
        if bulk_size < 1 or not 0 <= first <= last <= documents.document_count:
            raise ValueError(f"documents {first}..{last} of {documents.document_count} in bulks of {bulk_size}")
        self._first, self._last, self._bulk_size = first, last, bulk_size
        self._file = file or DocumentFile(documents)

    def __iter__(self) -> Iterator[tuple[memoryview, int]]:
        """Yield (body of a bulk request, document count); the kernel reads the next two bulks ahead."""
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


def _read_ahead(mapped: mmap.mmap, start: int, end: int) -> None:
    if hasattr(mmap, "MADV_WILLNEED"):
        page = start - start % mmap.PAGESIZE
        mapped.madvise(mmap.MADV_WILLNEED, page, end - page)


_RECENCY_SLOPE = 30  # Rally's


@dataclass(frozen=True)
class Conflicts:
    """The rules by which document ids repeat.

    New ids come in sequence or shuffled. A share `again_ratio` of the documents gets an id that this client has used
    before, drawn from all of these or, with `recency` towards 1, from the latest ones. Such a document is indexed again
    or, with `update`, sent as a partial update.
    """

    shuffled: bool
    again_ratio: float
    recency: float = 0.0
    update: bool = False


def conflicts_of(params: Mapping[str, Any], documents: Iterable[PreparedDocuments], where: str) -> Conflicts | None:
    """Return the id conflicts that a bulk's parameters ask for; None if they ask for none.

    Raises TrackError for documents that have ids or routing already, and for those of data streams.
    """
    order = params.get("conflicts")
    if order is None:
        return None
    for part in documents:
        if part.has_own_actions or part.id_field is not None or part.routing_field is not None:
            raise TrackError(
                f'"conflicts" needs documents without ids, and those of corpus "{part.corpus}" have their own',
                where=where,
                hint='choose others with "corpora", or leave "conflicts" out',
            )
        if part.target_data_stream:
            raise TrackError(
                f'the documents of the data stream "{part.target_data_stream}" cannot have conflicts',
                where=where,
                hint="they are created, never indexed again",
            )
    return Conflicts(
        shuffled=str(order) == "random",
        again_ratio=_number(params, "conflict-probability", 25) / 100,
        recency=_number(params, "recency", 0),
        update=params.get("on-conflict") == "update",
    )


def _number(params: Mapping[str, Any], name: str, default: float) -> float:
    value = params.get(name)
    return default if value is None else float(value)


class ConflictingBulks:
    """The bulks of a source with ids of ten digits, some of which repeat.

    As Rally (track/params.py, `GenerateActionMetaData`): the ids of documents first .. first + count - 1 of a file
    are their numbers, so that no two clients use the same id.
    """

    def __init__(self, source: BulkSource, first: int, count: int, conflicts: Conflicts, seed: str) -> None:
        self._source = source
        self._conflicts = conflicts
        self._random = Random(seed)
        self._ids: Sequence[int] = range(first, first + count)
        if conflicts.shuffled:
            shuffled = array("Q", self._ids)
            self._random.shuffle(shuffled)
            self._ids = shuffled

    def __iter__(self) -> Iterator[tuple[bytes, int]]:
        used = 0
        for body, count in self._source:
            documents = bytes(body).split(b"\n")[1::2]
            bulk, used = self._bulk(documents, used)
            yield bulk, count

    def _bulk(self, documents: Sequence[bytes], used: int) -> tuple[bytes, int]:
        """Return (body of a bulk, ids used after it); `used` is the number of ids used before it."""
        ids, again_ratio, uniform = self._ids, self._conflicts.again_ratio, self._random.random
        again = b'{"update":{"_id":"%010d"}}\n{"doc":%b}\n' if self._conflicts.update else _INDEX
        parts = []
        for document in documents:
            if used and uniform() < again_ratio:
                parts.append(again % (ids[self._position(used)], document.rstrip()))
            else:
                parts.append(_INDEX % (ids[used], document))
                used += 1
        return b"".join(parts), used

    def _position(self, used: int) -> int:
        """Draw which of the first `used` ids is repeated; returns its position, 0 .. used - 1."""
        recency = self._conflicts.recency
        if not recency:
            return self._random.randrange(used)
        back_ratio = min(self._random.expovariate(_RECENCY_SLOPE * recency), 1.0)
        return round((used - 1) * (1 - back_ratio))


_INDEX = b'{"index":{"_id":"%010d"}}\n%b\n'
