"""Search operations: of one page, or page after page."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
from esbench.errors.json_faults import json_fault
from esbench.measure.verdict import Details, Verdict
from esbench.operations.base import OperationType, TaskContext
from esbench.operations.drawn import DrawnProgram
from esbench.operations.pagination import (
    SCROLL_KEEP_ALIVE,
    CompositeAggregation,
    Scroll,
    SearchAfter,
    composite_paths,
    page_count,
    with_composite,
)
from esbench.operations.parameters import Parameter, flag, whole
from esbench.operations.replies import judge_search
from esbench.operations.traits import REQUEST
from esbench.requests.programs import Program, Request, TemplateProgram, common_headers
from esbench.requests.templates import RequestTemplate

COMPOSITE_AGGREGATIONS = Feature("composite aggregations", (6, 1), (1, 0))
_PAGES = Parameter("how many pages at most, or all", (int, str))
_PER_PAGE = "results-per-page"
_POINT_IN_TIME = "with-point-in-time-from"
TARGET = {
    "index": Parameter("the index or indices; the track's only one by default"),
    "data-stream": Parameter("the data stream, in place of an index"),
}
_ONE_PAGE = {
    **TARGET,
    "type": Parameter("the mapping type; only before Elasticsearch 7"),
    "body": Parameter("the search body, with variables", (dict, str)),
    "request-params": Parameter("query string parameters, with variables", (dict,)),
    "cache": Parameter("the shard request cache; as the index says by default", (bool,)),
    "routing": Parameter("the routing value", (str, int)),
    _PER_PAGE: Parameter("the number of hits", (int,), least=0),
    "detailed-results": Parameter(
        "count the `hits` and the server's own time (`took`) in rows of their own", (bool,), False
    ),
    "response-compression-enabled": Parameter(
        "false asks for a reply that is not compressed, whatever the client options say", (bool,), True
    ),
}
_IN_POINT_IN_TIME = Parameter("inside a composite: the name of its open-point-in-time")


def target(context: TaskContext) -> str:
    """Return the path that a search-like request addresses: its index, its data stream, or the track's only one."""
    params = context.params
    index = params.get("index") or params.get("data-stream") or context.default_index()
    kind = params.get("type") if context.dialect.typed else None
    return f"/{index}/{kind}" if kind else f"/{index}"


def _template(context: TaskContext, path: str, body: Any, further: Mapping[str, Any] | None = None) -> RequestTemplate:
    params = context.params
    query = dict(params.get("request-params") or {})
    if params.get("cache") is not None:
        query["request_cache"] = str(flag(params["cache"])).lower()
    if params.get("routing") not in (None, ""):
        query["routing"] = params["routing"]
    headers = common_headers(params)
    if not flag(params.get("response-compression-enabled"), True):
        headers["Accept-Encoding"] = "identity"
    return RequestTemplate.of(
        "GET", path, query={**query, **(further or {})}, headers=headers, body=body or None, where=context.where
    )


_TOOK = re.compile(rb'"took":(\d{1,15})')
_TOTAL = re.compile(rb'"hits":\{"total":(?:\{"value":)?(\d{1,18})')


def judge_in_detail(status: int, body: bytes, drawn: object) -> Verdict:
    """Judge a search as `judge_search` does, and add the details (hits, `took`) from the reply's beginning."""
    verdict = judge_search(status, body, drawn)
    return verdict if verdict.error is not None else replace(verdict, details=details_of(body))


def details_of(body: bytes) -> Details:
    """Return the number of matching documents, if the reply counts them, and the server's `took` (ms)."""
    took = _TOOK.search(body, 0, 200)
    begin = body.find(b'"hits":{')  # the first ones: those of documents come later
    total = _TOTAL.match(body, begin) if begin >= 0 else None
    return Details({"hits": int(total[1])} if total else {}, int(took[1]) if took else None)


def _check_pages(params: Mapping[str, Any], where: str) -> None:
    pages = params.get("pages")
    if pages is not None and pages != "all" and (whole(pages) or 0) < 1:
        raise TrackError(f'"pages" must be a number of them, or "all", not {pages!r}', where=where)


