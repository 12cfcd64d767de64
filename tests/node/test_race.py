"""The orders track on a real node, raced as a user races it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from esbench.features.node.folders import Folders
from esbench.record.model import RaceRecord
from esbench.record.store import RaceFolder, RaceStore

pytestmark = pytest.mark.node

ESBENCH = str(Path(sys.executable).parent / "esbench")
FAST = "documents:2000,warmup_time_period:0.2,time_period:0.5,rates:200"

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def esbench(home: Path) -> Run:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([ESBENCH, *arguments], capture_output=True, text=True, timeout=240, check=False)

    return run


def record_of(home: Path, race: str = "last") -> RaceRecord:
    return RaceStore(home).load(race)


def host(url: str) -> str:
    return url.removeprefix("http://")


def test_with_routing_every_read_finds_its_order(home: Path, esbench: Run, url: str) -> None:
    done = esbench(
        "race", "--track=orders", f"--target-hosts={host(url)}", f"--track-params={FAST},routing:user_id", "--quiet"
    )
    assert done.returncode == 0, done.stderr
    assert sum(task.errors + task.warmup.errors for task in record_of(home).tasks) == 0


def test_what_is_loaded_already_can_be_raced_again(home: Path, esbench: Run, url: str) -> None:
    target = f"--target-hosts={host(url)}"
    race = ("race", "--track=orders", target, f"--track-params={FAST}", "--quiet")
    assert esbench(*race, "--include-tasks=tag:setup,tag:load").returncode == 0
    done = esbench(*race, "--include-tasks=get-by-id,assert-count")
    assert done.returncode == 0, done.stderr
    assert [task.name for task in record_of(home).tasks] == ["get-by-id", "assert-count"]


def test_an_index_that_cannot_be_created_is_one_line(home: Path, esbench: Run, url: str) -> None:
    done = esbench(
        "race", "--track=orders", f"--target-hosts={host(url)}", f"--track-params={FAST},number_of_shards:0", "--quiet"
    )
    assert done.returncode == 1
    assert 'task "create-index"' in done.stderr
    assert "number_of_shards" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert record_of(home).status == "failed"


@pytest.fixture
def racing(home: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[str]]:
    """A race on the embedded node that reads for a minute, and has told of a second of it.

    A test may give it further options.
    """
    options = ["--race-id=long", "--track-params=documents:2000,time_period:60", *getattr(request, "param", ())]
    process = subprocess.Popen(
        [ESBENCH, "race", "--track=orders", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    measured = RaceFolder(home / "races" / "long").seconds_file
    assert process.stdout is not None
    try:
        deadline = time.monotonic() + 240
        while not (measured.exists() and b'"get-by-id"' in measured.read_bytes()):
            assert process.poll() is None, process.stdout.read()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()


def node_pids(home: Path) -> list[int]:
    pids: list[int] = record_of(home, "long").clusters["default"].settings["pids"]
    return pids


def wait_until_gone(pids: list[int], limit_s: float) -> list[int]:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and any(psutil.pid_exists(pid) for pid in pids):
        time.sleep(0.1)
    return [pid for pid in pids if psutil.pid_exists(pid)]


def test_ctrl_c_keeps_what_was_measured_and_ends_the_node(home: Path, racing: subprocess.Popen[str]) -> None:
    pids = node_pids(home)
    os.kill(racing.pid, signal.SIGINT)
    assert racing.wait(20) == 130
    record = record_of(home, "long")
    assert record.status == "cancelled"
    assert record.tasks[-1].name == "get-by-id"
    assert record.tasks[-1].requests + record.tasks[-1].warmup.requests > 0
    assert wait_until_gone(pids, 1) == []


def test_killed_esbench_leaves_neither_node_nor_worker(home: Path, racing: subprocess.Popen[str]) -> None:
    family = [child.pid for child in psutil.Process(racing.pid).children(recursive=True)]
    pids = sorted({*node_pids(home), *family})
    racing.kill()
    racing.wait()
    assert wait_until_gone(pids, 10) == []
    assert record_of(home, "long").status == "running"
    nodes = Folders.of(home).nodes
    assert not (nodes / "long").exists()
    assert (home / "races" / "long" / "logs" / "node-0" / "console.log").is_file()


@pytest.mark.parametrize("racing", [("--telemetry=gc,host,jfr",)], indirect=True, ids=["watched"])
def test_a_race_whose_node_is_killed_ends_and_says_what_could_not_be_seen(
    home: Path, racing: subprocess.Popen[str]
) -> None:
    (pid,) = node_pids(home)
    os.kill(pid, signal.SIGKILL)
    said, _ = racing.communicate(timeout=60)
    assert racing.returncode == 1
    assert "node-0 ended by itself" in said
    record = record_of(home, "long")
    assert record.status == "failed"
    assert "started" in str(record.failure)  # the end of the node's log
    notes = {name: told.get("notes", []) for name, told in record.telemetry.items()}
    assert notes["host"][:1] in ([f"node-0: process no longer exists (pid={pid})"], [])  # none while it is torn down
    assert notes["gc"] == ["node-0 has ended by itself, and its log with it"]
    assert notes["jfr"] == ["node-0 has ended by itself: what it had recorded is in logs/node-0/jfr"]
    assert record.telemetry["gc"]["by_node"]["node-0"]["safepoints"]["count"] > 0
    loaded = next(task for task in record.tasks if task.name == "bulk-load")
    assert {"driver", "gc", "host"} <= set(loaded.telemetry)
    logs = home / "races" / "long" / "logs" / "node-0"
    assert (logs / "gc-esbench.log").stat().st_size > 0
    assert [chunk for chunk in (logs / "jfr").rglob("*.jfr") if chunk.stat().st_size > 0]
