"""When requests reach the server, by its own log: rates, ramps, stages and pauses as the task gives them."""

from __future__ import annotations

import statistics
from itertools import islice, pairwise

import pytest
from driver import Driver, NullServerFactory, all_requests, bulk, get, task

from esbench.corpus.prepared import PreparedDocuments
from esbench.measure.schedule import arrival_seed, arrivals
from esbench.model import Task
from esbench.null_server import NullServer
from esbench.operations import builtin_operations

pytestmark = pytest.mark.alone

SEED = 1  # of the driver


@pytest.fixture(scope="module")
def servers(null_servers: NullServerFactory) -> NullServer:
    return null_servers(log=True)


def delayed(ms: float) -> dict[str, object]:
    return {"rules": [{"path": "/orders", "delay": {"type": "constant", "ms": ms}}]}


def received_s(server: NullServer) -> list[float]:
    """When the server had read its requests, from the first of them on."""
    times = sorted(line.received_ns for line in server.log())
    return [(at_ns - times[0]) / 1e9 for at_ns in times]


def scheduled_s(a_task: Task, count: int) -> list[float]:
    """When the first arrivals of a task are due, from the first of them on."""
    due = arrivals(
        a_task.schedule,
        seed=arrival_seed(SEED, a_task.name),
        clients=a_task.clients,
        slots=tuple(range(a_task.clients)),
    )
    times = list(islice(due, count))
    return [(at_ns - times[0]) / 1e9 for at_ns in times]


def assert_follows(seen_s: list[float], due_s: list[float]) -> None:
    """The server saw requests when they were due: most of them within 4 ms, none lost or added."""
    assert len(seen_s) == len(due_s)
    late_s = [seen - due for seen, due in zip(seen_s, due_s, strict=True)]
    typical_s = statistics.median(late_s)
    assert sum(abs(late - typical_s) < 0.004 for late in late_s) > 0.7 * len(late_s)


# arrivals


@pytest.mark.parametrize("clients", [1, 8, 600])  # 600: on two workers
@pytest.mark.parametrize("kind", ["deterministic", "poisson"])
def test_requests_come_when_the_schedule_says(server: NullServer, driver: Driver, kind: str, clients: int) -> None:
    a_task = get(clients=clients, rate=200, time_period_s=0.75, schedule=kind)
    result = driver.run(server.url, a_task)
    assert result.due is not None
    assert result.workers == (2 if clients == 600 else 1)
    if kind == "deterministic":
        assert result.due == 150
    assert_follows(received_s(server), scheduled_s(a_task, result.due))


def test_poisson_arrivals_are_the_same_on_any_number_of_workers_and_others_for_another_task(
    server: NullServer, driver: Driver
) -> None:
    due = [
        driver.run(server.url, get(name=name, clients=clients, rate=100, time_period_s=0.5, schedule="poisson")).due
        for name, clients in (("a", 1), ("a", 600), ("b", 1), ("c", 1), ("d", 1))
    ]
    assert due[0] == due[1]
    assert len(set(due)) > 1


def test_no_client_sends_before_its_turn(server: NullServer, driver: Driver) -> None:
    """Rally's clients all send at the start; here 50 clients at 100/s send one request every 10 ms."""
    driver.run(server.url, get(clients=50, rate=100, iterations=1))
    times = received_s(server)
    assert len(times) == 50
    assert 0.48 <= times[-1] < 0.7
    assert sum(at < 0.1 for at in times) <= 11


def test_a_ramp_up_raises_the_rate_from_zero(server: NullServer, driver: Driver) -> None:
    a_task = get(clients=4, rate=200, ramp_up_s=0.6, warmup_time_s=0.6, time_period_s=0.3)
    result = driver.run(server.url, a_task)
    assert all_requests(result) == 60 + 60
    assert (result.warmup.requests, result.due, result.ramp_up_s) == (60, 60, 0.6)
    assert_follows(received_s(server), scheduled_s(a_task, 120))


@pytest.mark.parametrize("kind", ["deterministic", "poisson"])
def test_stages_follow_one_another(server: NullServer, driver: Driver, kind: str) -> None:
    stages = [(0.3, 50), (0.3, 300), (0.3, 100)]
    a_task = get(clients=16, stages=stages, schedule=kind, warmup_time_s=0.3)
    result = driver.run(server.url, a_task)
    count = all_requests(result)
    assert_follows(received_s(server), scheduled_s(a_task, count))
    assert (result.window.start_s, result.window.end_s) == pytest.approx((0.3, 0.9))
    assert [(stage.duration_s, stage.rate_per_s, stage.unit) for stage in result.stages] == [
        (duration_s, rate, "ops") for duration_s, rate in stages
    ]
    if kind == "deterministic":
        assert (result.warmup.requests, result.requests) == (15, 90 + 30)


