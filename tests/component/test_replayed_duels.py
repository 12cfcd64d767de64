"""`esbench duel --replay=LOG`: each part of a log to both sides, the same requests; resumed, and refused in time."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from driver import NullServerFactory
from replay_logs import own

from esbench.cli.main import run
from esbench.null_server import NullServer
from esbench.record.sessions import SessionStore

OTHER = {"rules": [{"path": "^/$", "merge": {"cluster_uuid": "BBBBBBBBBBBBBBBBBBBBBB"}}]}
SHORT = ("--no-answers", "--workers=1", "--telemetry=none", "--quiet")


@pytest.fixture
def sides(null_server: NullServerFactory) -> tuple[NullServer, NullServer]:
    return null_server(log=True), null_server(OTHER, log=True)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ESBENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def make_index(server: NullServer) -> None:
    urlopen(Request(f"{server.url}/books", method="PUT")).close()


def log_of(folder: Path) -> Path:
    """80 searches, 20 in each of 4 seconds, and one of another shape in the first."""
    log = folder / "queries.log"
    lines = []
    for number in range(80):
        fields = json.loads(own(f"/books/_search?n={number}", body={"query": {"match_all": {}}}))
        lines.append(json.dumps({**fields, "@timestamp": f"2026-11-28T09:00:{number / 20 + 0.02:09.6f}Z"}))
    rare = json.loads(own("/books/_search", body={"query": {"term": {"title": "x"}}}))
    lines.insert(10, json.dumps({**rare, "@timestamp": "2026-11-28T09:00:00.500000Z"}))
    log.write_text("\n".join(lines) + "\n")
    return log


def numbers(server: NullServer) -> list[int]:
    return [int(line.path.rpartition("=")[2]) for line in server.log() if "_search?n=" in line.path]


def sides_of(sides: tuple[NullServer, NullServer]) -> list[str]:
    return [f"--{name}=target-hosts={side.url}" for name, side in zip(("baseline", "contender"), sides, strict=True)]


def test_each_round_sends_its_part_to_both_sides_and_goes_on_when_resumed(
    sides: tuple[NullServer, NullServer], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in sides:
        make_index(side)
    names = tmp_path / "names.json"
    names.write_text(json.dumps({"match_all on books": "start page"}))
    log = f"--replay={log_of(tmp_path)} shape-names={names}"
    assert run(["duel", log, *sides_of(sides), *SHORT, "--rounds=1", "--task-time=4s"]) == 0
    assert "start page" in capsys.readouterr().out
    assert [sorted(numbers(side)) for side in sides] == [[*range(40)]] * 2, "2 s a side"
    session = SessionStore(home).load("last")
    assert run(["duel", f"--resume={session.id}", *SHORT[-1:], "--rounds=3"]) == 0
    assert [sorted(numbers(side)) for side in sides] == [sorted([*range(80), *range(40)])] * 2, "and begins again"
    capsys.readouterr()
    assert run(["compare", session.id, "--all"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "41 searches of a round had been sent in an earlier one" in shown
    assert "% of the searches were due in the first 100 ms of a slice" in shown


def test_an_index_that_one_side_lacks_is_named_before_anything_is_sent(
    sides: tuple[NullServer, NullServer], home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_index(sides[0])
    assert run(["duel", f"--replay={log_of(tmp_path)}", *sides_of(sides), *SHORT]) == 2
    assert "--contender: --target-hosts: books: no such index is there" in capsys.readouterr().err
    assert numbers(sides[0]) == []
    assert list((home / "replays").iterdir()) == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--track=orders"], "--track cannot be combined with --replay: the log is the track"),
        (["--turns"], "--turns cannot be combined with --replay"),
        (["--resume=last"], "--replay is for a session that begins"),
    ],
)
def test_a_log_is_the_track_of_a_session_that_begins(
    sides: tuple[NullServer, NullServer],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
) -> None:
    assert run(["duel", f"--replay={log_of(tmp_path)}", *words, *sides_of(sides)]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_planned_duel_of_a_log_foretells_its_parts(
    sides: tuple[NullServer, NullServer], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for side in sides:
        make_index(side)
    assert run(["duel", f"--replay={log_of(tmp_path)}", *sides_of(sides), *SHORT, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "all 4 s of it in each round" in shown
    assert "round 1 refines it" not in shown, "a log has no pilot"
