"""What a cluster says of itself before and after a race, from replies recorded on real nodes, and who disturbs one.

Recorded: nodes with `orders` and `other` (two shards each; on two nodes a replica of each); between the two moments of
`use` others wrote 100 documents to `other`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from esbench.cluster.client import _node_facts
from esbench.record.model import ClusterFacts, DiskFacts, ShardFacts
from esbench.telemetry.cluster_state import (
    IndexUse,
    Machine,
    Surroundings,
    Use,
    completed,
    described,
    disk_settings,
    health_of,
    machines_of,
    shards_of,
    use_of,
)
from esbench.telemetry.interference import disturbances, disturbed

RECORDED = sorted((Path(__file__).parents[2] / "recorded" / "telemetry").glob("cluster-*.json"))
GIB = 1 << 30


@pytest.fixture(params=RECORDED, ids=[path.stem for path in RECORDED])
def recorded(request: pytest.FixtureRequest) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(request.param.read_text())
    return found


def facts_of(recorded: Mapping[str, Any]) -> ClusterFacts:
    nodes = tuple(_node_facts(*node) for node in recorded["nodes"]["nodes"].items())
    return ClusterFacts("embedded", (), "elasticsearch", "7.10.2", nodes=nodes)


def test_a_node_says_what_it_runs_on_and_how_its_java_is_tuned(recorded: dict[str, Any]) -> None:
    facts = described(facts_of(recorded), Surroundings(machines=machines_of(recorded["machines"])))
    for node in facts.nodes:
        assert node.os.startswith(("Debian GNU/Linux 12", "Linux 6."))
        assert (node.arch, node.processors, node.heap_max_bytes) == ("amd64", 2, 512 << 20)
        assert {"-Xms512m", "-Xmx512m", "-XX:+UseG1GC"} <= set(node.jvm_flags)
        assert not any("/" in flag or flag.startswith("-D") for flag in node.jvm_flags)
        (disk,) = node.disks
        assert disk.type == "ext4"
        assert disk.spins is (True if recorded["version"].startswith("5.") else None)
        assert disk.total_bytes is not None
        assert disk.available_bytes is not None
        assert disk.total_bytes > disk.available_bytes > 0


def test_each_copy_of_a_shard_is_named_with_its_node(recorded: dict[str, Any]) -> None:
    facts = completed(facts_of(recorded), Surroundings(shards=shards_of(recorded["shards"])))
    copies = 2 if len(facts.nodes) == 2 else 1
    assert [(shard.index, shard.shard) for shard in facts.shards] == [
        ("orders", n) for n in (0, 1) for _ in range(copies)
    ]
    assert {shard.node for shard in facts.shards} == {node.name for node in facts.nodes}
    assert sum(shard.docs for shard in facts.shards if shard.primary) == 1500
    assert sum(sums["docs"] for sums in facts.shards_by_node.values()) == 1500 * copies
    assert sum(sums["primaries"] for sums in facts.shards_by_node.values()) == 2


def test_of_very_many_shards_only_the_sums_are_kept() -> None:
    many = tuple(ShardFacts("orders", number, True, "gone", 2, 10) for number in range(501))
    facts = completed(ClusterFacts("embedded", (), "elasticsearch", "7.10.2"), Surroundings(shards=many))
    assert facts.shards == ()
    assert facts.shards_by_node == {"gone": {"shards": 501, "primaries": 501, "docs": 1002, "store_bytes": 5010}}


def test_a_node_that_has_just_been_started_disturbs_nobody(recorded: dict[str, Any]) -> None:
    before = Surroundings(
        health=health_of(recorded["health"]),
        disk=disk_settings(recorded["settings"]),
        machines=machines_of(recorded["machines"]),
        use=use_of(recorded["use"][0]),
    )
    assert before.health["status"] == "green"
    assert before.disk["watermark.low"] == "85%"
    assert list(disturbances(before, before.use)) == []
    assert list(disturbed(before, before, ("orders",))) == []


def test_others_who_wrote_during_the_race_are_told_of(recorded: dict[str, Any]) -> None:
    then, now = (Use(at_s, use_of(reply).indices) for at_s, reply in zip((0.0, 50.0), recorded["use"], strict=True))
    (sentence,) = disturbed(Surroundings(use=then), Surroundings(use=now), ("orders",))
    expected = (
        "indices that are not the track's were used during the race, within 50.0 s: 100 documents written (other)"
    )
    assert sentence == expected
    assert list(disturbed(Surroundings(use=then), Surroundings(use=now), ("orders", "other"))) == []


def use(at_s: float, **indices: IndexUse) -> Use:
    return Use(at_s, {name.replace("_", "."): index for name, index in indices.items()})


def test_a_housekeeping_or_a_rare_request_is_no_disturbance() -> None:
    idle, busy = IndexUse(0, 0, 0, 0), IndexUse(500, 500, 500, 0)
    before = use(0.0, _monitoring=idle, shop=idle, reborn=busy)
    rare = use(100.0, _monitoring=busy, shop=IndexUse(3, 40, 20, 0), reborn=idle, new=busy)
    assert list(disturbances(Surroundings(use=rare), before)) == []
    often = use(10.0, shop=IndexUse(3, 40, 20, 0))
    (sentence,) = disturbances(Surroundings(use=often), before)
    assert sentence == (
        "something else used the cluster before the race, within 10.0 s: "
        "3 documents written, 40 shard queries, 20 gets (shop)"
    )


def test_races_that_are_meant_to_run_beside_this_one_disturb_nobody() -> None:
    idle, busy = IndexUse(0, 0, 0, 0), IndexUse(500, 500, 500, 2)
    streams = {".ds-side2-logs-000001": idle}
    before = Use(0.0, {"side2-orders": idle, "shop": idle, **streams})
    after = Use(10.0, dict.fromkeys(before.indices, busy))
    for sentences in (
        disturbances(Surroundings(use=after), before, ("side2-",)),
        disturbed(Surroundings(use=before), Surroundings(use=after), ("side1-orders",), ("side2-",)),
    ):
        assert all("(shop)" in sentence for sentence in sentences)
    assert any(".ds-side2-logs" in sentence for sentence in disturbances(Surroundings(use=after), before))


def test_running_merges_name_their_indices() -> None:
    merging = IndexUse(1, 0, 0, 2)
    (sentence,) = disturbances(
        Surroundings(use=use(0.0, a=merging, b=merging, c=merging, d=merging, e=IndexUse(1, 0, 0, 0)))
    )
    assert sentence.startswith("merges run before the race begins (a, b, c and 1 more)")


def test_what_is_wrong_with_the_shards_is_told() -> None:
    health = {"status": "yellow", "relocating_shards": 2, "initializing_shards": 1, "unassigned_shards": 1}
    assert list(disturbances(Surroundings(health=health))) == [
        "the cluster is yellow before the race: 1 shard is not assigned",
        "3 shards are moving or recovering before the race: that takes disk and network from it",
    ]
    settings = {"persistent": {"cluster": {"routing": {"allocation": {"enable": "none"}}}}}
    assert list(disturbances(Surroundings(settings=settings))) == [
        "cluster.routing.allocation.enable is none: not every shard will be allocated"
    ]


@pytest.mark.parametrize(
    ("watermark", "headroom", "free_gib", "is_told"),
    [
        ("85%", None, 14, True),
        ("85%", None, 16, False),
        ("0.85", None, 14, True),
        ("85%", "10gb", 14, False),
        ("85%", "10gb", 9, True),
        ("85%", "-1", 14, True),
        ("20gb", None, 19, True),
        ("20gb", None, 21, False),
        ("unheard of", None, 1, False),
    ],
)
def test_a_disk_beyond_its_low_watermark_is_told(
    watermark: str, headroom: str | None, free_gib: int, is_told: bool
) -> None:
    disk = DiskFacts("ext4", "/", 100 * GIB, free_gib * GIB)
    now = Surroundings(
        disk={"watermark.low": watermark, "watermark.low.max_headroom": headroom},
        machines={"n": Machine("node-0", None, (disk,))},
    )
    found = list(disturbances(now))
    assert bool(found) is is_told
    if is_told:
        assert found[0].startswith(
            f"node-0 has {free_gib}.0 GB of disk left, less than the low watermark ({watermark})"
        )
    for switch in ("threshold_enabled", "watermark.enable_for_single_data_node"):
        assert list(disturbances(replace(now, disk={**now.disk, switch: "false"}))) == []


def test_a_node_that_is_gone_is_missed() -> None:
    before = Surroundings(health={"status": "green", "nodes": 2})
    assert list(disturbed(before, Surroundings(health={"status": "red", "nodes": 1}), ())) == [
        "the cluster had 2 nodes before the race and 1 after it",
        "the cluster is red after the race: shards are missing",
    ]
    assert list(disturbed(before, Surroundings(), ())) == []
