"""The figures that are read from a node's statistics, and their names: `_nodes/stats` as readings. Pure: no I/O.

One table defines both what to ask for and the columns of the series; what a server does not report is left out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from esbench.cluster.replies import counted, mapping, number
from esbench.telemetry.device import Reading

Tree = Mapping[str, Any]


@dataclass(frozen=True)
class NodeFigures:
    """Figures of one section of a node's statistics; the section is also the group of their readings.

    `option` is the name of the switch for them (`node-stats-include-OPTION`). `gauges` and `counters`: column -> path
    within the section. A star in a path stands for every name; if the column has `{}`, each name has its own column,
    otherwise the values are added up.
    """

    option: str
    section: str
    gauges: Mapping[str, str] = field(default_factory=dict)
    counters: Mapping[str, str] = field(default_factory=dict)

    def only(self, columns: frozenset[str]) -> NodeFigures:
        """Return these figures reduced to the given columns."""
        return replace(
            self,
            gauges={column: path for column, path in self.gauges.items() if column in columns},
            counters={column: path for column, path in self.counters.items() if column in columns},
        )

    def only_parts(self, parts: Collection[str]) -> NodeFigures:
        """Return these figures reduced to the given `parts` of the section; unknown ones are ignored."""
        paths = {**self.gauges, **self.counters}
        return self.only(frozenset(column for column, path in paths.items() if _part(path) in parts))

    @property
    def parts(self) -> tuple[str, ...]:
        """The first names of its paths, each once and sorted: `docs`, `search`, `store` ... of the section indices."""
        return tuple(sorted({_part(path) for path in (*self.gauges.values(), *self.counters.values())}))


def _part(path: str) -> str:
    return path.partition(".")[0]


ALL = (
    NodeFigures(
        "process",
        "process",
        gauges={"cpu_percent": "cpu.percent", "open_files": "open_file_descriptors"},
        counters={"cpu_ms": "cpu.total_in_millis"},
    ),
    NodeFigures(
        "os",
        "os",
        gauges={
            "cpu_percent": "cpu.percent",
            "load_1m": "cpu.load_average.1m",
            "memory_used_bytes": "mem.used_in_bytes",
            "swap_used_bytes": "swap.used_in_bytes",
        },
    ),
    NodeFigures(
        "cgroup",
        "os",
        gauges={"cgroup_memory_used_bytes": "cgroup.memory.usage_in_bytes"},
        counters={
            "cgroup_cpu_ns": "cgroup.cpuacct.usage_nanos",
            "cgroup_throttled_ns": "cgroup.cpu.stat.time_throttled_nanos",
            "cgroup_throttled_count": "cgroup.cpu.stat.number_of_times_throttled",
        },
    ),
    NodeFigures(
        "mem",
        "jvm",
        gauges={
            "heap_used_bytes": "mem.heap_used_in_bytes",
            "heap_used_percent": "mem.heap_used_percent",
            "heap_committed_bytes": "mem.heap_committed_in_bytes",
            "non_heap_used_bytes": "mem.non_heap_used_in_bytes",
            "{}_used_bytes": "mem.pools.*.used_in_bytes",
        },
    ),
    NodeFigures(
        "gc",
        "jvm",
        counters={
            "gc_ms": "gc.collectors.*.collection_time_in_millis",
            "gc_count": "gc.collectors.*.collection_count",
            "{}_gc_ms": "gc.collectors.*.collection_time_in_millis",
            "{}_gc_count": "gc.collectors.*.collection_count",
        },
    ),
    NodeFigures(
        "buffer-pools",
        "jvm",
        gauges={
            "{}_buffers_count": "buffer_pools.*.count",
            "{}_buffers_used_bytes": "buffer_pools.*.used_in_bytes",
        },
    ),
    NodeFigures(
        "thread-pools",
        "thread_pool",
        gauges={"queued": "*.queue", "{}_active": "*.active", "{}_queue": "*.queue"},
        counters={"rejected": "*.rejected", "{}_rejected": "*.rejected", "{}_completed": "*.completed"},
    ),
    NodeFigures(
        "breakers",
        "breakers",
        gauges={"{}_estimated_bytes": "*.estimated_size_in_bytes"},
        counters={"{}_tripped": "*.tripped"},
    ),
    NodeFigures(
        "indexing-pressure",
        "indexing_pressure",
        gauges={
            "coordinating_and_primary_bytes": "memory.current.combined_coordinating_and_primary_in_bytes",
            "replica_bytes": "memory.current.replica_in_bytes",
        },
        counters={
            "coordinating_rejections": "memory.total.coordinating_rejections",
            "primary_rejections": "memory.total.primary_rejections",
            "replica_rejections": "memory.total.replica_rejections",
        },
    ),
    NodeFigures(
        "fs",
        "fs",
        gauges={"free_bytes": "total.free_in_bytes", "available_bytes": "total.available_in_bytes"},
        counters={
            "read_kb": "io_stats.total.read_kilobytes",
            "written_kb": "io_stats.total.write_kilobytes",
            "read_operations": "io_stats.total.read_operations",
            "write_operations": "io_stats.total.write_operations",
        },
    ),
    NodeFigures(
        "network",
        "http",
        gauges={"connections": "current_open"},
        counters={"connections_opened": "total_opened"},
    ),
    NodeFigures(
        "network",
        "transport",
        gauges={"connections": "server_open"},
        counters={
            "received_bytes": "rx_size_in_bytes",
            "sent_bytes": "tx_size_in_bytes",
            "received_messages": "rx_count",
            "sent_messages": "tx_count",
        },
    ),
    NodeFigures(
        "indices",
        "indices",
        gauges={
            "docs": "docs.count",
            "store_bytes": "store.size_in_bytes",
            "segments": "segments.count",
            "segments_memory_bytes": "segments.memory_in_bytes",
            "translog_bytes": "translog.size_in_bytes",
            "translog_operations": "translog.operations",
            "merges_running": "merges.current",
            "query_cache_bytes": "query_cache.memory_size_in_bytes",
            "request_cache_bytes": "request_cache.memory_size_in_bytes",
            "fielddata_bytes": "fielddata.memory_size_in_bytes",
        },
        counters={
            "indexed": "indexing.index_total",
            "indexing_ms": "indexing.index_time_in_millis",
            "gets": "get.total",
            "get_ms": "get.time_in_millis",
            "queries": "search.query_total",
            "query_ms": "search.query_time_in_millis",
            "fetches": "search.fetch_total",
            "fetch_ms": "search.fetch_time_in_millis",
            "merges": "merges.total",
            "merge_ms": "merges.total_time_in_millis",
            "refreshes": "refresh.total",
            "refresh_ms": "refresh.total_time_in_millis",
            "flushes": "flush.total",
            "flush_ms": "flush.total_time_in_millis",
            "query_cache_hits": "query_cache.hit_count",
            "query_cache_misses": "query_cache.miss_count",
            "request_cache_hits": "request_cache.hit_count",
            "request_cache_misses": "request_cache.miss_count",
        },
    ),
)

_ALWAYS = {
    "process": frozenset({"cpu_ms"}),
    "os": frozenset({"cpu_percent", "load_1m", "memory_used_bytes"}),
    "mem": frozenset({"heap_used_bytes", "heap_used_percent"}),
    "gc": frozenset({"gc_ms", "gc_count", "{}_gc_ms", "{}_gc_count"}),
    "thread-pools": frozenset({"queued", "rejected", "{}_rejected"}),
    "fs": frozenset({"read_kb", "written_kb"}),
}
ALWAYS = tuple(figures.only(_ALWAYS[figures.option]) for figures in ALL if figures.option in _ALWAYS)

OPTIONS = {  # what switches the figures of `ALL`, and what they are
    "process": "CPU and open files of the process",
    "os": "CPU, load, memory and swap of the host",
    "cgroup": "CPU, throttling and memory of the node's control group",
    "mem": "the heap and its pools",
    "gc": "garbage collection, by collector",
    "buffer-pools": "direct and mapped buffers",
    "thread-pools": "threads, queues, rejections and completed work of each thread pool in use",
    "breakers": "circuit breakers: estimated bytes, trips",
    "indexing-pressure": "bytes of documents in flight, and rejections because of them (from 7.9)",
    "fs": "disk space, reads and writes",
    "network": "HTTP connections, bytes and messages between nodes",
    "indices": "documents, segments, searches, merges, caches ... of the node's shards",
}

_METRICS = {"breakers": "breaker"}  # what a section is called when it is asked for, where that is not its name
_NOT_HEAP = ("CodeHeap", "Code Cache", "CodeCache", "Metaspace", "Compressed Class Space")


def request_of(wanted: Iterable[NodeFigures]) -> tuple[str, str]:
    """Return the path of a request for figures of all nodes, and the `filter_path` that reduces the reply to them."""
    wanted = tuple(wanted)
    metrics = dict.fromkeys(_METRICS.get(figures.section, figures.section) for figures in wanted)
    paths = dict.fromkeys(
        f"{figures.section}.{path}"
        for figures in wanted
        for path in ("timestamp", *figures.gauges.values(), *figures.counters.values())
    )
    kept = ["_nodes.failed", "nodes.*.name", "nodes.*.timestamp", *(f"nodes.*.{path}" for path in paths)]
    return f"/_nodes/stats/{','.join(metrics)}", ",".join(kept)


def readings_of(node: Tree, of: str, wanted: Iterable[NodeFigures]) -> Iterator[tuple[int, Reading]]:
    """Yield a reading for each section in a node's statistics, with the time at which the server took it.

    `node`: its entry in the reply; `of`: the subject of the readings; `wanted`: figures of one section stand together.
    The time is in ms since the epoch, by the node's clock: servers keep the figures of some sections for a second.
    Sections that the entry lacks are left out.
    """
    for name, parts in groupby(wanted, key=attrgetter("section")):  # `ALL` has those of a section together
        section = node.get(name)
        if not isinstance(section, Mapping):
            continue
        known = _known_parts(name, section)
        gauges: dict[str, float | None] = {}
        counters: dict[str, float | None] = {}
        for figures in parts:
            gauges |= _columns(figures.gauges, section, known)
            counters |= _columns(figures.counters, section, known)
        if gauges or counters:
            yield counted(section.get("timestamp", node["timestamp"])), Reading(of, name, gauges, counters)


def _known_parts(section: str, tree: Tree) -> Callable[[str], bool]:
    """Return a predicate: True for a name in a section that gets its own column."""
    if section == "thread_pool":  # there are some thirty, and most of them never do anything
        pools = {name: mapping(pool) for name, pool in tree.items()}
        busy = {name for name, pool in pools.items() if pool.get("completed") or pool.get("rejected")}
        return busy.__contains__
    return lambda name: not name.startswith(_NOT_HEAP)


def _columns(paths: Mapping[str, str], tree: Tree, known: Callable[[str], bool]) -> Iterator[tuple[str, float | None]]:
    for column, path in paths.items():
        found = dict(_found(tree, path.split(".")))
        if "{}" in column:
            yield from ((column.format(_column(name)), value) for name, value in found.items() if known(name))
        elif found:
            # Collectors of cycles work beside the application: their time is no pause.
            values = [value for name, value in found.items() if value is not None and not name.endswith("Cycles")]
            yield column, sum(values) if values else None


def _found(tree: Any, path: list[str], name: str = "") -> Iterator[tuple[str, float | None]]:
    """Yield the values at a path, each with the name that the star stands for."""
    if not path:
        yield name, _number(tree)
    elif isinstance(tree, Mapping):
        if path[0] == "*":
            for key, inner in tree.items():
                yield from _found(inner, path[1:], key)
        elif path[0] in tree:
            yield from _found(tree[path[0]], path[1:], name)


def _number(value: Any) -> float | None:
    """Return a figure as a number; None for other values and for negatives, which mean unknown. Cgroups report text."""
    try:
        figure = number(int(value) if isinstance(value, str) else value)
    except ValueError:
        return None
    return figure if figure is not None and figure >= 0 else None


def _column(name: str) -> str:
    """Return a collector's or a pool's name as a column: `G1 Concurrent GC` as g1_concurrent."""
    return re.sub(r"\W+", "_", name.removesuffix(" GC").lower()).strip("_")
