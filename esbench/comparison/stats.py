"""The statistics of comparisons: effects on a log scale, their intervals, equivalence, many rows at once. Pure.

No I/O, no records: arrays in, numbers out. docs/verdicts.md explains the use of each. Axes before the last are
independent data sets, so that neither many rows nor simulations need a loop. A value that is not finite makes all
results of its data set NaN, which is neither the same nor different. Imported by comparisons only: numpy and
scipy.special.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

SECTIONS = 5  # of a race that stands alone
FEWEST_HISTORY = 5
MOST_ROUNDS = 50
FEWEST_BLOCKS, MOST_BLOCKS = 8, 60  # of slices, of a planned task
_NORMAL_95 = 1.959963984540054  # two-sided, 95 %
_LEVEL_MOVED_Z = 1.6448536269514722  # one-sided, 5 %
_ROUNDING = 1e-12  # of logarithms: a smaller difference counts as zero, whatever the spread


@dataclass(frozen=True)
class Effect:
    """The difference of the contender from the baseline: `log_ratio` = ln(contender / baseline).

    `standard_error` is on the same scale, `df` its degrees of freedom, `residual_sd` the standard deviation of one
    race's value around its expected value (of two single races: of measured sections around the race's own value). All
    are arrays of one shape, () for one row.
    """

    log_ratio: Floats
    standard_error: Floats
    df: Floats
    residual_sd: Floats


def interleaved(values: ArrayLike, is_contender: ArrayLike, places: ArrayLike) -> Effect:
    """Return the effect of the side without the trend over the session: least squares of ln(value) on side and place.

    `values`: (..., n), each race's ln(throughput) or ln(percentile). `is_contender`, `places`: (n,), the side and the
    place in the session of each. n - 3 degrees of freedom; ValueError below 4 races, or if side and place cannot be
    separated.
    """
    y = _logs(values)
    side, place = np.asarray(is_contender, dtype=float), np.asarray(places, dtype=float)
    n = y.shape[-1]
    if n < 4:
        raise ValueError(f"{n} races are too few: side and trend leave no degree of freedom")
    design = np.column_stack([np.ones(n), side, place - place.mean()])
    if np.linalg.matrix_rank(design) < 3:
        raise ValueError("side and place in the session cannot be distinguished")
    solver = np.linalg.pinv(design)
    coefficients = y @ solver.T
    residuals = y - coefficients @ design.T
    df = n - 3
    residual_sd = np.sqrt(np.sum(residuals**2, axis=-1) / df)
    return _effect(coefficients[..., 1], residual_sd * np.sqrt(solver[1] @ solver[1]), df, residual_sd)


def paired(differences: ArrayLike) -> Effect:
    """Return the effect over rounds that held both sides at once: one-sample t of their differences (..., n).

    A difference is ln(contender) - ln(baseline) of one round. n - 1 degrees of freedom; ValueError below 2 rounds.
    """
    d = _logs(differences)
    n = d.shape[-1]
    if n < 2:
        raise ValueError("one round has no spread")
    residual_sd = d.std(axis=-1, ddof=1)
    return _effect(d.mean(axis=-1), residual_sd / np.sqrt(n), n - 1, residual_sd)


def trend(differences: ArrayLike) -> Effect:
    """Return the change of a difference from the first round to the last: least squares of (..., n) on the round.

    n - 2 degrees of freedom; ValueError below 3 rounds.
    """
    d = _logs(differences)
    n = d.shape[-1]
    if n < 3:
        raise ValueError(f"{n} rounds have no trend in addition to their spread")
    x = np.arange(n) - (n - 1) / 2
    squares = float((x**2).sum())
    slope = (d * x).sum(axis=-1) / squares
    residual = d - d.mean(axis=-1, keepdims=True) - slope[..., None] * x
    sd = np.sqrt((residual**2).sum(axis=-1) / (n - 2))
    return _effect(slope * (n - 1), sd * (n - 1) / math.sqrt(squares), n - 2, sd)


def of_slices(baseline: ArrayLike, contender: ArrayLike) -> Effect:
    """Return the effect within one task: from the units (..., k) of each side's own slices, in their order.

    Blocks of two own slices of each side are paired, so that a line over time is taken out; an incomplete last block is
    left out. The spread is that within the task: it says nothing about other rounds. ValueError below 2 blocks.
    """
    b, c = np.asarray(baseline, dtype=float), np.asarray(contender, dtype=float)
    blocks = min(b.shape[-1], c.shape[-1]) // 2
    if blocks < 2:
        raise ValueError("two blocks of two slices a side are needed")
    with np.errstate(divide="ignore"):
        logs = [np.log(side[..., : 2 * blocks].reshape(*side.shape[:-1], blocks, 2).sum(axis=-1)) for side in (b, c)]
    return paired(_logs(logs[1]) - _logs(logs[0]))


def independent(baseline: ArrayLike, contender: ArrayLike) -> Effect:
    """Return the effect as difference of two means of ln(value), for races that share no session: Welch's t.

    (..., n_b) and (..., n_c); ValueError below 2 races a side.
    """
    b, c = _logs(baseline), _logs(contender)
    if min(b.shape[-1], c.shape[-1]) < 2:
        raise ValueError("a side of one race has no spread")
    return _welch(
        c.mean(axis=-1) - b.mean(axis=-1),
        (b.var(axis=-1, ddof=1) / b.shape[-1], b.shape[-1] - 1),
        (c.var(axis=-1, ddof=1) / c.shape[-1], c.shape[-1] - 1),
        np.sqrt((b.var(axis=-1, ddof=1) + c.var(axis=-1, ddof=1)) / 2),
    )


def section_variance(value: ArrayLike, sections: ArrayLike) -> Floats:
    """Return the variance of a race's ln(value) from those of its sections (..., k): sum((ln q_k - y)^2) / (k (k - 1)).

    ValueError below two sections.
    """
    q, y = _logs(sections), _logs(value)[..., None]
    k = q.shape[-1]
    if k < 2:
        raise ValueError("one section has no spread")
    result: Floats = np.sum((q - y) ** 2, axis=-1) / (k * (k - 1))
    return result


def of_two_races(
    baseline: ArrayLike, baseline_sections: ArrayLike, contender: ArrayLike, contender_sections: ArrayLike
) -> Effect:
    """Return the difference of two single races, which says nothing about other races of either side:
    Welch-Satterthwaite.

    Each value is ln(throughput or percentile) of a race, with the same of its sections (..., 5).
    """
    b, c = _logs(baseline), _logs(contender)
    variances = section_variance(b, baseline_sections), section_variance(c, contender_sections)
    df = np.asarray(baseline_sections).shape[-1] - 1, np.asarray(contender_sections).shape[-1] - 1
    return _welch(c - b, (variances[0], df[0]), (variances[1], df[1]), np.sqrt((variances[0] + variances[1]) / 2))


def of_two_intervals(baseline: ArrayLike, contender: ArrayLike) -> Effect:
    """Return the difference of two single values by the 95 % interval of each, which says nothing about other races.

    Each side is ln of (low, value, high), in the last axis. Half of an interval's width counts as 1.96 standard errors
    of a normal distribution; those of both sides are added in squares.
    """
    b, c = _logs(baseline), _logs(contender)
    variances = [((side[..., 2] - side[..., 0]) / 2 / _NORMAL_95) ** 2 for side in (b, c)]
    variance = variances[0] + variances[1]
    return _effect(c[..., 1] - b[..., 1], np.sqrt(variance), math.inf, np.sqrt(variance / 2))


def with_history(
    baseline: ArrayLike, contender: ArrayLike, history: ArrayLike, section_variance_of_races: ArrayLike = 0.0
) -> Effect:
    """Return the difference of two sides' means, with the spread of earlier races of the same setup (in their order).

    (..., n_b), (..., n_c) and (..., h); one race a side is enough. SE^2 = max(s_h^2, section variance) (1/n_b + 1/n_c),
    h - 1 degrees of freedom. If the level has moved over the earlier races, s_h^2 is half the mean squared difference
    of neighbours, with 2 (h - 1) / 3 degrees of freedom. ValueError below five earlier races.
    """
    earlier = _logs(history)
    h = earlier.shape[-1]
    if h < FEWEST_HISTORY:
        raise ValueError(f"{h} earlier races are too few: {FEWEST_HISTORY} are needed")
    b, c = np.atleast_1d(_logs(baseline)), np.atleast_1d(_logs(contender))
    moved = level_moved(earlier)
    by_neighbours = np.mean(np.diff(earlier, axis=-1) ** 2, axis=-1) / 2
    spread = np.where(moved, by_neighbours, earlier.var(axis=-1, ddof=1))
    variance = np.maximum(spread, np.asarray(section_variance_of_races, dtype=float))
    scale = 1 / b.shape[-1] + 1 / c.shape[-1]
    difference = c.mean(axis=-1) - b.mean(axis=-1)
    return _effect(difference, np.sqrt(variance * scale), np.where(moved, 2 * (h - 1) / 3, h - 1), np.sqrt(variance))


def level_moved(values: ArrayLike) -> NDArray[np.bool_]:
    """True if neighbours (..., n) are more alike than the whole: von Neumann's ratio, one-sided at 5 %.

    1 - sum(d^2) / (2 sum((y - mean)^2)) is near normal with mean 0 and variance (n - 2) / (n^2 - 1) if nothing moves
    (von Neumann, Annals of Mathematical Statistics 12, 1941). ValueError below two values.
    """
    y = _logs(values)
    n = y.shape[-1]
    if n < 2:
        raise ValueError("needs at least two values")
    steps = np.sum(np.diff(y, axis=-1) ** 2, axis=-1)
    spread = np.sum((y - y.mean(axis=-1, keepdims=True)) ** 2, axis=-1)
    beyond = spread - steps / 2 > _LEVEL_MOVED_Z * np.sqrt((n - 2) / (n**2 - 1)) * spread
    return np.asarray(beyond & (steps > 0))


def interval(effect: Effect, level: float = 0.95) -> tuple[Floats, Floats]:
    """Return the t interval (low, high) of the log ratio at a confidence level (0 to 1)."""
    half = special.stdtrit(effect.df, (1 + level) / 2) * effect.standard_error
    return effect.log_ratio - half, effect.log_ratio + half


def reduced(effect: Effect, by: float) -> Effect:
    """Return what is left of an effect if something else moved its log ratio by `by`, at most all of it."""
    left = np.maximum(0.0, np.abs(effect.log_ratio) - by)
    return replace(effect, log_ratio=np.copysign(left, effect.log_ratio))


def p_value(effect: Effect) -> Floats:
    """Return the two-sided p value of no difference. Without any spread: 0 if there is a difference, else 1."""
    difference = np.abs(effect.log_ratio)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(difference <= _ROUNDING, 0.0, difference / effect.standard_error)
    result: Floats = 2 * special.stdtr(effect.df, -t)
    return result


def same_level(looks: int = 1) -> float:
    """Return the level of the interval by which sides are the same: two one-sided tests at 0.05 (Schuirmann 1987), over
    the looks so far, this one included."""
    return 1 - 0.1 / looks


def is_same(effect: Effect, margin: float, looks: int = 1) -> NDArray[np.bool_]:
    """True if the sides are equivalent: the interval of the log ratio lies inside +-`margin`, bounds included.

    `margin` is a natural logarithm, ln 1.05 for 5 %. The level of the interval is 90 %, more after several `looks`.
    """
    low, high = interval(effect, same_level(looks))
    return np.asarray((low >= -margin) & (high <= margin))


def adjusted(p_values: ArrayLike, looks: int = 1, decided: int = 0) -> Floats:
    """Return the p values of many rows (..., m) adjusted by Benjamini and Hochberg (1995), times the looks so far, at
    most 1.

    Below q, at most a share q of the rows that are called different are expected not to be. `looks`: the number of
    times that the result is looked at, this look included; ValueError below 1. NaN is no member of the family; the rows
    that were `decided` at an earlier look are, each as if its p value were 1.
    """
    if looks < 1:
        raise ValueError(f"{looks} looks: this one counts")
    p = np.asarray(p_values, dtype=float)
    m = np.count_nonzero(~np.isnan(p), axis=-1, keepdims=True) + decided
    order = np.argsort(p, axis=-1)  # NaN is last
    ranked = np.take_along_axis(p, order, axis=-1) * m / np.arange(1, p.shape[-1] + 1)
    least_above = np.fmin.accumulate(ranked[..., ::-1], axis=-1)[..., ::-1]
    result = np.empty_like(p)
    np.put_along_axis(result, order, np.minimum(least_above * looks, 1.0), axis=-1)
    return result


def rounds_to_settle(residual_sd: float, margin: float, rows: int) -> int | None:
    """Return the rounds a side with which a row would be called same, faster or slower; None above 50: its task is too
    noisy.

    The smallest n with (t[1 - 0.025 / m, 2n - 3] + t[0.95, 2n - 3]) s sqrt(2 / n) <= M, for m primary `rows` and a
    `margin` M on the scale of logarithms (ln 1.05 for 5 %). ValueError if the residual standard deviation s is unknown
    (NaN).
    """
    n = np.arange(2, MOST_ROUNDS + 1)
    return _fewest(n, 2 * n - 3, np.sqrt(2 / n), residual_sd, margin, rows)


def paired_rounds_to_settle(
    residual_sd: float, margin: float, rows: int, fewest: int = 2, looks: int = 1
) -> int | None:
    """Return the rounds with both sides at once with which a row would be called same, faster or slower; None above 50.

    The smallest n, `fewest` at least, with (t[1 - 0.025 / m, n - 1] + t[0.95, n - 1]) s / sqrt(n) <= M; otherwise as
    `rounds_to_settle`, s the standard deviation of a round's difference. Each of several `looks` has its share of both
    levels.
    """
    n = np.arange(fewest, MOST_ROUNDS + 1)
    return _fewest(n, n - 1, 1 / np.sqrt(n), residual_sd, margin, rows, looks)


def paired_margin(residual_sd: float, rounds: int, rows: int, looks: int = 1) -> float:
    """Return the margin, on the scale of logarithms, that a number of rounds with both sides at once settles.

    The inverse of `paired_rounds_to_settle`. ValueError below 2 rounds.
    """
    if rounds < 2:
        raise ValueError("one round has no spread")
    return float(_margins(np.asarray(rounds - 1), residual_sd / math.sqrt(rounds), rows, looks))


def _margins(df: NDArray[np.int_], standard_error: Any, rows: int, looks: int = 1) -> Floats:
    different, same = 1 - 0.025 / (rows * looks), 1 - 0.05 / looks
    result: Floats = (special.stdtrit(df, different) + special.stdtrit(df, same)) * standard_error
    return result


def _fewest(
    n: NDArray[np.int_],
    df: NDArray[np.int_],
    scale: Floats,
    residual_sd: float,
    margin: float,
    rows: int,
    looks: int = 1,
) -> int | None:
    """Return the first of the numbers of rounds `n` at which the standard error, `scale` times the residual standard
    deviation, is small enough."""
    if not residual_sd >= 0:
        raise ValueError(f"no rounds follow from a standard deviation of {residual_sd}")
    enough = np.flatnonzero(_margins(df, residual_sd * scale, rows, looks) <= margin)
    return int(n[enough[0]]) if enough.size else None


def block_variance(section_means: ArrayLike, blocks: ArrayLike) -> Floats:
    """Return the variance of the difference in one block of slices: that within rounds, which longer tasks reduce.

    `section_means` (..., n, 5): the difference in each of 5 sections of n rounds, of `blocks` (..., n) or () blocks of
    slices each. It serves planning, never a verdict.
    """
    means = _logs(section_means)
    of_rounds = np.asarray(blocks) * means.var(axis=-1, ddof=1) / means.shape[-1]
    result: Floats = of_rounds.mean(axis=-1)
    return result


def best_blocks(block_variance: ArrayLike, round_variance: ArrayLike, cost: ArrayLike, blocks: ArrayLike) -> Floats:
    """Return the number of blocks a task, 8 to 60, with which a given time decides most (Kalibera and Jones 2013).

    sqrt(c / s v_block / v_round): `cost` is c / s, what a round takes for a task before it is measured, in blocks.
    Twice the present number, `blocks`, without variance between rounds (0 or below).
    """
    within, between = np.asarray(block_variance, dtype=float), np.asarray(round_variance, dtype=float)
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.sqrt(np.asarray(cost) * within / between)
    return np.clip(np.where(between > 0, best, 2 * np.asarray(blocks)), FEWEST_BLOCKS, MOST_BLOCKS)


def share_bounds(hits: float, trials: float, level: float = 0.95) -> tuple[float, float]:
    """Return the lower and upper bound of a share with `hits` in `trials`, each one-sided at a level (0 to 1).

    Exact (Clopper and Pearson, Biometrika 26, 1934); counts that are divided by a dispersion need not be whole.
    ValueError without trials, or with more hits than trials.
    """
    if not 0 <= hits <= trials or trials < 1:
        raise ValueError(f"{hits} hits in {trials} trials are not a share")
    low = special.betaincinv(hits, trials - hits + 1, 1 - level) if hits else 0.0
    high = special.betaincinv(hits + 1, trials - hits, level) if hits < trials else 1.0
    return float(low), float(high)


def _logs(values: ArrayLike) -> Floats:
    y = np.asarray(values, dtype=float)
    return np.where(np.isfinite(y), y, np.nan)


def _welch(difference: Any, first: tuple[Any, int], second: tuple[Any, int], residual_sd: Any) -> Effect:
    (v1, df1), (v2, df2) = first, second
    variance = v1 + v2
    with np.errstate(divide="ignore", invalid="ignore"):
        df = np.where(variance > 0, variance**2 / (v1**2 / df1 + v2**2 / df2), df1 + df2)
    return _effect(difference, np.sqrt(variance), df, residual_sd)


def _effect(log_ratio: Any, standard_error: Any, df: Any, residual_sd: Any) -> Effect:
    arrays = np.broadcast_arrays(
        *(np.asarray(part, dtype=float) for part in (log_ratio, standard_error, df, residual_sd))
    )
    return Effect(*arrays)
