"""Judgement of a task's objectives by what was counted of it (docs/method.md, objectives). Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class _Counted:
    """The figures of a task that its objectives are judged by, as of `judged`."""

    task: Task
    tally: Tally
    unsent: int
    throughput: Throughput
    checks: Sequence[Check]

    def judge(self, objective: Objective) -> ObjectiveResult:
        value, reason, held = self._value(objective), "", None
        is_of_times = objective.kind not in ("errors", "throughput")
        if spoilt := self._spoilt:
            reason = spoilt
        elif is_of_times and (missed := self._missed_rate):
            held, reason = False, missed
        elif unknown := self._unknown(objective, value):
            reason = unknown
        elif objective.is_share:
            held = allows(objective, *self._counted(objective))
            if value is None:
                late, requests = self._counted(objective)
                reason = f"{late / requests:.1%} of the requests were late, failed or never sent"
            elif held and objective.kind == "percentile":
                value = min(value, objective.bound)  # the end of a histogram's bucket may lie beyond the exact limit
        else:
            held = value is not None and is_held(objective, value)
        return ObjectiveResult(objective.text, value, objective.unit or f"{self.throughput.unit}/s", held, reason)

    @property
    def _spoilt(self) -> str:
        """The reason why no figure of the task says whether an objective is held; else empty."""
        unmeasured = [check.message.partition(": ")[0] for check in self.checks if check.name in _NOT_MEASURED]
        unusable = [check.message for check in self.checks if check.level == "unusable" and check.subject != "rate"]
        return next(iter(unmeasured + unusable), "")

    @property
    def _missed_rate(self) -> str:
        """The reason why the cluster did not carry the target rate; empty if it did."""
        rates = (check for check in self.checks if check.level == "unusable" and check.subject == "rate")
        return next((check.message for check in rates), "")

    def _unknown(self, objective: Objective, value: float | None) -> str:
        """Return the reason why the figure does not say whether an objective is held; else empty."""
        if not self._all:
            return "no request was measured"
        if objective.limit_ms is not None:
            rank = objective.of if objective.kind == "percentile" else objective.bound
            enough = rank == 100 or supported((rank,), self._all)  # of all requests, none is late: any number says that
            return "" if enough else f"{self._all:,} requests are too few for p{rank:g}"
        if value is None:
            return "nothing was completed in the measurement"
        _, beyond = self._response
        if objective.kind == "mean" and beyond.count and is_held(objective, value):
            return f"{beyond.count:,} requests timed out: how long they would have taken is not known"
        return ""

    def _counted(self, objective: Objective) -> tuple[int, int]:
        """Return the number of requests that are late or, of errors, failed; and that of all requests."""
        if objective.limit_ms is None:
            return self.tally.errors.total, self.tally.requests
        return self._all - self._within(objective.limit_ms), self._all

    def _value(self, objective: Objective) -> float | None:
        """Return the figure of an objective in its unit; None if it is not known.

        Failed requests, and those that were never sent, rank as later than every reply. The mean counts requests that
        timed out with the time after which they were given up.
        """
        if objective.kind == "throughput":
            return self.throughput.mean
        if objective.kind == "mean":
            known = Counts()
            for counts in self._response:
                known.merge(counts)
            return known.mean_ns / 1e6 if known.buckets else None
        if objective.kind == "percentile":
            good, _ = self._response
            ns = percentiles_ns(good, (objective.of,), self._all - good.count).get(objective.of, inf)
            return ns / 1e6 if isfinite(ns) else None
        count, requests = self._counted(objective)
        if not requests:
            return None
        return 100 * (count if objective.kind == "errors" else requests - count) / requests

    def _within(self, limit_ms: float) -> int:
        return self.tally.within_limits(self.task.limits_ms)[limit_ms]

    @property
    def _all(self) -> int:
        """The number of requests: good, failed and never sent."""
        return self.tally.requests + self.unsent

    @property
    def _response(self) -> tuple[Counts, Counts]:
        return self.tally.response(self.task.schedule.is_open)
