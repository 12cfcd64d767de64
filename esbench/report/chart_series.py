"""The series that charts of tasks show: values second by second, a grid of durations, and curves of percentiles.

Reads the record's histograms and the lines of seconds.jsonl; draws nothing. All percentiles are by nearest rank,
however few requests a second had: they describe that second and estimate nothing.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby

from esbench.measure.histogram import Counts, lowest_equivalent_ns, percentiles_ns
from esbench.measure.measures import Measure, response_time, with_beyond
from esbench.record.figures import task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine, merged, task_counts
from esbench.report.thinning import points_each, shown_points

BINS_PER_DECADE = 10
_COLUMNS_AT_MOST = 240
_LEAST_OF_A_SECOND_S = 0.5  # the rate of a shorter rest would be noise
_NS_PER_MS = 1e6


@dataclass(frozen=True)
class Grid:
    """The data of a heat map: numbers of requests by time and duration, in cells of `width_s` and a tenth of a decade.
    In slices, cells of several seconds are as wide as these are apart.

    `times_s` and `log_ms` (the decimal logarithm of milliseconds) are the middles of the cells that are not empty.
    """

    width_s: float
    times_s: tuple[float, ...]
    log_ms: tuple[float, ...]
    counts: tuple[int, ...]


@dataclass(frozen=True)
class TaskOverTime:
    """The values of a task second by second, each at the middle of its second on the race's clock; None for no value.

    `measure` is the response time of its loop; a request that timed out counts with its lower bound. `failures` name
    the kinds of a second's errors. Of a long task, of every `each_s` seconds those with extremes are shown.
    """

    measure: Measure
    times_s: tuple[float, ...]
    units_per_s: tuple[float | None, ...]
    errors: tuple[int, ...]
    failures: tuple[str, ...]
    p50_ms: tuple[float | None, ...]
    p99_ms: tuple[float | None, ...]
    max_ms: tuple[float | None, ...]
    grid: Grid
    each_s: int = 1

    @property
    def has_times(self) -> bool:
        """True if a request was answered or timed out, so that there are times to show."""
        return bool(self.grid.counts)


def over_time(task: TaskResult, lines: Sequence[SecondLine]) -> TaskOverTime:
    """Return the series of a task from its lines of seconds.jsonl; in a second without a line, nothing completed.

    A second of a task in slices stands where it was on the race's clock, without the beginning of its slice, which was
    not measured.

    The last second has no rate and no percentiles if the task ran for less than half of it: those would be of
    stragglers alone.
    """
    measure = response_time(is_open=task.loop == "open")
    by_second: dict[int, list[SecondLine]] = {}
    for line in lines:
        by_second.setdefault(line.second, []).append(line)
    seconds = range(min(by_second, default=0), max(by_second, default=-1) + 1)
    measured = {second: measured_second(task, second, by_second.get(second, ())) for second in seconds}
    cells = _Cells(len(seconds))
    p50_ms: list[float | None] = []
    p99_ms: list[float | None] = []
    max_ms: list[float | None] = []
    for second, of_second in measured.items():
        counts = merged(of_second.lines, measure.name)  # of a second at a time: those of a day fill a gigabyte
        cells.add(second, counts)
        ranks = (50.0, 99.0, 100.0) if of_second.measured_s >= _LEAST_OF_A_SECOND_S else (100.0,)
        found = percentiles_ns(counts, ranks)
        for values, rank in ((p50_ms, 50.0), (p99_ms, 99.0), (max_ms, 100.0)):
            values.append(_ms(found.get(rank)))
    rates = [of_second.units_per_s for of_second in measured.values()]
    failed = [sum(line.failed for line in by_second.get(second, ())) for second in seconds]
    shown = shown_points((rates, failed, p50_ms, p99_ms, max_ms))
    return TaskOverTime(
        measure,
        tuple(task.clock_s(seconds[n] + 0.5) for n in shown),
        tuple(rates[n] for n in shown),
        tuple(failed[n] for n in shown),
        tuple(_failures(by_second.get(seconds[n], ())) for n in shown),
        tuple(p50_ms[n] for n in shown),
        tuple(p99_ms[n] for n in shown),
        tuple(max_ms[n] for n in shown),
        cells.grid(task),
        points_each(len(seconds)),
    )


@dataclass(frozen=True)
class MeasuredSecond:
    """The lines of a task's second that describe it, and the time for which they do, in s."""

    lines: Sequence[SecondLine]
    measured_s: float

    @property
    def units_per_s(self) -> float | None:
        """Units per second; None for a rest of a second whose rate would be noise."""
        if self.measured_s < _LEAST_OF_A_SECOND_S:
            return None
        return sum(line.units for line in self.lines) / self.measured_s


