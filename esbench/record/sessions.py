"""Sessions on disk: races that belong together, their order and their progress.

    $ESBENCH_HOME/sessions/SESSION-ID.json   docs/reference/sessions.md describes its content
    $ESBENCH_HOME/sessions/SESSION-ID/logs/  those of a node that all races of a session share

Measured figures are in the records of the races; nothing here races, compares or prints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from esbench.errors import RecordError, UsageError, did_you_mean
from esbench.record.model import Session
from esbench.record.private import private_folder
from esbench.record.reading import read_stored, reading
from esbench.record.store import LAST, RaceStore, ambiguous, check_race_id, remove_folder, replace_file
from esbench.record.sums import UNSEALED, damage_text, is_as_sealed, sealed

SCHEMA = 5
_FIRST_WITH_SUM = 4
PLANNED, RUNNING, COMPLETE, CANCELLED = "planned", "running", "complete", "cancelled"
WARMUPS = ("cut", "track")
LEAST_S, LEAST_ON_FRESH_NODES_S = 20.0, 40.0  # of a task on each side: later most of what Java compiles is compiled


@dataclass(frozen=True)
class TaskPacing:
    """The pacing of a task that its pilot has found, or that a recording is divided by: the length of its slices, the
    gap after each, and the seconds of each side."""

    task: str
    slice_s: float
    gap_s: float
    own_s: float

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError for those that no race can keep to."""
        if not (self.slice_s >= 1 and self.slice_s % 1 == 0):
            raise ValueError("a slice has whole seconds")
        if self.gap_s < 0 or self.own_s <= 0:
            raise ValueError("a time is negative")


@dataclass(frozen=True)
class SeenLuck:
    """The standard deviation of a round's difference beside what happens within rounds (a ratio), as a session has seen
    it. `fresh_nodes`: each side had fresh nodes in each round."""

    ratio: float
    fresh_nodes: bool


