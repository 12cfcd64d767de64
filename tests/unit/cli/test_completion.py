"""What a shell is offered to complete: commands, options, races, tracks, tasks."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from races import golden_race, keep

from esbench.cli.main import esbench, run


def offered(*words: str) -> list[str]:
    *args, incomplete = words
    return [item.value for item in ShellComplete(esbench, {}, "esbench", "_C").get_completions(args, incomplete)]


def test_commands_and_options_are_offered() -> None:
    assert offered("comp") == ["compare", "completion"]
    assert "--fail-on" in offered("compare", "--f")


def test_races_and_sessions_are_offered_newest_first_also_in_lists(esbench_home: Path) -> None:
    for name in ("20261101t000000-aaaa", "20261102t000000-bbbb"):
        keep(esbench_home, golden_race(race_id=name))
    both = ["20261102t000000-bbbb", "20261101t000000-aaaa"]
    assert offered("show", "2") == both
    assert offered("compare", "la") == ["last"]
    assert offered("compare", f"{both[1]},20261102") == [f"{both[1]},{both[0]}"]


def test_a_home_without_races_offers_none(esbench_home: Path) -> None:
    assert offered("show", "2") == []


def test_tracks_and_their_tasks_are_offered() -> None:
    assert offered("race", "--track", "ord") == ["order-analytics", "orders"]
    assert "get-by-id" in offered("race", "--track", "orders", "--include-tasks", "get")
    assert "bulk-load,get-by-id" in offered("race", "--track", "orders", "--include-tasks", "bulk-load,get")
    assert offered("race", "--track", "nothing-like-it", "--include-tasks", "get") == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["completion", shell]) == 0
    assert "_ESBENCH_COMPLETE" in capsys.readouterr().out
