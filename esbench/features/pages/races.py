"""The page of several races: their figures side by side first, then each of them as on a single page, folded away.

Nothing is judged here: comparisons say whether sides differ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from esbench.comparison.model import Side
from esbench.features.pages.charts import COLOURS, curves_chart
from esbench.features.pages.page import Chart, drawn_when_unfolded, render_charts, render_page
from esbench.features.pages.race import race_body, race_charts
from esbench.features.pages.verdict import Sentence, sentences
from esbench.measure.measures import RESPONSE_TIMES
from esbench.record.figures import Notice, reported_tasks, task_label
from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine, Series
from esbench.report.chart_series import curve_of_races
from esbench.report.race_summary import race_facts
from esbench.report.rounds import COLUMNS, rounds
from esbench.report.table_model import Cell, Column, Table
from esbench.report.text import cell_text

SeriesOf = Callable[[RaceRecord], tuple[Iterable[SecondLine], Sequence[Series]]]

MOST_BYTES = 1_300_000  # of the charts of races: with Bokeh and the tables a page stays below 3 MB
_MAIN = ("Mean throughput", "p50 latency", "p99 latency", "p50 service time", "p99 service time", "error rate")
_Key = tuple[str, str, str]  # task, metric, unit
_Cell = tuple[str, bool]  # text, and whether it must not be used
_NUMBER = Column("", "number", numeric=True)


@dataclass(frozen=True)
class _Raced:
    """A race with its number on the page; `place` names its side and round if it is one of several rounds, else it is
    ""."""

    number: int
    record: RaceRecord
    place: str

    @property
    def title(self) -> str:
        return " · ".join(filter(None, (str(self.number), self.record.race_id, self.place)))

    @property
    def anchor(self) -> str:
        return f"race-{self.number}"

    @property
    def task_anchor(self) -> str:
        return f"{self.anchor}-task"


def races_page(
    sides: Sequence[Side], series_of: SeriesOf, notices: Sequence[Notice] = (), *, most_bytes: int = MOST_BYTES
) -> str:
    """Return a whole HTML document of races. A side is a column: a single race, or the mean of several.

    `series_of(record)` returns the lines of a race's seconds and the series of its telemetry. `notices` are shown
    beside the verdict. The charts of races take at most `most_bytes`: those of the last ones are left out.
    """
    raced, columns = _numbered(sides), _columns(sides)
    kept, left_out = _kept_charts(raced, series_of, most_bytes)
    differing, same = _facts(raced)
    body, script = render_charts(
        "races.html.j2",
        sentences=list(_in_words(raced)),
        notices=(*notices, *_told_of_left_out(left_out)),
        differing=differing,
        same=same,
        columns=columns,
        tasks=list(_side_by_side(columns)),
        curves=list(_curves([column for column in columns if len(sides) == 1 or not column.is_round])),
        rounds=[
            (side.name, rounds(side.session or side.name, side.records)) for side in sides if len(side.records) > 1
        ],
        races=[(race, race_body(race.record, kept.get(race.number), race.task_anchor)) for race in raced],
    )
    tracks = {f"{race.record.track.name} / {race.record.challenge}": None for race in raced}
    many = f"{len(raced)} races" if len(raced) > 1 else "1 race"
    return render_page(f"{', '.join(tracks)}: {many}", body, script)


def _numbered(sides: Sequence[Side]) -> list[_Raced]:
    numbers = count(1)
    return [
        _Raced(next(numbers), record, f"{side.name}, round {place}" if len(side.records) > 1 else "")
        for side in sides
        for place, record in enumerate(side.records, 1)
    ]


@dataclass(frozen=True)
class _Column:
    """Races whose figures stand in one column. `is_round`: a single race that another column includes, too."""

    name: str
    records: Sequence[RaceRecord]
    is_round: bool = False

    @property
    def head(self) -> str:
        races = len(self.records)
        return f"{self.name} ({races} races)" if races > 1 else self.name


def _columns(sides: Sequence[Side]) -> list[_Column]:
    """Return a column for the mean of each side of several races, and one for each race by its number."""
    columns, numbers = [], count(1)
    for side in sides:
        several = len(side.records) > 1
        if several:
            columns.append(_Column(side.name, side.records))
        columns += [_Column(f"race {next(numbers)}", (record,), is_round=several) for record in side.records]
    return columns


def _in_words(raced: Sequence[_Raced]) -> Iterator[Sentence]:
    """Yield a sentence for each group of races with the same faults or, without faults, the same good sentences."""
    said: dict[tuple[Sentence, ...], list[int]] = {}
    for race in raced:
        found = list(sentences(race.record))
        wrong = tuple(each for each in found if each.level in ("bad", "warning"))
        told = wrong or tuple(Sentence("good", each.title) for each in found if each.level == "good")
        said.setdefault(told, []).append(race.number)
    for told, numbers in said.items():
        level = next(level for level in ("bad", "warning", "good") if any(each.level == level for each in told))
        text = " · ".join(f"{each.title} {each.text}".strip() for each in told)
        yield Sentence(level, f"{_races_named(numbers, len(raced))}:", text)


def _races_named(numbers: Sequence[int], of: int) -> str:
    if len(numbers) == of:
        return "Each race"
    return f"Race{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _told_of_left_out(left_out: Sequence[_Raced]) -> Iterator[Notice]:
    if left_out:
        numbers = ", ".join(str(race.number) for race in left_out)
        yield Notice(
            f"To keep the page small it has no charts over time of the races {numbers}: "
            f"esbench report {left_out[0].record.race_id} --html=FILE draws those of one race",
            note=True,
        )


def _facts(raced: Sequence[_Raced]) -> tuple[Table, str]:
    """Return the facts of the races: those that differ as a table, the others in a line."""
    facts = [_facts_of(race) for race in raced]
    names = list({name: None for found in facts for name in found})
    differing = [name for name in names if len({found.get(name) for found in facts}) > 1]
    rows: list[tuple[Cell, ...]] = [
        (race.number, *(found.get(name, "") for name in differing)) for race, found in zip(raced, facts, strict=True)
    ]
    same = " · ".join(f"{name} {facts[0][name]}" for name in names if name not in differing)
    return Table((_NUMBER, *(Column(name, name) for name in differing)), tuple(rows)), same


def _facts_of(race: _Raced) -> dict[str, str]:
    """Return the facts of a race by name, each parameter and tag separately."""
    found: dict[str, Any] = {}
    for name, value in race_facts(race.record).rows:
        if isinstance(value, Mapping):
            found |= {f"{str(name).lower().removesuffix('s')} {key}": each for key, each in value.items()}
        else:
            found[str(name)] = value
        if name == "Race ID" and race.place:
            found["Side"] = race.place
    return {name: cell_text(value, Column(name, name)) for name, value in found.items()}


def _side_by_side(columns: Sequence[_Column]) -> Iterator[tuple[str, dict[str, list[_Cell]]]]:
    """Yield each task with its main figures: by metric and unit a cell for each column."""
    found = [_figures(column) for column in columns]
    for task in _tasks(columns):
        shown = {key: None for rows in found for key in rows if key[0] == task and _is_main(key, found)}
        if shown:
            yield (
                task,
                {
                    ", ".join(filter(None, key[1:])): [_cell(rows.get(key)) for rows in found]
                    for key in sorted(shown, key=lambda key: _MAIN.index(key[1]))
                },
            )


def _figures(column: _Column) -> dict[_Key, Mapping[str, Any]]:
    """Return the rows that `esbench race --rounds` prints of these races, by task, metric and unit."""
    keys = [column.key for column in COLUMNS]
    rows: list[dict[str, Any]] = [
        dict(zip(keys, row, strict=True)) for row in rounds(column.name, column.records).table.rows
    ]
    return {(row["task"], row["metric"], row["unit"]): row for row in rows}


def _tasks(columns: Sequence[_Column]) -> list[str]:
    """Return the labels of all tasks that are reported, in the order of their first race."""
    labels = (
        task_label(record, task) for column in columns for record in column.records for task in reported_tasks(record)
    )
    return list(dict.fromkeys(labels))


def _is_main(key: _Key, found: Sequence[Mapping[_Key, Mapping[str, Any]]]) -> bool:
    """True if a figure is a main one: an open loop's latency, a closed one's service time; error rates only with
    errors."""
    task, metric, unit = key
    if metric.endswith("service time"):
        latency = (task, metric.replace("service time", "latency"), unit)
        if any(latency in rows for rows in found):
            return False
    if metric == "error rate":
        return any(key in rows and rows[key]["max"] for rows in found)
    return metric in _MAIN


def _cell(row: Mapping[str, Any] | None) -> _Cell:
    if row is None:
        return "-", False
    exceeded = row["mean"] is None and row["rounds"] == 1  # of several there is no mean then
    mean = row["min"] if exceeded else row["mean"]
    spread = "" if row["spread_percent"] is None else f" ± {row['spread_percent']:.1f}%"
    return f"{cell_text(mean, _NUMBER)}{spread}", row["unusable"]


def _curves(columns: Sequence[_Column]) -> Iterator[Chart]:
    """Yield charts of the percentile curves of columns over one another, for each task."""
    coloured = list(zip(columns, COLOURS, strict=False))
    first = f"Of the first {len(coloured)}. " if len(columns) > len(coloured) else ""
    for task in _tasks(columns):
        for measure in RESPONSE_TIMES:  # a closed loop has no latency
            curves = [
                (column.name, colour, curve)
                for column, colour in coloured
                if len(curve := curve_of_races(column.records, task, measure.name)) > 1
            ]
            if curves:
                title = f"{task}: percentiles of {measure.title}"
                yield Chart(curves_chart(curves), title, f"{first}Both axes are logarithmic.")
                break


def _kept_charts(raced: Sequence[_Raced], series_of: SeriesOf, most_bytes: int) -> tuple[dict[int, str], list[_Raced]]:
    """Return the charts of each race by its number, as long as there is room for them; and the races without charts."""
    kept: dict[int, str] = {}
    room = most_bytes
    for place, race in enumerate(raced):
        drawn, script = race_charts(race.record, *series_of(race.record), race.task_anchor)
        drawn = f"{drawn}{drawn_when_unfolded(script)}" if script else drawn
        room -= len(drawn)
        if room < 0:
            return kept, list(raced[place:])
        kept[race.number] = drawn
    return kept, []
