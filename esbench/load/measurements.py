"""Measurements of one task over all its workers: seconds merged as they close, and its times on the clock.

Percentiles come from merged histograms, never from averaging percentiles. METHOD (docs/method.md) defines phases and
windows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from esbench.errors import RaceError
from esbench.load.failures import sentence
from esbench.load.messages import TaskEnd, TaskSeconds
from esbench.measure import drift
from esbench.measure.schedule import measured_period_s
from esbench.measure.slice_rate import Completions
from esbench.measure.slices import SlicedTime, WholeTime
from esbench.measure.tally import Errors, Second, Tally
from esbench.model import Task
from esbench.record.model import (
    Window,
)

if TYPE_CHECKING:
    from esbench.load.host_shares import HostShares

NS = 1_000_000_000
_FEWEST_SECONDS = 3  # minimum, median and maximum of throughput need this many whole seconds
_DRIFT_FROM_S = 60.0
_ENOUGH_REQUESTS = 100  # for a ratio of failures while more are to come


@dataclass
class TaskMeasurements:
    """The seconds of one task, merged over its workers.

    `workers` are their numbers; it could use `most_workers` of them. `per_request` is the amount of each unit that one
    request stands for. `units_in_all` is what it does until its documents are exhausted, where that is known.
    `ended_by_itself`: nothing stopped it. `ends` are the workers' final reports, by number.
    `index_prefix`: of the names of its indices. `host_shares`: of a task that several load hosts share.
    """

    task: Task
    step: int
    unit: str
    admin: bool
    per_request: Mapping[str, float]
    workers: frozenset[int]
    most_workers: int = 1
    epoch_ns: int = 0  # of the race's clock
    units_in_all: float | None = None
    index_prefix: str = ""
    host_shares: HostShares | None = None
    ended_by_itself: bool = False
    step_start_ns: int = 0
    time: WholeTime = field(default_factory=partial(WholeTime, 0))  # known when it begins
    warmup: Tally = field(default_factory=Tally)
    measured: Tally = field(default_factory=Tally)
    ends: dict[int, TaskEnd] = field(default_factory=dict)
    units_by_second: dict[tuple[int, bool], float] = field(default_factory=dict)  # (second, whether warmup)
    completions: Completions | None = None  # of a closed loop in slices
    medians: drift.Medians = field(default_factory=drift.Medians)
    backlogs: list[int] = field(default_factory=list)
    _open: dict[tuple[int, bool], Tally] = field(default_factory=dict)
    _closed_until: dict[int, int] = field(default_factory=dict)

    def add(self, worker: int, seconds: TaskSeconds) -> Iterator[Second]:
        """Add a worker's closed seconds. Yields those that every worker has closed, merged and in order."""
        for second in seconds.seconds:
            key = (second.second, second.warmup)
            if self.host_shares is not None and not second.warmup:
                self.host_shares.add(worker, second.tally)
            if key in self._open:
                self._open[key].merge(second.tally)
            else:
                self._open[key] = second.tally
        self._closed_until[worker] = seconds.closed_until
        if self.workers <= self._closed_until.keys():
            # what has ended is complete: the others' seconds do not wait for it
            running = self.workers - self.ends.keys()
            yield from self._close(min((self._closed_until[number] for number in running), default=1 << 62))

    def _close(self, until: int) -> Iterator[Second]:
        for second, warmup in sorted(key for key in self._open if key[0] < until):
            tally = self._open.pop((second, warmup))
            (self.warmup if warmup else self.measured).merge(tally)
            self.units_by_second[second, warmup] = self.units_by_second.get((second, warmup), 0) + tally.units
            if not warmup and self.task.schedule.is_open:
                self.medians.add(second, tally.latency)
                self.medians.add(second, tally.latency_beyond)
                if tally.due:
                    self.backlogs.append(tally.backlog)
            if isinstance(self.time, SlicedTime) and not self.task.schedule.is_open:
                if self.completions is None:
                    self.completions = Completions(self.time)
                self.completions.add(second, tally.completed_at, tally.requests, tally.units)
            yield Second(second, warmup, tally)

    def end(self, worker: int, end: TaskEnd) -> None:
        self.ends[worker] = end

    def lose(self, worker: int) -> None:
        """End the task for a worker that will send no more: as far as is known, at the last second it closed."""
        closed_until = self._closed_until.get(worker)
        start_ns = None if closed_until is None else self.time.begin_ns
        end_ns = self.time.until_ns((closed_until or 0) * NS)
        self.ends.setdefault(worker, TaskEnd(self.task.name, start_ns, end_ns, 0, None, None))

    @property
    def counted_unit(self) -> str:
        """The unit that was counted: that of the operation type, or of a runner of the track."""
        return next((end.unit for end in self.ends.values() if end.unit is not None), self.unit)

    @property
    def ended(self) -> bool:
        """True if all its workers have ended the task, or are lost."""
        return self.workers <= self.ends.keys()

    def excess(self, max_error_ratio: float) -> RaceError | None:
        """Return the error when more than `max_error_ratio` of the task's requests have failed; None otherwise.

        Requests of the warmup count, too. It is judged from 100 requests on, and at the task's end.
        """
        tallies = [self.warmup, self.measured, *self._open.values()]
        requests = sum(tally.requests for tally in tallies)
        failed = sum(tally.errors.total for tally in tallies)
        if requests < (1 if self.ended else _ENOUGH_REQUESTS) or failed <= max_error_ratio * requests:
            return None
        errors = Errors()
        for tally in tallies:
            errors.merge(tally.errors)
        return RaceError(
            f"{failed:,} of {requests:,} requests failed ({failed / requests:.2%}), most with "
            f"{sentence(errors.most_frequent)}",
            where=f'task "{self.task.name}"',
            hint=f"--max-error-rate={max_error_ratio * 100:g}%",
        )

    def flush(self) -> Iterator[Second]:
        """Close all seconds and yield them, since no worker will send more."""
        yield from self._close(1 << 62)

    @property
    def window_ns(self) -> tuple[int, int]:
        """The start and end of the measurement window on the clock, in ns. Read it after `flush`."""
        window = self.window
        start_ns = self.time.own_ns(self.start_ns)
        return (
            self.time.at_ns(start_ns + round(window.start_s * NS)),
            self.time.until_ns(start_ns + round(window.end_s * NS)),
        )

    @property
    def unsent(self) -> int:
        return sum(end.unsent for end in self.ends.values())

    @property
    def is_inside_warmup(self) -> bool:
        """True if the task ended inside its warmup."""
        # arrivals that found all corpora exhausted were due, and nothing is missing
        measured_any = self.measured.requests or self.measured.sent or self.unsent
        return not measured_any and self.warmup.requests > 0

    @property
    def begun(self) -> bool:
        return any(end.start_ns is not None for end in self.ends.values())

    @property
    def start_ns(self) -> int:
        ends = self.ends.values()
        return min(end.end_ns if end.start_ns is None else end.start_ns for end in ends)

    @property
    def duration_s(self) -> float:
        return self.own_s(max(end.end_ns for end in self.ends.values()))

    def own_s(self, at_ns: int) -> float:
        """Return the seconds of own time from the task's start to a time of the wall clock."""
        return (self.time.own_ns(at_ns) - self.time.own_ns(self.start_ns)) / NS

    @property
    def window(self) -> Window:
        """Return the measurement window in seconds since the task's start."""
        task = self.task
        if self.is_inside_warmup or not self.begun:
            return Window(0.0, self.duration_s)
        ends = self.ends.values()
        last = max((ns for end in ends if (ns := end.last_measured_received_ns) is not None), default=None)
        last_s = self.duration_s if last is None else self.own_s(last)
        if task.is_time_based or task.schedule.stages:
            warmup_s = task.warmup_time_s or 0.0
            period_s = measured_period_s(task)
            # a task that ended early (exhausted, stopped) has a window up to its end
            end_s = last_s if period_s is None else min(warmup_s + period_s, self.duration_s)
            return Window(warmup_s, max(warmup_s, end_s))
        first = min((ns for end in ends if (ns := end.first_measured_ns) is not None), default=self.start_ns)
        return Window(self.own_s(first), last_s)
