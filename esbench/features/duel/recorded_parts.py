"""The part of a recording that a round sends: as long in every round, so that one part follows the other."""

from __future__ import annotations

import math
from dataclasses import replace

from esbench.features.duel.slices import slicing
from esbench.measure.schedule import length_s, recorded_s
from esbench.model import Challenge, Step
from esbench.record.sessions import Pacing, TaskPacing
from esbench.units import format_duration

_OF_THE_BUDGET = 0.9  # the rest is for what a round does before and after its slices


def paced_in_parts(
    challenge: Challenge, pacing: Pacing, sides: int, rounds: int, budget_s: float | None = None
) -> Pacing:
    """Return the pacing with the length of recorded tasks, the same for all tasks of a step, unless the user says it.

    `rounds` send the recording once, or what of it the budget has time for, but 20 s in each round at least, or all.
    """
    steps = [step for step in challenge.steps if recorded_s(step)]
    if pacing.task_time_s is not None or not steps:
        return pacing
    most_s = math.inf if budget_s is None else _OF_THE_BUDGET * budget_s / (rounds * sides * len(steps))
    tasks = [task for step in steps for task in _paced(step, pacing, rounds, most_s)]
    return replace(pacing, tasks=(*pacing.tasks, *tasks))


def _paced(step: Step, pacing: Pacing, rounds: int, most_s: float) -> list[TaskPacing]:
    slices, whole_s = slicing(step, pacing), recorded_s(step)
    assert slices is not None
    block_s = 2 * slices.length_s
    most_s = most_s / (1 + slices.gap_s / slices.length_s) - block_s  # as the length is rounded up
    own_s = max(min(pacing.least_s, whole_s), min(whole_s / rounds, most_s))
    own_s = block_s * math.ceil(own_s / block_s - 1e-9)
    names = (task.name for task in step.tasks if task.schedule.recorded is not None)
    return [TaskPacing(name, slices.length_s, slices.gap_s, own_s) for name in names]


def parts_text(challenge: Challenge) -> str:
    """Return how rounds of a shaped challenge divide its longest recording: `2 min of 1 h in each round, 30 rounds for
    all of it`; "" without one."""
    step = max(challenge.steps, key=recorded_s, default=Step(()))
    length = next((length_s(task) for task in step.tasks if task.schedule.recorded is not None), None)
    if length is None:
        return ""
    whole, rounds = format_duration(round(recorded_s(step))), math.ceil(recorded_s(step) / length)
    if rounds <= 1:
        return f"all {whole} of it in each round"
    return f"{format_duration(length)} of {whole} in each round, {rounds} rounds for all of it"
