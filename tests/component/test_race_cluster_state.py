"""What a race says of the cluster around it: before, after, and of others who used it meanwhile."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from racing import Races

from esbench.cluster.client import Cluster
from esbench.events.progress import Progress
from esbench.features.devices.slowlog import Slowlog
from esbench.features.node.embedded import EmbeddedEngine
from esbench.race.hook import Pace, SideHook
from esbench.race.node_options import Endpoint
from esbench.race.options import RaceOptions
from esbench.race.race import run
from esbench.telemetry import Chosen, cluster_state


@pytest.fixture
def races(tmp_path: Path) -> Iterator[Races]:
    found = Races(tmp_path)
    yield found
    found.end()


@pytest.fixture
def others() -> Iterator[threading.Event]:
    """Set when the others are to stop."""
    stop = threading.Event()
    yield stop
    stop.set()


def test_others_who_use_the_cluster_are_told_of_before_and_after(
    null_server: NullServerFactory, races: Races, others: threading.Event
) -> None:
    server = null_server({"version": "7.10.2"})

    def write() -> None:
        with Cluster([server.url]) as cluster:
            while not others.wait(0.0005):  # ten of them at least, while the track is read
                cluster.request("POST", "/carts/_doc", body={"n": 1})

    thread = threading.Thread(target=write)
    thread.start()
    outcome = races.run(server, "--include-tasks=create-index,closed,paced")
    others.set()
    thread.join()
    assert outcome.code == 0
    for who in ("something else used the cluster before", "indices that are not the track's were used during"):
        (warning,) = [text for text in races.record().warnings if text.startswith(f"{who} the race, within ")]
        assert warning.endswith("documents written (carts)")
    assert "warning: something else used the cluster before the race" in outcome.stderr
    facts = races.record().clusters["default"]
    assert (facts.health["before"]["status"], facts.health["after"]["active_shards"]) == ("green", 4)
    assert facts.shards_by_node["null"]["shards"] == 3


@pytest.mark.parametrize("version", ["5.6.16", "opensearch-2.19.6"])
def test_an_idle_cluster_disturbs_nobody(null_server: NullServerFactory, races: Races, version: str) -> None:
    server = null_server({"version": version})
    assert races.run(server, "--include-tasks=create-index,closed", "--quiet").code == 0
    assert races.record().warnings == ()


def test_secrets_in_the_clusters_settings_do_not_reach_the_record(null_server: NullServerFactory) -> None:
    proxy = {"cluster": {"remote": {"far": {"proxy_address": "https://user:hidden1@far:9300"}}}}
    persistent = {"xpack": {"notification": {"smtp": {"password": "hidden2"}}}, **proxy}
    settings = {"persistent": persistent, "transient": {}}
    server = null_server({"rules": [{"path": "_cluster/settings", "merge": settings}]})
    with Cluster([server.url]) as cluster:
        found = cluster_state.before(cluster)
    assert found.notes == ()
    assert "hidden1" not in str(found.settings)
    assert "hidden2" not in str(found.settings)
    assert "smtp" in found.settings["persistent"]["xpack"]["notification"]


def test_a_track_without_indices_has_no_shards(null_server: NullServerFactory) -> None:
    with Cluster([null_server().url]) as cluster:
        after = cluster_state.after(cluster, ())
    assert (after.shards, after.notes) == ((), ())


class SharedNode(EmbeddedEngine):
    """A node of a session, which runs already; a null server answers for it."""

    def __init__(self, url: str) -> None:
        self._url = url

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint((self._url,), {"pids": [os.getpid()]})

    def missing_features(self, requires: tuple[str, ...]) -> tuple[str, ...]:
        return ()

    def require(self, requires: tuple[str, ...]) -> None:
        return

    def failure(self) -> None:
        return None


def test_a_race_on_a_shared_node_names_no_slow_logs_as_its_own(
    null_server: NullServerFactory, races: Races, tmp_path: Path
) -> None:
    (tmp_path / "esbench-s_index_search_slowlog.json").touch()
    described = {"nodes": {"a": {"name": "node-0", "settings": {"path.logs": str(tmp_path)}}}}
    rule = {"path": "^/_nodes/settings", "reply": {"status": 200, "body": described}}
    slowlog = Chosen(Slowlog, {param.name: param.default for param in Slowlog.params})
    options = RaceOptions(
        races.home, "one", races.track, include_tasks=("create-index", "closed"), telemetry=(slowlog,), answers=False
    )
    hook = SideHook(Pace(), SharedNode(null_server({"rules": [rule]}).url))
    record = run(options, Progress(), hook=hook)
    assert record.status == "complete", record.failure
    told = record.telemetry["slowlog"]
    assert (told["entries"], told["files"]) == ({"query": 0, "fetch": 0, "index": 0}, [])
