"""Progress as lines: one for each step and each task that has ended, and one every ten seconds in between."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from esbench.events.progress import Job, print_to_stderr
from esbench.progress.race_state import Sum
from esbench.progress.sides import ShowsSides
from esbench.progress.task_progress import PrintedProgress
from esbench.progress.texts import announcement, host_text, job_begins, job_text, result_text, running_text

if TYPE_CHECKING:
    from esbench.measure.tally import Second
    from esbench.model import Step
    from esbench.record.model import HostEvent, TaskResult

EVERY_S = 10.0
_INDENT = "      "


class LineProgress(ShowsSides, PrintedProgress):
    """Progress as lines on stderr, whether that is a terminal or not."""

    def __init__(
        self, write: Callable[[str], None] = print_to_stderr, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(write, clock)
        self._jobs: dict[Job, float] = {}  # the time of each one's last line
        self._task_said_s = 0.0
        self._known_s: dict[str, int] = {}  # the own seconds of each task that were known then
        self._lately: dict[str, Sum] = {}  # what each task did since then

    def show_step(self, number: int, steps: int, step: Step) -> None:
        with self.lock:
            self.say(announcement(number, steps, step))
            self._begin_anew()

    def show_result(self, number: int, steps: int, task: str, text: str) -> None:
        self.say(f"{_INDENT}{task}: {text}")

    def say(self, message: str) -> None:
        with self.lock:
            self._write(message)

    insist = say

    def warn(self, message: str) -> None:
        self.say(f"warning: {message}")

    def _begin(self, job: Job, announce: bool) -> None:
        if announce:
            self.say(job_begins(job))
        with self.lock:
            self._jobs[job] = self.clock()

    def _end(self, job: Job) -> None:
        with self.lock:
            del self._jobs[job]

    def step_begins(self, number: int, step: Step) -> None:
        super().step_begins(number, step)
        self.say(announcement(number, len(self.steps), step))
        with self.lock:
            self._begin_anew()

    def second(self, task: str, second: Second) -> None:
        with self.lock:
            super().second(task, second)
            self._lately[task].add(second.tally)

    def task_ended(self, result: TaskResult) -> None:
        super().task_ended(result)
        self.say(f"{_INDENT}{result_text(result)}")

    def host_changed(self, event: HostEvent) -> None:
        self.say(f"{_INDENT}{'' if event.what == 'back' else 'warning: '}{host_text(event)}")

    def tick(self) -> None:
        """Write the state of running jobs and tasks that had no line for ten seconds."""
        with self.lock:
            now_s = self.clock()
            for job, said_s in self._jobs.items():
                if now_s - said_s >= EVERY_S:
                    self._jobs[job] = now_s
                    name = f"{job.what}: " if self._sides or len(self._jobs) > 1 else ""
                    self.say(f"{_INDENT}{name}{job_text(job, now_s)}")
            if self._sides is not None:
                self._sides.tell_warnings()
            if now_s - self._task_said_s < EVERY_S:
                return
            if self._sides is not None:
                for name, tasks in self._sides.running():
                    self.say(f"{_INDENT}{name}: {self._sides.running_text(tasks, now_s)}")
            for name, task in self.tasks.items():
                length_s = max(1, task.known_s(now_s) - self._known_s[name])
                told = running_text(task, self._lately[name].figures, length_s, now_s)
                self.say(f"{_INDENT}{f'{name}: ' if len(self.tasks) > 1 else ''}{told}")
            self._begin_anew()

    def _begin_anew(self) -> None:
        self._task_said_s = self.clock()
        self._known_s = {name: task.known_s(self._task_said_s) for name, task in self.tasks.items()}
        self._lately = {name: Sum(task.task.schedule.is_open) for name, task in self.tasks.items()}
