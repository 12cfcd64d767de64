"""The cluster's own counters: their difference over a race, as rows of the summary.

Index figures are of the track's indices only: writes and the work that follows them of primary shards, as Rally
counts them; searches and gets of all copies, since any of them may answer. A copy's counters are lost when its node
leaves. If a cluster does not report something (permissions, missing APIs), rows are missing and a warning says so; a
race never fails for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from esbench.cluster.client import Cluster, index_path
from esbench.errors import ClusterError
from esbench.errors.reasons import form_fault

# A step waits for them: a cluster that hangs must not hold up the race.
_INDICES_TIMEOUT_S = 5.0
_NODES_TIMEOUT_S = 1.0
_LENIENT = {"ignore_unavailable": True, "allow_no_indices": True}


@dataclass(frozen=True)
class _Activity:
    """A kind of background work: the place of its time in `_stats`, and of its count if the summary shows one."""

    name: str
    section: str
    time: str
    count: str = ""

    @property
    def label(self) -> str:
        """The name with spaces."""
        return self.name.replace("_", " ")


_ACTIVITIES = (
    _Activity("indexing", "indexing", "index_time_in_millis"),
    _Activity("indexing_throttle", "indexing", "throttle_time_in_millis"),
    _Activity("merge", "merges", "total_time_in_millis", "total"),
    _Activity("merge_throttle", "merges", "total_throttled_time_in_millis"),
    _Activity("refresh", "refresh", "total_time_in_millis", "total"),
    _Activity("flush", "flush", "total_time_in_millis", "total"),
)


@dataclass(frozen=True)
class _Added:
    """A counter beyond Rally's summary; `section` and `field` are its place in `_stats`."""

    name: str
    label: str
    section: str
    field: str
    row: bool = False  # of the summary

    @property
    def unit(self) -> str:
        """The unit: "ms" for a time, else empty."""
        return "ms" if self.name.endswith("_ms") else ""


_WRITES = (
    _Added("indexing_count", "Indexing count of primary shards", "indexing", "index_total"),
    _Added("indexing_failed_count", "Failed indexing count of primary shards", "indexing", "index_failed", row=True),
    _Added("delete_count", "Delete count of primary shards", "indexing", "delete_total"),
)
# A search of five shards is five queries.
_READS = (
    _Added("search_query_count", "Query count of all shard copies", "search", "query_total"),
    _Added("search_query_time_ms", "Query time of all shard copies", "search", "query_time_in_millis", row=True),
    _Added("search_fetch_count", "Fetch count of all shard copies", "search", "fetch_total"),
    _Added("search_fetch_time_ms", "Fetch time of all shard copies", "search", "fetch_time_in_millis", row=True),
    _Added("get_count", "Get count of all shard copies", "get", "total"),
    _Added("get_time_ms", "Get time of all shard copies", "get", "time_in_millis", row=True),
    _Added("get_missing_count", "Count of gets that found nothing", "get", "missing_total", row=True),
)
_COUNTERS = tuple(
    dict.fromkeys(
        [(each.section, name) for each in _ACTIVITIES for name in (each.time, each.count) if name]
        + [(each.section, each.field) for each in (*_WRITES, *_READS)]
    )
)
# Name, label, section, field; of all copies. `total_data_set_size_in_bytes` is there from 7.13.
_SIZES = (
    ("dataset_size_bytes", "Dataset size", "store", "total_data_set_size_in_bytes"),
    ("store_size_bytes", "Store size", "store", "size_in_bytes"),
    ("translog_size_bytes", "Translog size", "translog", "size_in_bytes"),
)
_HEAP = (
    ("segments", "memory_in_bytes"),
    ("doc values", "doc_values_memory_in_bytes"),
    ("terms", "terms_memory_in_bytes"),
    ("norms", "norms_memory_in_bytes"),
    ("points", "points_memory_in_bytes"),
    ("stored fields", "stored_fields_memory_in_bytes"),
)
Counters = Mapping[str, int]
Figure = dict[str, Any]
_NO_ROW: Figure = {"row": False}  # for readers of the record: the summary leaves it out
ShardKey = tuple[str, int, str]  # a copy of a shard: the index's uuid, the shard's number, the node that holds it


