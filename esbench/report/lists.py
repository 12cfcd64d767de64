"""The lists of races and of sessions."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from esbench.errors import RecordError
from esbench.record.figures import Notice
from esbench.record.sessions import RaceSession
from esbench.record.store import DamagedRace, RaceEntry
from esbench.report.parts import part_columns
from esbench.report.race_summary import to_the_second
from esbench.report.table_model import ColumnOf, ReportDocument, table_of
from esbench.units import format_bytes


def _versions(entry: RaceEntry) -> str:
    return " ".join(each.server for each in entry.clusters.values())


def _session(entry: RaceEntry) -> str:
    if entry.session is None:
        return ""
    place = [entry.session.side, f"round {entry.session.round}" if entry.session.round else ""]
    return " ".join([entry.session.id, *filter(None, place)])


_RACE_COLUMNS: tuple[ColumnOf[RaceEntry], ...] = (
    ColumnOf("Race ID", "race_id", read=lambda entry: entry.race_id),
    ColumnOf("Started", "started", read=lambda entry: to_the_second(entry.started_at)),
    ColumnOf("Status", "status", read=lambda entry: entry.status),
    ColumnOf("Track", "track", read=lambda entry: entry.track.name),
    ColumnOf("Challenge", "challenge", spare=1, read=lambda entry: entry.challenge),
    ColumnOf("Version", "version", cuttable=True, spare=2, read=_versions),
    ColumnOf("Parameters", "parameters", below=True, read=lambda entry: entry.track_params),
    ColumnOf("Session", "session", below=True, read=_session),
    ColumnOf("Tags", "tags", below=True, read=lambda entry: entry.user_tags),
)


def race_list(entries: Sequence[RaceEntry], damaged: Sequence[DamagedRace]) -> ReportDocument:
    """Return the list of races; damaged ones are named in notices.

    Parts of features that one of them has are further columns.
    """
    changed = [Notice(entry.damage) for entry in entries if entry.damage]
    notices = (*changed, *(Notice(f"race {race.race_id} is left out: {race.reason}") for race in damaged))
    return ReportDocument(table_of((*_RACE_COLUMNS, *part_columns(entries)), entries), notices=notices)


@dataclass(frozen=True)
class RaceToDelete:
    """A race that is about to be deleted; `entry` is None of one whose record cannot be read."""

    race_id: str
    entry: RaceEntry | None
    status: str
    size_bytes: int


_DELETED_COLUMNS: tuple[ColumnOf[RaceToDelete], ...] = (
    ColumnOf("Race ID", "race_id", read=lambda race: race.race_id),
    ColumnOf("Started", "started", read=lambda race: to_the_second(race.entry.started_at) if race.entry else ""),
    ColumnOf("Status", "status", read=lambda race: race.status),
    ColumnOf("Track", "track", read=lambda race: race.entry.track.name if race.entry else ""),
    ColumnOf("Size", "size", numeric=True, read=lambda race: format_bytes(race.size_bytes)),
)


def deletion_list(races: Sequence[RaceToDelete], notices: Sequence[str]) -> ReportDocument:
    """Return the list of races that are about to be deleted; `notices` say what follows from that."""
    return ReportDocument(table_of(_DELETED_COLUMNS, races), notices=tuple(map(Notice, notices)))


def session_list(
    sessions: Sequence[RaceSession], running: Collection[str] = (), damaged: Sequence[RecordError] = ()
) -> ReportDocument:
    """Return the list of sessions, each with its progress; options and sides as they were written.

    `running`: ids of the sessions that run now. Notices name those that are damaged.
    """
    columns: tuple[ColumnOf[RaceSession], ...] = (
        ColumnOf("Session", "session", read=lambda session: session.id),
        ColumnOf("Began", "began", read=lambda session: to_the_second(session.created_at)),
        ColumnOf("Kind", "kind", read=lambda session: session.kind),
        ColumnOf("Raced", "pace", read=_pace),
        ColumnOf("Status", "status", read=lambda session: _status(session, running)),
        ColumnOf("Done", "rounds_done", numeric=True, read=lambda session: session.rounds_done),
        ColumnOf("Rounds", "rounds", numeric=True, read=lambda session: session.rounds),
        ColumnOf("", "complete", for_programs=True, read=lambda session: len(session.races) - len(session.left)),
        ColumnOf("", "races", for_programs=True, read=lambda session: len(session.races)),
        ColumnOf("Options", "options", below=True, read=lambda session: shlex.join(session.words)),
        ColumnOf("Sides", "sides", below=True, read=_sides),
    )
    changed = [Notice(session.damage) for session in sessions if session.damage]
    notices = (*changed, *(Notice(f"a session is left out: {error}") for error in damaged))
    return ReportDocument(table_of(columns, sessions), notices=notices)


def _status(session: RaceSession, running: Collection[str]) -> str:
    if session.id in running:
        return "running"
    if not session.left:
        return "complete"
    return "failed" if any(race.status == "failed" for race in session.left) else "interrupted"


def _pace(session: RaceSession) -> str:
    if len(session.sides) == 1:
        return ""
    return "in turns" if session.pacing is None else "at once"


def _sides(session: RaceSession) -> str:
    if len(session.sides) == 1:
        return ""
    return "; ".join(f"{side.name} {shlex.join(side.words)}".strip() for side in session.sides)
