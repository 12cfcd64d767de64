"""Aggregates of the nodes' figures over a task, from the series of either node device. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from statistics import fmean
from typing import Any

from esbench.telemetry.device import TaskSpan
from esbench.telemetry.series import SeriesOf

# The gauges and counters that are looked at, of any group.
COLUMNS = frozenset(
    {
        "cpu_ms",
        "load_1m",
        "memory_used_bytes",
        "heap_used_percent",
        "gc_ms",
        "gc_count",
        "rejected",
        "read_kb",
        "written_kb",
        "connections",
    }
)
_CORE_PERCENT = 0.1  # of a counter of ms: 1,000 ms per second are 100 % of a core
_NODES_AT_MOST = 10  # listed one by one, those with the most CPU: a record stays small in large clusters
_OF_EACH_NODE = ("cpu_core_percent", "load_1m", "heap_used_percent", "gc_time_ms", "rejections")
_DIGITS = {  # of the others none
    "cpu_core_percent": 1,
    "load_1m": 2,
    "heap_used_percent": 1,
    "disk_read_kb_per_s": 1,
    "disk_written_kb_per_s": 1,
}
_OF_ALL_NODES: Mapping[str, Callable[[Iterable[float]], float]] = {
    "mean": fmean,
    "last": fmean,
    "peak": max,
    "gained": sum,
}

_Node = Mapping[str, Mapping[str, float]]  # figure -> mean, peak, last or gained -> value, where it is known


def of_task(span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> dict[str, Any]:
    """Return aggregates over a task's measurement window; figures that no node has reported are absent.

    `cpu_core_percent` is the difference of process.cpu.total_in_millis over wall time, in percent of one core. `mean`
    and `last` are means over the nodes, `peak` is the highest of any node, and gains of counters are added up.
    """
    names = sorted({of for of, _ in series})
    nodes = {name: node for name in names if (node := _node(span, name, series))}
    if not nodes:
        return {}
    return {"nodes": len(nodes), **_told(_together(nodes.values())), "by_node": _by_node(nodes)}


def _node(span: TaskSpan, name: str, series: Mapping[tuple[str, str], SeriesOf]) -> _Node:
    window = (span.window_start_s, span.window_end_s)
    process, system, jvm, pools, disk, http = (
        series.get((name, group), SeriesOf()) for group in ("process", "os", "jvm", "thread_pool", "fs", "http")
    )
    # The last load that was read before the task is not the task's.
    load = system.peak("load_1m", span.begun_s, span.ended_s)
    figures: dict[str, dict[str, float | None]] = {
        "cpu_core_percent": _rates(process, "cpu_ms", window, _CORE_PERCENT),
        "load_1m": {"last": None if load is None else system.last("load_1m", span.ended_s), "peak": load},
        "heap_used_percent": _mean_and_peak(jvm, "heap_used_percent", window),
        "os_memory_used_bytes": _mean_and_peak(system, "memory_used_bytes", window),
        "gc_time_ms": _gained(jvm, "gc_ms", window),
        "gc_count": _gained(jvm, "gc_count", window),
        "rejections": _gained(pools, "rejected", window),
        "disk_read_kb_per_s": _rates(disk, "read_kb", window),
        "disk_written_kb_per_s": _rates(disk, "written_kb", window),
        "http_connections": {"peak": http.peak("connections", *window)},
    }
    return {
        figure: known
        for figure, values in figures.items()
        if (known := {kind: value for kind, value in values.items() if value is not None})
    }


def _rates(of: SeriesOf, counter: str, window: tuple[float, float], factor: float = 1.0) -> dict[str, float | None]:
    """Return a counter's mean and peak rate times `factor`, from readings in the window alone.

    Servers measure once a second, and a reading before the window may include the end of another task.
    """
    inside = of.inside(*window)
    mean = inside.rate(counter, *window)
    peak = None if mean is None else inside.peak_rate(counter, *window)
    return {
        "mean": None if mean is None else mean * factor,
        "peak": None if peak is None else peak * factor,
    }


def _gained(of: SeriesOf, counter: str, window: tuple[float, float]) -> dict[str, float | None]:
    """Return the counter's gain over the whole window; None if the readings in the window cover too little of it."""
    own = of.inside(*window).rate(counter, *window)
    return {"gained": None if own is None else of.gained(counter, *window)}


def _mean_and_peak(of: SeriesOf, gauge: str, window: tuple[float, float]) -> dict[str, float | None]:
    return {"mean": of.mean(gauge, *window), "peak": of.peak(gauge, *window)}


def _together(nodes: Iterable[_Node]) -> _Node:
    gathered: dict[str, dict[str, list[float]]] = {}
    for node in nodes:
        for figure, values in node.items():
            for kind, value in values.items():
                gathered.setdefault(figure, {}).setdefault(kind, []).append(value)
    return {
        figure: {kind: _OF_ALL_NODES[kind](found) for kind, found in kinds.items()}
        for figure, kinds in gathered.items()
    }


def _told(node: _Node) -> dict[str, Any]:
    """Return the figures for the record: rounded, and gains as plain numbers."""
    return {
        figure: _rounded(figure, kinds["gained"])
        if "gained" in kinds
        else {kind: _rounded(figure, value) for kind, value in kinds.items()}
        for figure, kinds in node.items()
    }


def _by_node(nodes: Mapping[str, _Node]) -> dict[str, dict[str, float]]:
    busiest = sorted(nodes, key=lambda name: -nodes[name].get("cpu_core_percent", {}).get("mean", 0.0))
    return {
        name: {
            figure: _rounded(figure, values[kind])
            for figure in _OF_EACH_NODE
            for values in (nodes[name].get(figure, {}),)
            for kind in ("mean", "last", "gained")
            if kind in values
        }
        for name in sorted(busiest[:_NODES_AT_MOST])
    }


def _rounded(figure: str, value: float) -> float:
    return round(value, _DIGITS.get(figure))
