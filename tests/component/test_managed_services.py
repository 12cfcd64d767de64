"""Own tracks raced on servers in the role of managed services: what these lack costs rows, never the race.

The one that takes least time; `benchmarks/managed_services.py` races all of them.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import NullServerFactory
from managed import SERVICES, raced

from esbench.record.store import RaceStore

TRACKS = ("percolator",)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("track", TRACKS)
def test_own_tracks_are_raced_on_managed_services(
    null_server: NullServerFactory, tmp_path: Path, track: str, service: str
) -> None:
    done = raced(track, service, null_server(SERVICES[service][0]).url, tmp_path)
    assert done.returncode == 0, done.stderr
    record = RaceStore(tmp_path).load("last")
    assert not [task.name for task in record.tasks if task.error_rate_ratio]
    is_serverless = service.endswith("serverless")
    left_out = [warning for warning in record.warnings if warning.startswith("left out")]
    assert bool(left_out) is is_serverless
    kinds = {task.operation_type for task in record.tasks}
    assert is_serverless is not bool(kinds & {"cluster-health", "force-merge"})
