"""Two sides that were raced at once, in slices: their rounds after the cut of the warmup, and what only the seconds of
both can tell. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median

from esbench.comparison import stats
from esbench.comparison.metrics import Percentile, has_interval
from esbench.comparison.model import Cut, RoundPlan, RoundsNeeded, SecondsOf, Side, SlicedRounds
from esbench.comparison.nodes import NodesOfRounds, nodes_of
from esbench.comparison.own_time import OwnSlices
from esbench.comparison.parts import has_result, without_parts
from esbench.comparison.warmup_cut import BLOCK, SlicesOfRounds, first_steady
from esbench.measure.measures import RESPONSE_TIMES
from esbench.record.figures import measured_phase, reported_tasks, task_label
from esbench.record.model import PERCENTILES, RaceRecord, TaskResult
from esbench.record.series import SecondLine, by_task

TAIL_FROM = 90.0  # percentiles from here on are compared section by section
_STALLS = 3.0  # the ratio of a race's sections from which on stalls decide
_PLANNED = (0.05, 0.10)  # the changes that a plan settles
Rounds = tuple[tuple[RaceRecord, RaceRecord], ...]
Margin = Callable[[TaskResult, NodesOfRounds], float]


@dataclass(frozen=True)
class Tail:
    """A percentile from p90 up: the difference of each round, the mean over sections of ln(contender / baseline).

    `stalls`: sections of a race differ by more than threefold. No `differences` if a section has too few requests.
    `logs`: ln of the percentile of each side, in ns, the means that the differences have come from.
    """

    differences: tuple[float, ...] = ()
    stalls: bool = False
    logs: tuple[float, float] | None = None


@dataclass(frozen=True)
class SlicedTask:
    """A task of all rounds: its cut, and its percentiles from p90 up by metric.

    `slice_s` of own time; `pace`: the seconds that one own second takes, all sides together; `warmup_s`: those before
    its figures begin, cut or the track's own warmup. `sections`: for each round the difference in 5 sections
    (throughput; in open loops the median latency), empty if one has no value. `blocks` of two slices were measured
    after the warmup, the median over the rounds. `without_seconds`: the id of a race whose seconds are missing, so that
    nothing was cut; "" if all are there. Throughputs can be compared in slices of `shortest_s` on (0: of any length),
    if each race had a whole one (`slices`, the fewest of a race).
    """

    cut: Cut
    slice_s: float
    pace: float
    warmup_s: float
    tails: Mapping[str, Tail] = field(default_factory=dict)
    sections: tuple[tuple[float, ...], ...] = ()
    blocks: float = 0.0
    without_seconds: str = ""
    shortest_s: float = 0.0
    slices: int = 0

    @property
    def block_s(self) -> float:
        """The seconds that a block takes, all sides together."""
        return BLOCK * self.slice_s * self.pace


@dataclass(frozen=True)
class SideBySide:
    """Two sides in rounds that held both, after the cut; `tasks` by label are those that had slices in all races, but
    those of parts."""

    baseline: Side
    contender: Side
    rounds: Rounds
    tasks: Mapping[str, SlicedTask]
    nodes: NodesOfRounds

    def sliced_rounds(self, rows: int) -> SlicedRounds:
        """Return what is shown of the rounds; `rows`: the number of rows that enough of them test together."""
        records = [record for pair in self.rounds for record in pair]
        lengths = {task.slices.length_s for record in records for task in record.tasks if task.slices is not None}
        cuts = {label: task.cut for label, task in self.tasks.items()}
        plan = None if _are_results_in_slices(records) else self._plan(rows)
        return SlicedRounds(tuple(sorted(lengths)), cuts, self.nodes.fresh, plan)

    def _plan(self, rows: int) -> RoundPlan | None:
        """Return the plan by the medians over the tasks; None with a single round, or without values."""
        tasks = [task for task in self.tasks.values() if len(task.sections) > 1 and all(task.sections)]
        if not tasks:
            return None
        blocks, block_s = median(task.blocks for task in tasks), median(task.block_s for task in tasks)
        within = median(float(stats.block_variance(task.sections, task.blocks)) for task in tasks)
        total = median(float(stats.paired(list(map(fmean, task.sections))).residual_sd) ** 2 for task in tasks)
        between = total - within / blocks
        warmup_s = fmean(task.warmup_s for task in tasks)
        setup_s, steps = self._setup_s(), len(_longest(self.rounds[0][0]))
        cost_s = (setup_s or 0.0) / steps + warmup_s
        best = float(stats.best_blocks(within, between, cost_s / block_s, blocks))
        task_s, spread = warmup_s + best * block_s, math.sqrt(max(between, 0.0) + within / best)
        round_s = None if setup_s is None else setup_s + steps * task_s

        def needed(ratio: float) -> RoundsNeeded:
            margin, fewest = math.log1p(ratio), self.nodes.fewest_rounds
            rounds = stats.paired_rounds_to_settle(spread, margin, max(1, rows), fewest)
            return RoundsNeeded(ratio, rounds, None if rounds is None or round_s is None else rounds * round_s)

        return RoundPlan(
            math.sqrt(max(between, 0.0)),
            math.sqrt(within / blocks),
            self.nodes.fresh,
            task_s,
            tuple(map(needed, _PLANNED)),
            spread,
            round_s,
        )

    def _setup_s(self) -> float | None:
        """Return the seconds of a round that are no task's (boot, load), the median; None if its times are not
        known."""
        found = []
        for pair in self.rounds:
            took_s = [_took_s(record) for record in pair]
            found += [took - _in_tasks_s(record) for took, record in zip(took_s, pair, strict=True) if took is not None]
        return max(0.0, median(found)) if found else None


def side_by_side(
    baseline: Side, contenders: Sequence[Side], seconds: SecondsOf, margin: Margin
) -> tuple[SideBySide | None, ...]:
    """Return each contender with the baseline if both were raced at once in all their rounds, else None.

    A task has one cut for all of them. `margin` returns the logarithm of the change of a task that counts as none.
    """
    rounds = {number: found for number, side in enumerate(contenders) if (found := _rounds(baseline, side))}
    nodes = {number: nodes_of(pairs) for number, pairs in rounds.items()}
    races = {record.race_id: record for pairs in rounds.values() for pair in pairs for record in pair}
    lines = {race_id: by_task(seconds(record)) for race_id, record in races.items()}
    tasks: dict[int, dict[str, SlicedTask]] = {number: {} for number in rounds}
    changed: dict[str, dict[str, TaskResult]] = {race_id: {} for race_id in races}
    for label in _common_labels(races.values()):
        own = {race_id: _own(record, label, lines[race_id]) for race_id, record in races.items()}
        of_rounds = {
            number: [(own[one.race_id], own[other.race_id]) for one, other in pairs] for number, pairs in rounds.items()
        }
        any_task = next(iter(own.values())).task
        narrowest = min(margin(any_task, of_pairs) for of_pairs in nodes.values())
        cut = _cut(list(races.values()), list(own.values()), list(of_rounds.values()), narrowest)
        missing = next((race_id for race_id, each in own.items() if each.lacks_seconds), "")
        for number, pairs in of_rounds.items():
            tasks[number][label] = replace(_sliced_task(cut, pairs), without_seconds=missing)
        if cut.at_s > 0:
            for race_id, each in own.items():
                changed[race_id][each.task.name] = each.after(cut.at_s)
    after = {race_id: _with_tasks(record, changed[race_id]) for race_id, record in races.items()}
    return tuple(
        SideBySide(
            _of(after, baseline),
            _of(after, contender),
            tuple((after[one.race_id], after[other.race_id]) for one, other in rounds[number]),
            tasks[number],
            nodes[number],
        )
        if number in rounds and (tasks[number] or _are_results_in_slices(races.values()))
        else None
        for number, contender in enumerate(contenders)
    )


def after_cuts(seconds: SecondsOf, tasks: Mapping[str, SlicedTask]) -> SecondsOf:
    """Return a reader of seconds to which all that is before the cut of its task is warmup."""

    def read(record: RaceRecord) -> Iterator[SecondLine]:
        cuts = {task.name: tasks[label].cut.at_s for label, task in _sliced(record).items() if label in tasks}
        for line in seconds(record):
            yield line if line.second >= cuts.get(line.task, 0.0) else replace(line, phase="warmup")

    return read


def _rounds(baseline: Side, contender: Side) -> Rounds:
    """Return the races of both sides that were raced at once; empty unless each has its counterpart."""
    by_pair: list[dict[int, RaceRecord]] = []
    for side in (baseline, contender):
        sessions = [(record.session, record) for record in side.records]
        by_pair.append({session.pair: record for session, record in sessions if session is not None and session.pair})
        if len(by_pair[-1]) < len(side.records):
            return ()
    ours, theirs = by_pair
    ids = {record.session.id for record in (*ours.values(), *theirs.values()) if record.session is not None}
    if len(ids) != 1 or ours.keys() != theirs.keys():
        return ()
    pairs = tuple((ours[number], theirs[number]) for number in sorted(ours))
    if any(one.race_id == other.race_id for one, other in pairs):
        return ()
    records = [record for pair in pairs for record in pair]
    return pairs if _common_labels(records) or _are_results_in_slices(records) else ()


def _are_results_in_slices(records: Iterable[RaceRecord]) -> bool:
    """True if results of parts are compared of all races, in slices."""
    return all(has_result(record) and any(task.slices for task in record.tasks) for record in records)


def _sliced(record: RaceRecord) -> dict[str, TaskResult]:
    """Return the tasks of a race that had slices, by label; without those of parts."""
    tasks = reported_tasks(without_parts(record))
    return {task_label(record, task): task for task in tasks if task.slices is not None}


def _common_labels(records: Iterable[RaceRecord]) -> list[str]:
    """Return the labels of the tasks that had slices in all races, in their order."""
    found = [_sliced(record) for record in records]
    return [label for label in found[0] if all(label in each for each in found)] if found else []


def _own(record: RaceRecord, label: str, lines: Mapping[str, Sequence[SecondLine]]) -> OwnSlices:
    task = _sliced(record)[label]
    assert task.slices is not None
    return OwnSlices(task, task.slices, lines.get(task.name, ()))


def _cut(
    records: Sequence[RaceRecord], own: Sequence[OwnSlices], contenders: Sequence[SlicesOfRounds], margin: float
) -> Cut:
    age_s = min(_age_s(record, each.task) for record, each in zip(records, own, strict=True))
    if any(each.lacks_seconds for each in own):
        return Cut(0.0, False, age_s)
    if any(each.first or measured_phase(each.task) == "warmup" for each in own):  # the track's own warmup
        return Cut(0.0, True, age_s)
    at_s, is_steady = first_steady(contenders, margin)
    return Cut(at_s, is_steady, age_s + at_s)


def _age_s(record: RaceRecord, task: TaskResult) -> float:
    """Return the own seconds for which a race had loaded its nodes before a task, by tasks in slices."""
    return sum(each.duration_s for each in _longest(record) if each.step < task.step)


def _longest(record: RaceRecord) -> list[TaskResult]:
    """Return the longest of the tasks in slices of each step of a race."""
    tasks = sorted(_sliced(record).values(), key=lambda task: (task.step, task.duration_s))
    return list({task.step: task for task in tasks}.values())


def _sliced_task(cut: Cut, rounds: SlicesOfRounds) -> SlicedTask:
    plan = rounds[0][0].plan
    first = max(each.first for pair in rounds for each in pair) or round(cut.at_s / plan.length_s)
    bounds = [_bounds(first, min(each.whole for each in pair)) for pair in rounds]
    task = rounds[0][0].task
    tails = {
        metric: _tail(rounds, bounds, percentile)
        for measure in RESPONSE_TIMES
        for rank in PERCENTILES
        if rank >= TAIL_FROM and has_interval(task, metric := f"p{rank:g} {measure.title}")
        for percentile in [Percentile(rank, measure)]
    }
    return SlicedTask(
        cut,
        plan.length_s,
        plan.pace,
        first * plan.length_s * plan.pace,
        tails,
        tuple(_of_sections(pair, each) for pair, each in zip(rounds, bounds, strict=True)),
        max(1.0, median((each[-1] - each[0]) / BLOCK for each in bounds)),
        shortest_s=max(each.shortest_s for pair in rounds for each in pair),
        slices=min(each.whole - max(first, each.first) for pair in rounds for each in pair),
    )


def _bounds(first: int, end: int) -> list[int]:
    """Return the bounds of 5 sections of whole slices."""
    return [first + max(0, end - first) * number // stats.SECTIONS for number in range(stats.SECTIONS + 1)]


def _of_sections(pair: tuple[OwnSlices, OwnSlices], bounds: Sequence[int]) -> tuple[float, ...]:
    """Return the difference of a round in each section; empty if one has no value."""
    found = []
    for begin, end in pairwise(bounds):
        one, other = (each.log(begin, end) for each in pair)
        if one is None or other is None:
            return ()
        found.append(other - one)
    return tuple(found)


def _tail(rounds: SlicesOfRounds, bounds: Sequence[Sequence[int]], percentile: Percentile) -> Tail:
    differences, stalls, sides = [], False, []
    for pair, of_round in zip(rounds, bounds, strict=True):
        logs = [[each.log_percentile(percentile, *part) for part in pairwise(of_round)] for each in pair]
        known = [[log for log in side if log is not None] for side in logs]
        if min(map(len, known)) < stats.SECTIONS:
            return Tail()
        ours, theirs = known
        sides.append((fmean(ours), fmean(theirs)))
        differences.append(sides[-1][1] - sides[-1][0])
        stalls = stalls or any(max(side) - min(side) > math.log(_STALLS) for side in known)
    one, other = (fmean(of_side) for of_side in zip(*sides, strict=True))
    return Tail(tuple(differences), stalls, (one, other))


def _with_tasks(record: RaceRecord, changed: Mapping[str, TaskResult]) -> RaceRecord:
    return replace(record, tasks=tuple(changed.get(task.name, task) for task in record.tasks))


def _of(records: Mapping[str, RaceRecord], side: Side) -> Side:
    return replace(side, records=tuple(records[record.race_id] for record in side.records))


def _took_s(record: RaceRecord) -> float | None:
    if record.finished_at is None:
        return None
    begin, end = map(datetime.fromisoformat, (record.started_at, record.finished_at))
    return (end - begin).total_seconds()


def _in_tasks_s(record: RaceRecord) -> float:
    """Return the seconds of a race that its sliced tasks took, with those of the other sides."""
    return sum(task.duration_s * task.slices.pace for task in _longest(record) if task.slices is not None)
