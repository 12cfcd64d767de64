"""Aggregates of the nodes' figures over a task, from the series of either node device. Pure: no clock, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from statistics import fmean
from typing import Any

from esbench.telemetry.device import TaskSpan
from esbench.telemetry.series import SeriesOf

_CORE_PERCENT = 0.1  # of a counter of ms: 1,000 ms per second are 100 % of a core
_NODES_AT_MOST = 10  # listed one by one, those with the most CPU: a record stays small in large clusters
_OF_EACH_NODE = ("cpu_core_percent", "load_1m", "heap_used_percent", "gc_time_ms", "rejections")
_OF_ALL_NODES: Mapping[str, Callable[[Iterable[float]], float]] = {
    "mean": fmean,
    "last": fmean,
    "peak": max,
    "gained": sum,
}

_Node = Mapping[str, Mapping[str, float]]  # figure -> mean, peak, last or gained -> value, where it is known


def _rates(of: SeriesOf, counter: str, span: TaskSpan, factor: float = 1.0) -> dict[str, float | None]:
    """Return a counter's mean and peak rate times `factor`, from readings in the window alone.

    Servers measure once a second, and a reading before the window may include the end of another task.
    """
    inside = of.inside(*span.window)
    mean = inside.rate(counter, *span.window)
    peak = None if mean is None else inside.peak_rate(counter, *span.window)
    return {
        "mean": None if mean is None else mean * factor,
        "peak": None if peak is None else peak * factor,
    }


def _gained(of: SeriesOf, counter: str, span: TaskSpan) -> dict[str, float | None]:
    """Return the counter's gain over the whole window; None if the readings in the window cover too little of it."""
    own = of.inside(*span.window).rate(counter, *span.window)
    return {"gained": None if own is None else of.gained(counter, *span.window)}


def _mean_and_peak(of: SeriesOf, gauge: str, span: TaskSpan) -> dict[str, float | None]:
    return {"mean": of.mean(gauge, *span.window), **_peak(of, gauge, span)}


def _peak(of: SeriesOf, gauge: str, span: TaskSpan) -> dict[str, float | None]:
    return {"peak": of.peak(gauge, *span.window)}


def _last_and_peak(of: SeriesOf, gauge: str, span: TaskSpan) -> dict[str, float | None]:
    """Return a gauge's last and highest value while the task ran: one read before it is not the task's."""
    peak = of.peak(gauge, span.begun_s, span.ended_s)
    return {"last": None if peak is None else of.last(gauge, span.ended_s), "peak": peak}


# Figure -> group and column of the series, what is said of it, and its decimals.
_FIGURES: Mapping[str, tuple[str, str, Callable[[SeriesOf, str, TaskSpan], dict[str, float | None]], int | None]] = {
    "cpu_core_percent": ("process", "cpu_ms", partial(_rates, factor=_CORE_PERCENT), 1),
    "load_1m": ("os", "load_1m", _last_and_peak, 2),
    "heap_used_percent": ("jvm", "heap_used_percent", _mean_and_peak, 1),
    "os_memory_used_bytes": ("os", "memory_used_bytes", _mean_and_peak, None),
    "gc_time_ms": ("jvm", "gc_ms", _gained, None),
    "gc_count": ("jvm", "gc_count", _gained, None),
    "rejections": ("thread_pool", "rejected", _gained, None),
    "queued": ("thread_pool", "queued", _mean_and_peak, 1),
    "disk_read_kb_per_s": ("fs", "read_kb", _rates, 1),
    "disk_written_kb_per_s": ("fs", "written_kb", _rates, 1),
    "http_connections": ("http", "connections", _peak, None),
}
COLUMNS = frozenset(column for _, column, _, _ in _FIGURES.values())


def of_task(span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> dict[str, Any]:
    """Return aggregates over a task's window, of `load_1m` over the whole task; empty without any figures.

    `series`: (node's name, group) -> its readings. `nodes` is the number of nodes with figures. A gauge or rate is a
    mapping with `mean`, `last` (means over the nodes) and `peak` (the highest of any node); gains of counters are sums;
    figures that no node has reported are absent. `cpu_core_percent` is process CPU time over wall time, in percent of
    one core. `by_node`: node -> figure -> its mean, last or gain, of the 10 nodes with the most CPU.
    """
    names = sorted({of for of, _ in series})
    nodes = {name: node for name in names if (node := _node(span, name, series))}
    if not nodes:
        return {}
    return {"nodes": len(nodes), **_told(_together(nodes.values())), "by_node": _by_node(nodes)}


def _node(span: TaskSpan, name: str, series: Mapping[tuple[str, str], SeriesOf]) -> _Node:
    found: dict[str, dict[str, float]] = {}
    for figure, (group, column, aggregate, _) in _FIGURES.items():
        values = aggregate(series.get((name, group), SeriesOf()), column, span)
        if known := {kind: value for kind, value in values.items() if value is not None}:
            found[figure] = known
    return found


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
    return round(value, _FIGURES[figure][-1])
