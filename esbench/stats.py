"""The statistics of comparisons: effects on a log scale, their intervals, equivalence, many rows at once. Pure.

No I/O, no records: arrays in, numbers out. docs/method.md says what each is used for. An axis before the last, where
there is one, is of independent data sets, so that simulations need no loop. Imported by comparisons only: numpy and
scipy.special.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

Floats = NDArray[np.float64]

SECTIONS = 5  # of a race that stands alone
FEWEST_HISTORY = 5
MOST_ROUNDS = 50
_LEVEL_MOVED_Z = 1.6448536269514722  # one-sided, 5 %


@dataclass(frozen=True)
class Effect:
    """By how much the contender differs from the baseline: `log_ratio` = ln(contender / baseline).

    `standard_error` is on the same scale, `df` its degrees of freedom, `residual_sd` the standard deviation of one
    race's value around what is expected of it. All are arrays of one shape, or scalars.
    """

    log_ratio: Floats
    standard_error: Floats
    df: Floats
    residual_sd: Floats

    @property
    def ratio(self) -> Floats:
        """contender / baseline."""
        return np.exp(self.log_ratio)


def interleaved(values: ArrayLike, is_contender: ArrayLike, places: ArrayLike) -> Effect:
    """The effect of the side, with a trend over the session taken out: least squares of ln(value) on side and place.

    `values`: (..., n), each race's ln(throughput) or ln(percentile). `is_contender`, `places`: (n,), the side and the
    place in the session of each. n - 3 degrees of freedom; ValueError below 4 races, or where side and place cannot
    be told apart.
    """
    y = np.asarray(values, dtype=float)
    side, place = np.asarray(is_contender, dtype=float), np.asarray(places, dtype=float)
    n = y.shape[-1]
    if n < 4:
        raise ValueError(f"{n} races are too few: side and trend leave no degree of freedom")
    design = np.column_stack([np.ones(n), side, place - place.mean()])
    if np.linalg.matrix_rank(design) < 3:
        raise ValueError("side and place in the session cannot be told apart")
    coefficients = y @ np.linalg.pinv(design).T
    residuals = y - coefficients @ design.T
    df = n - 3
    variance = np.sum(residuals**2, axis=-1) / df
    unscaled = np.linalg.inv(design.T @ design)[1, 1]
    return _effect(coefficients[..., 1], np.sqrt(variance * unscaled), float(df), np.sqrt(variance))


def independent(baseline: ArrayLike, contender: ArrayLike) -> Effect:
    """The difference of two means of ln(value), without a session that ties them: Welch's t.

    (..., n_b) and (..., n_c); ValueError below 2 races a side.
    """
    b, c = np.asarray(baseline, dtype=float), np.asarray(contender, dtype=float)
    if min(b.shape[-1], c.shape[-1]) < 2:
        raise ValueError("a side of one race has no spread")
    return _welch(
        c.mean(axis=-1) - b.mean(axis=-1),
        (b.var(axis=-1, ddof=1) / b.shape[-1], b.shape[-1] - 1),
        (c.var(axis=-1, ddof=1) / c.shape[-1], c.shape[-1] - 1),
        np.sqrt((b.var(axis=-1, ddof=1) + c.var(axis=-1, ddof=1)) / 2),
    )


def section_variance(value: ArrayLike, sections: ArrayLike) -> Floats:
    """The variance of a race's ln(value) from those of its sections (..., k): sum((ln q_k - y)^2) / (k (k - 1))."""
    q = np.asarray(sections, dtype=float)
    k = q.shape[-1]
    y = np.asarray(value, dtype=float)[..., None]
    result: Floats = np.sum((q - y) ** 2, axis=-1) / (k * (k - 1))
    return result


def of_two_races(
    baseline: ArrayLike, baseline_sections: ArrayLike, contender: ArrayLike, contender_sections: ArrayLike
) -> Effect:
    """The difference of two single races, which says nothing about other races of either side: Welch-Satterthwaite.

    Each value is ln(throughput or percentile) of a race, with the same of its sections (..., 5).
    """
    b, c = np.asarray(baseline, dtype=float), np.asarray(contender, dtype=float)
    variances = section_variance(b, baseline_sections), section_variance(c, contender_sections)
    df = np.asarray(baseline_sections).shape[-1] - 1, np.asarray(contender_sections).shape[-1] - 1
    return _welch(c - b, (variances[0], df[0]), (variances[1], df[1]), np.sqrt((variances[0] + variances[1]) / 2))


