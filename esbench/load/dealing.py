"""Which worker gets which client slots of a step. Pure: it knows workers by their numbers only."""

from __future__ import annotations

import math

from esbench.errors import TrackError
from esbench.load.messages import Assignment
from esbench.load.schedule import check_unit, rate_segments
from esbench.model import Step, Task
from esbench.operations.base import OperationType
from esbench.registry import Registry

RATE_PER_WORKER = 30_000
CLIENTS_PER_WORKER = 500


def deal(step: Step, workers: int, operations: Registry[OperationType]) -> dict[int, list[Assignment]]:
    """Assignments by worker number (0 .. workers - 1).

    Each task goes to as few workers as it needs, beginning where the least was dealt so far. A step that the driver
    cannot run is a TrackError.
    """
    _refuse_shared_clients(step)
    dealt: dict[int, list[Assignment]] = {number: [] for number in range(workers)}
    load = dict.fromkeys(dealt, 0)
    shares: list[tuple[int, Task, tuple[int, ...]]] = []
    for task in step.tasks:
        kind = operations.get(task.operation.type)
        check_unit(task.schedule, kind.unit, f'task "{task.name}"')
        count = min(workers, workers_needed(task, kind.units_per_request(task.operation.params)))
        chosen = sorted(dealt, key=lambda number: (load[number], number))[:count]
        for place, number in enumerate(chosen):
            slots = tuple(range(place, task.clients, count))
            load[number] += len(slots)
            shares.append((number, task, slots))
    for stripe, (number, task, slots) in enumerate(shares):
        dealt[number].append(Assignment(task, slots, stripe, len(shares)))
    return dealt


def workers_needed(task: Task, units_per_request: float) -> int:
    """As few workers as a task needs: splitting it costs queueing (docs/method.md)."""
    by_clients = math.ceil(task.clients / CLIENTS_PER_WORKER)
    by_rate = 1
    if task.schedule.is_open:
        fastest = max(
            max(segment.rate_start, segment.rate_end) for segment in rate_segments(task.schedule, units_per_request)
        )
        by_rate = math.ceil(fastest / RATE_PER_WORKER)
    return min(task.clients, max(1, by_clients, by_rate))


def _refuse_shared_clients(step: Step) -> None:
    if step.clients is not None and step.clients < sum(task.clients for task in step.tasks):
        raise TrackError(
            f"{step.clients} clients that several tasks share are not supported yet",
            where=f'parallel of "{step.tasks[0].name}"',
            hint='leave out the "clients" of the "parallel"',
        )
