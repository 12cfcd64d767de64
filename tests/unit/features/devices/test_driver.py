"""The watch of the driver's own host: what is read, and what is said of a task."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from idle_process import idle

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.features.devices.driver_host import DriverHost, Gains, cpu_reading, lowest_cards, lowest_disks
from esbench.telemetry.device import Reading, Scene, TaskSpan
from esbench.telemetry.series import SeriesOf

PARAMS = {param.name: param.default for param in DriverHost.params}
SPAN = TaskSpan("search", 9.0, 21.0, 10.0, 20.0)


def device(*workers: int) -> DriverHost:
    scene = Scene(Cluster(["http://127.0.0.1:1"]), ClusterInfo("elasticsearch", "7.10.2"), (), Path(), {}, workers)
    watch = DriverHost(scene, PARAMS)
    watch.begin()
    return watch


def read(watch: DriverHost) -> dict[tuple[str, str], Reading]:
    return {(reading.of, reading.group): reading for reading in watch.sample()}


def test_a_sample_has_what_vmstat_shows_and_esbenchs_processes() -> None:
    found = read(device(os.getppid()))
    assert {("host", group) for group in ("cpu", "load", "memory")} <= set(found)
    cpu, memory = found["host", "cpu"].counters, found["host", "memory"].gauges
    assert {"user_s", "system_s", "nice_s", "idle_s", "busy_s", "context_switches", "interrupts"} <= set(cpu)
    assert {"used_bytes", "available_bytes", "swap_used_bytes"} <= set(memory)
    assert found["parent", "process"].gauges["resident_bytes"] == pytest.approx(
        psutil.Process().memory_info().rss, rel=0.2
    )
    assert found["worker-0", "process"].counters["cpu_s"] is not None


def cpu(gains: Gains, **times: float) -> Mapping[str, float | None]:
    return cpu_reading(gains, SimpleNamespace(**times), SimpleNamespace(ctx_switches=7, interrupts=5)).counters


def test_time_in_which_a_cpu_has_nothing_to_do_is_not_busy() -> None:
    gains = Gains()
    cpu(gains, user=9.0, system=9.0, nice=9.0, iowait=9.0, irq=9.0, softirq=9.0, steal=9.0, idle=9.0, guest=9.0)
    assert cpu(
        gains, user=10.0, system=11.0, nice=12.0, iowait=13.0, irq=9.5, softirq=10.0, steal=9.25, idle=19.0, guest=9.5
    ) == {
        "user_s": 1.0,
        "system_s": 2.0,
        "nice_s": 3.0,
        "iowait_s": 4.0,
        "irq_s": 1.5,
        "steal_s": 0.25,
        "idle_s": 10.0,
        "busy_s": 7.75,
        "total_s": 21.75,
        "context_switches": 7,
        "interrupts": 5,
    }


def test_kinds_of_cpu_time_that_a_system_lacks_are_absent() -> None:
    assert set(cpu(Gains(), user=1.0, nice=0.0, system=1.0, idle=1.0)) == {
        *("user_s", "nice_s", "system_s", "idle_s", "busy_s", "total_s"),
        *("context_switches", "interrupts"),
    }


def test_a_counter_that_the_system_takes_back_never_falls() -> None:
    gains = Gains()
    assert [gains.total("iowait", {"iowait": value}) for value in (166.0, 167.0, 166.5, 168.0)] == [0, 1, 1, 2.5]


def test_what_a_network_card_had_counted_neither_comes_nor_goes_with_it() -> None:
    gains = Gains()
    seen = [{"eth0": 100, "veth1": 9000}, {"eth0": 150}, {"eth0": 160, "veth2": 7000}, {"eth0": 160, "veth2": 7001}]
    assert [gains.total("received", cards) for cards in seen] == [0, 50, 60, 61]


def test_what_a_disk_counts_is_not_counted_again_by_what_lies_upon_it(tmp_path: Path) -> None:
    for name in ("sda/slaves", "sdb/slaves", "dm-0/slaves/sda2", "md0/slaves/sda", "md0/slaves/sdb", "loop0/slaves"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "cciss!c0d0").mkdir()
    names = ["sda", "sda1", "sda2", "sdb", "dm-0", "md0", "loop0", "cciss/c0d0"]
    assert lowest_disks(names, tmp_path) == ["sda", "sdb", "cciss/c0d0"]
    assert lowest_disks(["disk0"], tmp_path / "not-linux") == ["disk0"]


def test_what_a_network_card_counts_is_not_counted_again_by_what_lies_upon_it(tmp_path: Path) -> None:
    for name in ("lo", "eth0", "eth1", "bond0/lower_eth0", "bond0/lower_eth1", "bond0.7/lower_bond0"):
        (tmp_path / name).mkdir(parents=True)
    assert lowest_cards(["lo", "eth0", "eth1", "bond0", "bond0.7"], tmp_path) == ["lo", "eth0", "eth1"]
    assert lowest_cards(["en0"], tmp_path / "not-linux") == ["en0"]


def test_a_worker_that_has_ended_is_told_and_costs_no_sample() -> None:
    with idle() as ended:
        watch = device(ended.pid)
        assert ("worker-0", "process") in read(watch)
    assert ("worker-0", "process") not in read(watch)
    assert ("parent", "process") in read(watch)
    assert watch.notes == [f"worker-0: process no longer exists (pid={ended.pid})"]
    assert device(ended.pid).notes == [f"worker-0: process PID not found (pid={ended.pid})"]


def series(gauges: dict[str, list[float]], counters: dict[str, list[float]]) -> SeriesOf:
    made = SeriesOf()
    columns = (gauges or counters).values()
    for number in range(len(next(iter(columns)))):
        made.add(
            5.0 + 5.0 * number,
            {name: values[number] for name, values in gauges.items()},
            {name: values[number] for name, values in counters.items()},
        )
    return made


def test_a_tasks_figures_are_of_its_window() -> None:
    watch = device()
    still = [0.0] * 5
    # Of the four spans of 5 s, at 5, 10, 15, 20 and 25 s, the two in the middle are the window's.
    seen = watch.of_task(
        SPAN,
        {
            ("host", "cpu"): series(
                {},
                {
                    "busy_s": [0.0, 10.0, 12.0, 18.0, 28.0],
                    "user_s": [0.0, 9.0, 11.0, 15.0, 25.0],
                    "idle_s": [0.0, 0.0, 8.0, 12.0, 12.0],
                    "total_s": [0.0, 10.0, 20.0, 30.0, 40.0],
                },
            ),
            ("host", "load"): series({"load_1m": [0.1, 0.2, 0.3, 0.4, 9.0]}, {}),
            ("host", "memory"): series(
                {"used_bytes": [900.0, 10.0, 30.0, 20.0, 900.0]},
                {"swap_in_bytes": [0.0, 0.0, 0.0, 4096.0, 4096.0], "swap_out_bytes": [7.0] * 5},
            ),
            ("host", "disk"): series({}, {"read_bytes": [0.0, 1024.0, 2048.0, 3073024.0, 9e9], "written_bytes": still}),
            ("host", "network"): series(
                {}, {"received_bytes": [0.0, 5.0, 100005.0, 204805.0, 9e9], "sent_bytes": still}
            ),
            ("worker-0", "process"): series({}, {"cpu_s": [0.0, 1.0, 5.0, 10.0, 10.0]}),
        },
    )
    assert seen == {
        "cpu_percent": {"user": 30.0, "idle": 60.0},
        "busy_percent": {"mean": 40.0, "peak": 60.0},
        "load_1m": 0.4,
        "memory_used_peak_bytes": 30,
        "swap_in_bytes": 4096,
        "swap_out_bytes": 0,
        "disk_read_kb_per_s": 300.0,
        "disk_written_kb_per_s": 0.0,
        "network_received_kb_per_s": 20.0,
        "network_sent_kb_per_s": 0.0,
        "process_core_percent": {"worker-0": 90.0},
    }


def test_what_was_not_read_is_not_said() -> None:
    assert device().of_task(SPAN, {}) == {}
