"""What nodes say of themselves, from replies recorded on real nodes, and from replies that nobody hopes for.

Each recording has two replies to the request of either device, 14 s of bulks and searches apart.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from answering import AnsweringCluster

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.errors import ClusterError
from esbench.features.devices.node_figures import ALL, readings_of
from esbench.features.devices.node_stats import NodeClock, Nodes, NodeStats
from esbench.telemetry import choose
from esbench.telemetry.device import Reading, Scene, Unseen

RECORDED = sorted((Path(__file__).parents[3] / "recorded" / "telemetry").glob("nodes-*.json"))
EVERYTHING = {param.name: True if param.kind == "flag" else param.default for param in NodeStats.params}
USUAL = {param.name: param.default for param in NodeStats.params}


class Replies(AnsweringCluster):
    """Answers with one reply after the other, and again with the last one; notes what it is asked."""

    def __init__(self, *replies: Any) -> None:
        super().__init__()
        self._replies = list(replies)
        self.asked: list[tuple[str, Mapping[str, Any]]] = []

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        self.asked.append((f"{method} {path}", params))
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]


def scene(cluster: Cluster, distribution: str = "elasticsearch", version: str = "7.10.2", **info: str) -> Scene:
    return Scene(cluster, ClusterInfo(distribution, version, **info), (), Path("nowhere"))


def nodes(*replies: Any) -> Nodes:
    return Nodes(scene(Replies(*replies)), {})


def by_group(readings: Any) -> dict[str, Reading]:
    return {reading.group: reading for reading in readings}


@pytest.fixture(params=RECORDED, ids=[path.stem.removeprefix("nodes-") for path in RECORDED])
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    recording: dict[str, Any] = json.loads(request.param.read_text())
    return recording


@pytest.fixture
def reply() -> Any:
    path = next(path for path in RECORDED if path.stem == "nodes-elasticsearch-7.10.2")
    return json.loads(path.read_text())["light"][0]


def only_node(reply: Any) -> Any:
    (node,) = reply["nodes"].values()
    return node


def test_recordings_of_every_generation_are_there() -> None:
    assert [path.stem.rpartition(".")[0].partition(".")[0] for path in RECORDED] == [
        "nodes-elasticsearch-5",
        "nodes-elasticsearch-6",
        "nodes-elasticsearch-7",
        "nodes-elasticsearch-7",
        "nodes-elasticsearch-8",
        "nodes-opensearch-2",
        "nodes-opensearch-3",
    ]


# What is read


def test_every_version_tells_the_figures_of_every_race(recorded: dict[str, Any]) -> None:
    node = only_node(recorded["light"][1])
    read = by_group(nodes(recorded["light"][1]).sample())
    assert read["process"].counters == {"cpu_ms": node["process"]["cpu"]["total_in_millis"]}
    assert read["os"].gauges == {
        "cpu_percent": node["os"]["cpu"]["percent"],
        "load_1m": node["os"]["cpu"]["load_average"]["1m"],
        "memory_used_bytes": node["os"]["mem"]["used_in_bytes"],
    }
    assert set(read["jvm"].gauges) == {"heap_used_bytes", "heap_used_percent"}
    assert {"young_gc_ms", "young_gc_count", "old_gc_ms", "old_gc_count"} <= set(read["jvm"].counters)
    assert read["thread_pool"].counters["rejected"] == 0
    assert {reading.of for reading in read.values()} == {"node-0"}


def test_every_version_tells_all_its_sections(recorded: dict[str, Any]) -> None:
    device = NodeStats(scene(Replies(*recorded["full"]), recorded["distribution"], recorded["version"]), EVERYTHING)
    read = by_group(device.sample())
    sections = {figures.section for figures in ALL}
    assert set(read) == sections - ({"indexing_pressure"} if recorded["version"] in ("5.6.16", "6.8.23") else set())
    empty = {
        f"{group}.{column}"
        for group, reading in read.items()
        for column, value in (*reading.gauges.items(), *reading.counters.items())
        if value is None
    }
    assert empty == set()
    assert {"young_used_bytes", "old_used_bytes", "heap_committed_bytes"} <= set(read["jvm"].gauges)
    assert not [column for column in read["jvm"].gauges if "metaspace" in column or "codeheap" in column]
    assert {"written_kb", "read_operations"} <= set(read["fs"].counters)
    assert {"parent_estimated_bytes", "fielddata_estimated_bytes"} <= set(read["breakers"].gauges)
    assert read["http"].gauges["connections"] > 0
    assert read["os"].counters["cgroup_cpu_ns"] > 0


def test_both_devices_read_the_same_figures_under_the_same_names(recorded: dict[str, Any]) -> None:
    full = NodeStats(scene(Replies(*recorded["full"]), recorded["distribution"], recorded["version"]), USUAL)
    assert full.key == Nodes.name
    more = by_group(full.sample())
    for group, reading in by_group(nodes(*recorded["light"]).sample()).items():
        assert set(reading.gauges) <= set(more[group].gauges)
        assert set(reading.counters) <= set(more[group].counters)


def test_thread_pools_that_never_did_anything_have_no_columns(recorded: dict[str, Any]) -> None:
    device = NodeStats(scene(Replies(recorded["full"][1]), recorded["distribution"], recorded["version"]), USUAL)
    pools = {column.rpartition("_")[0] for column in by_group(device.sample())["thread_pool"].gauges}
    assert {"search", "management"} <= pools
    assert len(pools) < 10


def test_a_sample_of_everything_is_a_few_hundred_figures_at_most(recorded: dict[str, Any]) -> None:
    device = NodeStats(scene(Replies(*recorded["full"]), recorded["distribution"], recorded["version"]), EVERYTHING)
    assert sum(len(reading.gauges) + len(reading.counters) for reading in device.sample()) < 200


def test_a_section_that_a_server_does_not_know_is_not_asked_for() -> None:
    asked = {}
    for distribution, version in (("elasticsearch", "7.8.1"), ("elasticsearch", "7.9.0"), ("opensearch", "1.3.0")):
        cluster = Replies({"nodes": {}})
        device = NodeStats(scene(cluster, distribution, version), USUAL)
        with pytest.raises(Unseen):
            device.sample()
        asked[version] = "indexing_pressure" in cluster.asked[0][0]
    assert asked == {"7.8.1": False, "7.9.0": True, "1.3.0": True}


def test_a_section_that_is_switched_off_is_not_asked_for(reply: Any) -> None:
    cluster = Replies(reply)
    NodeStats(scene(cluster), {**USUAL, "node-stats-include-fs": False, "node-stats-include-network": False}).sample()
    path, params = cluster.asked[0]
    assert path == "GET /_nodes/stats/process,os,jvm,thread_pool,breaker,indexing_pressure"
    assert "nodes.*.fs" not in params["filter_path"]
    assert "nodes.*.os.cgroup.cpuacct.usage_nanos" in params["filter_path"]


def test_parts_of_the_indices_are_read_where_they_are_named(reply: Any) -> None:
    cluster = Replies(reply)
    device = NodeStats(scene(cluster), {**USUAL, "node-stats-include-indices-metrics": ("docs", "marges")})
    device.sample()
    path, params = cluster.asked[0]
    assert path.endswith(",indices")
    wanted = [path for path in params["filter_path"].split(",") if path.startswith("nodes.*.indices")]
    assert wanted == ["nodes.*.indices.timestamp", "nodes.*.indices.docs.count"]
    (note,) = device.notes
    assert note.startswith('node-stats-include-indices-metrics: there is no "marges" (did you mean "merges"?')


def test_node_stats_takes_the_place_of_the_figures_of_every_race() -> None:
    from esbench.telemetry import builtin_devices

    registry = builtin_devices()
    assert "nodes" in [chosen.kind.name for chosen in choose([], {}, registry, embedded=False)]
    chosen = choose(["node-stats"], {"node-stats-sample-interval": "5s"}, registry, embedded=False)
    assert "nodes" not in [device.kind.name for device in chosen]
    (params,) = [device.params for device in chosen if device.kind is NodeStats]
    device = NodeStats(scene(Replies({})), params)
    assert device.interval_s == 5.0


def test_collectors_of_any_java_have_columns_and_cycles_beside_the_application_are_no_pauses(reply: Any) -> None:
    only_node(reply)["jvm"]["gc"]["collectors"] = {
        "ZGC Minor Pauses": {"collection_time_in_millis": 3, "collection_count": 9},
        "ZGC Minor Cycles": {"collection_time_in_millis": 800, "collection_count": 4},
        "G1 Concurrent GC": {"collection_time_in_millis": 40, "collection_count": 2},
    }
    assert by_group(nodes(reply).sample())["jvm"].counters == {
        "gc_ms": 43,
        "gc_count": 11,
        "zgc_minor_pauses_gc_ms": 3,
        "zgc_minor_pauses_gc_count": 9,
        "zgc_minor_cycles_gc_ms": 800,
        "zgc_minor_cycles_gc_count": 4,
        "g1_concurrent_gc_ms": 40,
        "g1_concurrent_gc_count": 2,
    }


def test_rejections_are_told_of_all_pools_together_and_of_each_that_had_some(reply: Any) -> None:
    pools = only_node(reply)["thread_pool"]
    pools["write"]["rejected"], pools["search"]["rejected"] = 7, 2
    read = by_group(nodes(reply).sample())["thread_pool"]
    assert read.counters == {"rejected": 9, "write_rejected": 7, "search_rejected": 2}


@pytest.mark.parametrize("load", [None, -1, {}, {"1m": None}, {"1m": -1.0}])
def test_a_host_without_a_load_average_has_none(reply: Any, load: Any) -> None:
    only_node(reply)["os"]["cpu"]["load_average"] = load
    gauges = by_group(nodes(reply).sample())["os"].gauges
    assert gauges.get("load_1m") is None
    assert gauges["cpu_percent"] is not None


def test_memory_of_a_control_group_comes_as_text() -> None:
    node = {"timestamp": 5, "os": {"timestamp": 4, "cgroup": {"memory": {"usage_in_bytes": "810598400"}}}}
    assert list(readings_of(node, "n", ALL)) == [
        (4, Reading("n", "os", {"cgroup_memory_used_bytes": 810598400}, {})),
    ]
    node["os"]["cgroup"]["memory"]["usage_in_bytes"] = "max"  # type: ignore[index]
    ((_, reading),) = readings_of(node, "n", ALL)
    assert reading.gauges == {"cgroup_memory_used_bytes": None}


def test_every_column_and_parameter_is_in_the_reference() -> None:
    reference = (Path(__file__).parents[4] / "docs" / "reference" / "telemetry.md").read_text()
    columns = [column for figures in ALL for column in (*figures.gauges, *figures.counters) if "{}" not in column]
    params = [f"`{param.name}` ({param.default_text})" for param in NodeStats.params]
    assert [name for name in columns if f"`{name}`" not in reference] == []
    assert [text for text in params if text not in reference] == []


# When it was true


def test_what_a_server_has_kept_is_not_read_twice(reply: Any) -> None:
    again = copy.deepcopy(reply)
    only_node(again)["timestamp"] += 1000
    only_node(again)["jvm"]["timestamp"] += 1000
    device = nodes(reply, again)
    assert set(by_group(device.sample())) == {"process", "os", "jvm", "thread_pool"}
    assert set(by_group(device.sample())) == {"jvm", "thread_pool"}  # pools are counted when they are asked for


def test_a_reading_is_as_old_as_its_section(reply: Any) -> None:
    node = only_node(reply)
    node["process"]["timestamp"] = node["timestamp"] - 800
    node["os"]["timestamp"] = node["timestamp"] + 15  # measured anew, on request
    read = by_group(nodes(reply).sample())
    assert read["process"].age_s - read["thread_pool"].age_s == pytest.approx(0.8, abs=1e-3)
    assert read["os"].age_s - read["thread_pool"].age_s == pytest.approx(-0.015, abs=1e-3)
    assert abs(read["thread_pool"].age_s) < 1e-3


def test_a_slow_reply_does_not_move_the_time_of_a_reading() -> None:
    clock = NodeClock()
    clock.see(10.000, 10.004, 500.002)
    clock.see(11.000, 11.300, 501.290)  # the node got to it at the end
    assert clock.here(501.290) == pytest.approx(11.290)


def test_a_node_whose_clock_was_set_is_seen_anew() -> None:
    clock = NodeClock()
    clock.see(10.000, 10.004, 500.002)
    clock.see(11.000, 11.300, 531.150)
    assert clock.here(531.150) == pytest.approx(11.150)


# Which node it was


def test_a_node_that_was_started_anew_goes_on_under_its_name(reply: Any) -> None:
    node = only_node(reply)
    other = {**node, "name": "node-1"}
    back = {**node, "process": {**node["process"], "timestamp": node["process"]["timestamp"] + 9000}}
    device = nodes(
        {"nodes": {"old id": node, "other id": other}},
        {"nodes": {"other id": other}},
        {"nodes": {"new id": back, "other id": other}},
    )
    told = [[(reading.of, reading.group) for reading in device.sample()] for _ in range(3)]
    assert {of for of, _ in told[0]} == {"node-0", "node-1"}
    assert told[1] == []
    assert told[2] == [("node-0", "process")]


def test_nodes_of_one_name_are_told_apart_by_their_ids(reply: Any) -> None:
    ((_, node),) = reply["nodes"].items()
    twins = {"nodes": {"aaaaaaaaaaaa": node, "bbbbbbbbbbbb": node}}
    read = list(nodes(twins, twins).sample())
    assert {reading.of for reading in read} == {"node-0", "node-0 (bbbbbbbb)"}
    assert len(read) == 8


# What cannot be seen


def test_missing_rights_end_the_samples_with_one_sentence() -> None:
    error = {"type": "security_exception", "reason": "action [cluster:monitor/nodes/stats] is unauthorized"}
    device = nodes({"error": error, "status": 403})
    with pytest.raises(Unseen, match=r"does not report on its nodes: action \[cluster:monitor/nodes/stats\]"):
        device.sample()


def test_the_reason_is_told_in_whatever_form_it_comes() -> None:
    with pytest.raises(Unseen, match="nodes: User: anonymous is not authorized"):
        nodes({"Message": "User: anonymous is not authorized"}).sample()


def test_serverless_is_not_asked_at_all() -> None:
    cluster = Replies({})
    device = Nodes(scene(cluster, version="9.1.0", build_flavor="serverless"), {})
    with pytest.raises(Unseen, match="serverless"):
        device.begin()
    assert cluster.asked == []


@pytest.mark.parametrize(
    "reply",
    [{"status": 404, "error": "no handler found"}, {"message": "not here"}, "<html>not found</html>", None, {}],
)
def test_a_server_without_the_api_is_not_asked_again(reply: Any) -> None:
    with pytest.raises(Unseen, match="does not report on its nodes"):
        nodes(reply).sample()


def test_what_stands_before_a_cluster_may_lose_it_for_a_while(reply: Any) -> None:
    device = nodes(reply, {"status": 404, "error": "no such deployment"}, reply)
    device.sample()
    with pytest.raises(ClusterError, match="no such deployment"):
        device.sample()
    device.sample()


def test_a_node_that_did_not_answer_in_time_is_told(reply: Any) -> None:
    device = nodes({**reply, "_nodes": {"failed": 1}})
    assert device.sample()
    device.sample()
    assert device.notes == ["some nodes did not send their figures in time, at least once"]
