"""Checks of a decoded record beyond the types of its fields: what reports and comparisons rely on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec

from esbench.record.model import ClusterFacts, RaceRecord, TaskResult

LONGEST_S = 10_000_000  # of a race, 115 days: some of what shows it counts its seconds
_FAR = 1e15
_TIMES = ("latency_ms", "service_time_ms", "client_wait_ms", "driver_lag_ms", "schedule_lag_ms")


@dataclass(frozen=True)
class _Index:
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class _Settings:
    node_options: Mapping[str, Any] = field(default_factory=dict)


def check_record(record: RaceRecord) -> None:
    """Raise ValueError (or OverflowError, of a time of day) for a record that cannot be shown or compared."""
    for time in (record.started_at, record.finished_at or record.started_at):
        datetime.fromisoformat(time).astimezone(UTC)
    for cluster in record.clusters.values():
        _check_cluster(cluster)
    for task in record.tasks:
        if task.loop not in ("open", "closed"):
            raise ValueError(f'the loop of task "{task.name}" is neither open nor closed')
        if not all(abs(figure) < _FAR for figure in _finite_figures(task)):  # nan is not, either
            raise ValueError(f'a time of task "{task.name}" is not a finite number')
        if max(abs(task.window.start_s), abs(task.window.end_s)) > LONGEST_S:
            raise ValueError(f'the window of task "{task.name}" lasts too long')


def _check_cluster(cluster: ClusterFacts) -> None:
    for name, statistic in cluster.statistics.items():
        if not abs(statistic["value"]) < _FAR:
            raise ValueError(f'the statistic "{name}" is not a finite number')
    msgspec.convert(cluster.indices, dict[str, _Index])
    msgspec.convert(cluster.settings, _Settings)


def _finite_figures(task: TaskResult) -> Iterator[float]:
    yield from (task.window.start_s, task.window.end_s, task.duration_s, task.start_s)
    yield from (task.begun_s or 0.0, task.waited_ratio or 0.0)
    for name in _TIMES:
        yield (getattr(task, name) or {}).get("mean", 0.0)
