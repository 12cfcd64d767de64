"""Operations that ask: search, raw-request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esbench.errors import TrackError
from esbench.operations.base import OperationType, Parameter, Program, TaskContext, Verdict, flag
from esbench.operations.programs import Judge, Request, TemplateProgram, common_headers, refuse
from esbench.operations.replies import judge_plain, judge_search
from esbench.track.templates import RequestTemplate


class Search(OperationType):
    name = "search"
    doc = "One search request, whose reply must cover all shards in time."
    parameters = {
        "index": Parameter("the index or indices; the track's only one by default"),
        "body": Parameter("the search body, with variables", (dict, str)),
        "request-params": Parameter("query string parameters, with variables", (dict,)),
        "cache": Parameter("the shard request cache; as the index says by default", (bool,)),
        "routing": Parameter("the routing value", (str, int)),
        "results-per-page": Parameter("the number of hits", (int,)),
        "response-compression-enabled": Parameter("accepted, without effect", (bool,)),
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        refuse(self, params, ("pages", "detailed-results", "data-stream"), context.where)
        query = dict(params.get("request-params") or {})
        if params.get("cache") is not None:
            query["request_cache"] = str(flag(params["cache"])).lower()
        if params.get("routing") not in (None, ""):
            query["routing"] = params["routing"]
        if params.get("results-per-page") is not None:
            query["size"] = params["results-per-page"]
        template = RequestTemplate.of(
            "GET",
            f"/{context.default_index()}/_search",
            query=query,
            headers=common_headers(params),
            body=params.get("body") or None,
            where=context.where,
        )
        return TemplateProgram(context, [Request(template, judge_search)])


_METHODS = ("GET", "POST", "PUT", "DELETE", "PATCH")


class RawRequest(OperationType):
    name = "raw-request"
    doc = "Any request; good when its status is 2xx or one to ignore."
    parameters = {
        "method": Parameter("the HTTP method", default="GET"),
        "path": Parameter("the path, beginning with /", required=True),
        "body": Parameter("the body, with variables; a list becomes lines of JSON", (dict, str, list)),
        "request-params": Parameter("query string parameters, with variables", (dict,)),
        "ignore": Parameter("statuses that are no failure", (int, list)),
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        if str(params.get("method") or "GET").upper() not in _METHODS:
            raise TrackError(f'unknown method "{params["method"]}"', where=where, hint=f"one of {', '.join(_METHODS)}")
        if not params["path"].startswith("/"):
            raise TrackError(f'"path" must begin with "/": "{params["path"]}"', where=where)
        for status in _statuses(params):
            if not str(status).isdigit():
                raise TrackError(f'"ignore" takes statuses, say 404, not {status!r}', where=where)

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        template = RequestTemplate.of(
            params.get("method") or "GET",
            params["path"],
            query=params.get("request-params"),
            headers=common_headers(params),
            body=_lines(params.get("body")),
            where=context.where,
        )
        return TemplateProgram(context, [Request(template, _judge_ignoring({int(s) for s in _statuses(params)}))])


def _statuses(params: Mapping[str, Any]) -> list[Any]:
    ignored = params.get("ignore")
    if ignored is None:
        return []
    return ignored if isinstance(ignored, list) else [ignored]


def _lines(body: Any) -> Any:
    """A list is a body of JSON lines, as _bulk and _msearch want it."""
    import json

    if isinstance(body, list):
        return "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in body)
    return body


def _judge_ignoring(statuses: set[int]) -> Judge:
    if not statuses:
        return judge_plain

    def judge(status: int, body: bytes, drawn: object) -> Verdict:
        return Verdict() if status in statuses else judge_plain(status, body, drawn)

    return judge
