"""Tasks and seconds of a race that somebody follows, and a clock that is set by hand."""

from __future__ import annotations

from typing import Any

from bound import bound_operation

from esbench.measure.tally import Second, Tally
from esbench.measure.verdict import Evidence
from esbench.model import Schedule, Task
from esbench.units import Rate


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def task(name: str = "get", rate: float | None = None, kind: str = "get", **keys: Any) -> Task:
    keys.setdefault("schedule", Schedule(rate=None if rate is None else Rate(rate, "ops")))
    return Task(name, bound_operation(name, kind), **keys)


def second(
    number: int, requests: int, ms: float = 1.0, *, errors: int = 0, units: float | None = None, warmup: bool = False
) -> Second:
    """A second in which so many requests were completed, each in that time; the failed ones as 404s."""
    tally = Tally()
    tally.due = tally.sent = tally.requests = requests
    tally.units = requests - errors if units is None else units
    for _ in range(requests - errors):
        tally.latency.add(round(ms * 1e6))
        tally.service_time.add(round(ms * 1e6))
        tally.schedule_lag.add(round(ms * 1e5))
    for _ in range(errors):
        tally.errors.add("not found", "it is not there", evidence=Evidence("GET /"))
    return Second(number, warmup, tally)
