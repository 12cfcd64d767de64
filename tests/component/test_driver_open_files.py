"""Races of more clients than a process may open files."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

from esbench.null_server import NullServer

Run = Callable[[int, int, int], list[str]]


@pytest.fixture
def run(tmp_path: Path, null_server: NullServerFactory) -> Run:
    """`run(soft, hard, clients)`: a step under these limits; requests and failures, or the error, and lost hosts."""
    url = null_server().url

    def run(soft: int, hard: int, clients: int) -> list[str]:
        program = f"""
import json, resource, sys
from pathlib import Path
resource.setrlimit(resource.RLIMIT_NOFILE, ({soft}, {hard}))
sys.path.insert(0, {str(Path(__file__).parents[1] / "helpers")!r})
from driver import Driver, get
from esbench.errors import EsbenchError
with Driver(Path({str(tmp_path)!r})) as driver:
    try:
        result = driver.run({url!r}, get(clients={clients}, iterations=1))
        found = f"{{result.requests}} requests, {{result.errors}} errors"
    except EsbenchError as error:
        found = str(error)
print(json.dumps([found, *(event.host for event in driver.events)]))
"""
        done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True, timeout=60)
        return list(json.loads(done.stdout))

    return run


def test_a_worker_raises_its_soft_limit(run: Run) -> None:
    assert run(100, 1000, 300) == ["300 requests, 0 errors"]


def test_a_limit_that_is_reached_is_no_loss_of_a_host(run: Run) -> None:
    (error,) = run(100, 100, 300)
    assert error.startswith("a load worker cannot open another connection: its limit is 100 open files (raise it")


STREAMS = """{operation-type: composite, requests: [
        {stream: [{operation-type: get, id: "1"}]}, {stream: [{operation-type: get, id: "2"}]}]}"""


@pytest.mark.parametrize(("clients", "operation"), [(400, "read"), (200, STREAMS)])
def test_a_race_whose_clients_need_more_does_not_begin(
    null_servers: NullServerFactory, tmp_path: Path, clients: int, operation: str
) -> None:
    races = Races(tmp_path)
    track = races.track / "track.yml"
    paced = "{name: paced, operation: read, clients: 4,"
    track.write_text(track.read_text().replace(paced, f"{{name: paced, operation: {operation}, clients: {clients},", 1))
    server: NullServer = null_servers()
    outcome = races.run(server, "--workers=1", prefix=["sh", "-c", 'ulimit -n 300; exec "$@"', "-"])
    assert outcome.code == 1
    assert outcome.error == (
        f'esbench: task "paced": {clients} clients of a load worker need 460 open files, '
        "the limit is 300 (ulimit -n 512)"
    )
    assert server.counts().documents == 0
