"""Tables of telemetry devices for a race as a whole: hot threads, ingest pipelines, fields on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from esbench.record.figures import reported_tasks, task_label
from esbench.record.model import RaceRecord
from esbench.report.table_model import Cell, Column, Section, Table

_HOT_THREADS = "hot-threads"
_POOLS_AT_MOST = 2
_FRAMES_AT_MOST = 3
_INGEST_PIPELINES = "ingest-pipeline-stats"
_PIPELINES_AT_MOST = 5
_PIPELINE_COLUMNS = (
    Column("Pipeline", "pipeline"),
    Column("Processor", "processor"),
    Column("Documents", "count", numeric=True),
    Column("Time ms", "time_ms", numeric=True),
    Column("Failed", "failed", numeric=True),
)
_DISK_USAGE = "disk-usage"
_INDICES_AT_MOST = 10
_FIELDS_AT_MOST = 20
_MB = 1 << 20
_PARTS = (
    ("inverted_index", "Inverted index"),
    ("stored_fields", "Stored fields"),
    ("doc_values", "Doc values"),
    ("points", "Points"),
    ("norms", "Norms"),
    ("term_vectors", "Term vectors"),
    ("knn_vectors", "Vectors"),
)


def hot_threads(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section on the two busiest thread pools of each task and the code they ran; empty if none was seen."""
    kind = record.telemetry.get(_HOT_THREADS, {}).get("type", "cpu")
    columns = (
        Column("Task", "task", cuttable=True),
        Column("Thread pool", "pool"),
        Column("CPU %" if kind == "cpu" else f"{kind.capitalize()} %", "threads_percent", numeric=True),
        Column("Snapshots", "snapshots", numeric=True),
        Column("Seen in", "frames", below=True),
    )
    rows = tuple(_pool_rows(record))
    return (Section("Hot threads: what the busiest thread pools were in", Table(columns, rows)),) if rows else ()


def _pool_rows(record: RaceRecord) -> Iterator[tuple[Cell, ...]]:
    for task in reported_tasks(record):
        pools = [pool for pool in task.telemetry.get(_HOT_THREADS, {}).get("pools", ()) if pool["frames"]]
        for pool in pools[:_POOLS_AT_MOST]:
            frames = [f"{frame['share_percent']:.0f}% {frame['frame']}" for frame in pool["frames"][:_FRAMES_AT_MOST]]
            label = task_label(record, task)
            yield label, pool["pool"], pool["threads_percent"], pool["snapshots"], ", ".join(frames)


def ingest_pipelines(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section on the ingest pipelines that took most time; empty if none was seen."""
    pipelines = record.telemetry.get(_INGEST_PIPELINES, {}).get("pipelines", [])[:_PIPELINES_AT_MOST]
    rows = tuple(row for pipeline in pipelines for row in _pipeline_rows(pipeline))
    return (Section("Ingest pipelines, over all nodes", Table(_PIPELINE_COLUMNS, rows)),) if rows else ()


def _pipeline_rows(pipeline: Mapping[str, Any]) -> Iterator[tuple[Cell, ...]]:
    for line in ({**pipeline, "processor": "(all)"}, *pipeline.get("processors", ())):
        yield pipeline["pipeline"], line["processor"], line["count"], line["time_ms"], line["failed"]


def disk_usage(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section on disk usage by field, without the parts that no index has; empty if it was not asked for or
    seen."""
    usage = record.telemetry.get(_DISK_USAGE, {})
    indices: list[Mapping[str, Any]] = usage.get("indices", [])
    if not indices:
        return ()
    parts = [(name, title) for name, title in _PARTS if any(f"{name}_bytes" in index for index in indices)]
    columns = (
        Column("Index", "index"),
        Column("Field", "field"),
        Column("Total", "total_mb", numeric=True),
        *(Column(title, f"{name}_mb", numeric=True, spare=len(parts) - n) for n, (name, title) in enumerate(parts)),
    )
    rows = tuple(
        (
            sizes.get("index"),
            sizes.get("field"),
            *(_mb(sizes.get(f"{name}_bytes")) for name in ("total", *(name for name, _ in parts))),
        )
        for sizes in _lines(indices, usage)
    )
    return (Section("Disk usage by field, in MB", Table(columns, rows)),)


def _lines(indices: list[Mapping[str, Any]], usage: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from ({**index, "field": "(all fields)"} for index in indices[:_INDICES_AT_MOST])
    for sizes in _summed(indices[_INDICES_AT_MOST:], usage.get("other_indices")):
        yield {**sizes, "index": f"({sizes['count']} others)", "field": "(all fields)"}
    yield from usage.get("fields", [])[:_FIELDS_AT_MOST]
    for sizes in _summed(usage.get("fields", [])[_FIELDS_AT_MOST:], usage.get("other_fields")):
        yield {**sizes, "index": "", "field": f"({sizes['count']} others)"}


def _summed(left_out: list[Mapping[str, Any]], further: Mapping[str, Any] | None) -> Iterator[Mapping[str, Any]]:
    """Yield the sum of the lines left out here and of those that the record has only as a sum, if there are any."""
    every = [*left_out, *([further] if further else [])]
    if every:
        names = {name for sizes in every for name in sizes if name.endswith("_bytes")}
        sums = {name: sum(sizes.get(name, 0) for sizes in every) for name in names}
        yield {"count": len(left_out) + (further or {}).get("count", 0), **sums}


def _mb(size_bytes: int | None) -> Cell:
    return size_bytes / _MB if size_bytes else None
