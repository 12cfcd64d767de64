"""The steps of a session: race its sides in their order, on separate nodes or on one that all share.

The state of the session is on disk before and after every race, so that it can be interrupted at any moment and resumed
later. It knows neither tracks nor figures: a race is a function that is called, and its record says how it ended. The
caller holds the session's lock.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import get_args

from esbench.errors import EsbenchError, RaceError, UsageError
from esbench.events.progress import Progress
from esbench.features.duel.race_order import Place, order, order_at_once
from esbench.model import Challenge
from esbench.operations import builtin_operations
from esbench.operations.base import Target, kind_of
from esbench.race.cluster import embedded_engine, java_options
from esbench.race.hook import Pace
from esbench.race.interrupts import Interrupts
from esbench.race.node_engine import Engine
from esbench.race.options import RaceOptions
from esbench.race.recording import now
from esbench.record.model import RaceRecord
from esbench.record.sessions import (
    COMPLETE,
    PLANNED,
    RUNNING,
    Pacing,
    RaceSession,
    SessionRace,
    SessionSide,
    SessionStore,
)
from esbench.record.store import RaceStore, new_race_id
from esbench.units import format_duration

Race = Callable[[RaceOptions, Engine | None, Pace | None], RaceRecord]


def planned(
    kind: str,
    sides: tuple[SessionSide, ...],
    rounds: int,
    *,
    seed: int,
    words: tuple[str, ...],
    restart_node: bool = False,
    before_round: str | None = None,
    discard_first: bool = False,
    pacing: Pacing | None = None,
    budget_s: float | None = None,
    auto: bool = False,
    search: tuple[str, ...] = (),
    effect_ratio: float | None = None,
) -> RaceSession:
    """Return a new session with its plan of races, not saved.

    `kind` is rounds or duel; the seed decides the order of the sides in each round. `words` are the options that all
    sides have, `name=value` without secrets. `before_round` is a shell command to run before each race, or each round
    if the sides are raced at once (`pacing`). `discard_first` adds a first race of each side that is not counted.
    `budget_s`, `auto`, `search` and `effect_ratio` are those of the session.
    """
    places = _places(sides, rounds, seed, pacing)
    return RaceSession(
        id=new_race_id(),
        kind=kind,
        created_at=now(),
        seed=seed,
        words=words,
        sides=sides,
        plan=tuple(SessionRace(place.side, place.round, place.position) for place in places),
        discarded=tuple(SessionRace(side.name) for side in sides) if discard_first else (),
        restart_node=restart_node,
        before_round=before_round,
        pacing=pacing,
        budget_s=budget_s,
        auto=auto,
        search=search,
        effect_ratio=effect_ratio,
    )


def _places(sides: Sequence[SessionSide], rounds: int, seed: int, pacing: Pacing | None) -> tuple[Place, ...]:
    return (order if pacing is None else order_at_once)([side.name for side in sides], rounds, seed)


def with_rounds(session: RaceSession, rounds: int) -> RaceSession:
    """Return a session with more rounds; `rounds` is their number in all.

    If it was complete, its result was seen: the next one counts as one more look. No budget and no `auto` hold any
    longer. UsageError for fewer rounds than it has.
    """
    if rounds < session.rounds:
        raise UsageError(f"the session has {session.rounds} rounds already", where=f"--rounds={rounds}")
    longer = lengthened(session, rounds)
    looked = len(longer.plan) > len(session.plan) and not session.left
    return replace(longer, looks=session.looks + looked, budget_s=None, auto=False)


def lengthened(session: RaceSession, rounds: int) -> RaceSession:
    """Return the session with the rounds that it lacks to have `rounds`."""
    places = _places(session.sides, rounds, session.seed, session.pacing)[len(session.plan) :]
    more = tuple(SessionRace(place.side, place.round, place.position) for place in places)
    return replace(session, plan=(*session.plan, *more))


def shares_a_node(sides: Collection[RaceOptions], *, restart_node: bool) -> bool:
    """True if one embedded node can be raced by all sides, one after the other.

    False if it is to be restarted for each race, if sides have target hosts or telemetry that adds Java options, if
    they race SQL servers, each of which is its race's, or if their options of the node differ.
    """
    if restart_node or any(options.hosts or options.is_sql or java_options(options) for options in sides):
        return False
    first, *others = (options.node for options in sides)
    return all(other == first for other in others)


def begins_cold(sides: Collection[RaceOptions]) -> bool:
    """True if nodes are started for the session: a side has no target hosts.

    Its first races then find cold files, and a Java that has compiled nothing yet, and differ from the later ones.
    """
    return any(not options.hosts for options in sides)


def makes_indices_anew(challenge: Challenge) -> bool:
    """True if the challenge creates its indices, so that a race does not depend on those of earlier races.

    Raises UsageError if it creates a kind of target (indices, data streams ...) and has no operation that deletes that
    kind: its second race would fail.
    """
    types = [kind_of(task.operation) for task in challenge.tasks]
    creating = {kind.traits.creates: kind.name for kind in types}
    deleted = {kind.traits.deletes for kind in types}
    for target in get_args(Target):
        if target in creating and target not in deleted:
            every = builtin_operations()
            deleting = " or ".join(name for name in every if every.get(name).traits.deletes == target)
            raise UsageError(
                f'challenge "{challenge.name}" has {creating[target]} without {deleting}: the second race would find '
                "the first one's",
                hint=f"put {deleting} before it, or delete it by --before-round; a node of esbench's own may be "
                "started again for each race: --restart-node",
            )
    return any(kind.traits.creates for kind in types)


def may_write(challenge: Challenge) -> bool:
    """True unless all tasks of the challenge are known to read, or administer what is there."""
    of_tasks = ((kind_of(task.operation), task.operation) for task in challenge.tasks)
    return any(
        not kind.traits.administrative and (operation.python == "runner" or not kind.reads(operation.params))
        for kind, operation in of_tasks
    )


def left_s(session: RaceSession) -> float | None:
    """Return the estimated seconds of the remaining races, by the mean of earlier races of the same side.

    A side without races counts with the mean of all. None if no race is complete yet.
    """
    took: dict[str, list[float]] = {}
    for race in session.races:
        if race.took_s is not None:
            took.setdefault(race.side, []).append(race.took_s)
    if not took:
        return None
    of_all = fmean(seconds for times in took.values() for seconds in times)
    return sum(fmean(took[race.side]) if race.side in took else of_all for race in session.left)


def place_text(session: RaceSession, race: SessionRace) -> str:
    """Return the place of one of the session's races: `race 5 of 12 (contender, round 3)`, or `(discarded)`."""
    number = session.races.index(race) + 1
    side = race.side if len(session.sides) > 1 else ""
    turn = f"round {race.round}" if race.round else "discarded"
    return f"race {number} of {len(session.races)} ({', '.join(filter(None, (side, turn)))})"


