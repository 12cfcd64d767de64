"""Tasks in parallel, by the server's own log: who begins when, who ends whom, and clients that tasks share."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator

import psutil
import pytest
from driver import Driver, NullServerFactory, all_requests, get

from esbench.errors import TrackError
from esbench.load.coordinator import Cancelled, StepFailed
from esbench.model import Task
from esbench.null_server import NullServer
from esbench.record.model import TaskResult

pytestmark = pytest.mark.alone


@pytest.fixture(scope="module")
def servers(null_servers: NullServerFactory) -> NullServer:
    return null_servers(log=True)


@pytest.fixture
def server(servers: NullServer) -> NullServer:
    servers.use({"rules": [{"delay": {"type": "constant", "ms": 10}}]})
    return servers


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver"), workers=2, drain_s=0.5) as driver:
        yield driver


def gets(name: str, **keys: object) -> Task:
    """A task whose requests the server's log tells from those of others."""
    return get(name=name, params={"opaque-id": name}, **keys)


Spans = dict[str, tuple[float, float]]


def spans_s(server: NullServer) -> Spans:
    """For each task when its first request was received and its last answered, from the first request of all on."""
    log = server.log()
    begin_ns = min(line.received_ns for line in log)
    return {
        name: (
            (min(line.received_ns for line in log if line.opaque_id == name) - begin_ns) / 1e9,
            (max(line.answered_ns or 0 for line in log if line.opaque_id == name) - begin_ns) / 1e9,
        )
        for name in {line.opaque_id for line in log}
    }


def most_at_a_time(server: NullServer) -> int:
    """How many requests the server had at most at any time."""
    events = [(line.received_ns, 1) for line in server.log()] + [(line.answered_ns or 0, -1) for line in server.log()]
    now = most = 0
    for _, change in sorted(events):
        now += change
        most = max(most, now)
    return most


def assert_follows(later: tuple[float, float], earlier: tuple[float, float]) -> None:
    """A task began after another had ended, and soon."""
    assert 0 < later[0] - earlier[1] < 0.3


def check_names(result: TaskResult) -> list[str]:
    return [check.name for check in result.checks]


def test_a_parallel_that_can_never_end_is_refused(server: NullServer, driver: Driver) -> None:
    endless = gets("a", warmup_time_s=0.1, rate=20)
    with pytest.raises(TrackError, match='task "a": the task has a warmup, and no end'):
        driver.step(server.url, endless, gets("b", requests=1), clients=1, completed_by="b")


# together


def test_tasks_of_a_parallel_begin_together(server: NullServer, driver: Driver) -> None:
    results = driver.step(server.url, gets("a", requests=20), gets("b", requests=20, clients=3), gets("c", requests=5))
    spans = spans_s(server)
    assert max(begin for begin, _ in spans.values()) < 0.1
    assert [(result.start_s, result.requests) for result in results] == [(0.0, 20), (0.0, 20), (0.0, 5)]


def test_more_clients_than_the_tasks_have_are_not_shared(server: NullServer, driver: Driver) -> None:
    driver.step(server.url, gets("a", requests=5), gets("b", requests=5), clients=9)
    assert max(begin for begin, _ in spans_s(server).values()) < 0.1


# shared clients


def test_tasks_on_one_client_run_one_after_the_other(server: NullServer, driver: Driver) -> None:
    results = driver.step(server.url, *(gets(name, requests=10) for name in "abc"), clients=1)
    spans = spans_s(server)
    assert_follows(spans["b"], spans["a"])
    assert_follows(spans["c"], spans["b"])
    assert most_at_a_time(server) == 1
    assert [result.requests for result in results] == [10, 10, 10]
    for result, (begin_s, end_s) in zip(results, (spans[name] for name in "abc"), strict=True):
        assert result.start_s == pytest.approx(begin_s, abs=0.05)
        assert result.duration_s == pytest.approx(end_s - begin_s, abs=0.05)
        assert result.throughput.mean == pytest.approx(10 / (end_s - begin_s), rel=0.1)
    assert not any("never-begun" in check_names(result) for result in results)


def test_a_task_begins_when_all_of_its_clients_are_free(server: NullServer, driver: Driver) -> None:
    """Of 4 clients a has 0 and 1, b 2, 3 and 0, c 1: b and c wait for a alone."""
    driver.step(
        server.url,
        gets("a", clients=2, time_period_s=0.4),
        gets("b", clients=3, time_period_s=0.4),
        gets("c", requests=2),
        clients=4,
    )
    spans = spans_s(server)
    assert_follows(spans["b"], spans["a"])
    assert_follows(spans["c"], spans["a"])
    assert spans["c"][1] < spans["b"][1]
    assert most_at_a_time(server) == 4


def test_a_slow_task_holds_back_only_those_that_need_its_clients(server: NullServer, driver: Driver) -> None:
    driver.step(
        server.url,
        gets("slow", time_period_s=0.8),
        gets("quick", requests=3),
        gets("after-slow", requests=3),
        gets("after-quick", requests=3),
        clients=2,
    )
    spans = spans_s(server)
    assert_follows(spans["after-quick"], spans["quick"])
    assert_follows(spans["after-slow"], spans["slow"])
    assert spans["after-quick"][1] < spans["slow"][1]


def test_clients_are_shared_across_workers(server: NullServer, driver: Driver) -> None:
    results = driver.step(
        server.url, gets("a", clients=600, iterations=1), gets("b", clients=600, iterations=2), clients=600
    )
    spans = spans_s(server)
    assert_follows(spans["b"], spans["a"])
    assert [(result.workers, result.requests) for result in results] == [(2, 600), (2, 1_200)]
    assert most_at_a_time(server) <= 600


