"""Recorded tasks in a session: each round sends the next part of a recording."""

from __future__ import annotations

import math
from dataclasses import replace

from esbench.measure.schedule import length_s, recorded_s
from esbench.model import Challenge, Step, Task


def part_of(challenge: Challenge, number: int) -> Challenge:
    """Return the challenge of a round, 1 the first: recorded tasks with a length in time go on where the last ended.

    After the end of the step's longest recording they all begin again, so that tasks that were recorded together stay
    together.
    """
    of_steps = ((step, tuple(_part_of_task(step, task, number) for task in step.tasks)) for step in challenge.steps)
    return replace(challenge, steps=tuple(replace(step, tasks=tasks) for step, tasks in of_steps))


def _part_of_task(step: Step, task: Task, number: int) -> Task:
    recorded, length = task.schedule.recorded, length_s(task)
    if recorded is None or not length:
        return task
    from_s = (max(1, number) - 1) % max(1, math.ceil(recorded_s(step) / length)) * length
    return replace(task, schedule=replace(task.schedule, recorded=replace(recorded, from_s=from_s)))
