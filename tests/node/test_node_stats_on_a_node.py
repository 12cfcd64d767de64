"""The devices that read nodes, on a real one: every section is told, and CPU is what the operating system counts."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from esbench.cluster.client import Cluster
from esbench.features.devices.node_figures import ALL, ALWAYS
from esbench.features.devices.node_stats import Nodes, NodeStats
from esbench.telemetry.device import Reading, Scene

pytestmark = pytest.mark.node
EVERYTHING = {param.name: True if param.kind == "flag" else param.default for param in NodeStats.params}


def read(device: Nodes) -> dict[str, Reading]:
    return {reading.group: reading for reading in device.sample()}


def test_a_node_tells_every_section(url: str) -> None:
    with Cluster([url]) as cluster:
        scene = Scene(cluster, cluster.info(), (), Path())
        few, all_ = read(Nodes(scene, {})), read(NodeStats(scene, EVERYTHING))
    assert set(few) == {figures.section for figures in ALWAYS}
    assert set(all_) == {figures.section for figures in ALL}
    for reading in (*few.values(), *all_.values()):
        assert {reading.of} == {"node-0"}
        assert None not in (*reading.gauges.values(), *reading.counters.values())


def test_the_cpu_of_a_node_is_that_of_its_process(url: str) -> None:
    with Cluster([url]) as cluster:
        (node,) = cluster.request("GET", "/_nodes/process")["nodes"].values()
        process = psutil.Process(node["process"]["id"])
        device = Nodes(Scene(cluster, cluster.info(), (), Path()), {})
        before = process.cpu_times()
        time.sleep(1.1)  # a server measures anew after a second
        told_ms = read(device)["process"].counters["cpu_ms"]
        after = process.cpu_times()
    assert told_ms is not None
    assert 1000 * sum(before[:2]) - 10 <= told_ms <= 1000 * sum(after[:2]) + 10
