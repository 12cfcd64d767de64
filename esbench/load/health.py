"""Health of the load workers while a task was measured: busy, waiting for a CPU, late. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass

from esbench.measure.cpu_time import Usage
from esbench.measure.slices import WholeTime
from esbench.record.model import WorkerHealth

NS = 1_000_000_000
_MS, _US = 1_000_000, 1_000
_MOST = (1 << 32) - 1  # what an array's item holds
# Parts of the time from which on a check speaks (docs/method.md).
BUSY_LIMIT = 0.9
RUN_DELAY_LIMIT = 0.05
STEAL_LIMIT = 0.05
LOOP_LAG_LIMIT = 0.01


@dataclass(frozen=True)
class WindowPart:
    """The part of a window that something took, as a ratio from 0 to 1.

    `above_ratio` is the part of the window in stretches of which it took more than a limit.
    """

    ratio: float = 0.0
    above_ratio: float = 0.0


class Stretches:
    """The time that something took in each stretch of a step: 8 bytes a stretch, and most last a second.

    What was taken of a stretch shorter than `least_ms` counts as taken of one of that length.
    """

    def __init__(self, least_ms: int = 1) -> None:
        self._least_ms = least_ms
        self._ends_ms = array("I")
        self._took_us = array("I")

    def add(self, end_ms: int, took_us: int) -> None:
        """Add a stretch, from the end of the last one to `end_ms` after the step's start; `took_us` of it was taken."""
        took_us = min(max(0, took_us), _MOST)
        if not took_us and self._took_us and not self._took_us[-1]:
            self._ends_ms[-1] = end_ms  # nothing for longer: one stretch
            return
        self._ends_ms.append(end_ms)
        self._took_us.append(took_us)

    def part(self, begin_ms: float, end_ms: float, limit: float) -> WindowPart:
        """Return the part of a window that was taken; a stretch that lies partly in it counts in proportion.

        The window is in ms since the step's start, and not empty. `limit` is the ratio (0 to 1) above which a stretch
        counts in `above_ratio`.
        """
        took_ms = above_ms = 0.0
        for first_ms, last_ms, took_us in self._overlapping(begin_ms, end_ms):
            inside_ms = min(last_ms, end_ms) - max(first_ms, begin_ms)
            ratio = took_us / 1000 / max(last_ms - first_ms, self._least_ms)
            took_ms += ratio * inside_ms
            above_ms += inside_ms if ratio > limit else 0.0
        return WindowPart(took_ms / (end_ms - begin_ms), above_ms / (end_ms - begin_ms))

    def worst_ms(self, begin_ms: float, end_ms: float) -> float:
        """Return the most time that one stretch took, of those whose middle lies in a window; 0 without any."""
        stretches = self._overlapping(begin_ms, end_ms)
        inside = (took_us for first, last, took_us in stretches if begin_ms <= (first + last) / 2 <= end_ms)
        return max(inside, default=0) / 1000

    def _overlapping(self, begin_ms: float, end_ms: float) -> Iterator[tuple[int, int, int]]:
        for place in range(bisect_right(self._ends_ms, begin_ms), len(self._ends_ms)):
            first_ms = self._ends_ms[place - 1] if place else 0
            if first_ms >= end_ms:
                return
            yield first_ms, self._ends_ms[place], self._took_us[place]


class _Worker:
    """The stretches of one worker: when it was busy, waited for a CPU, and was late."""

    def __init__(self, usage: Usage) -> None:
        self.usage = usage
        self._end_ms = 0
        self.busy = Stretches()
        self.run_delay = Stretches()
        self.loop_lag = Stretches(least_ms=1000)

    def tick(self, at_ms: int, usage: Usage, loop_lag_ns: int) -> None:
        if at_ms > self._end_ms:
            delay_us = (usage.run_delay_ns - self.usage.run_delay_ns) // _US
            self.run_delay.add(at_ms, delay_us)
            self.busy.add(at_ms, (usage.cpu_ns - self.usage.cpu_ns) // _US + delay_us)
            self.loop_lag.add(at_ms, loop_lag_ns // _US)
            self._end_ms = at_ms
        self.usage = usage


class Watch:
    """The running totals of one step's workers, in the step's `time`, and of their host's CPUs, from its start on.

    `before` (by worker) and `stolen_s` (by CPU) are the totals at that time. What workers use while other sides have
    their slices is not counted.
    """

    def __init__(self, time: WholeTime, before: Mapping[int, Usage], stolen_s: Mapping[Hashable, float]) -> None:
        self.time = time
        self._workers = {number: _Worker(usage) for number, usage in before.items()}
        self._stolen_s = dict(stolen_s)
        self._steal = {cpu: Stretches() for cpu in stolen_s}

    def tick(self, worker: int, at_ns: int, usage: Usage, loop_lag_ns: int) -> None:
        """Add a worker's running totals at `at_ns`, and its worst loop lag (ns) since its last tick.

        The first totals of a worker that was not there at the step's start only begin its count.
        """
        if worker not in self._workers:
            self._workers[worker] = _Worker(usage)
        self._workers[worker].tick(self._own_ms(at_ns), usage, loop_lag_ns)

    def stolen(self, at_ns: int, stolen_s: Mapping[Hashable, float]) -> None:
        """Add the running totals of stolen time at `at_ns`, in s by CPU.

        CPUs that were not there at the step's start are ignored.
        """
        for cpu, total_s in stolen_s.items():
            if cpu in self._steal:
                self._steal[cpu].add(self._ms(at_ns), round((total_s - self._stolen_s[cpu]) * 1e6))
                self._stolen_s[cpu] = total_s

    def health(self, workers: Collection[int], start_ns: int, end_ns: int) -> WorkerHealth | None:
        """Return the health of some workers in a window, the worst of each figure.

        None for a window under a second, for which the counters are too coarse.
        """
        if end_ns - start_ns < NS:
            return None
        begin_ms, end_ms = self.time.own_ns(start_ns) / _MS, self.time.own_ns(end_ns) / _MS

        def worst(found: Collection[Stretches], limit: float, window_ms: tuple[float, float]) -> tuple[float, float]:
            parts = [stretches.part(*window_ms, limit) for stretches in found]
            return max((part.ratio for part in parts), default=0.0), max(
                (part.above_ratio for part in parts), default=0.0
            )

        watched = [self._workers[number] for number in workers if number in self._workers]
        busy = worst([worker.busy for worker in watched], BUSY_LIMIT, (begin_ms, end_ms))
        run_delay = worst([worker.run_delay for worker in watched], RUN_DELAY_LIMIT, (begin_ms, end_ms))
        steal = worst(self._steal.values(), STEAL_LIMIT, (self._ms(start_ns), self._ms(end_ns)))
        loop_lag = worst([worker.loop_lag for worker in watched], LOOP_LAG_LIMIT, (begin_ms, end_ms))
        return WorkerHealth(
            busy_ratio=busy[0],
            run_delay_ratio=run_delay[0],
            steal_ratio=steal[0],
            loop_lag_ratio=loop_lag[0],
            loop_lag_ms=max((worker.loop_lag.worst_ms(begin_ms, end_ms) for worker in watched), default=0.0),
            busy_above_ratio=busy[1],
            run_delay_above_ratio=run_delay[1],
            steal_above_ratio=steal[1],
            loop_lag_above_ratio=loop_lag[1],
        )

    def _ms(self, at_ns: int) -> int:
        return max(0, (at_ns - self.time.start_ns) // _MS)

    def _own_ms(self, at_ns: int) -> int:
        return max(0, self.time.own_ns(at_ns) // _MS)
