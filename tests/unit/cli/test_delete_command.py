"""`esbench delete`: what is chosen, what is refused, what is asked, and what is left."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from races import golden_race, keep

from esbench.cli.main import run
from esbench.record.locks import RaceLock, SessionLock
from esbench.record.model import Session
from esbench.record.sessions import RaceSession, SessionRace, SessionSide, SessionStore
from esbench.record.store import RaceStore


def left(home: Path) -> list[str]:
    return sorted(path.name for path in (home / "races").iterdir())


def race(home: Path, race_id: str, status: str = "complete", day: str = "2026-11-21", session: str = "") -> None:
    place = Session(session, "rounds", "race", 1) if session else None
    keep(home, golden_race(race_id=race_id, status=status, started_at=f"{day}T10:00:00.000Z", session=place))


@pytest.fixture
def races(esbench_home: Path) -> Path:
    """Races of each status, one whose process has died, and one that cannot be read."""
    for status in ("complete", "failed", "cancelled"):
        race(esbench_home, status, status)
    race(esbench_home, "died", "running")
    race(esbench_home, "old", day="2026-10-31")
    race(esbench_home, "damaged")
    (esbench_home / "races" / "damaged" / "race.json").write_text("{")
    return esbench_home


def planned(home: Path, session_id: str, *races: tuple[str, str | None]) -> RaceSession:
    """A session of rounds, given status and id of each."""
    plan = tuple(SessionRace("race", number, number, race_id, status) for number, (status, race_id) in enumerate(races))
    session = RaceSession(session_id, "rounds", "2026-11-21T09:59:00.000Z", 1, (), (SessionSide("race"),), plan)
    SessionStore(home).save(session)
    return session


def test_races_are_deleted_by_id_by_its_beginning_and_as_the_last_one(
    races: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    race(races, "newest", day="2099-01-01")  # a record that cannot be read counts as of its last change
    (races / "races" / "complete" / "logs" / "node-0").mkdir()
    (races / "races" / "complete" / "logs" / "node-0" / "gc.log").write_bytes(bytes(2048))
    assert run(["delete", "comp", "last", "damaged", "--yes"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"^complete +2026-11-21T10:00:00Z +complete +orders +[\d.]+ KB$", out, re.MULTILINE)
    assert out.splitlines()[-1].startswith("deleted 3 races (")
    assert left(races) == ["cancelled", "died", "failed", "old"]


def test_failed_are_those_that_failed_died_or_were_cancelled(races: Path) -> None:
    assert run(["delete", "--failed", "--yes"]) == 0
    assert left(races) == ["complete", "damaged", "old"]


@pytest.mark.parametrize("before", ["2026-11-01", "20261101", "2026-10-31T12:00:00+01:00"])
def test_races_that_began_before_a_date_are_deleted(races: Path, before: str) -> None:
    assert run(["delete", f"--before={before}", "--yes"]) == 0
    assert "old" not in left(races)
    assert len(left(races)) == 5


def test_an_age_is_a_date_too_and_both_conditions_must_hold(esbench_home: Path) -> None:
    for race_id, days, status in (("new", 1, "failed"), ("old", 31, "failed"), ("good", 31, "complete")):
        race(esbench_home, race_id, status, f"{datetime.now(UTC) - timedelta(days=days):%Y-%m-%d}")
    assert run(["delete", "--before=30d", "--failed", "--yes"]) == 0
    assert left(esbench_home) == ["good", "new"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which races? (esbench delete RACE, or --failed and --before)"),
        (["old", "--failed"], "--failed and --before choose by themselves"),
        (["--before=2026"], '--before: "2026" is not a date (say 2026-11-01, or 30d)'),
        (["--before=2026-11"], '"2026-11" is not a date'),
        (["--before="], '"" is not a date'),
        (["--before=99999999999d"], '"99999999999d" is longer than ten years'),
        (["--before=yesterday"], '"yesterday" is not a duration (say 2026-11-01, or 30d)'),
        (["--before=30"], '"30" is not a date (say 2026-11-01, or 30d)'),
        (["nosuch"], 'there is no race "nosuch"'),
        (["old", "complete"], "this deletes 2 races ("),
    ],
)
def test_what_is_wrong_is_one_line_and_deletes_nothing(
    races: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = left(races)
    assert run(["delete", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err
    assert left(races) == before


def test_an_empty_name_is_no_race(races: Path, capsys: pytest.CaptureFixture[str]) -> None:
    planned(races, "20261121t101530-4f2a", ("race", None))
    assert run(["delete", "", "--yes"]) == 2
    assert 'there is no race ""' in capsys.readouterr().err


def test_nothing_that_fits_is_no_error(races: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["delete", "--before=2020-01-01"]) == 0
    assert "there are no races like that" in capsys.readouterr().err


def test_a_running_race_is_never_deleted(races: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with RaceLock(races, "old"):
        assert run(["delete", "complete", "old", "--yes"]) == 2
        assert "race old is running" in capsys.readouterr().err
        assert run(["delete", "--before=2026-11-30", "--yes"]) == 0
    assert "left out, since they or their sessions are running: old" in capsys.readouterr().out
    assert left(races) == ["damaged", "old"]


def test_links_are_removed_and_not_followed(races: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    keep(elsewhere, golden_race(race_id="theirs"))
    (races / "races" / "theirs").symlink_to(elsewhere / "races" / "theirs")
    (races / "races" / "old" / "logs" / "more").symlink_to(elsewhere)
    assert run(["delete", "theirs", "old", "--yes"]) == 0
    assert not {"theirs", "old"} & {*left(races)}
    assert (elsewhere / "races" / "theirs" / "race.json").is_file()


def test_a_deletion_that_was_killed_leaves_no_race_and_the_next_one_ends_it(races: Path) -> None:
    (races / "races" / "old").rename(races / "races" / ".deleted-old")
    (races / "races" / ".deleted-old" / "race.json").unlink()
    race(races, "old")
    assert run(["delete", "old", "--yes"]) == 0
    (races / "races" / ".deleted-again").mkdir()
    entries, damaged = RaceStore(races).entries()
    assert {entry.race_id for entry in entries} == {"complete", "failed", "cancelled", "died"}
    assert [race.race_id for race in damaged] == ["damaged"]
    assert run(["delete", "failed", "--yes"]) == 0
    assert left(races) == ["cancelled", "complete", "damaged", "died"]


def test_a_session_is_deleted_with_its_races_and_repeated_attempts(esbench_home: Path) -> None:
    for race_id, status in (("r1", "complete"), ("r2-failed", "failed"), ("r2", "complete")):
        race(esbench_home, race_id, status, session="s")
    race(esbench_home, "other")
    planned(esbench_home, "s-1", ("complete", "r1"))
    planned(esbench_home, "s", ("complete", "r1"), ("complete", "r2"))
    logs = SessionStore(esbench_home).logs("s")
    logs.mkdir(parents=True)
    assert run(["delete", "s", "--yes"]) == 0
    assert left(esbench_home) == ["other"]
    assert SessionStore(esbench_home).ids() == ["s-1"]
    assert not logs.parent.exists()


def test_a_race_that_a_session_needs_is_deleted_with_a_warning(
    esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for race_id, session in (("a1", "a"), ("a2", "a"), ("b1", "b")):
        race(esbench_home, race_id, session=session)
    planned(esbench_home, "a", ("complete", "a1"), ("complete", "a2"), ("planned", None))
    planned(esbench_home, "b", ("complete", "b1"))
    assert run(["delete", "a1", "b1", "--yes"]) == 0
    out = capsys.readouterr().out
    assert "warning: session a cannot be resumed without a1" in out
    assert "warning: session b cannot be compared as a whole without b1" in out
    assert SessionStore(esbench_home).ids() == ["a", "b"]


def test_before_deletes_sessions_all_of_whose_races_go(esbench_home: Path) -> None:
    race(esbench_home, "a1", session="a")
    race(esbench_home, "b1", session="b")
    race(esbench_home, "b2", session="b", day="2026-11-23")
    planned(esbench_home, "a", ("complete", "a1"))
    planned(esbench_home, "b", ("complete", "b1"), ("complete", "b2"))
    assert run(["delete", "--before=2026-11-22", "--yes"]) == 0
    assert left(esbench_home) == ["b2"]
    assert SessionStore(esbench_home).ids() == ["b"]


def test_a_running_session_and_its_races_are_not_deleted(
    esbench_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    race(esbench_home, "a1", session="a")
    planned(esbench_home, "a", ("complete", "a1"), ("planned", None))
    with SessionLock(esbench_home, "a"):
        for arguments in (["a"], ["a1"]):
            assert run(["delete", *arguments, "--yes"]) == 2
            assert "session a is running" in capsys.readouterr().err
        assert run(["delete", "--before=2026-12-01", "--yes"]) == 0
    assert left(esbench_home) == ["a1"]
    assert SessionStore(esbench_home).ids() == ["a"]


@pytest.mark.parametrize(("answer", "code", "stays"), [("y", 0, False), ("n", 130, True), ("", 130, True)])
def test_on_a_terminal_it_asks(races: Path, answer: str, code: int, stays: bool) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "esbench", "delete", "old"], stdin=theirs, stderr=subprocess.PIPE, text=True
    )
    os.close(theirs)
    os.write(ours, f"{answer}\n".encode())
    _, said = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == code
    assert "Delete 1 race (" in said
    assert ("old" in left(races)) == stays


def test_a_session_that_cannot_be_read_is_deleted_with_the_races_that_name_it(esbench_home: Path) -> None:
    race(esbench_home, "a1", session="a")
    session = planned(esbench_home, "a", ("complete", "a1"))
    SessionStore(esbench_home).save(replace(session, id="b"))
    (esbench_home / "sessions" / "a.json").write_text("{")
    assert run(["delete", "a", "--yes"]) == 0
    assert left(esbench_home) == []
    assert SessionStore(esbench_home).ids() == ["b"]


def test_sessions_of_strangers_lead_nowhere(esbench_home: Path) -> None:
    race(esbench_home, "a1", session="../../precious")
    race(esbench_home, "b1")
    precious = esbench_home / "precious.lock"
    precious.touch()
    planned(esbench_home, "..", ("complete", "b1"))
    assert run(["delete", "a1", "--yes"]) == 0
    assert precious.exists()
    assert run(["delete", "..", "--yes"]) == 2
    assert precious.exists()
    assert (esbench_home / "sessions" / "...json").exists()
