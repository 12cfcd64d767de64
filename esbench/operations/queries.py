"""Queries other than _search: raw requests, several searches at once, ES|QL, SQL, field capabilities, terms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.cluster.replies import counted, decode_json
from esbench.errors import TrackError
from esbench.measure.verdict import GOOD, Details, Verdict
from esbench.operations.base import READ, REQUEST, OperationType, TaskContext
from esbench.operations.drawn import DrawnProgram, Questions, insist
from esbench.operations.parameters import Parameter, flag, whole
from esbench.operations.replies import http_failure, judge_plain, judge_raw_bulk, judge_search, needing
from esbench.requests.exchange import ClientProgram, ScriptSession
from esbench.requests.programs import Judge, Program, Request, TemplateProgram, template_of
from esbench.requests.repeated import Drawing, RepeatedProgram
from esbench.requests.templates import json_text, plain

_QUERY = Parameter("query string parameters", (dict,))
_REPEAT = Parameter(
    "how often the body stands in one request, each time with other values of its variables", (int,), 1, least=1
)
_ONCE = Parameter("names, each for one draw of a variable in the whole request: {batch: uuid}", (dict,))
ESQL = Feature("ES|QL", (8, 11), node="esql")
SQL = Feature("SQL", (6, 3), (1, 0), node="sql")
TERMS_ENUM = Feature("_terms_enum", (7, 14))
_QUERIES = ("/_search", "/_msearch", "/_count")  # whatever their method
_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS")


class RawRequest(OperationType):
    name = "raw-request"
    traits = replace(REQUEST, load=None, reads=None, any_server=True)
    doc = "Any request; good when its status is 2xx or one to ignore, and no document of a `_bulk` was refused."
    parameters = {
        "method": Parameter("the HTTP method", default="GET"),
        "path": Parameter("the path, beginning with /", required=True),
        "body": Parameter("the body, with variables; a list becomes lines of JSON", (dict, str, list)),
        "request-params": _QUERY,
        "ignore": Parameter("statuses that are not failures", (int, list)),
        "repeat": _REPEAT,
        "once": _ONCE,
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        if str(params.get("method") or "GET").upper() not in _METHODS:
            raise TrackError(f'unknown method "{params["method"]}"', where=where, hint=f"one of {', '.join(_METHODS)}")
        if not params["path"].startswith("/"):
            raise TrackError(f'"path" must begin with "/": "{params["path"]}"', where=where)
        if params.get("repeat") and not isinstance(params.get("body"), str | list):
            raise TrackError('"repeat" is about a body of lines: a list, or text', where=where)
        for status in _statuses(params):
            if whole(status) is None:
                raise TrackError(f'"ignore" takes statuses, say 404, not {status!r}', where=where)

    def names(self, params: Mapping[str, Any]) -> Mapping[str, str]:
        return params.get("once") or {}

    def reads(self, params: Mapping[str, Any]) -> bool:
        path = str(params["path"]).partition("?")[0]
        return str(params.get("method") or "GET").upper() in ("GET", "HEAD") or path.endswith(_QUERIES)

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        template = template_of(
            context,
            params.get("method") or "GET",
            params["path"],
            query=params.get("request-params"),
            body=_lines(params.get("body")),
        )
        ignored = {whole(status) for status in _statuses(params)}
        is_bulk = params["path"].partition("?")[0].endswith("_bulk")
        judge = _judge_ignoring(ignored, judge_raw_bulk if is_bulk else judge_plain)
        if params.get("repeat") or params.get("once"):
            return RepeatedProgram(context, [(Request(template, judge), _drawing(params))])
        return TemplateProgram(context, [Request(template, judge)])


def _drawing(params: Mapping[str, Any]) -> Drawing:
    return Drawing(repeat=whole(params.get("repeat")) or 1, once=params.get("once") or {})


def _statuses(params: Mapping[str, Any]) -> list[Any]:
    ignored = params.get("ignore")
    if ignored is None:
        return []
    return ignored if isinstance(ignored, list) else [ignored]


def _lines(body: Any) -> Any:
    """Return a list as lines of JSON, as _bulk and _msearch need them; any other body unchanged."""
    if isinstance(body, list):
        return "".join(f"{line if isinstance(line, str) else json_text(line)}\n" for line in body)
    return body


def _judge_ignoring(statuses: set[int | None], judge: Judge) -> Judge:
    if not statuses:
        return judge

    def ignoring(status: int, body: bytes, drawn: object) -> Verdict:
        return Verdict() if status in statuses else judge(status, body, drawn)

    return ignoring


class MultiSearch(OperationType):
    name = "msearch"
    traits = READ
    asks_index = True
    doc = "Several searches in one request; each reply must cover all shards in time."
    parameters = {
        "index": Parameter("the index of searches that name none; the track's only one by default"),
        "body": Parameter(
            "a header and a search, and so on: [{}, {query: ...}, {index: ...}, {query: ...}], with variables",
            (list,),
            required=True,
        ),
        "repeat": _REPEAT,
        "once": _ONCE,
        "request-params": _QUERY,
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        body = params["body"]
        if not body or len(body) % 2:
            what = f'the "body" of an msearch has {len(body)} lines'
            raise TrackError(what, where=where, hint="two for each search: {} or {index: ...}, and its body")

    def names(self, params: Mapping[str, Any]) -> Mapping[str, str]:
        return params.get("once") or {}

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        template = template_of(
            context,
            "POST",
            f"/{plain(params.get('index') or context.default_index())}/_msearch",
            query=params.get("request-params"),
            headers={"Content-Type": "application/x-ndjson"},
            body=_lines(params["body"]),
        )
        drawing = _drawing(params)
        judge = judge_searches(drawing.repeat * len(params["body"]) // 2)
        return RepeatedProgram(context, [(Request(template, judge), drawing)])


_SUSPECT = re.compile(rb'"error":|"timed_out":true|"failed":[1-9]')


def judge_searches(count: int) -> Judge:
    """Return a judge of replies to `count` searches at once: good if all of them are, read in full only if in doubt."""

    def judge(status: int, body: bytes, drawn: object) -> Verdict:
        if status != 200:
            return http_failure(status, body)
        if _SUSPECT.search(body) is None and body.count(b'"timed_out":false') >= count:
            return GOOD
        try:
            replies = [dict(reply) for reply in decode_json(body)["responses"]]
            verdicts = [_judge_one(reply, drawn) for reply in replies]
        except (ValueError, KeyError, TypeError):
            return Verdict(0, "bad response", body[:400].decode("utf-8", "replace"))
        if len(replies) != count:
            return Verdict(0, "bad response", f"{len(replies)} replies to {count} searches")
        return next((verdict for verdict in verdicts if verdict.error is not None), GOOD)

    return judge


def _judge_one(reply: Mapping[str, Any], drawn: object) -> Verdict:
    written = json.dumps(reply, separators=(",", ":")).encode()  # as a server writes it
    return judge_search(counted(reply.get("status", 200)), written, drawn)


class TermsEnum(OperationType):
    name = "terms-enum"
    traits = READ
    asks_index = True
    feature = TERMS_ENUM
    doc = "The terms of a field that begin with a text, as completion needs them; the reply must be complete."
    parameters = {
        "index": Parameter("the track's only one by default"),
        "field": Parameter("the field, a keyword", required=True),
        "string": Parameter("the beginning of the terms, with variables; all by default"),
        "size": Parameter("how many terms at most", (int,), 10, least=1),
        "case_insensitive": Parameter("letter case does not matter", (bool,), False),
        "index_filter": Parameter("only shards with documents that match this query", (dict,)),
        "body": Parameter("further keys of the body, such as search_after", (dict,)),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        body = dict(params.get("body") or {})
        body |= {name: params[name] for name in _TERMS_BODY if params.get(name) is not None}
        template = template_of(
            context,
            "POST",
            f"/{plain(params.get('index') or context.default_index())}/_terms_enum",
            query=params.get("request-params"),
            body=body,
        )
        return TemplateProgram(context, [Request(template, needing(TERMS_ENUM, context, judge_terms))])


_TERMS_BODY = ("field", "string", "size", "case_insensitive", "index_filter")


def judge_terms(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a reply of _terms_enum: good if its status is 2xx and it calls itself complete."""
    verdict = judge_plain(status, body, drawn)
    if verdict.error is None and body.rfind(b'"complete":true') < 0:
        return Verdict(0, "partial results", body[:400].decode("utf-8", "replace"))
    return verdict


