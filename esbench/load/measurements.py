"""Measurements of one task over all its workers: seconds merged as they close, and the result at the end.

Percentiles come from merged histograms, never from averaging percentiles. METHOD (docs/method.md) defines phases,
windows and throughput.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from esbench.errors import RaceError
from esbench.load.checks import NEVER_BEGUN, Amount, TaskFigures, task_checks
from esbench.load.failures import sentence
from esbench.load.host_shares import HostShares
from esbench.load.messages import TaskEnd, TaskSeconds
from esbench.load.objectives import judged, within_limits
from esbench.measure import drift
from esbench.measure.histogram import distribution_ms, encode, supported
from esbench.measure.measures import HISTOGRAMS
from esbench.measure.schedule import due_times, measured_period_s, rate_segments
from esbench.measure.scores import interval
from esbench.measure.slice_rate import Completions, cycle_s, whole_slices
from esbench.measure.slices import SlicedTime, WholeTime
from esbench.measure.tally import Errors, Second, Spread, Tally
from esbench.measure.think_time import think_spread_text
from esbench.measure.verdict import OWN_THROUGHPUT, Evidence
from esbench.model import Task
from esbench.record.index_prefix import without_prefix
from esbench.record.model import (
    PERCENTILES,
    Check,
    ErrorKind,
    NamedRequest,
    Phase,
    RateStage,
    ScoreFigures,
    SlicePlan,
    TaskResult,
    Throughput,
    Window,
    WorkerHealth,
)

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
    def _unit(self) -> str:
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
        window = self._window(self._is_inside_warmup)
        start_ns = self.time.own_ns(self._start_ns())
        return (
            self.time.at_ns(start_ns + round(window.start_s * NS)),
            self.time.until_ns(start_ns + round(window.end_s * NS)),
        )

    def result(self, workers: WorkerHealth | None, checks: Sequence[Check] = ()) -> TaskResult:
        """Return the result of the task: its figures, their checks and its objectives. Call it after `flush`.

        `workers` is the health of its load workers in the window, None if that is not known. `checks` are those that
        failed already: they come first.
        """
        task = self.task
        is_open = task.schedule.is_open
        unsent = self._unsent
        inside_warmup = self._is_inside_warmup
        tally, warmup = (self.warmup, Tally()) if inside_warmup else (self.measured, self.warmup)
        window = self._window(inside_warmup)
        throughput = self._throughput(tally, window, inside_warmup)
        _, beyond = tally.response(is_open)
        ranks = supported(PERCENTILES, tally.service_time.count + beyond.count)
        latency = distribution_ms(tally.latency, ranks, beyond) if is_open else None
        service_time = distribution_ms(tally.service_time, ranks, tally.service_time_beyond)
        driver_lag = distribution_ms(tally.driver_lag, ranks) if is_open else None
        driver_share = None if is_open else self._driver_share_ratio(tally)
        target = task.schedule.rate
        figures = TaskFigures(
            task=task,
            tally=tally,
            in_window=self.measured.in_window + self.warmup.in_window,
            window_s=self.time.measured_s(window.start_s, window.end_s),
            target_requests_per_s=self._target_requests_per_s(),
            unsent=unsent,
            backlog_rise=self._backlog_rise(),
            drift_ratio=None if inside_warmup else self._drift_ratio(window),
            reported_ms=latency if is_open else service_time,
            driver_lag_ms=driver_lag,
            driver_share_ratio=driver_share,
            inside_warmup=inside_warmup,
            feed_waits=sum(end.feed_waits for end in self.ends.values()),
            amount=self._amount() if self.ended_by_itself and self._begun else None,
            can_use_more_workers=self.most_workers > len(self.workers),
        )
        failed = (*checks, *(task_checks(figures, workers) if self._begun else (NEVER_BEGUN,)))
        failed += () if self.host_shares is None else self.host_shares.checks()
        include = task.operation.include_in_reporting
        return TaskResult(
            name=task.name,
            step=self.step,
            operation=task.operation.name,
            operation_type=task.operation.type,
            loop="open" if is_open else "closed",
            clients=task.clients,
            cluster=task.cluster,
            workers=len(self.workers),
            schedule=task.schedule.kind if is_open else "closed",
            target_rate_per_s=target.value if target else None,
            target_unit=target.unit if target else None,
            params_digest=params_digest(task, self.index_prefix),
            include_in_reporting=include if include is not None else not self.admin,
            warmup=Phase(
                warmup.requests,
                warmup.units,
                warmup.errors.total,
                window.start_s if warmup.requests else 0.0,
                _error_kinds(warmup.errors),
            ),
            window=window,
            duration_s=self._duration_s(),
            requests=tally.requests,
            units=tally.units,
            unit=self._unit,
            errors=tally.errors.total,
            error_kinds=_error_kinds(tally.errors),
            error_rate_ratio=tally.errors.total / tally.requests if tally.requests else None,
            due=tally.due if is_open else None,
            sent=tally.sent,
            unsent=unsent if is_open else None,
            waited_ratio=tally.waited / tally.due if is_open and tally.due else None,
            throughput=throughput,
            latency_ms=latency,
            service_time_ms=service_time,
            client_wait_ms=distribution_ms(tally.client_wait, ranks) if is_open else None,
            driver_lag_ms=driver_lag,
            schedule_lag_ms=distribution_ms(tally.schedule_lag, ranks) if is_open else None,
            driver_share_ratio=driver_share,
            within_ms=_within(task, tally, unsent),
            histograms=_histograms(tally),
            requests_by_name=tuple(_named(name, part) for name, part in sorted(tally.parts.items())),
            checks=failed,
            begun_s=(self._start_ns() - self.epoch_ns) / NS if self._begun else None,
            start_s=max(0, self._start_ns() - self.step_start_ns) / NS if self._begun else 0.0,
            stages=tuple(
                RateStage(stage.duration_s, stage.rate.value, stage.rate.unit) for stage in task.schedule.stages
            ),
            ramp_up_s=task.schedule.ramp_up_s,
            ramp_down_s=task.schedule.ramp_down_s,
            think_time_s=task.think_time_s,
            think_spread=think_spread_text(task),
            tags=task.tags,
            meta=dict(task.meta),
            returned={name: _spread(numbers) for name, numbers in tally.returned.items()},
            path="python" if task.operation.python or task.schedule.custom else "compiled",
            worker_health=workers,
            bytes_sent=tally.bytes_sent or None,
            bytes_received=tally.bytes_received if tally.bytes_sent else None,
            status_codes={str(status): count for status, count in sorted(tally.statuses.items())},
            slices=_slice_plan(self.time, tally.overlapping) if isinstance(self.time, SlicedTime) else None,
            host_shares=() if self.host_shares is None else self.host_shares.shares,
            objectives=judged(task, tally, unsent, throughput, failed),
            scores=_score_figures(tally),
        )

    @property
    def _unsent(self) -> int:
        return sum(end.unsent for end in self.ends.values())

    @property
    def _is_inside_warmup(self) -> bool:
        """True if the task ended inside its warmup."""
        # arrivals that found all corpora exhausted were due, and nothing is missing
        measured_any = self.measured.requests or self.measured.sent or self._unsent
        return not measured_any and self.warmup.requests > 0

    @property
    def _begun(self) -> bool:
        return any(end.start_ns is not None for end in self.ends.values())

    def _start_ns(self) -> int:
        ends = self.ends.values()
        return min(end.end_ns if end.start_ns is None else end.start_ns for end in ends)

    def _duration_s(self) -> float:
        return self._own_s(max(end.end_ns for end in self.ends.values()))

    def _own_s(self, at_ns: int) -> float:
        """Return the seconds of own time from the task's start to a time of the wall clock."""
        return (self.time.own_ns(at_ns) - self.time.own_ns(self._start_ns())) / NS

    def _window(self, inside_warmup: bool) -> Window:
        """Return the measurement window in seconds since the task's start."""
        task = self.task
        if inside_warmup or not self._begun:
            return Window(0.0, self._duration_s())
        ends = self.ends.values()
        last = max((ns for end in ends if (ns := end.last_measured_received_ns) is not None), default=None)
        last_s = self._duration_s() if last is None else self._own_s(last)
        if task.is_time_based or task.schedule.stages:
            warmup_s = task.warmup_time_s or 0.0
            period_s = measured_period_s(task)
            # a task that ended early (exhausted, stopped) has a window up to its end
            end_s = last_s if period_s is None else min(warmup_s + period_s, self._duration_s())
            return Window(warmup_s, max(warmup_s, end_s))
        first = min((ns for end in ends if (ns := end.first_measured_ns) is not None), default=self._start_ns())
        return Window(self._own_s(first), last_s)

    def _arrivals_s(self) -> float:
        """Return the time that the measured arrivals of a task that ends by numbers take by its schedule, in s.

        Each arrival has the gap after it. 0 where no schedule says it beforehand.
        """
        schedule, has_window = self.task.schedule, self.task.is_time_based or self.task.schedule.stages
        if schedule.rate is None or schedule.custom or has_window or isinstance(self.time, SlicedTime):
            return 0.0
        places = (self.warmup.sent, self.warmup.sent + self.measured.sent)
        begin_ns, end_ns = due_times(rate_segments(schedule, self.per_request), map(float, places))
        return (end_ns - begin_ns) / NS

    def _throughput(self, tally: Tally, window: Window, inside_warmup: bool) -> Throughput:
        if (own := tally.returned.get(OWN_THROUGHPUT)) is not None:
            return Throughput(self._unit, own.total / own.count, None, own.smallest, own.largest)
        length_s = self.time.measured_s(window.start_s, window.end_s)
        # what completed in the window, whatever its due time
        in_window = self.measured.in_window_units + self.warmup.in_window_units
        units = tally.units if inside_warmup else in_window
        taken_s = max(length_s, self._arrivals_s())  # n arrivals span n - 1 gaps only
        mean = self._rate_in_slices(tally, window)
        if mean is None:
            mean = units / taken_s if taken_s > 0 else None
        rates = self._rates(window, inside_warmup)
        if len(rates) < _FEWEST_SECONDS:
            return Throughput(self._unit, mean)
        return Throughput(self._unit, mean, statistics.median(rates), min(rates), max(rates))

    def _rate_in_slices(self, tally: Tally, window: Window) -> float | None:
        """Return the units per second of a closed loop in its whole slices; None without any."""
        if self.completions is None or not isinstance(self.time, SlicedTime):
            return None
        after_warmup = bool(self.task.warmup_time_s or self.task.warmup_iterations)
        slices = whole_slices(
            (window.start_s, window.end_s), self.time.length_ns / NS, after_warmup=after_warmup, is_open=False
        )
        return self.completions.rate(slices, cycle_s(tally.service_time, self.task.think_time_s))

    def _rates(self, window: Window, inside_warmup: bool) -> list[float]:
        """Return the units per second in each whole second of the window.

        Only measured ones where the task ends by numbers, or in slices, of which the first part is not measured.
        """
        if self.completions is not None:
            return list(map(self.completions.measured_rate, _whole_seconds(window)))
        by_time = self.task.is_time_based or self.task.schedule.stages or inside_warmup
        phases = (False, True) if by_time and not isinstance(self.time, SlicedTime) else (False,)
        return [
            sum(self.units_by_second.get((second, warmup), 0.0) for warmup in phases)
            / self.time.measured_s(second, second + 1)
            for second in _whole_seconds(window)
        ]

    def _driver_share_ratio(self, tally: Tally) -> float | None:
        """Return the share of their time that clients spent outside requests and without thinking.

        None with too few requests.
        """
        if tally.requests < 10 * self.task.clients:
            return None
        in_requests_ns = tally.service_time.total_ns + tally.failed.total_ns
        thinking_ns = tally.requests * round(self.task.think_time_s * NS)
        driver_ns = max(0, tally.driver_ns)
        return driver_ns / max(1, driver_ns + in_requests_ns + thinking_ns)

    def _drift_ratio(self, window: Window) -> float | None:
        """Return the relative change of throughput (closed loop) or median latency (open).

        None if it cannot be determined, with stages or a recording, which are meant to change it, and in slices, whose
        warmup is cut by the comparison.
        """
        is_meant = self.task.schedule.stages or self.task.schedule.recorded is not None
        if window.end_s - window.start_s < _DRIFT_FROM_S - 1e-6 or is_meant:
            return None
        if isinstance(self.time, SlicedTime):
            return None
        if not self.task.schedule.is_open:
            return drift.relative_change(drift.section_means(self._rates(window, inside_warmup=False)))
        medians = self.medians.of_sections(_whole_seconds(window).stop)
        return None if medians is None else drift.relative_change(medians)

    def _amount(self) -> Amount | None:
        """Return the work that a task whose length is a number has sent; None for other tasks.

        None also where code of the track may end it. A request that failed was sent, and may stand for as many
        documents as a bulk has.
        """
        task = self.task
        if task.operation.python or measured_period_s(task) is not None:
            return None
        measured = (task.iterations or 1) * task.clients if task.requests is None else task.requests
        wanted = (task.warmup_iterations or 0) * task.clients + measured
        requests = self.warmup.requests + self.measured.requests
        if self.units_in_all is None:
            return None if task.is_time_based else Amount(requests, wanted, "requests")
        if requests >= wanted and (task.requests or task.iterations or task.warmup_iterations):
            return None  # its number of requests ended it, with documents left
        failed = self.warmup.errors.total + self.measured.errors.total
        units = self.warmup.units + self.measured.units + failed * self.per_request[self.unit]
        return Amount(units, self.units_in_all, self.unit)

    def _backlog_rise(self) -> float | None:
        """Return the number of arrivals by which the queue grew while they were due.

        None when that is chance, or under ten seconds.
        """
        return drift.change(drift.section_means(self.backlogs)) if len(self.backlogs) >= drift.SECTIONS else None

    def _target_requests_per_s(self) -> float | None:
        """Return the target rate in requests/s where it is constant over the window, else None.

        Of a recording that was sent as a whole it is the mean.
        """
        schedule = self.task.schedule
        if (recorded := schedule.recorded) is not None and self.measured.due == recorded.count:
            spanned_s = recorded.last_s - recorded.first_s
            return recorded.count / spanned_s if spanned_s else None
        if schedule.rate is None or schedule.stages or schedule.custom:
            return None
        return rate_segments(schedule, self.per_request)[-1].rate_end


