"""What the server's hottest thread pools were busy with, as a table: two lines at most for each task."""

from __future__ import annotations

from collections.abc import Iterator

from esbench.record.figures import reported_tasks, task_label
from esbench.record.model import RaceRecord
from esbench.report.table_model import Cell, Column, Section, Table

DEVICE = "hot-threads"
_POOLS_AT_MOST = 2
_FRAMES_AT_MOST = 3


def hot_threads(record: RaceRecord) -> tuple[Section, ...]:
    """A section, or none where no hot threads were seen."""
    kind = record.telemetry.get(DEVICE, {}).get("type", "cpu")
    columns = (
        Column("Task", "task"),
        Column("Thread pool", "pool"),
        Column("CPU %" if kind == "cpu" else f"{kind.capitalize()} %", "threads_percent", numeric=True),
        Column("Snapshots", "snapshots", numeric=True),
        Column("Seen in", "frames"),
    )
    rows = tuple(_rows(record))
    return (Section("Hot threads: what the busiest thread pools were in", Table(columns, rows)),) if rows else ()


def _rows(record: RaceRecord) -> Iterator[tuple[Cell, ...]]:
    for task in reported_tasks(record):
        pools = [pool for pool in task.telemetry.get(DEVICE, {}).get("pools", ()) if pool["frames"]]
        for pool in pools[:_POOLS_AT_MOST]:
            frames = [f"{frame['share_percent']:.0f}% {frame['frame']}" for frame in pool["frames"][:_FRAMES_AT_MOST]]
            label = task_label(record, task)
            yield label, pool["pool"], pool["threads_percent"], pool["snapshots"], ", ".join(frames)
