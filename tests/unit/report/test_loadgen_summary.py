"""Loadgen's summary of a load: its counts are of requests, however many a turn has."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from races import golden_race, task_of

from esbench.record.model import ErrorKind, NamedRequest, TaskResult
from esbench.report.loadgen_summary import invalid, loadgen_summary, transport_errors

TASK = replace(task_of(golden_race(), "get-by-id"), requests=10, requests_by_name=(), error_kinds={}, status_codes={})


def turns(statuses: dict[str, int], **errors: int) -> TaskResult:
    """Ten turns of two requests."""
    parts = tuple(NamedRequest(name, 10, 0, service_time_ms={"mean": 2.0, "min": 1.0, "max": 3.0}) for name in "ab")
    kinds = {kind: ErrorKind(count, "") for kind, count in errors.items()}
    return replace(TASK, requests_by_name=parts, status_codes=statuses, error_kinds=kinds)


def test_requests_without_a_reply_are_errors_each() -> None:
    assert transport_errors(turns({"200": 20})) == 0
    refused = turns({}, refused=10)
    assert transport_errors(refused) == 20
    assert "20 requests finished in" in loadgen_summary(refused)
    mixed = turns({"200": 15}, invalid=4)
    assert (transport_errors(mixed), invalid(mixed)) == (5, 9)


def test_a_turn_of_one_request_counts_as_it() -> None:
    assert transport_errors(replace(TASK, status_codes={"200": 7, "500": 1})) == 2


def test_without_any_reply_only_a_bound_of_the_slowest_request_is_known() -> None:
    times = {"max": inf, "max_at_least": 1000.0}
    for task in (
        replace(TASK, service_time_ms=times),
        replace(TASK, requests_by_name=(NamedRequest("a", 10, 10, service_time_ms=times),)),
    ):
        said = loadgen_summary(task)
        assert "Slowest Request:\t> 1000.000ms" in said
        assert "Fastest" not in said and "Estimated" not in said


def test_a_request_that_timed_out_among_replies_bounds_the_slowest() -> None:
    replied = NamedRequest("a", 10, 0, service_time_ms={"mean": 2.0, "min": 1.0, "max": 3.0})
    late = NamedRequest("b", 10, 10, service_time_ms={"max": inf, "max_at_least": 1000.0})
    said = loadgen_summary(replace(TASK, requests_by_name=(replied, late)))
    assert "Fastest Request:\t1.000ms" in said
    assert "Slowest Request:\t> 1000.000ms" in said
    assert "Avg Req Time:\t\t2.000ms" in said