@dataclass(frozen=True)
class Pacing:
    """The way in which the sides of a session are raced at once, in slices (measure.slices).

    `slice_s`: the length of a slice; None: 1 s, and 2 s in a step that writes documents. `gap_s` follows each slice;
    None: 50 ms, and 1 s in a step of bulks. `task_time_s`: the time of a task, all sides together; None: as the
    track says, but `least_s` a side at least. `warmup`: cut (by the comparison, where the ratio is steady) or track (as
    long as the track says). `own_nodes`: each side has its own nodes, even if one could hold both. `tasks`: what holds
    for single ones, in place of what stands above. `settled`: the tasks that are raced no more.
    """

    slice_s: float | None = None
    gap_s: float | None = None
    task_time_s: float | None = None
    warmup: str = "cut"
    own_nodes: bool = False
    least_s: float = LEAST_S
    tasks: tuple[TaskPacing, ...] = ()
    settled: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Check the values. Raises ValueError for those that no race can keep to."""
        if self.slice_s is not None and not (self.slice_s >= 1 and self.slice_s % 1 == 0):
            raise ValueError("a slice has whole seconds")
        if (self.gap_s is not None and self.gap_s < 0) or (self.task_time_s is not None and self.task_time_s <= 0):
            raise ValueError("a time is negative")
        if self.warmup not in WARMUPS:
            raise ValueError(f'"{self.warmup}" is not a kind of warmup')

    def of(self, task: str) -> TaskPacing | None:
        """Return what holds for a single task, by name; None without that."""
        return next((each for each in self.tasks if each.task == task), None)


@dataclass(frozen=True)
class SessionSide:
    """A side of a session: its options besides those that all sides have, as `name=value` words without secrets."""

    name: str
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class SessionRace:
    """A race of a session. `round` and `position` count from 1; both are 0 of a race that is discarded.

    `status`: planned, or that of its record (running, complete, cancelled, failed). `race_id` is that of the last
    attempt; `took_s`, once it is complete, the time that it took with all that belongs to it.
    """

    side: str
    round: int = 0
    position: int = 0
    race_id: str | None = None
    status: str = PLANNED
    took_s: float | None = None


@dataclass(frozen=True)
class RaceSession:
    """A session: `words` are the options that all sides have. Frozen: methods return a changed copy.

    `pacing`: its sides are raced at once; None: they take turns. `budget_s`: no round begins that would not end within
    it. `search`: its races search for a capacity; the options of that search as words, empty of other sessions.
    `effect_ratio`: the change that it is planned to settle; None: it is not planned. `auto`: the number of rounds still
    has to be taken from the spread of the first ones. `look_at`: the rounds after which rows are judged, as far as they
    were planned. `luck` that its first rounds have seen; `pilots_s`: the seconds that pilots took in the first one
    alone. `damage`: the sentence that says that its file was changed, which is not in it.
    """

    id: str
    kind: str  # rounds, duel
    created_at: str
    seed: int
    words: tuple[str, ...]
    sides: tuple[SessionSide, ...]
    plan: tuple[SessionRace, ...]  # in the order in which they are raced
    discarded: tuple[SessionRace, ...] = ()  # raced before them, and never compared
    restart_node: bool = False
    before_round: str | None = None
    pacing: Pacing | None = None
    budget_s: float | None = None
    auto: bool = False
    search: tuple[str, ...] = ()
    looks: int = 1  # how many results this session has: the planned ones, and one more each time that rounds are added
    effect_ratio: float | None = None
    look_at: tuple[int, ...] = ()
    luck: SeenLuck | None = None
    pilots_s: float = 0.0
    schema: int = SCHEMA
    damage: str = ""

    def __post_init__(self) -> None:
        """Check the plan. Raises ValueError for content of a file that is not a valid session."""
        if not self.plan:
            raise ValueError("no race is planned")
        sides = {side.name for side in self.sides}
        for race in self.races:
            if race.side not in sides:
                raise ValueError(f'a race is of "{race.side}", which is not a side')
            if race.status == COMPLETE and race.race_id is None:
                raise ValueError("a complete race has no id")
        if self.pacing is not None and {(race.round, race.side) for race in self.plan} != {
            (number, side) for number in range(1, self.rounds + 1) for side in sides
        }:
            raise ValueError("a round lacks a side")

    @property
    def rounds(self) -> int:
        """The number of races of a side, those to come included."""
        return max(race.round for race in self.plan)

    @property
    def rounds_done(self) -> int:
        """The number of rounds that are complete on every side."""
        return min(len(self.complete(side.name)) for side in self.sides)

    def complete(self, side: str) -> list[str]:
        """Return the ids of a side's complete races in their order, without those that are discarded."""
        return [str(race.race_id) for race in self.plan if race.side == side and race.status == COMPLETE]

    @property
    def races(self) -> tuple[SessionRace, ...]:
        """All races in their order, the discarded ones first."""
        return (*self.discarded, *self.plan)

    @property
    def left(self) -> tuple[SessionRace, ...]:
        """The races still to come; empty if the session is complete."""
        return tuple(race for race in self.races if race.status != COMPLETE)

    def of_round(self, number: int) -> tuple[SessionRace, ...]:
        """Return the races of a round in their order."""
        return tuple(race for race in self.plan if race.round == number)

    @property
    def rounds_took_s(self) -> tuple[float, ...]:
        """The seconds that each complete round took, as far as they are known; of sides that are raced at once."""
        first = self.sides[0].name
        return tuple(race.took_s for race in self.plan if race.side == first and race.took_s is not None)

    @property
    def next_round_s(self) -> float | None:
        """The seconds that the next round takes, if it takes as long as the last one; None before there is one."""
        took_s = self.rounds_took_s
        return max(1.0, took_s[-1] - (self.pilots_s if len(took_s) == 1 else 0.0)) if took_s else None

    def in_whole_rounds(self) -> RaceSession:
        """Return the session with every round raced again of which a race is not complete."""
        left = {race.round for race in self.left}
        plan = tuple(
            replace(race, status=CANCELLED, took_s=None) if race.round in left and race.status == COMPLETE else race
            for race in self.plan
        )
        return replace(self, plan=plan)

    def with_race(self, race: SessionRace) -> RaceSession:
        """Return the session with this race in place of the one of the same side and round."""

        def replaced(races: tuple[SessionRace, ...]) -> tuple[SessionRace, ...]:
            return tuple(race if (one.side, one.round) == (race.side, race.round) else one for one in races)

        return replace(self, plan=replaced(self.plan), discarded=replaced(self.discarded))

    def place(self, race: SessionRace) -> Session:
        """Return the entry on the session for the record of this race: its side, round and position."""
        return Session(self.id, self.kind, race.side, race.round, race.round, race.position)


