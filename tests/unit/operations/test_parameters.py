"""What every operation type refuses before anything is started."""

from __future__ import annotations

from typing import Any

import pytest
from compiled import request

from esbench.errors import TrackError, UsageError
from esbench.operations import builtin_operations
from esbench.operations.parameters import flag
from esbench.requests.ledger import Ledger

OPERATIONS = builtin_operations()


def failure(kind: str, params: dict[str, Any]) -> str:
    with pytest.raises(TrackError) as caught:
        OPERATIONS.get(kind).check(params, "track.yml:7")
    return str(caught.value)


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("search", {"results-per-page": "ten"}, "\"results-per-page\" must be a whole number, not 'ten'"),
        ("search", {"results-per-page": True}, '"results-per-page" must be a whole number, not True'),
        ("search", {"body": 5}, '"body" must be an object or text, not 5'),
        ("search", {"cache": "yes"}, "\"cache\" must be true or false, not 'yes'"),
        ("search", {"index": ["a", "b"]}, "\"index\" must be text, not ['a', 'b'] (write \"a,b\")"),
        ("search", {"index": 5}, '"index" must be text, not 5 (write "5")'),
        ("search", {"results-per-page": "1.5"}, "\"results-per-page\" must be a whole number, not '1.5' (write 1.5 w"),
        ("search", {"results-per-page": -1}, '"results-per-page" must be at least 0, not -1'),
        ("scroll-search", {"pages": 5, "results-per-page": 0}, '"results-per-page" must be at least 1, not 0'),
        ("sql", {"body": {"query": "x"}, "pages": 0}, '"pages" must be at least 1, not 0'),
        ("composite", {"requests": [], "max-connections": 0}, '"max-connections" must be at least 1, not 0'),
        ("composite", {"requests": {"a": 1}}, '"requests" must be a list, not {\'a\': 1} (write [{"a": 1}])'),
        ("refresh", {"retries": -1}, '"retries" must be at least 0, not -1'),
        ("refresh", {"index": [5]}, '"index" must be text or a list of text, not of 5'),
        ("bulk", {"bulk-size": 5, "corpora": ["a", 5]}, '"corpora" must be text or a list of text, not of 5'),
        ("put-pipeline", {"id": "", "body": {}}, '"id" must not be empty'),
        ("index-stats", {"condition": {"path": "a"}}, '"condition" needs "path" and "expected-value"'),
        (
            "index-stats",
            {"condition": {"path": "a", "expected-vale": 0}},
            '"condition" needs "path" and "expected-value" (is it the "expected-vale" there?)',
        ),
        ("index", {"body": {}, "op-type": "creat"}, '"op-type" cannot be \'creat\' (did you mean "create"?'),
        ("index", {"body": {}, "refresh": "maybe"}, "\"refresh\" cannot be 'maybe' (known: false, true, wait_for)"),
        ("force-merge", {"mode": "background"}, "\"mode\" cannot be 'background' (known: blocking, polling)"),
        ("refresh", {"retries": float("inf")}, '"retries" must be a whole number, not inf'),
        ("refresh", {"retry-until-success": "yes"}, "\"retry-until-success\" must be true or false, not 'yes'"),
        ("refresh", {"retry-wait-period": "soon"}, '"retry-wait-period": "soon" is not a duration (say 30, "500ms"'),
        (
            "refresh",
            {"request-timeout": "5 parsecs"},
            '"request-timeout": "5 parsecs" has no known unit of time (units',
        ),
        ("refresh", {"request-timeout": -1}, '"request-timeout": a duration cannot be negative: -1'),
        ("force-merge", {"poll-period": [1]}, '"poll-period" must be a duration, not [1] (say 30, "500ms"'),
        ("refresh", {"headers": "X-A: b"}, "\"headers\" must be an object, not 'X-A: b'"),
        ("assert-count", {"expected": "many"}, '"expected" must be a number or "acknowledged", not "many"'),
        (
            "reindex",
            {"body": {"source": {"query": {"term": {"user": "$[[user]]"}}}}},
            '"body" of "reindex" cannot hold a variable: $[[user]] (a raw-request can have it)',
        ),
        (
            "run-until",
            {"path": "/$[[index]]", "json-path": "a", "criterion": {"operator": "exists"}},
            '"path" of "run-until" cannot hold a variable: $[[index]]',
        ),
        ("refresh", {"opaque-id": "a\nb"}, r"HTTP cannot send the header 'X-Opaque-Id': 'a\nb'"),
    ],
)
def test_a_parameter_of_the_wrong_kind_is_told(kind: str, params: dict[str, Any], message: str) -> None:
    assert failure(kind, params).startswith(f"track.yml:7: {message}")


