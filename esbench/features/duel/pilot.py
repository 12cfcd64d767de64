"""The first seconds of a task on all sides, and what follows from them: its slices, the gap after each, its length.

The figures of the slowest, least even side count, so that the sides may be swapped, and one may be faster, without any
effect: what a plan rests on says nothing about their difference. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from esbench.comparison import stats
from esbench.comparison.metrics import Percentile, fewest_samples
from esbench.measure.histogram import Counts, decode, percentiles_ns
from esbench.measure.measures import response_time
from esbench.record.model import TaskResult
from esbench.record.sessions import Pacing

PILOT_S = 6.0  # own seconds of each side
_USUAL_SPREAD, _USUAL_WEIGHT = 0.08, 4  # of the difference in a second, and how many seconds that is worth
_CYCLES = 7  # of a client in a slice: twice as many as throughput within 1 % takes
_LONGEST_SLICE_S, _LONGEST_GAP_S = 8.0, 1.0
_SPARE = 1.1  # slices differ, and the fifth of a task with the fewest requests must have enough
_AFTER_WARMUP = 1.5  # times what a percentile takes, since up to a third may be cut as warmup
_RANK = 99.0
_MOST_BESIDE = 0.01  # of the CPU that a side's nodes use in its own slices
_HELPFUL_GAP_S, _MOST_TIMES = 0.25, 4.0
_LONGEST_TASK_S = 3600


@dataclass(frozen=True)
class SeenTask:
    """The first seconds of a task as one side has seen them; all times in s, of the side's own time.

    `cycle_s`: the time from one request of a client to its next, at the median; `longest_s`: the p99 of requests.
    `units` of each second. `tail_spread`: the standard deviation of ln(p99) times the root of the number of requests;
    None with too few. `beside`: the CPU that its nodes used in other sides' slices, as a share of
    that in its own; None if that is not known.
    """

    requests_per_s: float
    cycle_s: float
    longest_s: float
    units: tuple[float, ...]
    tail_spread: float | None
    beside: float | None


@dataclass(frozen=True)
class Frame:
    """The facts of a task before its pilot: the slices and the gap of its kind, and the time that it may take.

    `pacing`: what the user says of them, which holds. `luck`: the standard deviation of a round's difference beside
    what happens within rounds. `least_s` and `most_s`: the time of the task, all sides together. `cost_s`: the time
    that a round takes for each task beside it.
    """

    sides: int
    slice_s: float
    gap_s: float
    pacing: Pacing
    luck: float
    least_s: float
    most_s: float
    cost_s: float


@dataclass(frozen=True)
class TaskPlan:
    """The slices of a task and its length: the own seconds of each side, and `task_s` with all sides and gaps.

    `spread` and `tail_spread`: the expected standard deviation of a round's difference in throughput, or the median of
    an open loop, and in the p99; None with too few requests for one, which `tail_s` would have; None above an hour.
    """

    slice_s: float
    gap_s: float
    own_s: float
    task_s: float
    spread: float
    tail_spread: float | None
    tail_s: float | None


def seen(result: TaskResult, units: Sequence[float]) -> SeenTask:
    """Return what a side has shown; `units` of its whole own seconds, in their order."""
    measure = response_time(is_open=result.loop == "open").name
    counts = decode(result.histograms[measure]) if measure in result.histograms else Counts()
    cpu_s = result.slices.cpu_s if result.slices is not None else ()
    own_s, beside_s = (sum(each) for each in zip(*cpu_s, strict=True)) if cpu_s else (0.0, 0.0)
    service_ms = result.service_time_ms or {}
    return SeenTask(
        counts.count / result.window.end_s if result.window.end_s > 0 else 0.0,
        service_ms.get("p50", 0.0) / 1000 + result.think_time_s,
        service_ms.get("p99", service_ms.get("max", 0.0)) / 1000,
        tuple(units),
        _tail_spread(counts),
        beside_s / own_s if own_s > 0 else None,
    )


def planned(sides: Sequence[SeenTask], frame: Frame) -> TaskPlan:
    """Return the plan of a task by what all sides have shown, in any order."""
    slice_s, gap_s = _slices(sides, frame)
    pace = frame.sides * (slice_s + gap_s) / slice_s
    block_s = 2 * slice_s * pace
    within = _spread(sides) ** 2 / (2 * slice_s)  # of a block
    best = float(stats.best_blocks(within, frame.luck**2, frame.cost_s / block_s, stats.FEWEST_BLOCKS))
    tail_s = _tail_s(sides, pace)
    wanted_s = max(best * block_s, frame.least_s, tail_s if tail_s is not None and tail_s <= frame.most_s else 0.0)
    wanted, most = math.ceil(wanted_s / block_s - 1e-9), math.floor(frame.most_s / block_s + 1e-9)
    blocks = max(stats.SECTIONS, min(wanted, most))
    if frame.pacing.task_time_s is not None:
        blocks = math.ceil(frame.pacing.task_time_s / frame.sides / (2 * slice_s) - 1e-9)
    task_s = blocks * block_s
    spreads = [side.tail_spread for side in sides]
    known = [spread for spread in spreads if spread is not None]
    has_tail = tail_s is not None and tail_s <= task_s + block_s and len(known) == len(spreads)
    requests = min(side.requests_per_s for side in sides) * task_s / pace
    tail = math.sqrt(2 * max(known) ** 2 / requests + frame.luck**2) if has_tail else None
    return TaskPlan(
        slice_s,
        gap_s,
        blocks * 2 * slice_s,
        task_s,
        math.sqrt(within / blocks + frame.luck**2),
        tail,
        None if has_tail else tail_s,
    )


def together(plans: Sequence[TaskPlan]) -> tuple[TaskPlan, ...]:
    """Return the plans of the tasks of a step, which has the same slices and length for all."""
    longest = max(plans, key=lambda plan: plan.own_s)
    slice_s, gap_s = max(plan.slice_s for plan in plans), max(plan.gap_s for plan in plans)
    return tuple(
        replace(plan, slice_s=slice_s, gap_s=gap_s, own_s=longest.own_s, task_s=longest.task_s) for plan in plans
    )


def _slices(sides: Sequence[SeenTask], frame: Frame) -> tuple[float, float]:
    """Return the length of slices, and of the gap after each.

    A slice is long against the time of a request, a gap lets all but few requests end. Work beside a side's slices
    gets a longer gap to end in, and slices of which it is a smaller part.
    """
    slice_s, gap_s = frame.slice_s, frame.gap_s
    beside = max((side.beside for side in sides if side.beside is not None), default=0.0)
    times = min(_MOST_TIMES, beside / _MOST_BESIDE)
    if frame.pacing.slice_s is None:
        by_requests = _CYCLES * max(side.cycle_s for side in sides)
        slice_s = min(_LONGEST_SLICE_S, max(slice_s, math.ceil(by_requests), math.ceil(slice_s * times)))
    if frame.pacing.gap_s is None:
        by_requests = 1.5 * max(side.longest_s for side in sides)
        gap_s = max(gap_s, min(_LONGEST_GAP_S, max(round(by_requests, 2), _HELPFUL_GAP_S if times > 1 else 0.0)))
    return slice_s, gap_s


def _spread(sides: Sequence[SeenTask]) -> float:
    """Return the standard deviation of the difference of two sides in a second, ln(units): how it changes from one
    second to the next, whatever it is in the mean. Some seconds say little, so that a usual one counts as well."""
    steps = []
    for one, other in combinations(sides, 2):
        both = zip(one.units, other.units, strict=False)
        logs = [math.log(ours / theirs) for ours, theirs in both if ours > 0 and theirs > 0]
        steps += [(second - first) ** 2 / 2 for first, second in pairwise(logs)]
    return math.sqrt((sum(steps) + _USUAL_WEIGHT * _USUAL_SPREAD**2) / (len(steps) + _USUAL_WEIGHT))


def _tail_spread(counts: Counts) -> float | None:
    """Return the standard deviation of ln(p99) times the root of the number of requests, by the order statistics one
    standard error beside it; None with too few requests."""
    requests = counts.count
    error = 100 * math.sqrt(_RANK / 100 * (1 - _RANK / 100) / requests) if requests else math.inf
    if _RANK + error >= 100:
        return None
    low, high = percentiles_ns(counts, (_RANK - error, _RANK + error)).values()
    return math.log(high / low) / 2 * math.sqrt(requests) if low > 0 else None


def _tail_s(sides: Sequence[SeenTask], pace: float) -> float | None:
    """Return the time of a task, all sides together, in which each fifth has enough requests for a p99."""
    per_s = min(side.requests_per_s for side in sides)
    if per_s <= 0:
        return None
    p99 = Percentile(_RANK, response_time(is_open=False))
    own_s = _SPARE * _AFTER_WARMUP * stats.SECTIONS * fewest_samples(p99) / per_s
    return own_s * pace if own_s * pace <= _LONGEST_TASK_S else None
