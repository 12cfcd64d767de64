"""Sessions as a list."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from esbench.report.document import Column, Document, Table
from esbench.report.tables import to_the_second
from esbench.sessions import RaceSession

COLUMNS = (
    Column("Session", "session"),
    Column("Began", "began"),
    Column("Kind", "kind"),
    Column("Complete", "complete", numeric=True),
    Column("Races", "races", numeric=True),
    Column("Options", "options"),
    Column("Sides", "sides"),
)


def session_list(sessions: Sequence[RaceSession]) -> Document:
    """Each session with how many of its races are complete; options and sides as they were written."""
    rows = tuple(
        (
            session.id,
            to_the_second(session.created_at),
            session.kind,
            len(session.races) - len(session.left),
            len(session.races),
            shlex.join(session.words),
            "; ".join(f"{side.name} {shlex.join(side.words)}".strip() for side in session.sides)
            if len(session.sides) > 1
            else "",
        )
        for session in sessions
    )
    return Document(Table(COLUMNS, rows))
