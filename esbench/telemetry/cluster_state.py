"""The state of a cluster before and after a race: health, machines, settings, the activity of its indices.

Read before the first step and after the last one, never in between. If the cluster does not report something
(permissions, missing APIs), its facts are missing and a sentence says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from esbench.cluster.client import Cluster, index_path
from esbench.errors import ClusterError
from esbench.errors.reasons import form_fault
from esbench.record.model import ClusterFacts, DiskFacts, ShardFacts, redact
from esbench.record.secrets import Redactor

_SETTINGS = {
    "include_defaults": True,
    "filter_path": "persistent,transient,defaults.cluster.routing.allocation.disk",
}
_SHARDS_AT_MOST = 500  # that the record names one by one
_TIMEOUT_S = 1.0  # a cluster that hangs must not hold up the race
_HEALTH = {
    "status": "status",
    "number_of_nodes": "nodes",
    "number_of_data_nodes": "data_nodes",
    "active_primary_shards": "active_primary_shards",
    "active_shards": "active_shards",
    "relocating_shards": "relocating_shards",
    "initializing_shards": "initializing_shards",
    "unassigned_shards": "unassigned_shards",
    "number_of_pending_tasks": "pending_tasks",
}
_METRICS = "indexing,search,get,merge"
_OF_INDICES = ("primaries.indexing.index_total", "total.search.query_total", "total.get.total", "total.merges.current")


@dataclass(frozen=True)
class IndexUse:
    """The activity of an index since it was opened; queries and gets of all copies; `merges` are those running now."""

    indexed: int
    queries: int
    gets: int
    merges: int


@dataclass(frozen=True)
class Use:
    """The activity of all indices up to one moment (`at_s`, of the monotonic clock)."""

    at_s: float
    indices: Mapping[str, IndexUse]


@dataclass(frozen=True)
class Machine:
    """The memory and disks of a node's host."""

    name: str
    memory_bytes: int | None
    disks: tuple[DiskFacts, ...]


@dataclass(frozen=True)
class Surroundings:
    """The state of the cluster at one moment; what it did not report is empty or None, with a sentence in `notes`.

    `settings`: persistent and transient; `disk`: the effective settings of cluster.routing.allocation.disk; `shards`
    with the ids of their nodes.
    """

    health: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    disk: Mapping[str, Any] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)  # by the node's id
    use: Use | None = None
    shards: tuple[ShardFacts, ...] = ()
    notes: tuple[str, ...] = ()


class _Asking:
    """Requests to a cluster, each with a time limit; a request without a usable reply is noted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.notes: list[str] = []

    def health(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.ask(
            "cluster health", "/_cluster/health", {"master_timeout": "1s"}, health_of, {}
        )
        return found

    def use(self) -> Use | None:
        paths = {"filter_path": [f"indices.*.{path}" for path in _OF_INDICES]}
        found: Use | None = self.ask("counts of what others do", f"/_stats/{_METRICS}", paths, use_of, None)
        return found

    def ask(self, what: str, path: str, params: Mapping[str, Any], read: Callable[[Any], Any], default: Any) -> Any:
        try:
            return read(self._cluster.request("GET", path, params=params, timeout_s=_TIMEOUT_S))
        except ClusterError as error:
            self.notes.append(f"no {what}: {error}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:  # a proxy may answer anything
            self.notes.append(f"no {what}: {path}: the reply has an unknown form ({form_fault(error)})")
        return default


def use_now(cluster: Cluster) -> Use | None:
    """Return the activity of all indices up to now; None if the cluster does not report it."""
    return _Asking(cluster).use()


def look(cluster: Cluster) -> Surroundings:
    """Return the cluster's state before a race, without shards, by four requests; a failed one becomes a note."""
    asking = _Asking(cluster)
    settings = asking.ask("cluster settings", "/_cluster/settings", _SETTINGS, _mapping, {})
    redactor = Redactor(cluster.options.secrets())
    return Surroundings(
        health=asking.health(),
        settings={
            kind: _hidden(settings[kind], redactor) for kind in ("persistent", "transient") if settings.get(kind)
        },
        disk=disk_settings(settings),
        machines=asking.ask("facts about memory and disks", "/_nodes/stats/os,fs", {}, machines_of, {}),
        use=asking.use(),
        notes=tuple(asking.notes),
    )


def look_back(cluster: Cluster, names: Iterable[str]) -> Surroundings:
    """Return the state of the cluster after a race, with the shards of the given indices: three requests.

    `names` are indices, data streams or aliases.
    """
    asking = _Asking(cluster)
    path, by_shard = index_path(names), {"ignore_unavailable": True, "allow_no_indices": True, "level": "shards"}
    return Surroundings(
        health=asking.health(),
        use=asking.use(),
        shards=asking.ask("places of shards", f"{path}/_stats/docs,store", by_shard, shards_of, ()) if path else (),
        notes=tuple(asking.notes),
    )


