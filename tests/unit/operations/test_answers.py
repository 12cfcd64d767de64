"""Answers of reads: which requests have some, and the parts of a reply that two clusters share."""

from __future__ import annotations

import json
from typing import Any

import pytest

from esbench.cluster.dialect import Dialect
from esbench.operations.answers import answer, asked, exact, shortened
from esbench.operations.approximate import NotComparable
from esbench.operations.drawn import RenderedRequest

V7, V6 = Dialect("elasticsearch", (7, 10)), Dialect("elasticsearch", (6, 8))


def request(method: str, target: str, body: Any = None) -> RenderedRequest:
    content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    return RenderedRequest(method, target, {}, content)


def hit(document: str, score: float | None = None, sort: list[Any] | None = None) -> dict[str, Any]:
    return {"_id": document, "_score": score} | ({"sort": sort} if sort else {})


def found(total: Any, *hits: dict[str, Any], **others: Any) -> dict[str, Any]:
    return {"took": 3, "hits": {"total": total, "hits": list(hits)}, **others}


def exact_total(total: int) -> dict[str, Any]:
    return {"value": total, "relation": "eq"}


@pytest.mark.parametrize("target", ["/orders/_doc/17", "/orders/doc/17?routing=3", "/orders/_source/1"])
def test_a_document_is_asked_for_as_it_is(target: str) -> None:
    assert asked(request("GET", target), V7) == (target, None)


@pytest.mark.parametrize(
    ("method", "target"),
    [("POST", "/orders/_doc/17"), ("GET", "/_cat/count/orders"), ("POST", "/_sql"), ("GET", "/orders/_field_caps")],
)
def test_other_requests_have_no_answer(method: str, target: str) -> None:
    with pytest.raises(NotComparable, match="replies of this kind are not compared"):
        asked(request(method, target), V7)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"knn": {"field": "v"}}, "approximate"),
        ({"query": {"function_score": {"random_score": {"seed": 1}}}}, "drawn"),
        ({"query": {"range": {"at": {"gte": "now-1h"}}}}, "time of day"),
        ({"query": {"range": {"at": {"lt": "now"}}}}, "time of day"),
        ({"query": {"query_string": {"query": "at:[now-1h TO now]"}}}, "time of day"),
        ({"slice": {"id": 0, "max": 2}}, "part of a scroll"),
        ({"terminate_after": 100}, "approximate"),
        ({"aggs": {"t": {"significant_terms": {"field": "f"}}}}, "approximate"),
    ],
)
def test_what_two_clusters_may_answer_otherwise_is_not_asked(body: Any, why: str) -> None:
    with pytest.raises(NotComparable, match=why):
        asked(request("GET", "/o/_search", body), V7)


def test_a_search_that_ends_early_is_not_asked() -> None:
    with pytest.raises(NotComparable, match="approximate"):
        asked(request("GET", "/o/_search?terminate_after=100"), V7)


@pytest.mark.parametrize(
    "query", [{"term": {"hybrid": True}}, {"match": {"title": "now"}}, {"match": {"t": "now-ish"}}]
)
def test_words_that_only_look_like_chance_are_asked(query: Any) -> None:
    asked(request("GET", "/o/_search", {"query": query}), V7)


def test_a_search_counts_all_hits_from_7_0_on() -> None:
    search = request("GET", "/orders/_search?size=5", {"query": {"match_all": {}}})
    target, body = asked(search, V7)
    assert target == "/orders/_search?size=5"
    assert json.loads(body or b"") == {"query": {"match_all": {}}, "track_total_hits": True}
    assert asked(search, V6) == ("/orders/_search?size=5", search.body)


@pytest.mark.parametrize("path", ["/o/_search", "/o/doc/_search"])
def test_a_scroll_is_not_opened(path: str) -> None:
    assert asked(request("GET", f"{path}?sort=_doc&scroll=10s&size=9"), V6)[0] == f"{path}?sort=_doc&size=9"


def test_each_search_of_a_multi_search_counts_all_hits() -> None:
    _, body = asked(request("POST", "/o/_msearch", b'{}\n{"size": 1}\n{}\n{}\n'), V7)
    lines = [json.loads(line) for line in (body or b"").split(b"\n") if line]
    assert lines == [{}, {"size": 1, "track_total_hits": True}, {}, {"track_total_hits": True}]


def search(reply: dict[str, Any], target: str = "/o/_search", body: Any = None) -> Any:
    return answer(reply, target, None if body is None else json.dumps(body).encode())["search"]


def test_hits_count_above_the_last_score_whose_order_is_not_defined() -> None:
    reply = found(exact_total(9), hit("a", 4.0), hit("b", 2.0), hit("c", 1.0), hit("d", 1.0))
    assert search(reply) == {"total": 9, "hits": {"a": 1.0, "b": 0.5}, "last": [0.25, 2]}


def test_all_hits_count_where_the_page_holds_all() -> None:
    assert search(found(2, hit("b", 1.0), hit("a", 1.0))) == {"total": 2, "hits": {"a": 1.0, "b": 1.0}}


