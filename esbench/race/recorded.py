"""Recorded tasks in a session: each round sends the next part of a recording."""

from __future__ import annotations

from dataclasses import replace

from esbench.measure.schedule import length_s, parts
from esbench.model import Challenge, Step, Task


def part_of(challenge: Challenge, number: int) -> Challenge:
    """Return the challenge of a round, 1 the first: recorded tasks with a length in time go on where the last ended.

    After the end of the step's longest recording they all begin again, so that tasks that were recorded together stay
    together.
    """
    return replace(challenge, steps=tuple(_part_of_step(step, number) for step in challenge.steps))


def _part_of_step(step: Step, number: int) -> Step:
    return replace(step, tasks=tuple(_part_of_task(step, task, number) for task in step.tasks))


def _part_of_task(step: Step, task: Task, number: int) -> Task:
    recorded, length = task.schedule.recorded, length_s(task)
    if recorded is None or not length:
        return task
    from_s = (max(1, number) - 1) % parts(step, task) * length
    return replace(task, schedule=replace(task.schedule, recorded=replace(recorded, from_s=from_s)))