def _slice_plan(time: SlicedTime, overlapping: int) -> SlicePlan:
    lengths_s = time.length_ns / NS, time.gap_ns / NS, time.settle_ns / NS
    return SlicePlan(*lengths_s, time.sides, time.side, time.seed, time.skipped, overlapping)


def _whole_seconds(window: Window) -> range:
    return range(math.ceil(window.start_s - 1e-9), math.floor(window.end_s + 1e-9))


def _error_kinds(errors: Errors) -> dict[str, ErrorKind]:
    kinds = {}
    for kind, count in errors.counts.items():
        evidence = errors.evidence.get(kind) or Evidence("")
        kinds[kind] = ErrorKind(count, errors.examples[kind], evidence.request, evidence.status, evidence.body)
    return kinds


def _spread(numbers: Spread) -> dict[str, float]:
    return {"mean": numbers.total / numbers.count, "min": numbers.smallest, "max": numbers.largest}


def _score_figures(tally: Tally) -> ScoreFigures | None:
    """Return the figures of the replies that were scored; None without any."""
    scores = tally.scores
    if not (count := scores.count):
        return None
    low, high = interval(scores.by_query) or (None, None)
    return ScoreFigures(
        name=scores.name,
        scored=count,
        queries=len(scores.by_query),
        share_ratio=count / (tally.requests - tally.errors.total),
        mean=scores.total / count,
        p10=scores.percentile(10),
        min=min(scores.counts),
        low=low,
        high=high,
    )


