"""The rounds of one session as a table: what each figure was on average, and how much it differed between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean, stdev

from esbench.record import RaceRecord
from esbench.report.document import UNUSABLE, Cell, Column, Document, Table
from esbench.summary import Figure, Notice, figures, notices

_MOST_NOTICES = 12
COLUMNS = (
    Column("Metric", "metric"),
    Column("Task", "task"),
    Column("Mean", "mean", numeric=True),
    Column("Spread %", "spread_percent", numeric=True, percent=True),
    Column("Min", "min", numeric=True),
    Column("Max", "max", numeric=True),
    Column("Unit", "unit"),
    Column("Rounds", "rounds", numeric=True),
    UNUSABLE,
)


def rounds(session_id: str, records: Sequence[RaceRecord]) -> Document:
    """The figures of tasks over rounds; spread is their standard deviation in percent of the mean.

    A figure that one of them has beyond what was measured has no mean. A figure of a single round has no spread.
    """
    found: dict[tuple[str, str], list[Figure]] = {}
    for record in records:
        for figure in figures(record):
            if figure.task:
                found.setdefault((figure.metric, figure.task), []).append(figure)
    told = Counter(notice for record in records for notice in notices(record))
    said = sorted((_counted(notice, count, len(records)) for notice, count in told.items()), key=_worst_first)
    more = (Notice(f"and {len(said) - _MOST_NOTICES} more: esbench show has those of each race"),)
    header: tuple[tuple[Cell, ...], ...] = (
        ("Session", session_id),
        ("Track", " ".join(sorted({f"{record.track.name} / {record.challenge}" for record in records}))),
        ("Rounds", len(records)),
    )
    return Document(
        Table(COLUMNS, tuple(_row(values) for values in found.values())),
        Table((Column("", "name"), Column("", "value")), header),
        (*said[:_MOST_NOTICES], *(more if len(said) > _MOST_NOTICES else ())),
    )


def _worst_first(notice: Notice) -> bool:
    return not notice.unusable


def _row(found: Sequence[Figure]) -> tuple[Cell, ...]:
    values, first = [figure.value for figure in found], found[0]
    mean = None if any(figure.exceeded for figure in found) else fmean(values)
    spread = 100 * stdev(values) / mean if mean and len(values) > 1 else None
    longest = None if mean is None else max(values)
    usable = all(figure.usable for figure in found)
    return (first.metric, first.task, mean, spread, min(values), longest, first.unit, len(values), not usable)


def _counted(notice: Notice, count: int, rounds: int) -> Notice:
    """A notice, with how many of the rounds it is about where that is not all of them."""
    if count == rounds:
        return notice
    text = f"{notice.text} (in {count} of {rounds} rounds)"
    return Notice(text, unusable=notice.unusable, note=notice.note)
