"""Hosts of a cluster that die and come back while a race runs: who takes their load, and what the record says."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from driver import Driver, NullServerFactory, get, task
from racing import Races, wait_until

from esbench.cluster.options import ClientOptions
from esbench.errors import ClusterError
from esbench.load.coordinator import StepFailed
from esbench.null_server import NullServer
from esbench.record.model import HostEvent, TaskResult

alone = pytest.mark.alone  # shares of the load, or what is in flight at a moment
GETS = "GET /*/_doc/*"
GONE = {"for_s": 60, "cut": True}


@pytest.fixture
def driver(tmp_path: Path, null_servers: NullServerFactory) -> Iterator[Driver]:
    with Driver(tmp_path) as driver:
        driver.run(null_servers().url, get())  # the worker is there
        yield driver


@pytest.fixture
def each_driver(event_loop_name: str, driver: Driver) -> Driver:
    """The same on each event loop."""
    assert driver.coordinator.drivers[0].loop == event_loop_name
    return driver


@pytest.fixture
def pair(null_server: NullServerFactory) -> tuple[NullServer, NullServer]:
    """Two hosts of one cluster, of the test's own: one that refuses connections cannot be told anything either."""
    return null_server(), null_server()


def urls(*servers: NullServer) -> list[str]:
    return [server.url for server in servers]


def name_of(server: NullServer) -> str:
    return server.url.removeprefix("http://")


def told(events: list[HostEvent]) -> list[tuple[str, str]]:
    return [(event.host, event.what) for event in events]


def levels(result: TaskResult) -> dict[str, str]:
    return {check.name: check.level for check in result.checks}


# one of several


@alone
@pytest.mark.parametrize("keys", [{"rate": 400}, {}], ids=["open", "closed"])
def test_the_clients_of_a_host_that_dies_use_the_others_and_return_when_it_is_back(
    pair: tuple[NullServer, NullServer], each_driver: Driver, keys: dict[str, Any]
) -> None:
    alive, dying = pair
    slow = {"rules": [{"path": "_doc", "delay": {"type": "constant", "ms": 12}}]}  # so that some are in flight
    alive.use(slow)
    dying.use({**slow, "refuse": [{"at_s": 0.6, "for_s": 1.0, "cut": True}]})
    result = each_driver.run(urls(alive, dying), get(clients=8, time_period_s=3.5, **keys))
    assert told(each_driver.events) == [(name_of(dying), "lost"), (name_of(dying), "back")]
    lost, back = each_driver.events
    assert (lost.step, lost.tasks, lost.reason) == (1, ("get",), "connection refused")
    away_s = (datetime.fromisoformat(back.at) - datetime.fromisoformat(lost.at)).total_seconds()
    assert 0.9 < away_s < 2.5
    # a request in flight of each of its four clients, and the first one or ones that find nobody there
    # (clients of a closed loop send in step, and may all be between two requests when the host dies)
    assert {"connection refused"} <= set(result.error_kinds) <= {"connection lost", "connection refused"}
    assert 1 <= result.errors <= 8
    assert levels(result)["lost-hosts"] == "warning"
    answered = result.requests - result.errors
    assert answered <= sum(server.counts().by_class[GETS] for server in pair) <= result.requests
    half = 0.5 * (result.due or result.requests)
    assert alive.counts().by_class[GETS] > 1.15 * half  # it had all of the load for a while
    assert dying.counts().by_class[GETS] > 0.3 * half  # and the other one had its half again
    assert dying.counts().per_second[-2] > 0.3 * alive.counts().per_second[-2]


@alone
def test_the_share_of_a_lost_host_goes_to_all_that_are_left(null_server: NullServerFactory, driver: Driver) -> None:
    dying, *others = (null_server() for _ in range(3))
    dying.use({"refuse": [{"at_s": 0.2, **GONE}]})
    result = driver.run(urls(dying, *others), get(clients=12, rate=300, time_period_s=1.5))
    assert told(driver.events) == [(name_of(dying), "lost")]
    first, second = (server.counts().by_class[GETS] for server in others)
    assert first + second > 350
    assert 0.7 < first / second < 1.4
    assert result.unsent == 0


@alone
def test_a_host_that_is_lost_stays_lost_in_the_next_step(pair: tuple[NullServer, NullServer], driver: Driver) -> None:
    alive, dying = pair
    dying.use({"refuse": [{"at_s": 0.3, **GONE}]})
    first = driver.run(urls(alive, dying), get(clients=4, rate=100, time_period_s=0.7))
    assert (first.error_kinds["connection refused"].count, first.errors) == (1, 1)  # nothing was in flight
    second = driver.run(urls(alive, dying), get(name="second", clients=4, requests=40))
    assert (second.requests, second.errors) == (40, 0)
    assert "1 of 2 hosts" in next(check.message for check in second.checks if check.name == "lost-hosts")
    assert told(driver.events) == [(name_of(dying), "lost")]


def test_administration_goes_to_the_hosts_that_are_left(pair: tuple[NullServer, NullServer], driver: Driver) -> None:
    alive, dying = pair
    dying.use({"refuse": [{"at_s": 0.3, **GONE}]})
    retried = {"retry-until-success": True, "retry-wait-period": 0.01}
    result = driver.run(
        urls(dying, alive), task("cluster-health", retried, clients=2, iterations=20, think_time_s=0.02)
    )
    assert (result.requests, result.errors) == (40, 0)
    assert told(driver.events) == [(name_of(dying), "lost")]


