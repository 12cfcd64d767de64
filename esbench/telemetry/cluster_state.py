"""The state of a cluster before and after a race: health, machines, settings, the activity of its indices.

Read before the first step and after the last one, never in between. If the cluster does not report something
(permissions, missing APIs), its facts are missing and a sentence says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from esbench.cluster.client import LENIENT, Cluster, index_path
from esbench.cluster.dialect import flat
from esbench.cluster.replies import count, counted, flag, listed, mapping, text
from esbench.record.model import ClusterFacts, DiskFacts, ShardFacts
from esbench.record.secrets import Redactor, redact
from esbench.telemetry.snapshots import Attempts, T, copies, count_at

_SETTINGS = {
    "include_defaults": True,
    "filter_path": "persistent,transient,defaults.cluster.routing.allocation.disk",
}
_DISK = "cluster.routing.allocation.disk."
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
# The places of the fields of IndexUse.
_OF_INDICES = ("primaries.indexing.index_total", "total.search.query_total", "total.get.total", "total.merges.current")


@dataclass(frozen=True)
class IndexUse:
    """The activity of an index since it was opened, in counts.

    `indexed`: documents written to primary shards; `queries` and `gets` of all copies, a search of five shards being
    five queries; `merges`: those running now.
    """

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

    `health` as of `health_of`; `settings`: persistent and transient; `disk` as of `disk_settings`; `machines` by the id
    of their node; `shards` with the ids of their nodes.
    """

    health: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    disk: Mapping[str, Any] = field(default_factory=dict)
    machines: Mapping[str, Machine] = field(default_factory=dict)  # by the node's id
    use: Use | None = None
    shards: tuple[ShardFacts, ...] = ()
    notes: tuple[str, ...] = ()


class _Asking(Attempts):
    """Requests to a cluster, each with a time limit."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__()
        self._cluster = cluster

    def health(self) -> Mapping[str, Any]:
        return self.ask("cluster health", "/_cluster/health", {"master_timeout": "1s"}, health_of, {})

    def use(self) -> Use | None:
        paths = {"filter_path": [f"indices.*.{path}" for path in _OF_INDICES]}
        return self.ask("counts of what others do", f"/_stats/{_METRICS}", paths, use_of, None)

    def ask(self, what: str, path: str, params: Mapping[str, Any], read: Callable[[Any], T], default: T) -> T:
        """Return what `read` makes of the reply, or `default` without a usable one."""
        return self.attempt(
            what,
            lambda: read(self._cluster.request("GET", path, params=params, timeout_s=_TIMEOUT_S)),
            default,
            where=path,
        )


def use_now(cluster: Cluster) -> Use | None:
    """Return the document, query and get counts of every index so far, to detect other users of the cluster.

    None if the cluster does not report them.
    """
    return _Asking(cluster).use()


def before(cluster: Cluster) -> Surroundings:
    """Return the cluster's state before a race, without shards, by four requests; a failed one becomes a note.

    Secrets in settings are hidden. Raises nothing if the cluster cannot be reached.
    """
    asking = _Asking(cluster)
    redactor = Redactor(cluster.options.secrets())

    def read(reply: Any) -> Surroundings:
        settings = mapping(reply)
        kinds = {kind: mapping(settings.get(kind)) for kind in ("persistent", "transient")}
        kept = {kind: redact(those, redactor) for kind, those in kinds.items() if those}
        return Surroundings(settings=kept, disk=disk_settings(settings))

    return replace(
        asking.ask("cluster settings", "/_cluster/settings", _SETTINGS, read, Surroundings()),
        health=asking.health(),
        machines=asking.ask("facts about memory and disks", "/_nodes/stats/os,fs", {}, machines_of, {}),
        use=asking.use(),
        notes=tuple(asking.notes),
    )


def after(cluster: Cluster, names: Iterable[str]) -> Surroundings:
    """Return health, activity and shards of the cluster after a race, by three requests; a failed one becomes a note.

    `names` are the indices, data streams or aliases whose shards are wanted; without names there are no shards.
    Settings, disk and machines stay empty.
    """
    asking = _Asking(cluster)
    path, by_shard = index_path(names), {**LENIENT, "level": "shards"}
    return Surroundings(
        health=asking.health(),
        use=asking.use(),
        shards=asking.ask("places of shards", f"{path}/_stats/docs,store", by_shard, shards_of, ()) if path else (),
        notes=tuple(asking.notes),
    )


def health_of(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record's part of a reply to _cluster/health; keys that the reply lacks are absent.

    Keys: status, nodes, data_nodes, active_primary_shards, active_shards, relocating_shards, initializing_shards,
    unassigned_shards, pending_tasks. Raises WrongType for a status or a count of another type.
    """
    found = {name: (text if name == "status" else count)(reply[key]) for key, name in _HEALTH.items() if key in reply}
    return {name: value for name, value in found.items() if value is not None}


