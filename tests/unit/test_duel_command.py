"""`esbench duel` and sessions on the command line: what is refused before the first race, in one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from esbench.cli.main import run
from esbench.locks import SessionLock
from esbench.sessions import RaceSession, SessionRace, SessionStore, Side


def duel_of_two(session_id: str = "20261121t101530-4f2a") -> RaceSession:
    plan = (SessionRace("contender", 1, 1), SessionRace("baseline", 1, 2))
    sides = (Side("baseline"), Side("contender", ("heap=1g",)))
    return RaceSession(session_id, "duel", "2026-11-21T10:15:30.000Z", 7, ("track=orders",), sides, plan)


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The line that wrong usage ends with."""
    assert run(list(arguments)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    return line


def test_a_session_that_another_process_races_is_left_alone(
    esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = duel_of_two()
    SessionStore(esbench_home).save(session)
    with SessionLock(esbench_home, session.id):
        assert run(["list", "sessions"]) == 0
        assert f"{session.id}  2026-11-21T10:15:30Z  duel    running" in capsys.readouterr().out
        assert f'session "{session.id}" is running already (its process is ' in failing(capsys, "duel", "--resume=last")
