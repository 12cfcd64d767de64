"""Recorded tasks in a session: each round sends the next part of a recording."""

from __future__ import annotations

import math
from dataclasses import replace

from esbench.measure.schedule import length_s
from esbench.model import Challenge, Step


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
