"""The slices and the length of a task follow from its first seconds, and not from the difference of the sides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from esbench.features.duel.pilot import Frame, SeenTask, planned, together
from esbench.record.sessions import Pacing

UNITS = (1000.0, 1060.0, 990.0, 1030.0, 960.0)
BASELINE = SeenTask(2000.0, 0.004, longest_s=0.02, units=UNITS, tail_spread=3.0, beside=0.002)
FRAME = Frame(2, 1.0, 0.05, Pacing(), luck=0.05, least_s=40.0, most_s=200.0, cost_s=30.0)


def faster(side: SeenTask, by: float) -> SeenTask:
    return replace(
        side,
        requests_per_s=side.requests_per_s * by,
        cycle_s=side.cycle_s / by,
        longest_s=side.longest_s / by,
        units=tuple(by * each for each in side.units),
    )


def test_a_faster_side_changes_no_plan_and_neither_do_swapped_sides() -> None:
    plan = planned([BASELINE, BASELINE], FRAME)
    assert planned([BASELINE, faster(BASELINE, 1.5)], FRAME) == plan
    assert planned([faster(BASELINE, 1.5), BASELINE], FRAME) == plan


@pytest.mark.parametrize("changed", [{"units": UNITS[::-1]}, {"tail_spread": 9.0}, {"beside": 0.3}, {"cycle_s": 0.5}])
def test_the_order_of_the_sides_changes_no_plan(changed: dict[str, Any]) -> None:
    other = replace(BASELINE, **changed)
    assert planned([BASELINE, other], FRAME) == planned([other, BASELINE], FRAME)


def test_short_requests_keep_the_slices_of_their_kind() -> None:
    plan = planned([BASELINE] * 2, FRAME)
    assert (plan.slice_s, plan.gap_s) == (1.0, 0.05)


def test_slices_are_long_against_the_time_of_a_request() -> None:
    assert planned([replace(BASELINE, cycle_s=0.4)] * 2, FRAME).slice_s == 3.0


def test_a_gap_lets_requests_end() -> None:
    assert planned([replace(BASELINE, longest_s=0.3)] * 2, FRAME).gap_s == pytest.approx(0.45)


def test_work_beside_the_slices_gets_longer_slices_and_gaps() -> None:
    plan = planned([BASELINE, replace(BASELINE, beside=0.03)], FRAME)
    assert (plan.slice_s, plan.gap_s) == (3.0, 0.25)


def test_what_the_user_says_holds() -> None:
    said = replace(FRAME, pacing=Pacing(slice_s=2.0, gap_s=0.1, task_time_s=90.0), slice_s=2.0, gap_s=0.1)
    plan = planned([replace(BASELINE, beside=0.5, cycle_s=1.0)] * 2, said)
    assert (plan.slice_s, plan.gap_s, plan.own_s) == (2.0, 0.1, 48.0)


def test_a_task_is_as_long_as_its_p99_needs_if_there_is_time() -> None:
    few = replace(BASELINE, requests_per_s=150.0)
    plan = planned([few] * 2, FRAME)
    assert plan.tail_spread is not None
    assert plan.own_s * 150 >= 5 * 1000
    assert plan.task_s == pytest.approx(plan.own_s * 2 * 1.05)
    without = planned([few] * 2, replace(FRAME, most_s=60.0))
    assert without.tail_spread is None
    assert without.tail_s is not None
    assert without.tail_s > 60
    assert without.task_s <= 60


def test_luck_is_part_of_what_rounds_differ_by_and_shorter_tasks_suffice_for_more_of_it() -> None:
    lucky, unlucky = (planned([BASELINE] * 2, replace(FRAME, luck=luck, cost_s=10.0)) for luck in (0.01, 0.08))
    assert lucky.spread < unlucky.spread
    assert unlucky.spread > 0.08
    assert lucky.task_s >= unlucky.task_s


def test_rounds_are_expected_to_differ_by_how_the_difference_changes_not_by_what_it_is() -> None:
    calm, uneven = replace(BASELINE, units=(900.0,) * 5), replace(BASELINE, units=(900.0, 1200.0, 800.0, 1300.0, 700.0))
    steady, moved = (planned([side, replace(side, units=(1000.0,) * 5)], FRAME).spread for side in (calm, uneven))
    assert moved > 1.1 * steady
    assert steady == pytest.approx(planned([calm, calm], FRAME).spread)


def test_the_tasks_of_a_step_have_the_same_slices() -> None:
    plans = together([planned([side] * 2, FRAME) for side in (BASELINE, replace(BASELINE, cycle_s=0.4))])
    assert {plan.slice_s for plan in plans} == {3.0}
    assert len({plan.task_s for plan in plans}) == 1


def test_a_task_without_requests_is_planned_all_the_same() -> None:
    silent: Sequence[SeenTask] = [SeenTask(0.0, 0.0, 0.0, (), None, None)] * 2
    plan = planned(silent, FRAME)
    assert plan.tail_spread is None
    assert plan.tail_s is None
    assert math.isfinite(plan.task_s)
