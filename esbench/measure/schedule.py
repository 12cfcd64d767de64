"""The times at which requests are due: pure functions of a task's schedule. No I/O, no clock, no event loop.

The rate of an open loop is a function of time (ramp-up, stages); arrival n is due when the integral of the rate
reaches n (deterministic) or the sum of n unit exponential gaps (poisson, seeded). Times are ns since the start.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from esbench.model import Schedule, Step, Task
from esbench.tables import Registry
from esbench.units import Rate

NS = 1_000_000_000


@dataclass(frozen=True)
class RateSegment:
    """A time segment in which the rate changes linearly from `rate_start` to `rate_end` (arrivals per second)."""

    start_s: float
    end_s: float  # may be math.inf
    rate_start: float
    rate_end: float

    @property
    def arrivals(self) -> float:
        """The number of arrivals: the integral of the rate over the segment."""
        if math.isinf(self.end_s):
            return math.inf
        return (self.rate_start + self.rate_end) / 2 * (self.end_s - self.start_s)

    def offset_s(self, count: float) -> float:
        """Return the seconds after `start_s` at which the integral reaches `count`; 0 <= count <= arrivals."""
        slope = 0.0 if math.isinf(self.end_s) else (self.rate_end - self.rate_start) / (self.end_s - self.start_s)
        if count <= 0.0:
            return 0.0
        if slope == 0.0:
            return count / self.rate_start
        # slope/2 t^2 + rate_start t - count = 0, in the form that does not cancel for small slopes
        return 2 * count / (self.rate_start + math.sqrt(self.rate_start**2 + 2 * slope * count))


OF_A_REQUEST: Mapping[str, float] = {"ops": 1.0}


def rate_segments(schedule: Schedule, per_request: Mapping[str, float] = OF_A_REQUEST) -> tuple[RateSegment, ...]:
    """Return the rate of an open loop over time, in requests per second.

    `per_request`: the amount of each unit of rates ("ops", "docs", "MB") that one request stands for. After the last
    stage the rate is zero. Worked: 100/s with a ramp-up of 10 s has 500 arrivals in the ramp. Raises ValueError for a
    schedule without rate and stages, as that of a closed loop.
    """
    if schedule.stages:
        segments: list[RateSegment] = []
        start_s = 0.0
        for stage in schedule.stages:
            rate = stage.rate.value / per_request[stage.rate.unit]
            segments.append(RateSegment(start_s, start_s + stage.duration_s, rate, rate))
            start_s += stage.duration_s
        return tuple(segments)
    if schedule.rate is None:
        raise ValueError("a closed loop has no rate")
    rate = schedule.rate.value / per_request[schedule.rate.unit]
    if schedule.ramp_up_s > 0:
        return (
            RateSegment(0.0, schedule.ramp_up_s, 0.0, rate),
            RateSegment(schedule.ramp_up_s, math.inf, rate, rate),
        )
    return (RateSegment(0.0, math.inf, rate, rate),)


def due_times(segments: tuple[RateSegment, ...], cumulative: Iterator[float]) -> Iterator[int]:
    """Yield the times (ns since the start) at which the integral of the rate reaches the `cumulative` values.

    These must rise. Ends with them, or where the rate ends before it reaches the next one.
    """
    count = next(cumulative, math.inf)
    before = 0.0
    for segment in segments:
        until, start_s, rate = before + segment.arrivals, segment.start_s, segment.rate_start
        if rate == segment.rate_end:
            while count < until:
                yield int((start_s + (count - before) / rate) * NS)
                count = next(cumulative, math.inf)
        while count < until:
            yield int((start_s + segment.offset_s(count - before)) * NS)
            count = next(cumulative, math.inf)
        before = until


def deterministic(seed: int) -> Iterator[float]:
    """Yield 0, 1, 2 ...: evenly spaced arrivals, the first one at the start. The seed has no effect."""
    count = 0
    while True:
        yield float(count)
        count += 1


def poisson(seed: int) -> Iterator[float]:
    """Yield sums of unit exponential gaps: a Poisson process, the same for the same seed."""
    gap = random.Random(seed).expovariate
    total = 0.0
    while True:
        total += gap(1.0)
        yield total


def arrival_seed(race_seed: int, task: str) -> int:
    """Return the seed of a task's arrivals: the same in every worker, a different one for each task."""
    return random.Random(f"{race_seed}/{task}").getrandbits(63)


ArrivalProcess = Callable[[int], Iterator[float]]


def builtin_schedules() -> Registry[ArrivalProcess]:
    """Return the arrival processes by the name that a task's `schedule` gives.

    Each takes a seed and yields the rising values of the rate's integral at which requests are due, without end.
    """
    registry: Registry[ArrivalProcess] = Registry("schedule")
    registry.add("deterministic", deterministic)
    registry.add("poisson", poisson)
    return registry


def arrivals(
    schedule: Schedule,
    *,
    seed: int,
    clients: int,
    slots: tuple[int, ...],
    per_request: Mapping[str, float] = OF_A_REQUEST,
) -> Iterator[int]:
    """Return the due times (ns since the start) of the arrivals that belong to a worker's client slots.

    Arrival n belongs to the worker that holds slot n mod `clients`; every worker iterates over the whole sequence, so
    that the union over workers is the same for any number of workers. `seed` is that of `arrival_seed`, `per_request`
    as in `rate_segments`. Raises UsageError for an unknown kind of schedule.
    """
    process = builtin_schedules().get(schedule.kind)
    due = due_times(rate_segments(schedule, per_request), process(seed))
    if len(slots) == clients:
        return due
    mine = frozenset(slots)
    return (time_ns for number, time_ns in enumerate(due) if number % clients in mine)


def stages_duration_s(schedule: Schedule) -> float:
    """Return the total duration (s) of a schedule's stages; 0 without stages."""
    return sum(stage.duration_s for stage in schedule.stages)


def measured_period_s(task: Task) -> float | None:
    """Return the duration (s) of a time-based task's measurement: its period, or its stages' duration minus the warmup.

    None if the task has neither: it ends when its corpus is exhausted, or after a number of requests.
    """
    if task.time_period_s is not None or not task.schedule.stages:
        return task.time_period_s
    return max(0.0, stages_duration_s(task.schedule) - (task.warmup_time_s or 0.0))


def length_s(task: Task) -> float | None:
    """Return the length of a task in s, its warmup and ramp-down included; None for a task without an end by time."""
    period_s = measured_period_s(task)
    return None if period_s is None else (task.warmup_time_s or 0.0) + period_s + task.schedule.ramp_down_s


def recorded_s(step: Step) -> float:
    """Return the length of the step's longest recording; 0 without one."""
    return max((recorded.last_s for task in step.tasks if (recorded := task.schedule.recorded)), default=0.0)


def nominal_rate(schedule: Schedule, elapsed_s: float) -> Rate | None:
    """Return the target rate `elapsed_s` after the task's start, that of the current stage if any. Ignores ramp-up.

    None for a schedule without rate and stages, as that of a closed loop, and after the last stage.
    """
    if not schedule.stages:
        return schedule.rate
    until_s = 0.0
    for stage in schedule.stages:
        until_s += stage.duration_s
        if elapsed_s < until_s:
            return stage.rate
    return None


def rates(schedule: Schedule) -> tuple[Rate, ...]:
    """Return the target rates of an open loop, one per stage; empty for a closed loop."""
    if schedule.stages:
        return tuple(stage.rate for stage in schedule.stages)
    return (schedule.rate,) if schedule.rate is not None else ()
