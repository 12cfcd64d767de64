"""What failed requests do to a race: --on-error, --max-error-rate, non-fatal tasks; and that no secret is kept."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import Driver, NullServerFactory, all_errors, all_requests, bulk, documents, get, task
from racing import Races

from esbench.load.coordinator import StepFailed
from esbench.null_server import NullServer
from esbench.record.model import TaskResult

REJECTED = {"reply": {"status": 429}}
BUSY = {"reply": {"status": 503}}


@pytest.fixture(scope="module")
def servers(null_servers: NullServerFactory) -> NullServer:
    return null_servers(log=True)


@pytest.fixture(scope="module")
def aborting(tmp_path_factory: pytest.TempPathFactory, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver"), workers=2, on_error="abort") as driver:
        yield driver


@pytest.fixture(scope="module")
def one_percent(tmp_path_factory: pytest.TempPathFactory, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver"), workers=2, max_error_ratio=0.01) as driver:
        yield driver


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path)
    yield races
    races.end()


def failed(driver: Driver, server: NullServer, *tasks: Any, **keys: Any) -> tuple[str, tuple[TaskResult, ...]]:
    """The error of a step that was ended by its failures, and its results."""
    with pytest.raises(StepFailed) as caught:
        driver.step(server.url, *tasks, **keys)
    assert "\n" not in str(caught.value.error)
    return str(caught.value.error), caught.value.results


# --on-error=abort


@pytest.mark.parametrize("keys", [{"clients": 8}, {"clients": 8, "rate": 500}], ids=["closed", "open"])
def test_an_abort_is_over_within_a_second_and_names_the_request(
    server: NullServer, aborting: Driver, keys: dict[str, Any]
) -> None:
    delay = {"delay": {"type": "constant", "ms": 2}}
    server.use({"rules": [{"path": "_doc", **delay}, {"path": "_doc", "first": 200, "last": 200, **REJECTED}]})
    error, (result,) = failed(aborting, server, get(time_period_s=60, **keys))
    ended_ns = time.perf_counter_ns()
    log = server.log()
    (refused,) = [line for line in log if line.status == 429]
    assert refused.answered_ns is not None
    assert ended_ns - refused.answered_ns < 1e9
    assert max(line.received_ns for line in log) - refused.answered_ns < 0.25e9  # and asks for nothing more at once
    assert error == (
        f'task "get": HTTP 429 es_rejected_execution_exception for {refused.method} {refused.path}: '
        "rejected execution of coordinating operation (--on-error=continue races on and counts errors)"
    )
    assert (result.errors, result.requests) == (1, len(log))


def test_an_abort_waits_half_a_second_for_what_hangs(server: NullServer, aborting: Driver) -> None:
    rules = [{"path": "_doc", "last": 3, "fault": "hang"}, {"path": "_doc", "first": 50, **REJECTED}]
    server.use({"rules": rules})
    _, (result,) = failed(aborting, server, get(clients=5, time_period_s=60, rate=300))
    ended_ns = time.perf_counter_ns()
    refused = min(line.answered_ns for line in server.log() if line.status == 429 and line.answered_ns is not None)
    assert 0.4e9 < ended_ns - refused < 1e9
    kinds = {kind: failure.count for kind, failure in result.error_kinds.items()}
    assert kinds.pop("cancelled") == 3
    assert list(kinds) == ["HTTP 429 es_rejected_execution_exception"]
    cancelled = result.error_kinds["cancelled"]
    assert cancelled.request.startswith("GET /orders/_doc/")
    assert cancelled.status is None


@pytest.mark.parametrize(
    ("kind", "params", "rule", "said"),
    [
        (
            "get",
            {"id": "$[[any_id]]"},
            {"fault": "cut-before"},
            r"connection lost for GET /orders/_doc/\d+: the server",
        ),
        (
            "get",
            {"id": 7, "request-timeout": 0.2},
            {"fault": "hang"},
            r"timeout for GET /orders/_doc/7: .* within 0.2 s",
        ),
        ("get", {"id": 7}, {"merge": {"found": False}}, r"not found for GET /orders/_doc/7 \(HTTP 200\): "),
        ("get", {"id": "a b/ü"}, REJECTED, r"HTTP 429 es_rej\w+ for GET /orders/_doc/a%20b%2F%C3%BC: rejected"),
        (
            "search",
            {"body": {}},
            {"merge": {"timed_out": True}},
            r"search timed out for GET /orders/_search \(HTTP 200\):",
        ),
        ("index", {"id": 7, "routing": "u", "body": {}}, BUSY, r"HTTP 503 \w+ for PUT /orders/_doc/7\?routing=u: "),
        ("refresh", {}, BUSY, r"HTTP 503 \w+ for POST /orders/_refresh: "),
        ("assert-count", {"expected": 3}, {}, r'wrong count for GET /orders/_count \(HTTP 200\): index "orders" holds'),
    ],
)
def test_the_error_of_an_abort_says_what_was_asked_and_what_was_answered(
    server: NullServer, aborting: Driver, kind: str, params: dict[str, Any], rule: dict[str, Any], said: str
) -> None:
    aborting.run(server.url, task("index", {"id": 1, "body": {}}))  # the index is there
    server.use({"rules": [{"path": "orders", **rule}]})
    error, _ = failed(aborting, server, task(kind, params, name="it"))
    assert re.match(f'task "it": {said}', error), error


def test_a_race_may_be_aborted_by_its_first_request_of_all(server: NullServer, aborting: Driver) -> None:
    server.use({"rules": [REJECTED]})
    error, (result,) = failed(aborting, server, get(clients=16, rate=2_000, time_period_s=60))
    assert error.startswith('task "get": HTTP 429')
    assert result.errors == result.requests > 0


def test_an_abort_ends_parallel_tasks_too(server: NullServer, aborting: Driver) -> None:
    server.use({"rules": [{"path": "_search", "first": 10, "reply": {"status": 503}}]})
    search = task("search", {"body": {"query": {"match_all": {}}}}, time_period_s=60, think_time_s=0.01)
    begin = time.monotonic()
    _, results = failed(aborting, server, get(rate=100, clients=4, time_period_s=60), search)  # on a worker each
    assert time.monotonic() - begin < 3
    assert [(result.name, result.errors) for result in results] == [("get", 0), ("search", 1)]
    assert sum(result.requests for result in results) == server.counts().requests


# --on-error=continue, and tasks whose failures are non-fatal


@pytest.mark.parametrize("fault", [REJECTED, {"fault": "cut-before"}, {"fault": "garbage"}])
def test_a_race_that_goes_on_goes_on_whatever_fails(
    server: NullServer, tmp_path: Path, event_loop_name: str, fault: dict[str, Any]
) -> None:
    server.use({"rules": [{"path": "_doc", **fault}]})
    with Driver(tmp_path, on_error="continue") as driver:
        result = driver.run(server.url, get(clients=2, requests=60))
        assert (result.errors, result.units, result.error_rate_ratio) == (60, 0, 1.0)
        server.use({})
        assert driver.run(server.url, get(requests=5)).errors == 0


def test_a_failed_assertion_ends_even_a_race_that_goes_on(server: NullServer, tmp_path: Path) -> None:
    with Driver(tmp_path, on_error="continue") as driver:
        driver.run(server.url, task("index", {"id": 1, "body": {}}))
        error, _ = failed(driver, server, task("assert-count", {"expected": 3_000_000}))
    assert "wrong count" in error


@pytest.mark.parametrize(
    ("fault", "aborts"),
    [
        (REJECTED, False),
        ({"fault": "garbage"}, False),
        ({"fault": "hang"}, False),
        ({"fault": "cut-before"}, True),
        ({"fault": "reset-inside"}, True),
    ],
)
def test_a_non_fatal_task_is_ended_by_its_connection_only(
    server: NullServer, aborting: Driver, fault: dict[str, Any], aborts: bool
) -> None:
    server.use({"rules": [{"path": "_doc", "every": 10, **fault}]})
    params = {"request-timeout": 0.1}
    tolerant = get(requests=40, clients=2, params=params, ignore_response_error_level="non-fatal")
    if aborts:
        error, _ = failed(aborting, server, tolerant)
        assert error.startswith('task "get": connection lost for GET')
    else:
        assert aborting.run(server.url, tolerant).errors == 4


# --max-error-rate


@pytest.mark.parametrize("keys", [{"clients": 4}, {"clients": 4, "rate": 500}, {"clients": 600}], ids=str)
def test_too_many_failures_end_the_race(server: NullServer, one_percent: Driver, keys: dict[str, Any]) -> None:
    """600 clients are split between two workers."""
    server.use({"rules": [{"path": "_doc", "every": 20, **REJECTED}]})
    begin = time.monotonic()
    error, (result,) = failed(one_percent, server, get(time_period_s=60, **keys))
    assert time.monotonic() - begin < 4
    said = re.fullmatch(
        r'task "get": ([\d,]+) of ([\d,]+) requests failed \((.*)%\), most with HTTP 429 es_rejected\w+'
        r" for GET /orders/_doc/\d+: rejected execution of coordinating operation \(--max-error-rate=1%\)",
        error,
    )
    assert said is not None, error
    failures, requests = (int(number.replace(",", "")) for number in said.groups()[:2])
    assert requests >= 100
    assert float(said[3]) == pytest.approx(100 * failures / requests, abs=0.01)
    assert 4 < float(said[3]) < 6
    assert result.requests == server.counts().requests
    assert result.errors >= failures


def test_few_failures_do_not_end_the_race(server: NullServer, one_percent: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "every": 200, **REJECTED}]})
    result = one_percent.run(server.url, get(rate=400, clients=4, time_period_s=2.2))
    assert result.errors == 4
    assert result.error_rate_ratio is not None
    assert result.error_rate_ratio < 0.01


def test_early_failures_are_forgiven_until_there_are_a_hundred_requests(
    server: NullServer, one_percent: Driver
) -> None:
    """One among the 90 of the first second is more than one percent."""
    server.use({"rules": [{"path": "_doc", "last": 1, **REJECTED}]})
    result = one_percent.run(server.url, get(rate=90, clients=2, requests=200))
    assert (result.requests, result.errors) == (200, 1)


def test_the_warmup_counts_too(server: NullServer, one_percent: Driver) -> None:
    server.use({"rules": [{"path": "_doc", **REJECTED}]})
    error, (result,) = failed(one_percent, server, get(rate=200, warmup_time_s=30, time_period_s=30))
    assert "(100.00%)" in error
    assert all_errors(result) == all_requests(result) < 1_000


@pytest.mark.parametrize("requests", [1, 50])
def test_a_short_task_is_judged_at_its_end(server: NullServer, one_percent: Driver, requests: int) -> None:
    server.use({"rules": [{"path": "_doc", "last": 1, **REJECTED}]})
    error, (result,) = failed(one_percent, server, get(requests=requests))
    assert f'task "get": 1 of {requests} requests failed' in error
    assert result.requests == requests  # and not before


def test_each_task_of_a_parallel_is_judged_by_itself(server: NullServer, one_percent: Driver) -> None:
    server.use({"rules": [{"path": "_search", **BUSY}]})
    search = task("search", {"body": {}}, rate=150, clients=2, time_period_s=60)
    error, results = failed(one_percent, server, get(rate=2_000, clients=4, time_period_s=60), search)
    assert error.startswith('task "search": ')
    assert [result.errors > 0 for result in results] == [False, True]


def test_documents_of_a_bulk_do_not_count_but_its_requests(
    server: NullServer, one_percent: Driver, tmp_path: Path
) -> None:
    server.use({"rules": [{"path": "_bulk", "every": 3, "bulk_errors": {"share": 0.01}}]})
    error, _ = failed(one_percent, server, bulk(100), docs=documents(tmp_path, 30_000))
    assert "bulk item 429 es_rejected_execution_exception for POST /orders/_bulk (HTTP 200): " in error


# the whole race


def race_files(races: Races) -> str:
    return "".join(file.read_text() for file in races.home.rglob("*") if file.is_file())


def test_a_race_beyond_its_error_rate_fails_and_keeps_its_record(null_server: NullServerFactory, races: Races) -> None:
    server = null_server({"rules": [{"path": "_search", **BUSY}]})
    outcome = races.run(server, "--max-error-rate=1%")
    assert outcome.code == 1
    assert 'task "found": 30 of 30 requests failed (100.00%), most with HTTP 503' in outcome.error
    record = races.record()
    assert record.status == "failed"
    assert record.failure is not None
    assert "--max-error-rate=1%" in record.failure
    assert [task.name for task in record.tasks][-2:] == ["found", "beside"]
    assert "Per second" in outcome.stdout


def test_a_race_below_its_error_rate_is_complete(null_server: NullServerFactory, races: Races) -> None:
    server = null_server({"rules": [{"path": "_search", "first": 7, "last": 7, **BUSY}]})
    outcome = races.run(server, "--max-error-rate", "0.05")
    assert outcome.code == 0, outcome.stderr
    assert races.record().status == "complete"


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        (["--max-error-rate=1"], 'esbench: --max-error-rate: "1" is not a part of a whole (say "1%")'),
        (["--max-error-rate=lots"], 'esbench: --max-error-rate: "lots" is not a ratio (say "1%" or 0.01)'),
        (
            ["--max-error-rate=1%", "--on-error=abort"],
            "esbench: --max-error-rate races on below it, and --on-error=abort",
        ),
    ],
)
def test_a_mistyped_error_rate_is_one_line(races: Races, unused_url: str, arguments: list[str], error: str) -> None:
    outcome = races.run(unused_url, *arguments)
    assert outcome.code == 2
    assert outcome.error.startswith(error)


TRACK = """
version: 2
operations:
  - name: ask
    operation-type: raw-request
    path: /orders/_search
    method: POST
    body: {"query": {"match": {"token": "{{ secret_token }}"}}}
