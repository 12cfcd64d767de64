"""Sweeps: tasks that run one operation with more and more clients, or at higher and higher rates, as one table with a
line for each.

The tables of published benchmarks have this shape. Nothing is in them that the record does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from esbench.record.figures import is_usable, reported_tasks
from esbench.record.model import RaceRecord, TaskResult
from esbench.report.servers import CPU, LOAD, known_figures
from esbench.report.table_model import UNUSABLE, Cell, Column, Section, Table, time_cell


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
    known = known_figures((CPU, LOAD), tasks)
    columns = (
        Column("Clients", "clients", numeric=True),
        Column("Requests", "requests", numeric=True),
        _throughput_column(tasks),
        Column("Mean ms", "service_time_ms_mean", numeric=True),
        Column("p99 ms", "service_time_ms_p99", numeric=True),
        *(figure.column for figure in known),
        Column("Errors", "errors", numeric=True),
        UNUSABLE,
    )
    return Table(
        columns,
        tuple(
            (
                task.clients,
                task.requests,
                task.throughput.mean,
                time_cell(task.service_time_ms, "mean"),
                time_cell(task.service_time_ms, "p99"),
                *(figure.read(task) for figure in known),
                task.errors,
                not is_usable(task),
            )
            for task in tasks
        ),
    )


def _over_rates(tasks: Sequence[TaskResult]) -> Table:
    thresholds = _telling_thresholds(tasks)
    known = known_figures((CPU, LOAD), tasks)
    unit = tasks[0].target_unit or tasks[0].unit
    columns = (
        Column(f"Target {unit}/s", "target_rate_per_s", numeric=True),
        Column("Requests", "requests", numeric=True),
        _throughput_column(tasks),
        Column("p50", "latency_ms_p50", numeric=True),
        Column("p99", "latency_ms_p99", numeric=True),
        *(Column(f"<= {name}", f"within_ms_{name}", numeric=True) for name in thresholds),
        *(figure.column for figure in known),
        Column("Errors", "errors", numeric=True),
        UNUSABLE,
    )
    return Table(
        columns,
        tuple(
            (
                _whole(task.target_rate_per_s),
                task.requests,
                task.throughput.mean,
                time_cell(task.latency_ms, "p50"),
                time_cell(task.latency_ms, "p99"),
                *(task.within_ms.get(name) for name in thresholds),
                *(figure.read(task) for figure in known),
                task.errors,
                not is_usable(task),
            )
            for task in tasks
        ),
    )


def _whole(value: float | None) -> Cell:
    return int(value) if value is not None and value.is_integer() else value


def _throughput_column(tasks: Sequence[TaskResult]) -> Column:
    return Column(f"{tasks[0].throughput.unit}/s", "throughput_mean", numeric=True)