@pytest.mark.parametrize(
    ("kind", "params"),
    [
        ("search", {"cache": "True", "index": None, "body": None}),
        ("search", {"cache": True, "an-unknown-one": object()}),
        ("index", {"body": {}, "refresh": True, "op-type": None}),
        ("index", {"body": "{}", "refresh": "false"}),
        ("refresh", {"retries": 3, "retry-until-success": "true", "retry-wait-period": "500ms", "index": ["a", "b"]}),
        ("refresh", {"request-timeout": 7200, "retry-wait-period": 0.5}),
        ("assert-count", {"expected": 5}),
        ("assert-count", {"expected": "5"}),
        ("force-merge", {"max-num-segments": -1, "request-timeout": "2h"}),
        ("cluster-health", {"request-params": {"wait_for_status": "green"}}),
    ],
)
def test_what_tracks_write_is_taken(kind: str, params: dict[str, Any]) -> None:
    OPERATIONS.get(kind).check(params, "track.yml:7")


def test_every_type_has_a_name_and_says_what_it_does() -> None:
    for name in OPERATIONS:
        kind = OPERATIONS.get(name)
        assert kind.name == name
        assert kind.doc.endswith(".")
        assert kind.unit in ("ops", "docs", "pages", "bytes")
        for parameter in kind.parameters.values():
            assert parameter.doc


def test_types_say_whether_they_draw_variables() -> None:
    drawing = """
        bulk-vector-data-set composite composite-agg delete esql esql-profile field-caps get http-requests index
        knn-search msearch open-point-in-time paginated-search raw-request read-after-write scroll-search search sql
        submit-async-search terms-enum vector-search
    """
    assert {name for name in OPERATIONS if OPERATIONS.get(name).draws} == set(drawing.split())


def test_an_unknown_type_is_an_error_with_a_guess() -> None:
    with pytest.raises(UsageError, match=r'unknown operation type "serach" \(did you mean "search"\?'):
        OPERATIONS.get("serach")


@pytest.mark.parametrize(
    ("value", "expected"), [(True, True), (False, False), ("true", True), ("False", False), (None, None)]
)
def test_flags_are_booleans_or_text(value: object, expected: bool | None) -> None:
    for default in (True, False):
        assert flag(value, default) is (default if expected is None else expected)


def test_a_ledger_forgets_an_index_that_was_emptied() -> None:
    ledger = Ledger()
    ledger.acknowledge("a", 5)
    ledger.acknowledge("b", 5)
    ledger.empty("a")
    ledger.acknowledge("a", 2)
    assert ledger.acknowledged == {"a": 2, "b": 5}
    assert ledger.emptied == {"a"}


@pytest.mark.parametrize(("value", "number"), [(70.0, 70), (110.00000000000001, 110), (70.9, 70), ("100", 100)])
def test_whole_numbers_are_read_as_rally_reads_them(value: Any, number: int) -> None:
    for kind, params in (
        ("bulk", {"bulk-size": value, "batch-size": value, "ingest-doc-count": value, "retries_on_429": value}),
        ("refresh", {"retries": value}),
        ("scroll-search", {"pages": value, "results-per-page": value}),
        ("sql", {"body": {"query": "x"}, "pages": value}),
        ("force-merge", {"max-num-segments": value}),
        ("composite", {"requests": [{"operation-type": "search", "results-per-page": value}]}),
    ):
        OPERATIONS.get(kind).check(params, "")
    assert OPERATIONS.get("bulk").units_per_request({"bulk-size": value}) == number
    assert OPERATIONS.get("scroll-search").units_per_request({"pages": value}) == number
    assert OPERATIONS.get("sql").units_per_request({"pages": value}) == number
    assert request("search", {"results-per-page": value})[0] == f"GET /orders/_search?size={number}"


def test_every_whole_number_that_is_not_written_as_one_is_named() -> None:
    asked = {"operation-type": "search", "name": "s", "results-per-page": "10"}
    params = {"requests": [{"stream": [asked]}], "max-connections": 2.0, "retries": 3}
    assert [str(fault) for fault in OPERATIONS.get("composite").tolerated(params)] == [
        '"max-connections" must be a whole number, not 2.0 (a race takes 2)',
        'request "s": "results-per-page" must be a whole number, not \'10\' (a race takes 10)',
    ]
    assert list(OPERATIONS.get("bulk").tolerated({"bulk-size": "100", "ingest-percentage": 50.5})) == []
