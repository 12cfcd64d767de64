"""The devices that ask about nodes: a few of their statistics in every race (nodes), or all (node-stats); the master.

Both read statistics into the same groups and columns, so that aggregation does not depend on the device.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from esbench.cluster.client import SERVERLESS
from esbench.cluster.replies import counted, mapping, text
from esbench.errors import ClusterError, did_you_mean
from esbench.features.devices.node_aggregates import COLUMNS, of_task
from esbench.features.devices.node_figures import ALL, ALWAYS, OPTIONS, NodeFigures, readings_of, request_of
from esbench.telemetry.device import Device, NodeNames, Param, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.series import SeriesOf

_NOT_ALLOWED = (401, 403)
_NOT_THERE = (404, 405, 410)
_REQUEST_TIMEOUT_S = 10.0  # of the whole request; nodes have half of it to answer
_PRESSURE_SINCE = (7, 9)
_INTERVAL_S = 1.05  # servers measure process, host and heap again after a second: a little later all of it is new

_PARTS_OF_INDICES = "node-stats-include-indices-metrics"


class NodeClock:
    """The offset of a node's clock to this process's, estimated from requests whose reply has the node's time.

    The request with the shortest round trip gives the best estimate, until another one contradicts it.
    """

    def __init__(self) -> None:
        self._offset_s = 0.0
        self._round_trip_s = float("inf")

    def see(self, begun_s: float, ended_s: float, node_s: float) -> None:
        """Take a request from `begun_s` to `ended_s`, this process's time, whose reply has the node's time `node_s`."""
        low, high = begun_s - node_s, ended_s - node_s
        if high - low <= self._round_trip_s or not low <= self._offset_s <= high:
            self._offset_s, self._round_trip_s = (low + high) / 2, high - low

    def here(self, node_s: float) -> float:
        """Return a time of the node's clock (seconds) in this process's clock; unchanged before the first `see`."""
        return node_s + self._offset_s


class Nodes(Device):
    """The figures of each node in every race, once a second: CPU, load, memory, heap, pauses, rejections, disk."""

    name = "nodes"
    help = "CPU, load, memory, heap, garbage collection, rejections and disk of each node, once a second"
    always = True
    figures = COLUMNS
    from_zero = frozenset({"thread_pool"})
    settle_s = 2.0  # the first figures that a server takes after a step may come a second and a sample later
    _wanted: tuple[NodeFigures, ...] = ALWAYS

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._path, self._filter = request_of(self._wanted)
        self._clocks: dict[str, NodeClock] = {}
        self._taken_ms: dict[tuple[str, str], int] = {}
        self._ids: dict[str, str] = {}  # what a node is called -> its id

    @property
    def interval_s(self) -> float:
        return super().interval_s or _INTERVAL_S

    def begin(self) -> None:
        if self.scene.info.build_flavor == SERVERLESS:
            raise Unseen("serverless projects do not report on their nodes")

    def sample(self) -> Iterable[Reading]:
        begun_s = time.monotonic()
        nodes = self._ask()
        ended_s = time.monotonic()
        return [
            reading for node_id, node in nodes.items() for reading in self._news(node_id, node, nodes, begun_s, ended_s)
        ]

    def _ask(self) -> Mapping[str, Any]:
        """Return the statistics of all nodes, by id.

        Raises Unseen if the cluster does not report them at all, ClusterError if only this time.
        """
        reply = self.scene.cluster.request(
            "GET",
            self._path,
            params={"filter_path": self._filter, "timeout": f"{_REQUEST_TIMEOUT_S / 2:.0f}s"},
            timeout_s=_REQUEST_TIMEOUT_S,
            ignore=(*_NOT_ALLOWED, *_NOT_THERE),
        )
        if isinstance(reply, Mapping) and "error" not in reply and reply.get("nodes"):
            if mapping(reply.get("_nodes")).get("failed"):
                self.note("some nodes did not send their figures in time, at least once")
            return mapping(reply["nodes"])
        reason, status = _reason(reply)
        if status in _NOT_ALLOWED or not self._taken_ms:
            raise Unseen(f"the cluster does not report on its nodes: {reason}")
        raise ClusterError(f"no statistics of nodes: {reason}")

    def _news(
        self, node_id: str, node: Mapping[str, Any], nodes: Mapping[str, Any], begun_s: float, ended_s: float
    ) -> Iterator[Reading]:
        """Yield the readings that are new since the previous sample; servers repeat a reading until the next one."""
        of = self._called(node_id, str(node.get("name", node_id)), nodes)
        clock = self._clocks.setdefault(of, NodeClock())
        clock.see(begun_s, ended_s, counted(node["timestamp"]) / 1000)
        for taken_ms, reading in readings_of(node, of, self._wanted):
            key = (of, reading.group)
            if self._taken_ms.get(key) != taken_ms:
                self._taken_ms[key] = taken_ms
                age_s = (begun_s + ended_s) / 2 - clock.here(taken_ms / 1000)
                yield Reading(of, reading.group, reading.gauges, reading.counters, age_s)

    def _called(self, node_id: str, name: str, nodes: Mapping[str, Any]) -> str:
        """Return a node's name, with its id if another node of the cluster has the same name."""
        holder = self._ids.get(name, node_id)
        if holder == node_id or holder not in nodes:
            self._ids[name] = node_id
            return name
        return f"{name} ({node_id[:8]})"

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        return of_task(span, series)