def test_times_of_a_task_that_waited_are_its_own(server: NullServer, driver: Driver) -> None:
    server.use({})
    open_loop = gets("b", rate=100, warmup_time_s=0.3, time_period_s=3.7)
    _, result = driver.step(server.url, gets("a", time_period_s=0.77), open_loop, clients=1)
    assert (result.warmup.requests, result.due, result.unsent) == (30, 370, 0)
    assert (result.window.start_s, result.window.end_s) == pytest.approx((0.3, 4.0))
    assert result.warmup.duration_s == pytest.approx(0.3)
    assert 0.77 <= result.start_s < 1
    assert result.throughput.mean == pytest.approx(100, rel=0.02)
    assert result.throughput.median == pytest.approx(100, abs=3)
    seconds = [second.second for name, second in driver.seconds if name == "b" and not second.warmup]
    assert seconds[:4] == [0, 1, 2, 3]
    assert result.latency_ms is not None
    assert result.latency_ms["p50"] < 100  # counted from its own due times


# tasks that end others


@pytest.mark.parametrize(
    ("completed_by", "longest_s"),
    [("a", 0.3), ("any", 0.3), (("a",), 0.3), (("a", "b"), 0.6), (("b", "a"), 0.6)],
)
def test_the_step_ends_with_the_tasks_that_complete_it(
    server: NullServer, driver: Driver, completed_by: str | tuple[str, ...], longest_s: float
) -> None:
    results = driver.step(
        server.url,
        gets("a", time_period_s=0.3),
        gets("b", rate=50, time_period_s=0.6),
        gets("c", clients=600, time_period_s=60),
        completed_by=completed_by,
    )
    assert sum(all_requests(result) for result in results) == server.counts().requests
    assert longest_s <= results[2].duration_s < longest_s + 0.4
    assert results[1].duration_s == pytest.approx(longest_s, abs=0.3)


def test_a_task_that_has_not_begun_when_the_step_is_completed_never_does(server: NullServer, driver: Driver) -> None:
    a, b, c = driver.step(
        server.url,
        gets("a", time_period_s=0.3),
        gets("b", time_period_s=60),
        gets("c", clients=2, rate=100, warmup_time_s=1, time_period_s=5),
        clients=2,
        completed_by="a",
    )
    assert {line.opaque_id for line in server.log()} == {"a", "b"}
    assert (a.duration_s, b.duration_s) == pytest.approx((0.3, 0.3), abs=0.2)
    assert (c.requests, c.due, c.sent, c.duration_s, c.throughput.mean, c.latency_ms) == (0, 0, 0, 0.0, None, None)
    assert check_names(c) == ["never-begun"]
    assert "never-begun" not in check_names(b)


def test_the_first_task_to_end_ends_all_that_wait(server: NullServer, driver: Driver) -> None:
    results = driver.step(server.url, *(gets(name, requests=3) for name in "abc"), clients=1, completed_by="any")
    assert [result.requests for result in results] == [3, 0, 0]
    assert [check_names(result) for result in results[1:]] == [["never-begun"]] * 2
    assert driver.run(server.url, gets("next", requests=3)).requests == 3  # the workers are as good as before


def test_a_task_that_waits_may_be_the_one_that_completes(server: NullServer, driver: Driver) -> None:
    """b has the client of a; c has one of its own until b has ended."""
    a, b, c = driver.step(
        server.url,
        gets("a", requests=5),
        gets("c", time_period_s=60),
        gets("b", requests=5),
        clients=2,
        completed_by="b",
    )
    assert (a.requests, c.requests) == (5, 5)
    assert b.duration_s < 2


# what stops a step with tasks that wait


def test_a_cancelled_step_keeps_what_was_measured_and_begins_nothing_more(server: NullServer, driver: Driver) -> None:
    with Driver(driver.log.parent, workers=1, drain_s=0.5) as own:
        own.step(server.url, gets("a", requests=1))  # its worker is there
        threading.Timer(0.6, own.coordinator.cancel).start()
        with pytest.raises(Cancelled) as caught:
            own.step(server.url, gets("a", time_period_s=60), gets("b", requests=5), clients=1)
    a, b = caught.value.results
    assert a.requests > 10
    assert check_names(b) == ["never-begun"]
    assert {line.opaque_id for line in server.log()} == {"a"}


def test_a_failure_ends_tasks_that_wait_too(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"reply": {"status": 503}, "after_s": 0}]})
    with Driver(driver.log.parent, workers=2, on_error="abort") as own, pytest.raises(StepFailed) as caught:
        own.step(server.url, gets("a", clients=600, requests=5000), gets("b", clients=600), clients=600)
    assert 'task "a"' in str(caught.value.error)
    assert [result.name for result in caught.value.results] == ["a", "b"]
    assert check_names(caught.value.results[1]) == ["never-begun"]


def test_a_worker_that_dies_while_tasks_wait_is_named(server: NullServer, driver: Driver) -> None:
    others = set(psutil.Process(os.getpid()).children())
    with Driver(driver.log.parent, workers=2) as own:
        own.run(server.url, gets("x", clients=600, iterations=1))
        workers = sorted(set(psutil.Process(os.getpid()).children()) - others, key=lambda child: child.cmdline()[-1])
        threading.Timer(0.5, workers[0].kill).start()
        with pytest.raises(StepFailed, match=r"load worker 0 ended unexpectedly \(killed by SIGKILL\)"):
            own.step(server.url, gets("a", time_period_s=60), gets("b", requests=5), clients=1)