def test_a_step_does_not_begin_on_fewer_hosts_where_the_first_failure_aborts(
    pair: tuple[NullServer, NullServer], tmp_path: Path
) -> None:
    alive, dying = pair
    dying.use({"refuse": [{"at_s": 0.0, **GONE}]})
    time.sleep(0.1)
    refused = pytest.raises(ClusterError, match=f"cannot connect: {name_of(dying)}: connection refused")
    with Driver(tmp_path, on_error="abort") as driver, refused:
        driver.run(urls(alive, dying), get(clients=2))


# all of them


def test_without_any_host_the_race_ends_after_the_timeout_and_keeps_what_was_measured(
    pair: tuple[NullServer, NullServer], each_driver: Driver
) -> None:
    for server in pair:
        server.use({"refuse": [{"at_s": 0.3, **GONE}]})
    begin = time.monotonic()
    with pytest.raises(StepFailed) as caught:
        each_driver.run(urls(*pair), get(clients=8, rate=200, time_period_s=60), options=ClientOptions(timeout_s=1.5))
    assert 1.5 < time.monotonic() - begin < 5
    error = str(caught.value.error)
    assert error.startswith('task "get": no host could be reached for 1.5 s: ')
    assert all(f"{name_of(server)} (connection refused)" in error for server in pair)
    assert "\n" not in error
    (result,) = caught.value.results
    assert result.requests > result.errors > 8
    assert sorted(told(each_driver.events)) == sorted((name_of(server), "lost") for server in pair)


@pytest.mark.parametrize("on_further", [False, True], ids=["all clients", "one client"])
def test_a_host_that_answers_on_open_connections_is_not_given_up(
    null_server: NullServerFactory, driver: Driver, on_further: bool
) -> None:
    """It refuses further ones, as a proxy does that has as many as it takes."""
    server = null_server(
        {
            "refuse": [{"at_s": 0.3, "for_s": 60, "cut": False}],
            "rules": [{"path": "_doc", "after_s": 0.5, "first": 10, "last": 10, "fault": "cut-before"}],
        }
    )
    options = ClientOptions(timeout_s=1)
    tasks = [get(name="a", rate=40, clients=4, time_period_s=3)]
    if on_further:  # the client that has lost its connection may be another task's
        tasks.append(get(name="b", rate=1, time_period_s=3))
    results = driver.step(server.url, *tasks, options=options)
    assert told(driver.events) == [(name_of(server), "lost")]
    requests = sum(result.requests for result in results)
    assert requests == sum(result.due or 0 for result in results)
    assert 0 < sum(result.errors for result in results) < requests / 2


def test_a_single_host_may_be_away_for_less_than_that(null_server: NullServerFactory, driver: Driver) -> None:
    server = null_server({"refuse": [{"at_s": 0.5, "for_s": 0.5, "cut": True}]})
    result = driver.run(server.url, get(rate=100, clients=4, time_period_s=3), options=ClientOptions(timeout_s=2))
    assert told(driver.events) == [(name_of(server), "lost"), (name_of(server), "back")]
    assert result.requests == result.due == 300


@alone
def test_a_step_that_begins_without_a_host_waits_as_long_for_one(
    null_server: NullServerFactory, driver: Driver
) -> None:
    server = null_server()
    options = ClientOptions(timeout_s=1)
    driver.run(server.url, get(), options=options)
    server.use({"refuse": [{"at_s": 0, "for_s": 0.5, "cut": True}]})
    time.sleep(0.1)
    assert driver.run(server.url, get(requests=5), options=options).errors == 0
    assert [event.what for event in driver.events] == ["lost", "back"]
    server.use({"refuse": [{"at_s": 0, **GONE}]})
    time.sleep(0.1)
    with pytest.raises(ClusterError, match=r"cannot connect: .*connection refused"):
        driver.run(server.url, get(requests=5), options=options)


def test_a_host_that_answers_that_it_cannot_serve_is_not_back(null_server: NullServerFactory, driver: Driver) -> None:
    """As a proxy does whose server is gone."""
    alive, ill = null_server(), null_server()
    ill.use(
        {"refuse": [{"at_s": 0.2, "for_s": 0.3, "cut": True}], "rules": [{"path": "^/$", "reply": {"status": 503}}]}
    )
    driver.run(urls(alive, ill), get(rate=100, clients=4, time_period_s=2.5))
    assert told(driver.events) == [(name_of(ill), "lost")]


# the race


def test_the_record_and_the_summary_say_when_a_host_was_lost(
    pair: tuple[NullServer, NullServer], tmp_path: Path
) -> None:
    alive, dying = pair
    races = Races(tmp_path)
    keys = ("--challenge=endless", "--on-error=continue", "--client-options=timeout:2")
    try:
        process = races.start(f"{alive.url},{name_of(dying)}", *keys)
        wait_until(lambda: dying.counts().by_class.get(GETS, 0) > 20, process)
        dying.use({"refuse": [{"at_s": 0, **GONE}]})
        sofar = alive.counts().requests
        wait_until(lambda: alive.counts().requests > sofar + 40, process)
        alive.use({"refuse": [{"at_s": 0, **GONE}]})
        outcome = races.finish(process)
    finally:
        races.end()
    assert outcome.code == 1
    assert "no host could be reached for 2 s" in outcome.error
    assert name_of(alive) in outcome.error
    assert f"warning: {name_of(dying)} cannot be reached (connection refused)" in outcome.stderr
    record = races.record()
    assert record.status == "failed"
    assert [(event.host, event.what, event.tasks) for event in record.events] == [
        (name_of(dying), "lost", ("paced",)),
        (name_of(alive), "lost", ("paced",)),
    ]
    assert f"{name_of(dying)} was lost at {record.events[0].at} during paced" in races.ask("show", "last", "--all")
    first, paced = record.tasks
    assert (first.errors, paced.name) == (0, "paced")
    assert paced.requests > paced.errors > 0
