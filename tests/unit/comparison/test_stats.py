"""The statistics of comparisons, held against hand calculations, tables and scipy.stats."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats as reference

from esbench.comparison.stats import (
    Effect,
    adjusted,
    best_blocks,
    block_variance,
    independent,
    interleaved,
    interval,
    is_same,
    level_moved,
    of_slices,
    of_two_races,
    p_value,
    paired,
    paired_rounds_to_settle,
    rounds_to_settle,
    section_variance,
    share_bounds,
    with_history,
)

ABBA = [0, 1, 1, 0]
SIX_ROUNDS = [*ABBA, 1, 0, 0, 1, *ABBA]


def effect(log_ratio: float, standard_error: float = 0.01, df: float = 9) -> Effect:
    return Effect(*(np.asarray(part, dtype=float) for part in (log_ratio, standard_error, df, 0.02)))


def draws(*shape: int) -> np.ndarray:
    return 4 + 0.03 * np.random.default_rng(5).standard_normal(shape)


class TestInterleaved:
    def test_four_races_by_hand(self) -> None:
        """ABBA is orthogonal to a line: b = 3.5 - 0.5, slope 0.4, residuals .1 -.3 .3 -.1, one degree of freedom."""
        found = interleaved([0, 3, 4, 1], ABBA, [0, 1, 2, 3])
        assert float(found.log_ratio) == pytest.approx(3)
        assert float(found.residual_sd) == pytest.approx(math.sqrt(0.2))
        assert float(found.standard_error) == pytest.approx(math.sqrt(0.2))
        assert float(found.df) == 1
        t = 3 / math.sqrt(0.2)  # with one degree of freedom t is Cauchy
        assert float(p_value(found)) == pytest.approx(1 - 2 * math.atan(t) / math.pi)
        assert_allclose(interval(found), [3 - 12.7062 * math.sqrt(0.2), 3 + 12.7062 * math.sqrt(0.2)], rtol=1e-5)

    def test_uneven_sides_in_any_order_agree_with_regressing_what_place_leaves_of_side_and_value(self) -> None:
        """Frisch and Waugh: the coefficient of side is that of the residuals of both on place."""
        side, place = np.array([0, 1, 1, 0, 1, 1, 0]), np.array([3, 4, 5, 6, 9, 12, 13])
        values = draws(7) + 0.01 * place
        left_of_side, left_of_values = (
            y - (fit := reference.linregress(place, y)).intercept - fit.slope * place for y in (side, values)
        )
        expected = reference.linregress(left_of_side, left_of_values)
        found = interleaved(values, side, place)
        assert float(found.log_ratio) == pytest.approx(expected.slope)
        assert float(found.standard_error) == pytest.approx(expected.stderr * math.sqrt(5 / 4))  # 7 - 3 of its 7 - 2 df
        assert float(found.df) == 4

    def test_a_trend_over_the_session_is_no_difference(self) -> None:
        values = draws(12)
        rising = interleaved(values + 0.05 * np.arange(12), SIX_ROUNDS, range(12))
        assert_allclose(rising.log_ratio, interleaved(values, SIX_ROUNDS, range(12)).log_ratio, atol=1e-12)
        assert_allclose(rising.standard_error, interleaved(values, SIX_ROUNDS, range(12)).standard_error)

    def test_six_rounds_a_side_leave_nine_degrees_of_freedom(self) -> None:
        assert float(interleaved(draws(12), SIX_ROUNDS, range(12)).df) == 9

    def test_each_row_is_estimated_by_itself(self) -> None:
        rows = draws(2, 3, 12)
        together = interleaved(rows, SIX_ROUNDS, range(12))
        alone = interleaved(rows[1, 2], SIX_ROUNDS, range(12))
        assert together.log_ratio.shape == together.df.shape == (2, 3)
        assert_allclose(together.log_ratio[1, 2], alone.log_ratio)
        assert_allclose(together.standard_error[1, 2], alone.standard_error)

    def test_places_may_be_seconds_since_1970(self) -> None:
        values = draws(12)
        seconds = 1_790_000_000 + 600 * np.arange(12)
        assert_allclose(
            interleaved(values, SIX_ROUNDS, seconds).standard_error,
            interleaved(values, SIX_ROUNDS, range(12)).standard_error,
        )

    def test_side_and_place_that_say_the_same_are_refused(self) -> None:
        with pytest.raises(ValueError, match="cannot be distinguished"):
            interleaved([1, 2, 3, 4], [0, 0, 1, 1], [0, 0, 1, 1])
        with pytest.raises(ValueError, match="cannot be distinguished"):
            interleaved([1, 2, 3, 4], [0, 0, 0, 0], [0, 1, 2, 3])
        with pytest.raises(ValueError, match="cannot be distinguished"):
            interleaved([1, 2, 3, 4], ABBA, [7, 7, 7, 7])

    def test_three_races_are_too_few(self) -> None:
        with pytest.raises(ValueError, match="3 races are too few"):
            interleaved([1, 2, 3], [0, 1, 0], [0, 1, 2])


class TestIndependent:
    def test_agrees_with_welch_of_scipy(self) -> None:
        baseline, contender = draws(2, 6)[0], 0.1 + 3 * draws(4)
        expected = reference.ttest_ind(contender, baseline, equal_var=False)
        found = independent(baseline, contender)
        assert float(p_value(found)) == pytest.approx(expected.pvalue)
        assert float(found.df) == pytest.approx(expected.df)
        bounds = expected.confidence_interval(0.95)
        assert_allclose(interval(found), [bounds.low, bounds.high])
        assert float(found.residual_sd) ** 2 == pytest.approx((baseline.var(ddof=1) + contender.var(ddof=1)) / 2)

    def test_two_rounds_a_side(self) -> None:
        """Means 1 and 4, variances of them 1 and 1: t = 3 / sqrt(2) with 2 df, whose p is 1 - t / sqrt(t^2 + 2)."""
        found = independent([0, 2], [3, 5])
        t = 3 / math.sqrt(2)
        assert float(found.df) == pytest.approx(2)
        assert float(p_value(found)) == pytest.approx(1 - t / math.sqrt(t**2 + 2))

    def test_the_order_of_rounds_changes_nothing(self) -> None:
        baseline, contender = draws(6), draws(2, 6)[1]
        shuffled = independent(np.random.default_rng(1).permutation(baseline), contender[::-1])
        assert_allclose(p_value(shuffled), p_value(independent(baseline, contender)))

    def test_one_round_a_side_has_no_spread(self) -> None:
        with pytest.raises(ValueError, match="no spread"):
            independent([1, 2, 3], [1])


class TestSingleRaces:
    def test_the_variance_of_five_sections(self) -> None:
        """(1 + 4 + 0 + 1 + 4) / 20."""
        assert float(section_variance(10, [9, 12, 10, 11, 8])) == pytest.approx(0.5)

    def test_a_race_that_differs_from_its_sections_is_less_certain(self) -> None:
        assert float(section_variance(11, [9, 12, 10, 11, 8])) == pytest.approx(0.5 + 5 / 20)

    def test_degrees_of_freedom_are_those_of_welch_and_satterthwaite(self) -> None:
        even = of_two_races(10, [9, 12, 10, 11, 8], 13, [12, 15, 13, 14, 11])
        assert float(even.log_ratio) == 3
        assert float(even.standard_error) == pytest.approx(1)
        assert float(even.df) == pytest.approx(8)
        uneven = of_two_races(10, [9, 12, 10, 11, 8], 13, [13] * 5)
        assert float(uneven.df) == pytest.approx(4)
        assert float(uneven.residual_sd) == pytest.approx(0.5)
        assert float(of_two_races(10, [10] * 5, 13, [13] * 5).df) == 8

    def test_one_section_has_no_spread(self) -> None:
        with pytest.raises(ValueError, match="no spread"):
            section_variance(1, [1])


class TestWithHistory:
    LEVEL = [0.0, 0.2, 0.0, 0.2, 0.1]  # variance 0.01
    RISING = [0.0, 0.1, 0.2, 0.3, 0.4]

    def test_one_race_a_side_by_the_spread_of_earlier_ones(self) -> None:
        found = with_history(1.0, 1.3, self.LEVEL)
        assert float(found.log_ratio) == pytest.approx(0.3)
        assert float(found.standard_error) == pytest.approx(math.sqrt(0.01 * 2))
        assert float(found.df) == 4

    def test_several_races_a_side(self) -> None:
        found = with_history([1.0, 1.2], [1.3, 1.5, 1.4], self.LEVEL)
        assert float(found.log_ratio) == pytest.approx(0.3)
        assert float(found.standard_error) == pytest.approx(math.sqrt(0.01 * (1 / 2 + 1 / 3)))

    def test_a_level_that_moved_leaves_the_differences_of_neighbours(self) -> None:
        found = with_history(1.0, 1.3, self.RISING)
        assert float(found.residual_sd) == pytest.approx(math.sqrt(0.01 / 2))
        assert float(found.df) == pytest.approx(2 * 4 / 3)

    def test_races_that_are_less_certain_than_their_history_count_as_they_are(self) -> None:
        assert float(with_history(1.0, 1.3, self.LEVEL, 0.04).residual_sd) == pytest.approx(0.2)
        assert float(with_history(1.0, 1.3, self.LEVEL, 0.001).residual_sd) == pytest.approx(0.1)
        assert math.isnan(p_value(with_history(1.0, 1.3, self.LEVEL, math.nan)))

    def test_four_earlier_races_are_too_few(self) -> None:
        with pytest.raises(ValueError, match="4 earlier races are too few: 5"):
            with_history(1.0, 1.3, self.LEVEL[:4])


class TestLevelMoved:
    def test_rising_values_and_steps_moved(self) -> None:
        assert level_moved([1, 2, 3, 4, 5])
        assert level_moved([1, 2, 1, 2, 1, 6, 7, 6, 7, 6])

    def test_values_that_alternate_or_never_change_did_not(self) -> None:
        assert not level_moved([1, 2, 1, 2, 1, 2])
        assert not level_moved([0.1] * 6)
        assert not level_moved([1, 2])

    def test_where_nothing_moved_one_in_twenty_is_said_to_have(self) -> None:
        moved = level_moved(np.random.default_rng(3).standard_normal((4000, 10)))
        assert 0.04 <= moved.mean() <= 0.06


class TestAnEffect:
    def test_has_an_interval_from_the_table_of_t(self) -> None:
        """NIST/SEMATECH e-Handbook 1.3.6.7.2, 9 degrees of freedom: 2.262 at 0.975, 1.833 at 0.95."""
        assert_allclose(interval(effect(0.05)), [0.05 - 0.02262, 0.05 + 0.02262], atol=1e-5)
        assert_allclose(interval(effect(0.05), 0.90), [0.05 - 0.01833, 0.05 + 0.01833], atol=1e-5)


ESTIMATES: dict[str, Callable[[np.ndarray, np.ndarray], Effect]] = {
    "interleaved": lambda b, c: interleaved(np.stack([b, c], axis=-1).reshape(-1, 8), [0, 1] * 4, range(8)),
    "independent": independent,
    "of_two_races": lambda b, c: of_two_races(b.mean(axis=-1), b, c.mean(axis=-1), c),
    "with_history": lambda b, c: with_history(b, c, draws(9)),
}


class TestEveryEstimate:
    @pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES)
    def test_is_mirrored_when_the_sides_are_swapped(self, estimate: Callable[..., Effect]) -> None:
        b, c = draws(2, 50, 4)
        one, other = estimate(b, c + 0.02), estimate(c + 0.02, b)
        if estimate is ESTIMATES["interleaved"]:
            values = np.stack([b, c + 0.02], axis=-1).reshape(-1, 8)
            other = interleaved(values, [1, 0] * 4, range(8))
        assert_allclose(other.log_ratio, -one.log_ratio, atol=1e-12)
        assert_allclose(p_value(other), p_value(one))
        assert_allclose(interval(other)[0], -interval(one)[1], atol=1e-12)
        assert (is_same(one, 0.05) == is_same(other, 0.05)).all()

    @pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES)
    def test_does_not_care_for_the_unit_of_the_values(self, estimate: Callable[..., Effect]) -> None:
        b, c = draws(2, 50, 4)
        in_ms, in_ns = estimate(b, c), estimate(b + math.log(1e6), c + math.log(1e6))
        assert_allclose(in_ns.log_ratio, in_ms.log_ratio, atol=1e-12)
        assert_allclose(p_value(in_ns), p_value(in_ms), rtol=1e-6)

    @pytest.mark.parametrize("estimate", ESTIMATES.values(), ids=ESTIMATES)
    @pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
    def test_of_what_has_no_value_is_nan_in_that_row_only(self, estimate: Callable[..., Effect], value: float) -> None:
        b, c = draws(2, 3, 4)
        b[1, 2] = value
        found = estimate(b, c)
        assert np.isnan(p_value(found)).tolist() == [False, True, False]
        assert np.isnan(interval(found)[0]).tolist() == [False, True, False]
        assert not is_same(found, 10.0)[1]

    @pytest.mark.parametrize("name", ["interleaved", "independent", "of_two_races"])
    def test_of_equal_values_is_the_same_and_of_a_difference_without_spread_is_certain(self, name: str) -> None:
        b, raised = np.full((1, 4), math.log(41_210.7)), np.full((1, 4), math.log(45_000.3))
        equal, different = ESTIMATES[name](b, b), ESTIMATES[name](b, raised)
        assert p_value(equal).tolist() == [1.0]
        assert is_same(equal, 0.05).all()
        assert (p_value(different) < 1e-6).all()
        assert not is_same(different, 0.05).any()

    def test_after_looks_sides_must_be_more_alike_to_be_the_same(self) -> None:
        effect = paired([0.01, -0.02, 0.03, 0.0, 0.02, -0.01])
        low, high = (float(bound) for bound in interval(effect, 0.95))
        assert is_same(effect, max(-low, high) - 0.001)
        assert not is_same(effect, max(-low, high) - 0.001, looks=2)
        assert is_same(effect, max(-low, high) + 0.001, looks=2)

    def test_of_a_trend_and_nothing_else_is_no_difference(self) -> None:
        assert float(p_value(interleaved(0.013 * np.arange(12), SIX_ROUNDS, range(12)))) == 1.0


class TestEquivalence:
    def test_is_that_of_two_one_sided_tests_at_5_percent(self) -> None:
        """Schuirmann 1987, by scipy's one-sided Welch tests."""
        rng, margin, verdicts = np.random.default_rng(2), math.log(1.05), set()
        for _ in range(100):
            b, c = 0.04 * rng.standard_normal((2, 6))
            above = reference.ttest_ind(c + margin, b, equal_var=False, alternative="greater").pvalue
            below = reference.ttest_ind(c - margin, b, equal_var=False, alternative="less").pvalue
            assert bool(is_same(independent(b, c), margin)) == (max(above, below) <= 0.05)
            verdicts.add(max(above, below) <= 0.05)
        assert verdicts == {True, False}

    def test_needs_the_whole_interval_inside(self) -> None:
        inside = 0.05 - 0.01833
        assert is_same(effect(inside - 1e-4), 0.05)
        assert is_same(effect(-inside + 1e-4), 0.05)
        assert not is_same(effect(inside + 1e-4), 0.05)
        assert not is_same(effect(-inside - 1e-4), 0.05)


