"""Whether a task's figures may be used: statements with cause and remedy (docs/method.md, checks). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from esbench.load.health import WorkerHealth
from esbench.load.recorder import MEASURES, Tally
from esbench.load.schedule import measured_period_s
from esbench.model import Task
from esbench.record import Check

NS = 1_000_000_000
WARNING = "warning"
UNUSABLE = "unusable"
NEVER_BEGUN = Check(
    "never-begun",
    WARNING,
    "the task never began: its step ended before its clients were free",
    'give the "parallel" more clients, or leave out its "completed-by"',
)
_ENOUGH = 0.99  # of the target rate


@dataclass(frozen=True)
class TaskFigures:
    """What the checks look at.

    `in_window` requests completed in the window; `target_requests_per_s` is None where the rate is not constant over
    it. `reported_ms` is latency in an open loop, service time in a closed one. `backlog_rise` is by how many arrivals
    the line grew, `drift_ratio` how far throughput (closed loop) or median latency (open) moved over the measurement;
    None when that is chance, or cannot be told.
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


def task_checks(figures: TaskFigures, workers: WorkerHealth) -> tuple[Check, ...]:
    """Every statement that holds against the figures; none when they can be trusted."""
    return (*_rate(figures), *_driver(figures), *_drift(figures), *_replies(figures), *_health(figures, workers))


def incomplete(reason: str) -> Check:
    """Of a task that was not ended by all of its workers."""
    return Check("incomplete", UNUSABLE, f"{reason}: what it had not reported by then is missing", "race again")


def lost_hosts(hosts: Sequence[str], count: int) -> Check:
    """Of a task during which some of the cluster's `count` hosts could not be reached."""
    return Check(
        "lost-hosts",
        WARNING,
        f"{len(hosts)} of {count} hosts could not be reached for a time: {', '.join(hosts)}",
        "their clients used the other hosts, if any: see events in the record",
        len(hosts),
    )


def _rate(figures: TaskFigures) -> Iterator[Check]:
    tally = figures.tally
    if figures.unsent:
        yield Check(
            "unsent",
            UNUSABLE,
            f"{figures.unsent} arrivals were due and never sent",
            "the cluster cannot carry the rate with so many clients: lower the rate, or add clients",
            figures.unsent,
        )
    elif figures.backlog_rise is not None and figures.backlog_rise > figures.task.clients:
        yield Check(
            "backlog",
            UNUSABLE,
            f"the line of arrivals that waited for a client grew by {figures.backlog_rise:,.0f}",
            "the cluster is overloaded, latency is undefined: lower the rate, or add clients",
            figures.backlog_rise,
        )
    achieved = _achieved_ratio(figures)
    if achieved is not None and achieved < _ENOUGH:
        yield Check(
            "target-rate",
            UNUSABLE,
            f"only {achieved:.1%} of the target rate was reached",
            "the cluster is overloaded, latency is undefined: lower the rate",
            achieved,
        )
    if tally.due and tally.waited / tally.due > 0.01:
        yield Check(
            "client-limited",
            WARNING,
            f"{tally.waited / tally.due:.1%} of the arrivals found no free client",
            "more clients, or the cluster is slower than the rate",
            tally.waited / tally.due,
        )


