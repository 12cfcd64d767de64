"""The documentation's other commands, each in a folder with the files and a home with the races that it names.

Those that begin races are in test_documented_races.py, with --dry-run; these are run as they are, only for less time.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from documented import Command, esbench_commands
from guarded import keeping
from races import golden_race, keep
from stand_ins import StandIns, stand_ins

from esbench.cli.main import run
from esbench.record.sessions import SessionStore

COMMANDS = [command for command in esbench_commands() if not command.begins_races]
_MOMENT = r"\b20\d{6}t\d{4,6}(?:-[0-9a-f]{4})?\b"  # how the id of a race or session begins
_DUEL = (
    *("--track-path=my-track", "--include-tasks=type:delete-index,type:create-index,search"),
    *("--client-options=timeout:10", "--rounds=1", "--task-time=2s", "--workers=1"),
)
# Less time; and a script says what a terminal would be asked.
_SHORT = {
    "calibrate": ("--seconds=0.2",),
    "delete": ("--yes",),
    "load": ("-d", "1", "--workers=1"),
    "-l": ("-l", "100"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandIns]:
    with stand_ins(tmp_path_factory.mktemp("made")) as found:
        yield found


@pytest.fixture(scope="module")
def raced(made: StandIns, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home with a duel of one round, and races with the ids that pages have."""
    home = tmp_path_factory.mktemp("home")
    sides = zip(("baseline", "contender"), made.clusters, strict=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(made.files)
        patch.setenv("ESBENCH_HOME", str(home))
        assert run(["duel", *_DUEL, *(f"--{name}=target-hosts={address}" for name, address in sides)]) == 0
    shown = {found for command in COMMANDS for found in re.findall(_MOMENT, " ".join(command.words))}
    for race_id in {*shown, *(f"race-{number}" for number in range(1, 7)), *"abcdef"}:
        keep(home, golden_race(race_id=race_id))
    keep(home, golden_race(race_id="nightly", user_tags={"build": "nightly"}))
    for count in (100_000, 1_000_000, 10_000_000):
        keep(home, golden_race(race_id=f"analytics-{count}", track_params={"documents": count}))
    keep(home, golden_race(race_id="broken", status="failed", started_at="2019-12-31T10:00:00.000Z"))
    return home


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.place)
def test_it_does_what_it_says(
    command: Command,
    made: StandIns,
    raced: Path,
    esbench_home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    shutil.copytree(raced, esbench_home)
    made.place(tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, value in made.variables(command).items():
        monkeypatch.setenv(name, value)
    session = SessionStore(raced).load("last").id
    names = {"^SESSION$": session}
    kept = f"kept-{uuid4().hex[:8]}"  # as root, the nodes of all homes share a folder
    if command.words[1] == "stop":
        names = {"^(?:kept|ID)$": kept}
    if command.words[1] == "compare" and len(re.findall(_MOMENT, " ".join(command.words))) == 1:
        names |= {_MOMENT: session}
    if command.words[1] == "duel":
        names |= {f"^(?:ID|{_MOMENT})$": session, r"^--rounds=\S+$": "--rounds=2"}
    words = made.words(command, names)
    name = words[0]
    if "--help" not in words:
        words += [word for said, further in _SHORT.items() if said in words for word in further]
    if name in ("create-track", "convert-workload"):
        shutil.rmtree("tracks")
    with keeping(esbench_home) as keep_node:
        if name == "stop":
            keep_node(kept)
        code = run(words)
    said = capsys.readouterr()
    if command.error:
        assert (code, said.err) == (2, f"{command.error}\n")
    else:
        assert code in ({0, 3, 4} if any("--fail-on" in word for word in words) else {0}), f"{words}: {said.err}"
