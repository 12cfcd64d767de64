"""The races that a session has before it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from esbench.comparison.comparability import checked_keys
from esbench.errors import UsageError
from esbench.events.progress import Progress
from esbench.record.host import esbench_facts
from esbench.record.model import RaceRecord
from esbench.record.sessions import RaceSession
from esbench.record.store import RaceStore


@dataclass(frozen=True)
class EarlierRaces:
    """The complete races of a session; `allow`: what may differ from theirs, as typed."""

    store: RaceStore
    session: RaceSession
    progress: Progress
    allow: Sequence[str]

    def check(self, where: str) -> None:
        """Raise a UsageError if complete races no longer exist: it could not be compared at its end."""
        races = [race_id for side in self.session.sides for race_id in self.session.complete(side.name)]
        if gone := [race_id for race_id in races if not self.store.has(race_id)]:
            what = f"{', '.join(gone)} is not there any more"
            raise UsageError(
                what, where=where, hint="begin a new session; esbench compare a,b,c d,e,f takes the races that are left"
            )

    def warn_of_another_esbench(self) -> None:
        """Warn if the session began with another version: its races are compared only if allowed."""
        raced = next(filter(None, (self._first(side.name) for side in self.session.sides)), None)
        ours = esbench_facts()
        if raced is not None and raced.esbench != ours:
            began, now = (" ".join(facts.values()) for facts in (raced.esbench, ours))
            self.progress.warn(
                f"the session began with esbench {began}, and this is {now}: comparing needs --allow=esbench"
            )

    def check_track(self, side: str, digest: str) -> None:
        """Raise a UsageError if the track has changed since the side's first race, unless that is allowed.

        A session of one side only gets a warning.
        """
        raced = self._first(side)
        if raced is None or raced.track.digest == digest or "track digest" in checked_keys(self.allow):
            return
        what = f"the track has changed since race {raced.race_id}"
        if len(self.session.sides) > 1:
            raise UsageError(what, hint="--allow=track-digest continues anyway")
        self.progress.warn(f"{what}: the next rounds will use the new one")

    def _first(self, side: str) -> RaceRecord | None:
        """Return the record of a side's first complete race, or None."""
        ids = self.session.complete(side)
        return self.store.load(ids[0]) if ids else None
