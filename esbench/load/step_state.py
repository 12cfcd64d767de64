"""State of a running step: its measurements, which task waits for which, and which one ends others. No processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from esbench.errors import RaceError
from esbench.load.assignment import waits_for
from esbench.load.checks import incomplete
from esbench.load.health import Watch
from esbench.load.measurements import TaskMeasurements
from esbench.load.messages import Tick
from esbench.load.task_results import task_result
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Second
from esbench.model import ANY_TASK, Step
from esbench.record.model import Check, TaskResult

Observer = Callable[[str, Second], None]


class RunningStep:
    """The tasks of the running step: their measurements, which one waits for which, and which one ends the others.

    `measurements` are by task name, in the step's order. `observe` is called with the task's name and each second that
    all workers have closed, merged.
    """

    def __init__(self, step: Step, measurements: dict[str, TaskMeasurements], observe: Observer, watch: Watch) -> None:
        self.watch = watch
        self._step = step
        self._measurements = measurements
        self._observe = observe
        self._missing: dict[str, str] = {}
        self._ended: set[str] = set()
        self._waiting = waits_for(step)
        self._completed = False
        self._is_cut_short = False

    def cut_short(self) -> None:
        """Record that tasks that end from now on do not end by themselves: the race is over, or the user stops it."""
        self._is_cut_short = True

    def begin(self, tasks: Collection[str], time: WholeTime) -> None:
        """Let tasks that have waited for others begin in their `time`."""
        for name in tasks:
            self._measurements[name].time = time

    @property
    def ended(self) -> bool:
        """True if all workers have ended all of their tasks."""
        return all(task.ended for task in self._measurements.values())

    def unfinished_of(self, worker: int) -> list[str]:
        """Return the names of the tasks that a worker takes part in and has not ended yet."""
        return [name for name, task in self._measurements.items() if worker in task.workers - task.ends.keys()]

    def give_up_on(self, worker: int, reason: str) -> None:
        """End the tasks that a worker has not ended, without waiting for it; their results say why."""
        for name in self.unfinished_of(worker):
            self._measurements[name].lose(worker)
            self._missing.setdefault(name, reason)
            if self._measurements[name].ended:
                self._ended.add(name)

    def next_tasks(self) -> frozenset[str]:
        """Return the names of the tasks that are to begin now; each is returned once.

        Empty once the tasks that complete the step have ended.
        """
        if self._completed:
            return frozenset()
        tasks = frozenset(name for name, others in self._waiting.items() if others <= self._ended)
        for name in tasks:
            del self._waiting[name]
        return tasks

    def just_completed(self, *, enough: bool = False) -> bool:
        """True, once, when the tasks that complete the step have ended, or when `enough` was seen of it."""
        by = self._step.completed_by
        if self._completed or not (enough or (by and self._ended)):
            return False
        self._completed = enough or by == (ANY_TASK,) or self._ended.issuperset(by)
        return self._completed

    def take(self, worker: int, tick: Tick) -> None:
        """Merge a worker's tick; seconds that all workers have closed are passed to `observe`."""
        self._is_cut_short = self._is_cut_short or tick.failure is not None
        self.watch.tick(worker, tick.at_ns, tick.usage, tick.loop_lag_ns)
        for seconds in tick.tasks:
            for second in self._measurements[seconds.task].add(worker, seconds):
                self._observe(seconds.task, second)
        for end in tick.ended:
            measurements = self._measurements[end.task]
            measurements.end(worker, end)
            if measurements.ended:
                self._ended.add(end.task)
                stopped = self._completed or self._is_cut_short or end.task in self._missing
                measurements.ended_by_itself = not stopped

    def excess(self, max_error_ratio: float) -> RaceError | None:
        """Return the error of the first task of which a larger share than `max_error_ratio` of requests has failed.

        None if there is no such task.
        """
        found = (measurements.excess(max_error_ratio) for measurements in self._measurements.values())
        return next((error for error in found if error is not None), None)

    def results(self, checks: Sequence[Check]) -> tuple[TaskResult, ...]:
        """Return the results of all tasks, in the step's order; `checks` are added to each of them.

        The seconds that are still open are passed to `observe` first. What a lost worker had reported is in the
        results.
        """
        results = []
        for name, measurements in self._measurements.items():
            for second in measurements.flush():
                self._observe(name, second)
            missing = [incomplete(self._missing[name])] if name in self._missing else []
            health = self.watch.health(measurements.workers, *measurements.window_ns)
            result = task_result(measurements, health, missing)
            results.append(replace(result, checks=(*result.checks, *checks)))
        return tuple(results)
