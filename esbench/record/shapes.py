"""Checks of a decoded record beyond the types of its fields: what reports and comparisons rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import nan
from typing import Any

import msgspec

from esbench.record.model import LONGEST_S, ClusterFacts, RaceRecord, TaskResult
from esbench.record.parts import check_parts

_FAR = 1e15
_TIMES = ("latency_ms", "service_time_ms", "client_wait_ms", "driver_lag_ms", "schedule_lag_ms")


@dataclass(frozen=True)
class _Index:
    settings: Mapping[str, Any] = field(default_factory=dict)
    primary_shards: int | None = None


@dataclass(frozen=True)
class _Settings:
    node_options: Mapping[str, Any] = field(default_factory=dict)


class _Frame(msgspec.Struct):
    frame: str
    share_percent: float


class _Pool(msgspec.Struct):
    pool: str
    threads_percent: float
    snapshots: int
    frames: list[_Frame]


class _HotThreads(msgspec.Struct):
    type: str = "cpu"
    pools: list[_Pool] = []


class _Processor(msgspec.Struct):
    processor: str
    count: int
    time_ms: float
    failed: int


class _Pipeline(msgspec.Struct):
    pipeline: str
    count: int
    time_ms: float
    failed: int
    processors: list[_Processor] = []


class _Pipelines(msgspec.Struct):
    pipelines: list[_Pipeline] = []


class _DiskUsage(msgspec.Struct):
    """Disk usage: sizes by name (total_bytes, doc_values_bytes ...) with the index and the field that have them."""

    indices: list[dict[str, int | str]] = []
    fields: list[dict[str, int | str]] = []
    other_indices: dict[str, int] | None = None
    other_fields: dict[str, int] | None = None


class _Nodes(msgspec.Struct):
    nodes: int = 1  # their number


class _Driver(msgspec.Struct):
    process_core_percent: dict[str, float] = {}


class _Device(msgspec.Struct):
    readings: int = 0


class _Telemetry(msgspec.Struct, rename="kebab"):
    """Telemetry by device, of a race or of a task: as much of it as tables are made of."""

    nodes: _Nodes = msgspec.field(default_factory=_Nodes)
    cluster: dict[str, Any] = {}
    driver: _Driver = msgspec.field(default_factory=_Driver)
    hot_threads: _HotThreads = msgspec.field(default_factory=_HotThreads)
    ingest_pipeline_stats: _Pipelines = msgspec.field(default_factory=_Pipelines)
    disk_usage: _DiskUsage = msgspec.field(default_factory=_DiskUsage)


def check_record(record: RaceRecord) -> None:
    """Raise ValueError (or OverflowError, of a time of day) for a record that cannot be shown or compared."""
    for time in (record.started_at, record.finished_at or record.started_at):
        datetime.fromisoformat(time).astimezone(UTC)
    _check_telemetry(record.telemetry)
    msgspec.convert(record.telemetry, dict[str, _Device])
    for cluster in record.clusters.values():
        _check_cluster(cluster)
    check_parts(record)
    for task in record.tasks:
        if task.loop not in ("open", "closed"):
            raise ValueError(f'the loop of task "{task.name}" is neither open nor closed')
        if not all(abs(figure) < _FAR for figure in _finite_figures(task)):  # nan is not, either
            raise ValueError(f'a figure of task "{task.name}" is not a finite number')
        _check_telemetry(task.telemetry)
        if max(abs(task.window.start_s), abs(task.window.end_s)) > LONGEST_S:
            raise ValueError(f'the window of task "{task.name}" lasts too long')


def _check_cluster(cluster: ClusterFacts) -> None:
    for name, statistic in cluster.statistics.items():
        if not abs(statistic["value"]) < 2**63:  # bytes of a large store, too
            raise ValueError(f'the statistic "{name}" is not a finite number')
    msgspec.convert(cluster.indices, dict[str, _Index])
    msgspec.convert(cluster.settings, _Settings)


def _check_telemetry(telemetry: Mapping[str, Any]) -> None:
    usage = msgspec.convert(telemetry, _Telemetry).disk_usage
    others: list[Mapping[str, int | str]] = [usage.other_indices or {}, usage.other_fields or {}]
    for sizes in (*usage.indices, *usage.fields, *others):
        sizes_only = [size for name, size in sizes.items() if name.endswith("_bytes")]
        if not all(isinstance(size, int) for size in sizes_only):
            raise ValueError("a size of the disk usage is not a number")


def _finite_figures(task: TaskResult) -> Iterator[float]:
    yield from (task.window.start_s, task.window.end_s, task.duration_s, task.start_s)
    yield from (task.begun_s or 0.0, task.waited_ratio or 0.0, task.bytes_sent or 0, task.bytes_received or 0)
    yield from (objective.value or 0.0 for objective in task.objectives)
    yield from (numbers.get("mean", nan) for numbers in task.returned.values())
    if (scores := task.scores) is not None:
        yield from (scores.mean, scores.p10, scores.min, scores.low or 0.0, scores.high or 0.0)
    for name in _TIMES:
        yield (getattr(task, name) or {}).get("mean", 0.0)
