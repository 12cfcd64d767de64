"""The document of a duel's plan: the rounds and the task time that settle a change, before they are raced."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, replace

from esbench.comparison.model import RoundsNeeded
from esbench.comparison.settling import TailNeed
from esbench.comparison.stats import MOST_ROUNDS
from esbench.errors.short import first_of
from esbench.features.duel.planning import DuelPlan, TimedPlan
from esbench.record.figures import Notice
from esbench.report.table_model import (
    Above,
    Cell,
    Column,
    ColumnOf,
    ReportDocument,
    Section,
    Table,
    facts_table,
    table_of,
)
from esbench.units import format_duration

_MOST_NAMED = 8
_COLUMNS = (
    Column("Tasks", "tasks"),
    Column("Change", "change_percent", numeric=True, percent=True),
    Column("Rounds", "rounds", numeric=True),
    Column("Takes", "takes"),
    Column("", "task_time_s", for_programs=True),
    Column("", "session_s", for_programs=True),
)
_OF_TAILS: tuple[ColumnOf[TailNeed], ...] = (
    ColumnOf("Task", "task", cuttable=True, read=lambda need: need.task),
    ColumnOf("Figure", "metric", read=lambda need: need.metric),
    ColumnOf("Requests/s", "requests_per_s", numeric=True, read=lambda need: need.requests_per_s),
    ColumnOf("Raced s", "raced_s", numeric=True, read=lambda need: math.floor(need.raced_s)),
    ColumnOf("Needed s", "needed_s", numeric=True, read=lambda need: need.needed_s and math.ceil(need.needed_s)),
)


def duel_plan(plan: DuelPlan, session: str, budget_s: float | None, after: str) -> ReportDocument:
    """Return the document of a plan. `session` says which rounds it rests on, `after` what to do with it."""
    spread = plan.spread
    facts = (
        ("Session", session),
        ("Start luck" if spread.is_start_luck else "Between rounds", f"{100 * spread.between_ratio:.1f} %"),
        ("Within rounds", f"{100 * spread.within_ratio:.1f} %"),
        ("Rows", f"{plan.rows}, judged together"),
    )
    return ReportDocument(
        Table(_COLUMNS, tuple(row for timed in (plan.raced, plan.best) for row in _rows(plan, timed, budget_s))),
        facts_table(facts),
        tuple(_notices(plan, budget_s)),
        (Section("Task time, all sides together, that percentiles need", table_of(_OF_TAILS, plan.tails)),)
        if plan.tails
        else (),
        overview={**asdict(replace(plan, notices=())), "after": after},
    )


def task_time(timed: TimedPlan) -> str:
    """Return the option of a duel whose tasks are as long as in a plan."""
    return f"--task-time={max(1, math.ceil(timed.task_s))}s"


def _rows(plan: DuelPlan, timed: TimedPlan, budget_s: float | None) -> Iterator[tuple[Cell, ...]]:
    name = "as raced" if timed is plan.raced else task_time(timed)
    for each in timed.needed:
        rounds = Above(MOST_ROUNDS) if each.rounds is None else each.rounds
        yield name, 100 * each.effect_ratio, rounds, _takes(each), timed.task_s, each.session_s
    if timed.budget is not None and budget_s is not None:
        change = timed.budget.effect_ratio
        within = f"within {format_duration(budget_s)}"
        yield name, None if change is None else 100 * change, timed.budget.rounds, within, timed.task_s, budget_s


def _takes(needed: RoundsNeeded) -> str | None:
    if needed.session_s is None:
        return None
    return format_duration(60 * max(1, round(needed.session_s / 60)) if needed.session_s >= 60 else needed.session_s)


def _notices(plan: DuelPlan, budget_s: float | None) -> Iterator[Notice]:
    yield from plan.notices
    if plan.rounds < plan.fewest_rounds:
        text = (
            f"based on {plan.rounds} rounds: a spread of so few is a rough guess, more often too small than too large"
        )
        yield Notice(text, note=True)
    if plan.unsteady:
        tasks = first_of(plan.unsteady, _MOST_NAMED)
        text = f"two thirds are cut as warmup, as {plan.rounds} rounds show no shorter one: {tasks}"
        yield Notice(f"{text}; task times may be too long", note=True)
    if plan.keeps_nodes:
        yield Notice("each side has the same nodes in all rounds: verdicts are on these clusters, as they are now")
    for name, timed in (("as raced", plan.raced), (f"with {task_time(plan.best)}", plan.best)):
        times = {need: need.raced_s if timed is plan.raced else timed.task_s for need in plan.tails}
        if short := [need.task for need, task_s in times.items() if need.is_too_short(task_s)]:
            yield Notice(f"too short for a p99 {name}: {first_of(short, _MOST_NAMED)}", note=True)
        if timed.budget is not None and timed.budget.effect_ratio is None:
            yield Notice(
                f"--budget={format_duration(budget_s or 0)} holds {timed.budget.rounds} rounds {name}, and a verdict "
                f"needs {plan.fewest_rounds}"
            )
