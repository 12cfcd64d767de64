"""What the nodes did during a task, from series that are known."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.features.devices.node_aggregates import of_task
from esbench.telemetry.device import TaskSpan
from esbench.telemetry.series import SeriesOf

SPAN = TaskSpan("get", 8.0, 21.0, 10.0, 20.0)
SeriesByGroup = dict[tuple[str, str], SeriesOf]


def series(seconds: int, gauges: Any = None, counters: Any = None, first: int = 0) -> SeriesOf:
    """A reading a second; gauges and counters are functions of the second, or steady values and rates."""
    of = SeriesOf()
    for second in range(first, seconds):
        of.add(
            float(second),
            {name: value(second) if callable(value) else value for name, value in (gauges or {}).items()},
            {name: value(second) if callable(value) else value * second for name, value in (counters or {}).items()},
        )
    return of


def node(name: str, cpu_ms_per_s: float, seconds: int = 30, first: int = 0) -> SeriesByGroup:
    return {
        (name, "process"): series(seconds, counters={"cpu_ms": cpu_ms_per_s}, first=first),
        (name, "os"): series(seconds, {"load_1m": lambda second: second / 10, "memory_used_bytes": 4e9}, first=first),
        (name, "jvm"): series(
            seconds, {"heap_used_percent": 40}, {"gc_ms": 12, "gc_count": 0.5, "young_gc_ms": 12}, first=first
        ),
        (name, "thread_pool"): series(seconds, counters={"rejected": 3}, first=first),
    }


def test_the_figures_of_one_node() -> None:
    assert of_task(SPAN, node("node-0", 1500)) == {
        "nodes": 1,
        "cpu_core_percent": {"mean": 150.0, "peak": 150.0},
        "load_1m": {"last": 2.1, "peak": 2.1},
        "heap_used_percent": {"mean": 40.0, "peak": 40.0},
        "os_memory_used_bytes": {"mean": 4_000_000_000, "peak": 4_000_000_000},
        "gc_time_ms": 120,
        "gc_count": 5,
        "rejections": 30,
        "by_node": {
            "node-0": {
                "cpu_core_percent": 150.0,
                "load_1m": 2.1,
                "heap_used_percent": 40.0,
                "gc_time_ms": 120,
                "rejections": 30,
            }
        },
    }


def test_of_several_nodes_rates_are_means_peaks_the_highest_and_counts_sums() -> None:
    found = of_task(SPAN, {**node("node-0", 1000), **node("node-1", 500)})
    assert found["nodes"] == 2
    assert found["cpu_core_percent"] == {"mean": 75.0, "peak": 100.0}
    assert found["heap_used_percent"] == {"mean": 40.0, "peak": 40.0}
    assert (found["gc_time_ms"], found["gc_count"], found["rejections"]) == (240, 10, 60)
    assert {name: figures["cpu_core_percent"] for name, figures in found["by_node"].items()} == {
        "node-0": 100.0,
        "node-1": 50.0,
    }


def test_what_all_nodes_say_of_themselves_adds_the_disk_and_connections() -> None:
    found = of_task(
        SPAN,
        {
            ("node-0", "fs"): series(30, counters={"read_kb": 10, "written_kb": lambda second: 100.0 * second}),
            ("node-0", "http"): series(30, {"connections": lambda second: 5 + second}),
            ("node-0", "transport"): series(30, {"connections": 99}),
        },
    )
    assert found == {
        "nodes": 1,
        "disk_read_kb_per_s": {"mean": 10.0, "peak": 10.0},
        "disk_written_kb_per_s": {"mean": 100.0, "peak": 100.0},
        "http_connections": {"peak": 25},
        "by_node": {"node-0": {}},
    }


def test_what_was_not_read_is_absent() -> None:
    assert of_task(SPAN, {}) == {}
    assert of_task(SPAN, {("node-0", "process"): SeriesOf()}) == {}
    without_load = {key: of for key, of in node("node-0", 100).items() if key[1] != "os"}
    found = of_task(SPAN, without_load)
    assert "load_1m" not in found
    assert "os_memory_used_bytes" not in found
    assert found["cpu_core_percent"]["mean"] == 10.0


def test_a_node_that_left_before_the_task_is_none_of_its_nodes() -> None:
    found = of_task(SPAN, {**node("node-0", 1000), **node("gone", 2000, seconds=8)})
    assert found["nodes"] == 1
    assert found["cpu_core_percent"]["mean"] == 100.0


def test_a_node_that_came_late_counts_for_the_time_that_it_was_there() -> None:
    found = of_task(SPAN, {**node("node-0", 1000), **node("late", 2000, first=14)})
    assert found["cpu_core_percent"]["mean"] == pytest.approx(150.0)
    too_late = of_task(SPAN, {**node("node-0", 1000), **node("late", 2000, first=17)})
    assert too_late["cpu_core_percent"]["mean"] == 100.0  # it was there for less than half of the window


def test_what_ran_before_and_after_a_task_plays_no_part_in_its_cpu() -> None:
    """Idle until 10.5 and from 19.5 on, one core in between; the server measures at whole seconds."""
    busy = {("node-0", "process"): series(30, counters={"cpu_ms": lambda second: 1000 * min(max(second - 10.5, 0), 9)})}
    assert of_task(TaskSpan("get", 10.5, 19.5, 10.5, 19.5), busy)["cpu_core_percent"] == {"mean": 100.0, "peak": 100.0}


def test_a_task_between_two_readings_has_no_figures_of_its_own() -> None:
    assert of_task(TaskSpan("get", 10.2, 10.8, 10.2, 10.8), node("node-0", 1000)) == {}
    found = of_task(TaskSpan("get", 10.2, 13.8, 10.2, 13.8), node("node-0", 1000))
    assert found["cpu_core_percent"] == {"mean": 100.0, "peak": 100.0}


def test_only_the_busiest_nodes_of_a_large_cluster_are_told_one_by_one() -> None:
    many: SeriesByGroup = {}
    for number in range(30):
        many.update(node(f"node-{number:02}", 10 * number))
    found = of_task(SPAN, many)
    assert found["nodes"] == 30
    assert list(found["by_node"]) == [f"node-{number}" for number in range(20, 30)]
    assert found["cpu_core_percent"] == {"mean": 14.5, "peak": 29.0}
