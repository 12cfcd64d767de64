"""`esbench duel` on a real node, as a user runs it: rounds in turns, each with its own index, then compared."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from esbench.record.sessions import SessionStore
from esbench.record.store import RaceStore

pytestmark = pytest.mark.node

ESBENCH = str(Path(sys.executable).parent / "esbench")
SHARDS = {"baseline": 1, "contender": 3}
TASKS = ["delete-index", "create-index", "bulk-load", "get-by-id", "assert-count"]


def esbench(*arguments: str) -> str:
    """What a command that succeeds prints."""
    done = subprocess.run([ESBENCH, *arguments], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_two_sides_are_raced_in_turns_on_fresh_indices_and_compared(home: Path, url: str, tmp_path: Path) -> None:
    page = tmp_path / "duel.html"
    printed = esbench(
        *(
            "duel",
            "--turns",
            "--track=orders",
            f"--target-hosts={url.removeprefix('http://')}",
            "--test-mode",
            "--rounds=2",
        ),
        *("--track-params=warmup_time_period:0.2,time_period:0.5", f"--include-tasks={','.join(TASKS)}"),
        *("--baseline", "track-params=number_of_shards:1", "--contender", "track-params=number_of_shards:3"),
        f"--html={page}",
    )
    session = SessionStore(home).load("last")
    assert session.left == ()
    first, second = (race.side for race in session.plan[:2])
    assert [race.side for race in session.plan] == [first, second, second, first]

    records = [RaceStore(home).load(str(race.race_id)) for race in session.plan]
    assert [record.session for record in records] == [session.place(race) for race in session.plan]
    listed = json.loads(esbench("list", "races", "--format=json"))  # the newest first
    assert [row["race_id"] for row in listed] == [record.race_id for record in reversed(records)]
    for race, record in zip(session.plan, records, strict=True):
        assert record.status == "complete"
        assert [task.name for task in record.tasks] == TASKS
        assert [task.name for task in record.tasks if task.errors] == []  # create-index fails where there is one
        index = record.clusters["default"].indices["orders"]
        assert (index["primary_shards"], index["docs"]) == (SHARDS[race.side], 1000)

    assert "number_of_shards" in printed
    assert "Verdict" in printed
    assert printed.startswith("number_of_shards:1 -> number_of_shards:3: ")
    assert re.search(r"^\w[\w ]+ +get-by-id +ops/s ", printed, re.MULTILINE)
    html = page.read_text()
    assert all(word in html for word in ("number_of_shards", "get-by-id", "Verdict", "<figure"))
    assert re.findall(r"<(?:link|iframe|img)\b|<script[^>]+src=|@import|url\(http", html.split("<script", 1)[0]) == []
    assert re.findall(r"<script[^>]+src=|<link\b[^>]+href=", html) == []

    baseline, contender = records[:2]
    of_two = esbench("compare", f"--baseline={baseline.race_id}", f"--contender={contender.race_id}", "--all")
    assert "number_of_shards" in of_two
    assert re.search(r"^Mean throughput +get-by-id .* ops/s", of_two, re.MULTILINE)


def test_two_sets_of_indices_are_raced_at_once_on_one_node(home: Path, url: str) -> None:
    printed = esbench(
        *("duel", "--track=orders", f"--target-hosts={url.removeprefix('http://')}", "--test-mode", "--rounds=2"),
        *("--task-time=8s", f"--include-tasks={','.join(TASKS)}"),
        *("--baseline", "track-params=number_of_shards:1", "--contender", "track-params=number_of_shards:3"),
    )
    assert ", both sides at once" in printed
    session = SessionStore(home).load("last")
    assert session.left == ()
    assert [race.round for race in session.plan] == [1, 1, 2, 2]
    for race in session.plan:
        record = RaceStore(home).load(str(race.race_id))
        assert record.status == "complete"
        assert [task.name for task in record.tasks if task.errors] == []
        (name,) = record.clusters["default"].indices
        assert name == f"side{1 + ['baseline', 'contender'].index(race.side)}-orders"
        read = next(task for task in record.tasks if task.name == "get-by-id")
        assert read.slices is not None
        assert (read.window.end_s, read.slices.sides, read.slices.settle_s) == (4, 2, 0.1)
        assert read.throughput.mean is not None and read.throughput.mean > 0
