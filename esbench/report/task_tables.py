"""Tables of a race's tasks, in the shape of published ones: a line for each task, target rates and thresholds, what the
servers did during each, and sweeps.

A sweep is tasks that run one operation with more and more clients, or at higher and higher rates, and differ in nothing
else. Nothing is in the tables that the record does not hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from esbench.measure.measures import Measure, response_time
from esbench.record.figures import (
    Notice,
    is_usable,
    node_figure,
    objective_results,
    process_figure,
    refused_documents,
    refused_percent,
    reported_tasks,
    request_results,
    task_label,
)
from esbench.record.model import HTTP_REQUESTS, HostShare, ObjectiveResult, RaceRecord, ScoreFigures, TaskResult
from esbench.report.table_model import Cell, ColumnOf, Section, Table, table_of, time_cell
from esbench.units import format_number

_MINUTE_S = 60.0


def _of_nodes(figure: str, kind: str = "") -> Callable[[TaskResult], Cell]:
    """Return a reader of a figure of the nodes: its mean, peak or last value (`kind`), or their total gain."""

    return lambda task: node_figure(task, figure, kind)


def _of_cluster(name: str) -> Callable[[TaskResult], Cell]:
    return lambda task: task.telemetry.get("cluster", {}).get(name)


def _workers_cpu(task: TaskResult) -> Cell:
    processes = task.telemetry.get("driver", {}).get("process_core_percent", {})
    workers = [percent for name, percent in processes.items() if name.startswith("worker-")]
    return sum(workers) if workers else None


def _memory_mb(task: TaskResult) -> Cell:
    peak_bytes = process_figure(task, "resident_peak_bytes")
    return None if peak_bytes is None else round(peak_bytes / 1e6)


_CPU: ColumnOf[TaskResult] = ColumnOf(
    "CPU %", "cpu_core_percent_mean", numeric=True, spare=6, read=_of_nodes("cpu_core_percent", "mean")
)
_MEMORY: ColumnOf[TaskResult] = ColumnOf("Memory MB", "memory_peak_mb", numeric=True, spare=2, read=_memory_mb)
_LOAD: ColumnOf[TaskResult] = ColumnOf("Load 1m", "load_1m", numeric=True, spare=1, read=_of_nodes("load_1m", "last"))
_HEAP: ColumnOf[TaskResult] = ColumnOf(
    "Heap %", "heap_used_percent_mean", numeric=True, read=_of_nodes("heap_used_percent", "mean")
)
_GC: ColumnOf[TaskResult] = ColumnOf("GC ms", "gc_time_ms", numeric=True, read=_of_nodes("gc_time_ms"))
_REJECTIONS: ColumnOf[TaskResult] = ColumnOf("Rejections", "rejections", numeric=True, read=_of_nodes("rejections"))
_WORK_OF_SERVERS: tuple[ColumnOf[TaskResult], ...] = (
    _GC,
    ColumnOf("Refreshes", "refresh_count", numeric=True, spare=3, read=_of_cluster("refresh_count")),
    ColumnOf("Merges", "merge_count", numeric=True, spare=2, read=_of_cluster("merge_count")),
    _REJECTIONS,
)
_MAIN_OF_SERVERS = (_CPU, _MEMORY, _HEAP, *_WORK_OF_SERVERS)
_QUEUES_OF_SERVERS: tuple[ColumnOf[TaskResult], ...] = (
    *(_CPU, _HEAP, _GC),
    ColumnOf("Queued", "queued_mean", numeric=True, read=_of_nodes("queued", "mean")),
    ColumnOf("peak", "queued_peak", numeric=True, read=_of_nodes("queued", "peak")),
    _REJECTIONS,
)
_ALL_OF_SERVERS: tuple[ColumnOf[TaskResult], ...] = (
    _CPU,
    ColumnOf("peak", "cpu_core_percent_peak", numeric=True, read=_of_nodes("cpu_core_percent", "peak")),
    _LOAD,
    _MEMORY,
    _HEAP,
    ColumnOf("peak", "heap_used_percent_peak", numeric=True, read=_of_nodes("heap_used_percent", "peak")),
    *_WORK_OF_SERVERS,
    ColumnOf(
        "Written kB/s", "disk_written_kb_per_s", numeric=True, spare=4, read=_of_nodes("disk_written_kb_per_s", "mean")
    ),
    ColumnOf("Workers' CPU %", "workers_cpu_core_percent", numeric=True, read=_workers_cpu),
)
_REQUESTS: ColumnOf[TaskResult] = ColumnOf(
    "Requests", "requests", numeric=True, spare=5, read=lambda task: task.requests
)
_ERRORS: tuple[ColumnOf[TaskResult], ...] = (
    ColumnOf("Errors", "errors", numeric=True, read=lambda task: task.errors),
    ColumnOf("", "unusable", flag=True, read=lambda task: not is_usable(task)),
)


def _known(columns: Sequence[ColumnOf[TaskResult]], tasks: Sequence[TaskResult]) -> tuple[ColumnOf[TaskResult], ...]:
    """Return the columns for which at least one of the tasks has a cell."""
    return tuple(column for column in columns if any(column.read(task) is not None for task in tasks))


def _label(record: RaceRecord) -> ColumnOf[TaskResult]:
    return ColumnOf("Task", "task", cuttable=True, read=lambda task: task_label(record, task))


def task_lines(record: RaceRecord) -> Table:
    """Return a table with a line for each task: throughput, percentiles of its response time in ms, failed requests.

    The response time is latency in an open loop, service time in a closed one; each line says which. A line whose
    figures must not be used ends with `!`. Of several requests to any HTTP server each has a line below that of their
    task, with its service time.
    """
    columns: tuple[ColumnOf[TaskResult], ...] = (
        _label(record),
        ColumnOf("Per second", "throughput_mean", numeric=True, read=_throughput),
        ColumnOf("Time ms", "response_time", read=lambda task: _measure(task).title.removesuffix(" time")),
        *map(_response_time, ("p50", "p99", "p99.9", "max")),
        ColumnOf("Err %", "error_percent", read=_error_percent),
    )
    if any(task.scores for task in reported_tasks(record)):
        columns = (*columns[:-1], _SCORE, columns[-1])
    if any(map(refused_documents, reported_tasks(record))):
        columns = (*columns, _REFUSED_DOCUMENTS)
    return table_of(columns, [line for task in reported_tasks(record) for line in (task, *_own_lines(task))])


def _refused(task: TaskResult) -> Cell:
    """Return how many documents were refused, and their share."""
    refused, percent = refused_documents(task), refused_percent(task)
    if percent is None:
        return refused or None
    return f"{refused} ({format_number(percent)} %)"


def _score(task: TaskResult) -> Cell:
    """Return the mean score of the replies, and what is scored: 0.942 recall@10."""
    return None if task.scores is None else f"{task.scores.mean:.3f} {task.scores.name}"


_SCORE: ColumnOf[TaskResult] = ColumnOf("Score", "score", read=_score)
_REFUSED_DOCUMENTS: ColumnOf[TaskResult] = ColumnOf("Refused", "refused_documents", numeric=True, read=_refused)


def _own_lines(task: TaskResult) -> Iterator[TaskResult]:
    if task.operation_type == HTTP_REQUESTS:
        yield from request_results(task)


def _measure(task: TaskResult) -> Measure:
    return response_time(is_open=task.loop == "open")


def _response_time(name: str) -> ColumnOf[TaskResult]:
    return ColumnOf(name, name, numeric=True, read=lambda task: time_cell(getattr(task, _measure(task).figures), name))


def _throughput(task: TaskResult) -> Cell:
    mean = task.throughput.mean
    return None if mean is None else f"{format_number(mean) if mean else 0} {task.throughput.unit}"


def _error_percent(task: TaskResult) -> Cell:
    """Return the error rate in percent as text; with the `!` of figures that must not be used, which a column of its
    own would make wider than a terminal."""
    ratio = task.error_rate_ratio
    text = "-" if ratio is None else f"{format_number(100 * ratio) if ratio else 0}"
    return text if is_usable(task) else f"{text} !"


def targets(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section with the target rates of open loops and the share of requests within each threshold that a task
    asked for; empty if no task has either.

    Tasks of sweeps are left out: their tables have both.
    """
    swept = [task for tasks in _swept(record) for task in tasks]
    tasks = [
        task
        for task in reported_tasks(record)
        if (task.target_rate_per_s is not None or task.within_ms) and task not in swept
    ]
    if not tasks:
        return ()
    thresholds = _thresholds(tasks)
    title = "Target rate per second"
    if thresholds:
        title += ", and percent of requests within so many ms"
    columns = (
        _label(record),
        ColumnOf("Target", "target_rate_per_s", numeric=True, read=_target),
        *(_within(name, name) for name in thresholds),
    )
    return (Section(title, table_of(columns, tasks)),)


