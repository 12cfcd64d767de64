"""The pace of a race: when its steps begin and for how long they last. A lone race waits for no other."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

from esbench.load.coordinator import at_once
from esbench.measure.schedule import length_s
from esbench.measure.slices import WholeTime
from esbench.model import Challenge, Step
from esbench.race.interrupts import Interrupts, InterruptsByOthers
from esbench.record.model import TaskResult

T = TypeVar("T")


def part_of(challenge: Challenge, number: int) -> Challenge:
    """Return the challenge of a round, 1 the first: recorded tasks with a length in time go on where the last ended.

    After the end of a recording they begin it again.
    """
    return replace(challenge, steps=tuple(_part_of_step(step, number) for step in challenge.steps))


def _part_of_step(step: Step, number: int) -> Step:
    tasks = []
    for task in step.tasks:
        recorded, length = task.schedule.recorded, length_s(task)
        if recorded is not None and length:
            parts = max(1, math.ceil(recorded.last_s / length))
            recorded = replace(recorded, from_s=(max(1, number) - 1) % parts * length)
        tasks.append(replace(task, schedule=replace(task.schedule, recorded=recorded)))
    return replace(step, tasks=tuple(tasks))


class Pace:
    """The pace of a lone race. That of a side of a round (race.round) waits for the other sides."""

    def join(self, race_id: str) -> InterruptsByOthers:
        """Take part as the race of this id; return what interrupts it."""
        return Interrupts()

    @property
    def siblings(self) -> frozenset[str]:
        """The ids of the other races of the round."""
        return frozenset()

    def shaped(self, challenge: Challenge) -> Challenge:
        """Return the challenge with the lengths that its tasks have at this pace."""
        return challenge

    def turn(self) -> AbstractContextManager[None]:
        """Context manager: let the block run while no other side does anything, each side after the other."""
        return nullcontext()

    def exchange(self, brought: T) -> tuple[int, Sequence[T]]:
        """Wait until each side has brought something; return the number of this side, and what each has brought."""
        return 0, (brought,)

    def watch(self, pids: Mapping[str, int]) -> None:
        """Watch the CPU time of the side's nodes, process ids by name, from the next step on."""

    def step(self, step: Step) -> AbstractContextManager[None]:
        """Context manager: prepare and run a step in the block; one without load in turn."""
        return nullcontext()

    def begin(self, delay_ns: int) -> WholeTime:
        """Return the time in which the step that is ready runs, when all sides are ready, from `delay_ns` on."""
        return at_once(delay_ns)

    def end(self, results: tuple[TaskResult, ...]) -> tuple[TaskResult, ...]:
        """Wait until the step has ended on all sides; return its results with what was seen from outside."""
        return results