def resume_hint(session: RaceSession) -> str:
    """Return the hint of an error that ends a session."""
    return f"esbench duel --resume {session.id} resumes it"


def left_text(seconds: float) -> str:
    """Return the time left: `about 14 min left`."""
    whole = 60 * round(seconds / 60) if seconds >= 120 else max(1, round(seconds))
    return f"about {format_duration(whole)} left"


def begun(session: RaceSession, race: SessionRace) -> SessionRace:
    """Return a race of the session as it begins: with an id that no other of its races has."""
    taken = {each.race_id for each in session.races}  # one that failed at once may be of the same second
    race_id = next(name for name in iter(new_race_id, "") if name not in taken)
    return replace(race, race_id=race_id, status=RUNNING)


@dataclass(frozen=True)
class Duel:
    """Runs the remaining races of a session, one after the other; the caller holds the session's lock.

    `sides` are the options of each side's races by its name, without race id and session. `race` runs one race, on the
    given node if there is one, and returns its record. `node_of` returns the engine, not started, of a node that all
    races share.
    """

    store: SessionStore
    sides: Mapping[str, RaceOptions]
    race: Race
    progress: Progress
    node_of: Callable[[RaceOptions, Path, Progress], Engine] = embedded_engine

    def run(self, session: RaceSession) -> RaceSession:
        """Run the remaining races and return the session, which is saved before and after each of them.

        Raises KeyboardInterrupt if it was interrupted, and RaceError if a race failed: complete races are kept, and the
        rest is raced when it is run again.
        """
        session = self._as_it_stands(session)
        shared = shares_a_node(self.sides.values(), restart_node=session.restart_node)
        if shared and not all(race.status == COMPLETE for race in session.plan):  # on a node that is cold again
            session = replace(session, discarded=tuple(SessionRace(race.side) for race in session.discarded))
        self.store.save(session)
        with Interrupts(), ExitStack() as stack:
            node: Engine | None = None
            for race in session.left:
                place = place_text(session, race)
                try:
                    self._announce(session, place)
                    if node is None and shared:
                        node = self._start_node(session, stack)
                    session = self._run(session, race, node)
                except EsbenchError as error:
                    more = " with the rounds" if session.kind == "rounds" else ""
                    raise RaceError(str(error), where=place, hint=resume_hint(session) + more) from error
        return session

    def _as_it_stands(self, session: RaceSession) -> RaceSession:
        """Return the session with the true status of races that were running when esbench was killed."""
        home = self.store.folder.parent
        for race in session.races:
            if race.status != RUNNING or race.race_id is None:
                continue
            if (home / "races" / race.race_id / "race.json").is_file():
                status = RaceStore(home).load(race.race_id).status
                session = session.with_race(replace(race, status=COMPLETE if status == COMPLETE else PLANNED))
        return session

    def _announce(self, session: RaceSession, place: str) -> None:
        seconds = left_s(session)
        self.progress.say(place if seconds is None else f"{place}: {left_text(seconds)}")

    def _start_node(self, session: RaceSession, stack: ExitStack, name: str = "") -> Engine:
        """Start a node that all sides share, until `stack` ends; its logs are in the folder `name`."""
        options = replace(next(iter(self.sides.values())), race_id=session.id)
        node = self.node_of(options, self.store.logs(session.id) / name, self.progress)
        stack.callback(node.stop)
        node.start()
        return node

    def _run(self, session: RaceSession, race: SessionRace, node: Engine | None) -> RaceSession:
        began_s = time.monotonic()
        race = begun(session, race)
        if session.before_round:
            self._prepare(session.before_round, race.side, race.round)
        session = session.with_race(race)
        self.store.save(session)
        options = self.options_of(session, race)
        status = PLANNED
        try:
            record = self.race(options, node, None)
            status = record.status
        finally:
            took_s = round(time.monotonic() - began_s, 3) if status == COMPLETE else None
            session = session.with_race(replace(race, status=status, took_s=took_s))
            self.store.save(session)
        if status == "cancelled":
            raise KeyboardInterrupt
        if status != COMPLETE:
            raise RaceError(f"race {race.race_id} failed: {record.failure}")
        return session

    def options_of(self, session: RaceSession, race: SessionRace) -> RaceOptions:
        """Return the options of one of the session's races, which has its id. Answers are those of the first and the
        last round."""
        options = self.sides[race.side]
        return replace(
            options,
            race_id=str(race.race_id),
            session=session.place(race),
            answers=options.answers and not session.search and race.round in (1, session.rounds),
        )

    def _prepare(self, command: str, side: str, number: int) -> None:
        """Run the command of --before-round for a round's number. RaceError if it fails, with the last line that it
        printed."""
        with self.progress.job("--before-round", announce=False):
            done = subprocess.run(
                command,
                shell=True,  # a command line of the user's  # nosec B602
                env={**os.environ, "ESBENCH_SIDE": side, "ESBENCH_ROUND": str(number)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                check=False,
            )
        if done.returncode:
            said = done.stdout.strip().splitlines()
            reason = f"exit status {done.returncode}" + (f": {said[-1]}" if said else "")
            raise RaceError(f"failed with {reason}", where=f"--before-round={command}")
