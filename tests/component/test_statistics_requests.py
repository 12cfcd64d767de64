"""Statistics are asked for over a real socket; a cluster that refuses costs rows, never the race."""

from __future__ import annotations

from typing import Any

import pytest
from driver import NullServerFactory
from raw_server import serve

from esbench.cluster.client import Cluster
from esbench.telemetry.statistics import difference, take

COLLECTORS = {"young": {"collection_time_in_millis": 5, "collection_count": 1}}
NODES = {"nodes": {"n": {"jvm": {"uptime_in_millis": 1, "gc": {"collectors": COLLECTORS}}}}}
REFUSAL = (403, {"error": {"type": "security_exception", "reason": "action [indices:monitor/stats] is unauthorized"}})


def test_missing_rights_become_a_warning_and_the_other_rows_stay() -> None:
    replies = {"GET /a/_settings/index.uuid": REFUSAL, "GET /_nodes/stats/jvm,thread_pool": (200, NODES)}
    with serve(replies) as server, Cluster([server.url]) as cluster:
        before, after = take(cluster, ["a"]), take(cluster, ["a"])
    (warning,) = after.warnings
    assert warning.startswith("no index statistics: GET /a/_settings/index.uuid: missing rights: action")
    assert list(difference(before, after)) == ["young_gc_time_ms", "young_gc_count"]


def test_a_cluster_that_is_gone_becomes_warnings() -> None:
    with serve({}) as server:
        url = server.url
    with Cluster([url]) as cluster:
        snapshot = take(cluster, ["a"])
    assert len(snapshot.warnings) == 2
    assert difference(snapshot, snapshot) == {}


def test_a_track_without_indices_asks_for_none() -> None:
    with serve({"GET /_nodes/stats/jvm,thread_pool": (200, NODES)}) as server, Cluster([server.url]) as cluster:
        assert take(cluster, []).warnings == ()
        assert [asked.target for asked in server.requests] == ["/_nodes/stats/jvm,thread_pool"]


def test_a_reply_of_an_unknown_form_becomes_a_warning() -> None:
    odd = {"nodes": {"n": {"jvm": {"gc": {"collectors": COLLECTORS}}}}}
    with serve({"GET /_nodes/stats/jvm,thread_pool": (200, odd)}) as server, Cluster([server.url]) as cluster:
        snapshot = take(cluster, [])
    assert snapshot.warnings == (
        'no statistics of the nodes: the reply has an unknown form ("uptime_in_millis" is missing)',
    )
    assert difference(snapshot, snapshot) == {}


@pytest.mark.parametrize(
    ("uptime", "collections", "warned"),
    [
        ("many", 1, '"many" is not a number'),
        (1, "many", '"many" is not a number'),
        (1, [1], "[1] is not a number"),
        (10**400, 1, "null is not a count"),
    ],
)
def test_a_figure_of_another_type_becomes_a_warning(uptime: Any, collections: Any, warned: str) -> None:
    collectors = {"young": {"collection_time_in_millis": 5, "collection_count": collections}}
    odd = {"nodes": {"n": {"jvm": {"uptime_in_millis": uptime, "gc": {"collectors": collectors}}}}}
    with serve({"GET /_nodes/stats/jvm,thread_pool": (200, odd)}) as server, Cluster([server.url]) as cluster:
        snapshot = take(cluster, [])
    assert snapshot.warnings == (f"no statistics of the nodes: the reply has an unknown form ({warned})",)
    assert difference(snapshot, snapshot) == {}


def test_a_huge_figure_is_absent_and_the_others_stay() -> None:
    old = {"collection_time_in_millis": 10**30, "collection_count": 2}
    huge = {"nodes": {"n": {"jvm": {"uptime_in_millis": 1, "gc": {"collectors": {**COLLECTORS, "old": old}}}}}}
    with serve({"GET /_nodes/stats/jvm,thread_pool": (200, huge)}) as server, Cluster([server.url]) as cluster:
        snapshot = take(cluster, [])
    assert snapshot.warnings == ()
    assert list(difference(snapshot, snapshot)) == ["young_gc_time_ms", "young_gc_count"]


def test_replies_that_lack_a_shard_or_a_node_become_warnings() -> None:
    stats = {"_shards": {"total": 2, "successful": 1, "failed": 1}, "indices": {}}
    metrics = "indexing,merge,refresh,flush,store,translog,segments,search,get,query_cache,request_cache"
    replies = {
        "GET /a/_settings/index.uuid": (200, {}),
        f"GET /a/_stats/{metrics}": (200, stats),
        "GET /_nodes/stats/jvm,thread_pool": (200, {"_nodes": {"total": 3, "failed": 1}, **NODES}),
    }
    with serve(replies) as server, Cluster([server.url]) as cluster:
        snapshot = take(cluster, ["a"])
    assert snapshot.warnings == (
        "no index statistics: 1 of 2 shards did not answer",
        "no statistics of the nodes: 1 of 3 nodes did not answer",
    )
    assert snapshot.shards is snapshot.nodes is None


@pytest.mark.parametrize("version", ["5.6.16", "6.8.23", "7.17.29", "8.19.4"])
def test_a_null_cluster_gives_all_statistics_and_facts(null_server: NullServerFactory, version: str) -> None:
    with Cluster([null_server({"version": version}).url]) as cluster:
        cluster.request("PUT", "/orders", body={"settings": {"number_of_shards": 2}})
        before = take(cluster, ["orders"])
        found = difference(before, take(cluster, ["orders"]))
        facts = cluster.indices_facts(["orders"])
    assert before.warnings == ()
    assert {"indexing_time_ms", "merge_count", "young_gc_count", "segment_count"} <= set(found)
    assert facts["orders"]["primary_shards"] == 2
