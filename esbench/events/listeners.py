"""Listeners of a running race: the lines on the terminal, the live view, metrics for scrapers, annotations.

A listener only receives events; it never asks, decides or delays. Every listener receives all events.
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
    """Receives the events of a race. Each method must return at once: it runs between the ticks of the load workers.

    All methods are called in the race's thread, except `read`, which the threads of telemetry devices call.
    """

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        """Handle the start of a race: its record was made; the cluster may not have been started yet."""

    def step_begins(self, number: int, step: Step) -> None:
        """Handle the start of step `number` (from 0), before it is prepared."""

    def totals_known(self, units_in_all: Mapping[str, float]) -> None:
        """Handle the total number of units of each task of the current step, for those tasks where it is known."""

    def step_runs(self, number: int, units: dict[str, str]) -> None:
        """Handle the start of the step's clock. `units`: task -> the unit that it counts."""

    def second(self, task: str, second: Second) -> None:
        """Handle a second of a task, merged over all workers; it ended about a second ago."""

    def worker_ticked(self, worker: int, usage: Usage, loop_lag_ns: int) -> None:
        """Handle a load worker's report: its CPU usage so far, its event loop's maximum lag since the last report."""

    def task_ended(self, result: TaskResult) -> None:
        """Handle a task's result, after its step has ended."""

    def host_changed(self, event: HostEvent) -> None:
        """Handle the loss of a host, or its return."""

    def read(self, device: str, reading: Reading) -> None:
        """Handle a sample of a telemetry device; called from the device's thread."""

    def race_ended(self, record: RaceRecord) -> None:
        """Handle the end of a race; its record is final: complete, cancelled or failed."""


class Listeners(Listener):
    """A listener that passes each event to several listeners, in their order."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = tuple(listeners)

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        for listener in self._listeners:
            listener.race_begins(record, steps)

    def step_begins(self, number: int, step: Step) -> None:
        for listener in self._listeners:
            listener.step_begins(number, step)

    def totals_known(self, units_in_all: Mapping[str, float]) -> None:
        for listener in self._listeners:
            listener.totals_known(units_in_all)

    def step_runs(self, number: int, units: dict[str, str]) -> None:
        for listener in self._listeners:
            listener.step_runs(number, units)

    def second(self, task: str, second: Second) -> None:
        for listener in self._listeners:
            listener.second(task, second)

    def worker_ticked(self, worker: int, usage: Usage, loop_lag_ns: int) -> None:
        for listener in self._listeners:
            listener.worker_ticked(worker, usage, loop_lag_ns)

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
