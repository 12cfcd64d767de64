"""A null cluster's descriptions of itself: health, nodes, statistics and settings, in Elasticsearch's form."""

from __future__ import annotations

import os
import time
from typing import Any

from esbench.null_server.indices import StoredIndex
from esbench.null_server.versions import Version


def health(indices: list[StoredIndex]) -> dict[str, Any]:
    """Return the reply to _cluster/health: always green."""
    count = sum(index.shards for index in indices)
    zeros = (
        "relocating_shards initializing_shards unassigned_shards delayed_unassigned_shards "
        "number_of_pending_tasks number_of_in_flight_fetch task_max_waiting_in_queue_millis"
    )
    return {
        "cluster_name": "null",
        "status": "green",
        "timed_out": False,
        "number_of_nodes": 1,
        "number_of_data_nodes": 1,
        "active_primary_shards": count,
        "active_shards": count,
        **dict.fromkeys(zeros.split(), 0),
        "active_shards_percent_as_number": 100.0,
    }


def nodes(node_id: str, version: Version, indices: list[StoredIndex], *, with_statistics: bool) -> dict[str, Any]:
    """Return the reply to _nodes or, with statistics, to _nodes/stats. The CPU time is that of this process."""
    node: dict[str, Any] = {
        "name": "null",
        "host": "127.0.0.1",
        "ip": "127.0.0.1",
        "roles": ["data", "ingest", "master"],
    }
    if with_statistics:
        node |= {
            "timestamp": time.time_ns() // 1_000_000,
            "indices": _statistics(indices),
            "os": {"cpu": {"load_average": dict(zip(("1m", "5m", "15m"), os.getloadavg(), strict=True))}},
            "process": {"cpu": {"percent": 0, "total_in_millis": time.process_time_ns() // 1_000_000}},
            "jvm": {
                "uptime_in_millis": time.monotonic_ns() // 1_000_000,
                "mem": {"heap_used_in_bytes": 0, "heap_max_in_bytes": 0, "pools": {}},
                "gc": {"collectors": {name: _gc() for name in ("young", "old")}},
            },
        }
    else:
        cores = os.cpu_count()
        node |= {
            "version": version.number,
            "build_hash": "0" * 40,
            "os": {"name": "Linux", "available_processors": cores, "allocated_processors": cores},
            "jvm": {"version": "0", "vm_vendor": "none", "mem": {"heap_max_in_bytes": 0}},
            "plugins": [],
            "modules": [],
        }
    return {
        "_nodes": {"total": 1, "successful": 1, "failed": 0},
        "cluster_name": "null",
        "nodes": {node_id: node},
    }


def stats(node_id: str, indices: list[StoredIndex], *, by_shard: bool = False) -> dict[str, Any]:
    """Return the reply to _stats; `by_shard` (level=shards) puts all of an index into its first shard."""
    count = sum(index.shards for index in indices)
    whole = _statistics(indices)
    return {
        "_shards": {"total": count, "successful": count, "failed": 0},
        "_all": {"primaries": whole, "total": whole},
        "indices": {index.name: _index_stats(index, node_id if by_shard else None) for index in indices},
    }


def _index_stats(index: StoredIndex, node_id: str | None) -> dict[str, Any]:
    whole = _statistics([index])
    found: dict[str, Any] = {"primaries": whole, "total": whole}
    if node_id is not None:
        routing = {"state": "STARTED", "primary": True, "node": node_id}
        copies = [whole] + [_statistics([])] * (index.shards - 1)
        found["shards"] = {str(number): [{"routing": routing, **copy}] for number, copy in enumerate(copies)}
    return found


def _statistics(indices: list[StoredIndex]) -> dict[str, Any]:
    """Return statistics: document counts are real, times are zero since a null cluster does no work."""
    return {
        "docs": {"count": sum(index.visible for index in indices), "deleted": 0},
        "store": {"size_in_bytes": 0},
        "indexing": _zeros("index_total index_time_in_millis throttle_time_in_millis")
        | {"index_total": sum(index.sequence for index in indices)},
        "search": _zeros("query_total query_time_in_millis fetch_total fetch_time_in_millis"),
        "merges": _zeros("current total total_time_in_millis total_throttled_time_in_millis"),
        "refresh": _zeros("total total_time_in_millis"),
        "flush": _zeros("total total_time_in_millis"),
        "segments": _zeros("count memory_in_bytes"),
        "translog": _zeros("operations size_in_bytes"),
    }


def settings(index: StoredIndex, *, flat: bool = False) -> dict[str, Any]:
    """Return an index's part of the reply to _settings, nested or flat."""
    defaults = {"number_of_shards": "1", "number_of_replicas": "1"}
    made = {"provided_name": index.name, "uuid": index.uuid, "creation_date": "1700000000000"}
    found = {**defaults, **{k: _setting(v) for k, v in index.settings.items()}, **made}
    if flat:
        return {"settings": {f"index.{key}": value for key, value in found.items()}}
    return {"settings": {"index": found}}


def mappings(index: StoredIndex) -> dict[str, Any]:
    """Return an index's part of the reply to _mapping."""
    return {"mappings": index.mappings}


def shards(indices: list[StoredIndex]) -> str:
    """Return `"_shards":{...}` of a broadcast request, as JSON text."""
    count = sum(index.shards for index in indices)
    return f'"_shards":{{"total":{count},"successful":{count},"failed":0}}'


def _setting(value: Any) -> Any:
    """Return a setting as text, as Elasticsearch does."""
    if isinstance(value, bool):
        return str(value).lower()
    return value if isinstance(value, dict | list) else str(value)


def _zeros(names: str) -> dict[str, int]:
    return dict.fromkeys(names.split(), 0)


def _gc() -> dict[str, int]:
    return _zeros("collection_count collection_time_in_millis")
