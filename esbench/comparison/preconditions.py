"""The preconditions of a task's verdicts, apart from values: checks and errors of its races, and how busy its clients
were."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from esbench.comparison import stats
from esbench.comparison.effects import Design, round_differences
from esbench.comparison.metrics import THROUGHPUT, Percentile, Race, measured_s, other_fault
from esbench.comparison.model import CompareOptions, RowVerdict
from esbench.comparison.reasons import (
    BUSY_BESIDE,
    CHECK,
    FASTER,
    MISSING,
    MORE_ERRORS,
    OVERLAP,
    RATE_FASTER,
    RATE_MISSED,
    RATE_SLOWER,
    SHORT_SLICES,
    Reason,
)
from esbench.comparison.scores import unless_lower
from esbench.measure.measures import LATENCY
from esbench.record.figures import missed_target
from esbench.record.model import TaskResult

_SATURATED = 0.8
_MOST_OVERLAP = 0.01  # of a side's requests
_RELAXATIONS = 10
_LONGEST_SLICE_S = 60
ON_THIS_NODE = "on this node"
_ROOM = 1.1  # of advised slices: requests of the next round may take longer
_FEWEST_IN_TURNS = 4  # races of a side: identical ones that miss a rate by chance do so on one side alone in 1 of 128


def tasks_of(races: Sequence[Race], label: str) -> list[TaskResult]:
    """Return the task with this label from each of the races that has it."""
    return [race.tasks[label] for race in races if label in race.tasks]


def of_checks(design: Design, label: str, options: CompareOptions) -> RowVerdict | None:
    """Return the verdict that follows from the races' checks alone; None if the task's figures may be compared.

    That is "not judged", or, if only one side missed its target rate, in all of its races, and the sides took turns or
    were raced at once often enough, on nodes that stand for others, `faster` or `slower` (not judged if the gain has
    more errors).
    """
    ours, theirs = (tasks_of(races, label) for races in (design.baseline, design.contender))
    if len(ours) < len(design.baseline) or len(theirs) < len(design.contender):
        return RowVerdict(MISSING, "missing in some of the races")
    if fault := next(filter(None, map(other_fault, (*ours, *theirs))), None):
        return RowVerdict(CHECK, fault.message, fault.hint)
    missed = [{missed_target(task) for task in tasks} for tasks in (ours, theirs)]
    if missed == [{False}, {False}]:
        return None
    if missed not in ([{True}, {False}], [{False}, {True}]):
        which = "all" if missed == [{True}, {True}] else "some"
        return RowVerdict(RATE_MISSED, f"{which} of the races missed the target rate: their latency says nothing")
    baseline_missed = missed == [{True}, {False}]
    reached = _reached("baseline", ours) if baseline_missed else _reached("contender", theirs)
    if not _counts(design, label):  # what a few races or one node missed, the next ones may reach
        return RowVerdict(RATE_MISSED, reached)
    return unless_errors(RowVerdict(RATE_FASTER if baseline_missed else RATE_SLOWER, reached), ours, theirs, options)


def _counts(design: Design, label: str) -> bool:
    """True if what all races of one side did, and none of the other, is a fact about the sides."""
    if not design.has_turns(label) or design.clusters is not None:
        return False
    if design.at_once is not None:
        return len(design.rounds) >= design.at_once.nodes.fewest_rounds
    return min(len(design.baseline), len(design.contender)) >= _FEWEST_IN_TURNS


def unless_errors(
    verdict: RowVerdict, ours: Sequence[TaskResult], theirs: Sequence[TaskResult], options: CompareOptions
) -> RowVerdict:
    """Return no verdict in place of a gain if the side that gained has more errors, or replies that score lower, else
    the verdict as it is.

    `verdict` is faster or slower; `ours` are the task's results on the baseline, `theirs` those on the contender, in
    the order of the races.
    """
    side, gaining, other = ("contender", theirs, ours) if verdict.word == FASTER else ("baseline", ours, theirs)
    if not _has_more_errors(other, gaining, options):
        return unless_lower(verdict, ours, theirs, options)
    before, after = (f"{100 * _error_ratio(tasks):.2f}" for tasks in (other, gaining))
    text = f"{verdict.word}, but {after} % of the {side}'s requests failed, against {before} %"
    return RowVerdict(MORE_ERRORS, "; ".join(filter(None, [text, verdict.detail])), p=verdict.p)


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


@dataclass(frozen=True)
class Leak:
    """Work of a side in the slices of the other, which may have moved the logarithm of their ratio by `log` at most.

    `reason` is that of a row that has no verdict because of it; `text` says what leaked, `remedy` what helps.
    """

    reason: Reason
    log: float
    text: str
    remedy: str

    @property
    def verdict(self) -> RowVerdict:
        """The verdict of a row that has none because of it."""
        return RowVerdict(self.reason, self.text, self.remedy)


def leak(design: Design, label: str, margin: float) -> Leak | None:
    """Return what leaked between the slices of the sides; None if next to nothing, or not in slices.

    Requests in flight in the other's slices add what they are to their own side and take it from the other. `margin`:
    the logarithm of the change that counts as none; of CPU beside the slices less than a quarter of it is next to
    nothing. What one round alone has is in the interval of its row: only what the rounds agree on counts.
    """
    if not design.is_at_once(label):
        return None
    sides = [tasks_of(races, label) for races in (design.baseline, design.contender)]
    leaks = [each for each in (_overlap(sides), _busy_beside(design, label, sides, margin)) if each is not None]
    if not leaks:
        return None
    largest = max(leaks, key=lambda each: each.log)
    return replace(largest, log=sum(each.log for each in leaks), text="; ".join(each.text for each in leaks))


def _overlap(sides: Sequence[Sequence[TaskResult]]) -> Leak | None:
    overlap = max(map(_overlap_ratio, sides))
    if overlap <= _MOST_OVERLAP:
        return None
    text = f"{overlap * 100:.1f}% of a side's requests in flight in the other's slices"
    return Leak(OVERLAP, 2 * overlap, text, _longer_gap(sides))


def _longer_gap(sides: Sequence[Sequence[TaskResult]]) -> str:
    """Return the option with which 99 % of a side's requests end in the gap after the slice that they began in."""
    tasks = [task for side in sides for task in side if task.slices is not None]
    longest_ms = max((task.service_time_ms or {}).get("p99", math.inf) for task in tasks)
    gap_s = max(task.slices.gap_s for task in tasks if task.slices is not None)
    if not math.isfinite(longest_ms):
        return "longer --slice-gap"
    return f"--slice-gap={math.ceil(max(2 * gap_s, gap_s + longest_ms / 1000) * 10) * 100}ms"


