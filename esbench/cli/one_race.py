"""The error of commands that take a single race when a session is named instead."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from esbench.errors import UsageError


@contextmanager
def one_race(home: Path, race: str) -> Iterator[None]:
    """Add a hint to a UsageError within the block if `race` names a session: the commands that take a session."""
    try:
        yield
    except UsageError as error:
        from esbench.record.sessions import SessionStore

        named = [session for session in SessionStore(home).ids() if race and session.startswith(race.lower())]
        if len(named) == 1:
            error.hint = f"it is a session: esbench compare {named[0]}, or esbench report {named[0]} --html=FILE"
        raise
