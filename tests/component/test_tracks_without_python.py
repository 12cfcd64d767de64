"""A track without a Python part costs nothing of what exists for such parts: neither in the race nor in a worker."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from racing import Races

from esbench.null_server import NullServer

REPORT = """
import sys
print(*sorted(name for name in sys.modules if name.startswith("esbench.features.python")))
"""
WORKER = """
import asyncio

import esbench.worker.process
from esbench.cluster.addresses import resolve
from esbench.cluster.dialect import Dialect
from esbench.cluster.options import parse_hosts
from esbench.load.assignment import deal
from esbench.load.hosts import Hosts
from esbench.load.hot import clock_ns
from esbench.measure.slices import WholeTime
from esbench.load.messages import Prepare, Stock, Target
from esbench.model import Index, Operation, Step, Task
from esbench.operations import builtin_operations
from esbench.requests.ledger import Ledger
from esbench.worker.preparation import Preparation


async def run() -> None:
    hosts, options = parse_hosts([{url!r}])
    target = Target(resolve(hosts), options, Dialect("elasticsearch", (7, 17)))
    stock = Stock(indices=(Index("orders"),))
    bind, ended = builtin_operations().bind, asyncio.Event()
    tasks = (
        Task("template", bind(Operation("template", "get", {{"id": "1"}})), iterations=5),
        Task("script", bind(Operation("script", "refresh")), iterations=5),
    )
    shares = deal(Step(tasks), [[0]], stock)[0]
    message = Prepare(0, shares, target, stock, seed=1, race_id="r", abort_on_error=True, ledger=Ledger())
    reached = Hosts(target.hosts, options, lost=print, back=print)
    for share in await Preparation().shares(message, {{"default": reached}}, Ledger()):
        ended.clear()
        share.set_up(WholeTime(clock_ns()), 1, ended.set, print)
        share.begun = True
        share.loop.start(share.recorder.time.begin_ns)
        await asyncio.wait_for(ended.wait(), 60)
        assert share.recorder.begun == 5
        share.close()
    reached.close()


asyncio.run(run())
"""
RACE = """
import sys
from esbench.cli.main import main

sys.argv = ["esbench", "race", "--track-path={track}", "--target-hosts={url}", "--include-tasks=closed"]
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
"""
PLUGIN = "def register(registry): ...\n"


def loaded(code: str, home: Path) -> list[str]:
    """The modules of features.python that a fresh process has loaded after this code."""
    done = subprocess.run(
        [sys.executable, "-c", code + REPORT],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "ESBENCH_HOME": str(home)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1].split()


def test_a_worker_runs_tasks_without_python(server: NullServer, tmp_path: Path) -> None:
    assert loaded(WORKER.format(url=server.url), tmp_path) == []


@pytest.mark.parametrize("has_code", [False, True])
def test_a_race_loads_what_its_track_needs(has_code: bool, server: NullServer, tmp_path: Path) -> None:
    races = Races(tmp_path)
    if has_code:
        (races.track / "track.py").write_text(PLUGIN)
    found = loaded(RACE.format(track=races.track, url=server.url), races.home)
    assert ("esbench.features.python.loading" in found) == bool(found) == has_code
