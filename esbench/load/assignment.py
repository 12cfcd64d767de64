"""Which worker gets which client slots of a step, and which tasks wait for others. Pure: no processes, no clock."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from esbench.errors import TrackError
from esbench.load.messages import Assignment, Stock
from esbench.measure.schedule import measured_period_s, rate_segments, rates
from esbench.model import ANY_TASK, Schedule, Step, Task
from esbench.operations import OperationTypes
from esbench.operations.base import OperationType

RATE_PER_WORKER = 30_000
CLIENTS_PER_WORKER = 500
FEWEST_CLIENTS_PER_WORKER = 8  # of a closed loop that more workers than it needs share
# Python code of a track costs some tenths of a millisecond for each request.
PYTHON_RATE_PER_WORKER = 1_000
PYTHON_CLIENTS_PER_WORKER = 8
_BYTES_OF_A_MB = 1 << 20


def deal(step: Step, workers: int, operations: OperationTypes, stock: Stock) -> dict[int, tuple[Assignment, ...]]:
    """Assignments by worker number (0 .. workers - 1).

    Each task goes to as few workers as it needs, and workers that are left over to the closed loops that can use them,
    beginning where the least was dealt so far. A target rate in a unit that does not fit the operation is a TrackError.
    """
    dealt: dict[int, list[Assignment]] = {number: [] for number in range(workers)}
    load = dict.fromkeys(dealt, 0)
    shares: list[tuple[int, Task, tuple[int, ...], Mapping[str, float]]] = []
    kinds = [operations.of(task.operation) for task in step.tasks]
    amounts_of = [per_request(task, kind, stock) for task, kind in zip(step.tasks, kinds, strict=True)]
    counts = _counts(step, kinds, amounts_of, workers, stock)
    for task, amounts, count in zip(step.tasks, amounts_of, counts, strict=True):
        chosen = sorted(dealt, key=lambda number: (load[number], number))[:count]
        for place, number in enumerate(chosen):
            slots = _slots(task, place, count)
            load[number] += len(slots)
            shares.append((number, task, slots, amounts))
    for stripe, (number, task, slots, amounts) in enumerate(shares):
        dealt[number].append(Assignment(task, slots, stripe, len(shares), amounts, _is_ended_by_others(task, step)))
    return {number: tuple(assignments) for number, assignments in dealt.items()}


def refuse_endless(step: Step, operations: OperationTypes) -> None:
    """A TrackError for a task that would never end; of Python code, only a worker knows."""
    for task in step.tasks:
        endless = not operations.of(task.operation).ends(task.operation.params)
        if endless and task.is_time_based and measured_period_s(task) is None and not _is_ended_by_others(task, step):
            raise no_end(f'task "{task.name}"')


def no_end(where: str) -> TrackError:
    """The error for a task that has a warmup, and nothing that ends it."""
    hint = "give it a time-period, or let a task end it that does not wait for its clients"
    return TrackError("the task has a warmup, and no end", where=where, hint=hint)


def fullest_worker(step: Step, workers: int, operations: OperationTypes) -> tuple[Assignment, ...]:
    """The shares of the worker that has the most clients, as far as it is known before documents are prepared.

    High target rates are left out, which may need more workers and leave each of them fewer clients.
    """
    unpaced = (replace(t, schedule=Schedule(), time_period_s=None) if t.schedule.is_open else t for t in step.tasks)
    dealt = deal(replace(step, tasks=tuple(unpaced)), workers, operations, Stock())
    return max(dealt.values(), key=lambda shares: sum(len(share.slots) for share in shares))


def _counts(
    step: Step, kinds: Sequence[OperationType], amounts: Sequence[Mapping[str, float]], workers: int, stock: Stock
) -> list[int]:
    """How many workers each task of a step gets."""
    tasks = list(zip(step.tasks, kinds, amounts, strict=True))
    counts = [min(workers, workers_needed(task, each)) for task, _, each in tasks]
    most = [min(workers, most_workers(task, kind, each, stock)) for task, kind, each in tasks]
    places = range(len(counts))
    while sum(counts) < workers and (growing := [place for place in places if counts[place] < most[place]]):
        counts[max(growing, key=lambda place: step.tasks[place].clients / counts[place])] += 1
    return counts


def _is_ended_by_others(task: Task, step: Step) -> bool:
    """Whether other tasks of the step end this one, which then needs no end of its own."""
    waiting = _begins_after(task, step)
    if step.completed_by == (ANY_TASK,):
        others = (other for other in step.tasks if other is not task and other.name not in waiting)
        return any(not other.is_time_based or measured_period_s(other) is not None for other in others)
    return bool(step.completed_by) and waiting.isdisjoint(step.completed_by)


def _slots(task: Task, place: int, count: int) -> tuple[int, ...]:
    """The client slots of share `place` of `count`: every count-th one, so that arrivals alternate between workers.

    Code of a track gets neighbours, as in Rally: its sources may take the data from their first to their last part.
    """
    if task.operation.python:
        return tuple(range(place * task.clients // count, (place + 1) * task.clients // count))
    return tuple(range(place, task.clients, count))


def per_request(task: Task, kind: OperationType, stock: Stock) -> Mapping[str, float]:
    """How much of each unit that a task's target rates may have one of its requests stands for."""
    params, where = task.operation.params, f'task "{task.name}"'
    amounts = {kind.unit_of(params): kind.units_per_request(params), "ops": 1.0}
    for rate in rates(task.schedule):
        kind.check_rate(rate, params, where)
        if rate.unit == "MB":
            size_bytes = kind.request_bytes(params, stock.documents, stock.indices, where)
            amounts["MB"] = size_bytes / _BYTES_OF_A_MB
    return amounts


