"""The options of an embedded node, and the endpoint that an engine returns to a race.

An engine never looks at tracks, never measures and never imports the load driver.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esbench.errors import UsageError
from esbench.units import format_bytes

DEFAULT_NODE_USER = 64000
DATABASES = {"mariadb": "mariadbd", "mysql": "mysqld"}  # distribution -> the program of its server
LOG_FOLLOWS = "; the end of its log:"  # in the failure of a node
SHARED = Path("/var/lib/esbench")  # used as root only


@dataclass(frozen=True)
class NodeOptions:
    """The options that define an embedded node: races that differ in one of these do not share a node."""

    distribution: str = ""  # a name of the catalog, a bare version, or a path; "" is the catalog's default
    nodes: int = 1
    heap_bytes: int = 512 << 20
    java_home: Path | None = None
    node_user: int | None = None  # as root only; None is DEFAULT_NODE_USER
    node_settings: Mapping[str, Any] = field(default_factory=dict)  # of the yml; they win over esbench's own
    jvm_options: tuple[str, ...] = ()  # the last ones of the node's Java
    node_plugins: tuple[Path, ...] = ()  # archives

    @property
    def is_database(self) -> bool:
        """True if the distribution is a SQL server: mariadb, mysql, or the path of its program."""
        return self.distribution in DATABASES or Path(self.distribution).name in DATABASES.values()


def check_heap(heap_bytes: int, least_bytes: int) -> None:
    """Raise a UsageError for a heap with which a node does not start; it guesses at a unit that was left out."""
    if heap_bytes < least_bytes:
        unit = "g" if heap_bytes < 64 else "m"
        meant = f"say {heap_bytes}{unit}" if 0 < heap_bytes <= 1 << 20 else "say 512m"
        what = f"{format_bytes(heap_bytes)} is too small: it must be at least {least_bytes >> 20}m"
        raise UsageError(what, where="--heap", hint=meant)


@dataclass(frozen=True)
class Endpoint:
    """The URLs of a cluster, and what its engine knows about it (`ClusterFacts.settings`)."""

    urls: tuple[str, ...]
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class EmbeddedOptions:
    """The nodes to run and their folders.

    `environment` gives JAVA_HOME and PATH; `logs` is the race's folder of logs.
    """

    home: Path  # ESBENCH_HOME
    race_id: str
    logs: Path
    node: NodeOptions = field(default_factory=NodeOptions)
    keep_node: bool = False
    offline: bool = False
    java_options: tuple[str, ...] = ()  # of telemetry; `{logs}` is a node's folder of logs
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    shared: Path = SHARED  # as root: where nodes, servers and Javas live