def _busy_beside(design: Design, label: str, sides: Sequence[Sequence[TaskResult]], margin: float) -> Leak | None:
    differences = round_differences(design, lambda race: _beside_ratio(race.tasks[label]))
    if design.at_once is None or design.at_once.nodes.shared or len(differences) < 2:
        return None
    low, high = map(float, stats.interval(stats.paired(differences)))
    difference = abs(fmean(differences))
    if difference <= margin / 4 or low <= 0 <= high:
        return None
    ours, theirs = (fmean(ratio for ratio in map(_beside_ratio, tasks) if ratio is not None) for tasks in sides)
    text = f"its nodes' CPU in the other side's slices: baseline {ours * 100:.1f}%, contender {theirs * 100:.1f}%"
    return Leak(
        BUSY_BESIDE, difference, text, _longer_slices(design.at_once.tasks[label].slice_s, 4 * difference / margin)
    )


def _longer_slices(slice_s: float, times: float) -> str:
    """Return the option with which work that follows each slice is a part of it that is smaller by `times`."""
    needed_s = math.ceil(slice_s * times)
    return f"--slice={needed_s}s" if needed_s <= _LONGEST_SLICE_S else "wait for merges before the task"


def of_slices(design: Design, metric: str, label: str) -> RowVerdict | None:
    """Return the verdict of a throughput whose requests are too long for the slices it was raced in; None of others."""
    if metric != THROUGHPUT or design.at_once is None or not design.has_short_slices(label):
        return None
    task = design.at_once.tasks[label]
    if task.shortest_s <= task.slice_s:
        return RowVerdict(SHORT_SLICES, "ended before a slice was over", "more documents, or a shorter --slice")
    needed = f"--slice={math.ceil(_ROOM * task.shortest_s)}s"
    return RowVerdict(SHORT_SLICES, f"its requests are too long for slices of {task.slice_s:g} s", needed)