def use_of(reply: Mapping[str, Any]) -> Use:
    """Return the activity of indices, by name, from a reply to _stats/indexing,search,get,merge; its time is now.

    Figures that the reply lacks count as 0.
    """
    indices = mapping(reply.get("indices"))
    counts = {name: IndexUse(*(count_at(entry, path) for path in _OF_INDICES)) for name, entry in indices.items()}
    return Use(time.monotonic(), counts)


def machines_of(reply: Mapping[str, Any]) -> dict[str, Machine]:
    """Return node id -> machine, from a reply to _nodes/stats/os,fs; memory is None if the node does not report it.

    Raises KeyError, TypeError, ValueError or AttributeError for a reply of another form.
    """
    return {
        node: Machine(
            name=text(entry["name"]),
            memory_bytes=count(mapping(mapping(entry.get("os")).get("mem")).get("total_in_bytes")),
            disks=tuple(_disk(disk) for disk in listed(mapping(entry.get("fs")).get("data"))),
        )
        for node, entry in reply["nodes"].items()
    }


def _disk(entry: Mapping[str, Any]) -> DiskFacts:
    return DiskFacts(
        type=text(entry.get("type")),
        mount=text(entry.get("mount")),
        total_bytes=count(entry.get("total_in_bytes")),
        available_bytes=count(entry.get("available_in_bytes")),
        spins=entry["spins"] == "true" if "spins" in entry else None,  # reported up to 6.x
    )


def disk_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return `threshold_enabled` and the watermarks that apply: transient before persistent before default ones.

    Keys are dotted, without `cluster.routing.allocation.disk.`: `watermark.low`. `settings`: a reply to
    _cluster/settings, nested or flat, with the defaults. Raises WrongType for one that is no text.
    """
    kinds = ("defaults", "persistent", "transient")
    return {
        name.removeprefix(_DISK): text(value)
        for kind in kinds
        for name, value in flat(mapping(settings.get(kind)))
        if name.startswith(_DISK)
    }


def described(facts: ClusterFacts, found: Surroundings) -> ClusterFacts:
    """Return a record's facts about the cluster with `found`, the state before the race, added."""
    machines = found.machines
    return replace(
        facts,
        nodes=tuple(
            replace(node, memory_bytes=machines[node.id].memory_bytes, disks=machines[node.id].disks)
            if node.id in machines
            else node
            for node in facts.nodes
        ),
        health={"before": found.health} if found.health else {},
        cluster_settings=found.settings,
    )


def shards_of(reply: Mapping[str, Any]) -> tuple[ShardFacts, ...]:
    """Return the shards of a reply to _stats/docs,store?level=shards; `node` is the node's id."""
    found = sorted(copies(reply["indices"]), key=lambda copy: copy[:2])
    return tuple(
        ShardFacts(
            index=index,
            shard=number,
            primary=flag(copy["routing"]["primary"]),
            node=text(copy["routing"]["node"]),
            docs=counted(copy["docs"]["count"]),
            store_bytes=counted(copy["store"]["size_in_bytes"]),
        )
        for index, number, copy in found
    )


def completed(facts: ClusterFacts, found: Surroundings) -> ClusterFacts:
    """Return a record's facts about the cluster with `found`, the state after the race, added.

    Shards get the names of their nodes, and their sums by node are added; more than 500 shards are kept as sums only.
    """
    names = {node.id: node.name for node in facts.nodes}
    named = [replace(shard, node=names.get(shard.node, shard.node)) for shard in found.shards]
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
        health={**facts.health, **({"after": found.health} if found.health else {})},
        shards=tuple(named) if few else (),
        shards_by_node=dict(sorted(by_node.items())),
    )
