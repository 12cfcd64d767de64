"""The sides of a comparison side by side: the rows, values and curves of each, by task and metric. Nothing is drawn
here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from esbench.comparison.model import Comparison, Row
from esbench.record.figures import Figure
from esbench.record.model import RaceRecord
from esbench.report.chart_series import curve_of_races
from esbench.report.race_summary import to_the_second
from esbench.report.table_model import Column, Table

_RACES = (
    Column("Side", "side"),
    Column("Race ID", "race_id"),
    Column("Started", "started_at"),
    Column("Status", "status"),
)
_ROUNDS = (Column("Task", "task"), Column("Metric", "metric"), Column("Side", "side"), Column("Unit", "unit"))


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


class ComparedSides:
    """The sides of all pairs, the baseline first; `names` are unique."""

    def __init__(self, compared: Comparison) -> None:
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
