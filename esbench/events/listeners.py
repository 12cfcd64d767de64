"""Who follows a race while it runs: the lines on the terminal, the live view, metrics for scrapers, annotations.

A listener is told; it never asks, decides or delays. What several listeners need is told to all of them alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from esbench.measure.cpu_time import Usage
    from esbench.measure.tally import Second
    from esbench.model import Step
    from esbench.record.model import HostEvent, RaceRecord, TaskResult
    from esbench.telemetry.device import Reading


class Listener:
    """Follows a race. Each method returns at once: they are called between the ticks of the load workers.

    All are called in the race's thread but `read`, which telemetry's threads call.
    """

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        """The record was made; the cluster may not have been started yet."""

    def step_begins(self, number: int, step: Step) -> None:
        """Step `number` (from 0) is prepared, and begins then."""

    def amounts_known(self, units_in_all: Mapping[str, float]) -> None:
        """How many units each task of the step that begins will do in all, as far as that is known."""

    def step_runs(self, number: int, units: dict[str, str]) -> None:
        """The clock of the step has started. `units`: task -> what it counts."""

    def second(self, task: str, second: Second) -> None:
        """A second of a task has been merged over all workers; it ended about a second ago."""

    def worker_told(self, worker: int, usage: Usage, loop_lag_ns: int) -> None:
        """What a load worker has had of its CPUs so far, and its event loop's worst lateness since it told before."""

    def task_ended(self, result: TaskResult) -> None:
        """A task's result, when its step has ended."""

    def host_changed(self, event: HostEvent) -> None:
        """A host was lost, or is back."""

    def read(self, device: str, reading: Reading) -> None:
        """A telemetry device has taken a sample; called from its thread."""

    def race_ended(self, record: RaceRecord) -> None:
        """The record is final: complete, cancelled or failed."""


class Listeners(Listener):
    """Tells several, in their order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        for listener in self._listeners:
            listener.race_begins(record, steps)

    def step_begins(self, number: int, step: Step) -> None:
        for listener in self._listeners:
            listener.step_begins(number, step)

    def amounts_known(self, units_in_all: Mapping[str, float]) -> None:
        for listener in self._listeners:
            listener.amounts_known(units_in_all)

    def step_runs(self, number: int, units: dict[str, str]) -> None:
        for listener in self._listeners:
            listener.step_runs(number, units)

    def second(self, task: str, second: Second) -> None:
        for listener in self._listeners:
            listener.second(task, second)

    def worker_told(self, worker: int, usage: Usage, loop_lag_ns: int) -> None:
        for listener in self._listeners:
            listener.worker_told(worker, usage, loop_lag_ns)

    def task_ended(self, result: TaskResult) -> None:
        for listener in self._listeners:
            listener.task_ended(result)

    def host_changed(self, event: HostEvent) -> None:
        for listener in self._listeners:
            listener.host_changed(event)

    def read(self, device: str, reading: Reading) -> None:
        for listener in self._listeners:
            listener.read(device, reading)

    def race_ended(self, record: RaceRecord) -> None:
        for listener in self._listeners:
            listener.race_ended(record)
