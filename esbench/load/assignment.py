"""Assignment of a step's client slots to load workers, and the order of its tasks. Pure: no processes, no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from esbench.errors import TrackError
from esbench.load.messages import Assignment, Stock
from esbench.measure.schedule import length_s, measured_period_s, rate_segments, rates
from esbench.model import ANY_TASK, Schedule, Step, Task
from esbench.operations.base import OperationType, kind_of

RATE_PER_WORKER = 30_000
CLIENTS_PER_WORKER = 500
FEWEST_CLIENTS_PER_WORKER = 8  # of a closed loop that more workers than it needs share
# Python code of a track costs some tenths of a millisecond for each request.
PYTHON_RATE_PER_WORKER = 1_000
PYTHON_CLIENTS_PER_WORKER = 8
_BYTES_OF_A_MB = 1 << 20


def deal(step: Step, hosts: Sequence[Sequence[int]], stock: Stock) -> dict[int, tuple[Assignment, ...]]:
    """Return the assignments of a step's tasks by worker number, empty for a worker without any.

    `hosts` are the workers' numbers by load host, of each as many. A task goes to all hosts that it has clients for,
    slot by slot, and on each to as few workers as it needs there; workers that are left over go to the closed loops
    that can use them. The hosts and workers with the fewest client slots so far are chosen first. Raises TrackError if
    the unit of a target rate does not fit the operation.
    """
    dealt: dict[int, list[Assignment]] = {number: [] for workers in hosts for number in workers}
    load = dict.fromkeys(dealt, 0)
    shares: list[tuple[int, Task, tuple[int, ...], Mapping[str, float]]] = []
    kinds = [kind_of(task.operation) for task in step.tasks]
    amounts_of = [per_request(task, kind, stock) for task, kind in zip(step.tasks, kinds, strict=True)]
    counts = _counts(step, kinds, amounts_of, len(hosts[0]), len(hosts), stock)
    for task, amounts, count in zip(step.tasks, amounts_of, counts, strict=True):
        chosen = _chosen(hosts, load, count)[: task.clients]
        for place, number in enumerate(chosen):
            slots = _slots(task, place, len(chosen))
            load[number] += len(slots)
            shares.append((number, task, slots, amounts))
    for stripe, (number, task, slots, amounts) in enumerate(shares):
        dealt[number].append(Assignment(task, slots, stripe, len(shares), amounts, _is_ended_by_others(task, step)))
    return {number: tuple(assignments) for number, assignments in dealt.items()}


def _chosen(hosts: Sequence[Sequence[int]], load: Mapping[int, int], count: int) -> list[int]:
    """Return `count` workers of each host, those with the least load; the first of each host come first."""
    by_host = [sorted(workers, key=lambda number: (load[number], number))[:count] for workers in hosts]
    by_host.sort(key=lambda workers: sum(load[number] for number in workers))
    return [number for place in zip(*by_host, strict=True) for number in place]


def refuse_endless(step: Step) -> None:
    """Raise a TrackError for a task that would never end; for a track's Python code, only a worker can know."""
    for task in step.tasks:
        endless = not kind_of(task.operation).ends(task.operation.params)
        if endless and task.is_time_based and measured_period_s(task) is None and not _is_ended_by_others(task, step):
            raise no_end(f'task "{task.name}"')


def no_end(where: str) -> TrackError:
    """Return the error for a task that has a warmup but nothing that ends it."""
    hint = "give it a time-period, or let a task end it that does not wait for its clients"
    return TrackError("the task has a warmup, and no end", where=where, hint=hint)


def fullest_worker(step: Step, workers: int) -> tuple[Assignment, ...]:
    """Return the assignments of the worker with the most connections, as far as known before documents are prepared.

    High target rates are ignored: they may need more workers, which leaves each of them fewer clients.
    """
    unpaced = (replace(t, schedule=Schedule(), time_period_s=None) if t.schedule.is_open else t for t in step.tasks)
    dealt = deal(replace(step, tasks=tuple(unpaced)), [range(workers)], Stock())
    return max(
        dealt.values(),
        key=lambda shares: sum(connections(share.task, len(share.slots)) for share in shares),
    )


def connections(task: Task, clients: int) -> int:
    """Return the number of connections that this number of a task's clients have."""
    return clients * kind_of(task.operation).connections(task.operation.params)


def _counts(
    step: Step,
    kinds: Sequence[OperationType],
    amounts: Sequence[Mapping[str, float]],
    workers: int,
    hosts: int,
    stock: Stock,
) -> list[int]:
    """Return the number of workers on each of `hosts` load hosts for each task of a step, in order."""
    tasks = list(zip(step.tasks, kinds, amounts, strict=True))
    counts = [min(workers, math.ceil(workers_needed(task, each) / hosts)) for task, _, each in tasks]
    most = [min(workers, math.ceil(most_workers(task, kind, each, stock) / hosts)) for task, kind, each in tasks]
    places = range(len(counts))
    while sum(counts) < workers and (growing := [place for place in places if counts[place] < most[place]]):
        counts[max(growing, key=lambda place: step.tasks[place].clients / counts[place])] += 1
    return counts


def _is_ended_by_others(task: Task, step: Step) -> bool:
    """True if other tasks of the step end this one, so that it needs no end itself."""
    waiting = _begins_after(task, step)
    if step.completed_by == (ANY_TASK,):
        others = (other for other in step.tasks if other is not task and other.name not in waiting)
        return any(not other.is_time_based or measured_period_s(other) is not None for other in others)
    return bool(step.completed_by) and waiting.isdisjoint(step.completed_by)


