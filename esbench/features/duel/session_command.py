"""The common part of `esbench race --rounds` and `esbench duel`: begin or resume a session, and print its result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from esbench.cli.compare import compare_stored
from esbench.cli.dry_run import DryRun
from esbench.cli.publishing import check_publishing
from esbench.comparison.model import Comparison
from esbench.comparison.nodes import FEWEST_ROUNDS
from esbench.errors import UsageError
from esbench.features.duel.asked_options import AskedOptions
from esbench.features.duel.dry_run import DryRunAtOnce, DryRunInTurns
from esbench.features.duel.duel_plan import foretell, planner_of
from esbench.features.duel.earlier_races import EarlierRaces
from esbench.features.duel.planner import DuelPlanner
from esbench.features.duel.recorded_parts import paced_in_parts
from esbench.features.duel.session import begins_cold, planned, with_rounds
from esbench.features.duel.session_result import SessionResult
from esbench.features.duel.session_runner import SessionRunner
from esbench.features.duel.session_sides import SessionSides
from esbench.features.duel.side_options import hidden, with_secrets, words_given
from esbench.progress.task_progress import FollowingProgress, Quiet
from esbench.record.home import esbench_home
from esbench.record.locks import SessionLock
from esbench.record.sessions import LEAST_ON_FRESH_NODES_S, Pacing, RaceSession, SessionSide, SessionStore
from esbench.record.store import RaceStore


def race_rounds(context: click.Context, progress: FollowingProgress | Quiet) -> int:
    """Race as `esbench race --rounds` says, and return the exit code. UsageError for options of a single race."""
    flags = context.params
    for name, why in (("race_id", "names one race"), ("keep_node", "is for one race")):
        if flags[name]:
            raise UsageError(f"--{name.replace('_', '-')} {why}: leave it out with --rounds")
    return SessionCommand(flags, progress).begin("rounds", words_given(context), {"race": ()}, flags["rounds"])


class SessionCommand:
    """A session that is run from the command line. `progress` is not started yet.

    `flags`: the arguments of `esbench race` or `esbench duel` by name. Options of a metrics store and of listeners are
    checked at once: UsageError for wrong ones, ClusterError if the store does not answer.
    """

    def __init__(self, flags: Mapping[str, Any], progress: FollowingProgress | Quiet) -> None:
        check_publishing(flags)
        self._flags = flags
        self._asked = AskedOptions(flags)
        self._progress = progress
        self._sessions = SessionStore(esbench_home())
        self._races = RaceStore(esbench_home())

    def begin(
        self,
        kind: str,
        words: Sequence[str],
        sides: Mapping[str, Sequence[str]],
        rounds: int | None,
        pacing: Pacing | None = None,
        search: tuple[str, ...] = (),
    ) -> int:
        """Race a new session, print its result, and return the exit code.

        `kind`: rounds or duel. `words`: the options of all sides; `sides`: name -> its further options; each a word as
        of `side_options`. `rounds`: the races of each side; None: as many as the spread of the first ones asks for.
        `pacing`: the sides are raced at once. `search`: the races search for a capacity; the options of that search as
        words. Raises EsbenchError for wrong options, before the first race.
        """
        self._asked.check_result(len(sides))
        raced = SessionSides.of_words(words, sides, search, self._progress)
        is_planned = pacing is not None and self._asked.may_plan and not search
        if pacing is not None:
            raced = raced.at_once(pacing)
        number = rounds or (raced.fewest_rounds if is_planned else FEWEST_ROUNDS)
        if pacing is not None:
            pacing = self._paced(raced, pacing, number)
        session = planned(
            kind,
            tuple(SessionSide(name, hidden(own)) for name, own in sides.items()),
            number,
            seed=raced.first.seed,
            words=hidden(words),
            restart_node=self._flags["restart_node"],
            before_round=self._flags["before_round"],
            discard_first=pacing is None and begins_cold(raced.options.values()),
            pacing=pacing,
            budget_s=self._asked.budget_s,
            auto=rounds is None and is_planned,
            search=search,
            effect_ratio=self._asked.effect_ratio if is_planned else None,
        )
        return self._begin(session, raced)

    def resume(self, name: str, words: Sequence[str], sides: Sequence[Sequence[str]], rounds: int | None) -> int:
        """Resume a session, print its result, and return the exit code.

        `name`: its id, the beginning of an id, or `last`. `words` and `sides` (in the session's order) are given again
        for the secrets in them. `rounds`: more rounds than planned; None: as planned. Raises UsageError if they do not
        fit the session.
        """
        session_id = self._sessions.resolve(name)
        with SessionLock(esbench_home(), session_id):  # before it is read: where it stands is known to one at a time
            session = self._as_asked(self._sessions.load(session_id), rounds)
            again = self._sides_again(session, words, sides)
            runner = self._runner(session, again, self._planner(session, again))
            raced = runner.run(session)
        return self._result.tell(raced, all_stored=runner.all_stored)

    def _paced(self, sides: SessionSides, pacing: Pacing, rounds: int) -> Pacing:
        """Return the pacing of sides that are raced at once, with what their nodes and their track ask for."""
        if sides.has_fresh_nodes and not sides.search:
            pacing = replace(pacing, least_s=LEAST_ON_FRESH_NODES_S)
        return paced_in_parts(sides.challenge, pacing, len(sides.options), rounds, self._asked.budget_s)

    def _begin(self, session: RaceSession, sides: SessionSides) -> int:
        """Race a session that is new, or say what would be raced."""
        planner = self._planner(session, sides)
        unplanned = self._asked.why_unplanned(session) if session.kind == "duel" else ""
        if self._flags["dry_run"]:
            return self._dry_run(session, sides, planner, unplanned).tell(self._flags)
        if unplanned:
            self._progress.say(f"plan: {unplanned}")
        foretell(sides, session.pacing, planner, asks=not self._flags.get("yes"))
        with SessionLock(esbench_home(), session.id):
            runner = self._runner(session, sides, planner)
            raced = runner.run(session)
        return self._result.tell(raced, all_stored=runner.all_stored)

    def _dry_run(
        self, session: RaceSession, sides: SessionSides, planner: DuelPlanner | None, unplanned: str
    ) -> DryRun:
        search = sides.search_of(sides.first, self._progress)
        if session.pacing is None:
            return DryRunInTurns(sides.options, self._progress, search, session, unplanned)
        terms = None if planner is None else planner.terms
        return DryRunAtOnce(sides.options, self._progress, search, session, session.pacing, terms, unplanned)

    def _as_asked(self, session: RaceSession, rounds: int | None) -> RaceSession:
        """Return a session that goes on with the rounds that were asked for. UsageError if it cannot."""
        self._asked.check_result(len(session.sides))
        if session.damage:
            self._progress.warn(session.damage)
        where = f"--resume={session.id}"
        self._asked.check_resumed(session, where)
        if rounds is not None:
            session = with_rounds(session, rounds)
        if session.left:
            earlier = EarlierRaces(self._races, session, self._progress, self._allowed)
            earlier.check(where)
            earlier.warn_of_another_esbench()
        return session

    def _sides_again(self, session: RaceSession, words: Sequence[str], given: Sequence[Sequence[str]]) -> SessionSides:
        """Return the sides of a session that goes on, with the secrets that were given again."""
        where = f"--resume={session.id}"
        again = list(given) + [()] * (len(session.sides) - len(given))
        if len(again) > len(session.sides):
            raise UsageError(f"the session has {len(session.sides)} sides", where=where)
        own = {
            side.name: with_secrets(side.words, of_side, f"{where}: --{side.name}")
            for side, of_side in zip(session.sides, again, strict=True)
        }
        of_all = with_secrets(session.words, words, where)
        sides = SessionSides.of_words(of_all, own, session.search, self._progress)
        if session.pacing is None or not (session.left or session.auto):
            return sides
        return sides.at_once(session.pacing)

    def _planner(self, session: RaceSession, sides: SessionSides) -> DuelPlanner | None:
        """Return what plans a session that is planned, and goes on within its budget."""
        if session.effect_ratio is None or session.budget_s is None or not sides.plans:
            return None
        return planner_of(session, sides, self._sessions, self._compared)

    def _runner(self, session: RaceSession, sides: SessionSides, planner: DuelPlanner | None) -> SessionRunner:
        earlier = EarlierRaces(self._races, session, self._progress, self._allowed)
        return SessionRunner(self._flags, sides, self._progress, self._sessions, earlier, planner)

    def _compared(self, session: RaceSession) -> Comparison:
        """Save a session, and compare the rounds that it has."""
        self._sessions.save(session)
        min_effect = self._flags["min_effect"]
        return compare_stored(esbench_home(), session.id, allow=self._allowed, min_effect=min_effect)

    @property
    def _allowed(self) -> Sequence[str]:
        allowed: Sequence[str] = self._flags.get("allow", ())  # a session of one side has no such option
        return allowed

    @property
    def _result(self) -> SessionResult:
        return SessionResult(self._flags, self._progress, self._races)
