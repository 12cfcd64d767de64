"""Progress as a live view on a terminal: running tasks at its lower end, ended ones scroll by above.

Everything is drawn by one thread, so that no other thread waits for the terminal, but one that asks a question there.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Self, TextIO

from esbench.events.progress import Job, print_to_stderr
from esbench.progress.frame import Line, frame, frame_of_sides
from esbench.progress.sides import ShowsSides
from esbench.progress.texts import host_text, job_begins, place, result_text
from esbench.units import format_duration

if TYPE_CHECKING:
    from esbench.model import Step
    from esbench.progress.paint import Painter
    from esbench.record.model import HostEvent, TaskResult

EVERY_S = 0.5
_AT_MOST_EVERY_S = 0.1
_END_WITHIN_S = 2.0  # a terminal that takes nothing (Ctrl-S) does not keep a race from its end


class LiveProgress(ShowsSides):
    """The live view on the terminal behind `stream` (default: stderr), for the length of a `with`."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._stream = stream
        self._jobs: dict[Job, bool] = {}  # job -> it gets a line when it has ended
        self._said: deque[tuple[Line, bool]] = deque()  # lines, each with True if it may be cut
        self._drawing = threading.Lock()  # held by the thread that draws, or that asks a question
        self._wake = threading.Event()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._draw_on, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopped.set()
        self._wake.set()
        self._thread.join(_END_WITHIN_S)
        super().__exit__(*exc)

    def show_step(self, number: int, steps: int, step: Step) -> None:
        self._wake.set()

    def show_result(self, number: int, steps: int, task: str, text: str) -> None:
        self._print([(f"{place(number, steps)} ", "dim"), (f"{task}: ", "bold"), (text, "")], cut=True)

    def say(self, message: str) -> None:
        self._print([(message, "")])

    insist = say

    def warn(self, message: str) -> None:
        self._print([("warning: ", "yellow"), (message, "")])

    @contextmanager
    def asking(self) -> Iterator[None]:
        with self._drawing:
            with suppress(OSError):  # the terminal is gone
                self._painter.paint(self._take_said(), [])
            yield

    def _begin(self, job: Job, announce: bool) -> None:
        with self.lock:
            self._jobs[job] = announce
        self._wake.set()

    def _end(self, job: Job) -> None:
        with self.lock:
            announced = self._jobs.pop(job)
        if announced:
            took_s = self.clock() - job.began_s
            self.say(f"{job_begins(job)}, {format_duration(round(took_s))}" if took_s >= 1 else job_begins(job))

    def step_begins(self, number: int, step: Step) -> None:
        super().step_begins(number, step)
        self._wake.set()

    def task_ended(self, result: TaskResult) -> None:
        super().task_ended(result)
        self.show_result(result.step, len(self.steps), result.name, result_text(result, terse=True))

    def host_changed(self, event: HostEvent) -> None:
        (self.say if event.what == "back" else self.warn)(host_text(event))

    def _print(self, line: Line, *, cut: bool = False) -> None:
        if self._stopped.is_set() or not self._thread.is_alive():
            print_to_stderr("".join(text for text, _ in line))
            return
        self._said.append((line, cut))
        self._wake.set()

    @cached_property
    def _painter(self) -> Painter:
        from esbench.progress.paint import Painter  # 0.1 s: beside what else begins

        return Painter(self._stream or sys.stderr)

    def _draw_on(self) -> None:
        with suppress(OSError):  # the terminal is gone
            while not self._stopped.is_set():
                with self._drawing:
                    self._draw()
                self._wake.wait(EVERY_S)
                self._wake.clear()
                self._stopped.wait(_AT_MOST_EVERY_S)
            self._painter.paint(self._take_said(), [])

    def _draw(self) -> None:
        screen, now_s = self._painter.screen, self.clock()
        with self.lock:
            if self._sides is None:
                region = frame(self, tuple(self._jobs), screen, now_s)
            else:
                self._sides.tell_warnings()
                region = frame_of_sides(self._sides, tuple(self._jobs), screen, now_s)
        self._painter.paint(self._take_said(), region)

    def _take_said(self) -> list[tuple[Line, bool]]:
        return [self._said.popleft() for _ in range(len(self._said))]
