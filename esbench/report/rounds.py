"""The rounds of one session as a table: the mean of each figure, and its spread between rounds."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean, stdev

from esbench.comparison.notices import merged, repeated
from esbench.record.figures import Figure, Notice, figures_of
from esbench.record.model import RaceRecord
from esbench.report.table_model import Cell, Column, ReportDocument, Table, facts_table, figure_cell

_MOST_NOTICES = 12
COLUMNS = (
    Column("Metric", "metric"),
    Column("Task", "task", cuttable=True),
    Column("Mean", "mean", numeric=True),
    Column("Spread %", "spread_percent", numeric=True, percent=True),
    Column("Min", "min", numeric=True),
    Column("Max", "max", numeric=True),
    Column("Unit", "unit"),
    Column("Rounds", "rounds", numeric=True, spare=1),
    Column("", "unusable", flag=True),
)


def rounds(session_id: str, records: Sequence[RaceRecord]) -> ReportDocument:
    """Return the document of tasks' figures over rounds; spread is their standard deviation in percent of the mean.

    A figure that is only known to exceed a value in one of them has no mean. A figure of a single round has no spread.
    """
    found: dict[tuple[str, str], list[Figure]] = {}
    for of_race in figures_of(records):
        for figure in of_race:
            if figure.task:
                found.setdefault((figure.metric, figure.task), []).append(figure)
    said = [found.counted("round") for found in merged(repeated(records).values())]
    more = (Notice(f"and {len(said) - _MOST_NOTICES} more: esbench show has those of each race"),)
    tracks = " ".join(sorted({f"{record.track.name} / {record.challenge}" for record in records}))
    return ReportDocument(
        Table(COLUMNS, tuple(_row(values) for values in found.values())),
        facts_table((("Session", session_id), ("Track", tracks), ("Rounds", len(records)))),
        (*said[:_MOST_NOTICES], *(more if len(said) > _MOST_NOTICES else ())),
    )


def _row(found: Sequence[Figure]) -> tuple[Cell, ...]:
    values, first = [figure.value for figure in found], found[0]
    mean = None if any(figure.exceeded for figure in found) else fmean(values)
    spread = 100 * stdev(values) / abs(mean) if mean and len(values) > 1 else None
    least = min(found, key=lambda figure: (figure.value, figure.exceeded))
    longest = None if mean is None else max(values)
    usable = all(figure.usable for figure in found)
    return (first.metric, first.task, mean, spread, figure_cell(least), longest, first.unit, len(values), not usable)
