"""A cluster that answers what real ones answered: replies recorded with `orders` (two shards, one replica less), `kept`
(a replica without a node), `shut` (closed), without `gone`, and with an ingest pipeline `clean`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from answering import AnsweringCluster

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.telemetry.device import Device, Scene

TARGETS = ("orders", "kept", "shut", "gone")
RECORDED = sorted((Path(__file__).parents[1] / "recorded" / "telemetry").glob("indices-*.json"))


def recorded(version: str) -> dict[str, Any]:
    """The replies of the server whose version begins so, say `elasticsearch-8`."""
    path = next(path for path in RECORDED if path.stem.startswith(f"indices-{version}"))
    replies: dict[str, Any] = json.loads(path.read_text())
    return replies


class RecordedCluster(AnsweringCluster):
    """`replies`: part of a path -> a reply, or an error to be raised; may be changed meanwhile."""

    def __init__(self, replies: Mapping[str, Any]) -> None:
        super().__init__()
        self.replies = dict(replies)
        self.asked: list[str] = []
        self.params: list[Mapping[str, Any]] = []

    def answer(self, method: str, path: str, params: Mapping[str, Any], body: Any) -> Any:
        self.asked.append(f"{method} {path}")
        self.params.append(params)
        for part, reply in self.replies.items():
            if part in path:
                return reply
        raise AssertionError(f"nobody recorded {method} {path}")


def made(
    kind: type[Device],
    cluster: Cluster,
    folder: Path = Path(),
    *,
    version: str = "elasticsearch-7.10.2",
    targets: tuple[str, ...] = TARGETS,
    **params: Any,
) -> Device:
    """A device of that kind; underscores of parameters stand for hyphens."""
    distribution, _, number = version.partition("-")
    given = {name.replace("_", "-"): value for name, value in params.items()}
    defaults = {param.name: param.default for param in kind.params}
    return kind(Scene(cluster, ClusterInfo(distribution, number), targets, folder), {**defaults, **given})