class TestManyRows:
    def test_the_example_of_benjamini_and_hochberg(self) -> None:
        """Their section 3.2, 15 endpoints of a study: four are rejected at 0.05, where Bonferroni rejects three."""
        rejected = [0.0001, 0.0004, 0.0019, 0.0095]
        p = [*rejected, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0]
        found = adjusted(p)
        assert (found < 0.05).sum() == 4
        assert_allclose(found[:5], [0.0015, 0.0030, 0.0095, 0.035625, 0.0603])
        assert_allclose(found[5:7], 0.0298 * 15 / 7)

    def test_agrees_with_scipy_in_any_order(self) -> None:
        p = np.random.default_rng(8).random((20, 40)) ** 3
        assert_allclose(adjusted(p), reference.false_discovery_control(p, axis=-1))
        order = np.random.default_rng(9).permutation(40)
        assert_allclose(adjusted(p[:, order]), adjusted(p)[:, order])

    def test_equal_values_stay_equal(self) -> None:
        assert_allclose(adjusted([0.02, 0.02, 0.02]), 0.02)

    def test_one_row_is_not_adjusted_and_no_row_is_no_error(self) -> None:
        assert adjusted([0.03]).tolist() == [0.03]
        assert adjusted([]).tolist() == []

    def test_each_look_counts(self) -> None:
        assert_allclose(adjusted([0.01, 0.04, 0.6], looks=2), [0.06, 0.12, 1.0])
        with pytest.raises(ValueError, match="0 looks"):
            adjusted([0.01], looks=0)

    def test_a_row_without_p_is_not_of_the_family(self) -> None:
        found = adjusted([[math.nan, 0.01, 0.04], [0.03, math.nan, math.nan]])
        assert_allclose(found, [[math.nan, 0.02, 0.04], [0.03, math.nan, math.nan]])


