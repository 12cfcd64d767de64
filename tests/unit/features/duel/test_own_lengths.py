"""The lengths of the tasks of sides that are raced at once, and which of their steps are sliced."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from bound import bound_operation

from esbench.features.duel.slices import Slicing, shaped, slicing
from esbench.model import Challenge, Schedule, Stage, Step, Task
from esbench.record.sessions import Pacing
from esbench.units import Rate

PACING, WARM = Pacing(), Pacing(warmup="track")
RATE = Schedule(rate=Rate(10.0, "ops"))
RUNNER: Mapping[str, Any] = {"python": "runner"}


def task(kind: str, params: Mapping[str, Any] | None = None, python: str = "", **keys: Any) -> Task:
    return Task(keys.pop("name", kind), bound_operation(kind, kind, params or {}, python=python), **keys)


def raced(*tasks: Task, pacing: Pacing = PACING, completed_by: tuple[str, ...] = ()) -> Step:
    """The step of these tasks as it is raced by two sides."""
    (step,) = shaped(Challenge("c", (Step(tasks, completed_by=completed_by),)), pacing, 2).steps
    return step


def is_sliced(step: Step) -> bool:
    return slicing(step, PACING) is not None


@pytest.mark.parametrize(
    ("given", "own_s"),
    [
        (task("search"), 20),
        (task("get", iterations=1), 20),
        (task("index", clients=4), 20),
        (task("search", schedule=RATE, iterations=1000), 50),
        (task("search", warmup_time_s=20.0, time_period_s=100.0), 60),
        (task("search", python="source"), 20),
        (task("search", **RUNNER), 20),
        (task("raw-request", iterations=2), 20),
        (task("raw-request", requests=100), 20),
        (task("raw-request", warmup_iterations=5), 20),
        (task("raw-request", schedule=RATE), 20),
        (task("composite", time_period_s=60.0), 30),
        (task("own", iterations=5, **RUNNER), 20),
        (task("refresh", time_period_s=10.0, **RUNNER), 20),
    ],
)
def test_load_lasts_20_s_of_own_time_at_least_and_is_sliced(given: Task, own_s: float) -> None:
    step = raced(given)
    (made,) = step.tasks
    assert (made.warmup_time_s, made.time_period_s) == (0.0, own_s)
    assert (made.warmup_iterations, made.iterations, made.requests) == (None, None, None)
    assert is_sliced(step)


@pytest.mark.parametrize(
    "given",
    [
        task("refresh"),
        task("reindex"),
        task("reindex", iterations=3),
        task("run-until", iterations=1),
        task("wait-for-recovery"),
        task("downsample"),
        task("raw-request"),
        task("raw-request", iterations=1, warmup_iterations=0),
        task("raw-request", python="source"),
        task("composite", requests=1),
        task("own", clients=8, **RUNNER),
        task("own", schedule=RATE, **RUNNER),
        task("create-index", **RUNNER),
    ],
)
def test_a_task_that_runs_once_is_as_it_is_and_the_sides_take_turns(given: Task) -> None:
    step = raced(given, pacing=Pacing(task_time_s=80.0))
    assert step == Step((given,))
    assert not is_sliced(step)


def test_a_task_that_runs_once_beside_load_stays_as_it_is() -> None:
    step = raced(once := task("reindex"), task("search"))
    assert step.tasks[0] == once
    assert step.tasks[1].time_period_s == 20
    assert is_sliced(step)


@pytest.mark.parametrize("completed_by", ["bulk", "any"])
def test_a_task_that_another_one_ends_has_no_end_itself(completed_by: str) -> None:
    load, beside = task("bulk"), task("search", warmup_time_s=10.0)
    step = raced(load, beside, completed_by=(completed_by,))
    assert step.tasks == (load, replace(beside, warmup_time_s=0.0))
    assert raced(load, beside, pacing=WARM, completed_by=(completed_by,)).tasks == (load, beside)


@pytest.mark.parametrize(
    "given", [task("bulk", warmup_time_s=120.0), task("own", warmup_time_s=40.0, clients=8, **RUNNER)]
)
def test_a_warmup_does_not_cut_what_ends_by_itself(given: Task) -> None:
    step = raced(given)
    assert step.tasks == (replace(given, warmup_time_s=0.0),)
    assert raced(given, pacing=WARM).tasks == (given,)
    assert is_sliced(step)


@pytest.mark.parametrize(
    "given",
    [task("bulk"), task("bulk", **RUNNER), task("search", schedule=Schedule(stages=(Stage(60.0, Rate(5.0, "ops")),)))],
)
def test_documents_and_stages_are_as_long_as_they_are_in_slices(given: Task) -> None:
    step = raced(given)
    assert step.tasks == (given,)
    assert is_sliced(step)


def test_a_looped_bulk_has_a_time() -> None:
    (made,) = raced(task("bulk", {"looped": True}, time_period_s=100.0)).tasks
    assert made.time_period_s == 52  # in blocks of 4 s


def test_a_step_is_sliced_alike_before_and_after() -> None:
    for given in (task("search"), task("bulk"), task("reindex"), task("raw-request", iterations=2)):
        assert slicing(Step((given,)), PACING) == slicing(raced(given), PACING)
    assert slicing(Step((task("bulk"),)), PACING) == Slicing(2.0, 1.0)
