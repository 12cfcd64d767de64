"""Kept nodes that are no servers: listed, ended, cleaned up; a process that only has the pid of one is left alone."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from guarded import STUBBORN, Keep, is_alive, keeping, wait_for

from esbench.cli.main import run
from esbench.errors import EngineError, UsageError
from esbench.features.node.kept import KeptNode, KeptNodes
from esbench.record.locks import RaceLock

RACE, ONE, TWO = (f"{name}-{os.getpid()}" for name in ("race", "one", "two"))  # as root, all homes share a folder


@pytest.fixture
def kept(esbench_home: Path) -> KeptNodes:
    return KeptNodes(esbench_home)


@pytest.fixture
def keep_node(esbench_home: Path) -> Iterator[Keep]:
    with keeping(esbench_home) as start:
        yield start


def kill_guard(node: KeptNode) -> None:
    for process in psutil.process_iter(["cmdline"]):
        if "esbench.features.node.guard" in (process.info["cmdline"] or ()) and holds(process, node):
            process.kill()
            wait_for(lambda pid=process.pid: not is_alive(pid))
            return
    raise AssertionError("there is no guard")


def holds(guard: psutil.Process, node: KeptNode) -> bool:
    return any(file.path.endswith(f"/{node.race_id}.{node.name}.json") for file in guard.open_files())


def is_gone(node: KeptNode, kept: KeptNodes) -> bool:
    """True if nothing is left of a node but its logs."""
    pids = [pid for pid in node.processes if is_alive(pid)]
    left = [path for path in (kept.folder(node).parent, kept.file(node.race_id, node.name)) if path.exists()]
    return not pids and not left and (kept.logs(node) / "console.log").read_text() == "hello\n"


def test_a_kept_node_is_listed_until_it_is_stopped(
    keep_node: Keep, kept: KeptNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    node = keep_node(RACE)
    assert run(["list", "nodes", "--format=json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["race_id"], row["node"], row["status"], row["address"]) == (RACE, "node-0", "running", node.url)
    assert (row["pids"], row["heap_bytes"], row["folder"]) == (list(node.processes), 512 << 20, str(kept.folder(node)))
    assert row["size_bytes"] > 0
    assert run(["stop", RACE]) == 0
    assert f"node-0 of race {RACE} has ended; its logs are in" in capsys.readouterr().out
    assert is_gone(node, kept)
    assert run(["list", "nodes"]) == 0
    assert "no node is kept" in capsys.readouterr().err


def test_a_node_that_ignores_sigterm_is_killed(keep_node: Keep, kept: KeptNodes) -> None:
    node = keep_node(RACE, code=STUBBORN)
    kept.end(node, grace_s=0.2)
    assert is_gone(node, kept)


def test_all_nodes_are_stopped_and_one_of_a_race(keep_node: Keep, kept: KeptNodes) -> None:
    nodes = [keep_node(ONE), keep_node(TWO, "node-0", minute=1), keep_node(TWO, "node-1", minute=1)]
    assert run(["stop", f"{TWO}/node-1"]) == 0
    assert [(node.race_id, node.name) for node in kept.all()] == [(ONE, "node-0"), (TWO, "node-0")]
    assert run(["stop", "--all"]) == 0
    assert kept.all() == []
    assert all(is_gone(node, kept) for node in nodes)


def test_a_node_that_is_being_raced_is_not_stopped(
    keep_node: Keep, esbench_home: Path, kept: KeptNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    raced, other = keep_node(ONE), keep_node(TWO, minute=1)
    with RaceLock(esbench_home, ONE):
        assert run(["stop", "--all"]) == 1
    assert f"node-0 of race {ONE} is being raced (end the race first)" in capsys.readouterr().err
    assert raced.is_running
    assert is_gone(other, kept)


def test_a_node_whose_guard_was_killed_is_ended_and_cleaned_up(keep_node: Keep, kept: KeptNodes) -> None:
    node = keep_node(RACE)
    kill_guard(node)
    assert run(["stop", "last"]) == 0
    assert is_gone(node, kept)


def test_a_node_that_is_gone_with_its_guard_is_listed_once_and_cleaned_up(
    keep_node: Keep, kept: KeptNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    node = keep_node(RACE)
    kill_guard(node)
    os.killpg(node.group, signal.SIGKILL)
    wait_for(lambda: not node.is_running)
    assert run(["list", "nodes", "--format=csv"]) == 0
    out, err = capsys.readouterr()
    assert out.splitlines()[1].startswith(f"{RACE},node-0,gone,")
    assert f"node-0 of race {RACE} had ended" in err
    assert is_gone(node, kept)


def test_another_process_that_has_got_the_pid_is_left_alone(keep_node: Keep, kept: KeptNodes) -> None:
    node = keep_node(RACE)
    kill_guard(node)
    os.killpg(node.group, signal.SIGKILL)
    other = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    reused = replace(node, group=other.pid, processes={other.pid: node.processes[node.group]})
    kept.add(reused)
    assert not reused.is_running
    kept.end(reused)
    assert other.poll() is None
    other.kill()
    other.wait()
    assert kept.all() == []


def test_the_node_of_another_user_is_not_touched(
    keep_node: Keep, kept: KeptNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    node = keep_node(RACE)
    theirs = replace(node, user=os.geteuid() + 1)
    kept.add(theirs)
    with pytest.raises(EngineError, match="belongs to another user"):
        kept.end(theirs)
    assert node.is_running
    os.killpg(node.group, signal.SIGKILL)
    wait_for(lambda: not node.is_running)
    kept.add(theirs)
    assert not kept.clean_up(theirs)


def test_names_of_nodes(esbench_home: Path, kept: KeptNodes) -> None:
    model = KeptNode("x", "node-0", "e-1", "http://127.0.0.1:1", 1, "", os.geteuid(), 1, {1: "then"})
    assert kept.all() == []
    for minute, (race_id, name) in enumerate((("aa1", "node-0"), ("ab1", "node-0"), ("ab1", "node-1"))):
        kept.add(replace(model, race_id=race_id, name=name, kept_at=f"2026-11-21T10:0{minute}:00.000Z"))

    def named(text: str) -> list[tuple[str, str]]:
        return [(node.race_id, node.name) for node in kept.named(text)]

    assert named("aa1") == named("AA") == [("aa1", "node-0")]
    assert named("ab1") == named("last") == [("ab1", "node-0"), ("ab1", "node-1")]
    assert named("ab/node-1") == [("ab1", "node-1")]
    for text, message in (
        ("a", "the beginning of 2 races"),
        ("", "there is no kept node"),
        ("ab1/", "no kept node"),
        ("ab2", 'did you mean "ab1"'),
        ("aa1/node-1", "there is no kept node"),
    ):
        with pytest.raises(UsageError, match=message):
            kept.named(text)
    kept.file("aa1", "node-0").write_text("{}")
    with pytest.raises(EngineError, match=r"aa1\.node-0\.json: is not the file of a kept node \(remove it\)"):
        kept.all()


def test_no_file_of_a_node_names_what_is_removed_or_written(
    esbench_home: Path, kept: KeptNodes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    precious, written = tmp_path / "precious", tmp_path / "written"
    (precious / "logs").mkdir(parents=True)
    (precious / "logs" / "authorized_keys").touch()
    node = KeptNode(RACE, "node-0", "e-1", "http://127.0.0.1:1", 1, "", os.geteuid(), 1, {1: "then"})
    kept.add(node)
    file = kept.file(RACE, "node-0")
    file.write_text(json.dumps({**json.loads(file.read_text()), "folder": str(precious), "logs": str(written)}))
    assert run(["list", "nodes"]) == 0
    assert "had ended" in capsys.readouterr().err
    assert (precious / "logs" / "authorized_keys").exists()
    assert not written.exists()


@pytest.mark.parametrize(
    "change",
    [
        {"name": "../../precious"},
        {"name": "node-1"},
        {"name": ""},
        {"race_id": ".."},
        {"race_id": "../x"},
        {"race_id": "another"},
        {"group": 2},
        {"group": "1"},
        {"processes": {"1": 2}},
        {"user": None},
        {"heap_bytes": "1"},
    ],
    ids=str,
)
def test_a_file_that_is_of_no_node_of_its_name_is_one_line(
    change: dict[str, object], kept: KeptNodes, capsys: pytest.CaptureFixture[str]
) -> None:
    kept.add(KeptNode(RACE, "node-0", "e-1", "http://127.0.0.1:1", 1, "", os.geteuid(), 1, {1: "then"}))
    file = kept.file(RACE, "node-0")
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    assert run(["list", "nodes"]) == 1
    assert capsys.readouterr().err.startswith(f"esbench: {file}: is ")
    assert file.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which node? (esbench stop RACE, or --all; esbench list nodes shows them)"),
        (["a", "--all"], "--all names all of them"),
        (["a"], 'there is no kept node "a" (none is kept)'),
        (["last"], 'there is no kept node "last" (none is kept)'),
    ],
)
def test_wrong_usage_of_stop_is_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["stop", *arguments]) == 2
    assert message in capsys.readouterr().err
