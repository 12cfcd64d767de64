"""The common part of devices that observe indices: the selection of indices, and the names of nodes.

The cluster leaves out indices that are closed, deleted or renamed meanwhile; no index never means all indices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from esbench.cluster.client import Cluster, index_path
from esbench.telemetry.device import Device, Param, Scene, Unseen

LENIENT: Mapping[str, Any] = {"ignore_unavailable": True, "allow_no_indices": True}


class IndexDevice(Device):
    """A device that observes the track's indices, or those that its parameter `of` names."""

    of: ClassVar[Param | None] = None

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        named = params[self.of.name] if self.of else ()
        self.names: tuple[str, ...] = tuple(named or scene.targets)
        self.seeing = False  # whether there is something to ask for

    def begin(self) -> None:
        """Raise Unseen if there is no index to observe."""
        if not self.names:
            raise Unseen("the track names no indices: there is nothing to look at")
        self.seeing = True

    def ask(self, api: str, keep: Iterable[str] = (), **params: Any) -> Mapping[str, Any]:
        """Return the reply of `GET /INDICES/API` for those of the indices that exist, reduced to `keep` (filter_path).

        Empty before `begin`.
        """
        if not self.seeing:
            return {}
        wanted = {**LENIENT, **params, "filter_path": list(keep) or None}
        return self.scene.cluster.request("GET", f"{index_path(self.names)}/{api}", params=wanted) or {}


class NodeNames:
    """The names of nodes by their ids; asks the cluster for a new id."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._known: dict[str, str] = {}

    def of(self, ids: Iterable[str]) -> Mapping[str, str]:
        """Return id -> name; the id itself if the cluster does not know the node (any more)."""
        wanted = set(ids)
        if wanted - self._known.keys():
            reply = self._cluster.request("GET", "/_nodes/http", params={"filter_path": "nodes.*.name"}) or {}
            self._known |= {node: entry["name"] for node, entry in reply.get("nodes", {}).items()}
            self._known |= {node: node for node in wanted - self._known.keys()}
        return {node: self._known[node] for node in wanted}
