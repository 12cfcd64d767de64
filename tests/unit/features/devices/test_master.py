"""The watch of the master: what is told when another node becomes it."""

from __future__ import annotations

from recorded_cluster import RecordedCluster, made

from esbench.features.devices.node_stats import MasterNodeStats

NAMES = {"nodes": {"a": {"name": "node-0"}, "b": {"name": "node-1"}}}


def test_readings_tell_who_became_the_master_and_who_is_it_no_more() -> None:
    cluster = RecordedCluster({"master_node": {"master_node": "a"}, "_nodes": NAMES})
    device = made(MasterNodeStats, cluster)
    device.begin()
    assert [(one.of, one.gauges["master"]) for one in device.sample()] == [("node-0", 1)]
    assert list(device.sample()) == []
    assert device.end_step(0, ("bulk",)) == {}
    cluster.replies["master_node"] = {"master_node": "b"}
    assert [(one.of, one.gauges["master"]) for one in device.sample()] == [("node-0", 0), ("node-1", 1)]
    assert device.end_step(1, ("get",)) == {"changes": 1}
    assert device.end_step(2, ("search",)) == {}
    assert device.end() == {"changes": 1, "masters": ["node-0", "node-1"]}
    assert device.notes == ["the master changed during the race: node-0, then node-1"]


def test_a_race_with_one_master_has_nothing_to_note() -> None:
    device = made(MasterNodeStats, RecordedCluster({"master_node": {"master_node": "a"}, "_nodes": NAMES}))
    device.sample()
    assert device.end() == {"changes": 0, "masters": ["node-0"]}
    assert device.notes == []
