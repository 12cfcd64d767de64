"""Two sets of indices on one real node: races with different prefixes differ in nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from esbench.cluster.client import Cluster
from esbench.comparison.compare import compare
from esbench.comparison.model import Side
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore

pytestmark = pytest.mark.node

ESBENCH = str(Path(sys.executable).parent / "esbench")


def race(home: Path, url: str, prefix: str) -> RaceRecord:
    params = f"--track-params=warmup_time_period:0.2,time_period:0.5,index_prefix:{prefix}"
    hosts = f"--target-hosts={url.removeprefix('http://')}"
    command = [ESBENCH, "race", "--track=orders", "--test-mode", "--quiet", params, hosts]
    subprocess.run(command, timeout=120, check=True)
    return RaceStore(home).load("last")


def test_races_on_two_sets_of_indices_have_no_difference_and_all_rows(home: Path, url: str) -> None:
    ours, theirs = race(home, url, "side1-"), race(home, url, "side2-")
    with Cluster([url]) as cluster:
        assert set(cluster.indices_facts()) == {"side1-orders", "side2-orders"}
    assert [task.params_digest for task in ours.tasks] == [task.params_digest for task in theirs.tasks]
    pair = compare(Side("baseline", (ours,)), [Side("contender", (theirs,))]).pairs[0]
    assert pair.differences == ()
    assert {row.task for row in pair.rows} >= {"bulk-load", "get-by-id", "term-query", "insert", ""}
    assert [warning for record in (ours, theirs) for warning in record.warnings if "indices" in warning] == []