def with_history(
    baseline: ArrayLike, contender: ArrayLike, history: Sequence[float], section_variance_of_races: float = 0.0
) -> Effect:
    """The difference of two sides' means, by the spread that earlier races of the same thing had (in their order).

    SE^2 = max(s_h^2, section variance) (1/n_b + 1/n_c), h - 1 degrees of freedom. Where the level has moved since,
    s_h^2 is half the mean squared difference of neighbours, with 2 (h - 1) / 3 degrees of freedom. ValueError below
    five earlier races.
    """
    earlier = np.asarray(history, dtype=float)
    h = earlier.shape[-1]
    if h < FEWEST_HISTORY:
        raise ValueError(f"{h} earlier races are too few: {FEWEST_HISTORY} are needed")
    b, c = np.atleast_1d(np.asarray(baseline, dtype=float)), np.atleast_1d(np.asarray(contender, dtype=float))
    if level_moved(earlier):
        variance, df = float(np.mean(np.diff(earlier) ** 2) / 2), 2 * (h - 1) / 3
    else:
        variance, df = float(earlier.var(ddof=1)), float(h - 1)
    variance = max(variance, section_variance_of_races)
    scale = 1 / b.shape[-1] + 1 / c.shape[-1]
    difference = c.mean(axis=-1) - b.mean(axis=-1)
    return _effect(difference, np.sqrt(variance * scale), df, np.sqrt(variance))


def level_moved(values: ArrayLike) -> bool:
    """Whether neighbours are more alike than the whole: von Neumann's ratio, one-sided at 5 %.

    1 - d^2 / (2 s^2) is near normal with mean 0 and variance (n - 2) / (n^2 - 1) where nothing moves (von Neumann,
    Annals of Mathematical Statistics 12, 1941).
    """
    y = np.asarray(values, dtype=float)
    n = y.shape[-1]
    spread = np.sum((y - y.mean()) ** 2)
    if n < 4 or spread == 0:
        return False
    statistic = 1 - np.sum(np.diff(y) ** 2) / (2 * spread)
    return bool(statistic > _LEVEL_MOVED_Z * np.sqrt((n - 2) / (n**2 - 1)))


def interval(effect: Effect, level: float = 0.95) -> tuple[Floats, Floats]:
    """The t interval of the log ratio at a level (0 to 1)."""
    half = special.stdtrit(effect.df, (1 + level) / 2) * effect.standard_error
    return effect.log_ratio - half, effect.log_ratio + half


def p_value(effect: Effect) -> Floats:
    """Two-sided, of no difference. Without any spread: 0 where there is a difference, else 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.abs(effect.log_ratio) / effect.standard_error
    p = 2 * special.stdtr(effect.df, -np.where(np.isnan(t), 0.0, t))
    result: Floats = np.asarray(p, dtype=float)
    return result


def is_same(effect: Effect, margin: float) -> NDArray[np.bool_]:
    """Whether the sides are equivalent: the 90 % interval lies inside +-`margin` (two one-sided tests at 0.05;
    Schuirmann 1987)."""
    low, high = interval(effect, 0.90)
    return np.asarray((low >= -margin) & (high <= margin))


def adjusted(p_values: ArrayLike) -> Floats:
    """p values of many rows (..., m) adjusted by Benjamini and Hochberg (1995): below q, at most q of the rows that
    are called different are expected not to be."""
    p = np.asarray(p_values, dtype=float)
    m = p.shape[-1]
    if m == 0:
        return p
    order = np.argsort(p, axis=-1)
    ranked = np.take_along_axis(p, order, axis=-1) * m / np.arange(1, m + 1)
    falling = np.minimum.accumulate(ranked[..., ::-1], axis=-1)[..., ::-1]
    result = np.empty_like(p)
    np.put_along_axis(result, order, np.minimum(falling, 1.0), axis=-1)
    return result


def rounds_to_settle(residual_sd: float, margin: float, rows: int) -> int | None:
    """Rounds a side with which a row would be called same, faster or slower; None above 50: its task is too noisy.

    The smallest n with (t[1 - 0.025 / m, 2n - 3] + t[0.95, 2n - 3]) s sqrt(2 / n) <= M, for m primary rows.
    """
    n = np.arange(2, MOST_ROUNDS + 1)
    df = 2 * n - 3
    needed = (special.stdtrit(df, 1 - 0.025 / rows) + special.stdtrit(df, 0.95)) * residual_sd * np.sqrt(2 / n)
    enough = np.flatnonzero(needed <= margin)
    return int(n[enough[0]]) if enough.size else None


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
