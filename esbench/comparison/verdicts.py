"""The verdicts of rows: faster, slower, the same, or why it is unclear (docs/verdicts.md)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from esbench.comparison import stats
from esbench.comparison.effects import Design, Fit
from esbench.comparison.metrics import Percentile, min_effect
from esbench.comparison.model import CompareOptions, Row, RowVerdict
from esbench.comparison.preconditions import tasks_of, unless_errors
from esbench.comparison.reasons import (
    DIFFERS_FASTER,
    DIFFERS_SLOWER,
    DRIVER_LIMIT,
    EQUIVALENT,
    FASTER,
    SLOWER,
)
from esbench.comparison.rows import CandidateRow
from esbench.comparison.settling import to_settle
from esbench.measure.measures import LATENCY
from esbench.record.figures import HIGHER

SIGNIFICANT = 0.05
_WAITED = "only the time that requests waited for changed, not their service time"


def judged(candidates: Sequence[CandidateRow], options: CompareOptions) -> tuple[Row, ...]:
    """Return the rows in the order of `candidates`; those that wait get verdicts, the others stay as they are.

    The rows that wait, of all contenders, are one family of tests, whose p values are adjusted together (Benjamini and
    Hochberg).
    """
    raw = [
        float(stats.p_value(stats.reduced(candidate.fitted.effect, candidate.leak.log if candidate.leak else 0.0)))
        for candidate in candidates
        if candidate.fitted is not None and candidate.waits
    ]
    p_values = iter(map(float, stats.adjusted(raw, options.looks, options.decided)))
    tested = len(raw) + options.decided
    rows = []
    for candidate in candidates:
        row = candidate.row
        if candidate.fitted is not None and candidate.waits:
            verdict = _verdict(candidate, candidate.fitted, next(p_values), tested, options)
            row = replace(row, verdict=verdict)
        rows.append(row)
    return tuple(rows)


def _verdict(candidate: CandidateRow, fitted: Fit, p: float, rows: int, options: CompareOptions) -> RowVerdict:
    row, design, leaked = candidate.row, candidate.design, candidate.leak
    effect_ratio = min_effect(row.metric, options.min_effect_ratio, fresh_nodes=design.has_fresh_nodes)
    margin, lag = math.log1p(effect_ratio), _lag_change(row, fitted, design)
    moved = (leaked.log if leaked else 0.0) + (lag.log if lag else 0.0)
    if stats.is_same(fitted.effect, margin - moved, options.looks):
        verdict = RowVerdict(EQUIVALENT, p=p)
    elif lag and lag.outweighs and (p < SIGNIFICANT or lag.log > margin / 4):
        verdict = lag.verdict
    elif p < SIGNIFICANT:
        verdict = _direction(row, fitted, design, p, options)
    elif leaked is not None:
        verdict = replace(leaked.verdict, p=p)
    else:
        verdict = replace(to_settle(row, fitted, design, effect_ratio, rows), p=p)
    notes = [_WAITED] if verdict.word in (FASTER, SLOWER) and _waited_only(fitted, candidate.work) else []
    notes += [leaked.text] if leaked and verdict.reason is not leaked.reason else []
    verdict = replace(verdict, remarks=(*notes, *candidate.remarks))
    return verdict if candidate.clusters is None else candidate.clusters.verdict(verdict)


def _direction(row: Row, fitted: Fit, design: Design, p: float, options: CompareOptions) -> RowVerdict:
    rose = float(fitted.effect.log_ratio) > 0
    verdict = RowVerdict(DIFFERS_FASTER if rose == (row.better == HIGHER) else DIFFERS_SLOWER, p=p)
    ours, theirs = (tasks_of(races, row.task) for races in (design.baseline, design.contender))
    return unless_errors(verdict, ours, theirs, options)


@dataclass(frozen=True)
class _LagChange:
    """The change of the driver's own lag at a latency's percentile, which may have moved the logarithm of its ratio by
    `log`. `outweighs`: the latency changed by less than twice as much."""

    ms: float
    log: float
    outweighs: bool

    @property
    def verdict(self) -> RowVerdict:
        """The verdict of a row that has none because of it."""
        return RowVerdict(DRIVER_LIMIT, f"the driver's lag changed by {self.ms:.2f} ms")


def _lag_change(row: Row, fitted: Fit, design: Design) -> _LagChange | None:
    """Return the change of the driver's own lag at a row's percentile; None of other figures, or if it is not known."""
    percentile = Percentile.of(row.metric)
    if percentile is None or percentile.measure is not LATENCY:
        return None
    lags = [
        [(task.driver_lag_ms or {}).get(f"p{percentile.rank:g}") for task in tasks_of(races, row.task)]
        for races in (design.baseline, design.contender)
    ]
    ours, theirs = ([lag for lag in side if lag is not None] for side in lags)
    if not ours or not theirs:
        return None
    change_ms = fmean(theirs) - fmean(ours)
    # as a change around the middle of both sides: the same whichever is the baseline
    part = abs(change_ms) / math.prod(figure.value for figure in row.figures) ** 0.5
    log, twice = 2 * math.asinh(part / 2), 2 * math.asinh(part)
    return _LagChange(change_ms, log, abs(float(fitted.effect.log_ratio)) < twice)


def _waited_only(fitted: Fit, work: Fit | None) -> bool:
    """True if only the latency of an open loop changed: the interval of its service time (`work`) includes no change,
    but not a change as large as the latency's."""
    if work is None:
        return False
    low, high = work.estimate.low, work.estimate.high
    return low <= 1 <= high and not low <= fitted.estimate.ratio <= high