@dataclass(frozen=True)
class Snapshot:
    """The counters at one moment. What the cluster did not report is None, with the reason in `warnings`.

    `shards`: copy of a shard -> `section.field` -> counter; `primaries` are the primary ones among them. `collectors`:
    node -> garbage collector -> time (ms) and count, `rejections`: node -> thread pool -> count, both since the start
    of a JVM that has been up for `uptimes_ms`; `totals` and `segments` are sums over the indices.
    """

    shards: Mapping[ShardKey, Counters] | None = None
    primaries: frozenset[ShardKey] = frozenset()
    totals: Counters = field(default_factory=dict)
    segments: Counters = field(default_factory=dict)
    collectors: Mapping[str, Mapping[str, tuple[int, int]]] | None = None
    rejections: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    uptimes_ms: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()


def take(cluster: Cluster, indices: Iterable[str]) -> Snapshot:
    """Return the counters of those of `indices` that exist, and of the nodes' garbage collectors and thread pools."""
    found = Snapshot()
    parts: tuple[tuple[str, Callable[[], Snapshot]], ...] = (
        ("index statistics", lambda: _with_indices(found, *_ask_for_indices(cluster, indices))),
        ("statistics of the nodes", lambda: _with_nodes(found, _ask_for_nodes(cluster))),
    )
    for what, look in parts:
        try:
            found = look()
        except ClusterError as error:
            found = replace(found, warnings=(*found.warnings, f"no {what}: {error}"))
        except (AttributeError, KeyError, TypeError) as error:  # what stands before the cluster may answer anything
            unknown = f"no {what}: the reply has an unknown form ({form_fault(error)})"
            found = replace(found, warnings=(*found.warnings, unknown))
    return found


def _ask_for_indices(cluster: Cluster, indices: Iterable[str]) -> tuple[Any, Any]:
    path = index_path(indices)
    if not path:
        return {}, {"indices": {}}
    # 5.x does not name uuids in its statistics.
    uuids = cluster.request("GET", f"{path}/_settings/index.uuid", params=_LENIENT, timeout_s=_INDICES_TIMEOUT_S)
    metrics = "indexing,merge,refresh,flush,store,translog,segments,search,get"
    by_shard = {**_LENIENT, "level": "shards"}
    return uuids, cluster.request("GET", f"{path}/_stats/{metrics}", params=by_shard, timeout_s=_INDICES_TIMEOUT_S)


def _ask_for_nodes(cluster: Cluster) -> Any:
    return cluster.request("GET", "/_nodes/stats/jvm,thread_pool", timeout_s=_NODES_TIMEOUT_S)


def snapshot(index_replies: tuple[Any, Any] | None, node_reply: Any) -> Snapshot:
    """Return a snapshot from replies.

    `index_replies`: (`_settings/index.uuid`, `_stats?level=shards`); `node_reply`: `_nodes/stats/jvm,thread_pool`.
    """
    found = Snapshot() if index_replies is None else _with_indices(Snapshot(), *index_replies)
    return found if node_reply is None else _with_nodes(found, node_reply)


def _with_indices(found: Snapshot, settings: Any, stats: Any) -> Snapshot:
    shards: dict[ShardKey, Counters] = {}
    primaries: set[ShardKey] = set()
    totals: dict[str, int] = {}
    segments: dict[str, int] = {}
    for index, entry in stats["indices"].items():
        uuid = settings.get(index, {}).get("settings", {}).get("index", {}).get("uuid", index)
        for key, copy in _copies(uuid, entry["shards"]):
            shards[key] = _counters(copy)
            if copy["routing"]["primary"]:
                primaries.add(key)
        _add(totals, entry["total"], ((section, name) for _, _, section, name in _SIZES))
        _add(segments, entry["primaries"], (("segments", name) for name in ("count", *dict(_HEAP).values())))
    return replace(found, shards=shards, primaries=frozenset(primaries), totals=totals, segments=segments)


