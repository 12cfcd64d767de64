"""The rounds that a duel needs, from the spread of its first ones or of an earlier one, not from their result. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median, stdev

from esbench.comparison import stats
from esbench.comparison.metrics import THROUGHPUT, Percentile, min_effect
from esbench.comparison.model import Comparison, Pair, RoundPlan, RoundsNeeded
from esbench.comparison.nodes import kept_apart, nodes_of
from esbench.comparison.settling import TailNeed, tail_need
from esbench.comparison.side_by_side import TAIL_FROM
from esbench.record.figures import Notice, reported_tasks, task_label
from esbench.record.model import RaceRecord, SlicePlan, TaskResult


@dataclass(frozen=True)
class BudgetPlan:
    """The rounds that fit into a budget, and the change that they settle: None if a verdict needs more rounds."""

    rounds: int
    effect_ratio: float | None


@dataclass(frozen=True)
class TimedPlan:
    """The rounds needed with tasks of one length, `task_s` for all sides together, by ascending change.

    `budget`: None without one, or if the time of a round is not known.
    """

    task_s: float
    needed: tuple[RoundsNeeded, ...]
    budget: BudgetPlan | None = None


@dataclass(frozen=True)
class DuelPlan:
    """The plan of a duel by the spread of `rounds` rounds, those of the contender that spread most.

    `spread`: between and within these rounds; `rows`: the number of rows judged together; `fewest_rounds`: those that a
    verdict needs. `counted_ratio`: the change that verdicts count from on. `raced` has tasks as long as they were,
    `best` as long as settles most in a given time. `keeps_nodes`: the sides had the same nodes in all rounds, each its
    own, so that verdicts are on these alone. `unsteady`: the tasks of which two thirds were cut as warmup, as
    no shorter one was seen to be enough. `notices`: those on figures that must not be used or compared.
    """

    rounds: int
    rows: int
    fewest_rounds: int
    counted_ratio: float
    spread: RoundPlan
    raced: TimedPlan
    best: TimedPlan
    tails: tuple[TailNeed, ...]
    keeps_nodes: bool
    unsteady: tuple[str, ...] = ()
    notices: tuple[Notice, ...] = ()

    def advised(self, timed: TimedPlan) -> int:
        """Return the rounds to race with tasks of one length: those that settle the change that counts, else a larger
        one, but no more than fit into the budget. At least those that a verdict needs."""
        settling = [each.rounds for each in timed.needed if each.effect_ratio >= self.counted_ratio]
        rounds = next(filter(None, settling), self.fewest_rounds)
        return max(self.fewest_rounds, rounds if timed.budget is None else min(rounds, timed.budget.rounds))


def rounds_that_settle(comparison: Comparison, effect_ratio: float) -> int | None:
    """Return the rounds, each with all sides at once, that settle a change by `effect_ratio` in most rows.

    They follow from the median spread of the primary throughputs, without any of all primary rows. None if
    more than a reasonable number would be needed, or no row has a spread.
    """
    primary = [row for pair in comparison.pairs for row in pair.rows if row.is_primary]
    throughputs = [row for row in primary if row.metric == THROUGHPUT]
    spreads = [stdev(row.differences) for row in throughputs or primary if len(row.differences) > 1]
    if not spreads:
        return None
    return stats.paired_rounds_to_settle(median(spreads), math.log1p(effect_ratio), max(1, comparison.tested))


def plan_of(comparison: Comparison, round_s: float, budget_s: float | None = None) -> DuelPlan | None:
    """Return the plan of a duel by rounds of it, or of one like it; None without two rounds that have values.

    `round_s`: the time of such a round. Rows count as judged that are not yet so for want of rounds or of requests.
    """
    spreads = [(math.hypot(plan.between_ratio, plan.within_ratio), pair, plan) for pair, plan in _planned(comparison)]
    if len(spreads) < len(comparison.pairs) or not spreads:
        return None
    raced_spread, pair, plan = max(spreads, key=lambda each: each[0])
    nodes = nodes_of(list(zip(pair.baseline.records, pair.contender.records, strict=True)))
    asked = comparison.min_effect_ratio
    counted = min_effect(THROUGHPUT, asked, fresh_nodes=nodes.fresh)
    ratios = sorted({counted, *(each.effect_ratio for each in plan.needed)})
    rows = sum(row.task in each.sliced.cuts for each in comparison.pairs if each.sliced for row in each.primary)

    def timed(task_s: float, spread: float, one_s: float | None) -> TimedPlan:
        def needed(ratio: float) -> RoundsNeeded:
            rounds = stats.paired_rounds_to_settle(spread, math.log1p(ratio), max(1, rows), nodes.fewest_rounds)
            return RoundsNeeded(ratio, rounds, None if rounds is None or one_s is None else rounds * one_s)

        budget = None
        if budget_s is not None and one_s:
            fitting = math.floor(budget_s / one_s)
            enough = fitting >= nodes.fewest_rounds
            margin = stats.paired_margin(spread, fitting, max(1, rows)) if enough else None
            budget = BudgetPlan(fitting, None if margin is None else math.expm1(margin))
        return TimedPlan(task_s, tuple(map(needed, ratios)), budget)

    times = [task.window.end_s * slices.pace for _, task, slices in _sliced(pair.baseline.records[:1])]
    return DuelPlan(
        len(pair.baseline.records),
        rows,
        nodes.fewest_rounds,
        counted,
        plan,
        timed(median(times), raced_spread, round_s),
        timed(plan.task_s, plan.spread_ratio, plan.round_s),
        tuple(_tails(comparison)),
        kept_apart(pair.baseline.records, pair.contender.records),
        tuple(label for label, cut in pair.sliced.cuts.items() if not cut.is_steady) if pair.sliced else (),
        tuple(notice for notice in comparison.notices if notice.unusable),
    )


def _planned(comparison: Comparison) -> Iterator[tuple[Pair, RoundPlan]]:
    for pair in comparison.pairs:
        if pair.sliced is not None and pair.sliced.plan is not None:
            yield pair, pair.sliced.plan


def _sliced(records: Iterable[RaceRecord]) -> Iterator[tuple[str, TaskResult, SlicePlan]]:
    """Yield the label of each task in slices, the task, and its slices."""
    for record in records:
        for task in reported_tasks(record):
            if task.slices is not None:
                yield task_label(record, task), task, task.slices


def _tails(comparison: Comparison) -> Iterator[TailNeed]:
    """Yield the need of each percentile from p90 up that is judged, by the race with the fewest requests a second."""
    records = [
        record for pair in comparison.pairs for side in (pair.baseline, pair.contender) for record in side.records
    ]
    judged = dict.fromkeys((row.task, row.metric) for pair in comparison.pairs for row in pair.primary)
    for label, metric in judged:
        percentile = Percentile.of(metric)
        if percentile is None or percentile.rank < TAIL_FROM:
            continue
        needs = [
            tail_need(label, metric, percentile, task, slices)
            for name, task, slices in _sliced(records)
            if name == label
        ]
        if needs:
            yield min(needs, key=lambda need: need.requests_per_s)
