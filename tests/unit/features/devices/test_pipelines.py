"""Ingest pipelines and data streams as telemetry sees them, with replies of real servers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_cluster import RECORDED, RecordedCluster, made, recorded

from esbench.errors import ClusterError
from esbench.features.devices.data_stream_stats import DataStreamStats
from esbench.features.devices.ingest_pipeline_stats import IngestPipelineStats
from esbench.telemetry.device import TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

WITH_PROCESSORS = ("elasticsearch-5", "elasticsearch-6", "elasticsearch-7.10", "opensearch-3")


def ingest_of(*nodes: dict[str, Any]) -> dict[str, Any]:
    return {"nodes": {f"id-{number}": {"name": f"node-{number}", "ingest": one} for number, one in enumerate(nodes)}}


def counted(count: int, time_ms: int, failed: int = 0, **processors: tuple[int, int]) -> dict[str, Any]:
    """A node with one pipeline."""
    work = {"count": count, "time_in_millis": time_ms, "current": 0, "failed": failed}
    listed = [
        {name: {"type": name, "stats": {"count": count, "time_in_millis": time_ms, "current": 0, "failed": 0}}}
        for name, (count, time_ms) in processors.items()
    ]
    return {"total": work, "pipelines": {"clean": {**work, "processors": listed}}}


def begun(before: dict[str, Any]) -> tuple[IngestPipelineStats, RecordedCluster]:
    cluster = RecordedCluster({"_nodes/stats/ingest": before})
    device = made(IngestPipelineStats, cluster)
    assert isinstance(device, IngestPipelineStats)
    device.begin()
    return device, cluster


@pytest.mark.parametrize("version", WITH_PROCESSORS)
def test_a_race_is_told_the_difference_by_pipeline_and_processor(version: str) -> None:
    replies = recorded(version)
    device, cluster = begun(replies["ingest_before"])
    cluster.replies["_nodes/stats/ingest"] = replies["ingest"]
    step = device.end_step(0, ("bulk",))
    assert (step["count"], step["failed"]) == (6001, 1)
    (pipeline,) = step["pipelines"]
    assert (pipeline["pipeline"], pipeline["count"], pipeline["failed"]) == ("clean", 6001, 1)
    if version == "elasticsearch-5":
        assert "processors" not in pipeline
    else:
        told = [(one["processor"], one["count"], one["failed"]) for one in pipeline["processors"]]
        assert told == [("set", 6001, 0), ("uppercase", 6001, 1)]
    assert device.end() == {**step, "nodes": {"node-0": {key: step[key] for key in ("count", "time_ms", "failed")}}}


@pytest.mark.parametrize("version", ["elasticsearch-7.17", "elasticsearch-8"])
def test_a_pipeline_without_processors_counts_where_the_server_counts_it(version: str) -> None:
    replies = recorded(version)
    device, cluster = begun(replies["ingest_before"])
    cluster.replies["_nodes/stats/ingest"] = replies["ingest"]
    assert device.end_step(0, ("bulk",)).get("count", 0) == (6001 if version == "elasticsearch-8" else 0)


def test_each_step_has_its_own_and_the_race_the_sum() -> None:
    device, cluster = begun(ingest_of(counted(100, 10, set=(100, 4))))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(150, 30, set=(150, 9)))
    first = device.end_step(0, ("a",))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(170, 35, 2, set=(170, 10)))
    second = device.end_step(1, ("b",))
    assert (first["count"], first["time_ms"], second["count"], second["failed"]) == (50, 20, 20, 2)
    end = device.end()
    assert (end["count"], end["time_ms"], end["failed"]) == (70, 25, 2)
    assert end["pipelines"][0]["processors"] == [{"processor": "set", "count": 70, "time_ms": 6, "failed": 0}]


def test_nodes_are_added_up_and_told_apart() -> None:
    device, cluster = begun(ingest_of(counted(10, 1), counted(20, 2)))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(15, 4), counted(50, 12))
    assert device.end_step(0, ("a",))["count"] == 35
    end = device.end()
    assert (end["count"], end["pipelines"][0]["count"]) == (35, 35)
    assert {name: work["count"] for name, work in end["nodes"].items()} == {"node-0": 5, "node-1": 30}


def test_a_node_that_was_started_anew_counts_whole_and_one_that_was_away_only_what_came_on_top() -> None:
    device, cluster = begun(ingest_of(counted(100, 10), counted(100, 10)))
    cluster.replies["_nodes/stats/ingest"] = {"nodes": {"id-0": ingest_of(counted(110, 11))["nodes"]["id-0"]}}
    assert device.end_step(0, ("a",))["count"] == 10
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(7, 3), counted(130, 12))
    assert device.end_step(1, ("b",))["count"] == 7 + 30
    assert device.end()["count"] == 47


def test_a_pipeline_that_is_put_anew_goes_on_but_its_new_processors_count_whole() -> None:
    device, cluster = begun(ingest_of(counted(100, 10, set=(100, 5))))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(120, 12, set=(20, 1), trim=(20, 1)))
    told = device.end_step(0, ("a",))["pipelines"][0]
    assert told["count"] == 20
    assert [(one["processor"], one["count"]) for one in told["processors"]] == [("set", 20), ("trim", 20)]


def test_processors_of_one_name_are_told_apart() -> None:
    def node(first: int, second: int) -> dict[str, Any]:
        found = counted(first, 0)
        found["pipelines"]["clean"]["processors"] = [
            {"set": {"type": "set", "stats": {"count": count, "time_in_millis": 0, "current": 0, "failed": 0}}}
            for count in (first, second)
        ]
        return found

    device, cluster = begun(ingest_of(node(100, 50)))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(node(130, 60))
    told = device.end_step(0, ("a",))["pipelines"][0]["processors"]
    assert [(one["processor"], one["count"]) for one in told] == [("set", 30), ("set", 10)]


def test_races_without_pipelines_say_nothing_of_them() -> None:
    device, _ = begun(ingest_of(counted(100, 10)))
    assert device.end_step(0, ("a",)) == {}
    assert device.end() == {}


def test_of_many_pipelines_the_longest_are_kept() -> None:
    def pipelines(time_ms: int) -> dict[str, Any]:
        many = {
            f"p{number:02}": {"count": time_ms, "time_in_millis": time_ms * number, "failed": 0}
            for number in range(1, 26)
        }
        return {"total": {"count": time_ms, "time_in_millis": time_ms, "failed": 0}, "pipelines": many}

    device, cluster = begun(ingest_of(pipelines(0)))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(pipelines(3))
    end = device.end()
    assert [one["pipeline"] for one in end["pipelines"]] == [f"p{number:02}" for number in range(25, 5, -1)]
    assert device.notes == ["5 pipelines that took less time are only in the sums"]


def test_of_many_processors_the_longest_are_kept_in_their_order() -> None:
    def node(times: int) -> dict[str, Any]:
        return counted(times, 100 * times, 0, **{f"p{place}": (times, times * (place % 7)) for place in range(60)})

    device, cluster = begun(ingest_of(node(0)))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(node(2))
    of_task = device.end_step(0, ("a",))["pipelines"][0]["processors"]
    assert [one["processor"] for one in of_task] == ["p6", "p13", "p20", "p27", "p34"]
    assert len(device.end()["pipelines"][0]["processors"]) == 50


def test_nodes_of_one_name_are_added_up() -> None:
    def named_alike(reply: dict[str, Any]) -> dict[str, Any]:
        return {"nodes": {node: {**entry, "name": "es"} for node, entry in reply["nodes"].items()}}

    device, cluster = begun(named_alike(ingest_of(counted(10, 1), counted(20, 2))))
    cluster.replies["_nodes/stats/ingest"] = named_alike(ingest_of(counted(15, 4), counted(50, 12)))
    assert device.end()["nodes"] == {"es": {"count": 35, "time_ms": 13, "failed": 0}}


def test_without_the_counters_of_before_nothing_is_told() -> None:
    cluster = RecordedCluster({"_nodes/stats/ingest": ClusterError("missing rights")})
    device = made(IngestPipelineStats, cluster)
    with pytest.raises(ClusterError):
        device.begin()
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(100, 10))
    assert device.end_step(0, ("a",)) == {}
    assert device.end() == {}


def test_what_came_while_requests_failed_is_of_the_race_and_of_no_step() -> None:
    device, cluster = begun(ingest_of(counted(100, 10)))
    cluster.replies["_nodes/stats/ingest"] = ClusterError("timed out")
    with pytest.raises(ClusterError):
        device.end_step(0, ("a",))
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(150, 30))
    assert device.end_step(1, ("b",)) == {}
    cluster.replies["_nodes/stats/ingest"] = ingest_of(counted(170, 35))
    assert device.end_step(2, ("c",))["count"] == 20
    cluster.replies["_nodes/stats/ingest"] = ClusterError("timed out")
    assert device.end()["count"] == 70
    assert device.notes == ["no counters of pipelines at the race's end: timed out"]


def test_the_times_of_opensearch_are_explained_where_there_are_some() -> None:
    replies = recorded("opensearch-3")
    cluster = RecordedCluster({"_nodes/stats/ingest": replies["ingest_before"]})
    device = made(IngestPipelineStats, cluster, version="opensearch-3.6.0")
    device.begin()
    device.end()
    assert device.notes == []
    cluster.replies["_nodes/stats/ingest"] = replies["ingest"]
    device.end()
    assert "once for each of them" in device.notes[0]


# data-stream-stats

MISSING = {"error": {"type": "index_not_found_exception", "reason": "no such index [gone]", "index": "gone"}}
NO_API_7 = {
    "error": {"type": "index_not_found_exception", "reason": "no such index [_data_stream]", "index": "_data_stream"}
}
NO_API_8 = {"error": "no handler found for uri [/_data_stream/logs-x/_stats] and method [GET]"}


def streams(cluster: RecordedCluster, *targets: str, version: str = "opensearch-3.6.0") -> DataStreamStats:
    device = made(DataStreamStats, cluster, targets=targets, version=version)
    assert isinstance(device, DataStreamStats)
    device.begin()
    return device


def test_data_streams_are_read_and_indices_left_out() -> None:
    replies = recorded("opensearch-3")["data_stream"]
    cluster = RecordedCluster({"/_data_stream/logs-x/_stats": replies["logs-x"]})
    device = streams(cluster, "logs-x")
    (reading,) = device.sample()
    assert (reading.of, reading.gauges["backing_indices"]) == ("logs-x", 1)
    assert reading.gauges["newest_ms"] == 1704067200000
    assert device.end()["data_streams"] == [{"data_stream": "logs-x", **reading.gauges}]
    cluster.replies = {"_stats": replies["orders"]}
    assert list(device.sample()) == []


def test_a_data_stream_that_is_gone_is_no_part_of_a_task() -> None:
    gone, there = SeriesOf(), SeriesOf()
    gone.add(9.0, {"backing_indices": 3, "store_bytes": 1000}, {})
    there.add(15.0, {"backing_indices": 1, "store_bytes": 7}, {})
    device = streams(RecordedCluster({"_stats": {"data_streams": []}}), "logs-*")
    found = device.of_task(
        TaskSpan("bulk", 9.0, 20.0, 10.0, 20.0), {("a", "data-stream"): gone, ("b", "data-stream"): there}
    )
    assert found == {"data_streams": 1, "backing_indices": 1, "store_bytes": 7}


def test_an_empty_data_stream_has_no_newest_document() -> None:
    stream = {"data_stream": "logs-x", "backing_indices": 1, "store_size_bytes": 208, "maximum_timestamp": 0}
    (reading,) = streams(RecordedCluster({"_stats": {"data_streams": [stream]}}), "logs-x").sample()
    assert reading.gauges == {"backing_indices": 1, "store_bytes": 208, "newest_ms": None}


def test_a_data_stream_that_is_not_there_yet_does_not_hide_the_others() -> None:
    replies = recorded("opensearch-3")["data_stream"]
    cluster = RecordedCluster({"/_data_stream/logs-x/_stats": replies["logs-x"], "gone": MISSING})
    device = streams(cluster, "logs-x", "gone")
    assert [reading.of for reading in device.sample()] == ["logs-x"]
    assert device.end_step(0, ("a",)) == {}


@pytest.mark.parametrize("reply", [NO_API_7, NO_API_8])
def test_a_server_without_data_streams_is_asked_once(reply: dict[str, Any]) -> None:
    device = streams(RecordedCluster({"_stats": reply}), "logs-x", version="elasticsearch-7.10.2")
    with pytest.raises(Unseen, match=r"this build of elasticsearch 7\.10\.2 has no data streams"):
        device.sample()


def test_a_request_that_is_refused_is_told_with_its_reason() -> None:
    device = streams(RecordedCluster({"_stats": {"error": {"type": "x", "reason": "too many names"}}}), "logs-x")
    with pytest.raises(Unseen, match="does not report data streams: too many names"):
        device.sample()


def test_servers_before_data_streams_are_not_asked() -> None:
    cluster = RecordedCluster({})
    with pytest.raises(Unseen, match=r"came with 7\.9"):
        streams(cluster, "logs-x", version="elasticsearch-6.8.23")
    assert cluster.asked == []


def test_a_task_tells_the_data_streams_at_its_end() -> None:
    series = SeriesOf()
    series.add(1.0, {"backing_indices": 1, "store_bytes": 10}, {})
    series.add(9.0, {"backing_indices": 2, "store_bytes": 30}, {})
    device = streams(RecordedCluster({}), "logs-x")
    told = device.of_task(TaskSpan("bulk", 0.0, 10.0, 0.0, 10.0), {("logs-x", "data-stream"): series})
    assert told == {"data_streams": 1, "backing_indices": 2, "store_bytes": 30}
    assert device.of_task(TaskSpan("bulk", 0.0, 10.0, 0.0, 10.0), {}) == {}


def test_recordings_of_every_generation_are_there() -> None:
    assert [json.loads(path.read_text())["version"].partition(".")[0] for path in RECORDED] == list("567783")
