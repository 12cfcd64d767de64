"""The program of the operation type bulk: the requests of its clients and the judging of their replies."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from esbench.corpus.bulk_source import Bulks, BulkSource, ConflictingBulks, conflicts_of, in_turn, partition
from esbench.corpus.prepared import DocumentFile
from esbench.measure.verdict import Details, Verdict
from esbench.operations.base import TaskContext
from esbench.operations.bulk import bulk_size_of, counts_to_send, index_of, query_of, retries_of, select
from esbench.operations.parameters import flag
from esbench.operations.replies import bulk_details, created_by_index, judge_bulk, judge_unrefused
from esbench.requests.compression import GZIP_HEADER, compressed, is_encoded
from esbench.requests.exchange import Body, Exchange, Exhausted, NotReady, RequestBytes
from esbench.requests.programs import common_headers
from esbench.units import parse_duration

if TYPE_CHECKING:
    from esbench.corpus.prepared import PreparedDocuments
    from esbench.corpus.stream import BulkStream

RETRIED = "retried"  # the result of a document that was refused temporarily and sent again


@dataclass(frozen=True)
class Target:
    """The destination of a file's documents: `index` (or a data stream); None if only action lines name it."""

    path: str
    index: str | None
    has_own_actions: bool


@dataclass(slots=True)
class Part:
    """A client's part of a file, from document `first` on; the documents before `end` have been sent."""

    target: Target
    bulks: Bulks
    file: str
    first: int
    end: int


@dataclass(slots=True)
class Piece:
    """A bulk: `lines` are its action lines and documents, `body` the same as sent, maybe compressed.

    It ends at document `end` of its `part`. When a bulk is retried, only the refused documents remain in it;
    `failed` is the verdict on other documents that failed in earlier tries.
    """

    target: Target
    lines: Body
    body: Body
    documents: int
    part: Part | None = None
    end: int = 0
    tries: int = 1
    failed: Verdict | None = None

    def keep(self, positions: Sequence[int]) -> None:
        """Keep only the documents at these positions."""
        lines = bytes(self.lines).split(b"\n")
        self.lines = b"".join(b"%b\n%b\n" % (lines[2 * n], lines[2 * n + 1]) for n in positions)
        self.documents = len(positions)


class BulkProgram:
    """The program of a bulk: each client sends its own part of every file, alternating between the corpora.

    Files that are read as a stream come first; of these a client sends the next bulk when it is free.
    """

    def __init__(self, context: TaskContext) -> None:
        params = context.params
        self._context = context
        self._bulk_size = bulk_size_of(params)
        self._indices = context.indices or context.data_streams
        self._documents = select(params, context.documents, self._indices, context.where)
        self._streamed: tuple[Target, ...] = ()
        self._stream: BulkStream | None = None
        self._counts = counts_to_send(self._documents, params)
        self._conflicts = conflicts_of(params, self._documents, context.where)
        self._looped = flag(params.get("looped"))
        self._acknowledged: dict[str, int] = {}
        self._parts: list[Part] = []
        self._files: dict[Path, DocumentFile] = {}
        self._open_stream()

    def _open_stream(self) -> None:
        """Start the stream of the files that are to be read as one, and wait for its first bulks."""
        counted = zip(self._documents, self._counts, strict=True)
        files = [(documents, count) for documents, count in counted if documents.streamed is not None and count]
        if not files:
            return
        from esbench.corpus.stream import BulkStream

        context = self._context
        self._streamed = tuple(self._target(documents) for documents, _ in files)
        self._stream = BulkStream(files, self._bulk_size, context.task.clients, context.slots)
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
        files = [each for each in zip(self._documents, self._counts, strict=True) if each[0].streamed is None]
        corpora = [list(group) for _, group in groupby(files, key=lambda file: file[0].corpus)]
        parts = [
            part
            for documents, count in in_turn(corpora, slot)
            if (part := self._part(documents, count, slot)) is not None
        ]
        self._parts += parts
        return BulkClientProgram(
            self._context,
            {*self._streamed, *(part.target for part in parts)},
            self._next_streamed,
            self._pieces(parts),
            headers,
            self._acknowledge,
            only_created=self._looped or self._conflicts is not None,
        )

    def _part(self, documents: PreparedDocuments, count: int, slot: int) -> Part | None:
        """Return a client's part of the first `count` documents of a file; None if the part is empty."""
        context = self._context
        first, last = partition(count, context.task.clients, slot)
        if first == last:
            return None
        file = self._mapped(documents)
        bulks: Bulks = (source := BulkSource(documents, first, last, self._bulk_size, file))
        if self._conflicts is not None:
            seed = f"{context.seed}/{context.task.name}/{slot}/{documents.path.name}"
            bulks = ConflictingBulks(source, first, last - first, self._conflicts, seed)
        return Part(self._target(documents), bulks, str(documents.path), first, first)

    def _mapped(self, documents: PreparedDocuments) -> DocumentFile:
        """Return a mapped file, shared by all clients."""
        path = documents.file
        if path not in self._files:
            self._files[path] = DocumentFile(documents)
        return self._files[path]

    def _target(self, documents: PreparedDocuments) -> Target:
        context = self._context
        index = index_of(documents, context.params, self._indices, context.where)
        path = "/_bulk" if index is None else context.dialect.bulk_path(index, documents.target_type)
        return Target(path, index, documents.has_own_actions)

    def _pieces(self, parts: Sequence[Part]) -> Iterator[Piece]:
        while parts:
            for part in parts:
                end = part.first
                for body, documents in part.bulks:
                    end += documents
                    yield Piece(part.target, body, body, documents, part, end)
            if not self._looped:
                return

    def _next_streamed(self) -> Piece | None:
        """Return the next bulk of the stream; None after its last one. Raises NotReady if none is unpacked yet."""
        stream = self._stream
        if stream is None or stream.is_over:
            return None
        bulk = stream.take()
        if bulk is None:
            raise NotReady(stream.call_back)
        return Piece(self._streamed[bulk.file], bulk.lines, bulk.lines, bulk.documents)

    def _acknowledge(self, index: str, documents: int) -> None:
        self._acknowledged[index] = self._acknowledged.get(index, 0) + documents

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
        self._files.clear()
        for index, documents in self._acknowledged.items():
            self._context.ledger.acknowledge(index, documents)
        sent = [part for part in self._parts if part.end > part.first]
        for prepared in self._documents if sent else ():
            if prepared.streamed is None:
                file = str(prepared.path)
                spans = [(part.first, part.end) for part in sent if part.file == file]
                self._context.ledger.load(self._target(prepared).index or "", file, spans)


