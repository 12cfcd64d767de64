"""Listeners of a running race: the lines on the terminal, the live view, metrics for scrapers.

A listener only receives events; it never asks, decides or delays. Every listener receives all events.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

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
        """Handle the total number of units of the current step's tasks, just before `step_runs`.

        `units_in_all`: task -> units; tasks whose total is not known beforehand are left out.
        """

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        """Handle the start of the step's clock. `units`: task -> the unit that it counts.

        `stretch`: the seconds that an own second of its tasks takes, more than 1 for one of several sides.
        """

    def second(self, task: str, second: Second) -> None:
        """Handle a second of a task, merged over all workers; it ended about a second ago.

        `second.second` counts from the start of the step's clock. A second in which a warmup ends comes twice, once for
        each phase.
        """

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


def _passing_on(event: str) -> Callable[..., None]:
    def pass_on(self: Listeners, *arguments: Any) -> None:
        for listener in self._listeners:
            getattr(listener, event)(*arguments)

    return pass_on


for _event in [name for name in vars(Listener) if not name.startswith("_")]:
    setattr(Listeners, _event, _passing_on(_event))
