"""What a user types for a report, and the races that it means: `Sides`' words, but a session is all of its sides."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from esbench.comparison.model import Side
from esbench.comparison.resolve import BASELINE, HINT, Sides
from esbench.errors import UsageError
from esbench.record.figures import Notice
from esbench.record.sessions import COMPLETE, RaceSession, SessionStore
from esbench.record.store import RaceStore


class ReportedSides:
    """Finds races and sessions of one esbench home."""

    def __init__(self, races: RaceStore, sessions: SessionStore) -> None:
        self._races = races
        self._sessions = sessions
        self._sides = Sides(races, sessions)

    def sides(self, texts: Sequence[str]) -> tuple[Side, ...]:
        """A side for each of `texts`, and of a session one for each of its sides that has a complete race.

        A single race is called by its id, the only side of a session by the session's, else sides have their own names
        where these tell them apart. UsageError where a race is named twice.
        """
        found = [side for text in texts for side in self._named(text)]
        ids = [record.race_id for side in found for record in side.records]
        if twice := next((race_id for race_id in ids if ids.count(race_id) > 1), None):
            raise UsageError(f"race {twice} is named twice")
        names = [side.name for side in found]
        return tuple(
            replace(side, name=f"{side.session}:{side.name}") if names.count(side.name) > 1 else side for side in found
        )

    def unfinished(self, sides: Sequence[Side]) -> Iterator[Notice]:
        """What is still to come of the sides' sessions."""
        return self._sides.unfinished(sides, "not shown")

    def _named(self, text: str) -> Iterator[Side]:
        if not text.strip(", "):
            raise UsageError("no race is named", hint=HINT)
        session = self._session(text)
        if session is None:
            side = self._side(text)
            named = side.session if ":" in text else None  # a race does not stand for its session
            yield replace(side, name=side.records[0].race_id if len(side.records) == 1 else text, session=named)
            return
        complete = {race.side for race in session.plan if race.status == COMPLETE}
        if not complete:
            raise UsageError(f"session {session.id} has no complete race yet")
        for name in (side.name for side in session.sides if side.name in complete):
            yield replace(self._side(f"{session.id}:{name}"), name=name if len(session.sides) > 1 else session.id)

    def _session(self, text: str) -> RaceSession | None:
        """The session that is meant as a whole; as in `Sides`, a race comes before the beginning of a session's id."""
        if text not in self._sessions.ids():
            try:
                self._races.resolve(text)
                return None
            except UsageError:
                if not any(name.startswith(text.lower()) for name in self._sessions.ids()):
                    return None
        return self._sessions.load(text)

    def _side(self, text: str) -> Side:
        try:
            return self._sides.baseline(text)
        except UsageError as error:
            if error.where == f"--{BASELINE}":
                error.where = text
            raise
