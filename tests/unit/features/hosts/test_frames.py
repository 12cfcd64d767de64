"""Messages that cross to and from a load host: their times are on the clock of who reads them."""

from __future__ import annotations

import pickle
from typing import Any

from esbench.features.hosts.clock import ClockReading, HostClock
from esbench.features.hosts.frames import inbound, outbound
from esbench.load.messages import Hello, Loss, RunStep, Stop, TaskEnd, Tick
from esbench.measure.cpu_time import Usage
from esbench.measure.slices import SlicedTime, WholeTime

AHEAD_NS = 500


def ahead() -> HostClock:
    clock = HostClock()
    clock.compare([ClockReading(0, AHEAD_NS, 0)])
    return clock


def arrived(message: Any) -> Any:
    return inbound(pickle.dumps(message), ahead())


def test_a_step_begins_at_the_same_moment_on_the_hosts_clock() -> None:
    number, content = outbound(7, RunStep(0, WholeTime(1000), frozenset({"read"})), ahead())
    assert number == 7
    assert pickle.loads(content) == RunStep(0, WholeTime(1500), frozenset({"read"}))


def test_slices_keep_their_order() -> None:
    time = SlicedTime(1000, 100, 10, 1, 2, 1, seed=3)
    _, content = outbound(0, RunStep(0, time, frozenset()), ahead())
    assert pickle.loads(content).time.begin_ns == time.begin_ns + AHEAD_NS


def test_what_has_no_times_is_passed_on() -> None:
    assert pickle.loads(outbound(0, Stop(drain_s=1.0), ahead())[1]) == Stop(drain_s=1.0)


def test_ticks_come_with_our_times() -> None:
    end = TaskEnd("read", 600, 1600, 0, 700, 1500)
    tick = arrived(Tick(0, 0, (), (end,), 1700, Usage(), 3, lost={"es:9200": Loss(900, "refused")}))
    assert tick.at_ns == 1200
    assert tick.ended == (TaskEnd("read", 100, 1100, 0, 200, 1000),)
    assert tick.lost == {"es:9200": Loss(400, "refused")}
    assert tick.loop_lag_ns == 3, "a duration"


def test_a_task_that_never_began_has_no_begin() -> None:
    tick = arrived(Tick(0, 0, (), (TaskEnd("read", None, 1600, 0, None, None),), 1700, Usage(), 0))
    assert tick.ended == (TaskEnd("read", None, 1100, 0, None, None),)


def test_losses_of_a_worker_that_gets_ready() -> None:
    assert arrived(Hello(0, 1, "uvloop", lost={"a": Loss(900, "x")})).lost == {"a": Loss(400, "x")}
