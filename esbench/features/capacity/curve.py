"""The curve of a search for capacity: what share of requests is late at which rate, and where it crosses a limit. Pure.

Late requests come in bursts, and no single probe proves that a rate holds: a logistic regression over all probes near
the capacity does (docs/capacity.md). Imported by searches only: numpy and scipy.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special

from esbench.features.capacity.record import BY_FAR, NEAR, LateCounts, LateCurve, batch_dispersion

Floats = NDArray[np.float64]

_PRIOR_SLOPE = 10.0  # logits that a rate twice as high adds; the standard deviation is the same
_NARROWEST = 0.025  # of an interval, to each side
_FEWEST_FOR_DRIFT, _DRIFT_P = 6, 0.05
_MOST_STEPS, _SMALL_STEP = 100, 1e-9
_LONGEST_STEP = 2.0  # in logits


def fit(probes: Sequence[LateCounts], most_late: float) -> LateCurve:
    """Return the curve through probes in their order, for an objective that allows the share `most_late` to be late.

    logit(late / due) = a + b (rate / mean rate - 1), with a prior for b of 10 +- 10. The interval is where the curve's
    95 % band (t) crosses the limit, 2.5 % to each side at least. ValueError below two probes.
    """
    if len(probes) < 2:
        raise ValueError("a curve needs two probes")
    rates = np.array([probe.rate_per_s for probe in probes])
    middle = float(rates.mean())
    design = np.column_stack([np.ones(len(rates)), rates / middle - 1])
    fitted = _fitted(design, probes)
    df = max(1, len(probes) - 2)
    at, low, high = _crossings(fitted, float(special.logit(most_late)), df)
    capacity = middle * (1 + at)
    return LateCurve(
        capacity,
        max(0.0, min(middle * (1 + low), capacity * (1 - _NARROWEST))),
        max(middle * (1 + high), capacity * (1 + _NARROWEST)),
        float(fitted.coefficients[1]) * capacity / middle,
        fitted.dispersion,
        sum(sum(probe.late) for probe in probes) / fitted.dispersion,
        len(probes),
        drift_p(probes, most_late) < _DRIFT_P,
    )


def drift_p(probes: Sequence[LateCounts], most_late: float) -> float:
    """Return how likely by chance the odds of being late change as they do from probe to probe at the same rate: t test
    of a term for their order in the curve's regression. 1 below six probes.

    The first ones are left out if they miss by far: a search begins so, and far above its limit a queue does not follow
    the curve.
    """
    probes = list(dropwhile(lambda probe: probe.excess(most_late) > BY_FAR, probes))
    if len(probes) < _FEWEST_FOR_DRIFT:
        return 1.0
    rates, n = np.array([probe.rate_per_s for probe in probes]), len(probes)
    design = np.column_stack([np.ones(n), rates / rates.mean() - 1, np.linspace(-1.0, 1.0, n)])
    fitted = _fitted(design, probes)
    t = float(fitted.coefficients[-1]) / math.sqrt(fitted.covariance[-1, -1])
    return float(2 * special.stdtr(n - design.shape[1], -abs(t)))


def crossing(rates_per_s: Sequence[float], excesses: Sequence[float], weights: Sequence[float]) -> tuple[float, float]:
    """Return the neighbouring rates of probes between which their excess rises above 1: 0 before the first of them,
    infinity behind the last.

    By monotone regression on the rate (Barlow et al., Inference under Order Restrictions, 1972): a probe that was lucky
    does not hold above several that missed, and an unlucky one does not miss below several that held.
    """
    if not rates_per_s:
        return 0.0, math.inf
    probed, numbers = np.unique(rates_per_s, return_inverse=True)
    summed = np.bincount(numbers, weights)
    means = np.bincount(numbers, np.multiply(excesses, weights)) / summed
    held = int((optimize.isotonic_regression(means, weights=summed).x <= 1).sum())
    bounds = [0.0, *probed.tolist(), math.inf]
    return bounds[held], bounds[held + 1]


def bounded(curve: LateCurve, probes: Sequence[LateCounts], most_late: float) -> LateCurve:
    """Return the curve with an interval that ends no farther than at the nearest rates that clearly hold and miss.

    The share of late requests grows with the rate: if of all requests from a rate up to the capacity, or to `NEAR`
    times the rate, fewer are late than may be, the rate holds. Clearly: by the 95 % interval of Clopper and Pearson
    (1934), counts divided by the dispersion. `probes`: also those that were overloaded, or far from the curve.
    """
    capacity = curve.capacity_per_s
    low, high = curve.low_per_s, curve.high_per_s
    for rate in (probe.rate_per_s for probe in probes):
        if low < rate <= capacity:
            due, late = _independent(curve, probes, rate, min(capacity, rate * NEAR))
            if special.betaincinv(late + 1, due - late, 0.975) < most_late:
                low = min(rate, capacity * (1 - _NARROWEST))
        elif capacity <= rate < high:
            due, late = _independent(curve, probes, max(capacity, rate / NEAR), rate)
            if special.betaincinv(late, due - late + 1, 0.025) > most_late:
                high = max(rate, capacity * (1 + _NARROWEST))
    return replace(curve, low_per_s=low, high_per_s=high)


def _independent(
    curve: LateCurve, probes: Sequence[LateCounts], from_per_s: float, to_per_s: float
) -> tuple[float, float]:
    """Return how many independent requests those of probes at such rates are worth: (due, late)."""
    counts = [(sum(each.due), sum(each.late)) for each in probes if from_per_s <= each.rate_per_s <= to_per_s]
    due, late = (sum(column) / curve.dispersion for column in zip(*counts, strict=True))
    return due, late


@dataclass(frozen=True)
class _Fitted:
    coefficients: Floats
    covariance: Floats
    dispersion: float


def _fitted(design: Floats, probes: Sequence[LateCounts]) -> _Fitted:
    """Fit a logistic regression, its variances times the dispersion.

    That is the largest of 1, the variance between the batches of each probe over the binomial one, and Pearson's
    chi-squared over its degrees of freedom (McCullagh and Nelder, Generalized Linear Models, 1989, 4.5).
    """
    due = np.array([sum(probe.due) for probe in probes], dtype=float)
    late = np.array([sum(probe.late) for probe in probes], dtype=float)
    df = len(probes) - design.shape[1]
    dispersion = batch_dispersion(probes)
    for _ in range(2):  # the prior's weight depends on the dispersion, which the first curve shows
        coefficients, expected, information = _regression(design, due, late, dispersion)
        squares = (late - due * expected) ** 2 / (due * expected * (1 - expected))
        dispersion = max(dispersion, float(squares.sum()) / df if df > 0 else 1.0)
    return _Fitted(coefficients, np.asarray(dispersion * np.linalg.inv(information)), dispersion)


def _regression(design: Floats, due: Floats, late: Floats, dispersion: float) -> tuple[Floats, Floats, Floats]:
    """Return the coefficients, the expected shares of late requests, and the information matrix with the prior.

    Newton's method on the likelihood; steps that would overshoot are shortened.
    """
    precision, prior = np.zeros((design.shape[1], design.shape[1])), np.zeros(design.shape[1])
    precision[1, 1], prior[1] = dispersion / _PRIOR_SLOPE**2, _PRIOR_SLOPE
    coefficients = prior.copy()
    coefficients[0] = special.logit((late.sum() + 0.5) / (due.sum() + 1))
    for _ in range(_MOST_STEPS):
        expected = np.clip(special.expit(design @ coefficients), 1e-12, 1 - 1e-12)
        information = design.T @ (design * (due * expected * (1 - expected))[:, None]) + precision
        step = np.linalg.solve(information, design.T @ (late - due * expected) - precision @ (coefficients - prior))
        change = float(np.abs(design @ step).max())
        coefficients = coefficients + step * min(1.0, _LONGEST_STEP / max(change, _SMALL_STEP))
        if change < _SMALL_STEP:
            break
    return coefficients, expected, information


def _crossings(fitted: _Fitted, limit: float, df: int) -> tuple[float, float, float]:
    """Return where the curve and both edges of its 95 % band cross a limit (logits), in relative rates.

    They solve (a + b x - limit)^2 = t^2 (V_aa + 2 x V_ab + x^2 V_bb), as in Fieller (1954); -1 and infinity for none.
    """
    a, b = float(fitted.coefficients[0]) - limit, float(fitted.coefficients[1])
    if b <= 0:
        return math.inf, -1.0, math.inf
    (aa, ab), (_, bb) = (float(special.stdtrit(df, 0.975)) ** 2 * fitted.covariance).tolist()
    square, linear, constant = b * b - bb, a * b - ab, a * a - aa
    if square <= 0:  # the slope may be zero
        return -a / b, -1.0, math.inf
    root = math.sqrt(max(0.0, linear * linear - square * constant))
    return -a / b, max(-1.0, (-linear - root) / square), (-linear + root) / square
