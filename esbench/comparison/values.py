"""One value of a race for each figure: which figures carry verdicts, how many events a percentile stands on."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import geometric_mean, median

from esbench.load.histogram import Counts, percentiles_ns
from esbench.record import RaceRecord, TaskResult
from esbench.series_files import SecondLine
from esbench.stats import SECTIONS
from esbench.summary import Figure, figures, is_usable, reported_tasks, task_label

THROUGHPUT = "Mean throughput"
FEWEST_BEYOND = 10
FEWEST_SECONDS = 5
SHORTEST_S = 120
_PRIMARY = {"closed": (THROUGHPUT, "p99 service time"), "open": ("p50 latency", "p99 latency")}
_SHOWN = {"closed": (), "open": ("p50 service time", "p99 service time")}
_MISSED = ("unsent", "backlog", "target-rate")
_NS_PER_MS = 1e6

Key = tuple[str, str, str]  # metric, task, unit


@dataclass(frozen=True)
class Percentile:
    """What a figure such as "p99 latency" is a percentile of."""

    rank: float
    measure: str  # latency, service_time

    @staticmethod
    def of(metric: str) -> Percentile | None:
        name, _, measure = metric.partition(" ")
        if not (name.startswith("p") and measure in ("latency", "service time")):
            return None
        return Percentile(float(name[1:]), measure.replace(" ", "_"))


@dataclass(frozen=True)
class Race:
    """A race's figures by their keys, and its reported tasks by their labels."""

    record: RaceRecord
    figures: dict[Key, Figure]
    tasks: dict[str, TaskResult]

    @staticmethod
    def of(record: RaceRecord) -> Race:
        tasks = {task_label(record, task): task for task in reported_tasks(record)}
        return Race(record, {(each.metric, each.task, each.unit): each for each in figures(record)}, tasks)

    def log(self, key: Key) -> float | None:
        """ln of a figure; None where there is none, or none that may be used."""
        figure = self.figures.get(key)
        if figure is None or figure.exceeded or not figure.usable or not 0 < figure.value < math.inf:
            return None
        return math.log(figure.value)

    def value(self, key: Key) -> float | None:
        figure = self.figures.get(key)
        return None if figure is None or figure.exceeded else figure.value


def is_primary(task: TaskResult, metric: str) -> bool:
    """Whether a figure of a task carries a verdict."""
    return task.include_in_reporting and metric in _PRIMARY[task.loop]


def has_interval(task: TaskResult, metric: str) -> bool:
    """Whether a figure stands with its interval: all that carry verdicts, and an open loop's service time."""
    return is_primary(task, metric) or (task.include_in_reporting and metric in _SHOWN[task.loop])


def missed_target(task: TaskResult) -> bool:
    """Whether the cluster did not carry the rate, by the checks of the race."""
    return any(check.level == "unusable" and check.name in _MISSED for check in task.checks)


def other_fault(task: TaskResult) -> str:
    """Why a task's figures must not be used, beside a target that was missed; "" when nothing is wrong."""
    faults = (check.message for check in task.checks if check.level == "unusable" and check.name not in _MISSED)
    return next(faults, "")


def typical(races: Sequence[Race], key: Key) -> Figure:
    """A side's figure: the geometric mean of its races (the median where one is 0 or below); a race's own if alone."""
    found = [each for race in races if (each := race.figures.get(key)) is not None]
    if len(found) == 1:
        return found[0]
    known = [figure for figure in found if not figure.exceeded] or found
    values = [figure.value for figure in known]
    value = geometric_mean(values) if 0 < min(values) < max(values) else median(values)
    exceeded = any(figure.exceeded for figure in found)
    if exceeded:
        value = max(figure.value for figure in found)
    return replace(found[0], value=value, exceeded=exceeded, usable=all(figure.usable for figure in found))


def samples_beyond(task: TaskResult, percentile: Percentile) -> int:
    """How many measured requests rank beyond a percentile of a task."""
    samples = task.requests - task.errors
    if percentile.measure == "latency":
        samples += task.unsent or 0
    return _beyond(samples, percentile)


def _beyond(samples: int, percentile: Percentile) -> int:
    """How many of so many samples rank beyond a percentile (nearest rank)."""
    return samples - math.ceil(percentile.rank * samples / 100 - 1e-6)


def keys_of_few_seconds(race: Race, keys: Iterable[Key], lines: Iterable[SecondLine]) -> set[Key]:
    """Which percentiles have their samples beyond from fewer than five seconds of a race.

    Histograms are decoded until that is known of all of them: a few seconds where nothing is wrong.
    """
    waiting: dict[str, dict[Key, tuple[str, float]]] = {}
    for key in keys:
        percentile, figure = Percentile.of(key[0]), race.figures.get(key)
        if percentile is not None and figure is not None:
            name = race.tasks[key[1]].name
            waiting.setdefault(name, {})[key] = (percentile.measure, figure.value * _NS_PER_MS)
    seconds: dict[Key, set[int]] = {key: set() for wanted in waiting.values() for key in wanted}
    for line in lines:
        if not waiting:
            break
        wanted = waiting.get(line.task)
        if wanted is None:
            continue
        longest = {
            measure: counts.max_ns
            for measure in {measure for measure, _ in wanted.values()}
            if (counts := line.counts(measure)).buckets
        }
        for key, (measure, threshold_ns) in list(wanted.items()):
            if longest.get(measure, 0) > threshold_ns:
                seconds[key].add(line.second)
                if len(seconds[key]) >= FEWEST_SECONDS:
                    del wanted[key]
        if not wanted:
            del waiting[line.task]
    return {key for wanted in waiting.values() for key in wanted}


def sections(task: TaskResult, metric: str, lines: Iterable[SecondLine]) -> tuple[float, ...] | None:
    """ln of a figure in each of five equal parts of a task's whole measured seconds.

    `lines` are the task's. None where they span less than two minutes, or where a part has under ten samples beyond
    the percentile, or completed nothing.
    """
    first, last = math.ceil(task.window.start_s - 1e-6), math.floor(task.window.end_s + 1e-6)
    length = last - first
    if length < SHORTEST_S:
        return None
    percentile = Percentile.of(metric)
    units = [0.0] * SECTIONS
    counts = [Counts() for _ in range(SECTIONS)]
    for line in lines:
        if not first <= line.second < last:
            continue
        section = (line.second - first) * SECTIONS // length
        units[section] += line.units
        if percentile is not None and line.phase == "measurement":
            counts[section].merge(line.counts(percentile.measure))
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
        found.append(math.log(percentiles_ns(each, (percentile.rank,))[percentile.rank] / _NS_PER_MS))
    return tuple(found)


def usable_everywhere(races: Sequence[Race], task: str) -> bool:
    """Whether every race has a task whose figures may be used."""
    return all(task in race.tasks and is_usable(race.tasks[task]) for race in races)
