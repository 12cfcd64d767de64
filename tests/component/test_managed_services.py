"""Own tracks raced on servers in the role of managed services: what these lack costs rows, never the race.

The one that takes least time; `benchmarks/managed_services.py` races all of them.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from driver import NullServerFactory
from managed import SERVICES

from esbench.record.store import RaceStore

TRACKS = ("percolator",)


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("track", TRACKS)
def test_own_tracks_are_raced_on_managed_services(
    null_server: NullServerFactory, tmp_path: Path, track: str, service: str
) -> None:
    script, options = SERVICES[service]
    server = null_server(script)
    params = ["--track-params=corpus:generated"] if track == "percolator" else []
    command = [sys.executable, "-m", "esbench.cli.main", "race", f"--track={track}", "--test-mode", *params]
    command += [f"--target-hosts={server.url}", f"--client-options={json.dumps(options)}", "--telemetry=all"]
    done = subprocess.run(
        command,
        env={**os.environ, "ESBENCH_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    record = RaceStore(tmp_path).load("last")
    assert not [task.name for task in record.tasks if task.error_rate_ratio]
    is_serverless = service.endswith("serverless")
    left_out = [warning for warning in record.warnings if warning.startswith("left out")]
    assert bool(left_out) is is_serverless
    kinds = {task.operation_type for task in record.tasks}
    assert is_serverless is not bool(kinds & {"cluster-health", "force-merge"})