class NodeStats(Nodes):
    """All statistics of all nodes, remote ones too."""

    name = "node-stats"
    key = "nodes"
    help = "every section of the nodes' own statistics: CPU, load, memory, heap, disk, thread pools, network, ..."
    always = False
    replaces = "nodes"
    params = (
        Param("node-stats-sample-interval", "duration", _INTERVAL_S, "time between two samples"),
        *(
            Param(f"node-stats-include-{option}", "flag", option not in ("indices", "buffer-pools"), help_)
            for option, help_ in OPTIONS.items()
        ),
        Param(
            _PARTS_OF_INDICES,
            "names",
            (),
            "parts of indices to read, which switches them on: docs, store, indexing, get, search, merges, refresh, "
            "flush, segments, translog, query_cache, request_cache, fielddata",
        ),
    )

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        parts = params[_PARTS_OF_INDICES]
        self._wanted = tuple(
            figures.only_parts(parts) if figures.option == "indices" and parts else figures
            for figures in ALL
            if (params[f"node-stats-include-{figures.option}"] or (figures.option == "indices" and parts))
            and (figures.section != "indexing_pressure" or _has_indexing_pressure(scene))
        )
        super().__init__(scene, params)
        known = {part for figures in ALL if figures.option == "indices" for part in figures.parts}
        for part in sorted(set(parts) - known):
            self.note(f'{_PARTS_OF_INDICES}: there is no "{part}" ({did_you_mean(part, known)})')


class MasterNodeStats(Device):
    """Asks for the master node; a series has only the moments of changes. Without a master samples fail."""

    name = "master-node-stats"
    help = "which node is the master, and when another one became it"
    params = (Param("master-node-stats-sample-interval", "duration", 1.0, "time between two samples"),)
    figures = frozenset()

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._nodes = NodeNames(scene.cluster)
        self._masters: list[str] = []  # one after the other
        self._told = 0

    def sample(self) -> Iterable[Reading]:
        path = "/_cluster/state/master_node"
        reply = self.scene.cluster.request("GET", path, params={"filter_path": "master_node", "master_timeout": "1s"})
        node = text(reply["master_node"])
        master = self._nodes.of([node])[node]
        if self._masters[-1:] == [master]:
            return []
        changed = [Reading(former, "master", {"master": 0}) for former in self._masters[-1:]]
        self._masters.append(master)
        return [*changed, Reading(master, "master", {"master": 1})]

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        changes, self._told = self._changes - self._told, self._changes
        return {"changes": changes} if changes else {}

    def end(self) -> Mapping[str, Any]:
        """Return the number of `changes`, and `masters`: the names of the nodes that were master, in order.

        Empty if no master was seen.
        """
        if self._changes:
            self.note(f"the master changed during the race: {', then '.join(self._masters)}")
        return {"changes": self._changes, "masters": self._masters} if self._masters else {}

    @property
    def _changes(self) -> int:
        return max(0, len(self._masters) - 1)


def _has_indexing_pressure(scene: Scene) -> bool:
    """True if the server knows that section: a server rejects the whole request for an unknown section."""
    return scene.info.distribution != "elasticsearch" or scene.info.version_tuple >= _PRESSURE_SINCE


def _reason(reply: Any) -> tuple[str, int | None]:
    """Return the reason why a reply has no statistics, and the HTTP status if the reply contains it."""
    if not isinstance(reply, Mapping):
        return str(reply or "an empty reply"), None
    said = {key.lower(): value for key, value in reply.items()}  # AWS says Message
    error = said.get("error", said.get("message", "the reply names no node"))
    reason = error.get("reason") or error.get("type") if isinstance(error, Mapping) else error
    return str(reason), reply.get("status")
