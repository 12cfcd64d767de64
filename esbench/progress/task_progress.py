"""The state of a race that all kinds of progress follow, and the base of those that are written line by line."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self

from esbench.events.listeners import Listener
from esbench.events.progress import Progress, print_to_stderr
from esbench.load.assignment import waits_for
from esbench.progress.race_state import DEVICES, RunningTask, Servers

if TYPE_CHECKING:
    from esbench.measure.tally import Second
    from esbench.model import Step
    from esbench.record.model import RaceRecord, TaskResult
    from esbench.telemetry.device import Reading

_TICK_S = 1.0


class Quiet(Listener, Progress):
    """Progress that shows nothing but what `insist` prints (--quiet); of a `side`, with its name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, side: str = "") -> None:
        super().__init__(clock)
        self._side = side

    def insist(self, message: str) -> None:
        super().insist(f"{self._side}: {message}" if self._side else message)

    def of_sides(self, names: Sequence[str]) -> tuple[Quiet, ...]:
        """Return the progress of each side, as `FollowingProgress.of_sides` does."""
        return tuple(Quiet(self.clock, name) for name in names)


class FollowingProgress(Listener, Progress):
    """Progress that follows a race. Its state is read and changed under its lock."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        lock: threading.RLock | None = None,  # that sides share
    ) -> None:
        super().__init__(clock)
        self.lock = lock or threading.RLock()
        self.steps: tuple[Step, ...] = ()
        self.number = 0  # of the step, from 0
        self.tasks: dict[str, RunningTask] = {}
        self.servers = Servers(clock)
        self.hosts: tuple[str, ...] = ()  # of all clusters, once the race has begun

    def of_sides(self, names: Sequence[str]) -> tuple[FollowingProgress | Quiet, ...]:
        """Return the progress of each side of a new round, whose races run at once, each in another thread.

        The others are compared with the first side. Call it in each round, in the thread of the command: it loads what
        estimates need.
        """
        raise NotImplementedError

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        with self.lock:
            self.steps = tuple(steps)
            self.hosts = tuple(host for cluster in record.clusters.values() for host in cluster.hosts)

    def step_begins(self, number: int, step: Step) -> None:
        with self.lock:
            now_s, waits = self.clock(), waits_for(step)
            self.number = number
            if number >= len(self.steps):  # it follows from those before
                self.steps = (*self.steps, step)
            self.tasks = {task.name: RunningTask(task, now_s, waits=bool(waits[task.name])) for task in step.tasks}

    def totals_known(self, units_in_all: Mapping[str, float]) -> None:
        with self.lock:
            for name, units in units_in_all.items():
                self.tasks[name].units_in_all = units

    def step_runs(self, number: int, units: dict[str, str], stretch: float = 1.0) -> None:
        with self.lock:
            now_s = self.clock()
            for name, task in self.tasks.items():
                task.begin(now_s, units[name], stretch)

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


class PrintedProgress(FollowingProgress):
    """Progress as lines on stderr; `tick` is called every second for the length of a `with`."""

    def __init__(
        self,
        write: Callable[[str], None] = print_to_stderr,
        clock: Callable[[], float] = time.monotonic,
        lock: threading.RLock | None = None,
    ) -> None:
        super().__init__(clock, lock)
        self._write = write
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._tick_on, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ended.set()
        self._thread.join()  # a tick that is under way

    def _tick_on(self) -> None:
        while not self._ended.wait(_TICK_S):
            self.tick()

    def tick(self) -> None:
        """Write the state of every running job and task."""
        raise NotImplementedError