def _with_nodes(found: Snapshot, reply: Any) -> Snapshot:
    nodes = reply["nodes"]
    return replace(
        found,
        collectors={node: _collectors(entry) for node, entry in nodes.items()},
        rejections={node: _rejections(entry) for node, entry in nodes.items()},
        uptimes_ms={node: entry["jvm"]["uptime_in_millis"] for node, entry in nodes.items()},
    )


def _copies(uuid: str, shards: Mapping[str, Any]) -> Iterator[tuple[ShardKey, Mapping[str, Any]]]:
    for number, copies in shards.items():
        for copy in copies:
            yield (uuid, int(number), copy["routing"]["node"]), copy


def _counters(copy: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    _add(found, copy, _COUNTERS)
    return found


def _add(sums: dict[str, int], entry: Mapping[str, Any], fields: Iterable[tuple[str, str]]) -> None:
    for section, name in fields:
        value = entry.get(section, {}).get(name)
        if value is not None:
            sums[f"{section}.{name}"] = sums.get(f"{section}.{name}", 0) + value


def _collectors(node: Mapping[str, Any]) -> dict[str, tuple[int, int]]:
    return {
        name: (entry["collection_time_in_millis"], entry["collection_count"])
        for name, entry in node["jvm"]["gc"]["collectors"].items()
    }


def _rejections(node: Mapping[str, Any]) -> dict[str, int]:
    return {pool: entry["rejected"] for pool, entry in node.get("thread_pool", {}).items() if "rejected" in entry}


def difference(before: Snapshot, after: Snapshot) -> dict[str, Figure]:
    """Return name -> {label, value, unit} (and row: False), in the order of Rally's summary; times are ms, sizes bytes.

    Times and counts are the increase over the race; of a shard, an index or a node that restarted they count in full.
    Sizes, heap and segments are those at the end. Figures that Rally's summary lacks follow, if they are not zero.
    `row` is False for a figure that the summary leaves out.
    """
    more = {name: figure for name, figure in _further_figures(before, after) if figure["value"]}
    return {**dict(_added_figures(before, after)), **dict(_size_figures(after)), **more}


def work(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """Return name -> increase between two snapshots, under the names of `difference`: counts, and times in ms.

    Also the growth of store and translog in bytes and of the number of segments, negative if they shrank. Empty if the
    cluster did not report anything.
    """
    figures = (*_added_figures(before, after), *_further_figures(before, after))
    found = {name: figure["value"] for name, figure in figures if "_per_shard_" not in name}
    return {**found, **dict(_growth(before, after))}


def _added_figures(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, Figure]]:
    if after.shards and before.shards is not None:
        yield from _activity_figures(list(_added_by_shard(before, after, after.primaries)))
    if after.collectors is not None and before.collectors is not None:
        yield from _collector_figures(before, after)


def _further_figures(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, Figure]]:
    if after.shards and before.shards is not None:
        for parts, keys in ((_WRITES, after.primaries), (_READS, after.shards)):
            added = list(_added_by_shard(before, after, keys))
            for part in parts:
                values = [shard[key] for shard in added if (key := f"{part.section}.{part.field}") in shard]
                if values:
                    yield part.name, _figure(part.label, sum(values), part.unit) | ({} if part.row else _NO_ROW)
    if after.collectors is not None and before.collectors is not None:
        yield from _rejection_figures(before, after)


def _added_by_shard(before: Snapshot, after: Snapshot, keys: Iterable[ShardKey]) -> Iterator[Counters]:
    for key in keys:
        now, then = (after.shards or {})[key], (before.shards or {}).get(key, {})
        if any(now[name] < then.get(name, 0) for name in now):
            then = {}  # the copy was opened again: its counters began at zero
        yield {name: value - then.get(name, 0) for name, value in now.items()}


