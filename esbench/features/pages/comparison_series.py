"""The sides of a comparison side by side: the rows, values and curves of each, by task and metric. Nothing is drawn
here."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esbench.comparison.model import Comparison, Row, SecondsOf
from esbench.measure.slices import NS, SlicedTime
from esbench.record.figures import Figure, reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.series import SecondLine, by_task
from esbench.report.chart_series import curve_of_races, measured_second
from esbench.report.race_summary import to_the_second
from esbench.report.table_model import Column, Table

_RACES = (
    Column("Side", "side"),
    Column("Race ID", "race_id"),
    Column("Started", "started_at"),
    Column("Status", "status"),
)
_ROUNDS = (Column("Task", "task"), Column("Metric", "metric"), Column("Side", "side"), Column("Unit", "unit"))
_ROUNDING = 1e-9


Judged = Sequence[tuple[int, Row]]  # a row of each contender that has it, by the contender's number


@dataclass(frozen=True)
class Raced:
    """The races of a side, and their values of one metric: None if a race has no value. The baseline is number 0,
    contenders follow."""

    number: int
    name: str
    records: tuple[RaceRecord, ...]
    values: tuple[float | None, ...]
    typical: Figure | None


@dataclass(frozen=True)
class Curve:
    """The percentile curve of all races of a side together: points of (1 / (1 - q), ms)."""

    number: int
    name: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class SlicedSeconds:
    """The own seconds of one side's task, each where it was: begin and end in s since the first slice of any side.

    `units_per_s`: None in a second too short for a rate. `warmup_s`: the figures of the task begin there; 0 if they
    begin with its first slice.
    """

    number: int
    name: str
    unit: str
    spans_s: tuple[tuple[float, float], ...]
    units_per_s: tuple[float | None, ...]
    warmup_s: float


class ComparedSides:
    """The sides of all pairs, the baseline first; `names` are unique. `seconds` returns those of a race."""

    def __init__(self, compared: Comparison, seconds: SecondsOf = lambda record: ()) -> None:
        self._seconds = seconds
        self._pairs = compared.pairs
        self._all = (compared.pairs[0].baseline, *(pair.contender for pair in compared.pairs))
        names = [side.name for side in self._all]
        self.names = [
            name if names.count(name) == 1 else f"{name} ({'contender' if number else 'baseline'})"
            for number, name in enumerate(names)
        ]
        self.are_single = all(pair.single for pair in compared.pairs)
        sessions = {side.session for side in self._all}
        self.session = sessions.pop() if len(sessions) == 1 else None  # that all of them share

    @property
    def first_races(self) -> Iterator[tuple[str, RaceRecord]]:
        """The first race of each side, by the side's name."""
        return ((name, side.records[0]) for name, side in zip(self.names, self._all, strict=True))

    def judged(self) -> dict[str, dict[str, Judged]]:
        """Return task -> metric -> (contender's number, from 1; its primary row), of each contender that has one."""
        found: dict[str, dict[str, list[tuple[int, Row]]]] = {}
        for number, pair in enumerate(self._pairs, 1):
            for row in pair.primary:
                found.setdefault(row.task, {}).setdefault(row.metric, []).append((number, row))
        return {task: dict(metrics) for task, metrics in found.items()}

    def raced(self, rows: Judged) -> Iterator[Raced]:
        """Yield the races and values of the baseline and of each contender for one metric of a task.

        `rows`: the rows of that metric as in `judged`, at least one.
        """
        first = rows[0][1]
        yield Raced(0, self.names[0], self._all[0].records, first.baseline_rounds, first.baseline)
        for number, row in rows:
            yield Raced(number, self.names[number], self._all[number].records, row.contender_rounds, row.contender)

    def first_round(self) -> dict[str, list[SlicedSeconds]]:
        """Return the seconds of all sides in the first round, by task's label; empty unless each pair was raced at
        once."""
        if any(pair.sliced is None for pair in self._pairs):
            return {}
        found: dict[str, list[SlicedSeconds]] = {}
        for number, side in enumerate(self._all):
            record = min(side.records, key=_round)
            lines = by_task(self._seconds(record))
            for task in reported_tasks(record):
                if task.slices is not None and (of_task := lines.get(task.name)):
                    own = sliced_seconds(number, self.names[number], task, task.slices.time, of_task)
                    found.setdefault(task_label(record, task), []).append(own)
        return found

    def curves(self, task: str, measure: str) -> list[Curve]:
        """Return the curves of the baseline and of each contender that has one; empty unless there are both.

        `task` is a task's label, `measure` the name of a measure.
        """
        found = [
            Curve(number, self.names[number], curve_of_races(side.records, task, measure))
            for number, side in enumerate(self._all)
        ]
        found = [curve for curve in found if len(curve.points) > 1]
        return found if len(found) > 1 and found[0].number == 0 else []

    def rounds(self) -> Table:
        """Return the table of the values of all races of each side: those that the charts show as points."""
        most = max(len(side.records) for side in self._all)
        columns = tuple(Column(f"Race {n}", f"race_{n}", numeric=True) for n in range(1, most + 1))
        rows = [
            (task, metric, side.name, found[0][1].unit, *side.values, *[None] * (most - len(side.values)))
            for task, metrics in self.judged().items()
            for metric, found in metrics.items()
            for side in self.raced(found)
        ]
        return Table((*_ROUNDS, *columns), tuple(rows))

    def races(self) -> Table:
        """Return the table of all races of all sides, in the order of their start."""
        raced = [(name, record) for name, side in zip(self.names, self._all, strict=True) for record in side.records]
        raced.sort(key=lambda race: race[1].started_at)
        rows = ((name, race.race_id, to_the_second(race.started_at), race.status) for name, race in raced)
        return Table(_RACES, tuple(rows))


def sliced_seconds(
    number: int, name: str, task: TaskResult, time: SlicedTime, lines: Sequence[SecondLine]
) -> SlicedSeconds:
    """Return the seconds of a side's task from its lines; `time` has its slices, `number` and `name` are the side's.

    Sides are in line by the begin of the first slice of any of them (`start_ns`), not by their own begin.
    """
    by_second: dict[int, list[SecondLine]] = {}
    for line in lines:
        by_second.setdefault(line.second, []).append(line)
    seconds = range(math.ceil(task.duration_s - _ROUNDING))
    ends_s = [min(second + 1.0, task.duration_s) for second in seconds]
    start_ns = round(task.window.start_s * NS)

    def since_start_s(at_ns: int) -> float:
        return (at_ns - time.start_ns) / NS

    return SlicedSeconds(
        number,
        name,
        f"{task.unit}/s",
        tuple(
            (since_start_s(time.at_ns(second * NS)), since_start_s(time.until_ns(round(end_s * NS))))
            for second, end_s in zip(seconds, ends_s, strict=True)
        ),
        tuple(measured_second(task, second, by_second.get(second, ())).units_per_s for second in seconds),
        since_start_s(time.at_ns(start_ns)) if start_ns >= time.length_ns else 0.0,
    )


def _round(record: RaceRecord) -> int:
    return record.session.pair if record.session is not None else 0
