"""The cluster's counters over a race, from replies recorded on real nodes.

The recorded race: `orders` is deleted and created anew (five bulks of 4,000 documents, a refresh after each, a
force-merge); `kept` held 3,000 documents before it and gets five bulks of 1,000 and a flush; both have two shards.
In `recorded_telemetry` are others: `orders` (two shards; on two nodes a replica of each) gets 1,000 documents more, 30
searches, 20 gets of documents that it has and 5 of such that it has not.
"""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from races import golden_race

from esbench.record.figures import figures
from esbench.telemetry.statistics import Snapshot, difference, indices_of, joined, nodes_of, work

RECORDED = sorted((Path(__file__).parents[2] / "recorded" / "statistics").glob("*.json"))
WITH_READS = sorted((Path(__file__).parents[2] / "recorded" / "telemetry").glob("statistics-*.json"))
ACTIVITIES = ("indexing", "indexing_throttle", "merge", "merge_throttle", "refresh", "flush")
WITH_HEAP = ("elasticsearch-5", "elasticsearch-6", "elasticsearch-7")


def load(path: Path) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads(path.read_text())
    return recorded


def taken(moment: dict[str, Any]) -> Snapshot:
    return replace(indices_of(moment["settings"], moment["stats"]), nodes=nodes_of(moment["nodes"]))


def of_nodes(reply: dict[str, Any]) -> Snapshot:
    return Snapshot(nodes=nodes_of(reply))


@pytest.fixture(params=RECORDED, ids=[path.stem for path in RECORDED])
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    return load(request.param)


@pytest.fixture
def race() -> dict[str, Any]:
    return load(next(path for path in RECORDED if path.stem == "elasticsearch-7.10.2"))


@pytest.fixture(params=WITH_READS, ids=[path.stem for path in WITH_READS])
def read(request: pytest.FixtureRequest) -> dict[str, Any]:
    return load(request.param)


@pytest.fixture
def two_nodes() -> dict[str, Any]:
    return load(next(path for path in WITH_READS if path.stem.endswith("two")))


def marked_as_of_nodes(before: Snapshot, after: Snapshot) -> set[bool]:
    """Whether the rows of these statistics count all that the nodes did."""
    facts = replace(golden_race().clusters["default"], statistics=difference(before, after))
    return {each.of_nodes for each in figures(golden_race(clusters={"default": facts}, tasks=()))}


def test_rows_of_nodes_are_known_from_those_of_the_races_indices(recorded: dict[str, Any]) -> None:
    before, after = taken(recorded["before"]), taken(recorded["after"])
    assert after.nodes
    nodes = {
        node: {**counters, ("rejected", "write"): 1 + counters.get(("rejected", "write"), 0)}
        for node, counters in after.nodes.items()
    }
    assert marked_as_of_nodes(replace(before, shards=None, sizes={}), Snapshot(nodes=nodes)) == {True}
    assert marked_as_of_nodes(replace(before, nodes=None), replace(after, nodes=None)) == {False}


def primaries(moment: dict[str, Any], index: str, section: str, field: str) -> int:
    value: int = moment["stats"]["indices"][index]["primaries"][section][field]
    return value


def test_recordings_of_every_generation_are_there() -> None:
    assert [path.stem.rpartition(".")[0].partition(".")[0] for path in RECORDED] == [
        "elasticsearch-5",
        "elasticsearch-6",
        "elasticsearch-7",
        "elasticsearch-7",
        "elasticsearch-8",
        "opensearch-2",
        "opensearch-3",
    ]


@pytest.mark.parametrize(
    ("name", "section", "field"),
    [
        ("indexing_time_ms", "indexing", "index_time_in_millis"),
        ("merge_time_ms", "merges", "total_time_in_millis"),
        ("merge_count", "merges", "total"),
        ("refresh_time_ms", "refresh", "total_time_in_millis"),
        ("refresh_count", "refresh", "total"),
        ("flush_time_ms", "flush", "total_time_in_millis"),
        ("flush_count", "flush", "total"),
    ],
)
def test_an_index_born_in_the_race_counts_whole_and_an_older_one_its_difference(
    recorded: dict[str, Any], name: str, section: str, field: str
) -> None:
    before, after = recorded["before"], recorded["after"]
    expected = (
        primaries(after, "orders", section, field)
        + primaries(after, "kept", section, field)
        - primaries(before, "kept", section, field)
    )
    assert difference(taken(before), taken(after))[name]["value"] == expected