def _decoded_body(params: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the search body as an object, decoded if it is text; raises TrackError if it is no JSON object."""
    body = params.get("body") or {}
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            fault = json_fault(body)
            raise TrackError(f'"body" is not JSON: {fault}', where=where, hint=fault.hint) from None
    if not isinstance(body, dict):
        raise TrackError('"body" must be an object', where=where)
    return body


class _ByPages(OperationType):
    """Base of operation types that fetch several pages; a page is a unit."""

    unit = "pages"

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        _check_pages(params, where)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        pages = params.get("pages")
        return 1.0 if pages in (None, "all") else float(whole(pages) or 1)


class Search(_ByPages):
    name = "search"
    traits = REQUEST
    asks_index = True
    doc = (
        "One search request, whose reply must cover all shards in time; with `pages` a scroll, "
        "which counts pages (first-page, next-page and close have rows of their own)."
    )
    unit = "ops"
    parameters = {
        **_ONE_PAGE,
        "pages": Parameter("scroll through so many pages at most, or all", (int, str)),
    }

    def unit_of(self, params: Mapping[str, Any]) -> str:
        return "ops" if params.get("pages") is None else "pages"

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        if params.get("pages") is not None:
            return _scrolled(context)
        size = {} if params.get(_PER_PAGE) is None else {"size": whole(params[_PER_PAGE])}
        template = _template(context, f"{target(context)}/_search", params.get("body"), size)
        judge = judge_in_detail if _detailed(params) else judge_search
        return TemplateProgram(context, [Request(template, judge)])


class ScrollSearch(_ByPages):
    name = "scroll-search"
    traits = REQUEST
    asks_index = True
    doc = "Scroll through a search; first-page, next-page and close have rows of their own."
    parameters = {
        **_ONE_PAGE,
        "pages": Parameter("how many pages at most, or all", (int, str), required=True),
        _PER_PAGE: Parameter("hits per page", (int,), least=1),
    }

    def compile(self, context: TaskContext) -> Program:
        return _scrolled(context)


def _detailed(params: Mapping[str, Any]) -> bool:
    return flag(params.get("detailed-results"))


def _scrolled(context: TaskContext) -> Program:
    params = context.params
    query: dict[str, Any] = {"sort": "_doc", "scroll": SCROLL_KEEP_ALIVE}
    if params.get(_PER_PAGE) is not None:
        query["size"] = whole(params[_PER_PAGE])
    body = _decoded_body(params, context.where)
    template = _template(context, f"{target(context)}/_search", body, query)
    pages = page_count(params["pages"])
    return DrawnProgram(context, template, lambda question: Scroll(question, pages, _detailed(params)))


class _InPointInTime(_ByPages):
    """Base of paging types that can use a point in time, inside a composite only."""

    def check(self, params: Mapping[str, Any], where: str) -> None:
        self.check_part(params, where)
        if params.get(_POINT_IN_TIME) is not None:
            raise TrackError(
                f'"{_POINT_IN_TIME}" is for the requests of a composite',
                where=where,
                hint="which opens the point in time before",
            )

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)


def _paged_template(context: TaskContext, body: dict[str, Any]) -> RequestTemplate:
    if context.params.get(_POINT_IN_TIME) is None:
        return _template(context, f"{target(context)}/_search", body)
    return _template(context, "/_search", body)  # the point in time knows its index


class PaginatedSearch(_InPointInTime):
    name = "paginated-search"
    traits = REQUEST
    doc = "Page through a sorted search by search_after; first-page and next-page have rows of their own."
    parameters = {
        **_ONE_PAGE,
        "body": Parameter('the search body, with a "sort" and variables', (dict, str)),
        "pages": Parameter(_PAGES.doc, _PAGES.kinds, required=True),
        _PER_PAGE: Parameter("hits per page; those of the body by default", (int,), least=1),
        _POINT_IN_TIME: _IN_POINT_IN_TIME,
    }

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        super().check_part(params, where)
        if not _decoded_body(params, where).get("sort") and str(params["pages"]) != "1":
            raise TrackError(
                'the body of a paginated-search needs a "sort"',
                where=where,
                hint="search_after begins after its values",
            )

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        body = _decoded_body(params, context.where)
        if params.get(_PER_PAGE) is not None:
            body = {**body, "size": whole(params[_PER_PAGE])}
        pages, point_in_time = page_count(params["pages"]), params.get(_POINT_IN_TIME)
        template, detailed = _paged_template(context, body), _detailed(params)
        return DrawnProgram(context, template, lambda question: SearchAfter(question, pages, detailed, point_in_time))


class CompositeAgg(_InPointInTime):
    name = "composite-agg"
    traits = REQUEST
    feature = COMPOSITE_AGGREGATIONS
    doc = "Page through the buckets of a composite aggregation; first-page and next-page have rows of their own."
    parameters = {
        **_ONE_PAGE,
        "body": Parameter("the search body, with one composite aggregation and variables", (dict, str), required=True),
        "pages": Parameter("how many pages at most, or all", (int, str), "all"),
        _PER_PAGE: Parameter("buckets per page; those of the aggregation by default", (int,), least=1),
        _POINT_IN_TIME: _IN_POINT_IN_TIME,
    }

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        super().check_part(params, where)
        count = len(composite_paths(_decoded_body(params, where)))
        if count != 1:
            found = "none" if not count else str(count)
            raise TrackError(f"composite-agg needs one composite aggregation, and its body has {found}", where=where)

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        context.dialect.require(COMPOSITE_AGGREGATIONS, context.where)
        body = _decoded_body(params, context.where)
        (path,) = composite_paths(body)
        if params.get(_PER_PAGE) is not None:
            body = with_composite(body, path, {"size": whole(params[_PER_PAGE])})
        pages, point_in_time = page_count(params.get("pages") or "all"), params.get(_POINT_IN_TIME)
        template, detailed = _paged_template(context, body), _detailed(params)
        return DrawnProgram(
            context, template, lambda question: CompositeAggregation(question, pages, detailed, point_in_time, path)
        )


TYPES = (Search(), PaginatedSearch(), ScrollSearch(), CompositeAgg())
