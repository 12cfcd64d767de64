"""Comparisons of simulated races: how often their statistics are wrong, and how often they find what is there.

A set is one comparison: some rows (a metric of a task), each with one ln(value) per race. All random numbers come from
the generator that is passed in. benchmarks/statistics_tables.py prints what the tests assert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from esbench.comparison import stats
from esbench.comparison.stats import Floats
from esbench.features.duel.race_order import order as planned

Shape = tuple[int, int, int]  # sets, rows, races in the order of the session
Spread = Callable[[np.random.Generator, Shape], Floats]

ROUNDS = 6
Q = 0.05  # what the adjusted p of a verdict is below


def order(rounds: int) -> Floats:
    """Whose turn it is in a session, 1 for the contender (2 rounds,)."""
    return np.array([float(place.side == "contender") for place in planned(["baseline", "contender"], rounds, seed=1)])


def normal(rng: np.random.Generator, shape: Shape) -> Floats:
    return rng.standard_normal(shape)


def heavy_tails(rng: np.random.Generator, shape: Shape) -> Floats:
    return rng.standard_t(3, shape)


def modes(distance: float, share: float, of_a_race: bool = False) -> Spread:
    """A share of the races is `distance` standard deviations higher; in all rows at once, or in each row by itself."""

    def spread(rng: np.random.Generator, shape: Shape) -> Floats:
        higher = rng.random((shape[0], 1, shape[2]) if of_a_race else shape) < share
        return rng.standard_normal(shape) + distance * higher

    return spread


def autoregressive(phi: float) -> Spread:
    """AR(1): each race keeps the share `phi` of how far the one before was off."""

    def spread(rng: np.random.Generator, shape: Shape) -> Floats:
        values = rng.standard_normal(shape)
        values[..., 0] /= np.sqrt(1 - phi**2)
        for race in range(1, shape[2]):
            values[..., race] += phi * values[..., race - 1]
        return values

    return spread


def drift(power: float) -> Spread:
    """A rise by 5 standard deviations over the session: a line (1), or a bend (2)."""

    def spread(rng: np.random.Generator, shape: Shape) -> Floats:
        return rng.standard_normal(shape) + 5 * np.linspace(0, 1, shape[2]) ** power

    return spread


def good_and_bad_races(rng: np.random.Generator, shape: Shape) -> Floats:
    """Half of the variance is the race's, the same in all rows."""
    return rng.standard_normal(shape) + rng.standard_normal((shape[0], 1, shape[2]))


SPREADS: dict[str, Spread] = {
    "normal": normal,
    "heavy tails (t, 3 df)": heavy_tails,
    "1 race in 5 is 4 sd higher, in each task by itself": modes(4, 0.2),
    "1 race in 2 is 10 sd higher, in all its tasks": modes(10, 0.5, of_a_race=True),
    "AR(1), 0.3": autoregressive(0.3),
    "AR(1), 0.8": autoregressive(0.8),
    "drift: a line, 5 sd": drift(1),
    "drift: a bend, 5 sd": drift(2),
    "good and bad races": good_and_bad_races,
}
MODES_OF_TASKS = modes(10, 0.5)  # each task by itself: chance sorts the modes by side too often for any t test


def any_false_verdict(rng: np.random.Generator, spread: Spread, rows: int, sets: int, rounds: int = ROUNDS) -> float:
    """In which share of comparisons of identical sides, interleaved, some row is called different."""
    values = spread(rng, (sets, rows, 2 * rounds))
    effect = stats.interleaved(values, order(rounds), np.arange(2 * rounds))
    return float(np.mean((stats.adjusted(stats.p_value(effect)) < Q).any(axis=-1)))


@dataclass(frozen=True)
class Called:
    """What a row is called, as shares of the comparisons: what is left of 1 is undecided."""

    different: float
    same: float


def called(
    rng: np.random.Generator, sd: float, change: float, sets: int, *, rounds: int, rows: int = 8, margin: float = 0.05
) -> Called:
    """What the first row is called, whose contender is `change` higher (a ratio, 0.05: 5 %), and no other row's."""
    values = sd * rng.standard_normal((sets, rows, 2 * rounds))
    values[:, 0] += np.log1p(change) * order(rounds)
    effect = stats.interleaved(values, order(rounds), np.arange(2 * rounds))
    same = stats.is_same(effect, float(np.log1p(margin)))[:, 0]
    different = ~same & (stats.adjusted(stats.p_value(effect))[:, 0] < Q)
    return Called(float(different.mean()), float(same.mean()))


def sessions_called_different(rng: np.random.Generator, sd: float, session_sd: float, sets: int) -> float:
    """Identical sides, each in a session of its own, which moves all of its rounds; p < 0.05, one row."""
    b, c = (sd * rng.standard_normal((sets, ROUNDS)) + session_sd * rng.standard_normal((sets, 1)) for _ in range(2))
    return float(np.mean(stats.p_value(stats.independent(b, c)) < Q))


def single_races_called_different(rng: np.random.Generator, within_sd: float, between_sd: float, sets: int) -> float:
    """Identical sides, one race each of five sections; `within_sd` is the standard error of a race's value."""
    sections = between_sd * rng.standard_normal((2, sets, 1)) + within_sd * np.sqrt(stats.SECTIONS) * (
        rng.standard_normal((2, sets, stats.SECTIONS))
    )
    values = sections.mean(axis=-1)
    effect = stats.of_two_races(values[0], sections[0], values[1], sections[1])
    return float(np.mean(stats.p_value(effect) < Q))


def called_different_by_history(rng: np.random.Generator, earlier: int, moved_by: float, sets: int) -> float:
    """Identical sides, one race each, after earlier ones whose later half is `moved_by` standard deviations higher."""
    history = rng.standard_normal((sets, earlier)) + moved_by * (np.arange(earlier) >= earlier // 2)
    b, c = rng.standard_normal((2, sets, 1)) + moved_by
    return float(np.mean(stats.p_value(stats.with_history(b, c, history)) < Q))


def sessions_called_different_by_history(
    rng: np.random.Generator, sd: float, session_sd: float, sets: int, *, each_round_counts: bool = False
) -> float:
    """Identical sides, each of six rounds in a session of its own, after such sessions: one race of each of ten, or
    every round of four as if it were a race by itself."""
    earlier = 4 if each_round_counts else 10
    values = sd * rng.standard_normal((sets, earlier + 2, ROUNDS))
    values += session_sd * rng.standard_normal((sets, earlier + 2, 1))
    history, (b, c) = values[:, :-2], (values[:, -2], values[:, -1])
    if each_round_counts:
        effect = stats.with_history(b, c, history.reshape(sets, -1))
    else:
        effect = stats.with_history(b.mean(axis=-1)[:, None], c.mean(axis=-1)[:, None], history[..., -1])
    return float(np.mean(stats.p_value(effect) < Q))


def called_different_by_looking(rng: np.random.Generator, counted: bool, sets: int) -> float:
    """Identical sides, one row, that are looked at after 6, 8, 10, 12 and 14 rounds until a look has a verdict."""
    values = rng.standard_normal((sets, 28))
    found = np.zeros(sets, dtype=bool)
    for look, rounds in enumerate((6, 8, 10, 12, 14), start=1):
        effect = stats.interleaved(values[:, : 2 * rounds], order(rounds), np.arange(2 * rounds))
        found |= stats.adjusted(stats.p_value(effect)[:, None], look if counted else 1)[:, 0] < Q
    return float(found.mean())