def test_nothing_is_negative_though_an_index_was_deleted_and_created_anew(recorded: dict[str, Any]) -> None:
    before, after = recorded["before"], recorded["after"]
    uuids = [moment["settings"]["orders"]["settings"]["index"]["uuid"] for moment in (before, after)]
    assert uuids[0] != uuids[1]
    assert all(figure["value"] >= 0 for figure in difference(taken(before), taken(after)).values())


def test_the_order_is_that_of_rallys_summary(recorded: dict[str, Any]) -> None:
    figures = difference(taken(recorded["before"]), taken(recorded["after"]))
    expected = []
    for activity in ACTIVITIES:
        expected.append(f"Cumulative {activity.replace('_', ' ')} time of primary shards")
        if activity in ("merge", "refresh", "flush"):
            expected.append(f"Cumulative {activity} count of primary shards")
        expected += [
            f"{which} cumulative {activity.replace('_', ' ')} time across primary shards"
            for which in ("Min", "Median", "Max")
        ]
    collectors = ["Young Gen", "Old Gen"]
    if "g1_concurrent_gc_time_ms" in figures:
        collectors.append("G1 Concurrent")
    expected += [f"Total {name} GC {what}" for name in collectors for what in ("time", "count")]
    if "dataset_size_bytes" in figures:
        expected.append("Dataset size")
    expected += ["Store size", "Translog size"]
    if f"{recorded['distribution']}-{recorded['version']}".startswith(WITH_HEAP):
        parts = ("segments", "doc values", "terms", "norms", "points", "stored fields")
        expected += [f"Heap used for {part}" for part in parts]
    rows = [figure["label"] for figure in figures.values() if figure.get("row", True)]
    assert rows == [*expected, "Segment count"]
    assert {figure["unit"] for figure in figures.values()} == {"ms", "bytes", ""}


def test_shards_are_summed_and_ranked(race: dict[str, Any]) -> None:
    before, after = race["before"], race["after"]
    figures = difference(taken(before), taken(after))
    per_shard = []
    for index in ("orders", "kept"):
        for number, copies in after["stats"]["indices"][index]["shards"].items():
            value = copies[0]["indexing"]["index_time_in_millis"]
            if index == "kept":
                then = before["stats"]["indices"][index]["shards"][number][0]
                value -= then["indexing"]["index_time_in_millis"]
            per_shard.append(value)
    per_shard.sort()
    assert len(per_shard) == 4
    assert figures["indexing_time_ms"]["value"] == sum(per_shard)
    assert figures["indexing_time_per_shard_min_ms"]["value"] == per_shard[0]
    assert figures["indexing_time_per_shard_median_ms"]["value"] == (per_shard[1] + per_shard[2]) / 2
    assert figures["indexing_time_per_shard_max_ms"]["value"] == per_shard[3]


def test_the_work_of_a_step_is_the_counters_part_of_the_difference(recorded: dict[str, Any]) -> None:
    before, after = taken(recorded["before"]), taken(recorded["after"])
    found, whole = work(before, after), difference(before, after)
    assert {"indexing_time_ms", "refresh_count", "merge_time_ms", "flush_count", "young_gc_count"} <= found.keys()
    counted = {name: value for name, value in found.items() if "_gained" not in name and name != "segments"}
    assert all(value == whole[name]["value"] if name in whole else value == 0 for name, value in counted.items())
    assert not any("per_shard" in name or name.endswith("size_bytes") or name == "segment_count" for name in found)
    assert {name for name, value in work(after, after).items() if value} == {"segments"}


