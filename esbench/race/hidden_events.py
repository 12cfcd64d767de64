"""The events of a race for those who show them, without its secrets: a track may name a task after one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from esbench.events.listeners import Listener
from esbench.measure.cpu_time import Usage
from esbench.measure.tally import Second
from esbench.model import Step
from esbench.record.hidden import HiddenSecrets
from esbench.record.model import HostEvent, RaceRecord, TaskResult
from esbench.telemetry.device import Reading


@dataclass(frozen=True)
class HiddenEvents(Listener):
    """Passes events on to a listener, which learns no secret from them."""

    listener: Listener
    secrets: HiddenSecrets

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        self.listener.race_begins(self.secrets.part(record), tuple(map(self._step, steps)))

    def step_begins(self, number: int, step: Step) -> None:
        self.listener.step_begins(number, self._step(step))

    def totals_known(self, units_in_all: Mapping[str, float]) -> None:
        self.listener.totals_known({self.secrets.text(task): units for task, units in units_in_all.items()})

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        self.listener.step_runs(number, {self.secrets.text(task): unit for task, unit in units.items()}, stretch)

    def second(self, task: str, second: Second) -> None:
        self.listener.second(self.secrets.text(task), second)

    def worker_ticked(self, worker: int, usage: Usage, loop_lag_ns: int) -> None:
        self.listener.worker_ticked(worker, usage, loop_lag_ns)

    def task_ended(self, result: TaskResult) -> None:
        self.listener.task_ended(self.secrets.part(result))

    def host_changed(self, event: HostEvent) -> None:
        self.listener.host_changed(self.secrets.part(event))

    def read(self, device: str, reading: Reading) -> None:
        self.listener.read(device, reading)

    def race_ended(self, record: RaceRecord) -> None:
        self.listener.race_ended(self.secrets.part(record))

    def _step(self, step: Step) -> Step:
        return replace(step, tasks=tuple(replace(task, name=self.secrets.text(task.name)) for task in step.tasks))
