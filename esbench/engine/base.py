"""What a race asks of an engine: a cluster to send requests to, and its end.

An engine never looks at tracks, never measures and never imports the load driver.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class NodeOptions:
    """The options that define an embedded node: races that differ in one of these do not share a node."""

    distribution: str = ""  # a name of the catalog, a bare version, or a path; "" is the catalog's default
    nodes: int = 1
    heap_bytes: int = 512 << 20
    java_home: Path | None = None
    node_user: int | None = None  # as root only; None is 64000
    node_settings: Mapping[str, Any] = field(default_factory=dict)  # of the yml; they win over esbench's own
    jvm_options: tuple[str, ...] = ()  # the last ones of the node's Java
    node_plugins: tuple[Path, ...] = ()  # archives


@dataclass(frozen=True)
class Endpoint:
    """Where a cluster answers, and what its engine knows about it (`ClusterFacts.settings`)."""

    urls: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


class Engine(Protocol):
    """A cluster for the length of a race."""

    pipeline: str  # embedded, benchmark-only

    def start(self) -> Endpoint:
        """Return when an index can be created; an EngineError leaves nothing running."""
        ...

    def stop(self) -> None:
        """End what `start` began, within a bounded time; safe to call twice and without a start."""
        ...
