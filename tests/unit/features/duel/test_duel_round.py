"""The sides of a round, each in its thread: how they wait for each other, and how the round ends."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping

import pytest
from bound import bound_operation
from races import golden_race

from esbench.errors import RaceError
from esbench.features.duel.duel_round import Round
from esbench.model import Step, Task
from esbench.race.hook import Pace
from esbench.record.model import RaceRecord
from esbench.record.sessions import Pacing

ADMINISTRATIVE = Step((Task("a", bound_operation("a", "refresh")),))
MEASURED = Step((Task("a", bound_operation("a", "get")),))
WITHIN_S = 20.0


def step(pace: Pace, which: Step) -> None:
    """Do what a race does in a step, without any load."""
    with pace.step(which):
        pace.begin(0)
        pace.end(())


def run(*steps: Step, pids: Mapping[str, int] | None = None) -> Callable[[Pace], RaceRecord]:
    def race(pace: Pace) -> RaceRecord:
        pace.watch(pids or {})
        for each in steps:
            step(pace, each)
        return golden_race(status="complete")

    return race


def raced(*runs: Callable[[Pace], RaceRecord]) -> dict[str, RaceRecord]:
    """Race a round of sides a, b, c ... in this order."""
    names = "abc"[: len(runs)]
    return Round(tuple(names), Pacing(), seed=1).race(dict(zip(names, runs, strict=True)))


def sampling() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "cpu of the nodes"]


def test_a_round_ends_side_by_side() -> None:
    def slow(pace: Pace) -> RaceRecord:
        record = run(ADMINISTRATIVE, MEASURED, ADMINISTRATIVE)(pace)
        time.sleep(0.2)
        return record

    quick = run(ADMINISTRATIVE, MEASURED, ADMINISTRATIVE)
    assert set(raced(quick, slow, quick)) == {"a", "b", "c"}


@pytest.mark.parametrize("more", [ADMINISTRATIVE, MEASURED])
def test_a_side_that_has_ended_is_not_waited_for(more: Step) -> None:
    with pytest.raises(RaceError, match="b has fewer steps, and has ended"):
        raced(run(MEASURED, more, more), run(MEASURED))


def test_nothing_is_sampled_after_a_step_that_was_cut_short() -> None:
    def failing(pace: Pace) -> RaceRecord:
        with pace.step(MEASURED):
            pace.begin(0)
            raise RaceError("the disk is full")

    with pytest.raises(RaceError, match="the disk is full"):
        raced(failing, run(MEASURED, pids={"node-0": os.getpid()}))
    for thread in sampling():
        thread.join(WITHIN_S)
    assert sampling() == []


def test_a_side_that_prepares_hears_of_an_interrupt() -> None:
    def preparing(pace: Pace) -> RaceRecord:
        interrupts = pace.join("r-1")
        while True:
            time.sleep(0.01)
            interrupts.check()

    timer = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        raced(preparing, run(MEASURED))


def test_a_side_that_hears_nothing_is_left_behind_after_a_second_interrupt() -> None:
    released = threading.Event()

    def deaf(pace: Pace) -> RaceRecord:
        released.wait()
        raise KeyboardInterrupt

    timers = [threading.Timer(after_s, os.kill, (os.getpid(), signal.SIGINT)) for after_s in (0.2, 0.6)]
    for timer in timers:
        timer.start()
    began_s = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            raced(deaf, run(MEASURED))
    finally:
        released.set()
    assert 0.6 < time.monotonic() - began_s < WITHIN_S
