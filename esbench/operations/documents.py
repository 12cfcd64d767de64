"""Operations on single documents: get, index, delete, read-after-write."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from esbench.corpus.prepared import PreparedDocuments, documents_of, mean_document_bytes
from esbench.errors import TrackError
from esbench.measure.verdict import Verdict
from esbench.model import SQL, Index
from esbench.operations.answers import AnswerMapping
from esbench.operations.base import MEASURED, READ, OperationType, TaskContext
from esbench.operations.parameters import IN_SQL, REFRESH, Parameter, flag
from esbench.operations.replies import judge_deleted, judge_found, judge_get, judge_indexed
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Judge, Program, Request, TemplateProgram, template_of
from esbench.requests.templates import Encoding, RequestTemplate, Slot, encode_all, segment
from esbench.requests.variables import Places

_INDEX = Parameter("the track's only one by default")
_ROUTING = Parameter("the routing value", (str, int))
_FRESH = "esbench-fresh-document"  # the variable that an insert's own document is drawn from


class Get(OperationType):
    name = "get"
    traits = READ
    asks_index = True
    doc = "GET one document by its id."
    parameters = {
        "index": _INDEX,
        "id": Parameter("the document's id, usually a variable", (str, int), required=True),
        "routing": _ROUTING,
        "realtime": Parameter("false reads only what was refreshed", (bool,), True),
        "expect-found": Parameter("a missing document is a failure", (bool,), True),
        **IN_SQL,
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        AnswerMapping.of(params, where)
        if SQL in params:
            from esbench.requests.sql_text import check_statement

            check_statement(params, where)

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        judge = judge_found if flag(params.get("expect-found"), True) else judge_get
        return TemplateProgram(context, [Request(_get_template(context, params["id"], params.get("routing")), judge)])


def _get_template(context: TaskContext, document_id: Any, routing: Any) -> RequestTemplate:
    query = _routed(routing)
    if not flag(context.params.get("realtime"), True):
        query["realtime"] = "false"
    return template_of(context, "GET", _document_path(context, document_id), query=query)


def _document_path(context: TaskContext, document_id: Any) -> str:
    path = context.dialect.document_path(context.default_index())
    return path if document_id is None else f"{path}/{segment(document_id)}"


def _routed(routing: Any) -> dict[str, Any]:
    return {} if routing in (None, "") else {"routing": routing}


class Delete(OperationType):
    name = "delete"
    traits = MEASURED
    asks_index = True
    doc = "Delete one document by its id."
    parameters = {
        "index": _INDEX,
        "id": Parameter("the document's id, usually a variable", (str, int), required=True),
        "routing": _ROUTING,
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        path, query = _document_path(context, params["id"]), _routed(params.get("routing"))
        template = template_of(context, "DELETE", path, query=query)
        return WritingProgram(context, [Request(template, judge_deleted)], documents=-1)


class WritingProgram(TemplateProgram):
    """A program whose first request writes: `close` enters acknowledged documents in the ledger; updates do not count.

    `documents`: the change in the number of documents per write, -1 for a delete. `fresh`: the source of the documents,
    which `close` also closes; None if the request's template has the body.
    """

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
    """A source of documents that were never indexed: each draw has the id, routing value and body of one document.

    A draw returns encoded values, one for each of `places`: (field, encoding) with the field id, routing or body.
    """

    at_send = False

    def __init__(self, context: TaskContext, documents: PreparedDocuments, places: Places) -> None:
        from esbench.corpus.feed import document_feed

        self._key = f"documents/{documents.corpus}"
        self._first_index = first = context.before.next_values.get(self._key, documents.count_of_all)
        self._last_index = first + context.stripe - context.stripes
        self._step = context.stripes
        self._feed = document_feed(documents, first + context.stripe, context.stripes)
        self._draws = chain.from_iterable(self._blocks(places))
        self._feed.start()

    def _blocks(self, places: Places) -> Iterator[Iterator[tuple[bytes, ...]]]:
        """Yield, block by block, the encoded values of each document for the places of the template."""
        columns = ["id", "routing", "body"]
        wanted = [(columns.index(str(field)), encoding) for field, encoding in places]
        while True:
            values = list(zip(*self._feed.take(), strict=True))
            yield zip(*(encode_all(values[column], encoding) for column, encoding in wanted), strict=True)

    def draw(self) -> Sequence[bytes]:
        self._last_index += self._step
        return next(self._draws)

    @property
    def feed_waits(self) -> int:
        return self._feed.waits

    def close(self, ledger: Ledger) -> None:
        ledger.advance(self._key, max(self._first_index, self._last_index + 1))
        self._feed.close()


_WRITE_PARAMETERS = {
    "index": _INDEX,
    "id": Parameter("the document's id; that of the corpus' document by default", (str, int)),
    "routing": _ROUTING,
    "op-type": Parameter("index or create", default="index", choices=("index", "create")),
    "pipeline": Parameter("an ingest pipeline"),
    "refresh": REFRESH,
    "body": Parameter("the document, with variables", (dict, str)),
    "corpus": Parameter("whose next documents are written when there is no body; the track's only one by default"),
}


class IndexDocument(OperationType):
    name = "index"
    traits = replace(MEASURED, sends_corpora=True)
    asks_index = True
    doc = "Write single documents: new ones of a corpus, or a body with variables."
    unit = "docs"
    parameters = _WRITE_PARAMETERS

    def has_known_bytes(self, params: Mapping[str, Any]) -> bool:
        return params.get("body") is None

    def request_bytes(
        self,
        params: Mapping[str, Any],
        documents: Sequence[PreparedDocuments],
        indices: Sequence[Index],
        where: str,
    ) -> float:
        return mean_document_bytes(corpus_of(params, documents, where))

    def compile(self, context: TaskContext) -> Program:
        template, fresh = _write_template(context)
        return WritingProgram(context, [Request(template, judge_indexed)], fresh)


class ReadAfterWrite(OperationType):
    name = "read-after-write"
    traits = replace(MEASURED, sends_corpora=True)
    asks_index = True
    doc = "Index a fresh document and, once it is acknowledged, GET it; each half has its own row."
    parameters = {**_WRITE_PARAMETERS, "realtime": Get.parameters["realtime"]}

    def compile(self, context: TaskContext) -> Program:
        template, fresh = _write_template(context)
        requests = [Request(template, judge_indexed, "write"), Request(_read_template(context), judge_found, "read")]
        return WritingProgram(context, requests, fresh)


def _read_template(context: TaskContext) -> RequestTemplate:
    """Return the template of the GET for the document that the operation has just written."""
    documents = _new_documents(context)
    document_id = _given_or_drawn(context, documents, "id")
    if document_id is None:
        raise TrackError('read-after-write needs the document\'s "id"', where=context.where)
    return _get_template(context, document_id, _given_or_drawn(context, documents, "routing"))


def _write_template(context: TaskContext) -> tuple[RequestTemplate, FreshDocuments | None]:
    """Return the template of the request that writes one document, and the source of its documents.

    The source is None if the operation has a body.
    """
    params = context.params
    documents = _new_documents(context)
    document_id = _given_or_drawn(context, documents, "id")
    query = {key: params[key] for key in ("pipeline", "refresh") if params.get(key) is not None}
    if params.get("op-type") == "create":
        query["op_type"] = "create"
    template = template_of(
        context,
        "POST" if document_id is None else "PUT",
        _document_path(context, document_id),
        query={**query, **_routed(_given_or_drawn(context, documents, "routing"))},
        body=params["body"] if documents is None else Slot(_FRESH, "body", Encoding.RAW),
    )
    if documents is None:
        return template, None
    places = list(dict.fromkeys((s.field, s.encoding) for s in template.slots if s.variable == _FRESH))
    return template, FreshDocuments(context, documents, places)


def _new_documents(context: TaskContext) -> PreparedDocuments | None:
    """Return the corpus whose next documents are written; None if the operation has a body."""
    params = context.params
    return corpus_of(params, context.documents, context.where) if params.get("body") is None else None


def _given_or_drawn(context: TaskContext, documents: PreparedDocuments | None, name: str) -> Any:
    """Return the operation's `id` or `routing`, else the variable for that of the corpus' document; None without it."""
    given = context.params.get(name)
    if given is not None and (name, given) != ("routing", ""):
        return given
    if documents is None:
        return None
    field = documents.id_field if name == "id" else documents.routing_field
    return None if field is None else f"$[[{_FRESH}.{name}]]"


def corpus_of(params: Mapping[str, Any], documents: Sequence[PreparedDocuments], where: str) -> PreparedDocuments:
    """Return the corpus whose documents an operation writes. Raises TrackError if it names none, or an unknown one."""
    wanted = params.get("corpus")
    if wanted is None and not documents:
        raise TrackError('the operation needs a "body" or a "corpus"', where=where)
    return documents_of(documents, None if wanted is None else str(wanted), where)


TYPES = (Get(), IndexDocument(), Delete(), ReadAfterWrite())
