"""The preconditions of a task's verdicts, apart from values: checks and errors of its races, and how busy its clients
were."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from esbench.comparison.effects import Design
from esbench.comparison.metrics import Percentile, Race, other_fault
from esbench.comparison.model import ERRORS, FASTER, SLOWER, UNUSABLE, CompareOptions, RowVerdict
from esbench.measure.measures import LATENCY
from esbench.record.figures import missed_target
from esbench.record.model import TaskResult

_SATURATED = 0.8


def tasks_of(races: Sequence[Race], label: str) -> list[TaskResult]:
    """Return the task with this label from each of the races that has it."""
    return [race.tasks[label] for race in races if label in race.tasks]


def of_checks(design: Design, label: str, options: CompareOptions) -> RowVerdict | None:
    """Return the verdict that follows from the races' checks alone; None if the task's figures may be compared.

    It is `!`, or, if only one side missed its target rate, in all of its races, and the sides are interleaved, `faster`
    or `slower` (`! errors` if the gain has more errors).
    """
    ours, theirs = (tasks_of(races, label) for races in (design.baseline, design.contender))
    if len(ours) < len(design.baseline) or len(theirs) < len(design.contender):
        return RowVerdict(UNUSABLE, "missing in some of the races")
    if fault := next(filter(None, map(other_fault, (*ours, *theirs))), ""):
        return RowVerdict(UNUSABLE, fault)
    missed = [{missed_target(task) for task in tasks} for tasks in (ours, theirs)]
    if missed == [{False}, {False}]:
        return None
    if missed not in ([{True}, {False}], [{False}, {True}]):
        return RowVerdict(UNUSABLE, "overloaded: latency undefined")
    baseline_missed = missed == [{True}, {False}]
    reached = _reached("baseline", ours) if baseline_missed else _reached("contender", theirs)
    if design.places is None:  # what a single race or session missed, the next one may reach
        return RowVerdict(UNUSABLE, reached)
    return unless_errors(RowVerdict(FASTER if baseline_missed else SLOWER, reached), ours, theirs, options)


def unless_errors(
    verdict: RowVerdict, ours: Sequence[TaskResult], theirs: Sequence[TaskResult], options: CompareOptions
) -> RowVerdict:
    """Return `! errors` in place of a gain if the side that gained has more errors, else the verdict as it is.

    `verdict` is faster or slower; `ours` are the task's results on the baseline, `theirs` those on the contender, in
    the order of the races.
    """
    side, gaining, other = ("contender", theirs, ours) if verdict.kind == FASTER else ("baseline", ours, theirs)
    rise = _error_rise(other, gaining, options)
    if rise is None:
        return verdict
    note = f"{verdict.kind}, with {rise * 100:.2f} points more errors of the {side}"
    return RowVerdict(ERRORS, "; ".join(filter(None, [note, verdict.note])), verdict.p)


def saturation(design: Design, metric: str, label: str) -> str:
    """Return a note if nearly all clients of an open loop were busy on a side, since its latency then overstates; else
    ""."""
    percentile = Percentile.of(metric)
    if percentile is None or percentile.measure is not LATENCY:
        return ""
    sides = (tasks_of(races, label) for races in (design.baseline, design.contender))
    if all(fmean(map(_busy_ratio, tasks)) <= _SATURATED for tasks in sides):
        return ""
    return "near saturation: percentages overstate"


def _busy_ratio(task: TaskResult) -> float:
    """Return the mean share of clients with a request in flight: rate x mean service time / clients."""
    length_s = task.window.end_s - task.window.start_s
    mean_ms = (task.service_time_ms or {}).get("mean")
    if mean_ms is None or length_s <= 0:
        return 0.0
    return task.requests / length_s * mean_ms / 1000 / task.clients


def _reached(side: str, tasks: Sequence[TaskResult]) -> str:
    """Describe the rate that a side reached, in the unit of its target rate."""
    task = tasks[0]
    if task.throughput.unit == task.target_unit:
        rates = [each.throughput.mean for each in tasks if each.throughput.mean is not None]
    else:
        lengths_s = [each.window.end_s - each.window.start_s for each in tasks]
        rates = [each.requests / length for each, length in zip(tasks, lengths_s, strict=True) if length > 0]
    if not rates or task.target_rate_per_s is None:
        return f"{side} missed its rate"
    return f"{side} reached {fmean(rates):.4g}/s of {task.target_rate_per_s:g}/s"


def _error_rise(before: Sequence[TaskResult], after: Sequence[TaskResult], options: CompareOptions) -> float | None:
    """Return the rise of the error rate from `before` to `after`, pooled over races.

    None if it is not above the allowed rise, or did not rise in all rounds but at most one.
    """
    pooled = [
        sum(task.errors for task in tasks) / max(1, sum(task.requests for task in tasks)) for tasks in (before, after)
    ]
    rise = pooled[1] - pooled[0]
    if rise <= options.max_error_rise_ratio:
        return None
    rates = [[task.errors / max(1, task.requests) for task in tasks] for tasks in (before, after)]
    pairs = list(zip(*rates, strict=False))
    higher = sum(one < other for one, other in pairs)
    return rise if higher >= max(1, len(pairs) - 1) else None
