"""Rounds that hold both sides at once are wrong as seldom as they claim: simulated, always with the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated_rounds import WEATHER, Setup, after_the_cut, any_false_verdict, called, difference, found, units

from esbench.comparison import stats

pytestmark = pytest.mark.computed

MARGIN = math.log(1.10)  # of sides with nodes of their own
SETS = 1000  # a share of 5 % has a standard error of 0.7 %
LUCK = [(0.0, False), (0.04, False), (0.08, False), (0.04, True), (0.08, True)]


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


def assert_at_most(share: float, sets: int, most: float = 0.06) -> None:
    """Assert that a share is not significantly above `most`."""
    assert stats.share_bounds(round(share * sets), sets)[0] <= most
    assert share <= most + 0.01


@pytest.mark.parametrize("weather", WEATHER)
@pytest.mark.parametrize(("luck", "of_tasks"), [(0.0, False), (0.04, True)])
def test_identical_sides_have_any_false_verdict_in_at_most_6_percent(
    rng: np.random.Generator, weather: str, luck: float, of_tasks: bool
) -> None:
    for margin in (MARGIN, math.log(1.01)):  # the latter lets nearly nothing be the same
        assert_at_most(any_false_verdict(rng, Setup(luck, of_tasks, weather), 8, SETS, margin), SETS)


@pytest.mark.parametrize("rounds", [3, 6, 10])
@pytest.mark.parametrize("rows", [8, 40])
@pytest.mark.parametrize(("luck", "of_tasks"), LUCK)
def test_neither_luck_nor_rows_nor_rounds_raise_false_verdicts(
    rng: np.random.Generator, luck: float, of_tasks: bool, rows: int, rounds: int
) -> None:
    sets = 2000
    starts = luck * rng.standard_normal((2, sets, rows if of_tasks else 1, rounds))
    d = 0.02 * rng.standard_normal((sets, rows, rounds)) + starts[1] - starts[0]
    assert_at_most(float(called(d, MARGIN)[0].any(axis=-1).mean()), sets)


@pytest.mark.parametrize(("luck", "of_tasks"), LUCK)
def test_intervals_cover_what_is_true(rng: np.random.Generator, luck: float, of_tasks: bool) -> None:
    done = units(rng, Setup(luck, of_tasks, "AR(1), 10 %"), SETS, 8, 6, change=0.10)
    low, high = stats.interval(stats.paired(difference(done)[:, 0]))
    assert np.mean((low <= math.log(1.1)) & (high >= math.log(1.1))) == pytest.approx(0.95, abs=0.02)


@pytest.mark.parametrize(("luck", "share"), [(0.0, 0.99), (0.04, 0.39), (0.08, 0.09)])
def test_six_rounds_find_a_change_of_10_percent(rng: np.random.Generator, luck: float, share: float) -> None:
    assert found(rng, Setup(luck, of_tasks=True, weather="bursts"), SETS) == pytest.approx(share, abs=0.04)


@pytest.mark.parametrize("warmup_s", [0.0, 2.0, 5.0, 40.0])
@pytest.mark.parametrize(("luck", "rows"), [(0.0, 8), (0.04, 8), (0.04, 40)])
def test_the_cut_of_the_warmup_does_not_raise_false_verdicts(
    rng: np.random.Generator, warmup_s: float, luck: float, rows: int
) -> None:
    sets = SETS if rows == 8 else 250
    assert_at_most(any_false_verdict(rng, Setup(luck, True, "AR(1), 10 %", warmup_s), rows, sets, MARGIN), sets)


def test_sides_that_warm_up_alike_lose_nothing_and_others_are_cut(rng: np.random.Generator) -> None:
    alike = units(rng, Setup(luck=0.02), 300, 8, 6)
    slower = alike.copy()
    slower[1] *= 1 - 0.6 * np.exp(-np.arange(0.0, 20, 2) / 4)
    _, kept = after_the_cut(alike, MARGIN)
    late, cut = after_the_cut(slower, MARGIN)
    assert np.mean(kept == 0) > 0.9
    assert np.mean(cut >= 2) > 0.95
    assert abs(late.mean()) < 0.05 < abs(difference(slower).mean())


def test_sections_tell_the_spread_within_rounds_from_that_between_them(rng: np.random.Generator) -> None:
    """Luck of 4 % a start is 5.7 % in the difference; 10 blocks of slices that spread by 6 % leave 1.9 % within."""
    done = units(rng, Setup(luck=0.04, of_tasks=True), 400, 1, 6)[:, :, 0]
    parts = np.stack([difference(done, begin, begin + 2) for begin in range(0, 10, 2)], axis=-1)
    within = stats.block_variance(parts, 10)
    between = stats.paired(difference(done)).residual_sd ** 2 - within / 10
    assert math.sqrt(within.mean() / 10) == pytest.approx(0.019, abs=0.001)
    assert math.sqrt(between.mean()) == pytest.approx(0.057, abs=0.003)