class BulkClientProgram:
    """The bulks of one client. With `only_created`, only created documents are acknowledged, not updated ones."""

    def __init__(
        self,
        context: TaskContext,
        targets: set[Target],
        streamed: Callable[[], Piece | None],
        pieces: Iterator[Piece],
        headers: bytes,
        acknowledge: Callable[[str, int], None],
        *,
        only_created: bool = False,
    ) -> None:
        params = context.params
        self._acknowledge = acknowledge
        self._only_created = only_created
        self._compress = context.compress and not is_encoded(common_headers(params))
        self._heads = {target.path: self._head(context, target.path, headers) for target in targets}
        self._streamed = streamed
        self._pieces = pieces
        self._is_detailed = flag(params.get("detailed-results"))
        self._most_tries = 1 + retries_of(params)
        wait = params.get("retry-wait-period")
        self._wait_s = 0.5 if wait is None else parse_duration(wait)
        self.exchanges = (Exchange("", self._render, self._judge),)

    def _head(self, context: TaskContext, path: str, headers: bytes) -> bytes:
        params = context.params
        query = query_of(params)
        own = "".join(f"{name}: {value}\r\n" for name, value in common_headers(params).items())
        return (
            f"POST {path}{'?' if query else ''}{urlencode(query)} HTTP/1.1\r\n".encode()
            + headers
            + own.encode("latin-1")
            + (GZIP_HEADER if self._compress else b"")
            + b"Content-Type: application/x-ndjson\r\nContent-Length: "
        )

    def draw(self) -> Piece:
        piece = self._streamed() or next(self._pieces, None)
        if piece is None:
            raise Exhausted
        if self._compress:
            piece.body = compressed(piece.lines)
        return piece

    def _render(self, piece: Piece) -> RequestBytes:
        if piece.part is not None and piece.part.end < piece.end:
            piece.part.end = piece.end
        return (b"%b%d\r\n\r\n" % (self._heads[piece.target.path], len(piece.body)), piece.body)

    def _judge(self, status: int, body: bytes, piece: Piece) -> Verdict:
        verdict = judge_bulk(status, body, piece.documents)
        if verdict.units:
            self._enter(verdict, body, piece.target)
        if self._is_detailed:
            verdict = replace(verdict, details=bulk_details(status, body))
        if verdict.error is not None and piece.tries < self._most_tries:
            verdict = self._try_again(verdict, status, body, piece)
        if verdict.again_after_s is None and verdict.error is None and piece.failed is not None:
            verdict = replace(verdict, error=piece.failed.error, example=piece.failed.example)
        return verdict

    def _enter(self, verdict: Verdict, body: bytes, target: Target) -> None:
        """Report the new documents of each index, by `acknowledge`."""
        if target.index is None or target.has_own_actions:
            for index, documents in created_by_index(body).items():
                self._acknowledge(index, documents)
        elif self._only_created:
            self._acknowledge(target.index, body.count(b'"result":"created"'))  # quotes within ids are escaped
        else:
            self._acknowledge(target.index, int(verdict.units))

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
        piece.body = compressed(piece.lines) if self._compress else piece.lines
        details = verdict.details or Details()
        retried = replace(details, results={**details.results, RETRIED: len(refused)})
        return replace(verdict, details=retried, again_after_s=self._wait_s)
