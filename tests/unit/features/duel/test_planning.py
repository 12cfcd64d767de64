"""The rounds of a session that are to follow from the spread of its first ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median, stdev
from typing import Any

import pytest
from sliced_sides import CLOSED, LENGTH_S, NOISE, OPEN, Drawn, Level, flat, rounds

from esbench.comparison.compare import compare
from esbench.comparison.metrics import Percentile, fewest_samples, has_enough_beyond
from esbench.comparison.model import CompareOptions
from esbench.comparison.stats import paired_rounds_to_settle
from esbench.features.duel.planning import BudgetPlan, DuelPlan, plan_of, rounds_that_settle


def stalling(level: float) -> Level:
    """Every tenth second is slow: 3 % of the requests, and the p99 of all of them."""
    return lambda second: level * (0.3 if second % 10 == 9 else 1.0)


@pytest.mark.parametrize(("task", "metrics"), [(CLOSED, ["Mean throughput"]), (OPEN, ["p50 latency", "p99 latency"])])
def test_rounds_follow_from_the_differences_that_are_tested(task: str, metrics: list[str]) -> None:
    drawn = Drawn()
    levels = [(stalling if number % 2 else flat)(1 + each) for number, each in enumerate(NOISE)]
    sides = drawn.side("baseline", rounds(noise=(0.0,)), task=task), drawn.side("contender", levels, task=task)
    found = compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read))
    spreads = [stdev(row.differences) for row in found.pairs[0].primary if row.metric in metrics]
    assert len(spreads) == len(metrics)
    assert rounds_that_settle(found, 0.3) == paired_rounds_to_settle(median(spreads), math.log1p(0.3), found.tested)


LUCK = (0.06, -0.05, 0.04, -0.07, 0.05, -0.03)


def uneven(spreads: Sequence[float]) -> list[Level]:
    """Rounds that are off by the spreads, whose seconds differ as well."""
    return [lambda second, level=1 + each: level * (1 + 0.05 * (-1) ** (second // 4)) for each in spreads]


def planned(levels: Sequence[Level], budget_s: float | None = None, **more: Any) -> DuelPlan:
    drawn = Drawn()
    ours = drawn.side("baseline", rounds(count=len(levels), noise=(0.0,)), **more)
    theirs = drawn.side("contender", levels, **more)
    plan = plan_of(compare(ours, [theirs], CompareOptions(seconds=drawn.read)), 120.0, budget_s)
    assert plan is not None
    return plan


def test_a_plan_has_the_rounds_that_a_known_spread_asks_for() -> None:
    plan = planned(uneven(LUCK))
    spread = math.hypot(plan.spread.between_ratio, plan.spread.within_ratio)
    assert spread == pytest.approx(stdev(map(math.log1p, LUCK)), rel=0.05)
    assert (plan.rounds, plan.rows, plan.fewest_rounds, plan.counted_ratio) == (6, 2, 6, 0.1)
    for timed, one_s, sd in (
        (plan.raced, 120.0, spread),
        (plan.best, plan.spread.round_s, plan.spread.spread_ratio),
    ):
        assert one_s is not None
        for needed, ratio in zip(timed.needed, (0.05, 0.1), strict=True):
            rounds_needed = paired_rounds_to_settle(sd, math.log1p(ratio), 2, 6)
            assert (needed.effect_ratio, needed.rounds) == (ratio, rounds_needed)
            assert rounds_needed is None or needed.session_s == pytest.approx(rounds_needed * one_s)
    assert plan.raced.task_s == pytest.approx(LENGTH_S * 2.1)
    assert plan.advised(plan.raced) == plan.raced.needed[1].rounds


def test_two_rounds_are_planned_for_all_rows_and_the_rounds_of_a_verdict() -> None:
    plan = planned(rounds(count=2, noise=(0.0,)))
    assert (plan.rounds, plan.rows) == (2, 2)  # though no row can be judged yet
    assert [needed.rounds for needed in plan.raced.needed] == [6, 6]


def test_the_rounds_of_a_comparison_without_tested_rows_are_for_those_to_be_tested() -> None:
    drawn = Drawn()
    ours = drawn.side("baseline", rounds(count=4, noise=(0.0,)))
    found = compare(ours, [drawn.side("contender", uneven(LUCK[:4]))], CompareOptions(seconds=drawn.read))
    assert found.tested == 0
    assert found.pairs[0].sliced is not None and found.pairs[0].sliced.plan is not None
    plan = found.pairs[0].sliced.plan
    two, one = (paired_rounds_to_settle(plan.spread_ratio, math.log1p(0.10), rows, 6) for rows in (2, 1))
    assert plan.needed[1].rounds == two != one


def test_no_rounds_within_reason_are_none() -> None:
    plan = planned(uneven([8 * each for each in LUCK]))
    assert [(needed.rounds, needed.session_s) for needed in plan.raced.needed] == [(None, None)] * 2
    assert plan.advised(plan.raced) == 6


def test_a_budget_holds_rounds_that_settle_a_change() -> None:
    plan = planned(uneven(LUCK), budget_s=3600.0)
    spread = math.hypot(plan.spread.between_ratio, plan.spread.within_ratio)
    assert plan.raced.budget is not None and plan.raced.budget.effect_ratio is not None
    assert plan.raced.budget.rounds == 30
    margin = math.log1p(plan.raced.budget.effect_ratio)
    assert paired_rounds_to_settle(spread, margin * (1 + 1e-9), 2) == 30
    small = planned(uneven(LUCK), budget_s=500.0).raced
    assert small.budget == BudgetPlan(4, None)
    assert planned(uneven(LUCK), budget_s=500.0).advised(small) == 6


def test_a_p99_needs_ten_requests_beyond_it_in_a_fifth_of_a_task() -> None:
    """At 1,000 requests in an own second: 1,000 of them, and a tenth more, in 2 slices of each fifth."""
    p99 = Percentile.of("p99 service time")
    assert p99 is not None
    assert has_enough_beyond(fewest_samples(p99), p99)
    assert not has_enough_beyond(fewest_samples(p99) - 1, p99)
    (need,) = planned(rounds(), rate=1000.0).tails
    assert (need.task, need.metric) == (CLOSED, "p99 service time")
    assert need.requests_per_s == pytest.approx(1000, rel=0.02)
    assert need.needed_s == pytest.approx(5 * 2 * 2.1)
    (slow,) = planned(rounds(), rate=100.0).tails
    assert slow.needed_s == pytest.approx(5 * 11 * 2.1, rel=0.1)
    assert slow.is_too_short(slow.raced_s)
    assert not slow.is_too_short(slow.needed_s or 0)


def test_a_single_round_gives_no_plan() -> None:
    drawn = Drawn()
    sides = drawn.side("baseline", rounds(count=1)), drawn.side("contender", rounds(count=1))
    assert plan_of(compare(sides[0], sides[1:], CompareOptions(seconds=drawn.read)), 60.0) is None
