"""Each race, duel and search that the documentation shows can be begun: it passes with --dry-run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from documented import Command, esbench_commands
from races import golden_race, keep, search_of
from stand_ins import StandIns, stand_ins

from esbench.cli.main import run

# What no test here can try, and why.
UNTRIED = {
    "esbench race --track=order-analytics --target-hosts=mysql://bench@10.0.0.3:3306/shop": (
        "there is no null server of SQL; tests/node/test_databases.py races a MariaDB"
    ),
}
RACES = [command for command in esbench_commands() if command.begins_races]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIns]:
    with stand_ins(tmp_path_factory.mktemp("made")) as found:
        yield found


@pytest.fixture
def folder(made: StandIns, esbench_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: it has the files that commands name, and the home a race that found a capacity."""
    made.place(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    keep(esbench_home, search_of(golden_race(race_id="race-1")))
    return tmp_path


def text_of(command: Command) -> str:
    return " ".join(command.words)


def left_out(words: list[str]) -> set[str]:
    """What a dry run does not go with: JUnit, which is of verdicts."""
    return {word for word in words if word.startswith("--report-file=") and word.endswith(".xml")}


def begin(command: Command, made: StandIns, monkeypatch: pytest.MonkeyPatch) -> int:
    """Run a command as far as it can be tried; its exit code."""
    for name, value in made.variables(command).items():
        monkeypatch.setenv(name, value)
    words = made.words(command)
    if "--help" not in words:
        words = [word for word in words if word not in left_out(words)] + ["--dry-run"]
    return run(words)


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", [each for each in RACES if text_of(each) not in UNTRIED], ids=lambda it: it.place)
def test_it_can_be_begun(
    command: Command, made: StandIns, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    code = begin(command, made, monkeypatch)
    assert code == 0, f"{made.words(command)}: {''.join(capsys.readouterr())}"


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("text", UNTRIED)
def test_what_is_not_tried_is_shown_and_would_fail(text: str, made: StandIns, monkeypatch: pytest.MonkeyPatch) -> None:
    (command,) = [each for each in RACES if text_of(each) == text]
    assert begin(command, made, monkeypatch) != 0