_OBJECTIVES: tuple[ColumnOf[tuple[str, ObjectiveResult]], ...] = (
    ColumnOf("Task", "task", cuttable=True, read=lambda found: found[0]),
    ColumnOf("Objective", "objective", read=lambda found: found[1].text),
    ColumnOf("Value", "value", numeric=True, read=lambda found: found[1].value),
    ColumnOf("Unit", "unit", spare=1, read=lambda found: found[1].unit),
    ColumnOf("Held", "held", read=lambda found: found[1].holds),
    ColumnOf("", "reason", for_programs=True, read=lambda found: found[1].reason),
)


def objectives(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section with a line for each objective of the tasks; empty if they have none."""
    found = tuple(objective_results(record))
    return (Section("Objectives", table_of(_OBJECTIVES, found)),) if found else ()


def _of_host(name: str) -> Callable[[tuple[str, HostShare]], Cell]:
    return lambda found: time_cell(found[1].response_ms, name)


_SHARES: tuple[ColumnOf[tuple[str, HostShare]], ...] = (
    ColumnOf("Task", "task", cuttable=True, read=lambda found: found[0]),
    ColumnOf("Load host", "load_host", cuttable=True, read=lambda found: found[1].host),
    ColumnOf("Requests", "requests", numeric=True, read=lambda found: found[1].requests),
    ColumnOf("Errors", "errors", numeric=True, read=lambda found: found[1].errors),
    ColumnOf("p50 ms", "p50_ms", numeric=True, read=_of_host("p50")),
    ColumnOf("p99 ms", "p99_ms", numeric=True, read=_of_host("p99")),
    ColumnOf("max ms", "max_ms", numeric=True, read=_of_host("max")),
    ColumnOf("Clock +- ms", "clock_ms", numeric=True, read=lambda found: found[1].clock_uncertainty_ms),
)


def by_load_host(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section with a line for each load host of each task that several shared; empty if none did.

    Its times are the latency of open loops, the service time of closed ones.
    """
    tasks = reported_tasks(record)
    found = [(task_label(record, task), share) for task in tasks for share in task.host_shares]
    return (Section("By load host", table_of(_SHARES, found)),) if found else ()


def _of_scores(read: Callable[[ScoreFigures], Cell]) -> Callable[[TaskResult], Cell]:
    return lambda task: None if task.scores is None else read(task.scores)


_SCORES: tuple[ColumnOf[TaskResult], ...] = (
    ColumnOf("Score", "score", read=_of_scores(lambda scores: scores.name)),
    ColumnOf("Mean", "mean", numeric=True, read=_of_scores(lambda scores: f"{scores.mean:.4f}")),
    ColumnOf(
        "95 % interval",
        "interval",
        read=_of_scores(lambda each: None if each.low is None else f"{each.low:.4f} to {each.high:.4f}"),
    ),
    ColumnOf("p10", "p10", numeric=True, read=_of_scores(lambda scores: f"{scores.p10:.3f}")),
    ColumnOf("Min", "min", numeric=True, read=_of_scores(lambda scores: f"{scores.min:.3f}")),
    ColumnOf("Per second", "throughput_mean", numeric=True, read=lambda task: task.throughput.mean),
    ColumnOf(
        "p99 ms", "p99_ms", numeric=True, read=lambda task: time_cell(getattr(task, _measure(task).figures), "p99")
    ),
    ColumnOf("Queries", "queries", numeric=True, spare=2, read=_of_scores(lambda scores: scores.queries)),
    ColumnOf("Replies", "scored", numeric=True, spare=1, read=_of_scores(lambda scores: scores.scored)),
    ColumnOf("of all %", "share_percent", numeric=True, read=_of_scores(lambda scores: 100 * scores.share_ratio)),
)


def scores(record: RaceRecord) -> tuple[Section, ...]:
    """Return a section with a line for each task whose replies were scored, with its speed: the frontier of a sweep,
    from the lowest score to the highest. Empty without any."""
    found = [(task.scores.mean, place, task) for place, task in enumerate(reported_tasks(record)) if task.scores]
    tasks = [task for _, _, task in sorted(found)]
    return (Section("Scores of timed replies", table_of((_label(record), *_SCORES), tasks)),) if tasks else ()


def _target(task: TaskResult) -> Cell:
    """Return the target rate per second; with its unit if that is not the unit of the throughput."""
    rate = _whole(task.target_rate_per_s)
    if rate is None or task.target_unit in (None, task.throughput.unit):
        return rate
    return f"{rate} {task.target_unit}"


def servers(record: RaceRecord, *, every_figure: bool = True) -> tuple[Section, ...]:
    """Return a section with a line for each task that has figures of nodes; empty if no task has any.

    Without `every_figure` it has the main ones, which fit a terminal.
    """
    columns = _ALL_OF_SERVERS if every_figure else _MAIN_OF_SERVERS
    return servers_during(record, reported_tasks(record), "During each task", columns)


def servers_during(
    record: RaceRecord,
    tasks: Sequence[TaskResult],
    title: str,
    columns: Sequence[ColumnOf[TaskResult]] = _QUEUES_OF_SERVERS,
) -> tuple[Section, ...]:
    """Return a section with a line for each of the tasks that has figures of nodes; empty if none has any.

    By default it has what shows that a cluster can do no more: CPU, heap, garbage collection, queues, rejections.
    """
    tasks = [task for task in tasks if task.telemetry.get("nodes") or process_figure(task, "cpu_core_percent")]
    known = _known(columns, tasks)
    if not known:
        return ()
    nodes = max(node_figure(task, "nodes") or 1 for task in tasks)
    of_which = "the node" if nodes == 1 else f"{nodes} nodes: means, highest peaks, sums of counts"
    title = f"{title} ({of_which}; CPU in percent of one core)"
    return (Section(title, table_of((_label(record), *known), tasks)),)


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

    They are in the order of their first tasks. Tasks that run beside others are left out, and so are tasks whose
    requests differ, also of operations of the same name: not only their clients or rates differ.
    """
    of_servers = _known((_CPU, _MEMORY, _LOAD), record.tasks)
    return tuple(_sweep_of(tasks, of_servers) for tasks in _swept(record))


def _swept(record: RaceRecord) -> list[list[TaskResult]]:
    """Return the tasks of each sweep."""
    in_step = Counter((task.cluster, task.step) for task in record.tasks)
    groups: dict[tuple[object, ...], list[TaskResult]] = {}
    for task in reported_tasks(record):
        if not task.stages and in_step[task.cluster, task.step] == 1:
            groups.setdefault(_alike(task), []).append(task)
    return [tasks for tasks in groups.values() if len({_step_of(task) for task in tasks}) > 1]


def _alike(task: TaskResult) -> tuple[object, ...]:
    """Return what is the same in all tasks of a sweep."""
    schedule = (task.loop, task.schedule, task.target_unit, task.think_time_s, task.ramp_up_s)
    clients = task.clients if task.loop == "open" else None
    return task.operation, task.operation_type, task.params_digest, task.cluster, *schedule, clients


def _step_of(task: TaskResult) -> float | None:
    """Return what grows from task to task of a sweep: the rate of an open loop, the clients of a closed one."""
    return task.target_rate_per_s if task.loop == "open" else task.clients


def _sweep_of(tasks: Sequence[TaskResult], of_servers: Sequence[ColumnOf[TaskResult]]) -> Section:
    if tasks[0].loop == "open":
        return Section(_title_of_rates(tasks), _over_rates(tasks, of_servers))
    return Section(f"{tasks[0].operation}, closed loop", _over_clients(tasks, of_servers))


def _title_of_rates(tasks: Sequence[TaskResult]) -> str:
    within = ", percent of requests within" if any(task.within_ms for task in tasks) else ""
    return f"{tasks[0].operation}, open loop: latency in ms{within}"


def _thresholds(tasks: Sequence[TaskResult]) -> tuple[str, ...]:
    """Return the thresholds that any of the tasks asked for, in ms, in the order of the tracks."""
    return tuple(dict.fromkeys(name for task in tasks for name in task.within_ms))


def _over_clients(tasks: Sequence[TaskResult], of_servers: Sequence[ColumnOf[TaskResult]]) -> Table:
    clients: ColumnOf[TaskResult] = ColumnOf("Clients", "clients", numeric=True, read=lambda task: task.clients)
    times = (_time("Mean ms", "service_time_ms", "mean"), _time("p99 ms", "service_time_ms", "p99"))
    return _sweep(tasks, clients, (*times, *of_servers))


def _over_rates(tasks: Sequence[TaskResult], of_servers: Sequence[ColumnOf[TaskResult]]) -> Table:
    unit = tasks[0].target_unit or tasks[0].unit
    target: ColumnOf[TaskResult] = ColumnOf(
        f"Target {unit}/s", "target_rate_per_s", numeric=True, read=lambda task: _whole(task.target_rate_per_s)
    )
    times = (_time("p50", "latency_ms", "p50"), _time("p99", "latency_ms", "p99"))
    shares = (_within(name, f"<= {name}") for name in _thresholds(tasks))
    return _sweep(tasks, target, (*times, *shares, *of_servers))


def _sweep(tasks: Sequence[TaskResult], swept: ColumnOf[TaskResult], others: Sequence[ColumnOf[TaskResult]]) -> Table:
    """Return the table of a sweep; `swept` is the column of what grows from task to task, `others` stand between
    throughput and errors."""
    throughput: ColumnOf[TaskResult] = ColumnOf(
        f"{tasks[0].throughput.unit}/s", "throughput_mean", numeric=True, read=lambda task: task.throughput.mean
    )
    return table_of((swept, _REQUESTS, throughput, *others, *_ERRORS), tasks)


def _time(title: str, measure: str, name: str) -> ColumnOf[TaskResult]:
    return ColumnOf(title, f"{measure}_{name}", numeric=True, read=lambda task: time_cell(getattr(task, measure), name))


def _within(threshold: str, title: str) -> ColumnOf[TaskResult]:
    return ColumnOf(
        title, f"within_ms_{threshold}", numeric=True, spare=7, read=lambda task: task.within_ms.get(threshold)
    )


def _whole(value: float | None) -> Cell:
    return int(value) if value is not None and value.is_integer() else value
