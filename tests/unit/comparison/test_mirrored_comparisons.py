"""Swapping the sides mirrors everything that is said of them: whole comparisons of drawn races."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import pytest
from races import golden_race, with_task

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Estimate, Side
from esbench.comparison.reasons import FASTER, SLOWER
from esbench.measure.histogram import Counts, encode
from esbench.record.model import Check, RaceRecord, Session, Throughput, Window
from esbench.record.series import SecondLine

CLOSED, OPEN = "get-by-id", "get-by-id-open"
_WHOLE = golden_race()
GOLDEN = replace(_WHOLE, tasks=tuple(task for task in _WHOLE.tasks if task.name in (CLOSED, OPEN)))
LONG = Counts()
LONG.add(3_600 * 10**9)
MIRRORED = {FASTER: SLOWER, SLOWER: FASTER}
CHECKS = [Check("target-rate", "unusable", "missed"), Check("driver-lag", "unusable", "the driver was the limit")]
IN_TURN = (1, 4, 6, 7, 2, 3, 5, 8)
NOTES = (
    "only the time that requests waited",
    "near saturation",
    "lag changed",
    "not comparable",
    "seconds",
    "reached",
    "requests failed",
)


@dataclass(frozen=True)
class Setup:
    """What the races of a side are like: drawn once for all of them."""

    level: float  # of durations
    spread: float
    lag_ms: float
    busy_ms: float
    most_errors: int
    check: Check
    missed: float  # in which share of the races
    odd: float  # in which share of them something is missing


def setup(draws: random.Random, spread: float, odd: float) -> Setup:
    return Setup(
        level=draws.choice([1.0, 1.0, 1.03, 1.3, 0.8]),
        spread=spread,
        lag_ms=draws.choice([0.0, 0.0, 0.5]),
        busy_ms=draws.choice([0.01, 30.0]),
        most_errors=draws.choice([0, 0, 4_000]),
        check=draws.choice(CHECKS),
        missed=draws.choice([0.0, 0.0, 0.5, 1.0]),
        odd=odd,
    )


def race(draws: random.Random, race_id: str, of: Setup, **more: Any) -> RaceRecord:
    """A race of a closed and an open task."""

    def around(value: float) -> float:
        return value * of.level * draws.lognormvariate(0, of.spread)

    def is_odd() -> bool:
        return draws.random() < of.odd

    p50, service, lag = around(2.0), around(1.0), of.lag_ms * draws.random()
    common: dict[str, Any] = {
        "throughput": Throughput("docs", None if is_odd() else 20_000 / around(1.0)),
        "requests": 900 if is_odd() else 40_000,
        "errors": int(of.most_errors * draws.random()),
        "service_time_ms": {"mean": of.busy_ms, "p50": service, "p99": 3 * around(1.0), "max": 99.0},
        "window": Window(0, 100),
        "checks": (),
    }
    latency = {
        "latency_ms": {"p50": p50, "p99": around(6.0), "max": 99.0},
        "driver_lag_ms": {"p50": lag, "p99": 3 * lag},
        "checks": (of.check,) if draws.random() < of.missed else (),
        "unsent": 0,
    }
    kept = draws.choice(["few", "none"]) if is_odd() else "all"
    record = replace(GOLDEN, race_id=race_id, user_tags={"seconds": kept}, **more)
    return with_task(with_task(record, CLOSED, **common), OPEN, **common | latency)


def seconds(record: RaceRecord) -> list[SecondLine]:
    """All durations are beyond every percentile; of some races the seconds are few, or missing."""
    encoded = encode(LONG)
    return [
        SecondLine(task, second, "measurement", 0, 1, 1, 1.0, latency=encoded, service_time=encoded)
        for task in (CLOSED, OPEN)
        for second in range({"all": 8, "few": 3, "none": 0}[record.user_tags["seconds"]])
    ]


def drawn(draws: random.Random) -> tuple[Side, Side, CompareOptions]:
    """Two sides of one to four rounds, in turn or not, with a history or without, that differ in much or in nothing."""
    spread, odd = draws.choice([0.001, 0.02, 0.1]), draws.choice([0.0, 0.0, 0.1])
    count = draws.choice([(4, 4), (4, 4), (4, 4), (4, 3), (1, 4), (1, 1)])
    places = list(IN_TURN) if count == (4, 4) and draws.random() < 0.8 else list(range(1, sum(count) + 1))
    sides = []
    for name, rounds in zip("ab", count, strict=True):
        of, host = setup(draws, spread, odd), draws.choice(["4 cores"] + ["2 cores"] * 9)
        records = []
        for number in range(1, rounds + 1):
            session = Session("s", "duel", name, number, number, places.pop(0))
            started_at = f"2026-11-21T1{session.position}:00:00Z"
            record = race(draws, f"{name}{number}", of, session=session, started_at=started_at, host_class=host)
            records.append(record)
        sides.append(Side(name, tuple(records), "s"))
    before = setup(draws, spread, 0.0)
    options = CompareOptions(
        seconds=seconds,
        history=tuple(race(draws, f"h{number}", before) for number in range(draws.choice([0, 4, 7]))),
        looks=draws.choice([1, 3]),
        min_effect_ratio=draws.choice([None, 0.01]),
        allow=draws.choice([(), ("host",)]),
    )
    return sides[0], sides[1], options


def said(compared: Comparison) -> dict[tuple[str, str], tuple[str, float | None, Estimate | None, list[str]]]:
    """What a comparison says of each row."""
    found = {}
    for row in compared.pairs[0].rows:
        kind, p, note = (row.verdict.reason.v1, row.verdict.p, row.verdict.note) if row.verdict else ("", None, "")
        found[row.metric, row.task] = (kind, p, row.estimate, [each for each in NOTES if each in note])
    return found


def assert_mirrored(one: Estimate | None, other: Estimate | None) -> None:
    if one is None or other is None:
        assert one is other
        return
    assert (other.ratio, other.low, other.high) == pytest.approx((1 / one.ratio, 1 / one.high, 1 / one.low), rel=1e-6)
    assert (other.p, other.residual_sd) == pytest.approx((one.p, one.residual_sd), rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("begin", range(0, 100, 50))
def test_swapping_the_sides_mirrors_verdicts_intervals_and_the_speed_ratio(begin: int) -> None:
    kinds, methods = set(), set()
    for seed in range(begin, begin + 50):
        one, other, options = drawn(random.Random(seed))
        forth, back = compare(one, [other], options), compare(other, [one], options)
        assert (back.tested, back.looks, back.history) == (forth.tested, forth.looks, forth.history)
        ours, theirs = said(forth), said(back)
        assert set(ours) == set(theirs)
        for name, (kind, p, estimate, notes) in ours.items():
            assert theirs[name][0] == MIRRORED.get(kind, kind), (seed, name)
            assert (theirs[name][1] or 0.0) == pytest.approx(p or 0.0, rel=1e-6), (seed, name)
            assert_mirrored(estimate, theirs[name][2])
            assert theirs[name][3] == notes, (seed, name)
            kinds.add(kind)
            methods.add(estimate.method if estimate else "")
        assert_mirrored(forth.pairs[0].speed_ratio, back.pairs[0].speed_ratio)
    assert {"faster", "slower", "~", "!", "! errors", "few events", "session-only"} <= kinds
    assert methods == {"", "interleaved", "history", "independent"}
