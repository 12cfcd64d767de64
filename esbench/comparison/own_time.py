"""The measured seconds of a task in slices, and its figures in a part of them. Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from statistics import median

from esbench.comparison.metrics import Percentile, has_enough_beyond
from esbench.measure.histogram import Counts, distribution_ms, encode, percentiles_ns, supported
from esbench.measure.measures import LATENCY, with_beyond
from esbench.measure.slice_rate import Completions, whole_slices
from esbench.measure.verdict import SAMPLED_TOOK
from esbench.record.figures import measured_phase
from esbench.record.model import (
    PERCENTILES,
    ErrorKind,
    Phase,
    SlicePlan,
    TaskResult,
    Throughput,
    Window,
)
from esbench.record.series import SECOND_HISTOGRAMS, SecondLine

_FEWEST_SECONDS = 3  # minimum, median and maximum of throughput need this many
_CYCLES = 3.5  # of a client in a slice, from which on throughput is right within 1 % (docs/evidence.md)
_CYCLES_UNPLACED = 50  # the same where whole requests are counted: each client is off by up to one a slice


class OwnSlices:
    """The slices of one task in one race, by number: the units and durations of its measured seconds.

    `lines` are the task's, of both phases. `first` is the first slice after the track's own warmup, `whole` the number
    of whole ones. It `lacks_seconds` if none of what was measured is in `lines`. Durations are decoded once, when they
    are first needed.
    """

    def __init__(self, task: TaskResult, plan: SlicePlan, lines: Iterable[SecondLine]) -> None:
        self.task = task
        self.plan = plan
        lines = tuple(lines)
        window_s = task.window.start_s, task.window.end_s
        after_warmup, is_open = _had_warmup(task, plan, lines), task.loop == "open"
        slices = whole_slices(window_s, plan.length_s, after_warmup=after_warmup, is_open=is_open)
        self.first, self.whole = slices.start, slices.stop
        self._completions = _completions(plan, lines)
        self._lines = tuple(line for line in lines if line.phase == "measurement")
        self.lacks_seconds = task.requests > 0 and not self._lines and measured_phase(task) == "measurement"
        self._decoded: dict[str, list[Counts]] = {}

    def log(self, begin: int, end: int) -> float | None:
        """Return ln of what a range of slices did: units a second (closed loop) or median latency (open); None of
        nothing."""
        if self.task.loop == "open":
            return self.log_percentile(Percentile(50.0, LATENCY), begin, end)
        rate = self._rate(range(begin, end))
        return math.log(rate) if rate else None

    @property
    def cycle_s(self) -> float:
        """The time from one request of a client to its next, at the median, in s; 0 if it is not known."""
        median_ms = (self.task.service_time_ms or {}).get("p50", 0.0)
        return median_ms / 1000 + self.task.think_time_s if math.isfinite(median_ms) else 0.0

    @property
    def shortest_s(self) -> float:
        """The length that slices must have for a throughput that is right within 1 %, in s; 0 of open loops.

        Without times of completion, as older races are, slices count whole requests.
        """
        if self.task.loop == "open":
            return 0.0
        return self.cycle_s * (_CYCLES if self._completions is not None else _CYCLES_UNPLACED)

    def _rate(self, slices: range) -> float | None:
        if self._completions is not None:
            return self._completions.rate(slices, self.cycle_s)
        units = sum(line.units for line in self._lines if self._slice(line) in slices)
        measured_s = len(slices) * (self.plan.length_s - self.plan.settle_s)
        return units / measured_s if measured_s > 0 else None

    def log_percentile(self, percentile: Percentile, begin: int, end: int) -> float | None:
        """Return ln of a percentile (ns) of a range of slices; None without 10 samples beyond it, or 10 for p50."""
        counts = self._counts(percentile.measure.name, begin, end)
        if not has_enough_beyond(counts.count, percentile):
            return None
        return math.log(percentiles_ns(counts, (percentile.rank,))[percentile.rank])

    def _counts(self, measure: str, begin: int, end: int) -> Counts:
        if measure not in self._decoded:
            decoded = [Counts() for _ in range(1 + max(map(self._slice, self._lines), default=0))]
            for line in self._lines:
                decoded[self._slice(line)].merge(line.at_least(measure))
            self._decoded[measure] = decoded
        return _together(self._decoded[measure][begin:end])

    def _slice(self, line: SecondLine) -> int:
        return math.floor(line.second / self.plan.length_s + 1e-9)

    def after(self, cut_s: float) -> TaskResult:
        """Return the task's result from an own time on, a whole second; what was before it is warmup.

        Figures that the seconds do not hold are left out: client wait, requests by name, thresholds, bytes, statuses.
        """
        task, is_open = self.task, self.task.loop == "open"
        lines = [line for line in self._lines if line.second >= cut_s]
        counts = {name: _together(line.counts(name) for line in lines) for name in SECOND_HISTOGRAMS}
        requests, errors = sum(line.requests for line in lines), sum(line.failed for line in lines)
        units = sum(line.units for line in lines)
        latency, latency_beyond = (counts[name] for name in with_beyond("latency"))
        service, service_beyond = (counts[name] for name in with_beyond("service_time"))
        beyond = latency_beyond if is_open else service_beyond
        ranks = supported(PERCENTILES, service.count + beyond.count)
        return replace(
            task,
            warmup=Phase(
                task.warmup.requests + task.requests - requests,
                task.warmup.units + task.units - units,
                task.warmup.errors + task.errors - errors,
                cut_s,
                task.warmup.error_kinds,
            ),
            window=Window(cut_s, task.window.end_s),
            requests=requests,
            units=units,
            errors=errors,
            error_kinds=_error_kinds(task, lines),
            error_rate_ratio=errors / requests if requests else None,
            due=sum(line.due for line in lines) if is_open else None,
            sent=sum(line.sent for line in lines),
            throughput=self._throughput(cut_s, units, lines),
            latency_ms=distribution_ms(latency, ranks, latency_beyond) if is_open else None,
            service_time_ms=distribution_ms(service, ranks, service_beyond),
            driver_lag_ms=distribution_ms(counts["driver_lag"], ranks) if is_open else None,
            client_wait_ms=None,
            schedule_lag_ms=None,
            histograms={name: encode(each) for name, each in counts.items() if each.buckets},
            within_ms={},
            requests_by_name=tuple(part for part in task.requests_by_name if part.name == SAMPLED_TOOK),
            bytes_sent=None,
            bytes_received=None,
            status_codes=None,
        )

    def _throughput(self, cut_s: float, units: float, lines: Sequence[SecondLine]) -> Throughput:
        time, end_s = self.plan.time, self.task.window.end_s
        seconds = range(math.ceil(cut_s - 1e-9), math.floor(end_s + 1e-9))
        if self._completions is not None:
            mean = self._completions.rate(range(round(cut_s / self.plan.length_s), self.whole), self.cycle_s)
            rates = [self._completions.measured_rate(second) for second in seconds]
        else:
            measured_s = time.measured_s(cut_s, end_s)
            mean = units / measured_s if measured_s > 0 else None
            done = dict.fromkeys(seconds, 0.0)
            for line in lines:
                if line.second in done:
                    done[line.second] += line.units
            rates = [units / time.measured_s(second, second + 1) for second, units in done.items()]
        if len(rates) < _FEWEST_SECONDS:
            return Throughput(self.task.throughput.unit, mean)
        return Throughput(self.task.throughput.unit, mean, median(rates), min(rates), max(rates))


def _completions(plan: SlicePlan, lines: Iterable[SecondLine]) -> Completions | None:
    """Return when requests were completed; None if the lines do not hold it."""
    placed = Completions(plan.time)
    known = False
    for line in lines:
        known = known or line.completed_at is not None
        placed.add(line.second, line.counts("completed_at"), line.requests, line.units)
    return placed if known else None


def _had_warmup(task: TaskResult, plan: SlicePlan, lines: Iterable[SecondLine]) -> bool:
    """True if the track's own warmup was raced before what was measured.

    A slow first request is not: each client's first one in a slice is never measured (closed loop).
    """
    start_s = task.window.start_s
    if start_s < plan.length_s:
        return False
    before = sum(line.requests for line in lines if line.phase == "warmup" and line.second < start_s)
    return task.loop == "open" or before > task.clients * math.ceil(start_s / plan.length_s)


def _together(histograms: Iterable[Counts]) -> Counts:
    together = Counts()
    for counts in histograms:
        together.merge(counts)
    return together


def _error_kinds(task: TaskResult, lines: Sequence[SecondLine]) -> dict[str, ErrorKind]:
    """Return the kinds of failures of these seconds, with the task's first one of each as the example."""
    found = Counter[str]()
    for line in lines:
        found.update(line.errors)
    unknown = ErrorKind(0, "")
    return {kind: replace(task.error_kinds.get(kind, unknown), count=count) for kind, count in found.items()}
