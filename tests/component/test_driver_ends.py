"""Where a task begins and ends, and what happens to what is in flight, in line or not yet due then."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
from driver import ANY_ID, Driver, NullServerFactory, all_requests, bulk, documents, get, task

from esbench.cluster.options import ClientOptions
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import ClusterError, TrackError
from esbench.model import Variable
from esbench.null_server import NullServer

pytestmark = pytest.mark.alone


def delayed(ms: float, **rule: object) -> dict[str, object]:
    return {"rules": [{"path": "/orders", "delay": {"type": "constant", "ms": ms}, **rule}]}


@pytest.fixture(scope="module")
def servers(null_servers: NullServerFactory) -> NullServer:
    return null_servers(log=True)


# the beginning


@pytest.mark.parametrize("keys", [{"clients": 3}, {"clients": 3, "rate": 100}])
def test_nothing_is_sent_before_the_clock_starts(server: NullServer, driver: Driver, keys: dict[str, object]) -> None:
    result = driver.run(server.url, get(iterations=5, **keys))
    assert 0 <= result.window.start_s < 0.5


def test_all_workers_begin_at_the_same_time(server: NullServer, driver: Driver) -> None:
    server.use(delayed(100))
    driver.run(server.url, get(clients=600, iterations=1))  # on two workers
    received = sorted(line.received_ns for line in server.log())
    assert len(received) == 600
    assert (received[-1] - received[0]) / 1e9 < 0.5


def test_an_open_loop_ramps_up(server: NullServer, driver: Driver) -> None:
    result = driver.run(server.url, get(rate=200, ramp_up_s=0.5, warmup_time_s=0.5, time_period_s=0.25, clients=8))
    assert (result.warmup.requests, result.requests) == (50, 50)
    assert (result.window.start_s, result.window.end_s) == (0.5, 0.75)


def test_a_closed_loop_ramps_up_client_by_client(server: NullServer, driver: Driver) -> None:
    server.use(delayed(20))
    driver.run(server.url, get(clients=10, ramp_up_s=1, warmup_time_s=1, time_period_s=0.2))
    received = [line.received_ns for line in server.log()]
    since_s = [(at_ns - min(received)) / 1e9 for at_ns in received]
    early, late = (sum(1 for at_s in since_s if lower <= at_s < lower + 0.3) for lower in (0, 0.75))
    assert 0 < early * 2 < late


def test_stages_are_a_rate_and_a_length(server: NullServer, driver: Driver) -> None:
    result = driver.run(server.url, get(stages=[(0.2, 100), (0.2, 500)], clients=8))
    assert result.due == result.requests == 20 + 100
    assert 0.4 <= result.duration_s < 1


# the end of a period


@pytest.mark.parametrize("rate", [5_000, 1])
def test_every_arrival_of_the_period_is_accounted_for(server: NullServer, driver: Driver, rate: float) -> None:
    result = driver.run(server.url, get(rate=rate, clients=16, warmup_time_s=0.2, time_period_s=0.4))
    assert result.due is not None
    assert result.unsent is not None
    assert result.warmup.requests + result.due == math.ceil(rate * 0.6)
    assert result.requests + result.unsent == result.due
    assert result.duration_s >= 0.6


def test_what_is_in_flight_at_the_end_is_awaited(server: NullServer, driver: Driver) -> None:
    server.use(delayed(400))
    result = driver.run(server.url, get(clients=2, time_period_s=1))
    assert result.requests == server.counts().requests == 6  # begun at 0, 0.4 and 0.8 s
    assert result.duration_s >= 1.2
    assert result.window.end_s == 1
    assert result.throughput.mean == pytest.approx(4)  # what completed in the window


def test_arrivals_that_a_slow_server_leaves_in_line_are_unsent(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"queue": {"slots": 1, "service": {"type": "constant", "ms": 50}}}]})
    result = driver.run(server.url, get(rate=50, clients=2, time_period_s=1))
    assert result.due == 50
    assert result.sent == result.requests == server.counts().requests
    assert 10 <= result.sent <= 25
    assert result.unsent == 50 - result.sent
    assert result.latency_ms is not None
    assert result.latency_ms["p90"] == math.inf  # what was never sent ranks above all
    assert result.latency_ms["p90_at_least"] <= result.latency_ms["max_at_least"] < 1500
    assert ("unsent", "unusable") in [(check.name, check.level) for check in result.checks]


def test_timeouts_rank_above_everything(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "every": 5, "fault": "hang"}]})
    result = driver.run(server.url, get(clients=8, requests=100, params={"request-timeout": "300ms"}, rate=150))
    assert result.requests == server.counts().requests == 100
    assert result.error_kinds["timeout"].count == result.errors == 20
    assert "within 0.3 s" in result.error_kinds["timeout"].example
    for times in (result.latency_ms, result.service_time_ms):
        assert times is not None
        assert times["p50"] < 250
        assert times["p90"] == times["max"] == math.inf
        assert 300 <= times["p90_at_least"] <= times["max_at_least"] < 2_000
    assert server.counts().connections >= 20  # each was replaced


def test_a_timeout_that_is_null_is_that_of_the_client_options(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "fault": "hang"}]})
    result = driver.run(server.url, get(params={"request-timeout": None}), options=ClientOptions(timeout_s=0.2))
    assert "within 0.2 s" in result.error_kinds["timeout"].example


# the end of numbers and documents


def test_a_task_without_a_length_runs_once_for_each_client(server: NullServer, driver: Driver) -> None:
    assert driver.run(server.url, get(clients=3)).requests == 3


def test_unsent_arrivals_are_those_of_the_measurement(server: NullServer, driver: Driver) -> None:
    server.use(delayed(2000))
    result = driver.run(server.url, get(rate=100, clients=1, warmup_time_s=0.5, time_period_s=1.0))
    assert (result.due, result.unsent, result.sent) == (100, 100, 0)
    backlog = [second.tally.backlog for _, second in driver.seconds if second.tally.due]
    assert backlog[-1] == 149  # those of the warmup wait, too


def test_no_client_waits_for_a_slower_one(server: NullServer, driver: Driver) -> None:
    server.use(delayed(700, last=1))
    result = driver.run(server.url, get(clients=2, iterations=200))
    assert result.requests == 400
    assert result.duration_s < 1.5  # the other client did nearly all of them meanwhile


def test_bulks_are_paced_by_documents(server: NullServer, driver: Driver, docs: PreparedDocuments) -> None:
    result = driver.run(server.url, bulk(100, rate="2000 docs/s", clients=2), docs=docs)
    assert (result.requests, result.units, result.unit) == (20, 2_000, "docs")
    assert server.counts().documents == 2_000
    assert 0.95 <= result.duration_s < 1.8


@pytest.mark.parametrize("loop", [{}, {"rate": "2000 docs/s"}])
def test_fewer_documents_than_clients_are_sent_all_the_same(
    server: NullServer, driver: Driver, tmp_path: Path, loop: dict[str, str]
) -> None:
    result = driver.run(server.url, bulk(1, clients=4, **loop), docs=documents(tmp_path, 2))
    assert (result.requests, result.units) == (2, 2)


def test_bulks_that_the_corpus_does_not_hold_are_not_missed(
    server: NullServer, driver: Driver, docs: PreparedDocuments
) -> None:
    server.use(delayed(25))
    result = driver.run(server.url, bulk(100, rate="20000 docs/s", clients=1), docs=docs)
    assert (result.requests, result.units) == (20, 2_000)
    assert result.unsent == 0


def test_a_period_ends_bulks_early(server: NullServer, driver: Driver, docs: PreparedDocuments) -> None:
    server.use(delayed(50))
    result = driver.run(server.url, bulk(10, clients=2, time_period_s=0.5), docs=docs)
    assert 4 <= result.requests <= 22
    assert server.counts().documents == result.units == 10 * result.requests


def test_documents_are_drawn_of_those_that_an_ended_bulk_has_sent(
    server: NullServer, driver: Driver, docs: PreparedDocuments
) -> None:
    for administrative in ("delete-index", "create-index"):
        driver.run(server.url, task(administrative))
    loaded = driver.run(server.url, bulk(5, rate="20 ops/s", time_period_s=0.5), docs=docs)
    assert loaded.units == 50
    server.reset()
    read = get(params={"id": "$[[document.n]]"}, iterations=300)
    variable = Variable("document", "corpus-document", {})
    driver.run(server.url, replace(read, operation=replace(read.operation, variables=(variable,))), docs=docs)
    drawn = {int(line.path.rpartition("/")[2]) for line in server.log()}
    assert drawn <= set(range(50))
    assert len(drawn) > 40


def test_clients_think_between_requests(server: NullServer, driver: Driver) -> None:
    result = driver.run(server.url, get(clients=2, time_period_s=0.65, think_time_s=0.1))
    assert 6 <= result.requests <= 14
    assert result.duration_s < 1  # thinking is no reason to go on


# tasks that end others


@pytest.mark.parametrize(
    ("completed_by", "keys"),
    [
        ("short", {"clients": 2}),
        ("any", {"clients": 2, "rate": 200}),
        ("short", {"clients": 600}),
    ],
)
def test_a_task_ends_the_others(server: NullServer, driver: Driver, completed_by: str, keys: dict[str, object]) -> None:
    server.use(delayed(5))
    endless, short = driver.step(
        server.url,
        get(name="endless", time_period_s=60, **keys),
        get(name="short", requests=40),
        completed_by=completed_by,
    )
    assert short.requests == 40
    assert endless.requests > 0
    assert all_requests(endless) + all_requests(short) == server.counts().requests
    assert endless.duration_s < 3
    assert endless.window.end_s == pytest.approx(endless.duration_s)
    if "rate" in keys:
        assert endless.due == endless.requests + (endless.unsent or 0)


def test_a_task_that_ends_nobody_is_waited_for(server: NullServer, driver: Driver) -> None:
    long, _ = driver.step(
        server.url, get(name="long", rate=100, time_period_s=0.4), get(name="short", requests=5), completed_by="long"
    )
    assert long.requests == 40


# administrative operations


def test_an_administrative_operation_counts_in_the_seconds_of_its_own(server: NullServer, driver: Driver) -> None:
    server.use(delayed(1_300))
    result = driver.run(server.url, task("refresh", clients=1))
    assert (result.requests, result.sent, result.errors) == (1, 1, 0)
    assert [(s.second, s.tally.sent, s.tally.requests) for _, s in driver.seconds] == [(0, 1, 0), (1, 0, 1)]
    assert result.service_time_ms is not None
    assert result.service_time_ms["max"] > 1_250


# what cannot begin


def test_a_host_that_refuses_is_named_with_the_task(driver: Driver, unused_url: str) -> None:
    with pytest.raises(ClusterError, match=r'task "get", 127\.0\.0\.1:\d+: cannot connect'):
        driver.run(unused_url, get(), options=ClientOptions(timeout_s=1.0))


def test_an_operation_that_cannot_compile_is_one_line(server: NullServer, driver: Driver) -> None:
    with pytest.raises(TrackError, match="there are no documents to index"):
        driver.run(server.url, bulk())
    assert driver.run(server.url, get()).requests == 1  # the workers are as good as before


def test_the_variable_of_the_tests_is_drawn(server: NullServer, driver: Driver) -> None:
    driver.run(server.url, get(requests=50))
    ids = {line.path.rpartition("/")[2] for line in server.log()}
    assert len(ids) > 40
    assert all(ANY_ID.params["from"] <= int(value) <= ANY_ID.params["to"] for value in ids)


def test_a_task_without_an_end_is_refused(server: NullServer, driver: Driver) -> None:
    with pytest.raises(TrackError, match="no end"):
        driver.run(server.url, get(warmup_time_s=0.1))
