"""The guard with processes that are no servers: whatever ends the asking process ends the node's group."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from guarded import NODE, STUBBORN, is_alive, pids_in, plan_of, start_guard, wait_for

from esbench.features.node.java import Java
from esbench.features.node.node import Node, free_ports
from esbench.features.node.server import NodePlan, Server


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "nodes" / "race" / "node-0"


def test_the_end_of_its_input_ends_the_group_and_saves_the_logs(folder: Path, tmp_path: Path) -> None:
    guard = start_guard(plan_of(folder, NODE, tmp_path / "saved"))
    pids = pids_in(folder)
    told, _ = guard.communicate(timeout=60)
    assert json.loads(told) == {"pid": pids[0]}
    assert guard.returncode == 0
    assert not [pid for pid in pids if is_alive(pid)]
    assert not folder.parent.exists()
    assert (tmp_path / "saved" / "console.log").read_text() == "hello\n"


def test_a_node_that_ignores_sigterm_is_killed(folder: Path, tmp_path: Path) -> None:
    guard = start_guard(plan_of(folder, STUBBORN, tmp_path / "saved", grace_s=0.3))
    pids = pids_in(folder)
    guard.communicate(timeout=60)
    assert not [pid for pid in pids if is_alive(pid)]


def test_sigkill_of_the_asking_process_ends_the_group(folder: Path, tmp_path: Path) -> None:
    asking = (
        "import json, subprocess, sys, time\n"
        "guard = subprocess.Popen([sys.executable, '-m', 'esbench.features.node.guard'], stdin=subprocess.PIPE)\n"
        f"guard.stdin.write(json.dumps({plan_of(folder, NODE, tmp_path / 'saved')!r}).encode() + b'\\n')\n"
        "guard.stdin.flush()\n"
        "time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", asking], stdout=subprocess.DEVNULL)
    pids = pids_in(folder)
    process.send_signal(signal.SIGKILL)
    process.wait(10)
    wait_for(lambda: not [pid for pid in pids if is_alive(pid)])
    wait_for(lambda: not folder.parent.exists())
    assert (tmp_path / "saved" / "console.log").read_text() == "hello\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_guard_itself_is_not_ended_by_a_stray_signal(folder: Path, tmp_path: Path, number: int) -> None:
    guard = start_guard(plan_of(folder, NODE, tmp_path / "saved"))
    pids = pids_in(folder)
    guard.send_signal(number)
    time.sleep(0.2)
    assert guard.poll() is None
    assert all(is_alive(pid) for pid in pids)
    guard.communicate(timeout=60)
    assert not [pid for pid in pids if is_alive(pid)]


def test_a_released_node_lives_on_and_its_folder_goes_when_somebody_ends_it(folder: Path, tmp_path: Path) -> None:
    guard = start_guard(plan_of(folder, NODE, tmp_path / "saved"))
    pids = pids_in(folder)
    try:
        guard.communicate(b"release\n", timeout=60)  # to the end of its output: nothing holds the pipe
        assert guard.returncode == 0
        assert all(is_alive(pid) for pid in pids)
        assert folder.exists()
    finally:
        os.killpg(pids[0], signal.SIGKILL)
    wait_for(lambda: not folder.parent.exists())
    assert (tmp_path / "saved" / "console.log").read_text() == "hello\n"


def test_the_logs_of_a_race_that_was_deleted_are_not_saved(folder: Path, tmp_path: Path) -> None:
    guard = start_guard(plan_of(folder, NODE, tmp_path / "race" / "logs" / "node-0"))
    pids_in(folder)
    guard.communicate(timeout=60)
    assert not folder.exists()
    assert not (tmp_path / "race").exists()


def test_the_end_of_the_node_is_told(folder: Path, tmp_path: Path) -> None:
    guard = start_guard(plan_of(folder, "raise SystemExit(78)", tmp_path / "saved"))
    assert guard.stdout is not None
    assert "pid" in json.loads(guard.stdout.readline())
    assert json.loads(guard.stdout.readline()) == {"exit": 78}
    assert folder.exists()  # until the asking process has read the log
    guard.communicate(timeout=60)
    assert not folder.exists()


def test_a_command_that_cannot_run_is_told(folder: Path, tmp_path: Path) -> None:
    plan = plan_of(folder, "", tmp_path / "saved")
    guard = start_guard({**plan, "command": [str(tmp_path / "absent")]})
    told, _ = guard.communicate(timeout=60)
    assert "No such file" in json.loads(told)["error"]
    assert not folder.exists()


@pytest.fixture
def node(folder: Path, tmp_path: Path) -> Node:
    """A node whose server is a script that sleeps."""
    home = tmp_path / "server"
    for part in ("bin", "config"):
        (home / part).mkdir(parents=True)
    script = home / "bin" / "elasticsearch"
    script.write_text(f"#!{sys.executable}\nimport os\nos.chdir(os.environ['HOME'])\n{NODE}")
    script.chmod(0o755)
    (home / "config" / "jvm.options").write_text("-Xms1g\n")
    server = Server(home, "elasticsearch", "7.10.2", frozenset(), frozenset())
    java = Java(tmp_path, "17.0.1", "PATH")
    made = Node(
        NodePlan("node-0", *free_ports(2), folder), server, java, None, tmp_path / "saved", tmp_path / "kept.json"
    )
    made.prepare({"http.port": 1, "zone_secret": "hush-hush"}, 64 << 20)
    made.launch(os.environ["PATH"])
    return made


def test_a_node_whose_guard_was_killed_is_ended_all_the_same(node: Node, folder: Path) -> None:
    pids = pids_in(folder)
    assert node.pid == pids[0]
    assert node.ended() is None
    guard = int(Path(f"/proc/{node.pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    os.kill(guard, signal.SIGKILL)
    wait_for(node.ended)
    assert node.ended() == "its guard was killed"
    assert ["without saving its logs" in problem for problem in node.finish_stop()] == [True]
    wait_for(lambda: not [pid for pid in pids if is_alive(pid)])
    assert not folder.exists()


def test_nobody_else_enters_the_folder_of_a_node(node: Node, folder: Path) -> None:
    assert folder.stat().st_mode & 0o777 == 0o700
    assert node.finish_stop() == []


def test_the_end_of_a_log_hides_the_secrets_among_the_settings(node: Node, folder: Path) -> None:
    with (folder / "logs" / "console.log").open("a") as log:
        log.write("elected [node-0]{zone_secret=hush-hush}\n")
    assert "{zone_secret=<hidden>}" in node.log_tail()
    assert node.finish_stop() == []


def test_stopping_a_node_twice_does_nothing_more(node: Node, folder: Path, tmp_path: Path) -> None:
    pids = pids_in(folder)
    assert (folder / "config" / "elasticsearch.yml").read_text() == "http.port: 1\nzone_secret: hush-hush\n"
    assert "hello" in node.log_tail()
    assert node.finish_stop() == []
    assert not [pid for pid in pids if is_alive(pid)]
    assert (tmp_path / "saved" / "console.log").is_file()
    assert node.finish_stop() == []


def test_ports_that_are_taken_are_not_offered() -> None:
    (port,) = free_ports(1)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        offered = free_ports(10_000)  # of 12,000
    assert port not in offered
    assert len({*offered}) == 10_000
