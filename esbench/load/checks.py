"""Checks of whether a task's figures may be used: statements with cause and remedy (docs/method.md, checks). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf, isfinite

from esbench.load.assignment import FEWEST_CLIENTS_PER_WORKER
from esbench.load.health import BUSY_LIMIT, LOOP_LAG_LIMIT, RUN_DELAY_LIMIT, STEAL_LIMIT
from esbench.measure.measures import HISTOGRAMS
from esbench.measure.schedule import measured_period_s
from esbench.measure.tally import Errors, Tally
from esbench.measure.verdict import TIMEOUT
from esbench.model import Task
from esbench.record.model import Check, CheckKind, WorkerHealth

NS = 1_000_000_000
NEVER_BEGUN = CheckKind.NEVER_BEGUN.warning(
    "the task never began: its step ended before its clients were free",
    'give the "parallel" more clients, or leave out its "completed-by"',
)
_ENOUGH = 0.99  # of the target rate
_OFTEN = 0.1  # of the seconds
_CLOCK_LIMIT_MS = 5.0
_SKEW_LIMIT = 0.1  # of the smaller of two medians


@dataclass(frozen=True)
class Amount:
    """The amount of work that a task has sent and should have sent, in a unit ("docs", "requests")."""

    sent: float
    wanted: float
    unit: str


@dataclass(frozen=True)
class TaskFigures:
    """The figures of one task that its checks are made from.

    `in_window` requests completed in the window; `target_requests_per_s` is None where the rate is not constant over
    it. `reported_ms` is latency in an open loop, service time in a closed one. `backlog_rise` is the number of arrivals
    by which the queue grew, `drift_ratio` the relative change of throughput (closed loop) or median latency (open) over
    the measurement; both are None when the change is chance, or cannot be determined. `driver_share_ratio` (closed
    loops only) is the share of their time that clients spent in the driver. `feed_waits` counts the waits of requests
    for their documents. `amount` is None where time, other tasks or the user ended the task.
    """

    task: Task
    tally: Tally
    in_window: int
    window_s: float
    target_requests_per_s: float | None
    unsent: int
    backlog_rise: float | None
    drift_ratio: float | None
    reported_ms: Mapping[str, float] | None
    driver_lag_ms: Mapping[str, float] | None
    driver_share_ratio: float | None
    inside_warmup: bool
    feed_waits: int
    amount: Amount | None = None
    can_use_more_workers: bool = False

    @property
    def more_workers(self) -> str:
        """A hint on how more workers could share the task; empty if nothing would let them."""
        task = self.task
        if self.can_use_more_workers:
            return "add workers"
        ends_by_numbers = not task.schedule.is_open and not task.operation.python and task.time_period_s is None
        if ends_by_numbers and task.clients >= 2 * FEWEST_CLIENTS_PER_WORKER:
            return "give the task a time-period, so that several workers share it"
        return ""


def task_checks(figures: TaskFigures, workers: WorkerHealth | None) -> tuple[Check, ...]:
    """Return the checks that speak against a task's figures; empty when they can be trusted.

    Without `workers` (the health of its load workers in the window), these are not checked.
    """
    checks = (_amount, _rate, _driver, _drift, _replies)
    return (*(check for found in checks for check in found(figures)), *_health(figures, workers))


def _any_of(*remedies: str) -> str:
    """Join the remedies that are not empty as "a, b, or c"."""
    *others, last = (remedy for remedy in remedies if remedy)
    return f"{', '.join(others)}, or {last}" if others else last


def incomplete(reason: str) -> Check:
    """Return the check for a task that not all of its workers have ended; `reason` says why."""
    return CheckKind.INCOMPLETE.unusable(f"{reason}: what it had not reported by then is missing", "race again")


def lost_hosts(hosts: Sequence[str], count: int) -> Check:
    """Return the check for a task during which `hosts` could not be reached for a time.

    `count` is the number of all hosts of the cluster.
    """
    return CheckKind.LOST_HOSTS.warning(
        f"{len(hosts)} of {count} hosts could not be reached for a time: {', '.join(hosts)}",
        "their clients used the other hosts, if any: see events in the record",
        len(hosts),
    )


def clock_offset(bound_ms: float, p50_ms: float | None) -> Check | None:
    """Return the check for load hosts whose clocks are not known well enough, None if they are.

    `bound_ms` bounds the error of their times on one clock; `p50_ms` is the shortest median response of a host.
    """
    limit_ms = _CLOCK_LIMIT_MS if p50_ms is None else min(_CLOCK_LIMIT_MS, p50_ms / 2)
    if bound_ms <= limit_ms:
        return None
    return CheckKind.CLOCK_OFFSET.warning(
        f"the clocks of the load hosts are known to {bound_ms:.1f} ms only",
        "begins, ends and gaps between hosts are that uncertain, response times are not: use a nearer network",
        bound_ms,
    )


def host_skew(p50_ms: Mapping[str, float]) -> Check | None:
    """Return the check for load hosts whose median response times (ms, by host) differ, None if they agree."""
    if len(p50_ms) < 2 or not (least_ms := min(p50_ms.values())):
        return None
    fastest, slowest = min(p50_ms, key=p50_ms.__getitem__), max(p50_ms, key=p50_ms.__getitem__)
    ratio = p50_ms[slowest] / least_ms - 1
    if ratio <= _SKEW_LIMIT:
        return None
    return CheckKind.HOST_SKEW.warning(
        f"load hosts differ: the median of {slowest} is {p50_ms[slowest]:.3g} ms, of {fastest} {least_ms:.3g} ms",
        "one host is slower, or further away: look at the rows by load host",
        ratio,
    )


def _amount(figures: TaskFigures) -> Iterator[Check]:
    amount = figures.amount
    if amount is not None and amount.sent < amount.wanted:
        yield CheckKind.SHORT.unusable(
            f"the task ended after {amount.sent:,.0f} of {amount.wanted:,.0f} {amount.unit}",
            "figures are those of a part of its work: race again, and report it when that is short, too",
            amount.sent / amount.wanted,
        )


def _rate(figures: TaskFigures) -> Iterator[Check]:
    tally = figures.tally
    if figures.unsent:
        yield CheckKind.UNSENT.unusable(
            f"{figures.unsent} arrivals were due and never sent",
            "the cluster cannot keep up with the rate with this many clients: lower the rate, or add clients",
            figures.unsent,
        )
    elif figures.backlog_rise is not None and figures.backlog_rise > figures.task.clients:
        yield CheckKind.BACKLOG.unusable(
            f"the line of arrivals that waited for a client grew by {figures.backlog_rise:,.0f}",
            "the cluster is overloaded, latency is undefined: lower the rate, or add clients",
            figures.backlog_rise,
        )
    achieved = _achieved_ratio(figures)
    if achieved is not None and achieved < _ENOUGH:
        yield CheckKind.TARGET_RATE.unusable(
            f"only {achieved:.1%} of the target rate was reached",
            "the cluster is overloaded, latency is undefined: lower the rate",
            achieved,
        )
    if tally.due and tally.waited / tally.due > 0.01:
        yield CheckKind.CLIENT_LIMITED.warning(
            f"{tally.waited:,} of {tally.due:,} requests had to wait for a free client",
            "clients waited for their documents: see feed-waits first"
            if figures.feed_waits
            else "more clients, or the cluster is slower than the rate",
            tally.waited / tally.due,
        )


def _achieved_ratio(figures: TaskFigures) -> float | None:
    """Return achieved rate / target rate; None in a closed loop, or where it cannot be determined.

    With a window: what completed in it over what was due in it. What is in flight at its end is not a miss, as far as
    Little's law expects it there. Without: the time that the arrivals had over the time that they took.
    """
    tally, task = figures.tally, figures.task
    if not tally.due or figures.inside_warmup:
        return None
    in_service_s = (tally.service_time.total_ns + tally.failed.total_ns) / NS
    if measured_period_s(task) is not None:
        in_flight = 1 + in_service_s / figures.window_s if figures.window_s > 0 else 0.0
        missed = figures.in_window + in_flight < _ENOUGH * tally.due or not figures.in_window
        return figures.in_window / tally.due if missed else 1.0
    if figures.target_requests_per_s is None or tally.due < 2 or not tally.requests:
        return None
    # each arrival has its gap, and the service time of the last one does not count against the rate
    due_s = tally.due / figures.target_requests_per_s
    taken_s = figures.window_s - in_service_s / tally.requests
    # gaps that were drawn may be long: the rate was kept all the same when nothing was sent late
    kept = due_s / (due_s + tally.schedule_lag.max_ns / NS)
    return max(kept, due_s / taken_s if taken_s > 0 else 1.0)


def _driver(figures: TaskFigures) -> Iterator[Check]:
    yield from _driver_lag(figures)
    if figures.driver_share_ratio is not None and figures.driver_share_ratio > 0.1:
        yield CheckKind.DRIVER_SHARE.warning(
            f"clients spent {figures.driver_share_ratio:.0%} of their time in the driver, which limits the throughput",
            _any_of(figures.more_workers, "fewer clients"),
            figures.driver_share_ratio,
        )
    if figures.feed_waits:
        yield CheckKind.FEED_WAITS.warning(
            f"{figures.feed_waits:,} times a request waited for its documents to be made or unpacked",
            "the driver limits the throughput: give it more cores; unpack files first (--corpus-cache=unpack)",
            figures.feed_waits,
        )


def _driver_lag(figures: TaskFigures) -> Iterator[Check]:
    """Check the percentile in which driver lag has the largest part, if that part is too large."""
    lag, reported = figures.driver_lag_ms or {}, figures.reported_ms or {}
    known = [name for name in lag if isfinite(reported.get(name, inf)) and name.startswith("p")]
    if not any(name != "p50" for name in known) and isfinite(reported.get("max", inf)):
        known.append("max")  # too few samples for any other
    parts = {name: lag[name] / reported[name] for name in known if lag.get(name, 0.0) > 0 and reported[name] > 0}
    too_much = [name for name, part in parts.items() if part > 0.5]
    noticed = [name for name, part in parts.items() if part > 0.1 and lag[name] > 0.5]
    if too_much:
        name = max(too_much, key=parts.__getitem__)
        yield CheckKind.DRIVER_LAG.unusable(
            f"driver lag {name} is {lag[name]:.2f} ms of {reported[name]:.2f} ms: the driver was the limit",
            _any_of(figures.more_workers, "give esbench its own cores", "lower the rate (see esbench calibrate)"),
            parts[name],
        )
    elif noticed:
        name = max(noticed, key=parts.__getitem__)
        yield CheckKind.DRIVER_LAG.warning(
            f"driver lag {name} is {lag[name]:.2f} ms of {reported[name]:.2f} ms",
            _any_of(figures.more_workers, "give esbench its own cores"),
            parts[name],
        )


def _where_failures_are(errors: Errors) -> str:
    timeouts = errors.counts.get(TIMEOUT, 0)
    if timeouts == errors.total:
        return "they rank as longer than all replies: see error_kinds in the record"
    if timeouts:
        return f"{timeouts:,} timeouts rank as longer than all replies, the others not: see error_kinds in the record"
    return "they are in no percentile: see error_kinds in the record"


def _replies(figures: TaskFigures) -> Iterator[Check]:
    tally = figures.tally
    if tally.errors.total and tally.requests:
        kind = max(tally.errors.counts, key=lambda name: tally.errors.counts[name])
        yield CheckKind.ERRORS.warning(
            f"{tally.errors.total:,} of {tally.requests:,} requests failed, most with {kind}: "
            f"{' '.join(tally.errors.examples[kind].split())[:200]}",
            _where_failures_are(tally.errors),
            tally.errors.total / tally.requests,
        )
    if figures.inside_warmup:
        yield CheckKind.INSIDE_WARMUP.warning(
            "the task ended inside its warmup: its figures are those of the warmup",
            "shorten the warmup or index more",
        )
    clamped = sum(getattr(tally, name).clamped for name in HISTOGRAMS)
    if clamped:
        yield CheckKind.CLAMPED.warning(
            f"{clamped} durations lay outside 0 to 24 h", "did the host's clock jump?", clamped
        )


def _drift(figures: TaskFigures) -> Iterator[Check]:
    if figures.drift_ratio is None or abs(figures.drift_ratio) <= 0.1:
        return
    what = "p50 latency" if figures.task.schedule.is_open else "throughput"
    moved = "rose" if figures.drift_ratio > 0 else "fell"
    yield CheckKind.DRIFT.warning(
        f"{what} {moved} by {abs(figures.drift_ratio):.0%} in the course of the measurement",
        "lengthen the warmup until it is level, or measure what changes: caches, merges, a growing index",
        figures.drift_ratio,
    )


def _health(figures: TaskFigures, workers: WorkerHealth | None) -> Iterator[Check]:
    """Check how busy and late the task's workers were while it was measured, and what CPU time their host took away."""
    if workers is None:
        return
    if workers.busy_ratio > BUSY_LIMIT or workers.busy_above_ratio > _OFTEN:
        busy = f"up to {workers.busy_ratio:.0%} of the time"
        if workers.busy_ratio <= BUSY_LIMIT:
            busy = f"over {BUSY_LIMIT:.0%} of the time in up to {workers.busy_above_ratio:.0%} of the measurement"
        yield CheckKind.DRIVER_BUSY.warning(
            f"load workers were busy, {busy}: replies waited for them, and count as slower",
            _any_of(figures.more_workers, "give the driver faster cores", "ask for less: fewer clients, a lower rate"),
            workers.busy_ratio,
        )
    if workers.run_delay_ratio > RUN_DELAY_LIMIT:
        yield CheckKind.RUN_DELAY.warning(
            f"load workers had to wait for a CPU, up to {workers.run_delay_ratio:.0%} of the time",
            "give esbench its own machine, or at least its own cores",
            workers.run_delay_ratio,
        )
    if workers.steal_ratio > STEAL_LIMIT:
        yield CheckKind.STEAL.warning(
            f"the hypervisor took CPUs of the load workers away, up to {workers.steal_ratio:.0%} of the time",
            "race on a host that does not share its CPUs",
            workers.steal_ratio,
        )
    reported_ms = (figures.reported_ms or {}).get("p99", 0.0)
    # late for 1 % of the time: the p99 feels it
    if workers.loop_lag_ratio > LOOP_LAG_LIMIT and workers.loop_lag_ratio * 1000 > reported_ms / 10:
        yield CheckKind.LOOP_LAG.warning(
            f"a load worker reacted late, {workers.loop_lag_ratio * 1000:.0f} ms in an average second "
            f"and {workers.loop_lag_ms:.0f} ms at worst",
            _any_of(
                figures.more_workers,
                "give esbench its own cores",
                "race the tasks of a parallel one by one",
            ),
            workers.loop_lag_ratio,
        )
