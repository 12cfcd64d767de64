"""The list of sessions."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence

from esbench.errors import RecordError
from esbench.record.figures import Notice
from esbench.record.sessions import RaceSession
from esbench.report.race_summary import to_the_second
from esbench.report.table_model import Column, Document, Table

COLUMNS = (
    Column("Session", "session"),
    Column("Began", "began"),
    Column("Kind", "kind"),
    Column("Status", "status"),
    Column("Done", "rounds_done", numeric=True),
    Column("Rounds", "rounds", numeric=True),
    Column("", "complete", for_programs=True),
    Column("", "races", for_programs=True),
    Column("Options", "options"),
    Column("Sides", "sides"),
)


def session_list(
    sessions: Sequence[RaceSession], running: Collection[str] = (), damaged: Sequence[RecordError] = ()
) -> Document:
    """Return the list of sessions, each with its progress; options and sides as they were written.

    `running`: ids of the sessions that run now. Notices name those that are damaged.
    """
    rows = tuple(
        (
            session.id,
            to_the_second(session.created_at),
            session.kind,
            _status(session, running),
            session.rounds_done,
            session.rounds,
            len(session.races) - len(session.left),
            len(session.races),
            shlex.join(session.words),
            "; ".join(f"{side.name} {shlex.join(side.words)}".strip() for side in session.sides)
            if len(session.sides) > 1
            else "",
        )
        for session in sessions
    )
    notices = tuple(Notice(f"a session is left out: {error}") for error in damaged)
    return Document(Table(COLUMNS, rows), notices=notices)


def _status(session: RaceSession, running: Collection[str]) -> str:
    if session.id in running:
        return "running"
    if not session.left:
        return "complete"
    return "failed" if any(race.status == "failed" for race in session.left) else "interrupted"
