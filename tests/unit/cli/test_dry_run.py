"""`--dry-run`: one document for all sides, and its numbers."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from track_files import write_track

from esbench.cli.main import run

CORPORA = """
version: 2
indices: [{name: docs}]
corpora:
  - {name: large, documents: [{source-file: a.json.bz2, document-count: 11396503}]}
  - {name: small, documents: [{source-file: b.json, document-count: 50}]}
  - {name: uncounted, documents: [{source-file: c.json}]}
schedule:
  - operation: {name: load, operation-type: bulk, bulk-size: 100}
"""
DUEL = ("duel", "--track=orders", "--baseline=", "--contender=track-params=bulk_size:7", "--dry-run")


def printed(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    """The JSON that a dry run prints."""
    assert run([*arguments, "--dry-run", "--format=json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("turns", [(), ("--turns",)])
def test_the_sides_of_a_duel_are_one_document(turns: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    found = printed(capsys, *DUEL, *turns)
    assert {row["side"] for row in found["rows"]} == {"baseline", "contender"}
    assert [section["title"] for section in found["sections"]] == ["Sides"]
    (track, *_) = found["sections"][0]["rows"]
    assert {track["name"], track["baseline"], track["contender"]} == {"Track", "orders / default"}
    assert ("At once" in found["facts"]) is not bool(turns)
    assert run([*DUEL, *turns, "--format=csv"]) == 0
    rows = list(csv.DictReader(capsys.readouterr().out.splitlines()))
    assert [row["side"] for row in rows] == [row["side"] for row in found["rows"]]


def test_the_report_file_of_a_duel_has_all_sides(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*DUEL, f"--report-file={tmp_path}/plan.md"]) == 0
    text = (tmp_path / "plan.md").read_text()
    assert text.count("nothing was started") == 1
    assert all(f"| {side} " in text for side in ("baseline", "contender"))
    assert capsys.readouterr().out.count("nothing was started") == 1


def test_documents_that_are_generated_are_counted_by_corpus(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    race = ("race", f"--track-path={write_track(tmp_path, CORPORA)}")
    assert printed(capsys, *race)["facts"]["Documents"] == "not counted yet"
    synthetic = (*race, "--synthetic-corpus", "--synthetic-documents=1000")
    assert printed(capsys, *synthetic)["facts"]["Documents"] == "2,050, generated"


@pytest.mark.parametrize(
    ("options", "takes"),
    [
        ((), "20 s, probes that begin within 30 min, 2 min that hold the result, "),
        (("--budget=5m", "--sustain=0s"), "20 s, probes that begin within 5 min, "),
    ],
)
def test_the_time_of_a_search_has_its_budget(
    options: tuple[str, ...], takes: str, capsys: pytest.CaptureFixture[str]
) -> None:
    search = ("capacity", "--track=orders", "--task=get-by-id", "--objective=p99<50ms")
    facts = printed(capsys, *search, *options)["facts"]
    assert facts["Takes"] == f"{takes}and what the tasks without a time take"


@pytest.mark.parametrize(
    ("session", "rounds"),
    [
        (("race", "--track=orders", "--rounds=6"), "6 of 1 min 30 s, after 1 discarded race: 10 min 30 s, "),
        ((*DUEL, "--turns", "--rounds=4"), "4 of 3 min, after 2 discarded races: 15 min, "),
        (("race", "--track=orders", "--rounds=6", "--include-tasks=refresh"), "6, after 1 discarded race, "),
    ],
)
def test_a_session_in_turns_has_its_rounds_and_their_least_time(
    session: tuple[str, ...], rounds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = printed(capsys, *session)["facts"]
    assert facts["Rounds"] == f"{rounds}and what starting nodes and tasks without a time take"


@pytest.mark.parametrize("command", [("info",), ("race", "--dry-run")])
def test_what_came_from_the_environment_is_not_printed(
    command: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HUSH", "s3kret-1")
    path = write_track(tmp_path, 'indices: []\nschedule: [{name: "task-{{ word }}", operation: refresh}]\n')
    words = (f"--track-path={path}", "--track-params=word:env:HUSH")
    assert run([*command, *words]) == 0
    assert "task-<hidden>" in capsys.readouterr().out
    assert run(["race", "--track=orders", "--dry-run", "--track-params=documents:env:HUSH"]) == 2
    printed = capsys.readouterr()
    assert "s3kret" not in printed.out + printed.err
    assert 'not "<hidden>"' in printed.err