schedule:
  - {operation: {operation-type: index, index: orders, id: 1, body: {}}}
  - {operation: {operation-type: refresh, index: orders}}
  - {operation: ask, requests: 3}
"""


@pytest.mark.parametrize(
    ("path", "argument"),
    [
        ("_search", "--on-error=abort"),
        ("_search", "--on-error=continue"),
        ("_search", "--max-error-rate=0%"),
        ("_refresh", "--on-error=abort"),
        ("_stats|_nodes", "--on-error=abort"),
        ("/$", "--on-error=abort"),
    ],
)
def test_no_secret_leaves_a_race(null_server: NullServerFactory, races: Races, path: str, argument: str) -> None:
    """Whichever request it is whose refusal repeats what the client has sent."""
    told = "joe:pass-word-9 am9lOnBhc3Mtd29yZC05 hunter2token at https://joe:x-in-url@h/, Authorization: Basic abcdef"
    body = {"error": {"type": "security_exception", "reason": told, "root_cause": [{"reason": told}], "told": told}}
    server = null_server({"rules": [{"path": path, "reply": {"status": 403, "body": body}}]})
    (races.track / "track.yml").write_text(TRACK)
    options = "--client-options=basic_auth_user:'joe',basic_auth_password:'pass-word-9'"
    outcome = races.run(server, argument, options, "--track-params=secret_token:hunter2token")
    written = race_files(races) + outcome.stdout + outcome.stderr
    assert "joe:<hidden>" in written
    for secret in ("pass-word-9", "am9lOnBhc3Mtd29yZC05", "hunter2token", "x-in-url", "abcdef"):
        assert secret not in written