def _achieved_ratio(figures: TaskFigures) -> float | None:
    """How much of the target rate was reached; None in a closed loop, or where it cannot be told.

    With a window: what completed in it over what was due in it. What is in flight at its end is no miss, as far as
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
    # n arrivals span n - 1 gaps, and the service time of the last one does not count against the rate
    due_s = (tally.due - 1) / figures.target_requests_per_s
    taken_s = figures.window_s - in_service_s / tally.requests
    # gaps that were drawn may be long: the rate was kept all the same when nothing was sent late
    kept = due_s / (due_s + tally.schedule_lag.max_ns / NS)
    return max(kept, due_s / taken_s if taken_s > 0 else 1.0)


def _driver(figures: TaskFigures) -> Iterator[Check]:
    lag, reported = figures.driver_lag_ms, figures.reported_ms
    if lag is not None and reported is not None and "p99" in lag and "p99" in reported:
        lag_ms, reported_ms = lag["p99"], reported["p99"]
        if lag_ms > reported_ms / 2:
            yield Check(
                "driver-lag",
                UNUSABLE,
                f"driver lag p99 is {lag_ms:.2f} ms of {reported_ms:.2f} ms: the driver was the limit",
                "give the driver cores of its own, lower the rate (see esbench calibrate), or add workers",
                lag_ms / reported_ms,
            )
        elif lag_ms > max(0.5, reported_ms / 10):
            yield Check(
                "driver-lag",
                WARNING,
                f"driver lag p99 is {lag_ms:.2f} ms of {reported_ms:.2f} ms",
                "give the driver cores of its own, or add workers",
                lag_ms / reported_ms,
            )
    if figures.driver_share_ratio is not None and figures.driver_share_ratio > 0.1:
        yield Check(
            "driver-share",
            WARNING,
            f"clients spent {figures.driver_share_ratio:.0%} of their time in the driver: this is its throughput",
            "add workers, or fewer clients",
            figures.driver_share_ratio,
        )
    if figures.feed_waits:
        yield Check(
            "feed-waits",
            WARNING,
            f"{figures.feed_waits:,} times a request waited for its documents to be made or unpacked",
            "the throughput is the driver's: give it more cores; unpack files first (--corpus-cache=unpack)",
            figures.feed_waits,
        )


def _replies(figures: TaskFigures) -> Iterator[Check]:
    tally = figures.tally
    if tally.errors.total and tally.requests:
        kind = max(tally.errors.counts, key=lambda name: tally.errors.counts[name])
        yield Check(
            "errors",
            WARNING,
            f"{tally.errors.total:,} of {tally.requests:,} requests failed, most with {kind}: "
            f"{' '.join(tally.errors.examples[kind].split())[:200]}",
            "they are in no percentile: see error_kinds in the record",
            tally.errors.total / tally.requests,
        )
    if figures.inside_warmup:
        yield Check(
            "inside-warmup",
            WARNING,
            "the task ended inside its warmup: its figures are those of the warmup",
            "shorten the warmup or index more",
        )
    clamped = sum(getattr(tally, measure).clamped for measure in MEASURES)
    if clamped:
        yield Check(
            "clamped", WARNING, f"{clamped} durations lay outside 0 to 24 h", "did the host's clock jump?", clamped
        )


def _drift(figures: TaskFigures) -> Iterator[Check]:
    if figures.drift_ratio is None or abs(figures.drift_ratio) <= 0.1:
        return
    what = "p50 latency" if figures.task.schedule.is_open else "throughput"
    moved = "rose" if figures.drift_ratio > 0 else "fell"
    yield Check(
        "drift",
        WARNING,
        f"{what} {moved} by {abs(figures.drift_ratio):.0%} in the course of the measurement",
        "lengthen the warmup until it is level, or measure what changes: caches, merges, a growing index",
        figures.drift_ratio,
    )


def _health(figures: TaskFigures, workers: WorkerHealth) -> Iterator[Check]:
    """How the workers fared while the task's step ran, and what their host did to them."""
    if workers.busy_ratio > 0.9:
        yield Check(
            "driver-busy",
            WARNING,
            f"a load worker was busy {workers.busy_ratio:.0%} of the time: replies waited for it, and count as slower",
            "give the driver more cores and workers, or ask for less: fewer clients, a lower rate",
            workers.busy_ratio,
        )
    if workers.run_delay_ratio > 0.05:
        yield Check(
            "run-delay",
            WARNING,
            f"a load worker waited for a CPU {workers.run_delay_ratio:.0%} of the time",
            "run the driver on a machine, or at least on cores, of its own",
            workers.run_delay_ratio,
        )
    if workers.steal_ratio > 0.05:
        yield Check(
            "steal",
            WARNING,
            f"the hypervisor took a CPU of the load workers away {workers.steal_ratio:.0%} of the time",
            "race on a host that shares its CPUs with nobody",
            workers.steal_ratio,
        )
    reported_ms = (figures.reported_ms or {}).get("p99", 0.0)
    # late for 1 % of the time: the p99 feels it
    if workers.loop_lag_ratio > 0.01 and workers.loop_lag_ratio * 1000 > reported_ms / 10:
        yield Check(
            "loop-lag",
            WARNING,
            f"the event loop of a load worker was late by {workers.loop_lag_ratio * 1000:.0f} ms in a mean second, "
            f"once by {workers.loop_lag_ms:.0f} ms",
            "give the driver cores of its own, add workers, or race the tasks of a parallel one by one",
            workers.loop_lag_ratio,
        )