# rates in other units


@pytest.mark.parametrize("unit", ["ops", "docs", "MB"])
def test_bulks_come_at_a_rate_in_requests_documents_or_bytes(
    server: NullServer, driver: Driver, docs: PreparedDocuments, unit: str
) -> None:
    """20 bulks of 100 documents at 25 bulks a second."""
    mb_per_s = docs.size_bytes / 20 * 25 / (1 << 20)
    rate = {"ops": "25 ops/s", "docs": "2500 docs/s", "MB": f"{mb_per_s} MB/s"}[unit]
    result = driver.run(server.url, bulk(100, rate=rate, clients=2), docs=docs)
    assert (result.requests, result.units, result.target_unit) == (20, 2_000, unit)
    assert_follows(received_s(server), [number / 25 for number in range(20)])
    assert [check.name for check in result.checks if check.name == "target-rate"] == []


def test_single_documents_come_at_a_rate_in_bytes(server: NullServer, driver: Driver, docs: PreparedDocuments) -> None:
    mean_bytes = statistics.mean(len(f'{{"n": {number}}}') for number in range(2_000))
    kind = builtin_operations().get("index")
    sampled = kind.request_bytes({}, [docs], (), "")
    assert sampled == pytest.approx(mean_bytes, rel=0.02)
    insert = task("index", {}, rate=f"{100 * sampled} B/s", requests=50, clients=4)
    result = driver.run(server.url, insert, docs=docs)
    assert (result.requests, result.unit, result.target_unit) == (50, "docs", "MB")
    assert_follows(received_s(server), [number / 100 for number in range(50)])


# lengths in numbers


def test_an_open_loop_of_numbers_waits_for_a_slow_server_to_the_last_request(
    server: NullServer, driver: Driver
) -> None:
    server.use({"rules": [{"queue": {"slots": 1, "service": {"type": "constant", "ms": 20}}}]})
    result = driver.run(server.url, get(clients=4, rate=200, requests=30))
    assert (result.requests, result.unsent, server.counts().requests) == (30, 0, 30)
    assert result.window.end_s >= 30 * 0.02
    assert result.latency_ms is not None
    assert result.latency_ms["max"] > 400  # the last one was due after 145 ms


def test_nothing_is_sent_after_the_end_of_a_period(server: NullServer, driver: Driver) -> None:
    """Four clients have 100 ms each time: the line grows, and what is in it at the end stays unsent."""
    server.use(delayed(100))
    result = driver.run(server.url, get(clients=4, rate=200, time_period_s=0.55))
    times = received_s(server)
    assert result.due == 110
    assert len(times) == result.sent == 4 * 6
    assert result.unsent == 110 - 24
    assert times[-1] < 0.55
    assert 0.6 <= result.duration_s < 0.75  # the last ones were awaited


# closed loops


@pytest.mark.parametrize("clients", [6, 600])  # 600: on two workers
def test_client_after_client_joins_a_closed_loop(server: NullServer, driver: Driver, clients: int) -> None:
    server.use(delayed(900))  # nobody sends twice
    result = driver.run(server.url, get(clients=clients, ramp_up_s=0.6, warmup_time_s=0.6, time_period_s=0.1))
    times = received_s(server)
    assert len(times) == all_requests(result) == clients
    late_s = [at - 0.6 * number / clients for number, at in enumerate(times)]
    assert max(late_s) < 0.1
    assert min(late_s) > -0.05  # the first one, from which times count, may itself be late


def test_clients_pause_between_answer_and_next_request(server: NullServer, driver: Driver) -> None:
    server.use(delayed(10))
    result = driver.run(server.url, get(clients=1, requests=12, think_time_s=0.03))
    log = sorted(server.log(), key=lambda line: line.received_ns)
    pauses_s = [(after.received_ns - (before.answered_ns or 0)) / 1e9 for before, after in pairwise(log)]
    assert len(pauses_s) == 11
    assert min(pauses_s) > 0.029
    assert statistics.median(pauses_s) < 0.04
    assert result.think_time_s == 0.03


def test_thinking_is_not_the_drivers_share(server: NullServer, driver: Driver) -> None:
    server.use(delayed(40))
    result = driver.run(server.url, get(clients=2, time_period_s=1.5, think_time_s=0.04))
    assert result.driver_share_ratio is not None
    assert result.driver_share_ratio < 0.1
    assert 15 <= result.requests / 2 <= 20
