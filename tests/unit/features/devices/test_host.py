"""The watch of the nodes' own processes: what is read of one, and what is said of a task."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

import psutil
import pytest
from idle_process import idle

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.features.devices.host import HostUsage, disk_io, major_faults
from esbench.telemetry.device import Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

PARAMS = {param.name: param.default for param in HostUsage.params}
SPAN = TaskSpan("bulk", 0.0, 10.0, 0.0, 10.0)


def device(**pids: int) -> HostUsage:
    scene = Scene(Cluster(["http://127.0.0.1:1"]), ClusterInfo("elasticsearch", "7.10.2"), (), Path(), pids)
    watch = HostUsage(scene, PARAMS)
    watch.begin()
    return watch


def by_name(readings: Iterable[Reading]) -> dict[str, Reading]:
    return {reading.of: reading for reading in readings}


def test_a_process_is_read_as_the_system_counts_it() -> None:
    found = by_name(device(node=os.getpid()).sample())["node"]
    assert found.gauges["threads"] == psutil.Process().num_threads()
    assert found.gauges["memory_percent"] == pytest.approx(psutil.Process().memory_percent(), rel=0.2)
    assert found.counters["cpu_s"] == pytest.approx((found.counters["user_s"] or 0) + (found.counters["system_s"] or 0))
    assert {"voluntary_switches", "involuntary_switches"} <= set(found.counters)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="the I/O of a process is told by Linux")
def test_disk_io_and_page_faults_are_counted_where_they_are_told() -> None:
    found = by_name(device(node=os.getpid()).sample())["node"]
    assert {"read_bytes", "written_bytes", "reads", "writes", "major_faults"} <= set(found.counters)


def test_a_node_that_ended_after_the_last_sample_is_told() -> None:
    with idle() as ended:
        watch = device(a=ended.pid, b=os.getpid())
        assert list(watch.sample())
    assert watch.end() == {}
    assert watch.notes == [f"a: process no longer exists (pid={ended.pid})"]


def test_a_node_that_ends_is_told_and_the_last_one_ends_the_watch() -> None:
    with idle() as ended:
        watch, alone = device(a=ended.pid, b=os.getpid()), device(a=ended.pid)
        assert {"a", "b"} <= set(by_name(watch.sample()))
    assert set(by_name(watch.sample())) >= {"b"}
    assert watch.notes == [f"a: process no longer exists (pid={ended.pid})"]
    with pytest.raises(Unseen, match="no process of a node left"):
        list(alone.sample())
    assert device(a=ended.pid).notes == [f"a: process PID not found (pid={ended.pid})"]


class Refusing(psutil.Process):
    def io_counters(self) -> NoReturn:
        raise psutil.AccessDenied(self.pid)


def test_io_that_is_not_ours_to_see_is_told() -> None:
    with pytest.raises(Unseen, match=rf"/proc/{os.getpid()}/io is for root and the node's own user"):
        disk_io(Refusing())


def test_page_faults_are_found_after_a_name_with_blanks_and_brackets(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "stat").write_text("7 (a) b (c)) S 1 7 7 0 -1 4194560 1000 20 41 3 11 12 0 0 20 0 9 0 5\n")
    assert major_faults(7, tmp_path) == 41
    assert major_faults(8, tmp_path) is None


def test_a_tasks_figures_are_of_each_node() -> None:
    process, cache = SeriesOf(), SeriesOf()
    for number in range(3):
        cache.add(5.0 * number, {"cached_bytes": 100.0 + number}, {})
        process.add(
            5.0 * number,
            {"memory_percent": 10.0 + number, "resident_bytes": 500.0 - number, "threads": 40.0},
            {
                "cpu_s": 6.0 * number**2,
                "system_s": 1.0 * number,
                "written_bytes": 1024000.0 * number,
                "read_bytes": 0.0,
                "major_faults": 3.0 * number,
            },
        )
    assert device().of_task(SPAN, {("node-0", "process"): process, ("host", "memory"): cache}) == {
        "by_node": {
            "node-0": {
                "cpu_core_percent": {"mean": 240.0, "peak": 360.0},
                "system_core_percent": 20.0,
                "memory_percent": 12.0,
                "resident_peak_bytes": 500,
                "threads": 40,
                "disk_read_kb_per_s": 0.0,
                "disk_written_kb_per_s": 200.0,
                "written_bytes": 2048000,
                "major_faults": 6,
            }
        },
        "page_cache_bytes": 102,
    }
    assert device().of_task(SPAN, {}) == {}
