"""A cluster that does not let itself be watched: refusals, proxies, a hang. No device breaks a race or holds it up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from driver import NullServerFactory
from racing import Races

# Everything that is asked beside the load, but who the cluster is and whether it can be raced.
WATCHING = (
    r"/_nodes/stats|/_nodes/hot_threads|/_stats|/_segments|/_recovery|/_cluster/settings|/_data_stream|/_ingest|/_ml"
)
REFUSALS = [
    {"status": 403, "body": {"error": {"type": "security_exception", "reason": "action is unauthorized"}}},
    {"status": 200, "body": "<html><body>Please log in</body></html>"},
]


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    found = Races(tmp_path)
    yield found
    found.end()


@pytest.mark.parametrize("reply", REFUSALS, ids=["forbidden", "a page"])
def test_a_cluster_that_tells_nothing_is_raced_all_the_same(
    null_server: NullServerFactory, races: Races, reply: dict[str, Any]
) -> None:
    server = null_server({"rules": [{"path": WATCHING, "reply": reply}]})
    outcome = races.run(server, "--telemetry=all", "--include-tasks=create-index,closed,paced", "--quiet")
    assert (outcome.code, outcome.stderr) == (0, "")
    record = races.record()
    assert record.status == "complete"
    assert all(task.errors == 0 for task in record.tasks)
    assert len(record.warnings) == len(set(record.warnings))
    for missing in ("no index statistics", "no statistics of the nodes", "no cluster settings", "no places of shards"):
        assert len([warning for warning in record.warnings if missing in warning]) == 1
    (nodes,) = [told for name, told in record.telemetry.items() if name in {"nodes", "node-stats"}]
    assert nodes["failed"] > 0
    assert nodes["notes"]


def test_nodes_that_answer_late_are_missed_and_hold_up_nothing(null_server: NullServerFactory, races: Races) -> None:
    slow = {"path": "/_nodes/stats", "delay": {"type": "constant", "ms": 10_000}}
    server = null_server({"rules": [slow]})
    outcome = races.run(server, "--telemetry=node-stats", "--include-tasks=closed,paced", "--quiet")
    assert (outcome.code, outcome.stderr) == (0, "")
    record = races.record()
    assert record.status == "complete"
    assert record.telemetry["node-stats"]["samples"] == 0
    assert record.telemetry["node-stats"]["missed"] > 0
    assert all("no answer within" in warning or "did not end in time" in warning for warning in record.warnings)
    last = record.tasks[-1]
    assert last.begun_s is not None
    assert record.finished_at is not None
    begun, finished = datetime.fromisoformat(record.started_at), datetime.fromisoformat(record.finished_at)
    assert 0 < (finished - begun).total_seconds() - (last.begun_s + last.duration_s) < 5
