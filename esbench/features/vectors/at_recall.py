"""The throughput of two sides at equal recall: the frontiers of their sweeps, compared at recalls that both reach."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from esbench.comparison.effects import Design, fit, fit_at_once, round_differences
from esbench.comparison.metrics import THROUGHPUT, Key, Race, min_effect, other_fault, typical
from esbench.comparison.model import CompareOptions, Difference, Row, RowVerdict
from esbench.comparison.preconditions import Leak, leak, of_slices, on_this_node, tasks_of
from esbench.comparison.reasons import CHECK, NO_EQUAL_RECALL, NO_SECONDS, NO_TURNS, NO_VALUE
from esbench.comparison.rows import CandidateRow, beside_the_interval, not_comparable
from esbench.comparison.settling import too_few_rounds
from esbench.record.figures import HIGHER, Figure
from esbench.record.model import TaskResult

_LAST_NUMBER = re.compile(r"\d+(?=\D*$)")


@dataclass(frozen=True)
class Frontier:
    """The most throughput (1/s) with a recall, of the points (recall, throughput) of a sweep; the recall grows, and the
    throughput falls. `low`: the lowest recall that was measured, which a point of more recall may beat."""

    low: float
    points: tuple[tuple[float, float], ...]

    @staticmethod
    def of(measured: Iterable[tuple[float, float]]) -> Frontier:
        """Return the frontier of points, (recall, throughput above 0): those that no other one beats in both.

        ValueError without any.
        """
        best: list[tuple[float, float]] = []
        for recall, per_s in sorted(measured, reverse=True):
            if not best or per_s > best[-1][1]:
                best.append((recall, per_s))
            low = recall
        if not best:
            raise ValueError("a frontier has points")
        return Frontier(low, tuple(reversed(best)))

    @property
    def high(self) -> float:
        """The highest recall."""
        return self.points[-1][0]

    def at(self, recall: float) -> float | None:
        """Return the throughput at a recall, its logarithm linear between points; None beyond what was measured."""
        if not self.low <= recall <= self.high:
            return None
        for (low, faster), (high, slower) in pairwise(self.points):
            if low <= recall <= high:
                part = (recall - low) / (high - low)
                return math.exp((1 - part) * math.log(faster) + part * math.log(slower))
        return self.points[0][1] if recall <= self.points[0][0] else self.points[-1][1]


@dataclass(frozen=True)
class Sweep:
    """Tasks of a race whose labels differ in the last number alone, which `label` has a * for: the same searches with
    a growing number of candidates. `score` is their recall ("recall@10"), `unit` that of their throughput."""

    label: str
    score: str
    unit: str

    @staticmethod
    def of(label: str, task: TaskResult) -> Sweep | None:
        """Return the sweep that a task is of; None of a task without recall, of an open loop, or without a number."""
        name, count = _LAST_NUMBER.subn("*", label)
        is_one = count and task.loop == "closed" and task.include_in_reporting and task.scores is not None
        if not is_one or task.scores is None or not task.scores.name.startswith("recall@"):
            return None
        return Sweep(name, task.scores.name, f"{task.throughput.unit}/s")

    @staticmethod
    def all_of(race: Race) -> dict[Sweep, list[str]]:
        """Return the sweeps of a race, each with the labels of its tasks, two at least."""
        found: dict[Sweep, list[str]] = {}
        for label, task in race.tasks.items():
            if (sweep := Sweep.of(label, task)) is not None:
                found.setdefault(sweep, []).append(label)
        return {sweep: labels for sweep, labels in found.items() if len(labels) > 1}

    def frontier(self, race: Race) -> Frontier | None:
        """Return the frontier of a race; None if it has no sweep like this with figures that may be used."""
        points = [
            (task.scores.mean, math.exp(log))
            for label in Sweep.all_of(race).get(self, ())
            if (task := race.tasks[label]).scores is not None
            and (log := race.log((THROUGHPUT, label, self.unit))) is not None
        ]
        return Frontier.of(points) if points else None

    def at(self, recall: float, key: Key, race: Race) -> Race:
        """Return a race whose only figure is the throughput at a recall, and whose only task is the whole sweep."""
        tasks = [race.tasks[label] for label in Sweep.all_of(race).get(self, ())]
        frontier = self.frontier(race)
        per_s = None if frontier is None else frontier.at(recall)
        figures = {} if per_s is None else {key: Figure(*key[:2], per_s, key[2], HIGHER)}
        requests, errors = sum(task.requests for task in tasks), sum(task.errors for task in tasks)
        if not tasks:
            return Race(race.record, {}, {})
        whole = replace(tasks[0], requests=requests, errors=errors, scores=None)
        return Race(race.record, figures, {key[1]: whole})


def rows_at_recall(
    design: Design, differences: Sequence[Difference], options: CompareOptions
) -> Iterator[CandidateRow]:
    """Yield the rows of the sweeps that all races of both sides have: one for each recall that all of these reach."""
    first, *others = [Sweep.all_of(race) for race in design.races]
    for sweep in first:
        if all(sweep in each for each in others):
            yield from _Sides(sweep, design, differences, options).rows()


class _Sides:
    """Both sides of a sweep, and what makes their rows."""

    def __init__(
        self, sweep: Sweep, design: Design, differences: Sequence[Difference], options: CompareOptions
    ) -> None:
        self._sweep = sweep
        self._design = design
        self._differences = differences
        self._options = options
        self._labels = list(dict.fromkeys(label for race in design.races for label in Sweep.all_of(race)[sweep]))

    def rows(self) -> Iterator[CandidateRow]:
        """Yield the row of each recall that both sides reach; a single one with the reason if none can be judged."""
        sweep = self._sweep
        if (refused := self._refused()) is None and (refused := self._not_reached()) is None:
            for recall in self._reached():
                yield self._row((THROUGHPUT, f"{sweep.label} at {sweep.score} {recall:g}", sweep.unit), recall)
            return
        key = (THROUGHPUT, f"{sweep.label} at equal {sweep.score}", sweep.unit)
        row = Row(*key, None, None, is_primary=True, comparable=refused.reason.code != "not-comparable")
        yield CandidateRow(replace(row, verdict=refused), self._design, notes=())

    def _refused(self) -> RowVerdict | None:
        """Return the verdict that follows from the tasks of the sweep, before any figure; None without one."""
        design = self._design
        for label in self._labels:
            if (refused := not_comparable(self._differences, label)) is not None:
                return refused
            if fault := next(filter(None, map(other_fault, tasks_of(design.races, label))), None):
                return RowVerdict(CHECK, fault.message, fault.hint)
            if missing := design.without_seconds(label):
                return RowVerdict(NO_SECONDS, f"the seconds of {missing} are missing (seconds.jsonl)")
            if (refused := of_slices(design, THROUGHPUT, label)) is not None:
                return refused
        without = sum(self._sweep.frontier(race) is None for race in design.races)
        return RowVerdict(NO_VALUE, f"{without} of {len(design.races)} races have no value") if without else None

    def _ranges(self) -> list[tuple[float, float]]:
        """Return the recalls, from and to, that all races of the baseline reach, and those of the contender."""
        sides = [
            [found for race in races if (found := self._sweep.frontier(race)) is not None]
            for races in (self._design.baseline, self._design.contender)
        ]
        return [(max(each.low for each in side), min(each.high for each in side)) for side in sides]

    def _reached(self) -> list[float]:
        """Return the recalls of the options that all races of both sides reach."""
        ranges = self._ranges()
        return [each for each in self._options.recalls if all(low <= each <= high for low, high in ranges)]

    def _not_reached(self) -> RowVerdict | None:
        """Return the verdict of sides that reach no recall of the options both; None if they do."""
        ranges = self._ranges()
        shown = ", ".join(f"{low:.2f} to {high:.2f}" for low, high in ranges)
        low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
        if low > high:
            return RowVerdict(NO_EQUAL_RECALL, f"recalls do not overlap ({shown})")
        if not self._reached():
            asked = ", ".join(f"{each:g}" for each in self._options.recalls)
            return RowVerdict(NO_EQUAL_RECALL, f"no recall of {asked} is on both sides ({shown})", _between(low, high))
        return None

    def _row(self, key: Key, recall: float) -> CandidateRow:
        whole = self._design
        baseline, contender, history = (
            tuple(self._sweep.at(recall, key, race) for race in races)
            for races in (whole.baseline, whole.contender, whole.history)
        )
        design = replace(whole, baseline=baseline, contender=contender, history=history).of({key[1]})
        row = Row(
            *key,
            typical(baseline, key),
            typical(contender, key),
            is_primary=True,
            baseline_rounds=tuple(race.value(key) for race in baseline),
            contender_rounds=tuple(race.value(key) for race in contender),
        )
        is_at_once = all(map(whole.is_at_once, self._labels))
        if is_at_once:
            row = replace(row, differences=round_differences(design, lambda race: race.log(key)))
        fitted = fit_at_once(row.differences) if is_at_once else fit(design, lambda race: race.log(key))
        verdict: RowVerdict | None = RowVerdict(NO_TURNS, remedy="race both sides in one session: esbench duel")
        margin = math.log1p(min_effect(key[0], self._options.min_effect_ratio, fresh_nodes=design.has_fresh_nodes))
        if fitted is not None:
            verdict = beside_the_interval(design, fitted, key[1], lambda race: race.log(key), margin)
        elif is_at_once and design.at_once is not None:
            verdict = too_few_rounds(design, design.at_once.nodes.fewest_rounds)
        row = replace(row, estimate=fitted.estimate if fitted else None, verdict=verdict)
        return CandidateRow(row, design, fitted, leak=self._leak(margin), notes=tuple(on_this_node(design)))

    def _leak(self, margin: float) -> Leak | None:
        """Return what leaked between the slices of the task of which most did; None if next to nothing."""
        leaks = (leak(self._design, label, margin) for label in self._labels)
        return max(filter(None, leaks), key=lambda each: each.log, default=None)


def _between(low: float, high: float) -> str:
    """Return the option with a recall in the middle of a range; "" if the range is too narrow."""
    middle = f"{50 * (low + high):.3g}"
    return f"--recall={middle}%" if low <= float(middle) / 100 <= high else ""
