"""The first commands of a user, on a node of esbench's own: a race, another one, and which is faster."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore

pytestmark = pytest.mark.node

FAST = "documents:2000,warmup_time_period:0.2,time_period:0.5,rates:200"
TASKS = [
    "delete-index",
    "create-index",
    "check-cluster-health",
    "bulk-load",
    "refresh",
    "force-merge",
    "get-by-id",
    "term-query",
    "search-by-routing",
    "insert",
    "read-after-write",
    "get-by-id-at-200-per-s",
    "assert-count",
]


def esbench(*arguments: str) -> str:
    """What a command prints that ends well."""
    command = [str(Path(sys.executable).parent / "esbench"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_complete(home: Path, record: RaceRecord) -> None:
    assert record.status == "complete"
    assert [task.name for task in record.tasks] == TASKS
    assert [task.errors + task.warmup.errors for task in record.tasks] == [0] * len(TASKS)
    facts = record.clusters["default"]
    assert facts.pipeline == "embedded"
    assert facts.indices["orders"]["primary_shards"] == 24
    by_name = {task.name: task for task in record.tasks}
    written = sum(by_name[name].requests + by_name[name].warmup.requests for name in ("insert", "read-after-write"))
    assert facts.indices["orders"]["docs"] == 2000 + written
    assert not any(psutil.pid_exists(pid) for pid in facts.settings["pids"])
    logs = list((home / "races" / record.race_id / "logs").rglob("*.log"))
    assert any(log.stat().st_size for log in logs)


def test_orders_is_raced_twice_and_compared(home: Path) -> None:
    for race in ("first", "second"):
        printed = esbench("race", "--track=orders", f"--track-params={FAST},number_of_shards:24", f"--race-id={race}")
        assert "get-by-id" in printed
        assert "During each task" in printed
        assert_complete(home, RaceStore(home).load(race))
    assert "get-by-id" in esbench("compare", "--baseline=first", "--contender=second")
    compared = json.loads(esbench("compare", "--baseline=first", "--contender=second", "--format=json"))
    assert {row["task"] for row in compared["rows"]} >= {"get-by-id", "term-query", "bulk-load"}
