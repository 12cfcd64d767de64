"""master-node-stats: the current master node, and the times at which it changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from esbench.telemetry.device import Device, Param, Reading, Scene
from esbench.telemetry.indices import NodeNames

_GROUP = "master"


class MasterNodeStats(Device):
    """Asks for the master node; a series has only the moments of changes. Without a master samples fail."""

    name: ClassVar[str] = "master-node-stats"
    help: ClassVar[str] = "which node is the master, and when another one became it"
    params: ClassVar[tuple[Param, ...]] = (
        Param("master-node-stats-sample-interval", "duration", 1.0, "time between two samples"),
    )
    figures: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._nodes = NodeNames(scene.cluster)
        self._masters: list[str] = []  # one after the other
        self._told = 0

    @property
    def interval_s(self) -> float:
        interval_s: float = self.given["master-node-stats-sample-interval"]
        return interval_s

    def sample(self) -> Iterable[Reading]:
        path = "/_cluster/state/master_node"
        reply = self.scene.cluster.request("GET", path, params={"filter_path": "master_node", "master_timeout": "1s"})
        node = reply["master_node"]
        master = self._nodes.of([node])[node]
        if self._masters[-1:] == [master]:
            return []
        changed = [Reading(former, _GROUP, {"master": 0}) for former in self._masters[-1:]]
        self._masters.append(master)
        return [*changed, Reading(master, _GROUP, {"master": 1})]

    def end_step(self, step: int, tasks: tuple[str, ...]) -> Mapping[str, Any]:
        changes, self._told = self._changes - self._told, self._changes
        return {"changes": changes} if changes else {}

    def end(self) -> Mapping[str, Any]:
        """Return the number of changes and the names of the nodes that were master, in order."""
        if self._changes:
            self.note(f"the master changed during the race: {', then '.join(self._masters)}")
        return {"changes": self._changes, "masters": self._masters} if self._masters else {}

    @property
    def _changes(self) -> int:
        return max(0, len(self._masters) - 1)
