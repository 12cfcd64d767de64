"""The plan of a duel before it begins: by what it rests on, and what it foretells."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace

import click

from esbench.comparison.model import Comparison
from esbench.features.duel.dry_run import foretold, others_s
from esbench.features.duel.planner import DuelPlanner, Terms, forecast_of, luck_of
from esbench.features.duel.recorded_parts import parts_text
from esbench.features.duel.session_sides import SessionSides
from esbench.features.duel.slices import shaped
from esbench.record.sessions import LEAST_ON_FRESH_NODES_S, Pacing, RaceSession, SessionStore

MOST_SESSIONS = 100


def planner_of(
    session: RaceSession,
    sides: SessionSides,
    store: SessionStore,
    compared: Callable[[RaceSession], Comparison],
) -> DuelPlanner:
    """Return what plans a session, by the luck that this home has seen."""
    assert session.pacing is not None and session.budget_s is not None and session.effect_ratio is not None
    is_fresh = session.pacing.least_s == LEAST_ON_FRESH_NODES_S
    earlier, _ = store.newest(MOST_SESSIONS)
    terms = Terms(
        len(sides.options),
        session.effect_ratio,
        session.budget_s,
        sides.fewest_rounds,
        None if session.auto else session.rounds,
        luck_of(earlier, is_fresh=is_fresh),
        is_fresh,
        replace(session.pacing, tasks=(), settled=()),
    )
    return DuelPlanner(terms, sides.challenge, sides.progress, compared)


def foretell(sides: SessionSides, pacing: Pacing | None, planner: DuelPlanner | None, *, asks: bool) -> None:
    """Say what a session should settle; `asks`: ask whether to begin, on a terminal, if that is nothing."""
    if pacing is None:
        return
    challenge = shaped(sides.challenge, pacing, len(sides.plans))
    if text := parts_text(challenge):
        sides.progress.say(f"the log: {text}")
    if planner is None:
        return
    terms = planner.terms
    forecast = forecast_of(challenge, terms, others_s(challenge, pacing, terms.sides))
    sides.progress.say(f"plan: {foretold(forecast, challenge, terms)}")
    if forecast.settled:
        return
    for remedy in forecast.remedies():
        sides.progress.warn(f"nothing is expected to be settled; {remedy}")
    if asks and sys.stdin.isatty() and sys.stderr.isatty():
        click.confirm("Race it anyway?", abort=True, err=True)