def _histograms(tally: Tally) -> dict[str, str]:
    return {name: encode(counts) for name in HISTOGRAMS if (counts := getattr(tally, name)).buckets}


def _within(task: Task, tally: Tally, unsent: int) -> dict[str, float]:
    """Return the percentage of all requests that were answered well within each threshold.

    Failed and unsent requests were not. The keys are the thresholds in ms.
    """
    total = tally.requests + unsent
    if not total:
        return {}
    return {f"{limit:g}": count / total * 100 for limit, count in within_limits(task, tally).items()}


def _named(name: str, part: Any) -> NamedRequest:
    good = part.service_time.count
    ranks = supported(PERCENTILES, good + part.beyond.count)
    return NamedRequest(
        name=name,
        requests=part.requests,
        errors=part.errors,
        service_time_ms=distribution_ms(part.service_time, ranks, part.beyond),
        histogram=encode(part.service_time) if good else None,
    )


def params_digest(task: Task, index_prefix: str = "") -> str:
    """Return the digest of what a task asks: 16 hex digits of the sha256 of its operation's type and parameters.

    The `index_prefix` of names does not count.
    """
    params = without_prefix(task.operation.params, index_prefix)
    asked: dict[str, Any] = {"type": task.operation.type, "params": params}
    if task.schedule.recorded is not None:
        asked["arrivals"] = task.schedule.recorded.file
    return hashlib.sha256(json.dumps(asked, sort_keys=True, default=str).encode()).hexdigest()[:16]
