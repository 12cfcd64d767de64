"""The progress of sides that are raced at once: each race has its progress, and one output shows all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from esbench.events.progress import Job
from esbench.progress.estimate import RunningEstimate, estimate, prepare_estimates
from esbench.progress.race_state import RunningTask
from esbench.progress.task_progress import FollowingProgress
from esbench.progress.texts import host_text, how_long, side_result, side_running

if TYPE_CHECKING:
    from esbench.model import Step
    from esbench.record.model import HostEvent, RaceRecord, TaskResult

_HOLD_S = 5.0  # how long a warning of a side waits for the same of the others


class ShowsSides(FollowingProgress):
    """Progress that shows one race, or all sides of a round. Its methods may be called in any thread."""

    _sides: Sides | None = None

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        if self._sides is not None:
            self._sides.tell_warnings(at_once=True)

    def of_sides(self, names: Sequence[str]) -> tuple[SideProgress, ...]:
        sides = Sides(self, names)
        with self.lock:
            if self._sides is not None:
                self._sides.tell_warnings(at_once=True)
            self._sides = sides
        return sides.members

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        super().race_begins(record, steps)
        self.say(f"race {record.race_id}")

    def show_step(self, number: int, steps: int, step: Step) -> None:
        """Show that step `number`, from 0, has begun on a side."""
        raise NotImplementedError

    def show_result(self, number: int, steps: int, task: str, text: str) -> None:
        """Show the result of a task of that step, of all sides."""
        raise NotImplementedError


class Sides:
    """The sides of a round, in their order; the others are compared with the first one. `output` shows them."""

    def __init__(self, output: ShowsSides, names: Sequence[str]) -> None:
        prepare_estimates()
        self.output = output
        self.members = tuple(SideProgress(name, self) for name in names)
        self._announced = -1  # the number of the last step
        self._told: set[tuple[int, str]] = set()
        self._warnings: dict[str, tuple[float, set[str]]] = {}  # since when they wait, of which sides

    def running(self) -> Iterator[tuple[str, list[RunningTask | None]]]:
        """Yield the tasks that run on a side, with their state on each side; None where it has not begun or has ended.

        Call it under the lock.
        """
        for name in dict.fromkeys(name for side in self.members for name in side.tasks):
            yield name, [side.tasks.get(name) for side in self.members]

    def running_text(self, tasks: Sequence[RunningTask | None], now_s: float) -> str:
        """Return what the sides have done of a task so far, how they differ, and the time left."""
        parts = [
            side_running(side.name, task, now_s) if task else "" for side, task in zip(self.members, tasks, strict=True)
        ]
        latest = max((task for task in tasks if task), key=lambda task: task.left_s(now_s) or 0.0)
        left = how_long(latest.left_s(now_s), latest.elapsed_s(now_s))
        return ", ".join([*_with_estimates(parts, estimates(tasks)), left])

    def step_begins(self, side: SideProgress, number: int, step: Step) -> None:
        """Show a step when the first side begins it."""
        with self.output.lock:
            if number > self._announced:
                self._announced = number
                self.output.show_step(number, len(side.steps), step)

    def tell_results(self) -> None:
        """Show the results of tasks that no side has still to end."""
        with self.output.lock:
            for key in dict.fromkeys(key for side in self.members for key in side.results):
                having = [side for side in self.members if key in side.results]
                if key in self._told or any(side.races for side in self.members if side not in having):
                    continue
                self._told.add(key)
                parts = [
                    side_result(side.name, side.results[key][0]) if key in side.results else "" for side in self.members
                ]
                tasks = [side.results[key][1] if key in side.results else None for side in self.members]
                told = ", ".join(_with_estimates(parts, estimates(tasks)))
                self.output.show_result(key[0], len(having[0].steps), key[1], told)

    def warn(self, side: SideProgress, message: str) -> None:
        """Show a warning once that all sides give within some seconds, else with the names of those that gave it."""
        with self.output.lock:
            self._warnings.setdefault(message, (self.output.clock(), set()))[1].add(side.name)
        self.tell_warnings()

    def tell_warnings(self, *, at_once: bool = False) -> None:
        """Show the warnings that all sides gave, or that have waited for long enough; `at_once`: all of them."""
        with self.output.lock:
            for message, (since_s, names) in list(self._warnings.items()):
                of_all = len(names) == len(self.members)
                if of_all or at_once or self.output.clock() - since_s >= _HOLD_S:
                    del self._warnings[message]
                    self.output.warn(message if of_all else f"{', '.join(sorted(names))}: {message}")


class SideProgress(FollowingProgress):
    """The progress of one side: it follows its race, and what there is to show is shown by the output of all sides."""

    def __init__(self, name: str, sides: Sides) -> None:
        super().__init__(sides.output.clock, sides.output.lock)
        self.name = name
        self.races = False
        self.results: dict[tuple[int, str], tuple[TaskResult, RunningTask | None]] = {}  # by step and name
        self._sides = sides

    def say(self, message: str) -> None:
        self._sides.output.say(f"{self.name}: {message}")

    def warn(self, message: str) -> None:
        self._sides.warn(self, message)

    def insist(self, message: str) -> None:
        self._sides.output.insist(f"{self.name}: {message}")

    @contextmanager
    def job(self, what: str, total: float | None = None, unit: str = "", *, announce: bool = True) -> Iterator[Job]:
        with self._sides.output.job(f"{self.name}: {what}", total, unit, announce=announce) as job:
            job.check = self.check
            yield job

    def race_begins(self, record: RaceRecord, steps: Sequence[Step]) -> None:
        super().race_begins(record, steps)
        self.races = True
        self.say(f"race {record.race_id}")

    def step_begins(self, number: int, step: Step) -> None:
        super().step_begins(number, step)
        self._sides.step_begins(self, number, step)

    def task_ended(self, result: TaskResult) -> None:
        with self.lock:
            self.results[result.step, result.name] = result, self.tasks.get(result.name)
        super().task_ended(result)
        self._sides.tell_results()

    def host_changed(self, event: HostEvent) -> None:
        (self.say if event.what == "back" else self.warn)(host_text(event))

    def race_ended(self, record: RaceRecord) -> None:
        super().race_ended(record)
        self.races = False
        self._sides.tell_results()


def estimates(tasks: Sequence[RunningTask | None]) -> list[RunningEstimate | None]:
    """Return the estimate of a task for each side; None for the first, and where it is not known yet."""
    first, *others = tasks
    return [None, *(estimate(first, task) if first and task else None for task in others)]


def _with_estimates(parts: Sequence[str], found: Sequence[RunningEstimate | None]) -> Iterator[str]:
    for part, difference in zip(parts, found, strict=True):
        if part:
            yield part if difference is None else f"{part}, {difference}"
