"""The state of a race that all kinds of progress share: its steps, the running tasks, the load of the servers."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from esbench.events.listeners import Listener
from esbench.events.progress import Progress
from esbench.load.assignment import waits_for
from esbench.progress.race_state import RunningTask
from esbench.progress.servers import DEVICES, Servers

if TYPE_CHECKING:
    from esbench.measure.tally import Second
    from esbench.model import Step
    from esbench.record.model import RaceRecord, TaskResult
    from esbench.telemetry.device import Reading


class Quiet(Listener, Progress):
    """Progress that shows nothing but what `insist` prints (--quiet)."""


class Following(Listener, Progress):
    """Progress that follows a race. Its state is read and changed under its lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self.lock = threading.RLock()
        self.steps: tuple[Step, ...] = ()
        self.number = 0  # of the step, from 0
        self.tasks: dict[str, RunningTask] = {}
        self.servers = Servers(clock)

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        with self.lock:
            self.steps = tuple(steps)

    def step_begins(self, number: int, step: Step) -> None:
        with self.lock:
            now_s, waits = self.clock(), waits_for(step)
            self.number = number
            self.tasks = {task.name: RunningTask(task, now_s, waits=bool(waits[task.name])) for task in step.tasks}

    def totals_known(self, units_in_all: Mapping[str, float]) -> None:
        with self.lock:
            for name, units in units_in_all.items():
                self.tasks[name].units_in_all = units

    def step_runs(self, number: int, units: dict[str, str]) -> None:
        with self.lock:
            now_s = self.clock()
            for name, task in self.tasks.items():
                task.begin(now_s, units[name])

    def second(self, task: str, second: Second) -> None:
        with self.lock:
            self.tasks[task].take(second, self.clock())

    def task_ended(self, result: TaskResult) -> None:
        with self.lock:
            self.tasks.pop(result.name, None)

    def read(self, device: str, reading: Reading) -> None:
        if device in DEVICES:
            with self.lock:
                self.servers.take(reading)

    def race_ended(self, record: RaceRecord) -> None:
        with self.lock:
            self.tasks = {}
