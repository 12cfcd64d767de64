"""Comparisons are wrong as seldom as they claim, and find what they claim to: simulated, always with the same seed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from simulated import (
    MODES_OF_TASKS,
    ROUNDS,
    SPREADS,
    any_false_verdict,
    called,
    called_different_by_history,
    called_different_by_looking,
    order,
    sessions_called_different,
    sessions_called_different_by_history,
    single_races_called_different,
)

from esbench.comparison import stats
from esbench.comparison.effects import Design, Fit
from esbench.comparison.model import INTERLEAVED, CompareOptions, Row
from esbench.comparison.reasons import FASTER, SAME, SLOWER, UNCLEAR
from esbench.comparison.rows import CandidateRow
from esbench.comparison.verdicts import judged
from esbench.record.figures import HIGHER, Figure

pytestmark = pytest.mark.computed

SETS = 4000  # a share of 5 % has a standard error of 0.34 %


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.mark.parametrize("rows", [8, 40])
@pytest.mark.parametrize("spread", SPREADS)
def test_identical_sides_have_any_false_verdict_in_at_most_6_percent(
    rng: np.random.Generator, spread: str, rows: int
) -> None:
    assert any_false_verdict(rng, SPREADS[spread], rows, SETS) <= 0.06


@pytest.mark.parametrize(("rows", "share"), [(8, 0.07), (40, 0.15)])
def test_what_is_beyond_the_t_test(rng: np.random.Generator, rows: int, share: float) -> None:
    """Each task by itself flips a coin between two levels in each race, ten standard deviations apart."""
    assert any_false_verdict(rng, MODES_OF_TASKS, rows, SETS) == pytest.approx(share, abs=0.015)


def test_eight_rows_that_are_not_adjusted_have_one_in_a_third_of_the_comparisons(rng: np.random.Generator) -> None:
    values = rng.standard_normal((SETS, 8, 12))
    p = stats.p_value(stats.interleaved(values, order(ROUNDS), np.arange(12)))
    assert np.mean((p < 0.05).any(axis=-1)) == pytest.approx(1 - 0.95**8, abs=0.025)


def test_where_half_of_the_rows_changed_at_most_5_percent_of_the_verdicts_are_false(rng: np.random.Generator) -> None:
    values = rng.standard_normal((SETS, 8, 12))
    values[:, :4] += 3 * order(ROUNDS)
    found = stats.adjusted(stats.p_value(stats.interleaved(values, order(ROUNDS), np.arange(12)))) < 0.05
    verdicts = found.sum(axis=-1)
    false = np.where(verdicts > 0, found[:, 4:].sum(axis=-1) / np.maximum(verdicts, 1), 0.0)
    assert np.mean(false) <= 0.05
    assert np.mean(found[:, :4]) > 0.9


def test_intervals_cover_what_is_true(rng: np.random.Generator) -> None:
    values = rng.standard_normal((SETS, 12)) + 2 * order(ROUNDS)
    low, high = stats.interval(stats.interleaved(values, order(ROUNDS), np.arange(12)))
    assert np.mean((low <= 2) & (high >= 2)) == pytest.approx(0.95, abs=0.01)


def test_looking_five_times_is_mostly_paid_for_by_p_times_the_looks(rng: np.random.Generator) -> None:
    """Not fully: the looks add up to 0.05 (1 + 1/2 + ... + 1/5) at most."""
    assert called_different_by_looking(rng, False, SETS) > 0.10
    assert called_different_by_looking(rng, True, SETS) <= 0.08


@pytest.mark.parametrize("sd", [0.01, 0.02, 0.03, 0.05])
def test_the_rounds_that_would_settle_it_do(rng: np.random.Generator, sd: float) -> None:
    rounds = stats.rounds_to_settle(sd, math.log(1.05), 8)
    assert rounds is not None
    changed = called(rng, sd, 0.05, 1500, rounds=rounds)
    assert changed.different >= 0.87
    assert changed.different + changed.same >= 0.92
    assert called(rng, sd, 0.0, 1500, rounds=rounds).same >= 0.98


def test_six_rounds_find_10_percent_in_a_p99_that_spreads_by_3(rng: np.random.Generator) -> None:
    assert called(rng, 0.03, 0.10, SETS, rounds=ROUNDS, margin=0.10).different >= 0.87


@pytest.mark.parametrize("sd", [0.005, 0.01, 0.02, 0.03])
def test_a_change_as_large_as_what_counts_as_one_is_called_the_same_in_5_percent_at_most(
    rng: np.random.Generator, sd: float
) -> None:
    assert called(rng, sd, 0.05, SETS, rounds=ROUNDS).same <= 0.06


def test_sessions_that_are_not_interleaved_call_identical_sides_different(rng: np.random.Generator) -> None:
    """This is why they have no verdict."""
    assert sessions_called_different(rng, 0.010, 0.02, SETS) == pytest.approx(0.66, abs=0.03)
    assert sessions_called_different(rng, 0.015, 0.02, SETS) == pytest.approx(0.51, abs=0.03)


def test_two_races_differ_though_their_sides_do_not(rng: np.random.Generator) -> None:
    """Sections are right about the two races, and so wrong about the sides."""
    assert single_races_called_different(rng, 0.005, 0.0, SETS) <= 0.06
    for between, share in ((0.01, 0.30), (0.02, 0.58), (0.03, 0.71)):
        assert single_races_called_different(rng, 0.005, between, SETS) == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("earlier", [5, 10, 20])
@pytest.mark.parametrize("moved_by", [0.0, 3.0])
def test_history_calls_identical_sides_different_in_at_most_6_percent(
    rng: np.random.Generator, earlier: int, moved_by: float
) -> None:
    assert called_different_by_history(rng, earlier, moved_by, SETS) <= 0.06


@pytest.mark.parametrize(("sd", "session_sd"), [(0.01, 0.0), (0.01, 0.02), (0.02, 0.01)])
def test_a_history_of_sessions_calls_identical_sessions_different_in_at_most_6_percent(
    rng: np.random.Generator, sd: float, session_sd: float
) -> None:
    assert sessions_called_different_by_history(rng, sd, session_sd, SETS) <= 0.06


def test_rounds_that_counted_as_races_by_themselves_would_bring_false_verdicts_back(rng: np.random.Generator) -> None:
    """This is why a session is one race of a history."""
    assert sessions_called_different_by_history(rng, 0.01, 0.02, SETS, each_round_counts=True) > 0.5


def test_rows_are_called_what_the_simulations_call_them(rng: np.random.Generator) -> None:
    """Of eight throughputs one rose and one fell; swapped, the verdicts are mirrored."""
    margin, mirrored = math.log(1.05), {FASTER: SLOWER, SLOWER: FASTER, SAME: SAME, UNCLEAR: UNCLEAR}
    values = rng.standard_normal((100, 8, 12)) * np.linspace(0.01, 0.06, 8)[:, None]
    values[:, 2:4] += np.array([[0.1], [-0.1]]) * order(ROUNDS)
    expected = stats.interleaved(values, order(ROUNDS), np.arange(12))
    same = stats.is_same(expected, margin)
    moved = np.where(expected.log_ratio > 0, FASTER, SLOWER)
    different = stats.adjusted(stats.p_value(expected)) < 0.05
    kinds = np.where(same, SAME, np.where(different, moved, UNCLEAR))
    assert set(kinds.ravel()) == set(mirrored)
    for rows, expected_kinds in zip(values, kinds.tolist(), strict=True):
        assert verdicts_of(rows, order(ROUNDS)) == expected_kinds
        assert verdicts_of(rows, 1 - order(ROUNDS)) == [mirrored[kind] for kind in expected_kinds]


def verdicts_of(rows: stats.Floats, sides: stats.Floats) -> list[str]:
    design = Design((), (), tuple(range(len(sides))))
    drafts = []
    for number, values in enumerate(rows):
        metric, task, unit = "Mean throughput", f"task {number}", "ops/s"
        figure = Figure(metric, task, 100.0, unit, HIGHER)
        effect = stats.interleaved(values, sides, np.arange(len(sides)))
        row = Row(metric, task, unit, figure, figure, is_primary=True)
        drafts.append(CandidateRow(row, design, Fit(effect, INTERLEAVED)))
    return [row.word for row in judged(drafts, CompareOptions()) if row.verdict is not None]