class FieldCaps(OperationType):
    name = "field-caps"
    traits = READ
    doc = "Ask which fields there are, of which types."
    parameters = {
        "index": Parameter("all by default", (str, list)),
        "fields": Parameter("the fields", (str, list), "*"),
        "index_filter": Parameter("only indices with documents that match this query", (dict,)),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        only = params.get("index_filter")
        template = template_of(
            context,
            "POST" if only else "GET",
            f"/{plain(params.get('index') or '_all')}/_field_caps",
            query={"fields": params.get("fields") or "*", **(params.get("request-params") or {})},
            body={"index_filter": only} if only else None,
        )
        return TemplateProgram(context, [Request(template, judge_plain)])


class Esql(OperationType):
    name = "esql"
    traits = READ
    doc = "An ES|QL query, whose results must not be partial."
    feature = ESQL
    profile = False
    parameters = {
        "query": Parameter("the query, with variables", required=True),
        "filter": Parameter("a filter in the query DSL", (dict,)),
        "body": Parameter("further keys of the body", (dict,)),
        "request-params": _QUERY,
        "detailed-results": Parameter(
            "count `documents_found`, `values_loaded` and the server's own time (`took`) in rows of their own",
            (bool,),
            False,
        ),
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        body = {**(params.get("body") or {}), "query": params["query"]}
        if params.get("filter"):
            body["filter"] = params["filter"]
        if self.profile:
            body["profile"] = True
        template = template_of(context, "POST", "/_query", query=params.get("request-params"), body=body)
        judge = _judge_in_detail if flag(params.get("detailed-results")) else judge_esql
        return TemplateProgram(context, [Request(template, needing(ESQL, context, judge))])


class EsqlProfile(Esql):
    name = "esql-profile"
    traits = replace(READ, in_composite=False)
    doc = "An ES|QL query that the server profiles."
    profile = True


def judge_esql(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a reply of ES|QL: good if its status is 2xx and its beginning does not call it partial (from 8.18 on)."""
    verdict = judge_plain(status, body, drawn)
    if verdict.error is None and body.find(b'"is_partial":true', 0, 400) >= 0:
        return Verdict(0, "partial results", body[:400].decode("utf-8", "replace"))
    return verdict


_TOLD = re.compile(rb'"(took|documents_found|values_loaded)":(\d{1,15})')


def _judge_in_detail(status: int, body: bytes, drawn: object) -> Verdict:
    verdict = judge_esql(status, body, drawn)
    if verdict.error is not None:
        return verdict
    told = {name.decode(): int(number) for name, number in _TOLD.findall(body[:400])}
    took_ms = told.pop("took", None)
    return replace(verdict, details=Details(told, took_ms))


class Sql(OperationType):
    name = "sql"
    traits = READ
    feature = SQL
    doc = "An SQL query and, by its cursor, its further pages."
    unit = "pages"
    parameters = {
        "body": Parameter('"query", "fetch_size" and so on, with variables', (dict,), required=True),
        "pages": Parameter("how many pages to fetch; fewer are a failure", (int,), 1, least=1),
        "request-params": _QUERY,
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        if not params["body"].get("query"):
            raise TrackError('the "body" of an sql operation needs a "query"', where=where)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        return float(whole(params.get("pages")) or 1)

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        template = template_of(
            context, "POST", _sql_path(context), query=params.get("request-params"), body=params["body"]
        )
        pages, judge = whole(params.get("pages")) or 1, needing(SQL, context, judge_plain)
        return DrawnProgram(context, template, lambda program: _SqlPages(program, pages, judge))


def _sql_path(context: TaskContext) -> str:
    if context.dialect.distribution == "opensearch":
        return "/_plugins/_sql"
    return "/_xpack/sql" if context.dialect.typed else "/_sql"


class _SqlPages(Questions):
    """The pages of an SQL query: each reply has a cursor for the next page."""

    def __init__(self, program: ClientProgram, pages: int, judge: Judge) -> None:
        super().__init__(program)
        self._pages = pages
        self._judge = judge

    async def play(self, session: ScriptSession, drawn: Any) -> Verdict:
        question = self.question(drawn)
        body = question.body
        for number in range(self._pages):
            with session.part("next-page" if number else "first-page"):
                reply = await session.request("POST", question.target, body=body, headers=question.headers)
                insist(self._judge(reply.status, reply.body, drawn))
            if number + 1 == self._pages:
                break
            cursor = reply.json().get("cursor")
            if not cursor:
                left = self._pages - number - 1
                return Verdict(number + 1, "too few pages", f"the result ended {left} of {self._pages} pages early")
            body = {"cursor": cursor}
        return Verdict(self._pages)


TYPES = (RawRequest(), MultiSearch(), TermsEnum(), FieldCaps(), Esql(), EsqlProfile(), Sql())
