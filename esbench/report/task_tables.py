"""Tables of a race's tasks beside its summary, in the shape of published ones: what the servers did during each, and
sweeps.

A sweep is tasks that run one operation with more and more clients, or at higher and higher rates. Nothing is in the
tables that the record does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from esbench.record.figures import Notice, is_usable, reported_tasks, task_label
from esbench.record.model import RaceRecord, TaskResult
from esbench.report.table_model import Cell, ColumnOf, Section, Table, table_of, time_cell

_MINUTE_S = 60.0


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


_CPU: ColumnOf[TaskResult] = ColumnOf(
    "CPU %", "cpu_core_percent_mean", numeric=True, read=_of_nodes("cpu_core_percent", "mean")
)
_LOAD: ColumnOf[TaskResult] = ColumnOf("Load 1m", "load_1m", numeric=True, read=_of_nodes("load_1m", "last"))
_OF_SERVERS: tuple[ColumnOf[TaskResult], ...] = (
    _CPU,
    ColumnOf("peak", "cpu_core_percent_peak", numeric=True, read=_of_nodes("cpu_core_percent", "peak")),
    _LOAD,
    ColumnOf("Heap %", "heap_used_percent_mean", numeric=True, read=_of_nodes("heap_used_percent", "mean")),
    ColumnOf("peak", "heap_used_percent_peak", numeric=True, read=_of_nodes("heap_used_percent", "peak")),
    ColumnOf("GC ms", "gc_time_ms", numeric=True, read=_of_nodes("gc_time_ms")),
    ColumnOf("Refreshes", "refresh_count", numeric=True, read=_of_cluster("refresh_count")),
    ColumnOf("Merges", "merge_count", numeric=True, read=_of_cluster("merge_count")),
    ColumnOf("Rejections", "rejections", numeric=True, read=_of_nodes("rejections")),
    ColumnOf("Written kB/s", "disk_written_kb_per_s", numeric=True, read=_of_nodes("disk_written_kb_per_s", "mean")),
    ColumnOf("Workers' CPU %", "workers_cpu_core_percent", numeric=True, read=_workers_cpu),
)
_REQUESTS: ColumnOf[TaskResult] = ColumnOf("Requests", "requests", numeric=True, read=lambda task: task.requests)
_ERRORS: tuple[ColumnOf[TaskResult], ...] = (
    ColumnOf("Errors", "errors", numeric=True, read=lambda task: task.errors),
    ColumnOf("", "unusable", flag=True, read=lambda task: not is_usable(task)),
)


def _known(columns: Sequence[ColumnOf[TaskResult]], tasks: Sequence[TaskResult]) -> tuple[ColumnOf[TaskResult], ...]:
    """Return the columns for which at least one of the tasks has a cell."""
    return tuple(column for column in columns if any(column.read(task) is not None for task in tasks))


def servers(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section with a line for each task that has figures of nodes; empty if no task has any."""
    tasks = [task for task in reported_tasks(record) if task.telemetry.get("nodes")]
    if not tasks:
        return ()
    label: ColumnOf[TaskResult] = ColumnOf("Task", "task", read=lambda task: task_label(record, task))
    nodes = max(task.telemetry["nodes"].get("nodes", 1) for task in tasks)
    of_which = "the node" if nodes == 1 else f"{nodes} nodes: means, highest peaks, sums of counts"
    title = f"During each task ({of_which}; CPU in percent of one core)"
    return (Section(title, table_of((label, *_known(_OF_SERVERS, tasks)), tasks)),)


def load_notice(record: RaceRecord) -> tuple[Notice, ...]:
    """Return a notice if tasks are shorter than the minute of the load average: it then includes what ran before
    them."""
    if any(_LOAD.read(task) is not None and task.duration_s < _MINUTE_S for task in reported_tasks(record)):
        text = "load 1m is an average of the last minute: after a shorter task it is also that of what ran before"
        return (Notice(text, note=True),)
    return ()


def sweeps(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section for each operation that several tasks run in a closed loop with different numbers of clients, or
    in an open loop at different rates.

    They are in the order of their first tasks. Tasks that run beside others are left out: not only their clients or
    rates differ.
    """
    in_step = Counter((task.cluster, task.step) for task in record.tasks)
    groups: dict[tuple[str, str, str], list[TaskResult]] = {}
    for task in reported_tasks(record):
        if not task.stages and in_step[task.cluster, task.step] == 1:
            groups.setdefault((task.operation, task.loop, task.cluster), []).append(task)
    return tuple(_sections(groups.values()))


def _sections(groups: Iterable[list[TaskResult]]) -> Iterator[Section]:
    for tasks in groups:
        if tasks[0].loop == "closed" and len({task.clients for task in tasks}) > 1:
            yield Section(f"{tasks[0].operation}, closed loop", _over_clients(tasks))
        elif tasks[0].loop == "open" and len({task.target_rate_per_s for task in tasks}) > 1:
            yield Section(_title_of_rates(tasks), _over_rates(tasks))


def _title_of_rates(tasks: Sequence[TaskResult]) -> str:
    within = ", percent of requests within" if any(task.within_ms for task in tasks) else ""
    return f"{tasks[0].operation}, open loop: latency in ms{within}"


def _telling_thresholds(tasks: Sequence[TaskResult]) -> tuple[str, ...]:
    """Return the thresholds up to the first that all requests of all tasks kept."""
    found: list[str] = []
    for name in dict.fromkeys(name for task in tasks for name in task.within_ms):
        found.append(name)
        if all(task.within_ms.get(name) == 100 for task in tasks):
            break
    return tuple(found)


def _over_clients(tasks: Sequence[TaskResult]) -> Table:
    clients: ColumnOf[TaskResult] = ColumnOf("Clients", "clients", numeric=True, read=lambda task: task.clients)
    times = (_time("Mean ms", "service_time_ms", "mean"), _time("p99 ms", "service_time_ms", "p99"))
    return _sweep(tasks, clients, times)


def _over_rates(tasks: Sequence[TaskResult]) -> Table:
    unit = tasks[0].target_unit or tasks[0].unit
    target: ColumnOf[TaskResult] = ColumnOf(
        f"Target {unit}/s", "target_rate_per_s", numeric=True, read=lambda task: _whole(task.target_rate_per_s)
    )
    times = (_time("p50", "latency_ms", "p50"), _time("p99", "latency_ms", "p99"))
    return _sweep(tasks, target, (*times, *map(_within, _telling_thresholds(tasks))))


def _sweep(tasks: Sequence[TaskResult], swept: ColumnOf[TaskResult], times: Sequence[ColumnOf[TaskResult]]) -> Table:
    """Return the table of a sweep; `swept` is the column of what grows from task to task."""
    throughput: ColumnOf[TaskResult] = ColumnOf(
        f"{tasks[0].throughput.unit}/s", "throughput_mean", numeric=True, read=lambda task: task.throughput.mean
    )
    return table_of((swept, _REQUESTS, throughput, *times, *_known((_CPU, _LOAD), tasks), *_ERRORS), tasks)


def _time(title: str, measure: str, name: str) -> ColumnOf[TaskResult]:
    return ColumnOf(title, f"{measure}_{name}", numeric=True, read=lambda task: time_cell(getattr(task, measure), name))


def _within(threshold: str) -> ColumnOf[TaskResult]:
    return ColumnOf(
        f"<= {threshold}", f"within_ms_{threshold}", numeric=True, read=lambda task: task.within_ms.get(threshold)
    )


def _whole(value: float | None) -> Cell:
    return int(value) if value is not None and value.is_integer() else value