def _growth(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, int]]:
    if before.shards is None:
        return
    for name, key, now, then in (
        ("store_gained_bytes", "store.size_in_bytes", after.totals, before.totals),
        ("translog_gained_bytes", "translog.size_in_bytes", after.totals, before.totals),
        ("segments_gained", "segments.count", after.segments, before.segments),
    ):
        if key in now:
            yield name, now[key] - then.get(key, 0)


def _activity_figures(shards: list[Counters]) -> Iterator[tuple[str, Figure]]:
    for activity in _ACTIVITIES:
        key = f"{activity.section}.{activity.time}"
        times = [shard[key] for shard in shards if key in shard]
        if not times:
            continue
        name, label = activity.name, activity.label
        yield f"{name}_time_ms", _figure(f"Cumulative {label} time of primary shards", sum(times), "ms")
        if activity.count:
            counts = [shard.get(f"{activity.section}.{activity.count}", 0) for shard in shards]
            yield f"{name}_count", _figure(f"Cumulative {label} count of primary shards", sum(counts), "")
        for which, value in (("Min", min(times)), ("Median", median(times)), ("Max", max(times))):
            yield (
                f"{name}_time_per_shard_{which.lower()}_ms",
                _figure(f"{which} cumulative {label} time across primary shards", value, "ms"),
            )


def _collector_figures(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, Figure]]:
    added: dict[str, tuple[int, int]] = {}
    for node, collectors in (after.collectors or {}).items():
        then = {} if _restarted(node, before, after) else (before.collectors or {}).get(node, {})
        for name, (time_ms, count) in collectors.items():
            sum_ms, sum_count = added.get(name, (0, 0))
            then_ms, then_count = then.get(name, (0, 0))
            added[name] = (sum_ms + time_ms - then_ms, sum_count + count - then_count)
    # Elasticsearch says young and old for the usual collectors, and the JVM's own names for others (ZGC).
    order = {"young": 0, "old": 1}
    for name in sorted(added, key=lambda name: (order.get(name, 2), name)):
        time_ms, count = added[name]
        label = f"Total {name.capitalize()} Gen GC" if name in order else f"Total {name.removesuffix(' GC')} GC"
        key = f"{name.removesuffix(' GC').lower().replace(' ', '_')}_gc"
        yield f"{key}_time_ms", _figure(f"{label} time", time_ms, "ms")
        yield f"{key}_count", _figure(f"{label} count", count, "")


def _rejection_figures(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, Figure]]:
    added: dict[str, int] = {}
    for node, pools in after.rejections.items():
        then = {} if _restarted(node, before, after) else before.rejections.get(node, {})
        for pool, count in pools.items():
            added[pool] = added.get(pool, 0) + count - then.get(pool, 0)
    for pool, count in sorted(added.items()):
        if count:
            yield f"{pool}_rejected_count", _figure(f"Rejections of thread pool {pool}", count, "")


def _restarted(node: str, before: Snapshot, after: Snapshot) -> bool:
    return after.uptimes_ms[node] < before.uptimes_ms.get(node, 0)


def _size_figures(after: Snapshot) -> Iterator[tuple[str, Figure]]:
    for name, label, section, size in _SIZES:
        value = after.totals.get(f"{section}.{size}")
        if value is not None:
            yield name, _figure(label, value, "bytes")
    # From Lucene 9 on segments live outside the heap: servers report zeros, or nothing.
    if after.segments.get("segments.memory_in_bytes"):
        for part, size in _HEAP:
            value = after.segments.get(f"segments.{size}")
            if value is not None:
                yield f"heap_{part.replace(' ', '_')}_bytes", _figure(f"Heap used for {part}", value, "bytes")
    if "segments.count" in after.segments:
        yield "segment_count", _figure("Segment count", after.segments["segments.count"], "")


def _figure(label: str, value: float, unit: str) -> Figure:
    return {"label": label, "value": value, "unit": unit}
