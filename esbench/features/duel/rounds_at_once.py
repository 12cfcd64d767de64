"""The rounds of a session whose sides are raced at once: each holds a race of every side.

A round is kept as a whole or raced again as a whole. own_indices says what the sides need for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from esbench.errors import EsbenchError, RaceError
from esbench.features.duel.duel_round import Round
from esbench.features.duel.own_indices import has_prefixes
from esbench.features.duel.session import Duel, Race, begun, left_text, resume_hint, shares_a_node
from esbench.race.hook import Pace
from esbench.race.interrupts import Interrupts
from esbench.race.node_engine import Engine
from esbench.race.node_options import LOG_FOLLOWS
from esbench.record.model import RaceRecord
from esbench.record.sessions import CANCELLED, COMPLETE, PLANNED, Pacing, RaceSession, SessionRace
from esbench.units import format_duration


class _Round(Protocol):
    def race(self, runs: Mapping[str, Callable[[Pace], RaceRecord]]) -> dict[str, RaceRecord]: ...


@dataclass(frozen=True, kw_only=True)
class DuelAtOnce(Duel):
    """Runs the remaining rounds of a session; the caller holds the session's lock.

    `races_of_round` is a context manager for a round, of the sides' names: it yields the function that races a side in
    its own thread, in place of `race`. `planned` returns a session as it goes on, by a plan, after the rounds that it
    has. `round_of` returns a Round.
    """

    races_of_round: Callable[[Sequence[str]], AbstractContextManager[Race]]
    planned: Callable[[RaceSession], RaceSession]
    round_of: Callable[[Sequence[str], Pacing, int], _Round] = Round

    def run(self, session: RaceSession) -> RaceSession:
        """Run the remaining rounds and return the session, which is saved before and after each of them.

        Rounds for which its budget leaves no time are dropped. Raises KeyboardInterrupt if it was interrupted, and
        RaceError if a race failed: complete rounds are kept, and the rest is raced when it is run again.
        """
        began_s, spent_s = self.progress.clock(), sum(session.rounds_took_s)
        session = self._saved(self._as_it_stands(session).in_whole_rounds())
        shared = has_prefixes(self.sides.values()) and shares_a_node(self.sides.values(), restart_node=False)
        with Interrupts(), ExitStack() as stack:
            node: Engine | None = None
            while (session := self._saved(self.planned(session))).left:
                number = session.left[0].round
                round_began_s = self.progress.clock()
                spent_now_s = spent_s + round_began_s - began_s
                if not fits(session, spent_now_s):
                    return self._ended_by_budget(session)
                place = round_text(session, number)
                self._announce(session, place, spent_now_s)
                try:
                    with ExitStack() as of_round:
                        if shared and session.restart_node:
                            node = self._start_node(session, of_round, f"round-{number}")
                        elif shared and node is None:
                            node = self._start_node(session, stack)
                        session = self._race_round(session, number, node, round_began_s)
                except EsbenchError as error:
                    raise RaceError(str(error), where=place, hint=resume_hint(session)) from error
        return session

    def _saved(self, session: RaceSession) -> RaceSession:
        self.store.save(session)
        return session

    def _announce(self, session: RaceSession, place: str, spent_s: float = 0.0) -> None:
        next_s, budget_s = session.next_round_s, session.budget_s
        if next_s is None:
            self.progress.say(place)
            return
        left_s = (session.rounds - session.rounds_done) * next_s
        self.progress.say(f"{place}: {left_text(left_s if budget_s is None else min(left_s, budget_s - spent_s))}")

    def _ended_by_budget(self, session: RaceSession) -> RaceSession:
        kept = tuple(race for race in session.plan if race.status == COMPLETE)
        self.progress.say(
            f"--budget={format_duration(session.budget_s or 0)} leaves no time for another round: "
            f"{session.rounds_done} of {session.rounds} were raced"
        )
        return self._saved(replace(session, plan=kept, auto=False))

    def _race_round(self, session: RaceSession, number: int, node: Engine | None, began_s: float) -> RaceSession:
        if session.before_round:
            self._prepare(session.before_round, "", number)
        for race in session.of_round(number):
            session = session.with_race(begun(session, race))
        self.store.save(session)
        races, raced = session.of_round(number), dict[str, RaceRecord]()
        pacing = session.pacing or Pacing()

        def run(race: SessionRace, run_race: Race, pace: Pace) -> RaceRecord:
            record = raced[race.side] = run_race(self.options_of(session, race), node, pace)
            return record

        at_once = self.round_of([race.side for race in races], pacing, seed_of(session, number))
        try:
            with self.races_of_round([side.name for side in session.sides]) as run_race:
                at_once.race({race.side: partial(run, race, run_race) for race in races})
        finally:
            ends = {race.side: raced[race.side].status if race.side in raced else PLANNED for race in races}
            took_s = round(self.progress.clock() - began_s, 3) if set(ends.values()) == {COMPLETE} else None
            for race in races:
                session = session.with_race(replace(race, status=ends[race.side], took_s=took_s))
            session = self._saved(session.in_whole_rounds())
        refuse_failed(races, raced)
        return session


def fits(session: RaceSession, spent_s: float) -> bool:
    """True if the next round would end within the session's budget, if it takes as long as the last one."""
    next_s = session.next_round_s
    return session.budget_s is None or next_s is None or spent_s + next_s <= session.budget_s


def round_text(session: RaceSession, number: int) -> str:
    """Return the place of a round: `round 2 of 6`; of 6 `at least` where their number follows from their spread."""
    return f"round {number} of {'at least ' if session.auto else ''}{session.rounds}"


def seed_of(session: RaceSession, number: int) -> int:
    """Return the seed of the slices of a round."""
    return random.Random(f"round {number} of {session.seed}").getrandbits(32)  # an order, no secret  # nosec B311


def refuse_failed(races: Sequence[SessionRace], raced: Mapping[str, RaceRecord]) -> None:
    """Raise a RaceError if a race of a round failed, KeyboardInterrupt if one was cancelled and none failed."""
    for race in races:
        record = raced.get(race.side)
        if record is not None and record.status not in (COMPLETE, CANCELLED):
            others = ", ".join(other.side for other in races if other is not race)
            why = (record.failure or "").partition(LOG_FOLLOWS)[0].replace("\n", "; ")
            what = f"race {race.race_id} ({race.side}) failed: {why}"
            raise RaceError(f"{what}; {others} ended with it")
    if len(raced) < len(races) or any(record.status == CANCELLED for record in raced.values()):
        raise KeyboardInterrupt
