"""A duel that plans itself is wrong as seldom as it claims: simulated, always with the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated_looks import duels
from simulated_rounds import Setup

from esbench.comparison import stats
from esbench.features.duel.looks import SettlingAim

EFFECT = 0.10


def aim(rows: int = 8, fewest: int = 6) -> SettlingAim:
    return SettlingAim(math.log1p(EFFECT), rows, fewest)


@pytest.mark.computed
@pytest.mark.parametrize("fewest", [4, 6])
@pytest.mark.parametrize(
    ("rows", "of"),
    [(2, Setup(0.08, of_tasks=True)), (8, Setup(0.04, weather="bursts")), (8, Setup(0.08, True, "AR(1), 25 %"))],
)
def test_identical_sides_have_any_false_verdict_in_at_most_6_percent(rows: int, of: Setup, fewest: int) -> None:
    raced = duels(np.random.default_rng(3), of, rows, 400, aim(rows, fewest))
    assert stats.share_bounds(sum(bool(each.different.any()) for each in raced), len(raced))[0] <= 0.06


@pytest.mark.computed
def test_a_change_is_found_and_settled_tasks_are_left_out() -> None:
    raced = duels(np.random.default_rng(4), Setup(0.04), 8, 200, aim(), EFFECT)
    assert np.mean([each.different[0] for each in raced]) > 0.8
    assert np.mean([each.rounds - each.task_rounds / 4 for each in raced]) > 0.5


def test_sides_that_hardly_spread_are_looked_at_once() -> None:
    assert aim(fewest=4).looks([0.01] * 8, most=20) == (4,)


def test_sides_that_spread_more_are_looked_at_twice() -> None:
    first, last = aim().looks([0.06] * 8, most=30)
    assert first == 6
    assert last == aim().needed(0.06)


def test_no_plan_is_longer_than_its_time() -> None:
    assert aim().looks([0.06] * 8, most=9) == (6, 9)
    assert aim().looks([0.06] * 8, most=7) == (7,)
    assert aim().looks([0.06] * 8, most=3) == (3,)


def test_rows_that_no_time_settles_do_not_lengthen_a_plan() -> None:
    assert aim().looks([0.01] * 6 + [0.5] * 2, most=20) == (6,)
    assert aim().looks([0.5] * 8, most=20) == (6, 20)


def test_fewer_rounds_than_a_verdict_takes_settle_nothing() -> None:
    assert aim().is_settled(0.01, (6,))
    assert not aim().is_settled(0.0, (5,))
    assert not aim().is_settled(0.04, (6, 7))


def test_a_row_that_was_settled_before_stays_in_the_family() -> None:
    assert list(stats.adjusted([0.01, 0.04], 2, 2)) == pytest.approx([0.08, 0.16])
