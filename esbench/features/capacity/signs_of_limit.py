"""The parts of a cluster that gave way first in a search for capacity: figures of probes above it against those below.

Pure. A figure that moved is no proof: a queue grows since something behind it is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from esbench.record.figures import node_figure
from esbench.record.model import DRIVER_SUBJECTS, ClusterFacts, RaceRecord, TaskResult

_TOO_MANY_REQUESTS = "429"


@dataclass(frozen=True)
class SignOfLimit:
    """Something that gave way above the capacity: its figure there and below, means over probes in `unit`."""

    what: str
    unit: str
    below: float
    above: float


@dataclass(frozen=True)
class _Watched:
    """A figure of a probe; `value` returns it, None if it is unknown.

    It gave way if it is at least `least` above the capacity, and `times` that of probes below it.
    """

    what: str
    unit: str
    value: Callable[[TaskResult, ClusterFacts | None], float | None]
    least: float
    times: float


def _rejected_percent(task: TaskResult, _: ClusterFacts | None) -> float | None:
    """Return what thread pools rejected or replies with status 429, whichever is more, in percent of the requests."""
    rejections, statuses = node_figure(task, "rejections"), task.status_codes
    if (rejections is None and statuses is None) or not task.requests:
        return None
    return 100 * max(rejections or 0.0, (statuses or {}).get(_TOO_MANY_REQUESTS, 0)) / task.requests


def _cpu_percent(task: TaskResult, cluster: ClusterFacts | None) -> float | None:
    """Return the CPU of the busiest node in percent of its processors."""
    processors = {node.name: node.processors for node in cluster.nodes} if cluster else {}
    by_node: Mapping[str, Mapping[str, float]] = task.telemetry.get("nodes", {}).get("by_node", {})
    found = [
        figures["cpu_core_percent"] / of
        for name, figures in by_node.items()
        if (of := processors.get(name)) and "cpu_core_percent" in figures
    ]
    return max(found, default=None)


def _host_percent(task: TaskResult, _: ClusterFacts | None) -> float | None:
    found: float | None = task.telemetry.get("driver", {}).get("busy_percent", {}).get("mean")
    return found


def _gc_percent(task: TaskResult, _: ClusterFacts | None) -> float | None:
    """Return the pauses of the garbage collection in percent of the window, a mean over the nodes."""
    gc_ms, nodes = node_figure(task, "gc_time_ms"), node_figure(task, "nodes") or 1
    window_s = task.window.end_s - task.window.start_s
    return gc_ms / 10 / window_s / nodes if gc_ms is not None and window_s > 0 else None


def _queued(task: TaskResult, _: ClusterFacts | None) -> float | None:
    return node_figure(task, "queued", "mean")


def _driver_percent(task: TaskResult, _: ClusterFacts | None) -> float:
    return 100.0 if any(check.level != "ok" and check.subject in DRIVER_SUBJECTS for check in task.checks) else 0.0


_WATCHED = (  # causes before what follows from them
    _Watched("the CPU of a node is at its limit", "% of its processors", _cpu_percent, 90.0, 0.0),
    _Watched("the CPUs of the driver's host are at their limit", "% of all CPUs", _host_percent, 90.0, 0.0),
    _Watched("nodes pause for garbage collection", "% of the time", _gc_percent, 5.0, 1.5),
    _Watched("requests are rejected", "% of requests", _rejected_percent, 0.1, 2.0),
    _Watched("requests stand in queues of thread pools", "requests", _queued, 1.0, 2.0),
    _Watched("the driver is late or busy", "% of probes", _driver_percent, 1.0, 2.0),
)


def signs_of_limit(
    record: RaceRecord, below: Sequence[TaskResult], above: Sequence[TaskResult]
) -> tuple[SignOfLimit, ...]:
    """Return what gave way above the capacity, possible causes before what follows from them; empty for nothing.

    `below`, `above`: tasks of probes at rates below and above the capacity, at least one each.
    """
    found = []
    for watched in _WATCHED:
        under, over = (_mean(record, watched, tasks) for tasks in (below, above))
        if under is not None and over is not None and over >= max(watched.least, watched.times * under):
            found.append(SignOfLimit(watched.what, watched.unit, under, over))
    return tuple(found)


def _mean(record: RaceRecord, watched: _Watched, tasks: Sequence[TaskResult]) -> float | None:
    known = [value for task in tasks if (value := watched.value(task, record.clusters.get(task.cluster))) is not None]
    return fmean(known) if known else None