class TestRoundsToSettle:
    @pytest.mark.parametrize(("sd", "rounds"), [(0.01, 4), (0.02, 9), (0.03, 17), (0.05, 42), (0.06, None)])
    def test_a_change_of_5_percent_in_one_of_eight_rows(self, sd: float, rounds: int | None) -> None:
        assert rounds_to_settle(sd, math.log(1.05), 8) == rounds

    def test_six_rounds_settle_10_percent_up_to_a_spread_of_3_percent(self) -> None:
        assert rounds_to_settle(0.030, math.log(1.10), 8) == 6
        assert rounds_to_settle(0.032, math.log(1.10), 8) == 7

    def test_three_rounds_need_five_standard_deviations_and_four_need_less(self) -> None:
        """Of the t test alone, without the power that the other term pays for: t[1 - 0.025/8, 2n - 3] sqrt(2 / n)."""
        least = {n: reference.t.ppf(1 - 0.025 / 8, 2 * n - 3) * math.sqrt(2 / n) for n in (3, 4)}
        assert least[3] > 5
        assert least[4] < 4

    def test_is_the_fewest_that_are_enough(self) -> None:
        def half(n: int) -> float:
            t = reference.t.ppf([1 - 0.025 / 3, 0.95], 2 * n - 3).sum()
            return float(t * 0.02 * math.sqrt(2 / n))

        for margin in (0.02, 0.05, 0.1, 0.5):
            assert rounds_to_settle(0.02, margin, 3) == next((n for n in range(2, 51) if half(n) <= margin), None)

    def test_two_rounds_without_spread(self) -> None:
        assert rounds_to_settle(0.0, 0.05, 8) == 2

    def test_an_unknown_spread_is_refused(self) -> None:
        with pytest.raises(ValueError, match="standard deviation of nan"):
            rounds_to_settle(math.nan, 0.05, 8)


