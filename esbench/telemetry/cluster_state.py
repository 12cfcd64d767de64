"""What a cluster is like beside the race: its health, its machines, its settings, what its indices have done.

Taken before the first step and after the last one, never in between. What the cluster does not tell (rights, missing
APIs) costs its facts and a sentence.
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
    """What an index has done since it was opened; `queries` of all copies, `merges` are those that run."""

    indexed: int
    queries: int
    gets: int
    merges: int


@dataclass(frozen=True)
class Use:
    """What each index had done at a moment (`at_s`, of the monotonic clock)."""

    at_s: float
    indices: Mapping[str, IndexUse]


@dataclass(frozen=True)
class Machine:
    """What a node runs on."""

    name: str
    memory_bytes: int | None
    disks: tuple[DiskFacts, ...]


@dataclass(frozen=True)
class Surroundings:
    """The cluster at one moment; what it did not tell is empty or None, with a sentence in `notes`.

    `settings`: persistent and transient; `disk`: those of cluster.routing.allocation.disk that hold; `shards` with the
    ids of their nodes.
    """

    health: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    disk: Mapping[str, Any] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)  # by the node's id
    use: Use | None = None
    shards: tuple[ShardFacts, ...] = ()
    notes: tuple[str, ...] = ()


class _Asking:
    """Questions to a cluster, each bounded in time; what has no answer is noted."""

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
    """What all indices have done until now; None where it is not told."""
    return _Asking(cluster).use()


def look(cluster: Cluster) -> Surroundings:
    """The cluster as it is before a race: four requests."""
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
    """The cluster as it is after a race, with the shards of its indices, data streams or aliases: three requests."""
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
    """The record's part of a reply to _cluster/health."""
    return {name: reply[key] for key, name in _HEALTH.items() if key in reply}


def use_of(reply: Mapping[str, Any]) -> Use:
    """From a reply to _stats/indexing,search,get,merge; a filtered one lacks what is empty."""
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
    """By node id, from a reply to _nodes/stats/os,fs."""
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
        spins=entry["spins"] == "true" if "spins" in entry else None,  # told up to 6.x
    )


def disk_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """`threshold_enabled` and watermarks, each from where it is set last."""
    found: dict[str, Any] = {}
    for kind in ("defaults", "persistent", "transient"):
        entry: Any = settings.get(kind) or {}
        for name in ("cluster", "routing", "allocation", "disk"):
            entry = entry.get(name, {}) if isinstance(entry, Mapping) else {}
        found |= flat(entry)
    return found


def flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by their full names."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _hidden(settings: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Settings without secrets: neither under names that say so nor inside of values."""

    def hide(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {name: hide(item) for name, item in value.items()}
        if isinstance(value, list):
            return [hide(item) for item in value]
        return redactor(value) if isinstance(value, str) else value

    hidden: dict[str, Any] = hide(redact(settings))
    return hidden


def described(facts: ClusterFacts, before: Surroundings) -> ClusterFacts:
    """A record's facts with what was seen before the race."""
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
    """From a reply to _stats/docs,store?level=shards; `node` is its id."""
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
    """A record's facts with what was seen after the race: shards with the names of their nodes, where they are many
    their sums only."""
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
