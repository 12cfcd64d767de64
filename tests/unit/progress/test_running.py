"""How far a task is, and what it did lately."""

from __future__ import annotations

import math
from typing import Any

import pytest
from followed import second, task

from esbench.measure.tally import Tally
from esbench.model import Schedule, Stage
from esbench.progress.race_state import RunningTask, Sum, requests_in_all, target_at
from esbench.units import Rate


def running(unit: str = "ops", **keys: Any) -> RunningTask:
    """A task whose clock started at 100 s."""
    begun = RunningTask(task(**keys), 98.0)
    begun.begin(100.0, unit)
    return begun


def test_a_task_ends_by_the_clock() -> None:
    get = RunningTask(task(warmup_time_s=5.0, time_period_s=15.0), 98.0)
    assert (get.phase(99.0), get.done_ratio(99.0), get.left_s(99.0), get.elapsed_s(99.0)) == ("prepare", None, None, 1)
    get.begin(100.0, "ops")
    told = [(get.phase(now), get.done_ratio(now), get.left_s(now)) for now in (100.0, 104.0, 105.0, 120.0, 123.0)]
    assert told == [
        ("warmup", 0.0, 20.0),
        ("warmup", 0.2, 16.0),
        ("measurement", 0.25, 15.0),
        ("end", 1.0, 0.0),
        ("end", 1.0, 0.0),
    ]


def test_a_task_of_so_many_requests_ends_when_they_are_done() -> None:
    get = running(clients=4, warmup_iterations=10, iterations=90)
    assert (get.phase(101.0), get.done_ratio(101.0), get.left_s(101.0)) == ("warmup", 0.0, None)
    get.take(second(0, 40, warmup=True), 102.0)
    assert get.phase(102.0) == "warmup"
    get.take(second(1, 60), 104.0)
    assert (get.phase(104.0), get.done_ratio(104.0)) == ("measurement", 0.25)
    assert get.left_s(104.0) == pytest.approx(12.0)  # 4 s for a quarter
    get.take(second(2, 300), 105.0)
    assert get.phase(105.0) == "end"


def test_a_bulk_ends_with_its_documents() -> None:
    bulk = running("docs", kind="bulk", clients=2)
    bulk.units_in_all = 10_000
    bulk.take(second(0, 5, units=2_500), 102.0)
    assert (bulk.done_ratio(102.0), bulk.left_s(102.0)) == (0.25, 6.0)


@pytest.mark.parametrize("keys", [{}, {"clients": 3, "iterations": 1}, {"requests": 1}, {"warmup_time_s": 5.0}])
def test_of_one_long_request_and_of_an_endless_task_there_is_no_share(keys: dict[str, Any]) -> None:
    force_merge = running(**keys)
    assert (force_merge.done_ratio(400.0), force_merge.left_s(400.0)) == (None, None)
    assert (force_merge.phase(400.0), force_merge.elapsed_s(400.0)) == ("measurement", 300.0)


def test_a_task_that_waits_for_clients_begins_with_its_first_second() -> None:
    late = RunningTask(task(time_period_s=10.0), 98.0, waits=True)
    late.begin(100.0, "ops")
    assert (late.phase(150.0), late.left_s(150.0)) == ("waiting", None)
    late.take(second(0, 5), 160.0)
    assert (late.phase(160.0), late.left_s(160.0)) == ("measurement", 9.0)


def test_how_many_requests_there_are_in_all() -> None:
    assert requests_in_all(task(requests=1000, clients=8)) == 1000
    assert requests_in_all(task(iterations=100, warmup_iterations=50, clients=2)) == 300
    assert requests_in_all(task(warmup_iterations=50, clients=2)) == 102
    assert requests_in_all(task(time_period_s=10.0, clients=2)) is None


def test_the_target_follows_its_stages_and_its_way_up() -> None:
    stages = (Stage(10.0, Rate(50, "ops")), Stage(10.0, Rate(300, "ops")))
    staged = task(schedule=Schedule(stages=stages))
    assert [rate and rate.value for at in (-1, 0, 9.9, 10, 19, 20) for rate in [target_at(staged, at)]] == [
        *(50, 50, 50, 300, 300),
        None,
    ]
    ramped = task(schedule=Schedule(rate=Rate(400, "docs"), ramp_up_s=10.0))
    assert [rate and rate.value for at in (-1, 0, 5, 10, 99) for rate in [target_at(ramped, at)]] == [
        *(0, 0, 200, 400, 400)
    ]
    assert target_at(task(rate=5), -1) == Rate(5, "ops")  # without a ramp there is none to divide by
    assert target_at(task(), 3) is None


def test_what_is_so_far_begins_anew_with_the_measurement() -> None:
    get = running(rate=500.0, warmup_time_s=1.0, time_period_s=9.0)
    get.take(second(0, 500, ms=8.0, errors=2, warmup=True), 102.0)
    get.take(second(1, 100, ms=4.0, warmup=True), 103.0)
    get.take(second(1, 400, ms=2.0), 103.0)
    assert get.of_second(103.0).requests == 500
    assert (get.so_far.requests, get.errors) == (400, 2)
    assert get.so_far.times_ms == pytest.approx((2.0, 2.0), rel=1e-3)
    assert get.of_second(103.0).lag_ms == pytest.approx(0.4)


def test_nothing_is_shown_of_a_second_long_ago() -> None:
    get = running(time_period_s=60.0)
    get.take(second(0, 500), 102.0)
    assert get.of_second(104.9).requests == 500
    assert get.of_second(105.1).requests == 0
    assert get.so_far.requests == 500
    get.take(second(58, 500), 160.0)
    assert get.of_second(160.0).requests == 0  # nothing new is begun


def test_percentiles_are_those_that_the_requests_carry() -> None:
    few, many, slow = Sum(is_open=False), Sum(is_open=False), Sum(is_open=False)
    few.add(second(0, 100, ms=3.0).tally)
    p50, p99 = few.figures.times_ms
    assert p50 == pytest.approx(3.0, rel=1e-3)
    assert p99 is None
    many.add(second(0, 400).tally)
    assert many.figures.times_ms[1] == pytest.approx(1.0, rel=1e-3)
    slow.add(second(0, 10).tally)
    timeouts = Tally()
    timeouts.requests = 30
    for _ in range(30):
        timeouts.service_time_beyond.add(2_000_000_000)
    slow.add(timeouts)
    assert slow.figures.times_ms[0] == math.inf
    assert slow.figures.at_least_ms == (2000.0, None)
    assert slow.figures.lag_ms is None  # nothing is due in a closed loop


def test_the_rate_is_over_seconds_without_a_reply_too() -> None:
    slow = running()
    assert slow.rate is None
    for number in (2, 5, 8):
        slow.take(second(number, 1), 102.0 + number)
    assert slow.rate == pytest.approx(3 / 7)
