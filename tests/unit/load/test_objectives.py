"""Objectives of a task against what was counted of it: held, missed, or not judged, and why."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Any

import pytest

from esbench.load.objectives import judged
from esbench.measure.objectives import parse_objective
from esbench.measure.tally import Errors, Tally
from esbench.measure.verdict import TIMEOUT
from esbench.model import Operation, Schedule, Task
from esbench.record.model import Check, CheckKind, ObjectiveResult, Throughput
from esbench.units import Rate

MS = 1_000_000
DRIVER = CheckKind.DRIVER_LAG.unusable("driver lag p99 is 9 ms of 10 ms", "add workers")
RATE = CheckKind.TARGET_RATE.unusable("only 80.0% of the target rate was reached", "lower the rate")
WARMUP = CheckKind.INSIDE_WARMUP.warning("the task ended inside its warmup: its figures are those of it", "")
BUSY = CheckKind.DRIVER_BUSY.warning("load workers were busy", "")


def judge(
    written: str,
    *times_ms: float,
    failed: int = 0,
    timed_out: int = 0,
    unsent: int = 0,
    per_s: float | None = 100.0,
    checks: Sequence[Check] = (),
    is_open: bool = True,
) -> ObjectiveResult:
    """Judge one objective by requests that were answered well after `times_ms`, and others."""
    schedule = Schedule(rate=Rate(100.0, "ops")) if is_open else Schedule()
    task = Task("read", Operation("read", "get"), schedule=schedule, objectives=(parse_objective(written),))
    tally = Tally(requests=len(times_ms) + failed + timed_out, within=[0] * len(task.limits_ms))
    good = tally.latency if is_open else tally.service_time
    beyond = tally.latency_beyond if is_open else tally.service_time_beyond
    for time_ms in times_ms:
        good.add(round(time_ms * MS))
        if (place := bisect_left(task.limits_ms, time_ms)) < len(task.limits_ms):
            tally.within[place] += 1
    tally.errors = _errors(failed, timed_out)
    for _ in range(timed_out + unsent):
        beyond.add(60_000 * MS)
    (result,) = judged(task, tally, unsent, Throughput("ops", per_s), checks)
    return result


def _errors(failed: int, timed_out: int) -> Errors:
    errors = Errors()
    for kind, count in (("HTTP 429", failed), (TIMEOUT, timed_out)):
        if count:
            errors.add(kind, kind, count)
    return errors


FAST, SLOW = [1.0] * 990, [60.0] * 10


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize(
    ("written", "times", "others", "held", "value"),
    [
        ("p99<50ms", FAST + SLOW, {}, True, 1.0),
        ("p99<50ms", FAST[1:] + SLOW, {}, False, 60.0),
        ("within 50ms>=99%", FAST + SLOW, {}, True, 99.0),
        ("within 50ms>99%", FAST + SLOW, {}, False, 99.0),
        ("p50<1ms", [1.0], {}, True, 1.0),  # at the limit is within it, as of within-ms
        ("p100<60ms", FAST + SLOW, {}, True, 60.0),
        ("within 59ms>=100%", FAST + SLOW, {}, False, 99.0),
        ("p99<50ms", FAST, {"failed": 10}, True, 1.0),
        ("p99<50ms", FAST, {"failed": 11}, False, None),
        ("p99<50ms", FAST, {"timed_out": 11}, False, None),
        ("p99<50ms", FAST, {"unsent": 11}, False, None),
        ("mean<5ms", FAST + SLOW, {}, True, 1.59),
        ("mean<1.59ms", FAST + SLOW, {}, False, 1.59),
        ("mean<5ms", FAST, {"timed_out": 10}, False, 600.99),
        ("errors<1%", FAST, {"failed": 10}, False, 1.0),
        ("errors<=1%", FAST, {"failed": 10}, True, 1.0),
        ("errors<=0%", [1.0], {}, True, 0.0),
        ("throughput>=100", [1.0], {}, True, 100.0),
        ("throughput>100", [1.0], {}, False, 100.0),
    ],
)
def test_an_objective_is_held_or_missed(
    is_open: bool, written: str, times: list[float], others: dict[str, Any], held: bool, value: float | None
) -> None:
    result = judge(written, *times, **others, is_open=is_open)
    assert result.holds is held
    assert result.value == (None if value is None else pytest.approx(value, rel=1e-3))
    assert result.unit == {"p": "ms", "m": "ms", "t": "ops/s"}.get(written[0], "%")
    assert bool(result.reason) == (value is None)


def test_a_percentile_that_is_held_is_not_above_its_limit() -> None:
    """The end of its bucket is: up to 0.1 %."""
    result = judge("p50<50ms", 50.0, 50.0, 50.1)
    assert (result.holds, result.value) == (True, 50.0)


def test_a_percentile_among_late_requests_without_a_time_says_how_many_they_are() -> None:
    assert judge("p99<50ms", *FAST, failed=110).reason == "10.0% of the requests were late, failed or never sent"


@pytest.mark.parametrize(
    ("written", "times", "others", "reason"),
    [
        ("p99<50ms", FAST[:367], {}, "367 requests are too few for p99"),
        ("within 50ms>=99%", FAST[:367], {}, "367 requests are too few for p99"),
        ("p99<50ms", [], {}, "no request was measured"),
        ("errors<1%", [], {}, "no request was measured"),
        ("mean<5ms", [], {"failed": 3}, "nothing was completed in the measurement"),
        ("throughput>5", FAST, {"per_s": None}, "nothing was completed in the measurement"),
        ("mean<90s", FAST, {"timed_out": 1}, "1 requests timed out: how long they would have taken is not known"),
        ("p99<50ms", FAST, {"checks": [DRIVER]}, DRIVER.message),
        ("errors<1%", FAST, {"checks": [RATE, DRIVER]}, DRIVER.message),
        ("p99<50ms", FAST, {"checks": [WARMUP]}, "the task ended inside its warmup"),
    ],
)
def test_what_cannot_be_judged_says_why(written: str, times: list[float], others: dict[str, Any], reason: str) -> None:
    result = judge(written, *times, **others)
    assert (result.holds, result.reason) == (None, reason)


def test_where_the_rate_was_missed_no_objective_on_times_is_held() -> None:
    for written in ("p99<50ms", "within 50ms>=99%", "mean<5ms"):
        result = judge(written, *FAST, checks=[BUSY, RATE])
        assert (result.holds, result.reason) == (False, RATE.message)
    assert judge("errors<1%", *FAST, checks=[RATE]).holds
    assert judge("throughput>=100", *FAST, checks=[RATE]).holds
