"""The value of each figure in a race: which figures carry verdicts, and how many events a percentile is based on."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, geometric_mean

from esbench.comparison.parts import without_parts
from esbench.comparison.stats import SECTIONS
from esbench.measure.histogram import Counts, percentiles_ns
from esbench.measure.measures import LATENCY, RESPONSE_TIMES, Measure
from esbench.record.figures import Figure, figures_of, measured_phase, reported_tasks, task_label
from esbench.record.model import Check, RaceRecord, TaskResult
from esbench.record.series import SecondLine

THROUGHPUT, CAPACITY = "Mean throughput", "Capacity"
FEWEST_BEYOND = 10
FEWEST_SECONDS = 5
SHORTEST_S = 120
_MIN_EFFECT, _MIN_EFFECT_OF_TAILS, _TAIL = 0.05, 0.10, 99.0
_PRIMARY = {"closed": (THROUGHPUT, "p99 service time"), "open": ("p50 latency", "p99 latency")}
PRIMARY_METRICS = (*dict.fromkeys(metric for metrics in _PRIMARY.values() for metric in metrics), CAPACITY)
_SHOWN = {"closed": (), "open": ("p50 service time", "p99 service time")}
_RANK = re.compile(r"p(\d+(?:\.\d+)?)")
NS_PER_MS = 1e6

Key = tuple[str, str, str]  # metric, task, unit


@dataclass(frozen=True)
class Percentile:
    """The rank and the measure of a percentile figure such as "p99 latency"."""

    rank: float
    measure: Measure

    @staticmethod
    def of(metric: str) -> Percentile | None:
        """Return the percentile that a metric names ("p99 latency"); None if it names no percentile of a response
        time."""
        name, _, measure = metric.partition(" ")
        found, rank = next((each for each in RESPONSE_TIMES if each.title == measure), None), _RANK.fullmatch(name)
        return Percentile(float(rank[1]), found) if found is not None and rank is not None else None


@dataclass(frozen=True)
class Race:
    """A race with its figures by key, (metric, task label, unit), and its reported tasks by label, without
    those of parts (comparison.parts)."""

    record: RaceRecord
    figures: dict[Key, Figure]
    tasks: dict[str, TaskResult]

    def log(self, key: Key) -> float | None:
        """Return ln of a figure; None if the race lacks it, or its value may not be used or is not positive and
        finite."""
        figure = self.figures.get(key)
        if figure is None or figure.exceeded or not figure.usable or not 0 < figure.value < math.inf:
            return None
        return math.log(figure.value)

    def value(self, key: Key) -> float | None:
        """Return a figure, usable or not; None if the race lacks it, or it is only known to exceed its value."""
        figure = self.figures.get(key)
        return None if figure is None or figure.exceeded else figure.value


def races_of(records: Sequence[RaceRecord]) -> tuple[Race, ...]:
    """Return the races of some records. A count that one of them has is 0 in those that counted none (`figures_of`)."""
    compared = list(map(without_parts, records))
    return tuple(
        Race(
            record,
            {(each.metric, each.task, each.unit): each for each in of_race},
            {task_label(without, task): task for task in reported_tasks(without)},
        )
        for record, without, of_race in zip(records, compared, figures_of(compared), strict=True)
    )


def is_primary(task: TaskResult, metric: str) -> bool:
    """True if a figure of a task carries a verdict."""
    return task.include_in_reporting and metric in _PRIMARY[task.loop]


def min_effect(metric: str, given: float | None, *, fresh_nodes: bool = False) -> float:
    """Return the change (ratio) of a metric below which the sides count as the same: `given`, or the metric's default.

    `fresh_nodes`: each round holds both sides at once, on nodes that were started for it, whose luck a default allows
    for.
    """
    if given is not None:
        return given
    percentile = Percentile.of(metric)
    is_tail = percentile is not None and percentile.rank >= _TAIL
    return _MIN_EFFECT_OF_TAILS if fresh_nodes or is_tail else _MIN_EFFECT


def primary_keys(task: TaskResult, label: str) -> tuple[Key, ...]:
    """Return the keys, (metric, `label`, unit), of all figures of a task that carry verdicts, those it lacks included.

    Empty for a task that is left out of reports.
    """
    if not task.include_in_reporting:
        return ()
    units = {THROUGHPUT: f"{task.throughput.unit}/s"}
    return tuple((metric, label, units.get(metric, "ms")) for metric in _PRIMARY[task.loop])


def has_interval(task: TaskResult, metric: str) -> bool:
    """True if a figure is shown with its interval: all that carry verdicts, and p50 and p99 service time of an open
    loop."""
    return is_primary(task, metric) or (task.include_in_reporting and metric in _SHOWN[task.loop])


def other_fault(task: TaskResult) -> Check | None:
    """Return the first check, other than of the target rate, by which a task's figures must not be used; None without
    one."""
    return next((each for each in task.checks if each.level == "unusable" and each.subject != "rate"), None)


def typical(races: Sequence[Race], key: Key) -> Figure | None:
    """Return a side's figure: the geometric mean of its races' values (their mean if one is 0 or below).

    It is usable if all are, and exceeded if one is. None if no race has it.
    """
    found = [each for race in races if (each := race.figures.get(key)) is not None]
    if not found:
        return None
    values = [figure.value for figure in found]
    low, high = min(values), max(values)
    value = low if low == high else geometric_mean(values) if low > 0 else fmean(values)
    exceeded = any(figure.exceeded for figure in found)  # then so is their mean
    return replace(found[0], value=value, exceeded=exceeded, usable=all(figure.usable for figure in found))


def measured_s(task: TaskResult) -> float:
    """Return the seconds of a task's window that were measured: of slices, without the beginning of each."""
    return task.time.measured_s(task.window.start_s, task.window.end_s)


