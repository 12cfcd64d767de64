"""A Dask cluster that runs already: a real scheduler and two workers with TLS, as `dask scheduler` starts them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from driver import NullServerFactory
from races import task_of
from racing import Races, press_ctrl_c, wait_until

from esbench.features.hosts.certificate import Authority
from esbench.null_server import NullServer

pytest.importorskip("distributed")


class DaskCluster:
    """A scheduler and its workers, each with an ESBENCH_HOME of its own. All end with the cluster."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        paths = Authority().identity("cluster").write(folder)
        tls = "DASK_DISTRIBUTED__COMM__TLS__"
        self.environment = {f"{tls}CA_FILE": paths["authority"], "DASK_DISTRIBUTED__COMM__REQUIRE_ENCRYPTION": "true"}
        for role in ("SCHEDULER", "WORKER", "CLIENT"):
            self.environment[f"{tls}{role}__CERT"] = paths["certificate"]
            self.environment[f"{tls}{role}__KEY"] = paths["key"]
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        file = folder / "scheduler.json"
        common = ["--no-dashboard", "--dashboard-address=127.0.0.1:0"]
        self._start("scheduler", "--protocol=tls", "--host=127.0.0.1", "--port=0", f"--scheduler-file={file}", *common)
        _wait_for(lambda: file.exists() and file.read_text().endswith("}"))
        for number in (1, 2):  # as two hosts: the loopback network has many addresses
            home = folder / f"host-{number}"
            self._start(
                "worker",
                *(f"--scheduler-file={file}", "--nthreads=1", "--no-nanny", "--memory-limit=0", *common),
                *(f"--host=127.0.0.{number + 10}", f"--local-directory={home}"),
                ESBENCH_HOME=str(home / "home"),
            )
        _wait_for(lambda: (folder / "log").read_text().count("Registered to:") == 2)
        self.address = json.loads(file.read_text())["address"]

    def _start(self, *words: str, **environment: str) -> None:
        with (self._folder / "log").open("ab") as log:
            self._processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", "dask", *words],
                    env={**os.environ, **self.environment, **environment},
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def load_workers(self) -> list[psutil.Process]:
        """The load workers that its workers have started."""
        parents = [psutil.Process(process.pid) for process in self._processes if process.poll() is None]
        return [child for parent in parents for child in parent.children() if child.status() != psutil.STATUS_ZOMBIE]

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def _wait_for(condition: Callable[[], bool], within_s: float = 60) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s, "the cluster did not start"
        time.sleep(0.1)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DaskCluster]:
    cluster = DaskCluster(tmp_path_factory.mktemp("dask") / "cluster")
    yield cluster
    cluster.end()


@pytest.fixture
def trusted(cluster: DaskCluster, monkeypatch: pytest.MonkeyPatch) -> DaskCluster:
    """The cluster, whose certificates Dask's configuration names here."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return cluster


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    races = Races(tmp_path / "races")
    yield races
    races.end()


def endless(races: Races, server: NullServer, cluster: DaskCluster) -> subprocess.Popen[str]:
    """A race that runs on the cluster until somebody ends it."""
    process = races.start(server, f"--load-cluster={cluster.address}", "--challenge=endless", "--race-id=one")
    seconds = races.home / "races" / "one" / "seconds.jsonl"
    wait_until(lambda: seconds.exists() and '"paced"' in seconds.read_text(), process)
    return process


def test_its_workers_are_load_hosts(trusted: DaskCluster, races: Races, null_server: NullServerFactory) -> None:
    for race in ("one", "two"):  # a cluster serves one race after another
        outcome = races.run(null_server(), f"--load-cluster={trusted.address}", f"--race-id={race}")
        assert outcome.code == 0, outcome.stderr
        paced = task_of(races.record(race), "paced")
        assert {share.host for share in paced.host_shares} == {"127.0.0.11", "127.0.0.12"}
        assert sum(share.requests for share in paced.host_shares) == paced.requests
    assert trusted.load_workers() == []


def test_its_load_workers_end_when_the_race_is_killed(
    trusted: DaskCluster, races: Races, null_server: NullServerFactory
) -> None:
    process = endless(races, null_server(), trusted)
    process.kill()
    process.communicate()
    deadline_s = time.monotonic() + 10
    while left := trusted.load_workers():
        assert time.monotonic() < deadline_s, left
        time.sleep(0.1)


def test_without_its_certificate_there_is_no_race(
    cluster: DaskCluster, races: Races, null_server: NullServerFactory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other").mkdir()
    paths = Authority().identity("stranger").write(tmp_path / "other")
    for name in cluster.environment:
        kind = "authority" if "CA_FILE" in name else "certificate" if name.endswith("CERT") else "key"
        monkeypatch.setenv(name, "true" if name.endswith("ENCRYPTION") else paths[kind])
    outcome = races.run(null_server(), f"--load-cluster={cluster.address}")
    assert outcome.code == 1
    assert "no connection to the scheduler" in outcome.error


def test_a_scheduler_that_is_not_there_is_one_line(
    trusted: DaskCluster, races: Races, null_server: NullServerFactory
) -> None:
    outcome = races.run(null_server(), "--load-cluster=tls://127.0.0.1:9")
    assert (outcome.code, outcome.seconds < 15) == (1, True)
    assert "--load-cluster=tls://127.0.0.1:9: no connection to the scheduler" in outcome.error


def test_ctrl_c_leaves_the_cluster_as_it_was(
    trusted: DaskCluster, races: Races, null_server: NullServerFactory
) -> None:
    process = endless(races, null_server(), trusted)
    press_ctrl_c(process)
    assert races.finish(process).code == 130
    assert trusted.load_workers() == []
