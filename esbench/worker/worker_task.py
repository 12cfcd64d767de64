"""A task's share in one worker: some of its clients, and the loop that they run once it begins."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from functools import partial

from esbench.load.client import Client
from esbench.load.hot import clock_ns
from esbench.load.leaving_loop import LeavingLoop
from esbench.load.loops import ClosedLoop, Length, OpenLoop, TaskLoop
from esbench.load.messages import Assignment, TaskEnd, TaskSeconds
from esbench.load.recorder import Recorder
from esbench.load.senders import CodeSender
from esbench.measure.schedule import arrival_seed, arrivals, length_s
from esbench.measure.slices import SlicedTime, WholeTime
from esbench.measure.think_time import think_times
from esbench.measure.verdict import Verdict
from esbench.model import Task
from esbench.requests.programs import Program
from esbench.requests.recordings import recorded_arrivals

NS = 1_000_000_000


class TaskShare:
    """A task's share: its compiled program, its connected clients and, once it begins, its loop.

    It begins at most once: a share that ends before that never begins.
    """

    def __init__(
        self, assignment: Assignment, program: Program, clients: list[Client], python: CodeSender | None = None
    ) -> None:
        self._python = python
        self.assignment = assignment
        self.program = program
        self.clients = clients
        self.loop: TaskLoop
        self.recorder: Recorder
        self.begun = False
        self.ended = False
        self.reported_end = False

    @property
    def task(self) -> Task:
        return self.assignment.task

    def set_up(self, time: WholeTime, seed: int, ended: Callable[[], None], failed: Callable[[Verdict], None]) -> None:
        """Make the task's loop, which runs in `time`; the clients are connected already.

        `seed` is the race's. `ended` is called once, when nothing is in flight any more; `failed` for each failed
        request.
        """
        task = self.task
        length = self._length(time)
        has_window = length.warmup_end_ns and not isinstance(time, SlicedTime)
        window = (length.warmup_end_ns, length.ramp_down_ns or length.end_ns or 1 << 62) if has_window else None
        within = tuple(round(limit * 1_000_000) for limit in task.limits_ms)
        soon = asyncio.get_running_loop().call_soon
        self.recorder = Recorder(time, is_open=task.schedule.is_open, window_ns=window, within_ns=within, soon=soon)
        if task.schedule.custom:
            assert self._python is not None
            self.loop = self._python.loop(
                self.assignment, self.program, self.clients, self.recorder, length, ended=ended, failed=failed
            )
        elif task.schedule.is_open:
            due = self._arrivals(seed)
            self.loop = OpenLoop(self.clients, self.recorder, length, ended=ended, failed=failed, arrivals=due)
        else:
            closed = ClosedLoop if length.ramp_down_ns is None else partial(LeavingLoop, clients_in_all=task.clients)
            self.loop = closed(
                self.clients,
                self.recorder,
                length,
                ended=ended,
                failed=failed,
                think_s=think_times(task, seed, self.assignment.stripe),
                stagger_s=task.schedule.ramp_up_s / task.clients,
            )

    def _arrivals(self, seed: int) -> Iterator[int]:
        task, slots = self.task, self.assignment.slots
        if task.schedule.recorded is not None:
            return recorded_arrivals(task.schedule.recorded, clients=task.clients, slots=slots)
        return arrivals(
            task.schedule,
            seed=arrival_seed(seed, task.name),
            clients=task.clients,
            slots=slots,
            per_request=self.assignment.per_request,
        )

    def _length(self, time: WholeTime) -> Length:
        task = self.task
        if task.is_time_based or task.schedule.stages:
            warmup_s = task.warmup_time_s or 0.0
            warmup_end_ns = time.until_ns(int(warmup_s * NS))
            if (whole_s := length_s(task)) is None:
                return Length(warmup_end_ns=warmup_end_ns)
            ramp_down_s = task.schedule.ramp_down_s
            ramp_down_ns = time.until_ns(int((whole_s - ramp_down_s) * NS)) if ramp_down_s else None
            return Length(
                warmup_end_ns=warmup_end_ns, end_ns=time.until_ns(int(whole_s * NS)), ramp_down_ns=ramp_down_ns
            )
        warmup = (task.warmup_iterations or 0) * len(self.clients)
        if task.requests is not None:
            measured = _share(task.requests, self.assignment)
        elif task.iterations is not None or task.warmup_iterations is not None or not self.program.finite:
            measured = (task.iterations or 1) * len(self.clients)
        else:
            return Length()
        return Length(requests=warmup + measured, warmup_requests=warmup)

    def take_seconds(self, now_ns: int) -> TaskSeconds:
        """Return the seconds that are over at `now_ns`, with the queue of now as their backlog, and forget them.

        Seconds are those of the task's own time. Call it after `set_up`.
        """
        seconds = tuple(self.recorder.closed_seconds(now_ns))
        for second in seconds:
            second.tally.backlog = self.loop.backlog
        return TaskSeconds(self.task.name, seconds, closed_until=self.recorder.time.second_of(now_ns))

    def take_end(self) -> TaskEnd:
        """Return the final report, and note that it was made. Call it when the share has ended."""
        self.reported_end = True
        if not self.begun:
            return TaskEnd(self.task.name, None, clock_ns(), 0, None, None)
        return TaskEnd(
            self.task.name,
            self.recorder.time.begin_ns,
            self.loop.end_ns,
            self.loop.unsent,
            self.recorder.first_measured_ns,
            self.recorder.last_measured_received_ns,
            self.program.feed_waits,
            getattr(self.program, "notes", ()),
            getattr(self.program, "unit", None),
        )

    def close(self) -> None:
        for client in self.clients:
            client.close()
        if self.begun:
            self.loop.close()


def _share(requests: int, assignment: Assignment) -> int:
    """Return this worker's part of a number of requests, in proportion to its client slots."""
    clients = assignment.task.clients
    return sum(len(range(slot, requests, clients)) for slot in assignment.slots)