def test_reads_are_counted_where_they_ran_and_writes_once(read: dict[str, Any]) -> None:
    before, after = taken(read["before"]), taken(read["after"])
    found, whole = work(before, after), difference(before, after)
    assert found["indexing_count"] == 1000  # not twice with a replica
    assert found["search_query_count"] == 60  # each of two shards is asked once, whichever its copies
    assert 30 <= found["search_fetch_count"] <= 60
    assert (found["get_count"], found["get_missing_count"]) == (25, 5)
    assert found["indexing_failed_count"] == 0
    assert "indexing_failed_count" not in whole
    assert whole["search_query_time_ms"]["value"] == found["search_query_time_ms"] > 0


def test_of_what_rally_has_not_only_what_says_something_becomes_a_row_after_its_rows(read: dict[str, Any]) -> None:
    figures = difference(taken(read["before"]), taken(read["after"]))
    labels = [figure["label"] for figure in figures.values() if figure.get("row", True)]
    assert labels[labels.index("Segment count") + 1 :] == [
        "Query time of all shard copies",
        "Fetch time of all shard copies",
        "Get time of all shard copies",
        "Count of gets that found nothing",
    ]


def test_what_a_step_let_the_store_and_the_translog_grow_by(race: dict[str, Any]) -> None:
    before, after = race["before"], race["after"]
    found = work(taken(before), taken(after))
    for name, section, size in (
        ("store_gained_bytes", "store", "size_in_bytes"),
        ("translog_gained_bytes", "translog", "size_in_bytes"),
    ):
        sums = [
            sum(i["total"][section][size] for i in moment["stats"]["indices"].values()) for moment in (before, after)
        ]
        assert found[name] == sums[1] - sums[0]
    assert found["segments_gained"] == work(Snapshot(shards={}), taken(after))["segments_gained"] - sum(
        index["primaries"]["segments"]["count"] for index in before["stats"]["indices"].values()
    )


def test_a_replica_that_became_the_primary_counts_what_it_did_in_the_race(two_nodes: dict[str, Any]) -> None:
    before, after = two_nodes["before"], copy.deepcopy(two_nodes["after"])
    usual = work(taken(before), taken(after))
    for copies in after["stats"]["indices"]["orders"]["shards"].values():
        (lost,) = [each for each in copies if each["routing"]["primary"]]
        copies.remove(lost)
        copies[0]["routing"]["primary"] = True
    found = work(taken(before), taken(after))
    assert found["indexing_count"] == usual["indexing_count"] == 1000
    assert found["search_query_count"] < usual["search_query_count"]  # what the lost copies answered went with them


def pools(rejected: int, uptime_ms: int) -> dict[str, Any]:
    reply = collectors(0, 0, uptime_ms)
    reply["nodes"]["n"]["thread_pool"] = {"write": {"rejected": rejected}, "get": {"rejected": 0}, "odd": {}}
    return reply


def test_rejections_are_told_by_pool_where_there_were_any() -> None:
    before, after = of_nodes(pools(3, 1_000)), of_nodes(pools(10, 2_000))
    found = difference(before, after)["write_rejected_count"]
    assert found == {"label": "Rejections of thread pool write", "value": 7, "unit": ""}
    assert "get_rejected_count" not in work(before, after)
    assert work(before, of_nodes(pools(10, 500)))["write_rejected_count"] == 10  # its node began anew


def test_what_was_not_told_before_is_not_taken_for_zero(race: dict[str, Any]) -> None:
    assert work(Snapshot(), taken(race["after"])) == {}
    assert "refresh_count" not in difference(Snapshot(), taken(race["after"]))


def test_sizes_and_segments_are_those_at_the_end(recorded: dict[str, Any]) -> None:
    figures = difference(taken(recorded["before"]), taken(recorded["after"]))
    indices = recorded["after"]["stats"]["indices"].values()
    assert figures["store_size_bytes"]["value"] == sum(i["total"]["store"]["size_in_bytes"] for i in indices)
    assert figures["segment_count"]["value"] == sum(i["primaries"]["segments"]["count"] for i in indices)


