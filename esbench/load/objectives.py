"""Judgement of a task's objectives by what was counted of it (docs/method.md, objectives). Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import inf, isfinite

from esbench.measure.histogram import Counts, percentiles_ns, supported
from esbench.measure.objectives import allows, is_held
from esbench.measure.tally import Tally
from esbench.model import Objective, Task
from esbench.record.model import Check, CheckKind, ObjectiveResult, Throughput

_NOT_MEASURED = (CheckKind.INSIDE_WARMUP.label, CheckKind.NEVER_BEGUN.label)


def judged(
    task: Task, tally: Tally, unsent: int, throughput: Throughput, checks: Sequence[Check]
) -> tuple[ObjectiveResult, ...]:
    """Return how a task's figures hold its objectives, in their order.

    `tally` is that of its measurement, `unsent` the number of arrivals that were due and never sent, `checks` those
    that failed. An objective is not judged if a check says that the figures must not be used, unless it is about the
    rate: where the cluster did not carry that, no objective on latency is held.
    """
    figures = _Counted(task, tally, unsent, throughput, checks)
    return tuple(figures.judge(objective) for objective in task.objectives)


def within_limits(task: Task, tally: Tally) -> dict[float, int]:
    """Return the number of good replies within each of a task's thresholds, by threshold in ms."""
    limits = task.limits_ms
    return dict(zip(limits, accumulate(tally.within or [0] * len(limits)), strict=True))


@dataclass(frozen=True)
class _Counted:
    task: Task
    tally: Tally
    unsent: int
    throughput: Throughput
    checks: Sequence[Check]

    def judge(self, objective: Objective) -> ObjectiveResult:
        value = self._value(objective)
        held, reason = self._held(objective, value)
        if held and value is not None and objective.kind == "percentile":
            value = min(value, objective.bound)  # the end of a histogram's bucket may lie beyond the exact limit
        return ObjectiveResult(objective.text, value, objective.unit or f"{self.throughput.unit}/s", held, reason)

    def _held(self, objective: Objective, value: float | None) -> tuple[bool | None, str]:
        """Return whether an objective is held, None if that is not judged, and the reason where there is one."""
        if (reason := next(self._spoilt(), None)) is not None:
            return None, reason
        if not self._all:
            return None, "no request was measured"
        is_of_times = objective.kind not in ("errors", "throughput")
        if is_of_times and (missed := [check.message for check in self._unusable if check.subject == "rate"]):
            return False, missed[0]
        if objective.is_share:
            return self._share_held(objective, value)
        if value is None:
            return None, "nothing was completed in the measurement window"
        beyond = self._beyond.count if objective.kind == "mean" else 0
        if beyond and is_held(objective, value):
            return None, f"{beyond:,} requests timed out: their times are not known"
        return is_held(objective, value), ""

    def _share_held(self, objective: Objective, value: float | None) -> tuple[bool | None, str]:
        if objective.limit_ms is None:
            return allows(objective, self.tally.errors.total, self.tally.requests), ""
        rank = objective.of if objective.kind == "percentile" else objective.bound
        if rank < 100 and not supported((rank,), self._all):
            return None, f"{self._all:,} requests are too few for p{rank:g}"
        late = self._all - self._within(objective.limit_ms)
        reason = "" if value is not None else f"{late / self._all:.1%} of the requests were late, failed or never sent"
        return allows(objective, late, self._all), reason

    def _value(self, objective: Objective) -> float | None:
        """Return the figure of an objective in its unit; None if it is not known."""
        if objective.kind == "throughput":
            return self.throughput.mean
        if objective.kind == "errors":
            return 100 * self.tally.errors.total / self.tally.requests if self.tally.requests else None
        if objective.kind == "within":
            return 100 * self._within(objective.of) / self._all if self._all else None
        if objective.kind == "mean":
            known = Counts()
            known.merge(self._good)
            known.merge(self._beyond)
            return known.mean_ns / 1e6 if known.count else None
        ns = percentiles_ns(self._good, (objective.of,), self._all - self._good.count).get(objective.of, inf)
        return ns / 1e6 if isfinite(ns) else None

    def _within(self, limit_ms: float) -> int:
        return within_limits(self.task, self.tally)[limit_ms]

    @property
    def _all(self) -> int:
        """The number of requests: good, failed and never sent."""
        return self.tally.requests + self.unsent

    @property
    def _good(self) -> Counts:
        return self.tally.latency if self.task.schedule.is_open else self.tally.service_time

    @property
    def _beyond(self) -> Counts:
        return self.tally.latency_beyond if self.task.schedule.is_open else self.tally.service_time_beyond

    @property
    def _unusable(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if check.level == "unusable")

    def _spoilt(self) -> Iterator[str]:
        """Yield the reasons why no figure of the task says whether an objective is held."""
        yield from (check.message.partition(": ")[0] for check in self.checks if check.name in _NOT_MEASURED)
        yield from (check.message for check in self._unusable if check.subject != "rate")
