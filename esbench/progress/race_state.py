"""The state of a race: progress and recent figures of its running tasks, and the load of the servers.

From descriptions of tasks, the clock, merged seconds, and samples of the nodes' own statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from esbench.measure.histogram import Counts, at_least_ns, percentiles_ns, supported
from esbench.measure.schedule import length_s, nominal_rate
from esbench.measure.tally import Second, Tally
from esbench.model import Task
from esbench.units import Rate

if TYPE_CHECKING:
    from esbench.telemetry.device import Reading

RANKS = (50.0, 99.0)
_STALE_S = 3.0  # a second arrives about one second after its end: without one for so long, nothing was done
_LONGEST_TURN_S = 4.0  # two slices of another side, one after the other
DEVICES = ("nodes", "node-stats")  # of which a race has one, which reads CPU time and heap use of the servers
_OLD_S = 10.0  # a sample of a node


@dataclass(frozen=True)
class RecentFigures:
    """The figures of a task over some seconds.

    `times_ms`: p50 and p99 of latency (closed loop: service time), None unless enough requests support them; infinite
    if they fall among timeouts, with their lower bounds in `at_least_ms`. `lag_ms` is the longest schedule lag, None in
    a closed loop.
    """

    requests: int = 0
    units: float = 0.0
    times_ms: tuple[float | None, float | None] = (None, None)
    at_least_ms: tuple[float | None, float | None] = (None, None)
    lag_ms: float | None = None


class Sum:
    """The requests of a task, added up over seconds. `is_open`: times are latencies, else service times."""

    def __init__(self, is_open: bool) -> None:
        self._is_open = is_open
        self._times = Counts()
        self._lag_ns = 0
        self._beyond = Counts()
        self.requests = 0
        self.units = 0.0
        self._figures: RecentFigures | None = None

    def add(self, tally: Tally) -> None:
        self._figures = None
        self.requests += tally.requests
        self.units += tally.units
        times, beyond = tally.response(self._is_open)
        self._times.merge(times)
        self._beyond.merge(beyond)
        self._lag_ns = max(self._lag_ns, tally.schedule_lag.max_ns)

    @property
    def figures(self) -> RecentFigures:
        if self._figures is None:
            self._figures = self._count()
        return self._figures

    def _count(self) -> RecentFigures:
        times, beyond = self._times, self._beyond
        ranks = supported(RANKS, times.count + beyond.count)
        return RecentFigures(
            self.requests,
            self.units,
            _both_ms(percentiles_ns(times, ranks, beyond.count)),
            _both_ms(at_least_ns(times, ranks, beyond)) if beyond.buckets else (None, None),
            self._lag_ns / 1e6 if self._is_open and self.requests else None,
        )


def _both_ms(values_ns: Mapping[float, float]) -> tuple[float | None, float | None]:
    p50, p99 = (None if (ns := values_ns.get(rank)) is None else ns / 1e6 for rank in RANKS)
    return p50, p99


def requests_in_all(task: Task) -> int | None:
    """Return the number of requests of a task that ends by a count, warmup included.

    None for other tasks, and for one request per client: that has no progress in between.
    """
    if task.is_time_based or task.schedule.stages:
        return None
    warmup = (task.warmup_iterations or 0) * task.clients
    if task.requests is not None:
        measured = task.requests
    elif task.iterations is not None or task.warmup_iterations is not None:
        measured = (task.iterations or 1) * task.clients
    else:
        return None
    return warmup + measured if warmup + measured > task.clients else None


def target_at(task: Task, elapsed_s: float) -> Rate | None:
    """Return the target rate at a moment: of its stage, or on the ramp-up to it; None if there is no target."""
    schedule, elapsed_s = task.schedule, max(0.0, elapsed_s)
    if schedule.rate is not None and not schedule.stages and elapsed_s < schedule.ramp_up_s:
        return Rate(schedule.rate.value * elapsed_s / schedule.ramp_up_s, schedule.rate.unit)
    return nominal_rate(schedule, elapsed_s)


class RunningTask:
    """The state of a task from the preparation of its step to the step's end. Times are seconds of one clock.

    `waits`: other tasks of the step hold its clients first. `units_in_all`: the units that it will do, if known.
    `seconds`: the units of each own second of its current phase, in all and measured.
    """

    def __init__(self, task: Task, prepared_s: float, *, waits: bool = False) -> None:
        self.task = task
        self.seconds: dict[int, tuple[float, float]] = {}
        self.unit = ""
        self.errors = 0
        self._waits = waits
        self._began_s = prepared_s
        self._runs = False
        self._requests_in_all = requests_in_all(task)
        self.units_in_all: float | None = None
        self._stretch = 1.0
        self._requests = 0
        self._units = 0.0
        self._warms_up = True
        self._second = -1
        self._heard_s = 0.0
        self._of_second = Sum(task.schedule.is_open)
        self._so_far = Sum(task.schedule.is_open)

    def begin(self, now_s: float, unit: str, stretch: float = 1.0) -> None:
        """Take note that the clock of its step has started.

        `stretch`: the seconds of the clock that an own second takes, more than 1 if other sides are raced in between.
        """
        self.unit, self._stretch = unit, stretch
        if not self._waits:
            self._runs, self._began_s = True, now_s

    def take(self, second: Second, now_s: float) -> None:
        """Add a merged second of the task, or the part of it that belongs to one phase."""
        if not self._runs:  # it had to wait, and this is the first that is heard of it
            self._runs, self._began_s = True, now_s - (second.second + 1) * self._stretch
        if second.second != self._second:
            self._second, self._of_second = second.second, Sum(self.task.schedule.is_open)
        if self._warms_up and not second.warmup:
            self._warms_up, self._so_far = False, Sum(self.task.schedule.is_open)
            self.seconds = {number: units for number, units in self.seconds.items() if number == second.second}
        self._of_second.add(second.tally)
        if self._warms_up or not second.warmup:  # the beginnings of slices are a warmup, too
            self._so_far.add(second.tally)
        units = second.tally.units
        in_all, measured = self.seconds.get(second.second, (0.0, 0.0))
        self.seconds[second.second] = in_all + units, measured + (0.0 if second.warmup else units)
        self._requests += second.tally.requests
        self._units += second.tally.units
        self.errors += second.tally.errors.total
        self._heard_s = now_s

    @property
    def _length_s(self) -> float | None:
        own_s = length_s(self.task)
        return None if own_s is None else own_s * self._stretch

    @property
    def rate(self) -> float | None:
        """The mean units per own second of its current phase so far; None before its first second."""
        if not self.seconds:
            return None
        return sum(units for units, _ in self.seconds.values()) / (max(self.seconds) - min(self.seconds) + 1)

    @property
    def cycles_per_second(self) -> float:
        """The requests of each client in an own second of its current phase; 0 before the first."""
        return self.so_far.requests / self.task.clients / len(self.seconds) if self.seconds else 0.0

    def known_s(self, now_s: float) -> int:
        """Return the number of own seconds that are known: up to the last that was reported, and those so long ago
        that nothing was done in them."""
        return max(self._second + 1, int((self.elapsed_s(now_s) - _STALE_S) / self._stretch)) if self._runs else 0

    def of_second(self, now_s: float) -> RecentFigures:
        """Return the figures of the last second; zeros if none was reported lately or the task is at its end."""
        stale_s = _STALE_S + _LONGEST_TURN_S * (self._stretch - 1)
        if now_s - self._heard_s >= stale_s or self.phase(now_s) == "end":
            return RecentFigures()
        return self._of_second.figures

    @property
    def so_far(self) -> RecentFigures:
        """The figures of its current phase so far."""
        return self._so_far.figures

    def phase(self, now_s: float) -> str:
        """Return the phase: waiting, prepare, warmup, measurement, or end (no new requests begin)."""
        if not self._runs:
            return "waiting" if self.unit else "prepare"
        if (self.done_ratio(now_s) or 0.0) >= 1:
            return "end"
        if self.task.is_time_based:
            warmup_s = (self.task.warmup_time_s or 0.0) * self._stretch
            return "warmup" if self.elapsed_s(now_s) < warmup_s else "measurement"
        return "warmup" if self.task.warmup_iterations and self._warms_up else "measurement"

    def elapsed_s(self, now_s: float) -> float:
        """Return the seconds since it began; before that, since its preparation began."""
        return max(0.0, now_s - self._began_s)

    def done_ratio(self, now_s: float) -> float | None:
        """Return the share of the task that is done, 0 to 1; None if it is unknown."""
        if not self._runs:
            return None
        if self._length_s is not None:
            return min(1.0, self.elapsed_s(now_s) / self._length_s) if self._length_s else 1.0
        if self._requests_in_all is not None:
            return min(1.0, self._requests / self._requests_in_all)
        return min(1.0, self._units / self.units_in_all) if self.units_in_all else None

    def left_s(self, now_s: float) -> float | None:
        """Return the seconds left, by the clock or by the pace so far; None if unknown."""
        ratio, elapsed_s = self.done_ratio(now_s), self.elapsed_s(now_s)
        if self._length_s is not None and self._runs:
            return max(0.0, self._length_s - elapsed_s)
        return elapsed_s * (1 - ratio) / ratio if ratio else None

    def target(self, now_s: float) -> Rate | None:
        """Return the target rate of the last second; None in a closed loop, after the last stage, and before the task
        runs."""
        return target_at(self.task, self.elapsed_s(now_s) / self._stretch - 1) if self._runs else None


class Servers:
    """The CPU use and heap use of the server processes, by their latest samples."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._cpu: dict[str, tuple[float, float, float | None]] = {}  # node -> when, ms of CPU, percent of one core
        self._heap: dict[str, tuple[float, float]] = {}  # node -> when, percent

    def take(self, reading: Reading) -> None:
        """Take CPU time and heap use from a reading; ignore other groups of figures."""
        now_s = self._clock() - reading.age_s
        if reading.group == "process" and (ms := reading.counters.get("cpu_ms")) is not None:
            percent = None
            if (before := self._cpu.get(reading.of)) is not None and now_s > before[0] and ms >= before[1]:
                percent = (ms - before[1]) / (now_s - before[0]) / 10
            self._cpu[reading.of] = (now_s, ms, percent)
        if reading.group == "jvm" and (percent := reading.gauges.get("heap_used_percent")) is not None:
            self._heap[reading.of] = (now_s, percent)

    @property
    def cpu_core_percent(self) -> float | None:
        """The mean CPU use of the nodes, 100 being one core; None without a recent sample."""
        lately = [percent for when, _, percent in self._cpu.values() if percent is not None and self._is_fresh(when)]
        return sum(lately) / len(lately) if lately else None

    @property
    def heap_percent(self) -> float | None:
        """The heap use of the node that uses most of its heap, in percent; None without a recent sample."""
        return max((percent for when, percent in self._heap.values() if self._is_fresh(when)), default=None)

    @property
    def nodes(self) -> int:
        return len(self._cpu)

    def _is_fresh(self, when_s: float) -> bool:
        return self._clock() - when_s < _OLD_S
