"""Tables as values: what a command shows, before it becomes text, Markdown, CSV or JSON.

A cell is text, a number, a mapping, `Above` or None (not measured). Building a table prints nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.record import RaceRecord
from esbench.summary import Notice, figures, notices
from esbench.units import format_duration, format_number

GAIN, LOSS, NEUTRAL = "gain", "loss", ""


@dataclass(frozen=True)
class Above:
    """A number that is only known to be above `value`."""

    value: float

    def __str__(self) -> str:
        return f"> {format_number(self.value)}"


Cell = str | int | float | Above | Mapping[str, Any] | Sequence[str] | None


@dataclass(frozen=True)
class Column:
    """`key` names it for programs. `signed`: text shows + too; `toned`: a row's tone colours this cell;
    `percent`: text shows one decimal and %."""

    title: str
    key: str
    signed: bool = False
    toned: bool = False
    percent: bool = False
    numeric: bool = False


@dataclass(frozen=True)
class Table:
    """Rows of cells, one per column; `tones`, where there are any, holds gain, loss or "" for each row."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Cell, ...], ...]
    tones: tuple[str, ...] = ()


@dataclass(frozen=True)
class Document:
    """A table with what stands above it (names and their values) and below it."""

    table: Table
    header: Table | None = None
    notices: tuple[Notice, ...] = ()


SUMMARY_COLUMNS = (
    Column("Metric", "metric"),
    Column("Task", "task"),
    Column("Value", "value", numeric=True),
    Column("Unit", "unit"),
)


def summary(record: RaceRecord) -> Document:
    """A race's summary: its facts, Rally's table (Metric, Task, Value, Unit), and what to know about it."""
    rows = tuple(
        (figure.metric, figure.task, Above(figure.value) if figure.exceeded else figure.value, figure.unit)
        for figure in figures(record)
    )
    return Document(Table(SUMMARY_COLUMNS, rows), _race_facts(record), notices(record))


def _race_facts(record: RaceRecord) -> Table:
    facts: list[tuple[Cell, ...]] = [
        ("Race ID", record.race_id),
        ("Track", f"{record.track.name} / {record.challenge}"),
        ("Started", record.started_at),
        ("Status", record.status),
    ]
    for name, cluster in record.clusters.items():
        nodes = f", {len(cluster.nodes)} nodes" if len(cluster.nodes) > 1 else ""
        label = "Cluster" if len(record.clusters) == 1 else f"Cluster {name}"
        facts.append((label, f"{cluster.distribution} {cluster.version}{nodes}"))
    if record.track_params:
        facts.append(("Parameters", record.track_params))
    if record.user_tags:
        facts.append(("Tags", record.user_tags))
    measured_s = sum(task.duration_s for task in record.tasks)
    if measured_s:
        facts.append(("Measured", format_duration(measured_s)))
    return Table((Column("", "name"), Column("", "value")), tuple(facts))
