"""Operations on documents: bulk, get, index, delete, read-after-write."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from esbench.errors import TrackError, did_you_mean
from esbench.operations.base import (
    Exchange,
    Exhausted,
    Ledger,
    OperationType,
    Parameter,
    Program,
    TaskContext,
    Verdict,
    flag,
)
from esbench.operations.programs import Judge, Request, TemplateProgram, common_headers, refuse
from esbench.operations.replies import judge_bulk, judge_deleted, judge_found, judge_get, judge_indexed
from esbench.track.templates import Encoding, RequestTemplate, Slot, encode, plain, segment
from esbench.track.variables import Places, loaded_key

if TYPE_CHECKING:
    from esbench.track.bulk_source import BulkSource
    from esbench.track.prepared import PreparedDocuments

_INDEX = Parameter("the index; the track's only one by default")
_ROUTING = Parameter("the routing value", (str, int))
_REFRESH = Parameter("whether the reply comes after a refresh", (str, bool), choices=("true", "false", "wait_for"))
_FRESH = "esbench-fresh-document"  # the variable that an insert's own document is drawn from


class Get(OperationType):
    name = "get"
    doc = "GET one document by its id."
    parameters = {
        "index": _INDEX,
        "id": Parameter("the document's id, usually a variable", (str, int), required=True),
        "routing": _ROUTING,
        "realtime": Parameter("false reads only what was refreshed", (bool,), True),
        "expect-found": Parameter("a missing document is a failure", (bool,), True),
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        judge = judge_found if flag(params.get("expect-found"), True) else judge_get
        return TemplateProgram(context, [Request(_get_template(context, params["id"], params.get("routing")), judge)])


def _get_template(context: TaskContext, document_id: Any, routing: Any) -> RequestTemplate:
    query = _routed(routing)
    if not flag(context.params.get("realtime"), True):
        query["realtime"] = "false"
    return RequestTemplate.of(
        "GET",
        _document_path(context, document_id),
        query=query,
        headers=common_headers(context.params),
        where=context.where,
    )


def _document_path(context: TaskContext, document_id: Any) -> str:
    return f"{context.dialect.document_path(context.default_index())}/{segment(document_id)}"


def _routed(routing: Any) -> dict[str, Any]:
    return {} if routing in (None, "") else {"routing": routing}


class Delete(OperationType):
    name = "delete"
    doc = "Delete one document by its id."
    parameters = {
        "index": _INDEX,
        "id": Parameter("the document's id, usually a variable", (str, int), required=True),
        "routing": _ROUTING,
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        template = RequestTemplate.of(
            "DELETE",
            _document_path(context, params["id"]),
            query=_routed(params.get("routing")),
            headers=common_headers(params),
            where=context.where,
        )
        return WritingProgram(context, [Request(template, judge_deleted)], documents=-1)


class WritingProgram(TemplateProgram):
    """Requests of which the first one writes: what the server acknowledged goes into the ledger."""

    def __init__(
        self,
        context: TaskContext,
        requests: Sequence[Request],
        fresh: FreshDocuments | None = None,
        documents: int = 1,
    ) -> None:
        self._index = context.default_index()
        self._documents = documents
        self._acknowledged = 0
        self._fresh = fresh
        write = Request(requests[0].template, self._counting(requests[0].judge), requests[0].name)
        super().__init__(context, [write, *requests[1:]], {_FRESH: fresh} if fresh else None)

    def _counting(self, judge: Judge) -> Judge:
        def count(status: int, body: bytes, drawn: Any) -> Verdict:
            verdict = judge(status, body, drawn)
            if verdict.error is None and verdict.label != "updated":
                self._acknowledged += self._documents
            return verdict

        return count

    @property
    def feed_waits(self) -> int:
        return self._fresh.feed_waits if self._fresh else 0

    def close(self) -> None:
        super().close()
        self._ledger.acknowledge(self._index, self._acknowledged)
        if self._fresh is not None:
            self._fresh.close(self._ledger)


class FreshDocuments:
    """A source of documents that were never indexed: id, routing value and body belong together."""

    at_send = False

    def __init__(self, context: TaskContext, documents: PreparedDocuments, places: Places) -> None:
        from esbench.track.feed import DocumentFeed

        self._key = f"documents/{documents.corpus}"
        first = context.before.next_values.get(self._key, documents.document_count)
        self._next_index = first
        self._feed = DocumentFeed(documents, first + context.stripe, context.stripes)
        self._places = places
        self._feed.start()

    def draw(self) -> Sequence[bytes]:
        index, document_id, routing, body = self._feed.next()
        self._next_index = index + 1
        values = {"id": document_id, "routing": routing, "body": body}
        return [encode(values[str(field)], encoding) for field, encoding in self._places]

    @property
    def feed_waits(self) -> int:
        return self._feed.waits

    def close(self, ledger: Ledger) -> None:
        ledger.next_values[self._key] = max(self._next_index, ledger.next_values.get(self._key, 0))
        self._feed.close()


_WRITE_PARAMETERS = {
    "index": _INDEX,
    "id": Parameter("the document's id; that of the corpus' document by default", (str, int)),
    "routing": _ROUTING,
    "op-type": Parameter("index or create", default="index", choices=("index", "create")),
    "pipeline": Parameter("an ingest pipeline"),
    "refresh": _REFRESH,
    "body": Parameter("the document, with variables", (dict, str)),
    "corpus": Parameter("whose next documents are written when there is no body; the track's only one by default"),
}


class Index(OperationType):
    name = "index"
    doc = "Write single documents: new ones of a corpus, or a body with variables."
    unit = "docs"
    parameters = _WRITE_PARAMETERS

    def compile(self, context: TaskContext) -> Program:
        template, fresh = _write_template(context)
        return WritingProgram(context, [Request(template, judge_indexed)], fresh)


class ReadAfterWrite(OperationType):
    name = "read-after-write"
    doc = "Index a fresh document and, once it is acknowledged, GET it; each half has a row of its own."
    parameters = {**_WRITE_PARAMETERS, "realtime": Get.parameters["realtime"]}

    def compile(self, context: TaskContext) -> Program:
        template, fresh = _write_template(context)
        requests = [Request(template, judge_indexed, "write"), Request(_read_template(context), judge_found, "read")]
        return WritingProgram(context, requests, fresh)


def _read_template(context: TaskContext) -> RequestTemplate:
    """The GET of the document that the operation has just written."""
    documents = _new_documents(context)
    document_id = _document_id(context.params, documents)
    if document_id is None:
        raise TrackError('read-after-write needs the document\'s "id"', where=context.where)
    return _get_template(context, document_id, _document_routing(context.params, documents))


def _write_template(context: TaskContext) -> tuple[RequestTemplate, FreshDocuments | None]:
    """The request that writes one document, and where its document comes from unless it has a body."""
    params = context.params
    documents = _new_documents(context)
    document_id = _document_id(params, documents)
    query = {key: params[key] for key in ("pipeline", "refresh") if params.get(key) is not None}
    if params.get("op-type") == "create":
        query["op_type"] = "create"
    template = RequestTemplate.of(
        "POST" if document_id is None else "PUT",
        context.dialect.document_path(context.default_index())
        if document_id is None
        else _document_path(context, document_id),
        query={**query, **_routed(_document_routing(params, documents))},
        headers=common_headers(params),
        body=params["body"] if documents is None else Slot(_FRESH, "body", Encoding.RAW),
        where=context.where,
    )
    if documents is None:
        return template, None
    places = list(dict.fromkeys((s.field, s.encoding) for s in template.slots if s.variable == _FRESH))
    return template, FreshDocuments(context, documents, places)


def _new_documents(context: TaskContext) -> PreparedDocuments | None:
    """The corpus whose next documents are written; None when the operation has a body."""
    return _corpus_of(context) if context.params.get("body") is None else None


def _document_id(params: Mapping[str, Any], documents: PreparedDocuments | None) -> Any:
    """The operation's own `id`, or that of the corpus' document; None when neither has one."""
    if params.get("id") is not None:
        return params["id"]
    return f"$[[{_FRESH}.id]]" if documents is not None and documents.id_field is not None else None


def _document_routing(params: Mapping[str, Any], documents: PreparedDocuments | None) -> Any:
    if params.get("routing") not in (None, ""):
        return params["routing"]
    return f"$[[{_FRESH}.routing]]" if documents is not None and documents.routing_field is not None else None


def _corpus_of(context: TaskContext) -> PreparedDocuments:
    wanted = context.params.get("corpus")
    known = {documents.corpus: documents for documents in context.documents}
    if wanted is None and len(known) == 1:
        return next(iter(known.values()))
    if wanted is None:
        raise TrackError('the operation needs a "body" or a "corpus"', where=context.where)
    if wanted not in known:
        raise TrackError(f'unknown corpus "{wanted}"', where=context.where, hint=did_you_mean(str(wanted), known))
    return known[wanted]


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
        "refresh": _REFRESH,
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
        self._share = float(_share_percent(context.params)) / 100
        self._documents = _selected(context)
        self._acknowledged: dict[str, int] = {}

    def client(self, slot: int, headers: bytes) -> BulkClientProgram:
        from esbench.track.bulk_source import BulkSource, partition

        sources: list[tuple[str, BulkSource]] = []
        clients = self._context.task.clients
        for documents in self._documents:
            first, last = partition(self._count(documents), clients, slot)
            if last > first:
                index = _index_of(self._context, documents)
                sources.append((index, BulkSource(documents, first, last, self._bulk_size)))
        if sources:
            start = slot % len(sources)  # clients begin at different corpora
            sources = sources[start:] + sources[:start]
        return BulkClientProgram(self._context, sources, headers, self._acknowledge)

    def _count(self, documents: PreparedDocuments) -> int:
        """How many documents are sent: the first ones, so that readers know which there are."""
        return math.ceil(documents.document_count * self._share)

    def _acknowledge(self, index: str, documents: int) -> None:
        self._acknowledged[index] = self._acknowledged.get(index, 0) + documents

    def close(self) -> None:
        for index, documents in self._acknowledged.items():
            self._context.ledger.acknowledge(index, documents)
        for part in self._documents:
            self._context.ledger.next_values[loaded_key(part.corpus)] = self._count(part)


class BulkClientProgram:
    """The bulks of one client, corpus after corpus."""

    def __init__(
        self, context: TaskContext, sources: Sequence[tuple[str, BulkSource]], headers: bytes, acknowledge: Any
    ) -> None:
        self._acknowledge = acknowledge
        self._heads = {index: self._head(context, index, headers) for index, _ in sources}
        self._slices = ((index, *piece) for index, source in sources for piece in source)
        self.exchanges = (Exchange("", self._render, self._judge),)

    @staticmethod
    def _head(context: TaskContext, index: str, headers: bytes) -> bytes:
        params = context.params
        query = {key: plain(params[key]) for key in ("pipeline", "refresh", "timeout") if params.get(key) is not None}
        path = context.dialect.bulk_path(index) + (f"?{urlencode(query)}" if query else "")
        own = "".join(f"{name}: {value}\r\n" for name, value in common_headers(params).items())
        return (
            f"POST {path} HTTP/1.1\r\n".encode()
            + headers
            + own.encode("latin-1")
            + b"Content-Type: application/x-ndjson\r\nContent-Length: "
        )

    def draw(self) -> tuple[str, memoryview, int]:
        piece = next(self._slices, None)
        if piece is None:
            raise Exhausted
        return piece

    def _render(self, piece: tuple[str, memoryview, int]) -> Sequence[bytes | memoryview]:
        index, body, _ = piece
        return (b"%b%d\r\n\r\n" % (self._heads[index], len(body)), body)

    def _judge(self, status: int, body: bytes, piece: tuple[str, memoryview, int]) -> Verdict:
        verdict = judge_bulk(status, body, piece[2])
        self._acknowledge(piece[0], int(verdict.units))
        return verdict


def _selected(context: TaskContext) -> list[PreparedDocuments]:
    """The document files that a bulk sends, by its `corpora` and `indices`."""
    wanted = _names(context.params.get("corpora"))
    known = {documents.corpus for documents in context.documents}
    for name in wanted:
        if name not in known:
            raise TrackError(f'unknown corpus "{name}"', where=context.where, hint=did_you_mean(name, known))
    indices = _names(context.params.get("indices"))
    selected = [
        documents
        for documents in context.documents
        if (not wanted or documents.corpus in wanted)
        and (not indices or _index_of(context, documents) in indices)
    ]
    if not selected:
        raise TrackError("there are no documents to index", where=context.where, hint="the track needs a corpus")
    return selected


def _index_of(context: TaskContext, documents: PreparedDocuments) -> str:
    return documents.target_index or documents.target_data_stream or context.default_index()


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
