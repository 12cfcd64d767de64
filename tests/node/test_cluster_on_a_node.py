"""The door, the external engine, the statistics and tracks made of a cluster, against a real node."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from esbench.cluster.client import Cluster
from esbench.cluster.marks import marked
from esbench.cluster.options import parse_hosts
from esbench.errors import ClusterError
from esbench.race.external import ExternalEngine
from esbench.telemetry import cluster_state
from esbench.telemetry.interference import disturbances, disturbed
from esbench.telemetry.statistics import difference, take

pytestmark = pytest.mark.node

DOCUMENTS = 500
SETTINGS = {"number_of_shards": 2, "number_of_replicas": 0}


@pytest.fixture
def cluster(url: str) -> Iterator[Cluster]:
    with Cluster([url]) as cluster:
        yield cluster
        cluster.request("DELETE", "/orders,other,red", params={"ignore_unavailable": True})


def fill(cluster: Cluster, index: str, settings: dict[str, Any] = SETTINGS) -> None:
    cluster.request("DELETE", f"/{index}", ignore=(404,))
    cluster.request("PUT", f"/{index}", body={"settings": settings})
    lines = "".join(f'{{"index":{{"_id":"{n}"}}}}\n{{"n":{n}}}\n' for n in range(DOCUMENTS))
    assert not cluster.request("POST", f"/{index}/_bulk", params={"refresh": True}, body=lines)["errors"]


def test_a_node_says_who_it_is(cluster: Cluster) -> None:
    info = cluster.info()
    (node,) = cluster.nodes()
    assert (info.distribution, info.version_tuple) == ("elasticsearch", (7, 10, 2))
    assert len(info.build_hash) == 40
    assert node.version == info.version
    assert {"data", "master"} <= set(node.roles)
    assert node.heap_max_bytes == 512 << 20
    assert node.processors
    assert node.jvm


def test_indices_are_known_by_their_uuids_and_marks(cluster: Cluster) -> None:
    fill(cluster, "orders")
    (first,) = cluster.identities(["orders", "missing", "nothing-*"]).values()
    fill(cluster, "orders")
    body = marked({"settings": SETTINGS}, cluster.info().dialect)
    cluster.request("PUT", "/other", body=body)
    cluster.request("POST", "/other/_close")
    found = cluster.identities(["ord*", "oth*"])
    assert list(found) == ["orders", "other"]
    assert found["orders"].uuid != first.uuid
    assert [index.marked for index in found.values()] == [False, True]
    assert cluster.identities(["missing"]) == cluster.identities([]) == {}


def test_facts_of_indices_leave_out_what_does_not_exist(cluster: Cluster) -> None:
    fill(cluster, "orders")
    fill(cluster, "other", {**SETTINGS, "codec": "best_compression"})
    facts = cluster.indices_facts(["orders", "missing"])
    assert list(facts) == ["orders"]
    assert (facts["orders"]["primary_shards"], facts["orders"]["replicas"]) == (2, 0)
    assert facts["orders"]["docs"] == DOCUMENTS
    assert facts["orders"]["store_bytes"] > 0
    assert facts["orders"]["settings"] == {"index.number_of_shards": "2", "index.number_of_replicas": "0"}
    everything = cluster.indices_facts()
    assert everything["other"]["settings"]["index.codec"] == "best_compression"
    assert everything["other"]["mappings_digest"] == everything["orders"]["mappings_digest"]


def test_an_index_that_cannot_be_created_says_why(cluster: Cluster) -> None:
    with pytest.raises(ClusterError, match=r"PUT /red: HTTP 400 illegal_argument_exception: unknown setting"):
        cluster.request("PUT", "/red", body={"settings": {"number_of_shard": 1}})


def test_statistics_count_what_the_race_added(cluster: Cluster) -> None:
    fill(cluster, "orders")
    before = take(cluster, ["orders", "missing"])
    fill(cluster, "orders")  # deleted and created anew
    cluster.request("POST", "/orders/_flush")
    after = take(cluster, ["orders", "missing"])
    figures = difference(before, after)
    assert before.warnings == after.warnings == ()
    assert figures["flush_count"]["value"] == 2
    assert figures["refresh_count"]["value"] > 0
    assert figures["store_size_bytes"]["value"] > 0
    assert figures["young_gc_count"]["value"] >= 0
    assert difference(after, after)["refresh_count"]["value"] == 0


def test_what_is_around_a_race_is_seen_without_a_false_alarm(cluster: Cluster) -> None:
    fill(cluster, "orders")
    before = cluster_state.before(cluster)
    after = cluster_state.after(cluster, ["orders", "missing"])
    assert before.notes == after.notes == ()
    (machine,) = before.machines.values()
    assert machine.memory_bytes is not None
    assert machine.memory_bytes > 1 << 30
    assert [disk.total_bytes is not None for disk in machine.disks] == [True]
    assert before.use is not None
    assert before.use.indices["orders"].indexed == DOCUMENTS
    assert before.disk["threshold_enabled"] == "false"
    assert sum(shard.docs for shard in after.shards) == DOCUMENTS
    assert list(disturbances(before, before.use)) == list(disturbed(before, after, ["orders"])) == []


def test_a_red_cluster_is_not_raced(cluster: Cluster, url: str) -> None:
    engine = ExternalEngine(*parse_hosts(url))
    assert engine.start().urls == (url,)
    nowhere = {**SETTINGS, "routing.allocation.require._name": "nowhere"}
    cluster.request("PUT", "/red", params={"wait_for_active_shards": 0}, body={"settings": nowhere})
    with pytest.raises(ClusterError, match=r"the cluster is red: red \(shards are missing"):
        engine.start()


def test_a_track_made_of_a_node_fills_it_again(cluster: Cluster, url: str, home: Path, tmp_path: Path) -> None:
    fill(cluster, "orders")
    lines = "".join(f'{{"index":{{"routing":"u{n % 7}"}}}}\n{{"price":{n}.10}}\n' for n in range(1200))
    cluster.request("PUT", "/other", body={"settings": SETTINGS, "aliases": {"carts": {}}})
    assert not cluster.request("POST", "/other/_bulk", params={"refresh": True}, body=lines)["errors"]
    made = esbench("create-track", "--track=shop", f"--output-path={tmp_path}", "--indices=ord*,carts", url=url)
    assert "2 indices, 1,700 documents" in made
    cluster.request("DELETE", "/orders,other")
    esbench(
        "race", f"--track-path={tmp_path / 'shop'}", "--track-params=bulk_size:100,bulk_indexing_clients:2", url=url
    )
    facts = cluster.indices_facts(["orders", "other"])
    assert {name: (index["docs"], index["primary_shards"]) for name, index in facts.items()} == {
        "orders": (DOCUMENTS, 2),
        "other": (1200, 2),
    }
    of_u3 = {"query": {"term": {"_routing": "u3"}}, "size": 1}
    found = cluster.request("POST", "/carts/_search", params={"routing": "u3"}, body=of_u3)["hits"]
    assert found["total"]["value"] == len(range(3, 1200, 7))


def esbench(*arguments: str, url: str) -> str:
    """The output of a command that succeeds."""
    command = [sys.executable, "-m", "esbench.cli.main", *arguments, f"--target-hosts={url}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
