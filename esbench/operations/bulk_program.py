"""The program of the operation type bulk: its documents, the requests of its clients, the judging of their replies."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from esbench.cluster.aws import DIGEST_HEADER, digest_of
from esbench.corpus.bulk_source import Bulks, BulkSource, ConflictingBulks, conflicts_of, in_turn, partition
from esbench.corpus.prepared import DocumentFile, PreparedDocuments
from esbench.errors import TrackError, did_you_mean
from esbench.measure.verdict import REFUSED, Details, Verdict
from esbench.model import DataStream, Index
from esbench.operations.administrative import query_of
from esbench.operations.base import TaskContext, default_index
from esbench.operations.parameters import flag, seconds, whole
from esbench.operations.replies import bulk_details, created_by_index, judge_bulk, judge_unrefused
from esbench.requests.exchange import Body, Exchange, Exhausted, NotReady, RequestBytes
from esbench.requests.programs import common_headers
from esbench.requests.templates import GZIP_HEADER, closes, compressed, is_encoded, plain, without_headers

if TYPE_CHECKING:
    from esbench.corpus.stream import BulkStream

Indices = Sequence[Index | DataStream]
RETRIED = "retried"  # the result of a document that was refused temporarily and sent again


def bulk_query(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the query string parameters of a bulk's requests as text, with `pipeline`, `refresh` and `timeout`."""
    own = {name: params.get(name) for name in ("pipeline", "refresh", "timeout")}
    return {str(name): plain(value) for name, value in query_of(params, **own).items()}


def bulk_head(path: str, params: Mapping[str, Any], headers: bytes, compress: bool = False) -> bytes:
    """Return the head of a bulk's requests up to `Content-Length: `.

    The caller adds the length of the body and a blank line. `headers` are the lines of the connection; those of the
    operation replace them, and the Content-Type of lines of JSON. `compress`: the body is sent as gzip, which the head
    states.
    """
    query, own = bulk_query(params), common_headers(params)
    if "content-type" not in map(str.lower, own):
        own["Content-Type"] = "application/x-ndjson"
    return (
        f"POST {path}{'?' if query else ''}{urlencode(query, quote_via=quote)} HTTP/1.1\r\n".encode()
        + without_headers(headers, own)
        + "".join(f"{name}: {value}\r\n" for name, value in own.items()).encode()
        + (GZIP_HEADER if compress else b"")
        + b"Content-Length: "
    )


def files_to_send(
    params: Mapping[str, Any], documents: Sequence[PreparedDocuments], indices: Indices, where: str
) -> list[tuple[PreparedDocuments, int]]:
    """Return the document files that a bulk sends, each with the number of its documents to send.

    They are those of its `corpora`, `indices` and `data-streams`. Raises TrackError for an unknown corpus, or if no
    file is left.
    """
    wanted, into, streams = (_names(params.get(name)) for name in ("corpora", "indices", "data-streams"))
    known = {part.corpus for part in documents}
    for name in wanted:
        if name not in known:
            raise TrackError(f'unknown corpus "{name}"', where=where, hint=did_you_mean(name, known))
    if not documents:
        raise TrackError("there are no documents to index", where=where, hint="the track needs a corpus")
    found = [part for part in documents if not wanted or part.corpus in wanted]
    selected = [
        part
        for part in found
        if (not streams or part.target_data_stream in streams)
        and (not into or (not part.target_data_stream and _index_of(part, params, indices, where) in into))
    ]
    if not selected:
        known = {name for part in found for name in (part.target_index, part.target_data_stream) if name}
        names = [*into, *streams]
        raise TrackError(
            f"no document of the corpora is for {', '.join(names)}", where=where, hint=did_you_mean(names[0], known)
        )
    return list(zip(selected, counts_to_send(selected, params), strict=True))


def _names(value: Any) -> list[str]:
    if value is None:
        return []
    return [str(name) for name in value] if isinstance(value, list | tuple) else [str(value)]


def _index_of(part: PreparedDocuments, params: Mapping[str, Any], indices: Indices, where: str) -> str | None:
    """Return the index or data stream that a file's documents go to; None if only their action lines name it."""
    if target := part.target_index or part.target_data_stream:
        return target
    if part.has_own_actions and params.get("index") is None:
        return None
    return default_index(params, indices, where)


def counts_to_send(documents: Sequence[PreparedDocuments], params: Mapping[str, Any]) -> list[int]:
    """Return the number of documents to send of each file, in the order of `documents`.

    It is the share `ingest-percentage`, rounded up, or the file's part of `ingest-doc-count`. They are the first ones
    of the file, so that reading tasks know which documents exist.
    """
    counts = [part.document_count for part in documents]
    if params.get("ingest-doc-count") is None:
        return [math.ceil(count * float(share_percent(params)) / 100) for count in counts]
    total = sum(counts)
    wanted = min(total, above_zero(params, "ingest-doc-count"))
    ends = [round(wanted * upto / total) for upto in accumulate(counts)]
    return [end - start for start, end in pairwise([0, *ends])]