def _mapping(reply: Mapping[str, Any]) -> dict[str, Any]:
    return {**reply}  # a TypeError for anything else


def health_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record's part of a reply to _cluster/health."""
    return {name: reply[key] for key, name in _HEALTH.items() if key in reply}


def use_of(reply: Mapping[str, Any]) -> Use:
    """Return the activity of indices from a reply to _stats/indexing,search,get,merge; missing figures count as 0."""
    return Use(time.monotonic(), {name: _index_use(entry) for name, entry in reply.get("indices", {}).items()})


def _index_use(entry: Mapping[str, Any]) -> IndexUse:
    total = entry.get("total", {})
    return IndexUse(
        indexed=entry.get("primaries", {}).get("indexing", {}).get("index_total", 0),
        queries=total.get("search", {}).get("query_total", 0),
        gets=total.get("get", {}).get("total", 0),
        merges=total.get("merges", {}).get("current", 0),
    )


def machines_of(reply: Mapping[str, Any]) -> dict[str, Machine]:
    """Return node id -> machine, from a reply to _nodes/stats/os,fs."""
    return {
        node: Machine(
            name=entry["name"],
            memory_bytes=entry.get("os", {}).get("mem", {}).get("total_in_bytes"),
            disks=tuple(_disk(disk) for disk in entry.get("fs", {}).get("data", ())),
        )
        for node, entry in reply["nodes"].items()
    }


def _disk(entry: Mapping[str, Any]) -> DiskFacts:
    return DiskFacts(
        type=entry.get("type", ""),
        mount=entry.get("mount", ""),
        total_bytes=entry.get("total_in_bytes"),
        available_bytes=entry.get("available_in_bytes"),
        spins=entry["spins"] == "true" if "spins" in entry else None,  # reported up to 6.x
    )


def disk_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `threshold_enabled` and the watermarks that apply: transient before persistent before default ones."""
    found: dict[str, Any] = {}
    for kind in ("defaults", "persistent", "transient"):
        entry: Any = settings.get(kind) or {}
        for name in ("cluster", "routing", "allocation", "disk"):
            entry = entry.get(name, {}) if isinstance(entry, Mapping) else {}
        found |= flat(entry)
    return found


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the full name and the value of each of nested settings."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _hidden(settings: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return settings without secrets: neither under names of secrets nor within values."""

    def hide(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: hide(item) for name, item in value.items()}
        if isinstance(value, list):
            return [hide(item) for item in value]
        return redactor(value) if isinstance(value, str) else value

    hidden: dict[str, Any] = hide(redact(settings))
    return hidden


def described(facts: ClusterFacts, before: Surroundings) -> ClusterFacts:
    """Return a record's facts about the cluster with the state before the race added."""
    machines = before.machines
    return replace(
        facts,
        nodes=tuple(
            replace(node, memory_bytes=machines[node.id].memory_bytes, disks=machines[node.id].disks)
            if node.id in machines
            else node
            for node in facts.nodes
        ),
        health={"before": before.health} if before.health else {},
        cluster_settings=before.settings,
    )


def shards_of(reply: Mapping[str, Any]) -> tuple[ShardFacts, ...]:
    """Return the shards of a reply to _stats/docs,store?level=shards; `node` is the node's id."""
    return tuple(
        ShardFacts(
            index=index,
            shard=int(number),
            primary=copy["routing"]["primary"],
            node=copy["routing"]["node"],
            docs=copy["docs"]["count"],
            store_bytes=copy["store"]["size_in_bytes"],
        )
        for index, entry in sorted(reply["indices"].items())
        for number, copies in sorted(entry["shards"].items(), key=lambda item: int(item[0]))
        for copy in copies
    )


def completed(facts: ClusterFacts, after: Surroundings) -> ClusterFacts:
    """Return a record's facts about the cluster with the state after the race added.

    Shards get the names of their nodes, and their sums by node are added; more than 500 shards are kept as sums only.
    """
    names = {node.id: node.name for node in facts.nodes}
    named = [replace(shard, node=names.get(shard.node, shard.node)) for shard in after.shards]
    by_node: dict[str, dict[str, int]] = {}
    for shard in named:
        sums = by_node.setdefault(shard.node, {"shards": 0, "primaries": 0, "docs": 0, "store_bytes": 0})
        sums["shards"] += 1
        sums["primaries"] += shard.primary
        sums["docs"] += shard.docs
        sums["store_bytes"] += shard.store_bytes
    few = len(named) <= _SHARDS_AT_MOST
    return replace(
        facts,
        health={**facts.health, **({"after": after.health} if after.health else {})},
        shards=tuple(named) if few else (),
        shards_by_node=dict(sorted(by_node.items())),
    )
