"""Operations of several pages: what is asked for each page, and when there is no further one."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compiled import ES5, FakeSession, compiled, context, script, session

from esbench.errors import TrackError
from esbench.measure.verdict import Details, Verdict
from esbench.model import Variable
from esbench.operations import builtin_operations
from esbench.operations.pagination import composite_paths, with_composite
from esbench.operations.replies import search_details
from esbench.requests.exchange import RequestFailed

SHARDS = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
ALL: dict[str, Any] = {"query": {"match_all": {}}}
SORTED = {**ALL, "sort": [{"n": "asc"}]}
BUCKETS = {"size": 0, "aggs": {"outer": {"filter": {}, "aggs": {"by": {"composite": {"sources": [{"f": {}}]}}}}}}


def page(hits: int, total: Any = None, took: int = 2, **keys: Any) -> str:
    """A reply with so many hits, as 8.x gives it; the n-th one is sorted by n."""
    found = [{"_index": "orders", "_id": str(n), "_source": {"n": n}, "sort": [n, f"k{n}"]} for n in range(1, hits + 1)]
    told = {} if total is None else {"total": total}
    return json.dumps(
        {
            "took": took,
            "timed_out": False,
            "_shards": SHARDS,
            "hits": {**told, "max_score": None, "hits": found},
            **keys,
        },
        separators=(",", ":"),
    )


def exactly(count: int) -> dict[str, Any]:
    return {"value": count, "relation": "eq"}


def failure(kind: str, params: dict[str, Any]) -> str:
    with pytest.raises(TrackError) as caught:
        compiled(context(kind, params))
    return str(caught.value)


# scroll


@pytest.mark.parametrize("kind", ["search", "scroll-search"])
async def test_a_scroll_asks_for_page_after_page_and_is_cleared(kind: str) -> None:
    first, second = page(2, 9, _scroll_id="s1"), page(2, 9, _scroll_id="s2")
    asked = session(first, second, '{"succeeded":true}')
    params = {"body": ALL, "pages": 2, "results-per-page": 2, "cache": False}
    assert await script(kind, params).run(asked) == Verdict(2)
    assert asked.asked == [
        "GET /orders/_search?request_cache=false&sort=_doc&scroll=10s&size=2",
        "POST /_search/scroll",
        "DELETE /_search/scroll",
    ]
    assert asked.bodies == [ALL, {"scroll": "10s", "scroll_id": "s1"}, {"scroll_id": ["s2"]}]
    assert asked.parts == ["first-page", "next-page", "close"]


async def test_a_scroll_ends_with_its_last_hit() -> None:
    asked = session(page(2, _scroll_id="s1"), page(0, _scroll_id="s1"), '{"succeeded":true}')
    assert await script("search", {"body": ALL, "pages": "all"}).run(asked) == Verdict(2)
    assert asked.bodies[-1] == {"scroll_id": ["s1"]}


async def test_a_scroll_that_is_gone_need_not_be_cleared() -> None:
    asked = session(page(0, _scroll_id="s1"), (404, '{"succeeded":true,"num_freed":0}'))
    assert await script("scroll-search", {"pages": 5}).run(asked) == Verdict(1)


async def test_a_page_that_fails_is_the_failure() -> None:
    partly = page(2, _scroll_id="s1").replace('"failed":0', '"failed":1')
    refused = (500, "{}")
    replies: list[tuple[Any, str]] = [(partly, "shard failures"), (refused, "HTTP 500"), (page(2), "bad response")]
    for reply, kind in replies:
        asked = session(reply)
        with pytest.raises(RequestFailed, match=kind):
            await script("scroll-search", {"pages": 2}).run(asked)
        assert len(asked.asked) == 1


# paginated-search


async def test_each_page_begins_after_the_last_hit_of_the_one_before() -> None:
    asked = session(page(2, exactly(5)), page(2, exactly(5)), page(1, exactly(5)))
    params = {"body": SORTED, "pages": "all", "results-per-page": 2, "request-params": {"preference": "_local"}}
    assert await script("paginated-search", params).run(asked) == Verdict(3)
    assert asked.asked == ["GET /orders/_search?preference=_local"] * 3
    assert asked.bodies == [
        {**SORTED, "size": 2},
        {**SORTED, "size": 2, "search_after": [2, "k2"]},
        {**SORTED, "size": 2, "search_after": [2, "k2"]},
    ]
    assert asked.parts == ["first-page", "next-page", "next-page"]


@pytest.mark.parametrize(
    ("replies", "pages"),
    [
        ([page(2, exactly(2))], 1),  # the total says that there are no more
        ([page(2, {"value": 2, "relation": "gte"}), page(0)], 2),
        ([page(2), page(1)], 2),  # a page that is not full is the last one
        ([page(2, 4), page(2, 4)], 2),  # totals before 7.0
        ([page(2)] * 3, 3),  # as many as were asked for
    ],
)
async def test_there_are_as_many_pages_as_there_are_hits(replies: list[str], pages: int) -> None:
    asked = session(*replies)
    params = {"body": {**SORTED, "size": 2}, "pages": 3}
    assert (await script("paginated-search", params).run(asked)).units == pages
    assert len(asked.asked) == pages


async def test_the_size_of_a_page_may_be_in_the_query_string() -> None:
    for body in (SORTED, {**SORTED, "size": 20}, {**SORTED, "size": 1}):
        asked = session(page(5), page(5), page(2))
        params = {"body": body, "pages": 10, "request-params": {"size": 5}}
        assert await script("paginated-search", params).run(asked) == Verdict(3)


async def test_a_page_without_hits_is_the_last_one() -> None:
    none = Variable("none", "list", {"data": [0]})
    params = {"body": {**SORTED, "size": "$[[none]]"}, "pages": 2}
    assert await script("paginated-search", params, variables=[none]).run(session(page(0))) == Verdict(1)


async def test_values_are_drawn_once_for_all_pages() -> None:
    asked = session(page(10), page(3))
    body = {**SORTED, "query": {"term": {"user": "$[[user]]"}}}
    params = {"body": body, "pages": 2, "routing": "$[[user]]", "headers": {"X-User": "$[[user]]"}}
    users = Variable("user", "list", {"data": [f"u {n}" for n in range(50)]})
    await script("paginated-search", params, variables=[users]).run(asked)
    (first,) = {asked_body["query"]["term"]["user"] for asked_body in asked.bodies}
    assert asked.asked == [f"GET /orders/_search?routing={first.replace(' ', '%20')}"] * 2
    assert [headers["X-User"] for headers in asked.headers] == [first, first]


async def test_hits_without_sort_values_have_no_next_page() -> None:
    unsorted = page(1).replace('"sort":[1,"k1"]', '"x":1')
    with pytest.raises(RequestFailed, match='the body needs a "sort"'):
        await script("paginated-search", {"body": {**SORTED, "size": 1}, "pages": 2}).run(session(unsorted))


# composite-agg


async def test_each_page_begins_after_the_last_bucket_of_the_one_before() -> None:
    def buckets(**keys: Any) -> str:
        return page(0, aggregations={"outer": {"doc_count": 5, "by": {"buckets": [], **keys}}})

    asked = session(buckets(after_key={"f": "a"}), buckets(after_key={"f": "b"}), buckets())
    assert await script("composite-agg", {"body": BUCKETS, "results-per-page": 100}).run(asked) == Verdict(3)
    composites = [body["aggs"]["outer"]["aggs"]["by"]["composite"] for body in asked.bodies]
    sources: list[Any] = [{"f": {}}]
    assert composites == [
        {"sources": sources, "size": 100},
        {"sources": sources, "size": 100, "after": {"f": "a"}},
        {"sources": sources, "size": 100, "after": {"f": "b"}},
    ]
    assert all(body["size"] == 0 for body in asked.bodies)


async def test_a_reply_without_the_aggregation_is_a_failure() -> None:
    with pytest.raises(RequestFailed, match='no aggregation "outer > by"'):
        await script("composite-agg", {"body": BUCKETS}).run(session(page(0, aggregations={"outer": {}})))


def test_a_composite_aggregation_is_found_under_either_word() -> None:
    body = {"aggregations": {"a": {"terms": {}, "aggs": {"b": {"composite": {"size": 1}}}}}}
    assert composite_paths(body) == [("a", "b")]
    changed = with_composite(body, ("a", "b"), {"after": {"k": 1}})
    assert changed["aggregations"]["a"]["aggs"]["b"] == {"composite": {"size": 1, "after": {"k": 1}}}
    assert body["aggregations"]["a"] == {"terms": {}, "aggs": {"b": {"composite": {"size": 1}}}}


# what all of them share


async def test_strange_replies_are_bad_responses() -> None:
    for reply in ("[]", "<html>", '{"hits":{"hits":7}}', "[" * 100_000):
        with pytest.raises(RequestFailed, match="bad response"):
            await script("paginated-search", {"body": SORTED, "pages": 2}).run(session(reply))


async def test_details_are_hits_and_the_time_of_all_pages() -> None:
    asked = session(page(2, exactly(3), took=5), page(1, exactly(3), took=7))
    params = {"body": {**SORTED, "size": 2}, "pages": "all", "detailed-results": True}
    assert await script("paginated-search", params).run(asked) == Verdict(2, details=Details({"hits": 3}, 12))


@pytest.mark.parametrize(
    ("body", "details"),
    [
        (page(1, exactly(7)), Details({"hits": 7}, 2)),
        (page(1, {"value": 10_000, "relation": "gte"}), Details({"hits": 10_000}, 2)),
        (page(1, 7), Details({"hits": 7}, 2)),  # before 7.0
        (page(1), Details({}, 2)),  # track_total_hits: false
        ("{}", Details({}, None)),
    ],
)
def test_the_details_of_one_page_are_read_from_its_beginning(body: str, details: Details) -> None:
    assert search_details(body.encode()) == details


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("search", {"pages": 0}, '"pages" must be a number of them, or "all", not 0'),
        ("search", {"pages": "many"}, '"pages" must be a number of them, or "all", not \'many\''),
        ("scroll-search", {}, 'operation type "scroll-search" needs "pages": how many pages at most, or all'),
        ("paginated-search", {"pages": 2, "body": ALL}, 'the body of a paginated-search needs a "sort"'),
        ("paginated-search", {"pages": 2, "body": "{"}, '"body" is not JSON: it ends too early'),
        ("paginated-search", {"pages": 2, "body": "[]"}, '"body" must be an object'),
        (
            "paginated-search",
            {"pages": 2, "body": {**SORTED, "size": 0}},
            'the "size" of a paginated-search must be at least 1, not 0',
        ),
        (
            "paginated-search",
            {"pages": 2, "body": SORTED, "request-params": {"size": "0"}},
            'the "size" of a paginated-search must be at least 1, not 0',
        ),
        (
            "paginated-search",
            {"pages": 2, "body": SORTED, "with-point-in-time-from": "open"},
            '"with-point-in-time-from" is for the requests of a composite',
        ),
        ("composite-agg", {"body": ALL}, "composite-agg needs one composite aggregation, and its body has none"),
    ],
)
def test_what_has_no_pages_is_told(kind: str, params: dict[str, Any], message: str) -> None:
    assert failure(kind, params).startswith(f'task "t": {message}')


def test_what_has_pages_counts_them() -> None:
    types = builtin_operations()
    assert types.get("search").unit_of({}) == "ops"
    assert types.get("search").unit_of({"pages": 5}) == "pages"
    assert types.get("search").units_per_request({"pages": 5}) == 5
    assert types.get("paginated-search").units_per_request({"pages": "all"}) is None
    assert types.get("composite-agg").units_per_request({}) is None


async def test_older_versions_are_asked_with_their_type() -> None:
    asked = FakeSession(session(page(0, _scroll_id="s")).answers)
    await script("search", {"pages": 1, "type": "doc"}, dialect=ES5).run(asked)
    assert asked.asked[0].startswith("GET /orders/doc/_search?")
