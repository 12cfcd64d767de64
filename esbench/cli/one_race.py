"""What the commands that take a single race say where a session is named in place of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from esbench.errors import UsageError


@contextmanager
def one_race(home: Path, race: str) -> Iterator[None]:
    """A UsageError in it, that there is no such race, says what to do with the session of that name."""
    try:
        yield
    except UsageError as error:
        from esbench.record.sessions import SessionStore

        named = [session for session in SessionStore(home).ids() if race and session.startswith(race.lower())]
        if len(named) == 1:
            error.hint = f"it is a session: esbench compare {named[0]}, or esbench report {named[0]} --html=FILE"
        raise
