"""The slices of a step whose sides are raced at once, and the lengths that its tasks have in them."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from esbench.load.assignment import least_s
from esbench.measure.schedule import measured_period_s
from esbench.model import Challenge, Step, Task
from esbench.operations.base import is_load, kind_of
from esbench.record.sessions import Pacing

SLICE_S, SLICE_OF_WRITES_S = 1.0, 2.0
GAP_S, GAP_OF_BULKS_S = 0.05, 1.0


class Slicing(NamedTuple):
    """The length of each slice in a step, and of the gap after it, in seconds."""

    length_s: float
    gap_s: float


def slicing(step: Step, pacing: Pacing) -> Slicing | None:
    """Return the slices of a step; None of a step without load, which is not sliced."""
    if not any(map(is_load, step.tasks)):
        return None
    if found := [each for task in step.tasks if (each := pacing.of(task.name)) is not None]:
        return Slicing(max(each.slice_s for each in found), max(each.gap_s for each in found))
    kinds = [kind_of(task.operation) for task in step.tasks]
    writes, has_bulks = any(k.traits.sends_corpora for k in kinds), any(k.traits.in_file_order for k in kinds)
    length_s = SLICE_OF_WRITES_S if writes else SLICE_S
    gap_s = GAP_OF_BULKS_S if has_bulks else GAP_S
    return Slicing(
        length_s if pacing.slice_s is None else pacing.slice_s, gap_s if pacing.gap_s is None else pacing.gap_s
    )


def shaped(challenge: Challenge, pacing: Pacing, sides: int) -> Challenge:
    """Return a challenge with the lengths that its tasks have when `sides` are raced at once, each in own time.

    A task that is no load, or ends with its documents, by its stages or with another task, is as long as it is. Any
    other one lasts as `task_time_s` says, or as the track does (a number of requests at their rate) but
    `least_s` at least, in whole blocks of two slices.
    """
    return replace(challenge, steps=tuple(shaped_step(step, pacing, sides) for step in challenge.steps))


def shaped_step(step: Step, pacing: Pacing, sides: int) -> Step:
    """Return a step with the lengths of its tasks as in `shaped`."""
    slices = slicing(step, pacing)
    if slices is None:
        return step
    return replace(step, tasks=tuple(_shaped(task, pacing, sides, slices.length_s) for task in step.tasks))


def may_be_planned(step: Step) -> bool:
    """True if a pilot can run the first seconds of a step, and its tasks can be of any length."""
    return not step.completed_by and all(map(_has_any_length, step.tasks))


def _has_any_length(task: Task) -> bool:
    kind = kind_of(task.operation)
    ends = kind.traits.sends_corpora and kind.ends(task.operation.params)
    has_times = bool(task.schedule.stages) or task.schedule.recorded is not None
    return is_load(task) and not has_times and not ends and measured_period_s(task) is not None


def _shaped(task: Task, pacing: Pacing, sides: int, slice_length_s: float) -> Task:
    kind = kind_of(task.operation)
    if task.schedule.stages or not is_load(task):
        return task
    warmup_s = task.warmup_time_s or 0.0
    ends_with_documents = kind.traits.sends_corpora and kind.ends(task.operation.params)
    if measured_period_s(task) is None and (task.is_time_based or ends_with_documents):  # it ends, or others end it
        return task if pacing.warmup == "track" or not warmup_s else replace(task, warmup_time_s=0.0)
    by_track_s = max(pacing.least_s, least_s(task, kind) / sides)
    block_s = 2 * slice_length_s
    found = pacing.of(task.name)
    asked_s = by_track_s if pacing.task_time_s is None else pacing.task_time_s / sides
    own_s = block_s * math.ceil((asked_s if found is None else found.own_s) / block_s - 1e-9)
    kept_s = min(warmup_s, own_s / 2) if pacing.warmup == "track" else 0.0
    return replace(
        task,
        warmup_time_s=kept_s,
        time_period_s=own_s - kept_s,
        warmup_iterations=None,
        iterations=None,
        requests=None,
    )
