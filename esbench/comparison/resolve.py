"""Resolution of the sides of a comparison or a report, as users type them, to stored races."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from esbench.comparison import comparability
from esbench.comparison.model import Side
from esbench.errors import RecordError, UsageError, did_you_mean
from esbench.record.figures import Notice
from esbench.record.index_prefix import other_params
from esbench.record.model import RaceRecord
from esbench.record.sessions import COMPLETE, RaceSession, SessionStore, session_named
from esbench.record.store import RaceEntry, RaceStore

BASELINE, CONTENDER = "baseline", "contender"
_TAG = "tag:"
_MOST_HISTORY = 20
_Taken = tuple[str | None, str]  # the session and the side of the baseline, which no contender is by default
HINT = "a race (id, beginning of an id, last), a list a,b,c, a session, session:SIDE, or tag:name:value"


class SideResolver:
    """Resolver of sides: finds the races and sessions of one esbench home that a text names."""

    def __init__(self, races: RaceStore, sessions: SessionStore) -> None:
        self._races = races
        self._sessions = sessions

    def baseline(self, text: str) -> Side:
        """Return the side, named "baseline", that a text names.

        The text is a race's id, the beginning of one or `last`; several with commas; a session (its side "baseline",
        else its first), SESSION:SIDE, or tag:NAME:VALUE. Raises UsageError if it names no race, no complete one of a
        session or tag, or a race twice; RecordError if a record cannot be read.
        """
        return self._side(text, BASELINE)

    def contenders(self, texts: Sequence[str], baseline: Side) -> tuple[Side, ...]:
        """Return a side for each of `texts`; without any, the other sides of the baseline's session.

        Texts are as for `baseline`, but a session stands for its side "contender", else for its only other side. A
        single side is named "contender"; several have the names of their sides in the session, or their texts. Raises
        UsageError if no contender follows from them, or a race is named twice.
        """
        if not texts:
            if baseline.session is None:
                raise UsageError("--contender is missing", hint=f"name what to compare with it: {HINT}")
            session = self._sessions.load(baseline.session)
            if _ids(baseline) != session.complete(_side_of(baseline.records[0])):
                raise UsageError("--contender is missing", hint=f"esbench compare {session.id} compares its session")
            others = [side.name for side in session.sides if side.name != _side_of(baseline.records[0])]
            if not others:
                raise UsageError(f"session {session.id} has no other side", hint=f"--contender: {HINT}")
            texts = [f"{session.id}:{name}" for name in others]
        taken = (baseline.session, _side_of(baseline.records[0]))
        sides = [self._side(text, CONTENDER, taken) for text in texts]
        return _with_own_names(sides, texts)

    def reported(self, texts: Sequence[str]) -> tuple[Side, ...]:
        """Return the sides of a report: one for each of `texts`, and for a session each that has a complete race.

        Texts are as for `baseline`. A single race is named by its id, several by their text, the only side of a session
        by the session's id; other sides keep their names, with the session's id in front where names repeat. Raises
        UsageError if a text names no race, no complete one of a session or tag, or a race is named twice; RecordError
        if a record cannot be read.
        """
        found = [side for text in texts for side in self._reported(text)]
        if twice := _named_twice(record for side in found for record in side.records):
            raise UsageError(f"race {twice} is named twice")
        names = [side.name for side in found]
        return tuple(
            replace(side, name=f"{side.session}:{side.name}") if names.count(side.name) > 1 else side for side in found
        )

    def looks(self, sides: Sequence[Side]) -> int:
        """Return the number of results that the sessions of the sides' races have had: the largest of them, 1 without
        sessions."""
        named = {record.session.id for side in sides for record in side.records if record.session is not None}
        return max((self._sessions.load(session).looks for session in named & set(self._sessions.ids())), default=1)

    def planned_effect(self, baseline: Side, contenders: Sequence[Side]) -> float | None:
        """Return the change that the one session of all sides was planned to settle; None of others."""
        named = {side.session for side in (baseline, *contenders)}
        session = named.pop() if len(named) == 1 else None
        return None if session is None else self._sessions.load(session).effect_ratio

    def notices(self, sides: Sequence[Side]) -> tuple[Notice, ...]:
        """Return the notices about the stored sides: sessions that were changed, or are not complete; races whose
        seconds are missing."""
        return (*self.unfinished(sides), *self._without_seconds(sides))

    def unfinished(self, sides: Sequence[Side], they_are: str = "not compared") -> Iterator[Notice]:
        """Yield a notice for each session of the sides whose file was changed, or that has races to come. `they_are`
        says what happens without them."""
        for name in dict.fromkeys(side.session for side in sides if side.session):
            session = self._sessions.load(name)
            if session.damage:
                yield Notice(session.damage)
            if session.left:
                text = f"{len(session.left)} of the {len(session.races)} races of session {name} are not complete"
                yield Notice(f"{text}, and {they_are}")

    def _without_seconds(self, sides: Sequence[Side]) -> Iterator[Notice]:
        """Yield a notice for each race of the sides whose seconds are missing, without which percentiles are not
        judged."""
        for name in dict.fromkeys(record.race_id for side in sides for record in side.records if record.tasks):
            file = self._races.folder(name).seconds_file
            if not file.exists():
                yield Notice(f"race {name}: {file} is missing, without which its percentiles are not judged")

    def history(
        self, baseline: Side, compared: Sequence[Side], allow: Sequence[str] = ()
    ) -> tuple[tuple[RaceRecord, ...], tuple[Notice, ...]]:
        """Return the latest earlier races with the workload, engine facts and host of the baseline's first race, oldest
        first, and a notice for each race that may be one of them and cannot be read.

        At most twenty complete ones, without those of `compared`. Keys in `allow` may differ here, too. Only the last
        race of a session counts: its rounds are more like one another than like those of any other.
        """
        first = baseline.records[0]
        taken = {record.race_id for side in compared for record in side.records}
        sessions: set[str] = set()
        found: list[RaceRecord] = []
        notices: list[Notice] = []
        for entry in self._races.entries()[0]:
            session = entry.session.id if entry.session is not None else entry.race_id
            if entry.race_id in taken or session in sessions or not _may_be_like(entry, first, allow):
                continue
            try:
                record = self._races.load(entry.race_id)
            except (RecordError, UsageError) as error:
                notices.append(Notice(f"the earlier race {entry.race_id} is left out: {error}"))
                continue
            if record.damage:
                notices.append(Notice(f"the earlier race {entry.race_id} is left out: {record.damage}"))
            elif comparability.same_setup(record, first, allow):
                found.append(record)
                sessions.add(session)
            if len(found) == _MOST_HISTORY:
                break
        return tuple(reversed(found)), tuple(notices)

    def _reported(self, text: str) -> Iterator[Side]:
        if not text.strip(", "):
            raise UsageError("no race is named", hint=HINT)
        named = session_named(text, self._races, self._sessions)
        if named is None:
            side = self._side_as_typed(text)
            session = side.session if ":" in text else None  # a race does not stand for its session
            yield replace(side, name=side.records[0].race_id if len(side.records) == 1 else text, session=session)
            return
        plan = self._sessions.load(named)
        complete = [side.name for side in plan.sides if plan.complete(side.name)]
        if not complete:
            raise UsageError(f"session {named} has no complete race yet")
        for name in complete:
            yield replace(self._side_as_typed(f"{named}:{name}"), name=name if len(plan.sides) > 1 else named)

    def _side_as_typed(self, text: str) -> Side:
        """Return the side that a text names, as `baseline` does; errors are about the text, not about an option."""
        try:
            return self.baseline(text)
        except UsageError as error:
            if error.where == f"--{BASELINE}":
                error.where = text
            raise

    def _side(self, text: str, role: str, taken: _Taken | None = None) -> Side:
        parts = [part.strip() for part in text.split(",") if part.strip()]
        if not parts:
            raise UsageError("no race is named", where=f"--{role}", hint=HINT)
        records = [record for part in parts for record in self._records(part, role, taken)]
        if twice := _named_twice(records):
            raise UsageError(f"{twice} is named twice", where=f"--{role}")
        records.sort(key=lambda record: (record.started_at, record.race_id))
        sessions = {(record.session.id, record.session.side) if record.session else None for record in records}
        session = sessions.pop() if len(sessions) == 1 else None
        known = session is not None and session[0] in self._sessions.ids()
        return Side(role, tuple(records), session[0] if session is not None and known else None)

    def _records(self, text: str, role: str, taken: _Taken | None) -> list[RaceRecord]:
        if text.startswith(_TAG):
            return self._tagged(text, role)
        name, colon, side = text.partition(":")
        session = name if colon else session_named(text, self._races, self._sessions)
        if session is None:
            return [self._races.load(text)]
        return self._of_session(self._sessions.load(session), side if colon else None, role, taken)

    def _of_session(self, session: RaceSession, side: str | None, role: str, taken: _Taken | None) -> list[RaceRecord]:
        name = _chosen(session, side, role, taken)
        ids = session.complete(name)
        if not ids:
            raise UsageError(f'side "{name}" of session {session.id} has no complete race yet', where=f"--{role}")
        if gone := [race_id for race_id in ids if not self._races.has(race_id)]:
            left = ",".join(race_id for race_id in ids if race_id not in gone)
            raise UsageError(
                f'side "{name}" of session {session.id}: {", ".join(gone)} is not there any more',
                where=f"--{role}",
                hint=f"its other races: {left}" if left else "none of its races is",
            )
        return [self._races.load(race_id) for race_id in ids]

    def _tagged(self, text: str, role: str) -> list[RaceRecord]:
        name, colon, value = text.removeprefix(_TAG).partition(":")
        if not name or not colon:
            raise UsageError(f'"{text}" is not tag:NAME:VALUE', where=f"--{role}", hint="as given to --user-tags")
        entries, _ = self._races.entries()
        ids = [entry.race_id for entry in entries if _counts(entry) and entry.user_tags.get(name) == value]
        if not ids:
            tags = {f"{key}:{each}" for entry in entries for key, each in entry.user_tags.items()}
            hint = did_you_mean(f"{name}:{value}", tags)
            raise UsageError(f"no complete race has the tag {name}:{value}", where=f"--{role}", hint=hint)
        return [self._races.load(race_id) for race_id in ids]


def _chosen(session: RaceSession, side: str | None, role: str, taken: _Taken | None) -> str:
    """Return the name of the session's side that is meant: the named one, the one called after its role, or the only
    one left."""
    names = [each.name for each in session.sides]
    if side is not None:
        if side not in names:
            what = f'session {session.id} has no side "{side}"'
            raise UsageError(what, where=f"--{role}", hint=did_you_mean(side, names))
        return side
    if role in names:
        return role
    left = [name for name in names if (session.id, name) != taken]
    if role == BASELINE or len(left) == 1:
        return left[0]
    if not left:
        raise UsageError(f"session {session.id} has no other side", where=f"--{role}", hint=HINT)
    raise UsageError(
        f"session {session.id} has the sides {', '.join(names)}", where=f"--{role}", hint=f"say {session.id}:{left[0]}"
    )


def _named_twice(records: Iterable[RaceRecord]) -> str | None:
    """Return the id of a race that is there twice, else None."""
    ids = [record.race_id for record in records]
    return next((race_id for race_id in ids if ids.count(race_id) > 1), None)


def _ids(side: Side) -> list[str]:
    return [record.race_id for record in side.records]


def _side_of(record: RaceRecord) -> str:
    return record.session.side if record.session is not None else ""


def _with_own_names(sides: Sequence[Side], texts: Sequence[str]) -> tuple[Side, ...]:
    """Return the contenders by name: a single one stays "contender", others have the name of their side or the typed
    text.

    Raises UsageError if two of them have the same races.
    """
    if len(sides) == 1:
        return tuple(sides)
    names = [
        (_side_of(side.records[0]) if side.session else "") or text for side, text in zip(sides, texts, strict=True)
    ]
    names = [text if name == BASELINE else name for name, text in zip(names, texts, strict=True)]  # that is another's
    found: list[Side] = []
    for side, name, text in zip(sides, names, texts, strict=True):
        if _ids(side) in map(_ids, found):
            raise UsageError(f"{text} is named twice", where="--contender")
        found.append(Side(text if names.count(name) > 1 else name, side.records, side.session))
    return tuple(found)


def _counts(entry: RaceEntry) -> bool:
    """True if a race is complete, and was not discarded by its session."""
    return entry.status == COMPLETE and not (entry.session and entry.session.is_discarded)


def _may_be_like(entry: RaceEntry, first: RaceRecord, allow: Sequence[str]) -> bool:
    """True if an earlier race may have the same setup as `first`, but for keys in `allow`, by the facts in its entry: a
    cheap test before loading its record."""
    versions = {name: (facts.distribution, facts.version) for name, facts in first.clusters.items()}
    return (
        _counts(entry)
        and entry.started_at < first.started_at
        and all(_keyed(entry)[key] == fact for key, fact in _keyed(first).items() if key not in allow)
        and other_params(entry.track_params) == other_params(first.track_params)
        and versions == {name: (facts.distribution, facts.version) for name, facts in entry.clusters.items()}
    )


def _keyed(race: RaceEntry | RaceRecord) -> dict[str, str | bool]:
    """Return the facts of a race's entry that may differ if their key is allowed."""
    return {
        "track": race.track.name,
        "track digest": race.track.digest,
        "challenge": race.challenge,
        "test mode": race.test_mode,
    }
