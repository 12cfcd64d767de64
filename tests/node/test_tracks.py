"""Every bundled track races, each of its challenges, on one default node."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore
from esbench.track.library import list_tracks

pytestmark = pytest.mark.node
FEATURES = ("percolator", "language-analyzers")  # of the node that all races share

ESBENCH = str(Path(sys.executable).parent / "esbench")
PERIODS = "warmup_time_period:0.2,time_period:0.5"  # shorter still than those of test mode
PARAMS = {
    "keyword": f"{PERIODS},rates:200/400",
    "percolator": "corpus:generated",
}
RACES = [(track.name, challenge) for track in list_tracks().tracks for challenge in track.challenges]


def race(home: Path, url: str, track: str, challenge: str, params: str) -> RaceRecord:
    command = [ESBENCH, "race", f"--track={track}", f"--challenge={challenge}", "--test-mode"]
    done = subprocess.run(
        [*command, f"--track-params={params}", f"--target-hosts={url.removeprefix('http://')}", "--quiet"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return RaceStore(home).load("last")


@pytest.mark.parametrize(("track", "challenge"), RACES)
def test_a_bundled_track_races_without_a_failed_request(home: Path, url: str, track: str, challenge: str) -> None:
    record = race(home, url, track, challenge, PARAMS.get(track, PERIODS))
    assert record.status == "complete"
    failed = {task.name: task.error_kinds for task in record.tasks if task.errors + task.warmup.errors}
    assert failed == {}
    assert all(task.requests + task.warmup.requests for task in record.tasks)
    assert record.clusters["default"].statistics
    assert [corpus.synthetic for corpus in record.corpora] == [track == "percolator"]
    if challenge == "read-after-write":
        (task,) = (task for task in record.tasks if task.operation_type == "read-after-write")
        assert {row.name for row in task.requests_by_name} == {"write", "read"}
        assert task.telemetry["cluster"]["indexing_time_ms"] > 0
