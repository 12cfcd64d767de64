"""Whether a task's figures may be used: statements with cause and remedy (docs/method.md, checks). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from esbench.load.recorder import Tally
from esbench.model import Task
from esbench.record import Check

OK = "ok"
WARNING = "warning"
UNUSABLE = "unusable"


@dataclass(frozen=True)
class WorkerHealth:
    """The driver's own state while a task ran: the worst worker's run delay as a share of the time, and lag."""

    run_delay_ratio: float = 0.0
    loop_lag_ms: float = 0.0


@dataclass(frozen=True)
class TaskFigures:
    """What the checks look at.

    `in_window` requests completed in the window; `reported_ms` is latency in an open loop, service time in a closed
    one.
    """

    task: Task
    tally: Tally
    in_window: int
    window_s: float
    throughput: float | None
    target_units_per_s: float | None
    unsent: int
    backlog: int
    reported_ms: Mapping[str, float] | None
    driver_lag_ms: Mapping[str, float] | None
    driver_share_ratio: float | None
    inside_warmup: bool
    feed_waits: int


def task_checks(figures: TaskFigures, workers: WorkerHealth) -> tuple[Check, ...]:
    """Every statement that holds against the figures; none when they can be trusted."""
    checks = [*_rate(figures), *_driver(figures), *_replies(figures)]
    if workers.run_delay_ratio > 0.05:
        checks.append(
            Check(
                "run-delay",
                WARNING,
                f"a load worker waited for a CPU {workers.run_delay_ratio:.0%} of the time",
                "run the driver on a machine, or at least on cores, of its own",
            )
        )
    return tuple(checks)


def _rate(figures: TaskFigures) -> Iterator[Check]:
    tally = figures.tally
    if figures.unsent:
        yield Check(
            "unsent",
            UNUSABLE,
            f"{figures.unsent} arrivals were due and never sent",
            "the cluster cannot carry the rate with so many clients: lower the rate, or add clients",
        )
    achieved = _achieved_ratio(figures)
    if achieved is not None and achieved < 0.99:
        yield Check(
            "target-rate",
            UNUSABLE,
            f"only {achieved:.1%} of the target rate was reached",
            "the cluster is overloaded, latency is undefined: lower the rate",
        )
    if tally.due and tally.waited / tally.due > 0.01:
        yield Check(
            "client-limited",
            WARNING,
            f"{tally.waited / tally.due:.1%} of the arrivals found no free client",
            "more clients, or the cluster is slower than the rate",
        )


def _achieved_ratio(figures: TaskFigures) -> float | None:
    """What completed in the window over what was due in it; without a window, throughput over the target."""
    tally = figures.tally
    if not tally.due:
        return None
    if figures.task.is_time_based or figures.task.schedule.stages:
        return figures.in_window / tally.due
    if figures.target_units_per_s is None or figures.throughput is None or tally.due < 2:
        return None
    # n arrivals span n - 1 gaps: the last one's own time does not count against the rate
    return figures.throughput / figures.target_units_per_s * (1 + 1 / tally.due)


def _driver(figures: TaskFigures) -> Iterator[Check]:
    lag, reported = figures.driver_lag_ms, figures.reported_ms
    if lag is not None and reported is not None and "p99" in lag and "p99" in reported:
        lag_ms, reported_ms = lag["p99"], reported["p99"]
        if lag_ms > reported_ms / 2:
            yield Check(
                "driver-lag",
                UNUSABLE,
                f"driver lag p99 is {lag_ms:.2f} ms of {reported_ms:.2f} ms: the driver was the limit",
                "give the driver cores of its own, lower the rate, or add workers",
            )
        elif lag_ms > max(0.5, reported_ms / 10):
            yield Check(
                "driver-lag",
                WARNING,
                f"driver lag p99 is {lag_ms:.2f} ms of {reported_ms:.2f} ms",
                "give the driver cores of its own, or add workers",
            )
    if figures.driver_share_ratio is not None and figures.driver_share_ratio > 0.1:
        yield Check(
            "driver-share",
            WARNING,
            f"clients spent {figures.driver_share_ratio:.0%} of their time in the driver: this is its throughput",
            "add workers, or fewer clients",
        )
    if figures.feed_waits:
        yield Check(
            "feed-waits",
            WARNING,
            f"{figures.feed_waits} times a request waited for its document to be made",
            "the throughput is the generator's: give the driver more cores",
        )


def _replies(figures: TaskFigures) -> Iterator[Check]:
    tally = figures.tally
    if tally.errors.total and tally.requests:
        kind = max(tally.errors.counts, key=lambda name: tally.errors.counts[name])
        yield Check(
            "errors",
            WARNING,
            f"{tally.errors.total / tally.requests:.2%} of the requests failed, most with {kind}: "
            f"{tally.errors.examples[kind]}",
            "see error_kinds in the record",
        )
    if figures.inside_warmup:
        yield Check(
            "inside-warmup",
            WARNING,
            "the task ended inside its warmup: its figures are those of the warmup",
            "shorten the warmup or index more",
        )
    clamped = tally.latency.clamped + tally.service_time.clamped + tally.driver_lag.clamped
    if clamped:
        yield Check("clamped", WARNING, f"{clamped} durations lay outside 0 to 24 h", "did the host's clock jump?")
