"""Figures of the servers during each task, as one table: those that published benchmarks print beside their results.

Nothing is in it that the record does not hold.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.record.figures import Notice, reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.report.table_model import Cell, Column, Section, Table

MINUTE_S = 60.0


@dataclass(frozen=True)
class Figure:
    """A column of the table: its title, and a function that reads its value from a task, None if it is not known."""

    title: str
    key: str
    read: Callable[[TaskResult], Cell]

    @property
    def column(self) -> Column:
        return Column(self.title, self.key, numeric=True)


def _of_nodes(figure: str, kind: str = "") -> Callable[[TaskResult], Cell]:
    """Return a reader of a figure of the nodes: its mean, peak or last value (`kind`), or their total gain."""

    def read(task: TaskResult) -> Cell:
        found: Any = task.telemetry.get("nodes", {}).get(figure)
        value: Cell = found.get(kind) if isinstance(found, Mapping) else found
        return value

    return read


def _of_cluster(name: str) -> Callable[[TaskResult], Cell]:
    return lambda task: task.telemetry.get("cluster", {}).get(name)


def _workers_cpu(task: TaskResult) -> Cell:
    processes = task.telemetry.get("driver", {}).get("process_core_percent", {})
    workers = [percent for name, percent in processes.items() if name.startswith("worker-")]
    return sum(workers) if workers else None


CPU = Figure("CPU %", "cpu_core_percent_mean", _of_nodes("cpu_core_percent", "mean"))
LOAD = Figure("Load 1m", "load_1m", _of_nodes("load_1m", "last"))
_FIGURES = (
    CPU,
    Figure("peak", "cpu_core_percent_peak", _of_nodes("cpu_core_percent", "peak")),
    LOAD,
    Figure("Heap %", "heap_used_percent_mean", _of_nodes("heap_used_percent", "mean")),
    Figure("peak", "heap_used_percent_peak", _of_nodes("heap_used_percent", "peak")),
    Figure("GC ms", "gc_time_ms", _of_nodes("gc_time_ms")),
    Figure("Refreshes", "refresh_count", _of_cluster("refresh_count")),
    Figure("Merges", "merge_count", _of_cluster("merge_count")),
    Figure("Rejections", "rejections", _of_nodes("rejections")),
    Figure("Written kB/s", "disk_written_kb_per_s", _of_nodes("disk_written_kb_per_s", "mean")),
    Figure("Workers' CPU %", "workers_cpu_core_percent", _workers_cpu),
)


def known_figures(figures: Sequence[Figure], tasks: Sequence[TaskResult]) -> tuple[Figure, ...]:
    """Return the figures that at least one of the tasks has."""
    return tuple(figure for figure in figures if any(figure.read(task) is not None for task in tasks))


def servers(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section with a line for each task that has figures of nodes; empty if no task has any."""
    tasks = [task for task in reported_tasks(record) if task.telemetry.get("nodes")]
    if not tasks:
        return ()
    known = known_figures(_FIGURES, tasks)
    rows = tuple((task_label(record, task), *(figure.read(task) for figure in known)) for task in tasks)
    nodes = max(task.telemetry["nodes"].get("nodes", 1) for task in tasks)
    of_which = "the node" if nodes == 1 else f"{nodes} nodes: means, highest peaks, sums of counts"
    return (
        Section(
            f"During each task ({of_which}; CPU in percent of one core)",
            Table((Column("Task", "task"), *(figure.column for figure in known)), rows),
        ),
    )


def load_notice(record: RaceRecord) -> tuple[Notice, ...]:
    """Return a notice if tasks are shorter than the minute of the load average: it then includes what ran before
    them."""
    if any(LOAD.read(task) is not None and task.duration_s < MINUTE_S for task in reported_tasks(record)):
        text = "load 1m is an average of the last minute: after a shorter task it is also that of what ran before"
        return (Notice(text, note=True),)
    return ()
