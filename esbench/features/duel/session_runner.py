"""A session while it runs: its races, what follows them, and their options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from esbench.cli.publishing import followers, followers_of_sides, publish
from esbench.events.listeners import Listener
from esbench.features.duel.duel_round import SidePace
from esbench.features.duel.earlier_races import EarlierRaces
from esbench.features.duel.planned_side import ForetellsPilots, PlannedSide
from esbench.features.duel.planner import DuelPlanner
from esbench.features.duel.rounds_at_once import DuelAtOnce
from esbench.features.duel.session import Duel, Race
from esbench.features.duel.session_sides import SessionSides
from esbench.progress.task_progress import FollowingProgress, Quiet
from esbench.race.hook import Hooks, Pace, SideHook
from esbench.race.node_engine import Engine
from esbench.race.options import RaceOptions
from esbench.race.race import run
from esbench.record.model import RaceRecord
from esbench.record.sessions import RaceSession, SessionStore


class SessionRunner:
    """Runs the races of a session, by a plan if there is one. `flags` say where races are stored beside the home.

    `all_stored`: each race so far was stored where it was to be.
    """

    def __init__(
        self,
        flags: Mapping[str, Any],
        sides: SessionSides,
        progress: FollowingProgress | Quiet,
        store: SessionStore,
        earlier: EarlierRaces,
        planner: DuelPlanner | None,
    ) -> None:
        self.all_stored = True
        self._flags, self._sides, self._progress, self._sessions = flags, sides, progress, store
        self._earlier, self._planner = earlier, planner

    def run(self, session: RaceSession) -> RaceSession | None:
        """Run the session; return it when all races are complete; None if it was cancelled."""
        with self._progress:
            if session.left or session.auto:
                self._sides.look(session, self._earlier)
            self._sessions.save(session)
            self._progress.say(f"session {session.id}")
            runner = Duel(self._sessions, self._sides.options, self._race, self._progress)
            if session.pacing is not None:
                runner = DuelAtOnce(
                    self._sessions,
                    self._sides.options,
                    self._race,
                    self._progress,
                    races_of_round=self._races_of_round,
                    planned=self._planner.after if self._planner is not None else lambda session: session,
                )
            try:
                return runner.run(session)
            except KeyboardInterrupt:
                self._progress.insist(f"esbench: cancelled; esbench duel --resume {session.id} resumes it")
                return None

    def _race(self, options: RaceOptions, node: Engine | None, pace: Pace | None) -> RaceRecord:
        with followers(self._flags, self._progress) as others:
            return self._followed(self._progress, others, options, node, pace)

    @contextmanager
    def _races_of_round(self, sides: Sequence[str]) -> Iterator[Race]:
        """Context manager for a round: yields the function that races a side, called in its own thread."""
        progress = dict(zip(sides, self._progress.of_sides(sides), strict=True))
        with followers_of_sides(self._flags, self._progress, progress) as others:

            def race(options: RaceOptions, node: Engine | None, pace: Pace | None) -> RaceRecord:
                side = options.session.side if options.session else ""
                return self._followed(progress[side], others[side], options, node, pace)

            yield race

    def _followed(
        self,
        progress: FollowingProgress | Quiet,
        others: Sequence[Listener],
        options: RaceOptions,
        node: Engine | None,
        pace: Pace | None,
    ) -> RaceRecord:
        """Run a race that `progress` and others follow, and store its record if that is asked for."""
        side, search = self._side(options, node, pace), self._sides.search_of(options, progress, pace)
        shown = ForetellsPilots([progress]) if isinstance(side, PlannedSide) and side.has_pilots else progress
        record = run(options, progress, [shown, *others], side if search is None else Hooks([search, side]))
        if not publish(self._flags, options.home, record.race_id, progress):
            self.all_stored = False
        return record

    def _side(self, options: RaceOptions, node: Engine | None, pace: Pace | None) -> SideHook:
        """Return the hook of a race: of one of several sides at once, with pilots in the first round of a plan."""
        if not isinstance(pace, SidePace):
            return SideHook(pace or Pace(), node)
        is_first = options.session is not None and options.session.round == 1
        return PlannedSide(pace, node, self._planner if is_first else None)