def measured_second(task: TaskResult, second: int, lines: Sequence[SecondLine]) -> MeasuredSecond:
    """Return one own second of a task from its lines, as far as the task lasted.

    The measured seconds of a task in slices are without the beginning of each slice; seconds of its warmup are whole.
    """
    end_s = min(second + 1.0, task.duration_s)
    measured = [line for line in lines if line.phase == "measurement"]
    if task.slices is None or not measured:
        return MeasuredSecond(lines, end_s - second)
    begin_s = task.window.start_s if second < task.window.start_s < end_s else second
    return MeasuredSecond(measured, task.slices.time.measured_s(begin_s, end_s))


def percentile_curve(*histograms: Counts) -> tuple[tuple[float, float], ...]:
    """Return points (1 / (1 - q), ms) of histograms together, ascending: one for each step that can be seen, and the
    last one before a jump.

    The longest duration stands at the number of samples: no percentile beyond 1 - 1 / samples is known. Empty without
    samples.
    """
    counts = Counts()
    for histogram in histograms:
        counts.merge(histogram)
    total, below = counts.count, 0
    curve: list[tuple[float, float]] = []
    latest = (0.0, math.inf)
    for index in sorted(counts.buckets):
        below += counts.buckets[index]
        ms = lowest_equivalent_ns(index + 1) / _NS_PER_MS
        if ms > 1.01 * latest[1] and latest != curve[-1]:
            curve.append(latest)
        latest = (total / max(total - below, 1), ms)
        if not curve or below == total or ms > 1.01 * curve[-1][1]:  # finer steps cannot be seen
            curve.append(latest)
    return tuple(curve)


def histograms_at_least(task: TaskResult, measure: str) -> tuple[Counts, ...]:
    """Return the histograms of a measure (by its name), empty if the task has none.

    That of requests that were given up is included, each at its lower bound. Raises RecordError for a damaged one.
    """
    return tuple(task_counts(task, name) for name in with_beyond(measure) if name in task.histograms)


def curve_of_races(records: Iterable[RaceRecord], label: str, measure: str) -> tuple[tuple[float, float], ...]:
    """Return the percentile curve of a task (by its label) over several races, all of them in one histogram.

    `measure` is the name of a measure. Empty if no race has samples of it. Raises RecordError for a damaged histogram.
    """
    return percentile_curve(
        *(
            histogram
            for record in records
            for task in record.tasks
            if task_label(record, task) == label
            for histogram in histograms_at_least(task, measure)
        )
    )


def _failures(lines: Sequence[SecondLine]) -> str:
    found: Counter[str] = Counter()
    for line in lines:
        found.update(line.errors)
    return ", ".join(f"{count} x {kind}" for kind, count in found.items())


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / _NS_PER_MS


class _Cells:
    """The cells of a heat map, second by second."""

    def __init__(self, seconds: int) -> None:
        self._width_s = max(1, math.ceil(seconds / _COLUMNS_AT_MOST))
        self._cells: Counter[tuple[int, int]] = Counter()

    def add(self, second: int, counts: Counts) -> None:
        buckets = counts.buckets
        for row, indices in groupby(sorted(buckets), _grid_row):
            self._cells[second // self._width_s, row] += sum(map(buckets.__getitem__, indices))

    def grid(self, task: TaskResult) -> Grid:
        width_s = self._width_s
        return Grid(
            width_s * (task.slices.pace if task.slices is not None and width_s > 1 else 1.0),
            tuple(task.clock_s((column + 0.5) * width_s) for column, _ in self._cells),
            tuple((row + 0.5) / BINS_PER_DECADE for _, row in self._cells),
            tuple(self._cells.values()),
        )


@cache
def _grid_row(index: int) -> int:
    """Return the tenth of a decade of milliseconds that a bucket lies in. Cached: it is needed for each of a million
    counts."""
    middle_ns = (lowest_equivalent_ns(index) + lowest_equivalent_ns(index + 1)) / 2
    return math.floor(math.log10(middle_ns / _NS_PER_MS) * BINS_PER_DECADE)