def is_idle_measured(design: Design) -> bool:
    """True if it is known what the nodes of each side did while the other was raced; also of a node that both share."""
    if design.at_once is None or design.at_once.nodes.shared:
        return True
    tasks = [task for label in design.at_once.tasks for task in tasks_of(design.races, label)]
    return all(task.slices is not None and task.slices.cpu_s for task in tasks)


def remarks(design: Design, metric: str, label: str) -> tuple[str, ...]:
    """Return the notes beside a row's verdict."""
    return tuple(filter(None, [saturation(design, metric, label), *_of_rounds(design, metric, label)]))


def on_this_node(design: Design) -> Iterator[str]:
    """Yield the note on rows of sides that were raced at once, on a node that was kept for all rounds."""
    if design.at_once is not None and design.at_once.nodes.shared and design.at_once.nodes.kept:
        yield ON_THIS_NODE


def _of_rounds(design: Design, metric: str, label: str) -> Iterator[str]:
    """Yield the notes on a row of sides that were raced at once."""
    if design.at_once is None or not design.is_at_once(label):
        return
    yield from on_this_node(design)
    task = design.at_once.tasks[label]
    if metric in task.tails and task.tails[metric].stalls:
        yield "stalls decide"
    if any(map(_slices_too_short, tasks_of(design.races, label))):
        yield "slices too short: each begins with an empty queue"
    if not task.cut.is_steady:
        yield (
            f"not steady: figures from {task.cut.at_s:g} s on, after {task.cut.age_s:.0f} s of load on the node"
            if task.cut.at_s > 0
            else "too short to see whether it was steady"
        )


def _slices_too_short(task: TaskResult) -> bool:
    """True of an open loop whose slices are shorter than ten relaxation times of its queue.

    1 / (mu (1 - sqrt(rho))^2): mu, the rate at which all clients together could be served, is clients / mean service
    time, and rho the share of it that was asked for.
    """
    mean_ms = (task.service_time_ms or {}).get("mean")
    if task.loop != "open" or task.slices is None or not mean_ms:
        return False
    busy = _busy_ratio(task)
    if busy >= 1:
        return True
    relaxation_s = mean_ms / 1000 / task.clients / (1 - math.sqrt(busy)) ** 2
    return task.slices.length_s < _RELAXATIONS * relaxation_s


def _overlap_ratio(tasks: Sequence[TaskResult]) -> float:
    overlapping = sum(task.slices.overlapping for task in tasks if task.slices is not None)
    return overlapping / max(1, sum(task.requests + task.warmup.requests for task in tasks))


def _beside_ratio(task: TaskResult) -> float | None:
    """Return the CPU that a side's nodes used beside its slices / within them, after the cut; None if not measured."""
    if task.slices is None or not task.slices.cpu_s:
        return None
    measured = task.slices.cpu_s[round(task.window.start_s / task.slices.length_s) :]
    own_s, beside_s = (sum(each) for each in zip(*measured, strict=True)) if measured else (0.0, 0.0)
    return beside_s / own_s if own_s > 0 else None


def _busy_ratio(task: TaskResult) -> float:
    """Return the mean share of clients with a request in flight: rate x mean service time / clients."""
    length_s = measured_s(task)
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
        lengths_s = list(map(measured_s, tasks))
        rates = [each.requests / length for each, length in zip(tasks, lengths_s, strict=True) if length > 0]
    if not rates or task.target_rate_per_s is None:
        return f"{side} missed its rate"
    return f"{side} reached {fmean(rates):.4g}/s of {task.target_rate_per_s:g}/s"


def _error_ratio(tasks: Sequence[TaskResult]) -> float:
    """Return the share of failed requests of all races together."""
    return sum(task.errors for task in tasks) / max(1, sum(task.requests for task in tasks))


def _has_more_errors(before: Sequence[TaskResult], after: Sequence[TaskResult], options: CompareOptions) -> bool:
    """True if the error rate is higher in `after` by more than the allowed rise, in all rounds but at most one."""
    if _error_ratio(after) - _error_ratio(before) <= options.max_error_rise_ratio:
        return False
    rates = [[task.errors / max(1, task.requests) for task in tasks] for tasks in (before, after)]
    pairs = list(zip(*rates, strict=False))
    higher = sum(one < other for one, other in pairs)
    return bool(higher >= max(1, len(pairs) - 1))
