"""Search operations: of one page, or page after page."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import TrackError
from esbench.model import SQL
from esbench.operations.answers import AnswerMapping
from esbench.operations.base import READ, OperationType, TaskContext
from esbench.operations.drawn import DrawnProgram
from esbench.operations.pagination import (
    SCROLL_KEEP_ALIVE,
    CompositeAggregation,
    Pages,
    Scroll,
    SearchAfter,
    composite_paths,
    page_count,
    with_composite,
)
from esbench.operations.parameters import IN_SQL, Parameter, flag, whole
from esbench.operations.replies import judge_in_detail, judge_search, sampling_took
from esbench.requests.programs import Program, Request, TemplateProgram, template_of
from esbench.requests.scoring import ScoredProgram
from esbench.requests.templates import RequestTemplate
from esbench.tables import SCORING, load

COMPOSITE_AGGREGATIONS = Feature("composite aggregations", (6, 1), (1, 0))
_PAGES = "how many pages at most, or all"
_PER_PAGE = "results-per-page"
_POINT_IN_TIME = "with-point-in-time-from"
TARGET = {
    "index": Parameter("the track's only one by default"),
    "data-stream": Parameter("the data stream, in place of an index"),
}
_ONE_PAGE = {
    **TARGET,
    "type": Parameter("the mapping type; only before Elasticsearch 7"),
    "body": Parameter("the search body, with variables", (dict, str)),
    "request-params": Parameter("query string parameters", (dict,)),
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
QUERY = "query"  # the variable of a scored search that is drawn from the file of its queries
DATA = Parameter(
    "vectors: `generate`, or files of `documents`, `queries` and `neighbours`; $[[query]] draws one", (dict,)
)
SCORED = {
    "data": DATA,
    "score": Parameter("how good replies are: `recall@10`, `ndcg@10` or `mrr@10` of the `judgements`"),
    "queries": Parameter("the file from which `$[[query]]` draws: on each line an id, a tab, and a text or a vector"),
    "judgements": Parameter("the file of judgements, as TREC's qrels: on each line query, 0, document, relevance"),
}
_IN_POINT_IN_TIME = Parameter("inside a composite: the name of its open-point-in-time")


def target(context: TaskContext) -> str:
    """Return the path that a search-like request addresses: its index, its data stream, or the track's only one.

    It is "/orders", or "/orders/TYPE" where the server has types. Raises TrackError if there is no such index.
    """
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
    is_plain = not flag(params.get("response-compression-enabled"), True)
    headers = {"Accept-Encoding": "identity"} if is_plain else {}
    method = "POST" if context.signs else "GET"  # AWS may drop the body of a GET, and then refuses its signature
    return template_of(context, method, path, query={**query, **(further or {})}, headers=headers, body=body or None)


def _decoded_body(params: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the search body as an object, decoded if it is text; raises TrackError if it is no JSON object."""
    body = params.get("body") or {}
    if isinstance(body, str):
        try:
            body = json.loads(body)
        except ValueError:
            from esbench.errors.json_faults import json_fault

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
        pages = params.get("pages")
        if pages is not None and pages != "all" and (whole(pages) or 0) < 1:
            raise TrackError(f'"pages" must be a number of them, or "all", not {pages!r}', where=where)

    def units_per_request(self, params: Mapping[str, Any]) -> float | None:
        if self.unit_of(params) == "ops":
            return 1.0
        pages = page_count(params)
        return pages if math.isfinite(pages) else None


class ScrollSearch(_ByPages):
    name = "scroll-search"
    traits = READ
    asks_index = True
    doc = "Scroll through a search."
    parameters = {
        **_ONE_PAGE,
        "pages": Parameter(_PAGES, (int, str), required=True),
        _PER_PAGE: Parameter("hits per page", (int,), least=1),
    }

    def compile(self, context: TaskContext) -> Program:
        body = _decoded_body(context.params, context.where)
        query = {"sort": "_doc", "scroll": SCROLL_KEEP_ALIVE, **_size(context.params)}
        return _paged(context, _template(context, f"{target(context)}/_search", body, query), Scroll)


