"""Devices that look at indices, with replies of real servers: shards, segments, recoveries, disk usage by field."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from recorded_cluster import RECORDED, RecordedCluster, made, recorded

from esbench.errors import ClusterError
from esbench.features.devices.disk_usage import DiskUsage, usage
from esbench.features.devices.recovery_stats import RecoveryStats
from esbench.features.devices.segment_stats import SegmentStats
from esbench.features.devices.shard_stats import ShardStats
from esbench.telemetry.device import IndexDevice, NodeNames, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

SPAN = TaskSpan("bulk", 0.0, 10.0, 0.0, 10.0)


@pytest.fixture(params=RECORDED, ids=[path.stem for path in RECORDED])
def replies(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


@pytest.mark.parametrize("kind", [ShardStats, SegmentStats, RecoveryStats, DiskUsage])
def test_a_track_without_indices_never_means_all_of_them(kind: type[IndexDevice]) -> None:
    cluster = RecordedCluster({"": {}})
    device = made(kind, cluster, targets=(), version="elasticsearch-8.19.4")
    with pytest.raises(Unseen, match="no indices"):
        device.begin()
    assert list(device.sample()) == []
    assert device.end_step(0, ("bulk",)) == {}
    assert device.end() == {}
    assert cluster.asked == []


def test_named_indices_stand_for_those_of_the_track() -> None:
    cluster = RecordedCluster({"_recovery": {}})
    device = made(RecoveryStats, cluster, recovery_stats_indices=("logs-*", "other"))
    device.begin()
    assert cluster.asked == ["GET /logs-*,other/_recovery"]


def test_names_of_nodes_are_asked_for_when_one_is_new() -> None:
    cluster = RecordedCluster({"_nodes": {"nodes": {"a": {"name": "node-0"}}}})
    names = NodeNames(cluster)
    assert names.of(["a"]) == {"a": "node-0"}
    assert names.of(["a"]) == {"a": "node-0"}
    assert len(cluster.asked) == 1
    assert names.of(["a", "gone"]) == {"a": "node-0", "gone": "gone"}
    assert names.of(["gone"]) == {"gone": "gone"}
    assert len(cluster.asked) == 2


# shard-stats


def shard_stats(replies: dict[str, Any]) -> tuple[ShardStats, RecordedCluster]:
    cluster = RecordedCluster({"_stats": replies["shard_stats"], "_nodes": replies["nodes"]})
    device = made(ShardStats, cluster)
    assert isinstance(device, ShardStats)
    device.begin()
    return device, cluster


def test_each_shard_is_read_with_its_copy_and_node(replies: dict[str, Any]) -> None:
    device, cluster = shard_stats(replies)
    found = {reading.of: reading for reading in device.sample()}
    assert set(found) == {"orders[0]p@node-0", "orders[1]p@node-0", "kept[0]p@node-0"}
    orders = [found[f"orders[{number}]p@node-0"] for number in (0, 1)]
    assert sum(reading.gauges["docs"] or 0 for reading in orders) == 5900
    assert sum(reading.counters["indexed"] or 0 for reading in orders) == 6000
    assert sum(reading.counters["searches"] or 0 for reading in orders) == 10
    assert sum(reading.counters["gets"] or 0 for reading in orders) == 1
    assert all((reading.gauges["segments"] or 0) > 1 for reading in orders)
    assert cluster.asked[0] == "GET /orders,kept,shut,gone/_stats/docs,store,segments,indexing,search,get"
    assert cluster.params[0]["ignore_unavailable"] is True


def test_the_end_lists_the_shards_the_largest_first_and_counts_missing_copies(replies: dict[str, Any]) -> None:
    device, _ = shard_stats(replies)
    device.sample()
    end = device.end()
    assert (end["started"], end["missing"]) == (3, 1)
    sizes = [shard["store_bytes"] for shard in end["shards"]]
    assert sizes == sorted(sizes, reverse=True)
    assert {shard["state"] for shard in end["shards"]} == {"STARTED"}


def many_shards(sizes: list[int]) -> dict[str, Any]:
    shards = {
        str(number): [
            {
                "routing": {"state": "STARTED", "primary": True, "node": "a"},
                "docs": {"count": size, "deleted": 0},
                "store": {"size_in_bytes": size},
            }
        ]
        for number, size in enumerate(sizes)
    }
    return {"_shards": {"total": len(sizes), "successful": len(sizes)}, "indices": {"many": {"shards": shards}}}


def test_of_many_shards_the_largest_are_kept_and_stay_the_same() -> None:
    cluster = RecordedCluster({"_stats": many_shards(list(range(150))), "_nodes": {"nodes": {"a": {"name": "node-0"}}}})
    device = made(ShardStats, cluster)
    device.begin()
    first = {reading.of for reading in device.sample()}
    assert first == {f"many[{number}]p@node-0" for number in range(50, 150)}
    cluster.replies["_stats"] = many_shards([1000 - size for size in range(150)])
    assert {reading.of for reading in device.sample()} == first
    assert device.of_task(SPAN, {("a[0]p@n", "shard"): work_of(300, 5), ("a[1]p@n", "shard"): work_of(1, 5)}) == {}
    assert len(device.end()["shards"]) == 100
    assert device.notes == ["50 of 150 shards are left out: the 100 largest are kept"]


def test_the_places_of_shards_that_are_gone_are_taken_by_others() -> None:
    cluster = RecordedCluster({"_stats": many_shards(list(range(150))), "_nodes": {"nodes": {"a": {"name": "node-0"}}}})
    device = made(ShardStats, cluster)
    device.begin()
    device.sample()
    cluster.replies["_stats"] = many_shards(list(range(60)))
    assert len(list(device.sample())) == 60


def work_of(indexed: float, searches: float, *, since_s: float = 0.0, until_s: float = 10.0) -> SeriesOf:
    found = SeriesOf()
    found.add(since_s, {}, {"indexed": 0.0, "searches": 0.0, "gets": 0.0})
    found.add(until_s, {}, {"indexed": indexed, "searches": searches, "gets": 0.0})
    return found


def test_a_task_tells_which_shard_did_most_of_the_work() -> None:
    device, _ = shard_stats(recorded("elasticsearch-7.10"))
    told = device.of_task(SPAN, {("a[0]p@n", "shard"): work_of(300, 5), ("a[1]p@n", "shard"): work_of(100, 5)})
    assert told["busiest_indexed"] == {"shard": "a[0]p@n", "share_percent": 75.0}
    assert told["busiest_searches"]["share_percent"] == 50.0
    assert "busiest_gets" not in told


def test_no_share_is_told_of_copies_that_came_meanwhile() -> None:
    """One that was promoted, say: its label is new, and what it did before that is not known."""
    device, _ = shard_stats(recorded("elasticsearch-7.10"))
    whole, late = work_of(300, 5), work_of(10, 1, since_s=8.0)
    assert device.of_task(SPAN, {("a[0]p@n", "shard"): whole, ("a[1]p@n", "shard"): late}) == {}


def test_copies_that_were_gone_before_a_task_do_not_matter_to_it() -> None:
    device, _ = shard_stats(recorded("elasticsearch-7.10"))
    gone = work_of(10, 1, since_s=-9.0, until_s=-5.0)
    told = device.of_task(
        SPAN, {("a[0]p@n", "shard"): work_of(300, 5), ("a[1]p@n", "shard"): work_of(100, 5), ("b[0]p@n", "shard"): gone}
    )
    assert told["busiest_indexed"]["share_percent"] == 75.0


# segment-stats


def test_segments_are_counted_by_index_and_kept_as_a_table(replies: dict[str, Any], tmp_path: Path) -> None:
    cluster = RecordedCluster({"_segments": replies["segments"], "_nodes": replies["nodes"]})
    device = made(SegmentStats, cluster, tmp_path / "logs")
    device.begin()
    step, end = device.end_step(0, ("bulk",)), device.end()
    orders = next(sums for sums in end["indices"] if sums["index"] == "orders")
    assert (orders["docs"], step["docs"]) == (5900, end["docs"])
    assert end["segments"] == sum(sums["segments"] for sums in end["indices"])
    assert end["largest_bytes"] == max(sums["largest_bytes"] for sums in end["indices"])
    lines = (tmp_path / "logs" / "segments.txt").read_text().splitlines()
    assert lines[0].split()[:8] == ["index", "shard", "prirep", "node", "segment", "docs", "deleted", "bytes"]
    assert len(lines) == 1 + end["segments"]
    assert sum(int(line.split()[7]) for line in lines[1:]) == end["size_bytes"]


def test_replicas_are_in_the_table_but_not_in_the_sums(tmp_path: Path) -> None:
    def copy(primary: bool) -> dict[str, Any]:
        facts = {"num_docs": 7, "deleted_docs": 1, "size_in_bytes": 900, "committed": True, "search": True}
        return {"routing": {"primary": primary, "node": "a"}, "segments": {"_0": facts}}

    reply = {"indices": {"orders": {"shards": {"0": [copy(True), copy(False)]}}}}
    cluster = RecordedCluster({"_segments": reply, "_nodes": {"nodes": {"a": {"name": "node-0"}}}})
    device = made(SegmentStats, cluster, tmp_path)
    device.begin()
    assert device.end()["segments"] == 1
    table = (tmp_path / "segments.txt").read_text().splitlines()
    assert [line.split()[2] for line in table[1:]] == ["p", "r"]


def test_indices_that_are_all_gone_leave_nothing(tmp_path: Path) -> None:
    device = made(SegmentStats, RecordedCluster({"_segments": {}}), tmp_path)
    device.begin()
    assert device.end() == {}
    assert list(tmp_path.iterdir()) == []


# recovery-stats


def copied(stage: str, recovered: int, took_ms: int, start: int = 1000) -> dict[str, Any]:
    """A shard of `_recovery` that is copied from another node."""
    return {
        "id": 0,
        "type": "PEER",
        "stage": stage,
        "start_time_in_millis": start,
        "total_time_in_millis": took_ms,
        "target": {"name": "node-1"},
        "index": {
            "size": {"total_in_bytes": 500, "recovered_in_bytes": recovered},
            "files": {"total": 5, "recovered": recovered // 100},
            "source_throttle_time_in_millis": 3,
            "target_throttle_time_in_millis": 4,
        },
        "translog": {"recovered": 0, "total": -1},
    }


def test_recoveries_since_the_race_began_are_summed(replies: dict[str, Any]) -> None:
    cluster = RecordedCluster({"_recovery": replies["recovery_before"]})
    device = made(RecoveryStats, cluster)
    device.begin()
    cluster.replies["_recovery"] = replies["recovery"]
    step = device.end_step(0, ("bulk",))
    closed = "shut" in replies["recovery"]  # closing opens it anew, from 7.2 on
    assert step["recoveries"] == {"empty_store": 2, **({"existing_store": 1} if closed else {})}
    assert device.end_step(1, ("get",)) == {}
    end = device.end()
    assert end["recoveries"] == step["recoveries"]
    assert {sums["index"] for sums in end["indices"]} == {"orders", *(("shut",) if closed else ())}


def test_a_recovery_over_several_steps_counts_in_each_what_it_copied_there() -> None:
    cluster = RecordedCluster({"_recovery": {}})
    device = made(RecoveryStats, cluster)
    device.begin()
    cluster.replies["_recovery"] = {"orders": {"shards": [copied("INDEX", 200, 50)]}}
    first = device.end_step(0, ("a",))
    assert (first["recoveries"], first["unfinished"], first["recovered_bytes"]) == ({"peer": 1}, 1, 200)
    cluster.replies["_recovery"] = {"orders": {"shards": [copied("DONE", 500, 90)]}}
    second = device.end_step(1, ("b",))
    assert (second["recoveries"], second["unfinished"], second["recovered_bytes"]) == ({}, 0, 300)
    cluster.replies["_recovery"] = {}  # the replica was taken away: the cluster forgets its recovery
    end = device.end()
    assert (end["recoveries"], end["recovered_bytes"], end["longest_ms"], end["throttled_ms"]) == (
        {"peer": 1},
        500,
        90,
        7,
    )


def test_samples_show_what_is_recovered_and_once_that_it_is_over() -> None:
    cluster = RecordedCluster({"_recovery": {}})
    device = made(RecoveryStats, cluster)
    device.begin()
    assert list(device.sample()) == []
    cluster.replies["_recovery"] = {"orders": {"shards": [copied("INDEX", 200, 50), copied("TRANSLOG", 500, 70)]}}
    (reading,) = device.sample()
    assert cluster.params[-1]["active_only"] is True
    assert reading.of == "orders"
    assert reading.gauges["shards"] == 2
    assert (reading.gauges["recovered_bytes"], reading.gauges["bytes"]) == (700, 1000)
    assert (reading.gauges["in_index"], reading.gauges["in_translog"], reading.gauges["in_init"]) == (1, 1, 0)
    assert reading.gauges["translog_operations"] == 0  # -1: not known yet
    cluster.replies["_recovery"] = {}
    (over,) = device.sample()
    assert set(over.gauges.values()) == {0}
    assert list(device.sample()) == []


def test_without_the_recoveries_of_before_nothing_is_said_of_the_race() -> None:
    cluster = RecordedCluster({"_recovery": ClusterError("missing rights")})
    device = made(RecoveryStats, cluster)
    with pytest.raises(ClusterError):
        device.begin()
    cluster.replies["_recovery"] = {"orders": {"shards": [copied("DONE", 500, 90)]}}
    assert device.end_step(0, ("bulk",)) == {}
    assert device.end() == {}


def test_of_many_indices_that_are_recovered_the_smaller_ones_are_sampled_as_one() -> None:
    cluster = RecordedCluster({"_recovery": {}})
    device = made(RecoveryStats, cluster)
    device.begin()
    cluster.replies["_recovery"] = {f"index-{number:02}": {"shards": [copied("INDEX", 0, 1)]} for number in range(25)}
    found = {reading.of: reading.gauges["shards"] for reading in device.sample()}
    assert found == {**{f"index-{number:02}": 1 for number in range(20)}, "(others)": 5}


# disk-usage


@pytest.mark.parametrize(
    "version",
    [
        "elasticsearch-5.6.16",
        "elasticsearch-6.8.23",
        "elasticsearch-7.10.2",
        "elasticsearch-7.14.2",
        "opensearch-3.6.0",
    ],
)
def test_a_server_without_the_api_is_never_asked(version: str, tmp_path: Path) -> None:
    """5.x and 6.x would take the request for a new document."""
    cluster = RecordedCluster({})
    device = made(DiskUsage, cluster, tmp_path, version=version)
    with pytest.raises(Unseen, match=r"Elasticsearch can from 7\.15"):
        device.begin()
    assert device.end() == {}
    assert cluster.asked == []


@pytest.mark.parametrize("version", ["elasticsearch-7.17.29", "elasticsearch-8.19.4"])
def test_disk_usage_is_kept_by_index_and_field(version: str, tmp_path: Path) -> None:
    replies = recorded(version)
    nothing = {"_shards": {"total": 0, "successful": 0, "failed": 0}}
    cluster = RecordedCluster({"/orders/_disk_usage": replies["disk_usage"], "_disk_usage": nothing})
    device = made(DiskUsage, cluster, tmp_path / "logs", version=version, targets=("orders", "gone"))
    device.begin()
    end = device.end()
    (index,) = end["indices"]
    recorded_index = replies["disk_usage"]["orders"]
    assert index["index"] == "orders"
    assert index["store_bytes"] == recorded_index["store_size_in_bytes"]
    assert index["inverted_index_bytes"] == recorded_index["all_fields"]["inverted_index"]["total_in_bytes"]
    assert end["fields"][0]["field"] == "_source"
    fields = {field["field"]: field for field in end["fields"]}
    assert fields["_source"]["stored_fields_bytes"] == fields["_source"]["total_bytes"]
    assert set(fields["amount"]) == {"index", "field", "total_bytes", "doc_values_bytes", "points_bytes"}
    assert json.loads((tmp_path / "logs" / "disk-usage.json").read_text()) == {"orders": recorded_index}
    assert [one["flush"] for one in cluster.params] == [True, True]
    assert device.notes == []


def index_of_fields(count: int) -> dict[str, Any]:
    fields = {
        f"field-{number}": {
            "total_in_bytes": number,
            "inverted_index": {"total_in_bytes": 0},
            "doc_values_in_bytes": number,
        }
        for number in range(count)
    }
    total = sum(range(count))
    return {
        "store_size_in_bytes": total + 10,
        "all_fields": {"total_in_bytes": total, "doc_values_in_bytes": total},
        "fields": fields,
    }


def test_of_many_fields_the_largest_are_kept_and_the_others_summed() -> None:
    kept = usage({"wide": index_of_fields(150)})
    assert [field["field"] for field in kept["fields"]] == [f"field-{number}" for number in range(149, 49, -1)]
    others = {"count": 49, "total_bytes": sum(range(50)), "doc_values_bytes": sum(range(50))}
    assert kept["other_fields"] == others  # but the one without a byte


def test_of_many_indices_the_largest_are_kept_and_the_others_summed() -> None:
    kept = usage({f"index-{number}": index_of_fields(number) for number in range(2, 122)})
    assert [index["index"] for index in kept["indices"]] == [f"index-{number}" for number in range(121, 21, -1)]
    assert kept["other_indices"]["count"] == 20
    assert kept["other_indices"]["total_bytes"] == sum(sum(range(number)) for number in range(2, 22))


def test_shards_that_did_not_tell_are_said(tmp_path: Path) -> None:
    reply = {"_shards": {"total": 4, "successful": 3, "failed": 1}, "wide": index_of_fields(3)}
    device = made(DiskUsage, RecordedCluster({"_disk_usage": reply}), tmp_path, version="elasticsearch-8.19.4")
    device.begin()
    device.end()
    assert device.notes[0] == "orders: 1 of 4 shards did not answer: sizes are too small"


def test_an_index_that_cannot_be_had_leaves_the_others(tmp_path: Path) -> None:
    reply = {"_shards": {"total": 1, "successful": 1, "failed": 0}, "wide": index_of_fields(3)}
    cluster = RecordedCluster({"/bad/": ClusterError("took longer than 600 s"), "_disk_usage": reply})
    device = made(DiskUsage, cluster, tmp_path, version="elasticsearch-8.19.4", targets=("bad", "wide"))
    device.begin()
    assert [one["index"] for one in device.end()["indices"]] == ["wide"]
    assert device.notes == ["took longer than 600 s"]


def test_indices_that_were_deleted_are_said(tmp_path: Path) -> None:
    reply = {"_shards": {"total": 0, "successful": 0, "failed": 0}}
    device = made(DiskUsage, RecordedCluster({"_disk_usage": reply}), tmp_path, version="elasticsearch-8.19.4")
    device.begin()
    assert device.end() == {}
    assert device.notes == ["none of the indices is there at the end"]
