"""The cluster's own counters: their difference over a race, as rows of the summary.

Index figures are of the track's indices only: writes and the work that follows them of primary shards, as Rally
counts them; searches and gets of all copies, since any of them may answer. A copy's counters are lost when its node
leaves. If a cluster does not report something (permissions, missing APIs), rows are missing and a warning says so; a
race never fails for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Any

from esbench.cluster.client import LENIENT, Cluster, index_path
from esbench.cluster.replies import count, counted, flag, mapping, text
from esbench.errors import ClusterError
from esbench.record.model import Statistic
from esbench.telemetry.snapshots import Attempts, copies, increase

# A step waits for them: a cluster that hangs must not hold up the race.
_INDICES_TIMEOUT_S = 5.0
_NODES_TIMEOUT_S = 1.0
# Background work: its label, the places of its time in `_stats` (section.field) and of its count if the summary shows
# one.
_ACTIVITIES = (
    ("indexing", "indexing.index_time_in_millis", ""),
    ("indexing throttle", "indexing.throttle_time_in_millis", ""),
    ("merge", "merges.total_time_in_millis", "merges.total"),
    ("merge throttle", "merges.total_throttled_time_in_millis", ""),
    ("refresh", "refresh.total_time_in_millis", "refresh.total"),
    ("flush", "flush.total_time_in_millis", "flush.total"),
)
# Counters beyond Rally's summary: name, label, place, and whether our summary has a row for it.
_WRITES = (
    ("indexing_count", "Indexing count of primary shards", "indexing.index_total", False),
    ("indexing_failed_count", "Failed indexing count of primary shards", "indexing.index_failed", True),
    ("delete_count", "Delete count of primary shards", "indexing.delete_total", False),
)
# A search of five shards is five queries.
_READS = (
    ("search_query_count", "Query count of all shard copies", "search.query_total", False),
    ("search_query_time_ms", "Query time of all shard copies", "search.query_time_in_millis", True),
    ("search_fetch_count", "Fetch count of all shard copies", "search.fetch_total", False),
    ("search_fetch_time_ms", "Fetch time of all shard copies", "search.fetch_time_in_millis", True),
    ("get_count", "Get count of all shard copies", "get.total", False),
    ("get_time_ms", "Get time of all shard copies", "get.time_in_millis", True),
    ("request_cache_hits", "Request cache hits of all shard copies", "request_cache.hit_count", False),
    ("request_cache_misses", "Request cache misses of all shard copies", "request_cache.miss_count", False),
    ("query_cache_hits", "Query cache hits of all shard copies", "query_cache.hit_count", False),
    ("query_cache_misses", "Query cache misses of all shard copies", "query_cache.miss_count", False),
    ("get_missing_count", "Count of gets that found nothing", "get.missing_total", True),
)
_COUNTERS = tuple(
    dict.fromkeys(
        [place for _, *places in _ACTIVITIES for place in places if place]
        + [place for _, _, place, _ in (*_WRITES, *_READS)]
    )
)
# Name, label, place; of all copies. `total_data_set_size_in_bytes` is there from 7.13.
_SIZES = (
    ("dataset_size_bytes", "Dataset size", "store.total_data_set_size_in_bytes"),
    ("store_size_bytes", "Store size", "store.size_in_bytes"),
    ("translog_size_bytes", "Translog size", "translog.size_in_bytes"),
)
_SEGMENTS = "segments.count"
_HEAP = (
    ("segments", "segments.memory_in_bytes"),
    ("doc values", "segments.doc_values_memory_in_bytes"),
    ("terms", "segments.terms_memory_in_bytes"),
    ("norms", "segments.norms_memory_in_bytes"),
    ("points", "segments.points_memory_in_bytes"),
    ("stored fields", "segments.stored_fields_memory_in_bytes"),
)
_GROWTH = (
    ("store_gained_bytes", "store.size_in_bytes"),
    ("translog_gained_bytes", "translog.size_in_bytes"),
    ("segments_gained", _SEGMENTS),
)
_UPTIME = ("uptime_ms", "")
Counters = Mapping[str, int]
NodeCounters = Mapping[tuple[str, str], int]  # by (gc_ms, gc_count, rejected or uptime_ms; collector or thread pool)

ShardKey = tuple[str, int, str]  # a copy of a shard: the index's uuid, the shard's number, the node that holds it


@dataclass(frozen=True)
class Snapshot:
    """The counters at one moment. What the cluster did not report is None, with the reason in `warnings`.

    `shards`: copy of a shard -> `section.field` -> counter; `primaries` are the primary ones among them; `sizes`:
    `section.field` -> sum over the indices; `nodes`: node -> its counters since the start of its JVM.
    """

    shards: Mapping[ShardKey, Counters] | None = None
    primaries: frozenset[ShardKey] = frozenset()
    sizes: Counters = field(default_factory=dict)
    nodes: Mapping[str, NodeCounters] | None = None
    warnings: tuple[str, ...] = ()


def take(cluster: Cluster, indices: Iterable[str]) -> Snapshot:
    """Return the counters of those of `indices` that exist, and of the nodes' garbage collectors and thread pools.

    A request that fails raises nothing: its counters are None and `warnings` has a sentence.
    """
    asking = Attempts()
    found = asking.attempt("index statistics", lambda: indices_of(*_ask_for_indices(cluster, indices)), Snapshot())
    nodes = asking.attempt(
        "statistics of the nodes",
        lambda: nodes_of(
            _whole("_nodes", cluster.request("GET", "/_nodes/stats/jvm,thread_pool", timeout_s=_NODES_TIMEOUT_S))
        ),
        None,
    )
    return replace(found, nodes=nodes, warnings=tuple(asking.notes))


def _ask_for_indices(cluster: Cluster, indices: Iterable[str]) -> tuple[Any, Any]:
    path = index_path(indices)
    if not path:
        return {}, {"indices": {}}
    # 5.x does not name uuids in its statistics.
    uuids = cluster.request("GET", f"{path}/_settings/index.uuid", params=LENIENT, timeout_s=_INDICES_TIMEOUT_S)
    metrics = "indexing,merge,refresh,flush,store,translog,segments,search,get,query_cache,request_cache"
    by_shard = {**LENIENT, "level": "shards"}
    stats = cluster.request("GET", f"{path}/_stats/{metrics}", params=by_shard, timeout_s=_INDICES_TIMEOUT_S)
    return uuids, _whole("_shards", stats)


def _whole(asked: str, reply: Any) -> Any:
    """Return a reply, in which `asked` counts the shards or nodes; raises ClusterError if some of them failed."""
    counts = mapping(reply.get(asked))
    if count(counts.get("failed")):
        raise ClusterError(f"{counts['failed']} of {counts.get('total')} {asked[1:]} did not answer")
    return reply


def indices_of(settings: Any, stats: Any) -> Snapshot:
    """Return the counters of indices from replies to `_settings/index.uuid` and `_stats?level=shards`, without nodes.

    Raises KeyError, TypeError, ValueError or AttributeError for replies of another form.
    """
    shards: dict[ShardKey, Counters] = {}
    primaries: set[ShardKey] = set()
    for index, number, copy in copies(stats["indices"]):
        uuid = text(settings.get(index, {}).get("settings", {}).get("index", {}).get("uuid", index))
        key = uuid, number, text(copy["routing"]["node"])
        shards[key] = dict(_values(copy, _COUNTERS))
        if flag(copy["routing"]["primary"]):
            primaries.add(key)
    sizes: Counter[str] = Counter()
    for entry in stats["indices"].values():
        sizes.update(dict(_values(entry["total"], [place for *_, place in _SIZES])))
        sizes.update(dict(_values(entry["primaries"], (_SEGMENTS, *dict(_HEAP).values()))))
    return Snapshot(shards, frozenset(primaries), sizes)


def _values(entry: Mapping[str, Any], places: Iterable[str]) -> Iterator[tuple[str, int]]:
    for place in places:
        section, _, name = place.partition(".")
        if (value := count(mapping(entry.get(section)).get(name))) is not None:
            yield place, value


def nodes_of(reply: Any) -> dict[str, NodeCounters]:
    """Return node id -> its counters since its JVM started, from a reply to `_nodes/stats/jvm,thread_pool`.

    Keys as in NodeCounters; times are ms. Raises KeyError, TypeError, ValueError or AttributeError for a reply of
    another form.
    """
    found: dict[str, NodeCounters] = {}
    for node, entry in reply["nodes"].items():
        counters = {_UPTIME: counted(entry["jvm"]["uptime_in_millis"])}
        for name, collector in entry["jvm"]["gc"]["collectors"].items():
            time_ms, times = count(collector["collection_time_in_millis"]), count(collector["collection_count"])
            if time_ms is not None and times is not None:
                counters |= {("gc_ms", name): time_ms, ("gc_count", name): times}
        for name, pool in mapping(entry.get("thread_pool")).items():
            if (rejected := count(pool.get("rejected"))) is not None:
                counters["rejected", name] = rejected
        found[node] = counters
    return found


def difference(before: Snapshot, after: Snapshot) -> dict[str, Statistic]:
    """Return name -> {label, value, unit} (and row: False), in the order of Rally's summary; times are ms, sizes bytes.

    Times and counts are the increase over the race; of a shard, an index or a node that restarted they count in full;
    nodes of `joined` are left out.
    Sizes, heap and segments are those at the end. Figures that Rally's summary lacks follow, if they are not zero.
    `row` is False for a figure that the summary leaves out.
    """
    more = {name: figure for name, figure in _further_figures(before, after) if figure["value"]}
    return {**dict(_added_figures(before, after)), **dict(_size_figures(after)), **more}


def work(before: Snapshot, after: Snapshot) -> dict[str, float]:
    """Return name -> increase between two snapshots, under the names of `difference`: counts, and times in ms.

    Also the growth of store and translog in bytes and of the number of segments, negative if they shrank, and the
    number of segments then. Empty if the cluster did not report anything.
    """
    figures = (*_added_figures(before, after), *_further_figures(before, after))
    found = {name: figure["value"] for name, figure in figures if "_per_shard_" not in name}
    return {**found, **dict(_growth(before, after))}


def _added_figures(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, Statistic]]:
    yield from _activity_figures(_gained_by_shard(before, after, after.primaries))
    yield from _collector_figures(_gained_by_nodes(before, after))


def _further_figures(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, Statistic]]:
    for rows, keys in ((_WRITES, after.primaries), (_READS, after.shards or ())):
        gained = _gained_by_shard(before, after, keys)
        for name, label, place, is_row in rows:
            if values := [shard[place] for shard in gained if place in shard]:
                figure = _figure(label, sum(values), "ms" if name.endswith("_ms") else "")
                yield name, figure if is_row else {**figure, "row": False}  # for readers of the record
    for (kind, pool), gained_count in sorted(_gained_by_nodes(before, after).items()):
        if kind == "rejected" and gained_count:
            yield f"{pool}_rejected_count", _figure(f"Rejections of thread pool {pool}", gained_count, "")


def _gained_by_shard(before: Snapshot, after: Snapshot, keys: Iterable[ShardKey]) -> list[Counters]:
    """Return the growth of the counters of each of some shards; empty if one of the snapshots has no shards."""
    if not after.shards or before.shards is None:
        return []
    return [increase(after.shards[key], before.shards.get(key, {})) for key in keys]


def _gained_by_nodes(before: Snapshot, after: Snapshot) -> NodeCounters:
    """Return the growth of the counters of all nodes together; empty if one of the snapshots has no nodes."""
    gained: Counter[tuple[str, str]] = Counter()
    if after.nodes is not None and before.nodes is not None:
        left_out = joined(before, after)
        for node, counters in after.nodes.items():
            if node not in left_out:
                gained.update(increase(counters, before.nodes.get(node, {})))
    return gained


def joined(before: Snapshot, after: Snapshot) -> set[str]:
    """Return the nodes that only `after` has, though their JVM is older: their growth is not known."""
    if before.nodes is None or after.nodes is None:
        return set()
    both = before.nodes.keys() & after.nodes.keys()
    between_ms = max((after.nodes[node][_UPTIME] - before.nodes[node][_UPTIME] for node in both), default=0)
    return {node for node in after.nodes.keys() - both if after.nodes[node][_UPTIME] > between_ms}


def _growth(before: Snapshot, after: Snapshot) -> Iterator[tuple[str, int]]:
    if before.shards is not None:
        for name, place in _GROWTH:
            if place in after.sizes:
                yield name, after.sizes[place] - before.sizes.get(place, 0)
        if _SEGMENTS in after.sizes:
            yield "segments", after.sizes[_SEGMENTS]


def _activity_figures(shards: list[Counters]) -> Iterator[tuple[str, Statistic]]:
    for label, time, counter in _ACTIVITIES:
        times = [shard[time] for shard in shards if time in shard]
        if not times:
            continue
        name = label.replace(" ", "_")
        yield f"{name}_time_ms", _figure(f"Cumulative {label} time of primary shards", sum(times), "ms")
        if counter:
            total = sum(shard.get(counter, 0) for shard in shards)
            yield f"{name}_count", _figure(f"Cumulative {label} count of primary shards", total, "")
        for which, value in (("Min", min(times)), ("Median", median(times)), ("Max", max(times))):
            yield (
                f"{name}_time_per_shard_{which.lower()}_ms",
                _figure(f"{which} cumulative {label} time across primary shards", value, "ms"),
            )


def _collector_figures(gained: NodeCounters) -> Iterator[tuple[str, Statistic]]:
    # Elasticsearch says young and old for the usual collectors, and the JVM's own names for others (ZGC).
    order = {"young": 0, "old": 1}
    names = (name for kind, name in gained if kind == "gc_ms")
    for name in sorted(names, key=lambda name: (order.get(name, 2), name)):
        label = f"Total {name.capitalize()} Gen GC" if name in order else f"Total {name.removesuffix(' GC')} GC"
        key = f"{name.removesuffix(' GC').lower().replace(' ', '_')}_gc"
        yield f"{key}_time_ms", _figure(f"{label} time", gained["gc_ms", name], "ms")
        yield f"{key}_count", _figure(f"{label} count", gained["gc_count", name], "")


def _size_figures(after: Snapshot) -> Iterator[tuple[str, Statistic]]:
    sizes = after.sizes
    for name, label, place in _SIZES:
        if place in sizes:
            yield name, _figure(label, sizes[place], "bytes")
    # From Lucene 9 on segments live outside the heap: servers report zeros, or nothing.
    if sizes.get(dict(_HEAP)["segments"]):
        for part, place in _HEAP:
            if place in sizes:
                yield f"heap_{part.replace(' ', '_')}_bytes", _figure(f"Heap used for {part}", sizes[place], "bytes")
    if _SEGMENTS in sizes:
        yield "segment_count", _figure("Segment count", sizes[_SEGMENTS], "")


def _figure(label: str, value: float, unit: str) -> Statistic:
    return {"label": label, "value": value, "unit": unit}