class Search(ScrollSearch):
    name = "search"
    traits = READ
    doc = "One search request, whose reply must cover all shards in time; with `pages` a scroll, which counts pages."
    unit = "ops"
    parameters = {
        **_ONE_PAGE,
        "pages": Parameter("scroll through this many pages at most, or all", (int, str)),
        **SCORED,
        **IN_SQL,
    }
    files = ("queries", "judgements")

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        AnswerMapping.of(params, where)
        if SQL in params:
            from esbench.requests.sql_text import check_statement

            check_statement(params, where)
        if params.get("score") is None:
            return
        if params.get("pages") is not None:
            raise TrackError('a scroll has no "score"', where=where, hint="leave out pages")
        if params.get("data") is None and (lacks := [name for name in self.files if params.get(name) is None]):
            raise TrackError(f'"score" needs "{lacks[0]}": {SCORED[lacks[0]].doc}', where=where)

    def names(self, params: Mapping[str, Any]) -> Mapping[str, str]:
        return {QUERY: ""} if any(params.get(name) is not None for name in SCORED) else {}

    def unit_of(self, params: Mapping[str, Any]) -> str:
        return "ops" if params.get("pages") is None else "pages"

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        if params.get("pages") is not None:
            return super().compile(context)
        template = _template(context, f"{target(context)}/_search", params.get("body"), _size(params))
        judge = judge_in_detail if flag(params.get("detailed-results")) else sampling_took(judge_search)
        return with_scores(context, Request(template, judge))


def with_scores(context: TaskContext, request: Request) -> Program:
    """Return the program of a search; with `queries`, one that draws them, and scores replies if there is a `score`.

    Raises TrackError if that cannot be, as of a request that draws no query.
    """
    if context.params.get("queries") is None:
        return TemplateProgram(context, [request])
    return ScoredProgram(context, request, load(SCORING)(context, request.template))


def _size(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `size` that a request asks for; empty if the operation does not say it."""
    return {} if params.get(_PER_PAGE) is None else {"size": whole(params[_PER_PAGE])}


def _paged(context: TaskContext, template: RequestTemplate, pages: type[Pages]) -> Program:
    return DrawnProgram(context, template, lambda program: pages(program, context.params))


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

    def template(self, context: TaskContext, body: dict[str, Any]) -> RequestTemplate:
        """Return the template of the search; a point in time knows its index."""
        is_within = context.params.get(_POINT_IN_TIME) is not None
        return _template(context, "/_search" if is_within else f"{target(context)}/_search", body)


class PaginatedSearch(_InPointInTime):
    name = "paginated-search"
    traits = READ
    doc = "Page through a sorted search by search_after."
    parameters = {
        **_ONE_PAGE,
        "body": Parameter('the search body, with a "sort" and variables', (dict, str)),
        "pages": Parameter(_PAGES, (int, str), required=True),
        _PER_PAGE: Parameter("hits per page; those of the body by default", (int,), least=1),
        _POINT_IN_TIME: _IN_POINT_IN_TIME,
    }

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        super().check_part(params, where)
        body = {**_decoded_body(params, where), **_size(params)}
        if not body.get("sort") and str(params["pages"]) != "1":
            raise TrackError(
                'the body of a paginated-search needs a "sort"',
                where=where,
                hint="search_after begins after its values",
            )
        for given in (body, params.get("request-params") or {}):
            if (size := whole(given.get("size"))) is not None and size < 1:
                raise TrackError(f'the "size" of a paginated-search must be at least 1, not {size}', where=where)

    def compile(self, context: TaskContext) -> Program:
        body = {**_decoded_body(context.params, context.where), **_size(context.params)}
        return _paged(context, self.template(context, body), SearchAfter)


class CompositeAgg(_InPointInTime):
    name = "composite-agg"
    traits = READ
    feature = COMPOSITE_AGGREGATIONS
    doc = "Page through the buckets of a composite aggregation."
    parameters = {
        **_ONE_PAGE,
        "body": Parameter("the search body, with one composite aggregation and variables", (dict, str), required=True),
        "pages": Parameter(_PAGES, (int, str), "all"),
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
        context.dialect.require(COMPOSITE_AGGREGATIONS, context.where)
        body = _decoded_body(context.params, context.where)
        (path,) = composite_paths(body)
        body = with_composite(body, path, _size(context.params))
        return _paged(context, self.template(context, body), CompositeAggregation)


TYPES = (Search(), PaginatedSearch(), ScrollSearch(), CompositeAgg())