def test_the_first_group_of_a_later_page_is_as_open_as_its_last() -> None:
    reply = found(exact_total(9), hit("a", 2.0), hit("b", 2.0), hit("c", 1.5), hit("d", 1.0))
    assert search(reply, body={"from": 2}) == {"total": 9, "last": [0.5, 1], "first": [1.0, 2], "hits": {"c": 0.75}}


def test_of_ids_that_the_server_made_only_the_ranks_count() -> None:
    reply = found(exact_total(9), hit("AVeVq2sBx1-2_3abcdef", 4.0), hit("BVeVq2sBx1-2_3abcdef", 2.0))
    assert search(reply) == {"total": 9, "ranks": [1.0, 0.5]}
    assert search(found(exact_total(9), hit("a", 2.0)), body={"collapse": {"field": "x"}})["ranks"] == [1.0]


def test_own_ids_of_20_characters_are_not_those_of_the_server() -> None:
    reply = found(exact_total(9), hit("order-00000000000017", 4.0), hit("order-00000000000018", 2.0))
    assert search(reply)["hits"] == {"order-00000000000017": 1.0}


def test_sort_values_stand_in_place_of_scores() -> None:
    reply = found({"value": 10_000, "relation": "gte"}, hit("a", sort=[3]), hit("b", sort=[5]))
    assert search(reply, body={"sort": "n"}) == {"total": ">=10000", "hits": {"a": [3]}, "last": [[5], 1]}


def test_of_sort_values_scores_are_relative_and_places_are_left_out() -> None:
    reply = found(exact_total(9), hit("a", sort=[8.0, 17]), hit("b", sort=[2.0, 3]))
    assert search(reply, body={"sort": ["_score", {"_doc": "asc"}]}) == {
        "total": 9,
        "hits": {"a": [1.0]},
        "last": [[0.25], 1],
    }


@pytest.mark.parametrize(
    ("target", "body"), [("/o/_search?sort=_doc", {}), ("/o/_search", {"sort": ["_doc"]}), ("/o/_search", {})]
)
def test_of_hits_without_an_order_only_their_number_counts(target: str, body: Any) -> None:
    sort = [7] if "_doc" in f"{target}{body}" else None
    reply = found(exact_total(9), hit("a", sort=sort), hit("b", sort=sort))
    assert search(reply, target, body) == {"total": 9, "count": 2}


def test_parts_of_hits_that_only_one_side_has_are_seen() -> None:
    reply = found(1, {**hit("a", 1.0), "_source": {}, "highlight": {}})
    assert search(reply)["parts"] == ["_source", "highlight"]


def test_parts_of_hits_that_the_page_has_by_chance_do_not_count() -> None:
    tied = [{**hit(each, 1.0), "_source": {}, **more} for each, more in (("b", {"fields": {}}), ("c", {}))]
    reply = found(exact_total(9), {**hit("a", 2.0), "_source": {}}, *tied)
    assert search(reply)["parts"] == ["_source"]
    assert search(found(exact_total(9), *tied)) == {"total": 9, "parts": ["_source"], "last": [1.0, 2], "hits": {}}


def test_aggregations_have_12_digits_and_sampled_figures_are_marked() -> None:
    body = {"aggs": {"by": {"terms": {}, "aggs": {"p": {"percentiles": {}}}}, "n": {"cardinality": {}}}}
    reply = found(
        exact_total(0),
        aggregations={
            "by": {
                "doc_count_error_upper_bound": 0,
                "buckets": [
                    {"key": "x", "doc_count": 3, "p": {"values": {"99.0": 1.23456789, "99.0_as_string": "1.2"}}}
                ],
            },
            "sum": {"value": 123456.7890000001, "value_as_string": "123456.8", "meta": {"a": 1}},
            "n": {"value": 812},
            "top": {"hits": {"total": exact_total(1), "hits": [hit("a", 3.0)]}},
        },
    )
    assert search(reply, body=body)["aggregations"] == {
        "by": {"buckets": [{"key": "x", "doc_count": 3, "p": {"values": {"99.0": {"~": 1.23457}}}}]},
        "sum": {"value": 123456.789},
        "n": {"value": {"~": 812.0}},
        "top": {"~hits": {"total": 1, "hits": {"a": 1.0}}},
    }


def test_texts_of_dates_count_and_unkeyed_percentiles_are_sampled() -> None:
    body = {"aggs": {"p": {"percentiles": {}}, "q": {"percentiles": {}}}}
    aggregations = {
        "max": {"value": 1.6e12, "value_as_string": "2020-09-13T12:26:40.000Z"},
        "percentiles#p": {"values": [{"key": 50.0, "value": 1.5}]},
        "q": {"values": {"50.0": "NaN"}},
    }
    assert search(found(exact_total(0), aggregations=aggregations), body=body)["aggregations"] == {
        "max": {"value": 1.6e12, "value_as_string": "2020-09-13T12:26:40.000Z"},
        "percentiles#p": {"values": [{"key": 50.0, "value": {"~": 1.5}}]},
        "q": {"values": {"50.0": None}},
    }