def share_percent(params: Mapping[str, Any]) -> Any:
    """Return the parameter `ingest-percentage`, 100 if it is not given."""
    share = params.get("ingest-percentage")
    return 100 if share is None else share


def above_zero(params: Mapping[str, Any], name: str, where: str = "") -> int:
    """Return a parameter that must be a whole number above zero, else raise TrackError; KeyError if it is missing."""
    number = whole(params[name])
    if number is None or number < 1:
        raise TrackError(f'"{name}" must be a whole number above zero, not {params[name]!r}', where=where)
    return number


@dataclass(frozen=True)
class BulkTarget:
    """The destination of a file's documents: `index` (or a data stream); None if only action lines name it.

    `path` is that of the requests. `has_own_actions`: the file came with action lines, which may name other indices.
    """

    path: str
    index: str | None
    has_own_actions: bool


@dataclass(slots=True)
class FilePart:
    """A client's part of a file, from document `first` on; the documents before `end` have been sent."""

    target: BulkTarget
    bulks: Bulks
    file: str
    first: int
    end: int


@dataclass(slots=True)
class Piece:
    """A bulk: `lines` are its action lines and documents, `body` the same as sent, maybe compressed.

    `digest`: the line of the head with the digest of the body, empty where requests are not signed.
    It ends at document `end` of its `part`. When a bulk is retried, only the refused documents remain in it;
    `failed` is the verdict on other documents that failed in earlier tries.
    """

    target: BulkTarget
    lines: Body
    body: Body
    documents: int
    part: FilePart | None = None
    end: int = 0
    tries: int = 1
    failed: Verdict | None = None
    digest: bytes = b""

    def keep(self, positions: Sequence[int]) -> None:
        """Keep only the documents at these positions (from 0) in `lines`; `body` is left as it was."""
        lines = bytes(self.lines).split(b"\n")
        self.lines = b"".join(b"%b\n%b\n" % (lines[2 * n], lines[2 * n + 1]) for n in positions)
        self.documents = len(positions)


class BulkProgram:
    """The program of a bulk: each client sends its own part of every file, alternating between the corpora.

    Files that are read as a stream come first; of these a client sends the next bulk when it is free.
    `acknowledged`: the new documents of each index.
    """

    def __init__(self, context: TaskContext) -> None:
        params = context.params
        self.context = context
        self.acknowledged: Counter[str] = Counter()
        self._bulk_size = above_zero(params, "bulk-size")
        self._indices = context.indices or context.data_streams
        files = files_to_send(params, context.documents, self._indices, context.where)
        self._files = [(documents, count) for documents, count in files if documents.streamed is None]
        self._conflicts = conflicts_of(params, [documents for documents, _ in files], context.where)
        self._looped = flag(params.get("looped"))
        has_ids = any(documents.id_field is not None for documents, _ in files)
        self.may_update = self._looped or has_ids or self._conflicts is not None
        self._parts: list[FilePart] = []
        self._mapped: dict[Path, DocumentFile] = {}
        self.streamed: tuple[BulkTarget, ...] = ()
        self._stream: BulkStream | None = None
        if streamed := [(documents, count) for documents, count in files if documents.streamed is not None and count]:
            self._open_stream(streamed)

    def _open_stream(self, files: Sequence[tuple[PreparedDocuments, int]]) -> None:
        """Start the stream of the files that are to be read as one, and wait for its first bulks."""
        from esbench.corpus.stream import BulkStream

        self.streamed = tuple(self._target(documents) for documents, _ in files)
        self._stream = BulkStream(files, self._bulk_size, self.context.task.clients, self.context.slots)
        try:
            self._stream.start()
        except BaseException:
            self._stream.close()
            raise

    @property
    def finite(self) -> bool:
        return not self._looped

    @property
    def feed_waits(self) -> int:
        return 0 if self._stream is None else self._stream.waits

    def client(self, slot: int, headers: bytes) -> BulkClientProgram:
        corpora = [list(group) for _, group in groupby(self._files, key=lambda file: file[0].corpus)]
        parts = [
            part
            for documents, count in in_turn(corpora, slot)
            if (part := self._part(documents, count, slot)) is not None
        ]
        self._parts += parts
        return BulkClientProgram(self, parts, headers)

    def _part(self, documents: PreparedDocuments, count: int, slot: int) -> FilePart | None:
        """Return a client's part of the first `count` documents of a file; None if the part is empty."""
        context = self.context
        first, last = partition(count, context.task.clients, slot)
        if first == last:
            return None
        path = documents.file  # mapped once for all clients
        if path not in self._mapped:
            self._mapped[path] = DocumentFile(documents)
        bulks: Bulks = (source := BulkSource(documents, first, last, self._bulk_size, self._mapped[path]))
        if self._conflicts is not None:
            seed = f"{context.seed}/{context.task.name}/{slot}/{documents.path.name}"
            bulks = ConflictingBulks(source, first, last - first, self._conflicts, seed)
        return FilePart(self._target(documents), bulks, documents.key, first, first)

    def _target(self, documents: PreparedDocuments) -> BulkTarget:
        context = self.context
        index = _index_of(documents, context.params, self._indices, context.where)
        path = "/_bulk" if index is None else context.dialect.bulk_path(index, documents.target_type)
        return BulkTarget(path, index, documents.has_own_actions)

    def pieces(self, parts: Sequence[FilePart]) -> Iterator[Piece]:
        """Yield the bulks of a client's parts, one part after the other; without end if the operation is looped."""
        while parts:
            for part in parts:
                end = part.first
                for body, documents in part.bulks:
                    end += documents
                    yield Piece(part.target, body, body, documents, part, end)
            if not self._looped:
                return

    def next_streamed(self) -> Piece | None:
        """Return the next bulk of the stream; None after its last one. Raises NotReady if none is unpacked yet."""
        stream = self._stream
        if stream is None or stream.is_over:
            return None
        bulk = stream.take()
        if bulk is None:
            raise NotReady(stream.call_back)
        return Piece(self.streamed[bulk.file], bulk.lines, bulk.lines, bulk.documents)

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._mapped.clear()
        ledger = self.context.ledger
        for index, documents in self.acknowledged.items():
            ledger.acknowledge(index, documents)
        sent = [part for part in self._parts if part.end > part.first]
        for prepared, _ in self._files if sent else ():
            file = prepared.key
            spans = [(part.first, part.end) for part in sent if part.file == file]
            ledger.load(self._target(prepared).index or "", file, spans)


