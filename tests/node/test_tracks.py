"""Every bundled track races, each of its challenges, on one default node; that of vectors on the node that has them."""

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
RACES = [
    (track.name, challenge)
    for track in list_tracks().tracks
    for challenge in track.challenges
    if track.name != "vectors"
]


def race(home: Path, track: str, params: str, *options: str) -> RaceRecord:
    done = subprocess.run(
        [ESBENCH, "race", f"--track={track}", "--test-mode", f"--track-params={params}", "--quiet", *options],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return RaceStore(home).load("last")


@pytest.mark.parametrize(("track", "challenge"), RACES)
def test_a_bundled_track_races_without_a_failed_request(home: Path, url: str, track: str, challenge: str) -> None:
    hosts = f"--target-hosts={url.removeprefix('http://')}"
    record = race(home, track, PARAMS.get(track, PERIODS), f"--challenge={challenge}", hosts)
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


@pytest.mark.timeout(300)
def test_the_track_of_vectors_races_on_the_node_that_has_them(home: Path) -> None:
    record = race(home, "vectors", PERIODS)
    assert record.status == "complete"
    assert {task.name: task.error_kinds for task in record.tasks if task.errors + task.warmup.errors} == {}
    assert any("raced on elasticsearch-8" in warning for warning in record.warnings)
    searches = [task for task in record.tasks if task.name.startswith("candidates-")]
    assert searches
    assert all(task.scores for task in searches)