class SessionStore:
    """The store of the sessions under an esbench home."""

    def __init__(self, home: Path) -> None:
        self.folder = home / "sessions"

    def save(self, session: RaceSession) -> None:
        """Write the session's file whole or not at all. Raises RecordError if it cannot be written."""
        try:
            private_folder(self.folder)
        except OSError as error:
            raise RecordError(f"cannot be written: {error.strerror}", where=str(self.folder)) from error
        document = {**msgspec.to_builtins(session), "sums": {f"{session.id}.json": UNSEALED}}
        del document["damage"]
        replace_file(
            self._file(session.id), sealed(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")
        )

    def load(self, session: str) -> RaceSession:
        """Return a session, named as in `resolve`.

        Raises UsageError if it does not exist, RecordError if its file cannot be read.
        """
        file = self._file(self.resolve(session))
        with reading(file, hint="its races are kept, and have ids of their own"):
            payload = read_stored(file)
            said = msgspec.json.decode(payload, type=_Said)
            if said.schema > SCHEMA:
                raise ValueError(f"written by a newer esbench: schema {said.schema}, this one reads up to {SCHEMA}")
            session_read = msgspec.json.decode(payload, type=RaceSession)
            if session_read.id != file.stem:
                raise ValueError(f"it belongs to session {session_read.id}")
            return replace(session_read, schema=SCHEMA, damage=said.damage(payload, file.name))

    def newest(self, limit: int) -> tuple[list[RaceSession], list[RecordError]]:
        """Return at most `limit` sessions, the newest first, and the errors of newer ones that cannot be read."""
        sessions: list[RaceSession] = []
        damaged: list[RecordError] = []
        for name in reversed(self.ids()):
            if len(sessions) == limit:
                break
            try:
                sessions.append(self.load(name))
            except RecordError as error:
                damaged.append(error)
        return sessions, damaged

    def ids(self) -> list[str]:
        """Return the ids of all sessions, the newest last: an id begins with the time of day."""
        return sorted(file.stem for file in self.folder.glob("*.json"))

    def resolve(self, session: str) -> str:
        """Return the id that `session` stands for: an id, a unique prefix, or `last`, the newest; else a UsageError."""
        ids = self.ids()
        if session in ids:
            return session
        if session == LAST and ids:
            return ids[-1]
        matches = [name for name in ids if session and name.startswith(session.lower())]
        if len(matches) == 1:
            return matches[0]
        if matches:
            raise ambiguous(session, "sessions", matches)
        raise UsageError(
            f'there is no session "{session}"', where=str(self.folder), hint=did_you_mean(session, ids[-20:])
        )

    def delete(self, session_id: str) -> None:
        """Delete a session's file and logs, not its races. The caller holds its SessionLock.

        Raises RecordError if they cannot be removed, UsageError if the id can be none.
        """
        check_race_id(session_id)  # made like those of races; a file of a stranger may be called "...json"
        try:
            remove_folder(self.folder / session_id)
            self._file(session_id).unlink(missing_ok=True)
        except OSError as error:
            raise RecordError(f"cannot be deleted: {error.strerror}", where=str(error.filename)) from error

    def logs(self, session_id: str) -> Path:
        """Return the folder for the logs of a node that the session's races share; it need not exist."""
        return self.folder / session_id / "logs"

    def _file(self, session_id: str) -> Path:
        return self.folder / f"{session_id}.json"


def session_named(text: str, races: RaceStore, sessions: SessionStore) -> str | None:
    """Return the id of the session that a text names as a whole, else None.

    Raises UsageError for the beginning of several ids, of sessions or of races and sessions.
    """
    ids = sessions.ids()
    if text in ids:
        return text
    if text in ("", LAST) or races.has(text) or not any(session.startswith(text.lower()) for session in ids):
        return None
    if among := races.beginning_with(text):
        named = [f"session {session}" for session in ids if session.startswith(text.lower())]
        raise ambiguous(text, "races and sessions", [*among, *named])
    return sessions.resolve(text)


@dataclass(frozen=True)
class _Said:
    """The keys by which a session's file is checked."""

    schema: int
    sums: Mapping[str, str] = field(default_factory=dict)

    def damage(self, payload: bytes, name: str) -> str:
        """Return that the file was changed; "" if it was not, and of an older one, which has no sum."""
        known = self.schema >= _FIRST_WITH_SUM or self.sums
        changed = known and not is_as_sealed(payload, self.sums.get(name, ""))
        return damage_text([f"{name} was changed"] if changed else [], f"session {Path(name).stem}")