class BulkClientProgram:
    """The bulks of one client: those of the program's stream, then those of the client's parts of files."""

    def __init__(self, program: BulkProgram, parts: Sequence[FilePart], headers: bytes) -> None:
        context, params = program.context, program.context.params
        self._program = program
        self._compress = context.compress and not is_encoded(common_headers(params))
        targets = {*program.streamed, *(part.target for part in parts)}
        self._heads = {target.path: bulk_head(target.path, params, headers, self._compress) for target in targets}
        self._signs = context.signs
        self._streamed = program.next_streamed
        self._pieces = program.pieces(parts)
        self._is_detailed = flag(params.get("detailed-results"))
        self._most_tries = 1 + (whole(params.get("retries_on_429")) or 0)
        self._wait_s = seconds(params, "retry-wait-period", 0.5)
        self.exchanges = (Exchange("", self._render, self._judge, any(map(closes, self._heads.values()))),)

    def draw(self) -> Piece:
        piece = self._streamed() or next(self._pieces, None)
        if piece is None:
            raise Exhausted
        self._prepare(piece)
        return piece

    def _prepare(self, piece: Piece) -> None:
        """Make what is sent of a bulk: compressed and with its digest, before it is due."""
        piece.body = compressed(piece.lines) if self._compress else piece.lines
        if self._signs:
            piece.digest = b"%b%b\r\n" % (DIGEST_HEADER, digest_of(piece.body).encode())

    def _render(self, piece: Piece) -> RequestBytes:
        if piece.part is not None and piece.part.end < piece.end:
            piece.part.end = piece.end
        return (b"%b%d\r\n%b\r\n" % (self._heads[piece.target.path], len(piece.body), piece.digest), piece.body)

    def _judge(self, status: int, body: bytes, piece: Piece) -> Verdict:
        verdict = judge_bulk(status, body, piece.documents)
        if verdict.units:
            self._enter(verdict, body, piece.target)
        if self._is_detailed:
            verdict = replace(verdict, details=_with_results(bulk_details(status, body), verdict.details))
        if verdict.error is not None and piece.tries < self._most_tries:
            verdict = self._try_again(verdict, status, body, piece)
        if verdict.again_after_s is None and verdict.error is None and piece.failed is not None:
            verdict = replace(verdict, error=piece.failed.error, example=piece.failed.example)
        return verdict

    def _enter(self, verdict: Verdict, body: bytes, target: BulkTarget) -> None:
        """Count the new documents of each index."""
        acknowledged = self._program.acknowledged
        if target.index is None or target.has_own_actions:
            acknowledged.update(created_by_index(body))
        elif self._program.may_update and b'"result":' in body:  # a reply may leave items out
            acknowledged[target.index] += body.count(b'"result":"created"')  # quotes within ids are escaped
        else:
            acknowledged[target.index] += int(verdict.units)

    def _try_again(self, verdict: Verdict, status: int, body: bytes, piece: Piece) -> Verdict:
        """Prepare a retry of the temporarily refused documents of a bulk, if there are any, and return the verdict.

        The piece then holds only these documents.
        """
        refused, others = judge_unrefused(status, body, piece.documents)
        if not refused:
            return verdict
        if others.error is not None:
            piece.failed = others
        piece.tries += 1
        piece.keep(refused)
        self._prepare(piece)
        details = verdict.details or Details()
        kept = {name: count for name, count in details.results.items() if name != REFUSED}
        retried = _with_results(replace(details, results={**kept, RETRIED: len(refused)}), others.details)
        return replace(verdict, details=retried, again_after_s=self._wait_s)


def _with_results(details: Details, others: Details | None) -> Details:
    """Return details with the counts of documents of others."""
    return details if others is None else replace(details, results={**details.results, **others.results})
