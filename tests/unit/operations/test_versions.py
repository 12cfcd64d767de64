"""What a version does not know: left out where the operation does the same without it, and else refused by name."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.cluster.dialect import Dialect
from esbench.errors import LackedFeatureError
from esbench.model import DEFAULT_CLUSTER, Challenge, Operation, Step, Task
from esbench.operations import builtin_operations
from esbench.operations.versions import PARTS, for_versions
from tests.helpers.compiled import ES5, ES6, ES8, OPENSEARCH

ES75, ES710 = Dialect("elasticsearch", (7, 5)), Dialect("elasticsearch", (7, 10))
ES7 = Dialect("elasticsearch", (7, 17))


def challenge(kind: str, params: dict[str, Any], *others: str) -> Challenge:
    operation = builtin_operations().bind(Operation("t", kind, params))
    tasks = tuple(Task(name, operation) for name in ("t", *others))
    return Challenge("c", tuple(Step((task,), 1) for task in tasks))


def fitted(kind: str, params: dict[str, Any], dialect: Dialect) -> tuple[dict[str, Any], tuple[str, ...]]:
    made, told = for_versions(challenge(kind, params), {DEFAULT_CLUSTER: dialect})
    return dict(made.tasks[0].operation.params), told


def refusal(kind: str, params: dict[str, Any], dialect: Dialect, *others: str) -> str:
    with pytest.raises(LackedFeatureError) as caught:
        for_versions(challenge(kind, params, *others), {DEFAULT_CLUSTER: dialect})
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "params", "dialect", "what"),
    [
        ("search", {"request-params": {"max_concurrent_shard_requests": 5}}, Dialect("elasticsearch", (5, 2)), "5.6"),
        ("search", {"request-params": {"ccs_minimize_roundtrips": False}}, ES6, "Elasticsearch 7.0 or later"),
        ("search", {"request-params": {"track_total_hits": "true"}}, ES5, "Elasticsearch 6.0 or later"),
        ("create-index", {"request-params": {"include_type_name": False}}, ES8, "6.7 to 7.x, or OpenSearch 1.0 to 1.x"),
        ("create-index", {"request-params": {"cluster_manager_timeout": "9s"}}, ES8, "OpenSearch 2.0 or later"),
        ("force-merge", {"request-params": {"wait_for_completion": True}}, ES710, "8.1 or later, or OpenSearch 2.7"),
    ],
)
def test_what_a_request_does_not_need_is_left_out(kind: str, params: Any, dialect: Dialect, what: str) -> None:
    (name,) = params["request-params"]
    kept = {**params, "request-params": {"preference": "_local", **params["request-params"]}}
    params, (told,) = fitted(kind, kept, dialect)
    assert params["request-params"] == {"preference": "_local"}
    assert told.startswith(f'task "t": the request parameter "{name}" is left out: {dialect.server} does not know it')
    assert what in told


def test_own_parameters_that_a_version_lacks_are_left_out() -> None:
    params, told = fitted("stop-transform", {"transform-id": "x", "force": True, "wait-for-checkpoint": True}, ES75)
    assert params == {"transform-id": "x", "force": True}
    assert [each.split(" is left out")[0] for each in told] == ['task "t": the parameter "wait-for-checkpoint"']


def test_the_body_of_a_search_keeps_what_the_version_knows() -> None:
    total = {"query": {"match_all": {}}, "track_total_hits": True}
    for body in (total, '{"query": {"match_all": {}}, "track_total_hits": true}'):
        params, told = fitted("search", {"body": body}, ES5)
        assert params["body"] == {"query": {"match_all": {}}}
        assert len(told) == 1
    assert fitted("msearch", {"body": [{}, total]}, ES5)[0]["body"] == [{}, {"query": {"match_all": {}}}]
    assert fitted("search", {"body": total}, ES6) == ({"body": total}, ())
    assert fitted("search", {"body": '{"size": $[[n]]}'}, ES5) == ({"body": '{"size": $[[n]]}'}, ())


def aggregation(**kinds: Any) -> dict[str, Any]:
    return {"body": {"aggs": {"outer": {"terms": {"field": "a"}, "aggs": {"inner": kinds}}}}}


def query(**kinds: Any) -> dict[str, Any]:
    return {"body": {"query": {"bool": {"must": [{"nested": {"path": "a", "query": kinds}}]}}}}


PIT = {"operation-type": "open-point-in-time", "name": "pit", "index": "orders"}
ASYNC = {"operation-type": "submit-async-search", "index": "orders", "body": {}}


@pytest.mark.parametrize(
    ("kind", "params", "dialect", "what"),
    [
        ("reindex", {"body": {}, "request-params": {"max_docs": 5}}, ES6, 'no request parameter "max_docs"'),
        ("bulk", {"bulk-size": 1, "request-params": {"require_data_stream": True}}, ES7, '"require_data_stream"'),
        ("search", {"request-params": {"track_total_hits": False}}, ES5, '"track_total_hits"'),
        ("search", {"request-params": {"search_pipeline": "p"}}, ES8, "that needs OpenSearch 2.7 or later;"),
        ("field-caps", {"index_filter": {"match_all": {}}}, ES75, 'no parameter "index_filter"'),
        ("downsample", {"sampling-method": "last_value"}, ES8, '"sampling-method"'),
        ("force-merge", {"request-params": {"wait_for_completion": False}}, ES710, '"wait_for_completion"'),
        (
            "search",
            {"body": {"runtime_mappings": {}}},
            ES710,
            'Elasticsearch 7.10 has no search key "runtime_mappings"',
        ),
        (
            "search",
            {"body": {"pit": {"id": "x"}}},
            OPENSEARCH,
            "that needs Elasticsearch 7.10 or later, or OpenSearch 2.4",
        ),
        ("search", {"body": '{"knn": {}}'}, ES710, 'no search key "knn"'),
        ("search", aggregation(composite={"sources": []}), ES5, 'no aggregation "composite"'),
        ("search", aggregation(date_histogram={"fixed_interval": "1d"}), ES6, '"date_histogram.fixed_interval"'),
        ("search", aggregation(date_histogram={"interval": "1d"}), ES8, "that needs Elasticsearch 5.0 to 7.x, or Open"),
        ("search", query(intervals={"a": {}}), ES6, 'no query "intervals"'),
        ("msearch", {"body": [{}, query(intervals={})["body"]]}, ES6, 'no query "intervals"'),
        ("composite", {"requests": [{"stream": [PIT]}]}, ES75, "Elasticsearch 7.5 has no points in time"),
        ("composite", {"requests": [ASYNC]}, OPENSEARCH, "OpenSearch 1.3 has no async searches"),
        ("create-component-template", {}, ES75, "has no composable templates"),
        ("create-ilm-policy", {"policy-name": "x", "body": {}}, OPENSEARCH, "has no lifecycle policies"),
        ("esql", {"query": "FROM a"}, OPENSEARCH, "has no ES|QL"),
    ],
)
def test_what_an_operation_needs_is_refused_by_name(kind: str, params: Any, dialect: Dialect, what: str) -> None:
    said = refusal(kind, params, dialect)
    assert said.startswith('task "t": ')
    assert what in said
    assert "; --exclude-tasks leaves the task out)" in said


def test_requests_of_a_composite_are_fitted_too() -> None:
    inner = {"operation-type": "search", "name": "s", "request-params": {"ccs_minimize_roundtrips": True}}
    params, told = fitted("composite", {"requests": [{"stream": [inner]}]}, ES6)
    assert params["requests"][0]["stream"][0]["request-params"] == {}
    assert len(told) == 1


def test_all_tasks_that_cannot_be_raced_are_named_at_once() -> None:
    said = refusal("esql", {"query": "FROM a"}, ES6, "u", "v")
    assert said.endswith(
        "(that needs Elasticsearch 8.11 or later; 3 tasks cannot be raced there: --exclude-tasks=t,u,v)"
    )


def test_names_of_fields_and_aggregations_are_no_parts() -> None:
    body = {"query": {"match": {"intervals": {"query": "x"}}}, "aggs": {"composite": {"terms": {"field": "knn"}}}}
    for given in ({"body": body}, {"body": {"query": {"term": {"pinned": 1}}, "sort": {"rank": "asc"}}}):
        assert fitted("search", given, ES5) == (given, ())


def test_a_part_stands_in_the_table_once_for_each_operation_type() -> None:
    seen = [(part.place, part.name, kind) for part in PARTS for kind in part.types or ("",)]
    assert len(seen) == len(set(seen))
    types = builtin_operations()
    assert {kind for part in PARTS for kind in part.types} <= set(types)
    for part in PARTS:
        if part.place == "parameter":
            assert all(part.name in types.get(kind).parameters for kind in part.types)
