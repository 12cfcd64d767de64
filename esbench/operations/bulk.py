"""Bulk indexing: each client sends its part of the corpora, slice by slice of prepared files."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from esbench.errors import TrackError, did_you_mean
from esbench.model import Index
from esbench.operations.base import (
    REFRESH,
    Exchange,
    Exhausted,
    OperationType,
    Parameter,
    Program,
    TaskContext,
    Verdict,
    default_index,
)
from esbench.operations.programs import common_headers, refuse
from esbench.operations.replies import judge_bulk
from esbench.track.compression import GZIP_HEADER, compressed, is_encoded
from esbench.track.templates import plain
from esbench.track.variables import loaded_key

if TYPE_CHECKING:
    from esbench.track.bulk_source import BulkSource
    from esbench.track.prepared import PreparedDocuments


class Bulk(OperationType):
    name = "bulk"
    doc = "Index the documents of corpora in bulks; ends when they are exhausted."
    unit = "docs"
    parameters = {
        "bulk-size": Parameter("documents per request", (int, str), required=True),
        "batch-size": Parameter("documents read ahead; accepted, without effect", (int, str)),
        "ingest-percentage": Parameter("share of the documents to index", (int, float, str), 100),
        "corpora": Parameter("names of corpora; all by default", (str, list)),
        "indices": Parameter("only documents for these indices", (str, list)),
        "index": Parameter("the index, where the corpus names none; the track's only one by default"),
        "pipeline": Parameter("an ingest pipeline"),
        "refresh": REFRESH,
        "timeout": Parameter("how long the server waits for shards"),
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        bulk_size = _number(params["bulk-size"])
        if bulk_size is None or bulk_size < 1 or bulk_size != int(bulk_size):
            raise TrackError(f'"bulk-size" must be a whole number above zero, not {params["bulk-size"]!r}', where=where)
        share = _number(_share_percent(params))
        if share is None or not 0 < share <= 100:
            raise TrackError(
                f'"ingest-percentage" must be above 0 and at most 100, not {params["ingest-percentage"]!r}', where=where
            )

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        return float(params["bulk-size"])

    def has_known_bytes(self, params: Mapping[str, Any]) -> bool:
        return True

    def request_bytes(
        self, params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Sequence[Index], where: str
    ) -> float:
        from esbench.track.prepared import DocumentFile

        selected = _selected(params, documents, indices, where)
        counts = [_sent_of(part, params) for part in selected]
        size_bytes = sum(DocumentFile(part).offset(count) for part, count in zip(selected, counts, strict=True))
        return size_bytes / sum(counts) * self.units_per_request(params)

    def compile(self, context: TaskContext) -> Program:
        refuse(
            self,
            context.params,
            ("conflicts", "detailed-results", "looped", "data-streams", "retries_on_429"),
            context.where,
        )
        return BulkProgram(context)


class BulkProgram:
    """Each client sends its own part of every corpus, slice by slice of the prepared file."""

    finite = True
    feed_waits = 0

    def __init__(self, context: TaskContext) -> None:
        self._context = context
        self._bulk_size = int(float(context.params["bulk-size"]))
        self._documents = _selected(context.params, context.documents, context.indices, context.where)
        self._acknowledged: dict[str, int] = {}
        self._begun = False

    def client(self, slot: int, headers: bytes) -> BulkClientProgram:
        from esbench.track.bulk_source import BulkSource, partition

        sources: list[tuple[str, BulkSource]] = []
        clients = self._context.task.clients
        for documents in self._documents:
            first, last = partition(_sent_of(documents, self._context.params), clients, slot)
            if last > first:
                context = self._context
                index = _index_of(documents, context.params, context.indices, context.where)
                sources.append((index, BulkSource(documents, first, last, self._bulk_size)))
        if sources:
            start = slot % len(sources)  # clients begin at different corpora
            sources = sources[start:] + sources[:start]
        indices = {index for index, _ in sources}
        return BulkClientProgram(self._context, indices, self._slices(sources), headers, self._acknowledge)

    def _slices(self, sources: Sequence[tuple[str, BulkSource]]) -> Iterator[tuple[str, memoryview, int]]:
        self._begun = True
        for index, source in sources:
            for body, documents in source:
                yield index, body, documents

    def _acknowledge(self, index: str, documents: int) -> None:
        self._acknowledged[index] = self._acknowledged.get(index, 0) + documents

    def close(self) -> None:
        for index, documents in self._acknowledged.items():
            self._context.ledger.acknowledge(index, documents)
        if self._begun:
            for part in self._documents:
                self._context.ledger.next_values[loaded_key(part.corpus)] = _sent_of(part, self._context.params)


class BulkClientProgram:
    """The bulks of one client, corpus after corpus."""

    def __init__(
        self,
        context: TaskContext,
        indices: Iterable[str],
        slices: Iterator[tuple[str, memoryview, int]],
        headers: bytes,
        acknowledge: Callable[[str, int], None],
    ) -> None:
        self._acknowledge = acknowledge
        self._compress = context.compress and not is_encoded(common_headers(context.params))
        self._heads = {index: self._head(context, index, headers) for index in indices}
        self._slices = slices
        self.exchanges = (Exchange("", self._render, self._judge),)

    def _head(self, context: TaskContext, index: str, headers: bytes) -> bytes:
        params = context.params
        query = {key: plain(params[key]) for key in ("pipeline", "refresh", "timeout") if params.get(key) is not None}
        path = context.dialect.bulk_path(index) + (f"?{urlencode(query)}" if query else "")
        own = "".join(f"{name}: {value}\r\n" for name, value in common_headers(params).items())
        return (
            f"POST {path} HTTP/1.1\r\n".encode()
            + headers
            + own.encode("latin-1")
            + (GZIP_HEADER if self._compress else b"")
            + b"Content-Type: application/x-ndjson\r\nContent-Length: "
        )

    def draw(self) -> tuple[str, bytes | memoryview, int]:
        piece = next(self._slices, None)
        if piece is None:
            raise Exhausted
        if self._compress:
            index, body, documents = piece
            return index, compressed(body), documents
        return piece

    def _render(self, piece: tuple[str, bytes | memoryview, int]) -> Sequence[bytes | memoryview]:
        index, body, _ = piece
        return (b"%b%d\r\n\r\n" % (self._heads[index], len(body)), body)

    def _judge(self, status: int, body: bytes, piece: tuple[str, bytes | memoryview, int]) -> Verdict:
        verdict = judge_bulk(status, body, piece[2])
        self._acknowledge(piece[0], int(verdict.units))
        return verdict


def _selected(
    params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Sequence[Index], where: str
) -> list[PreparedDocuments]:
    """The document files that a bulk sends, by its `corpora` and `indices`."""
    wanted = _names(params.get("corpora"))
    known = {part.corpus for part in documents}
    for name in wanted:
        if name not in known:
            raise TrackError(f'unknown corpus "{name}"', where=where, hint=did_you_mean(name, known))
    into = _names(params.get("indices"))
    selected = [
        part
        for part in documents
        if (not wanted or part.corpus in wanted) and (not into or _index_of(part, params, indices, where) in into)
    ]
    if not selected:
        raise TrackError("there are no documents to index", where=where, hint="the track needs a corpus")
    return selected


def _index_of(part: PreparedDocuments, params: Mapping[str, Any], indices: Sequence[Index], where: str) -> str:
    return part.target_index or part.target_data_stream or default_index(params, indices, where)


def _sent_of(part: PreparedDocuments, params: Mapping[str, Any]) -> int:
    """How many documents of a file are sent: the first ones, so that readers know which there are."""
    return math.ceil(part.document_count * float(_share_percent(params)) / 100)


def _names(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _share_percent(params: Mapping[str, Any]) -> Any:
    share = params.get("ingest-percentage")
    return 100 if share is None else share
