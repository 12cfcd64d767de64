"""Loadgen's summary of a load: its counts are of requests."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from races import golden_race, task_of

from esbench.features.loadgen.summary import invalid, loadgen_summary, transport_errors
from esbench.record.model import ErrorKind, TaskResult

TASK = replace(task_of(golden_race(), "get-by-id"), requests=20, requests_by_name=(), error_kinds={}, status_codes={})


def twenty(statuses: dict[str, int], **errors: int) -> TaskResult:
    """Twenty requests with replies of these statuses."""
    return replace(TASK, status_codes=statuses, error_kinds={kind: ErrorKind(n, "") for kind, n in errors.items()})


def test_requests_without_a_reply_are_errors_each() -> None:
    assert transport_errors(twenty({"200": 20})) == 0
    refused = twenty({}, refused=20)
    assert transport_errors(refused) == 20
    assert "20 requests finished in" in loadgen_summary(refused)
    mixed = twenty({"200": 15}, invalid=4)
    assert (transport_errors(mixed), invalid(mixed)) == (5, 9)


def test_without_any_reply_only_a_bound_of_the_slowest_request_is_known() -> None:
    said = loadgen_summary(replace(TASK, service_time_ms={"max": inf, "max_at_least": 1000.0}))
    assert "Slowest Request:\t> 1000.000ms" in said
    assert "Fastest" not in said and "Estimated" not in said


def test_a_request_that_timed_out_among_replies_bounds_the_slowest() -> None:
    times = {"mean": 2.0, "min": 1.0, "max": inf, "max_at_least": 1000.0}
    said = loadgen_summary(replace(TASK, service_time_ms=times))
    assert "Fastest Request:\t1.000ms" in said
    assert "Slowest Request:\t> 1000.000ms" in said
    assert "Avg Req Time:\t\t2.000ms" in said
