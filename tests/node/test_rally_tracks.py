"""Tracks of a checked-out rally-tracks, unmodified: every challenge on the default node, with synthetic documents.

They are not part of esbench: ESBENCH_TEST_RALLY_TRACKS names the folder that holds them.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from esbench.record.store import RaceStore
from esbench.track.library import list_tracks

FOLDER = Path(os.environ.get("ESBENCH_TEST_RALLY_TRACKS", ""))
RACED = ("metricbeat", "noaa", "percolator", "so", "sql")
RACES = [
    (track.name, challenge)
    for track in (list_tracks(FOLDER).tracks if FOLDER.name else ())
    if track.name in RACED
    for challenge in track.challenges
]
pytestmark = [
    pytest.mark.node,
    pytest.mark.skipif(not RACES, reason="ESBENCH_TEST_RALLY_TRACKS names no folder of these tracks"),
]
FEATURES = ("percolator", "language-analyzers")
# What belongs to x-pack, which the default node has not.
LACKING = {
    ("noaa", "aggs"): r"Unknown aggregation type \[top_metrics\]",
    ("so", "transform"): "has no transforms",
    ("so", "frequent-items"): r"Unknown aggregation type \[frequent_item_sets\]",
    ("sql", "sql"): "has no SQL",
}


@pytest.mark.parametrize(("track", "challenge"), RACES)
def test_nothing_fails_but_what_the_node_lacks(home: Path, url: str, track: str, challenge: str) -> None:
    done = subprocess.run(
        [
            *(str(Path(sys.executable).parent / "esbench"), "race", f"--track-path={FOLDER / track}"),
            *(f"--challenge={challenge}", "--test-mode", "--synthetic-corpus", "--on-error=continue", "--quiet"),
            f"--target-hosts={url.removeprefix('http://')}",
        ],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = RaceStore(home).load("last")
    assert [corpus.documents for corpus in record.corpora] == [1000]
    failures = [kind.example for task in record.tasks for kind in task.error_kinds.values()]
    lacking = LACKING.get((track, challenge))
    assert bool(failures) == bool(lacking)
    assert [example for example in failures if not re.search(str(lacking), example)] == []
    assert any(task.requests + task.warmup.requests for task in record.tasks if task.operation_type == "bulk")
