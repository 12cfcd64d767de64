"""`esbench duel --plan`: the rounds that a plan is made of, and its print."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import click

from esbench.cli.compare import compare_stored
from esbench.cli.output import print_document
from esbench.errors import EsbenchError
from esbench.features.duel.plan_report import duel_plan, task_time
from esbench.features.duel.planning import DuelPlan, plan_of
from esbench.features.duel.side_options import side_options
from esbench.race.options import RaceOptions
from esbench.race.race import RacePlan
from esbench.record.host import esbench_facts, host_class, host_facts
from esbench.record.model import RaceRecord
from esbench.record.secrets import redact
from esbench.record.sessions import RaceSession, SessionStore
from esbench.record.store import RaceStore
from esbench.report.race_summary import to_the_second
from esbench.report.render import FOR_PEOPLE

PLAN_ROUNDS = 2
_MOST_SESSIONS = 100  # that are looked through


class PlannedBy:
    """The sessions under a home by which a duel can be planned. `flags`: the arguments of `esbench duel` by name."""

    def __init__(self, home: Path, flags: Mapping[str, Any]) -> None:
        self._home = home
        self._flags = flags
        self._races = RaceStore(home)

    def earlier(
        self, session: RaceSession, sides: Mapping[str, RaceOptions], plans: Mapping[str, RacePlan]
    ) -> tuple[RaceSession, DuelPlan] | None:
        """Return the session with most rounds, the newest of these, that raced what `session` would, and its plan.

        `sides`, `plans`: the options of a race of each side, and what it would do. None if there is no such session.
        """
        sessions, _ = SessionStore(self._home).newest(_MOST_SESSIONS)
        host = host_class(host_facts(self._home))
        for other in sorted(sessions, key=lambda each: -each.rounds_done):
            try:
                is_like = _may_be_like(other, session) and all(
                    self._is_like(other, side, options, plans[side], host) for side, options in sides.items()
                )
                if is_like and (found := self.session(other)) is not None:
                    return found
            except EsbenchError:  # its races are gone, or its options no longer hold
                continue
        return None

    def session(self, session: RaceSession) -> tuple[RaceSession, DuelPlan] | None:
        """Return a session with the plan by its rounds; None if these have no values."""
        allow, min_effect = self._flags["allow"], self._flags["min_effect"]
        compared = compare_stored(self._home, session.id, allow=allow, min_effect=min_effect)
        plan = plan_of(compared, fmean(session.rounds_took_s), self._flags["budget_s"])
        return None if plan is None else (session, plan)

    def tell(self, session: RaceSession, plan: DuelPlan, *, is_earlier: bool) -> None:
        """Print a plan; the last line for people says how to race it."""
        name = f"{session.id} of {to_the_second(session.created_at)}"
        of = f"{name}, an earlier duel like this one; nothing was raced" if is_earlier else name
        after = _resume(session, plan) if session.left else f"{task_time(plan.best)} --rounds={plan.advised(plan.best)}"
        document = duel_plan(plan, f"{plan.rounds} rounds of {of}", self._flags["budget_s"], after)
        form, file, file_form = (self._flags[name] for name in ("form", "report_file", "report_format"))
        print_document(document, form, file, file_form)
        if (form if file else file_form or form) in FOR_PEOPLE:
            click.echo(f"\n{after}" if session.left else f"\nin place of --plan: {after}")

    def _is_like(self, other: RaceSession, side: str, options: RaceOptions, plan: RacePlan, host: str) -> bool:
        record = self._races.load(other.complete(side)[0])
        if _facts(record) != _planned_facts(options, plan) or record.host_class != host:
            return False
        own = next(each for each in other.sides if each.name == side)
        raced = side_options(other.words, own.words, side)
        return (raced.node, raced.hosts) == (options.node, options.hosts)


def _may_be_like(other: RaceSession, session: RaceSession) -> bool:
    """True if an earlier session had the same sides by name, the same slices, and two complete rounds."""

    def frame(each: RaceSession) -> tuple[Any, ...]:
        pacing = each.pacing and replace(each.pacing, task_time_s=None)
        return each.kind, pacing, [side.name for side in each.sides], each.restart_node, each.before_round, each.search

    return other.pacing is not None and other.rounds_done >= PLAN_ROUNDS and frame(other) == frame(session)


def _facts(record: RaceRecord) -> tuple[Any, ...]:
    return (
        record.track.digest,
        record.challenge,
        {task.name for task in record.tasks},
        dict(record.parts),
        dict(record.track_params),
        record.test_mode,
        dict(record.esbench),
        {(cluster.distribution, cluster.version) for cluster in record.clusters.values()},
    )


def _planned_facts(options: RaceOptions, plan: RacePlan) -> tuple[Any, ...]:
    return (
        plan.raced.track.digest,
        plan.raced.challenge.name,
        {task.name for task in plan.raced.challenge.tasks},
        dict(plan.parts),
        redact(dict(options.track_params)),
        options.test_mode,
        esbench_facts(),
        {(plan.info.distribution, plan.info.version)},
    )


def _resume(session: RaceSession, plan: DuelPlan) -> str:
    """Return the command that goes on with a session until its plan is raced."""
    command = f"esbench duel --resume {session.id} --rounds={max(session.rounds, plan.advised(plan.raced))}"
    return command if session.before_round is None else f"{command} --before-round={shlex.quote(session.before_round)}"
