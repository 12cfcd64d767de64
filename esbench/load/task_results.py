"""The result of one task, of its measurements over all its workers: what was asked, counted and timed, and judged.

METHOD (docs/method.md) defines phases, windows and throughput.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from esbench.load.checks import NEVER_BEGUN, Amount, TaskFigures, task_checks
from esbench.load.measurements import NS, TaskMeasurements
from esbench.measure import drift
from esbench.measure.histogram import distribution_ms, encode, supported
from esbench.measure.measures import HISTOGRAMS
from esbench.measure.schedule import due_times, measured_period_s, rate_segments
from esbench.measure.scores import interval
from esbench.measure.slice_rate import cycle_s, whole_slices
from esbench.measure.slices import SlicedTime
from esbench.measure.tally import Errors, Spread, Tally
from esbench.measure.verdict import OWN_THROUGHPUT, Evidence
from esbench.model import Task
from esbench.record.index_prefix import without_prefix
from esbench.record.model import (
    PERCENTILES,
    Check,
    ErrorKind,
    NamedRequest,
    ObjectiveResult,
    Phase,
    RateStage,
    ScoreFigures,
    SlicePlan,
    TaskResult,
    Throughput,
    Window,
    WorkerHealth,
)

_FEWEST_SECONDS = 3  # minimum, median and maximum of throughput need this many whole seconds
_DRIFT_FROM_S = 60.0


def task_result(
    measurements: TaskMeasurements, workers: WorkerHealth | None, checks: Sequence[Check] = ()
) -> TaskResult:
    """Return the result of a task: its figures, their checks and its objectives. Call it after `flush`.

    `workers` is the health of its load workers in the window, None if that is not known. `checks` are those that
    failed already: they come first.
    """
    figures = _Figures(measurements)
    result = figures.counted()
    result = figures.with_what_was_asked(result)
    result = figures.with_times(result)
    result = figures.with_replies(result)
    return figures.judged(result, workers, checks)


@dataclass(frozen=True)
class _Figures:
    """The figures of a task, of its `done` measurements."""

    done: TaskMeasurements

    @property
    def task(self) -> Task:
        return self.done.task

    @property
    def is_open(self) -> bool:
        return self.task.schedule.is_open

    @cached_property
    def window(self) -> Window:
        return self.done.window

    @property
    def tally(self) -> Tally:
        """The tally of what was measured; of a task that ended inside its warmup, of the warmup."""
        return self.done.warmup if self.done.is_inside_warmup else self.done.measured

    @cached_property
    def ranks(self) -> tuple[float, ...]:
        """The percentiles for which there are enough samples."""
        _, beyond = self.tally.response(self.is_open)
        return supported(PERCENTILES, self.tally.service_time.count + beyond.count)

    def counted(self) -> TaskResult:
        """Return the result with what names the task, and what was counted of it: all that every result has."""
        done, task, tally, warmup = self.done, self.task, self.tally, self._warmup
        target, include = task.schedule.rate, task.operation.include_in_reporting
        return TaskResult(
            name=task.name,
            step=done.step,
            operation=task.operation.name,
            operation_type=task.operation.type,
            loop="open" if self.is_open else "closed",
            clients=task.clients,
            workers=len(done.workers),
            schedule=task.schedule.kind if self.is_open else "closed",
            target_rate_per_s=target.value if target else None,
            target_unit=target.unit if target else None,
            params_digest=params_digest(task, done.index_prefix),
            include_in_reporting=include if include is not None else not done.admin,
            warmup=warmup,
            window=self.window,
            duration_s=done.duration_s,
            requests=tally.requests,
            units=tally.units,
            unit=done.counted_unit,
            errors=tally.errors.total,
            error_kinds=_error_kinds(tally.errors),
            error_rate_ratio=tally.errors.total / tally.requests if tally.requests else None,
            due=tally.due if self.is_open else None,
            sent=tally.sent,
            unsent=done.unsent if self.is_open else None,
            waited_ratio=tally.waited / tally.due if self.is_open and tally.due else None,
            throughput=self.throughput,
        )

    def with_what_was_asked(self, result: TaskResult) -> TaskResult:
        """Add what the track asks of the task beside its target."""
        task, schedule = self.task, self.task.schedule
        return replace(
            result,
            cluster=task.cluster,
            stages=tuple(RateStage(stage.duration_s, stage.rate.value, stage.rate.unit) for stage in schedule.stages),
            ramp_up_s=schedule.ramp_up_s,
            ramp_down_s=schedule.ramp_down_s,
            think_time_s=task.think_time_s,
            think_spread=_think_spread(task),
            tags=task.tags,
            meta=dict(task.meta),
            path="python" if task.operation.python or schedule.custom else "compiled",
        )

    def with_times(self, result: TaskResult) -> TaskResult:
        """Add when it began, and the distributions of its times."""
        done, tally, is_open, begun = self.done, self.tally, self.is_open, self.done.begun
        latency_beyond = tally.response(is_open)[1]
        return replace(
            result,
            begun_s=(done.start_ns - done.epoch_ns) / NS if begun else None,
            start_s=max(0, done.start_ns - done.step_start_ns) / NS if begun else 0.0,
            slices=_slice_plan(done.time, tally.overlapping) if isinstance(done.time, SlicedTime) else None,
            latency_ms=distribution_ms(tally.latency, self.ranks, latency_beyond) if is_open else None,
            service_time_ms=distribution_ms(tally.service_time, self.ranks, tally.service_time_beyond),
            client_wait_ms=distribution_ms(tally.client_wait, self.ranks) if is_open else None,
            driver_lag_ms=distribution_ms(tally.driver_lag, self.ranks) if is_open else None,
            schedule_lag_ms=distribution_ms(tally.schedule_lag, self.ranks) if is_open else None,
            driver_share_ratio=None if is_open else self._driver_share_ratio(),
            within_ms=_within(self.task, tally, done.unsent),
            histograms=_histograms(tally),
        )

    def with_replies(self, result: TaskResult) -> TaskResult:
        """Add what its replies brought, and who shared its load."""
        tally, shared = self.tally, self.done.host_shares
        return replace(
            result,
            requests_by_name=tuple(_named(name, part) for name, part in sorted(tally.parts.items())),
            returned={name: _spread(numbers) for name, numbers in tally.returned.items()},
            bytes_sent=tally.bytes_sent or None,
            bytes_received=tally.bytes_received if tally.bytes_sent else None,
            status_codes={str(status): count for status, count in sorted(tally.statuses.items())},
            scores=_score_figures(tally),
            host_shares=() if shared is None else shared.shares,
        )

    def judged(self, result: TaskResult, workers: WorkerHealth | None, checks: Sequence[Check]) -> TaskResult:
        """Add the checks that the figures fail, and whether they hold the task's objectives."""
        shared = self.done.host_shares
        failed = (
            *checks,
            *(task_checks(self._to_check(result), workers) if self.done.begun else (NEVER_BEGUN,)),
            *(() if shared is None else shared.checks()),
        )
        return replace(result, worker_health=workers, checks=failed, objectives=self._objectives(failed))

    def _objectives(self, failed: Sequence[Check]) -> tuple[ObjectiveResult, ...]:
        if not self.task.objectives:
            return ()
        from esbench.load.objectives import judged

        return judged(self.task, self.tally, self.done.unsent, self.throughput, failed)

    def _to_check(self, result: TaskResult) -> TaskFigures:
        done = self.done
        return TaskFigures(
            task=self.task,
            tally=self.tally,
            in_window=done.measured.in_window + done.warmup.in_window,
            window_s=done.time.measured_s(self.window.start_s, self.window.end_s),
            target_requests_per_s=self._target_requests_per_s(),
            unsent=done.unsent,
            backlog_rise=self._backlog_rise(),
            drift_ratio=None if done.is_inside_warmup else self._drift_ratio(),
            reported_ms=result.latency_ms if self.is_open else result.service_time_ms,
            driver_lag_ms=result.driver_lag_ms,
            driver_share_ratio=result.driver_share_ratio,
            inside_warmup=done.is_inside_warmup,
            feed_waits=sum(end.feed_waits for end in done.ends.values()),
            amount=self._amount() if done.ended_by_itself and done.begun else None,
            can_use_more_workers=done.most_workers > len(done.workers),
        )

    @property
    def _warmup(self) -> Phase:
        """The warmup; none of a task that ended inside it, whose result it is."""
        tally = Tally() if self.done.is_inside_warmup else self.done.warmup
        begin_s = self.window.start_s if tally.requests else 0.0
        return Phase(tally.requests, tally.units, tally.errors.total, begin_s, _error_kinds(tally.errors))

    def _arrivals_s(self) -> float:
        """Return the time that the measured arrivals of a task that ends by numbers take by its schedule, in s.

        Each arrival has the gap after it. 0 where no schedule says it beforehand.
        """
        schedule, has_window = self.task.schedule, self.task.is_time_based or self.task.schedule.stages
        if schedule.rate is None or schedule.custom or has_window or isinstance(self.done.time, SlicedTime):
            return 0.0
        places = (self.done.warmup.sent, self.done.warmup.sent + self.done.measured.sent)
        begin_ns, end_ns = due_times(rate_segments(schedule, self.done.per_request), map(float, places))
        return (end_ns - begin_ns) / NS

    @cached_property
    def throughput(self) -> Throughput:
        done, tally, window, unit = self.done, self.tally, self.window, self.done.counted_unit
        if (own := tally.returned.get(OWN_THROUGHPUT)) is not None:
            return Throughput(unit, own.total / own.count, None, own.smallest, own.largest)
        length_s = done.time.measured_s(window.start_s, window.end_s)
        # what completed in the window, whatever its due time
        in_window = done.measured.in_window_units + done.warmup.in_window_units
        units = tally.units if done.is_inside_warmup else in_window
        taken_s = max(length_s, self._arrivals_s())  # n arrivals span n - 1 gaps only
        mean = self._rate_in_slices()
        if mean is None:
            mean = units / taken_s if taken_s > 0 else None
        rates = self._rates()
        if len(rates) < _FEWEST_SECONDS:
            return Throughput(unit, mean)
        return Throughput(unit, mean, statistics.median(rates), min(rates), max(rates))

    def _rate_in_slices(self) -> float | None:
        """Return the units per second of a closed loop in its whole slices; None without any."""
        if self.done.completions is None or not isinstance(self.done.time, SlicedTime):
            return None
        after_warmup = bool(self.task.warmup_time_s or self.task.warmup_iterations)
        slices = whole_slices(
            (self.window.start_s, self.window.end_s),
            self.done.time.length_ns / NS,
            after_warmup=after_warmup,
            is_open=False,
        )
        return self.done.completions.rate(slices, cycle_s(self.tally.service_time, self.task.think_time_s))

    def _rates(self) -> list[float]:
        """Return the units per second in each whole second of the window.

        Only measured ones where the task ends by numbers, or in slices, of which the first part is not measured.
        """
        if self.done.completions is not None:
            return list(map(self.done.completions.measured_rate, _whole_seconds(self.window)))
        by_time = self.task.is_time_based or self.task.schedule.stages or self.done.is_inside_warmup
        phases = (False, True) if by_time and not isinstance(self.done.time, SlicedTime) else (False,)
        return [
            sum(self.done.units_by_second.get((second, warmup), 0.0) for warmup in phases)
            / self.done.time.measured_s(second, second + 1)
            for second in _whole_seconds(self.window)
        ]

    def _driver_share_ratio(self) -> float | None:
        """Return the share of their time that clients spent outside requests and without thinking.

        None with too few requests.
        """
        tally = self.tally
        if tally.requests < 10 * self.task.clients:
            return None
        in_requests_ns = tally.service_time.total_ns + tally.failed.total_ns
        thinking_ns = tally.requests * round(self.task.think_time_s * NS)
        driver_ns = max(0, tally.driver_ns)
        return driver_ns / max(1, driver_ns + in_requests_ns + thinking_ns)

    def _drift_ratio(self) -> float | None:
        """Return the relative change of throughput (closed loop) or median latency (open).

        None if it cannot be determined, with stages or a recording, which are meant to change it, and in slices, whose
        warmup is cut by the comparison.
        """
        is_meant = self.task.schedule.stages or self.task.schedule.recorded is not None
        if self.window.end_s - self.window.start_s < _DRIFT_FROM_S - 1e-6 or is_meant:
            return None
        if isinstance(self.done.time, SlicedTime):
            return None
        if not self.task.schedule.is_open:
            return drift.relative_change(drift.section_means(self._rates()))
        medians = self.done.medians.of_sections(_whole_seconds(self.window).stop)
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
        requests = self.done.warmup.requests + self.done.measured.requests
        if self.done.units_in_all is None:
            return None if task.is_time_based else Amount(requests, wanted, "requests")
        if requests >= wanted and (task.requests or task.iterations or task.warmup_iterations):
            return None  # its number of requests ended it, with documents left
        failed = self.done.warmup.errors.total + self.done.measured.errors.total
        units = self.done.warmup.units + self.done.measured.units + failed * self.done.per_request[self.done.unit]
        return Amount(units, self.done.units_in_all, self.done.unit)

    def _backlog_rise(self) -> float | None:
        """Return the number of arrivals by which the queue grew while they were due.

        None when that is chance, or under ten seconds.
        """
        return (
            drift.change(drift.section_means(self.done.backlogs)) if len(self.done.backlogs) >= drift.SECTIONS else None
        )

    def _target_requests_per_s(self) -> float | None:
        """Return the target rate in requests/s where it is constant over the window, else None.

        Of a recording that was sent as a whole it is the mean.
        """
        schedule = self.task.schedule
        if (recorded := schedule.recorded) is not None and self.done.measured.due == recorded.count:
            spanned_s = recorded.last_s - recorded.first_s
            return recorded.count / spanned_s if spanned_s else None
        if schedule.rate is None or schedule.stages or schedule.custom:
            return None
        return rate_segments(schedule, self.done.per_request)[-1].rate_end


def _think_spread(task: Task) -> str:
    if task.think_spread is None:
        return ""
    from esbench.measure.think_time import think_spread_text

    return think_spread_text(task)


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
    return {f"{limit:g}": count / total * 100 for limit, count in tally.within_limits(task.limits_ms).items()}


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