def workers_needed(task: Task, amounts: Mapping[str, float]) -> int:
    """As few workers as a task needs: splitting it costs queueing (docs/method.md)."""
    is_python = bool(task.operation.python)
    most_clients = PYTHON_CLIENTS_PER_WORKER if is_python else CLIENTS_PER_WORKER
    most_rate = PYTHON_RATE_PER_WORKER if is_python else RATE_PER_WORKER
    by_clients = math.ceil(task.clients / most_clients)
    by_rate = math.ceil(highest_rate_per_s(task, amounts) / most_rate) if task.schedule.is_open else 1
    return min(task.clients, max(1, by_clients, by_rate))


def most_workers(task: Task, kind: OperationType, amounts: Mapping[str, float], stock: Stock) -> int:
    """As many workers as a task can use: of a closed loop that ends by time, one for each eight clients.

    Its clients take over nothing from one another. One that ends by numbers would wait for the slowest worker, and each
    worker unpacks for itself what is read as a stream.
    """
    needed = workers_needed(task, amounts)
    is_closed = not task.schedule.is_open and not task.operation.python
    unpacks = kind.traits.in_file_order and any(part.streamed is not None for part in stock.documents)
    if is_closed and task.time_period_s is not None and not unpacks:
        return max(needed, task.clients // FEWEST_CLIENTS_PER_WORKER)
    return needed


def highest_rate_per_s(task: Task, amounts: Mapping[str, float]) -> float:
    """The most requests/s that an open loop is to send at any time."""
    if task.schedule.rate is None and not task.schedule.stages:
        return 0.0  # a scheduler of the track's own says when
    return max(max(segment.rate_start, segment.rate_end) for segment in rate_segments(task.schedule, amounts))


def _begins_after(task: Task, step: Step) -> set[str]:
    """A task and those that cannot begin before it has ended, since they wait for it or for one another."""
    waiting = {task.name}
    for name, others in waits_for(step).items():  # a task waits only for tasks that stand before it
        if not waiting.isdisjoint(others):
            waiting.add(name)
    return waiting


def waits_for(step: Step) -> dict[str, frozenset[str]]:
    """For each task of a step the tasks that must have ended before it begins: those that had its clients before it.

    The clients of a step are dealt to its tasks in turn and from the first one again, as Rally's allocator does. A
    task that has more of them than the step waits for all tasks before it.
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