def _slots(task: Task, place: int, count: int) -> tuple[int, ...]:
    """Return the client slots of share `place` of `count`: every count-th one, so that arrivals alternate.

    A task with Python code of the track gets consecutive slots, as in Rally: its parameter sources may read all data
    between their first and their last part.
    """
    if task.operation.python:
        return tuple(range(place * task.clients // count, (place + 1) * task.clients // count))
    return tuple(range(place, task.clients, count))


def per_request(task: Task, kind: OperationType, stock: Stock) -> Mapping[str, float]:
    """Return the amount that one request of a task stands for, by unit: "ops" (1), and the operation's own if known.

    "MB" (2^20 bytes) is among them if a target rate is in it. Raises TrackError for a target rate in a unit that the
    operation does not count.
    """
    params, where = task.operation.params, f'task "{task.name}"'
    units = kind.units_per_request(params)
    amounts = {"ops": 1.0} if units is None else {kind.unit_of(params): units, "ops": 1.0}
    for rate in rates(task.schedule):
        kind.check_rate(rate, params, where)
        if rate.unit == "MB":
            size_bytes = kind.request_bytes(params, stock.documents, stock.indices, where)
            amounts["MB"] = size_bytes / _BYTES_OF_A_MB
    return amounts


def workers_needed(task: Task, amounts: Mapping[str, float]) -> int:
    """Return the least number of workers that a task needs: splitting it further costs queueing (docs/method.md).

    At least 1, at most one per client. `amounts` is what `per_request` returned for the task.
    """
    is_python = bool(task.operation.python)
    most_clients = PYTHON_CLIENTS_PER_WORKER if is_python else CLIENTS_PER_WORKER
    most_rate = PYTHON_RATE_PER_WORKER if is_python else RATE_PER_WORKER
    by_clients = math.ceil(task.clients / most_clients)
    by_rate = math.ceil(highest_rate_per_s(task, amounts) / most_rate) if task.schedule.is_open else 1
    return min(task.clients, max(1, by_clients, by_rate))


def most_workers(task: Task, kind: OperationType, amounts: Mapping[str, float], stock: Stock) -> int:
    """Return the most workers that a task can use: in a closed loop that ends by time, one per eight clients.

    The clients of such a loop do not depend on one another. Other tasks get as few as they need: one that ends by
    numbers would wait for its slowest worker, and each worker would unpack for itself what is read as a stream.
    `amounts` is what `per_request` returned. The number of workers that the race has is not considered.
    """
    needed = workers_needed(task, amounts)
    is_closed = not task.schedule.is_open and not task.operation.python
    unpacks = kind.traits.in_file_order and any(part.streamed is not None for part in stock.documents)
    if is_closed and task.time_period_s is not None and not unpacks:
        return max(needed, task.clients // FEWEST_CLIENTS_PER_WORKER)
    return needed


def highest_rate_per_s(task: Task, amounts: Mapping[str, float]) -> float:
    """Return the highest rate of an open loop at any time, in requests/s; `amounts` is what `per_request` returned.

    0 for a closed loop, or if the track's own scheduler sets the rate.
    """
    if task.schedule.recorded is not None:
        return task.schedule.recorded.most_per_s
    if task.schedule.rate is None and not task.schedule.stages:
        return 0.0  # a scheduler of the track's own says when
    return max(max(segment.rate_start, segment.rate_end) for segment in rate_segments(task.schedule, amounts))


def least_s(task: Task, kind: OperationType) -> float:
    """Return the seconds that a task takes at least, all in all, as far as it says; 0 for an unknown length."""
    if (by_time_s := length_s(task)) is not None:
        return by_time_s
    if task.schedule.recorded is not None:
        return task.schedule.recorded.last_s
    requests = (task.requests or (task.iterations or 0) * task.clients) + (task.warmup_iterations or 0) * task.clients
    try:
        rate_per_s = highest_rate_per_s(task, per_request(task, kind, Stock()))
    except TrackError:
        rate_per_s = 0.0  # in bytes, of documents that are not prepared
    return (task.warmup_time_s or 0.0) + (max(0, requests - 1) / rate_per_s if rate_per_s else 0.0)


def _begins_after(task: Task, step: Step) -> set[str]:
    """Return the names of a task and of those that cannot begin before it has ended, directly or through others."""
    waiting = {task.name}
    for name, others in waits_for(step).items():  # a task waits only for tasks that stand before it
        if not waiting.isdisjoint(others):
            waiting.add(name)
    return waiting


def waits_for(step: Step) -> dict[str, frozenset[str]]:
    """Return, by task name, the tasks of a step that must have ended before it begins: those that had its clients.

    The set is empty for a task that begins with the step. The clients of a step are dealt to its tasks in turn and from
    the first one again, as Rally's allocator does. A task that has more clients than the step waits for all tasks
    before it.
    """
    clients = step.width
    holders: dict[int, str] = {}
    waits: dict[str, frozenset[str]] = {}
    first = 0
    for task in step.tasks:
        slots = {number % clients for number in range(first, first + task.clients)}
        waits[task.name] = frozenset(holders[slot] for slot in slots if slot in holders)
        holders.update(dict.fromkeys(slots, task.name))
        first += task.clients
    return waits