def is_long(task: TaskResult) -> bool:
    """True if a task was measured for long enough (`SHORTEST_S`) to be cut into sections."""
    return task.window.end_s - task.window.start_s >= SHORTEST_S - 1e-6


def samples_beyond(task: TaskResult, percentile: Percentile) -> int:
    """Return the number of a task's measured requests that rank beyond a percentile.

    Timed-out requests count and, for latency, unsent ones.
    """
    return _beyond(samples_of(task, percentile.measure), percentile)


def samples_of(task: TaskResult, measure: Measure) -> int:
    """Return the number of a task's measured requests that a response time counts, as in `samples_beyond`."""
    timeouts = task.error_kinds.get("timeout")
    samples = task.requests - task.errors + (timeouts.count if timeouts else 0)
    return samples + (task.unsent or 0) if measure is LATENCY else samples


def fewest_samples(percentile: Percentile) -> int:
    """Return the number of samples of which 10 rank beyond a percentile: 1,000 for p99."""
    return math.ceil(FEWEST_BEYOND / (1 - percentile.rank / 100) - 1e-6)


def has_enough_beyond(samples: int, percentile: Percentile) -> bool:
    """True if at least 10 of `samples` rank beyond a percentile."""
    return _beyond(samples, percentile) >= FEWEST_BEYOND


def _beyond(samples: int, percentile: Percentile) -> int:
    """Return the number of `samples` that rank beyond a percentile (nearest rank)."""
    return samples - math.ceil(percentile.rank * samples / 100 - 1e-6)


def seconds_beyond(race: Race, keys: Iterable[Key], lines: Iterable[SecondLine]) -> dict[Key, int | None]:
    """Count, for each percentile, the seconds of a race in which samples lie beyond it; counting stops at five.

    `lines` are the race's seconds. None if no second of its task was kept; keys that are no percentile, or that the
    race lacks, are left out. Histograms are decoded until all percentiles of their task have five.
    """
    waiting: dict[str, dict[Key, tuple[str, float]]] = {}  # task -> percentile -> measure, beyond which ns
    for key in keys:
        percentile, figure = Percentile.of(key[0]), race.figures.get(key)
        if percentile is not None and figure is not None:
            beyond = (percentile.measure.name, round(figure.value * NS_PER_MS))
            waiting.setdefault(race.tasks[key[1]].name, {})[key] = beyond
    phases = {task.name: measured_phase(task) for task in race.tasks.values()}
    found: dict[Key, set[int] | None] = {key: None for percentiles in waiting.values() for key in percentiles}
    for line in lines:
        percentiles = waiting.get(line.task, {})
        measures = {measure for measure, _ in percentiles.values()} if line.phase == phases.get(line.task) else set()
        longest_ns = {each: line.at_least(each).max_ns for each in measures}
        for key, (measure, ns) in list(percentiles.items()):
            seconds = found[key] = found[key] or set()
            if longest_ns.get(measure, 0) > ns:
                seconds.add(line.second)
            if len(seconds) == FEWEST_SECONDS:
                del percentiles[key]
        if not percentiles:
            waiting.pop(line.task, None)
    return {key: None if seconds is None else len(seconds) for key, seconds in found.items()}


def sections(task: TaskResult, metric: str, lines: Iterable[SecondLine]) -> tuple[float, ...] | None:
    """Return ln of a figure in each of five equal sections of a task's whole measured seconds.

    `metric` is a percentile of a response time, in ms; any other is taken for throughput, in units per second. `lines`
    are the task's; its measurement must be long enough (`is_long`). None if a section has under ten samples beyond the
    percentile, or completed nothing.
    """
    first, last = math.ceil(task.window.start_s - 1e-6), math.floor(task.window.end_s + 1e-6)
    length = last - first
    percentile, phase = Percentile.of(metric), measured_phase(task)
    units = [0.0] * SECTIONS
    counts = [Counts() for _ in range(SECTIONS)]
    for line in lines:
        if not first <= line.second < last:
            continue
        section = (line.second - first) * SECTIONS // length
        units[section] += line.units
        if percentile is not None and line.phase == phase:
            counts[section].merge(line.at_least(percentile.measure.name))
    if percentile is None:
        lengths = [0] * SECTIONS
        for second in range(length):
            lengths[second * SECTIONS // length] += 1
        if min(units) <= 0:
            return None
        return tuple(math.log(done / seconds) for done, seconds in zip(units, lengths, strict=True))
    found = []
    for each in counts:
        if _beyond(each.count, percentile) < FEWEST_BEYOND:
            return None
        found.append(math.log(percentiles_ns(each, (percentile.rank,))[percentile.rank] / NS_PER_MS))
    return tuple(found)