class TestShareBounds:
    def test_nothing_met_in_ten_or_59_trials(self) -> None:
        """1 - 0.05^(1 / n)."""
        assert share_bounds(0, 10) == (0, pytest.approx(1 - 0.05**0.1))
        assert share_bounds(0, 10)[1] == pytest.approx(0.26, abs=0.005)
        assert share_bounds(0, 59)[1] == pytest.approx(0.05, abs=0.001)
        assert share_bounds(10, 10) == (pytest.approx(0.05**0.1), 1)

    def test_agrees_with_scipy(self) -> None:
        expected = reference.binomtest(3, 40).proportion_ci(0.90, "exact")
        assert share_bounds(3, 40) == (pytest.approx(expected.low), pytest.approx(expected.high))

    def test_more_hits_than_trials_are_refused(self) -> None:
        with pytest.raises(ValueError, match="2 hits in 1 trials"):
            share_bounds(2, 1)


class TestRoundsWithBothSides:
    def test_the_effect_is_the_t_test_of_one_sample(self) -> None:
        effect = paired([0.1, 0.2, 0.15, 0.05])
        assert float(effect.log_ratio) == pytest.approx(0.125)
        assert float(effect.residual_sd) == pytest.approx(0.0645497)
        assert float(effect.standard_error) == pytest.approx(0.0322749, abs=1e-7)
        assert float(effect.df) == 3
        assert float(p_value(effect)) == pytest.approx(reference.ttest_1samp([0.1, 0.2, 0.15, 0.05], 0).pvalue)

    def test_axes_before_the_last_are_data_sets_of_their_own(self) -> None:
        values = np.random.default_rng(1).standard_normal((3, 5, 6))
        effect = paired(values)
        assert effect.log_ratio.shape == (3, 5)
        assert float(effect.standard_error[2, 4]) == pytest.approx(float(paired(values[2, 4]).standard_error))

    def test_one_round_has_no_spread(self) -> None:
        with pytest.raises(ValueError, match="no spread"):
            paired([0.1])

    def test_a_value_that_is_not_finite_says_nothing(self) -> None:
        assert math.isnan(float(p_value(paired([0.1, math.inf, 0.2]))))

    @pytest.mark.parametrize(("sd", "rounds"), [(0.02, 7), (0.03, 11), (0.04, 17), (0.06, 33), (0.10, None)])
    def test_rounds_that_settle_5_percent_in_8_rows(self, sd: float, rounds: int | None) -> None:
        assert paired_rounds_to_settle(sd, math.log(1.05), 8) == rounds

    def test_never_fewer_rounds_than_a_verdict_needs(self) -> None:
        assert paired_rounds_to_settle(0.001, math.log(1.05), 8) == 3
        assert paired_rounds_to_settle(0.001, math.log(1.05), 8, fewest=6) == 6

    def test_slices_are_paired_by_blocks_of_two(self) -> None:
        effect = of_slices([100, 110, 90, 100, 105, 95, 3], [110, 115, 100, 111, 112, 108, 9])
        differences = [math.log(225 / 210), math.log(211 / 190), math.log(220 / 200)]
        assert float(effect.log_ratio) == pytest.approx(sum(differences) / 3)
        assert float(effect.df) == 2

    def test_slices_of_different_number_are_compared_as_far_as_both_go(self) -> None:
        assert float(of_slices([1, 1, 2, 2, 9, 9], [2, 2, 4, 4, 5]).log_ratio) == pytest.approx(math.log(2))

    def test_slices_that_did_nothing_say_nothing(self) -> None:
        assert math.isnan(float(of_slices([0, 0, 2, 2], [2, 2, 4, 4]).log_ratio))

    def test_one_block_has_no_spread(self) -> None:
        with pytest.raises(ValueError, match="two blocks"):
            of_slices([1, 2, 3], [1, 2, 3])

    def test_the_variance_of_a_block_is_that_of_sections_times_their_blocks(self) -> None:
        sections = [[0.1, 0.2, 0.3, 0.2, 0.1], [0.0, 0.0, 0.1, 0.1, 0.0]]
        variances = [np.var(each, ddof=1) for each in sections]
        assert float(block_variance(sections, 10)) == pytest.approx(10 * sum(variances) / 2 / 5)

    @pytest.mark.parametrize(
        ("within", "between", "blocks"),
        [(0.09, 0.01, 12), (0.09, 0.0001, 60), (0.001, 0.01, 8), (0.09, -0.01, 20), (0.09, 0.0, 20)],
    )
    def test_the_best_length_weighs_both_spreads_and_what_a_round_costs(
        self, within: float, between: float, blocks: float
    ) -> None:
        assert float(best_blocks(within, between, 16.0, 10)) == pytest.approx(blocks)