def test_sort_values_of_the_best_hits_of_a_bucket_are_all_kept() -> None:
    hits = {"total": exact_total(1), "hits": [hit("a", sort=[1, 2])]}
    assert search(found(exact_total(0), aggregations={"top": {"hits": hits}}))["aggregations"] == {
        "top": {"~hits": {"total": 1, "hits": {"a": [1, 2]}}}
    }


def test_a_document_is_its_source_and_an_error_its_type() -> None:
    document = {"_id": "1", "_version": 4, "_seq_no": 9, "found": True, "_source": {"a": 1}}
    assert answer(document, "/o/_doc/1", None) == {"document": {"found": True, "source": {"a": 1}}}
    assert answer({"error": "x"}, "/o/_source/1", None) == {"document": {"found": True, "source": {"error": "x"}}}
    both = {"error": "x", "status": "open"}
    assert answer(both, "/o/_source/1", None) == {"document": {"found": True, "source": both}}
    error = {"error": {"type": "no_such_index", "reason": "node-7 says so"}, "status": 404}
    assert answer(error, "/o/_search", None) == {"error": "no_such_index"}


def test_each_search_of_a_multi_search_has_its_answer() -> None:
    reply = {"took": 1, "responses": [found(exact_total(0)), {"error": {"type": "x"}, "status": 400}]}
    assert answer(reply, "/_msearch", b"{}\n{}\n{}\n{}\n") == [{"search": {"total": 0}}, {"error": "x"}]


def test_partial_results_say_so_and_suggestions_count() -> None:
    suggest = {"s": [{"text": "a", "options": [{"text": "b"}, {"text": "a"}]}]}
    reply = found(exact_total(0), _shards={"failed": 1}, suggest=suggest)
    assert search(reply) == {"total": 0, "suggest": {"s": [["a", "b"]]}, "partial": True}


@pytest.mark.parametrize("reply", [{"hits": {"total": {"relation": "eq"}}}, [], None, {"hits": 3}])
def test_a_reply_of_an_unknown_form_raises_what_the_caller_expects(reply: Any) -> None:
    with pytest.raises((AttributeError, KeyError, TypeError, ValueError)):
        answer(reply, "/o/_search", None)


def long_page(**changes: Any) -> dict[str, Any]:
    hits = {f"document-{number}": 1 - number / 1000 for number in range(300)}
    return {"search": {"total": 500, "hits": hits, "last": [0.1, 1], **changes}}


def test_a_long_answer_is_its_digest_whatever_the_scores() -> None:
    page = long_page()
    short = shortened(page)
    assert len(json.dumps(short)) < 2048
    assert short["search"]["total"] == 500
    assert shortened(long_page(hits=dict.fromkeys(page["search"]["hits"], 0.3333333))) == short
    assert shortened(long_page(hits=dict(list(page["search"]["hits"].items())[1:]))) != short
    assert shortened(long_page(hits={key: [n] for n, key in enumerate(page["search"]["hits"])})) != short
    source = {"document": {"found": True, "source": {"text": "x" * 5000}}}
    assert len(json.dumps(shortened(source))) < 2048
    assert shortened(source) != shortened({"document": {"found": True, "source": {"text": "x" * 5001}}})


def test_fields_of_documents_and_figures_may_have_the_names_of_parts_of_an_answer() -> None:
    def document(**source: Any) -> Any:
        return {"document": {"found": True, "source": {"text": "x" * 5000, **source}}}

    assert shortened(document(first="Ann", hits=1)) != shortened(document(first="Bob", hits=1))
    assert exact({"search": {"aggregations": {"last": {"value": 1}}}}) != exact(
        {"search": {"aggregations": {"last": {"value": 2}}}}
    )


def test_whether_an_answer_is_short_does_not_depend_on_scores() -> None:
    def page(score: float) -> Any:
        return {"search": {"total": 99, "hits": {f"document-{n}": score for n in range(40)}, "last": [0.1, 1]}}

    assert "digest" not in shortened(page(0.5))["search"]["hits"]
    assert "digest" not in shortened(page(0.4999999))["search"]["hits"]


def test_sampled_figures_are_in_no_digest() -> None:
    def buckets(value: float) -> Any:
        many = [{"key": number, "doc_count": 3, "p": {"values": {"99.0": {"~": value}}}} for number in range(200)]
        return {"search": {"total": 9, "aggregations": {"by": {"buckets": many}}}}

    assert shortened(buckets(1.0)) == shortened(buckets(1.0001))
    assert exact(buckets(1.0)) == exact(buckets(2.0))


def test_counts_with_a_stated_error_are_in_no_digest() -> None:
    def terms(count: int, error: int = 5) -> Any:
        many = [{"key": f"key-{number}", "doc_count": count} for number in range(400)]
        found = {"doc_count_error_upper_bound": error, "sum_other_doc_count": 9 * count, "buckets": many}
        return {"search": {"total": 9, "aggregations": {"by": found, "all": {"value": 7}}}}

    short = shortened(terms(3))
    assert "digest" in short["search"]["aggregations"]
    assert shortened(terms(4, error=6)) == short
    assert shortened({"search": {**terms(3)["search"], "total": 8}}) != short