def test_a_shard_whose_counters_fell_began_anew_and_counts_whole(race: dict[str, Any]) -> None:
    before, after = race["before"], copy.deepcopy(race["after"])
    for copies in after["stats"]["indices"]["kept"]["shards"].values():
        copies[0]["indexing"]["index_time_in_millis"] = 1
        copies[0]["refresh"]["total"] = 2
    figures = difference(taken(before), taken(after))
    orders = after["stats"]["indices"]["orders"]["shards"].values()
    assert figures["indexing_time_ms"]["value"] == 2 + sum(
        copies[0]["indexing"]["index_time_in_millis"] for copies in orders
    )
    assert figures["refresh_count"]["value"] == 4 + sum(copies[0]["refresh"]["total"] for copies in orders)


def test_replicas_do_not_count_as_primary_shards(race: dict[str, Any]) -> None:
    with_replica = copy.deepcopy(race["after"])
    for copies in with_replica["stats"]["indices"]["orders"]["shards"].values():
        replica = copy.deepcopy(copies[0])
        replica["routing"] = {**replica["routing"], "primary": False, "node": "other"}
        copies.append(replica)
    before = taken(race["before"])
    with_replicas, without = difference(before, taken(with_replica)), difference(before, taken(race["after"]))
    assert with_replicas == without


def collectors(time_ms: int, count: int, uptime_ms: int, **more: dict[str, int]) -> dict[str, Any]:
    young = {"collection_time_in_millis": time_ms, "collection_count": count}
    return {"nodes": {"n": {"jvm": {"uptime_in_millis": uptime_ms, "gc": {"collectors": {"young": young, **more}}}}}}


def test_collections_are_a_difference_and_those_of_a_restarted_node_count_whole() -> None:
    before = of_nodes(collectors(100, 10, 60_000))
    assert difference(before, of_nodes(collectors(150, 12, 90_000))) == {
        "young_gc_time_ms": {"label": "Total Young Gen GC time", "value": 50, "unit": "ms"},
        "young_gc_count": {"label": "Total Young Gen GC count", "value": 2, "unit": ""},
    }
    restarted = difference(before, of_nodes(collectors(110, 4, 5_000)))
    assert (restarted["young_gc_time_ms"]["value"], restarted["young_gc_count"]["value"]) == (110, 4)


def test_a_node_that_ran_before_but_was_not_there_does_not_count_its_whole_life() -> None:
    before, after = collectors(100, 10, 60_000), collectors(150, 12, 90_000)
    jvm = after["nodes"]["n"]["jvm"]
    for name, uptime_ms in (("back", 30_001), ("new", 29_000)):
        after["nodes"][name] = {"jvm": {**jvm, "uptime_in_millis": uptime_ms}}
    taken_before, taken_after = of_nodes(before), of_nodes(after)
    assert joined(taken_before, taken_after) == {"back"}
    assert work(taken_before, taken_after)["young_gc_time_ms"] == 50 + 150
    assert joined(taken_before, taken_before) == joined(Snapshot(), taken_after) == set()


def test_other_collectors_keep_the_names_of_the_jvm() -> None:
    cycles = {"collection_time_in_millis": 7, "collection_count": 3}
    reply = collectors(0, 0, 1, **{"ZGC Cycles": cycles, "ZGC Pauses": cycles})
    labels = [figure["label"] for figure in difference(of_nodes(reply), of_nodes(reply)).values()]
    assert labels[2:] == [
        "Total ZGC Cycles GC time",
        "Total ZGC Cycles GC count",
        "Total ZGC Pauses GC time",
        "Total ZGC Pauses GC count",
    ]


def test_what_the_cluster_did_not_tell_has_no_rows(race: dict[str, Any]) -> None:
    before, after = taken(race["before"]), taken(race["after"])
    only_nodes = difference(Snapshot(), of_nodes(race["after"]["nodes"]))
    assert only_nodes == {}  # without a beginning there is no difference
    assert "young_gc_time_ms" not in difference(before, Snapshot(shards=after.shards))
    assert difference(before, Snapshot()) == {}


def test_indices_that_were_all_deleted_leave_no_rows(race: dict[str, Any]) -> None:
    gone = replace(indices_of({}, {"indices": {}}), nodes=nodes_of(race["after"]["nodes"]))
    assert all(name.endswith(("gc_time_ms", "gc_count")) for name in difference(taken(race["before"]), gone))
