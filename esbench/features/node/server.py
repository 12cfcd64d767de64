"""An unpacked server: its product and version, and the settings, environment and command that start a node of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from esbench.cluster.dialect import flat
from esbench.errors import EngineError, UsageError
from esbench.features.node.catalog import version_number
from esbench.features.node.java import Java

_OURS = re.compile(r"cluster\.name|cluster\.initial_.+|node\.name|(?:path|network|http|transport|discovery)(?:\..+)?")


@dataclass(frozen=True)
class Server:
    """An unpacked Elasticsearch or OpenSearch. `modules` and `plugins` are names of folders."""

    home: Path
    product: str
    version: str
    modules: frozenset[str]
    plugins: frozenset[str]

    @property
    def number(self) -> tuple[int, ...]:
        return version_number(self.version)

    @property
    def bundled_java(self) -> Path | None:
        """The home of the Java that the server brings; None if it brings none."""
        folders = [self.home / "jdk", self.home / "jdk.app" / "Contents" / "Home", self.home / "jre"]
        return next((folder for folder in folders if (folder / "bin" / "java").is_file()), None)


def inspect_server(home: Path) -> Server:
    """Return the server in a folder, from its jars and folders. EngineError if the folder holds no server."""
    for product in ("elasticsearch", "opensearch"):
        jars = [re.fullmatch(rf"{product}-(\d.*)\.jar", jar.name) for jar in home.glob(f"lib/{product}-*.jar")]
        versions = [jar[1] for jar in jars if jar]
        if versions and (home / "bin" / product).is_file():
            return Server(home, product, versions[0], _names(home / "modules"), _names(home / "plugins"))
    raise EngineError(
        "this is neither Elasticsearch nor OpenSearch: bin/ and lib/ of a server are missing", where=str(home)
    )


def _names(folder: Path) -> frozenset[str]:
    return frozenset(entry.name for entry in folder.iterdir() if entry.is_dir()) if folder.is_dir() else frozenset()


@dataclass(frozen=True)
class NodePlan:
    """One node to start: its name, its ports on loopback, and its own folder."""

    name: str
    http_port: int
    transport_port: int
    folder: Path

    @property
    def config(self) -> Path:
        return self.folder / "config"

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    @property
    def temp(self) -> Path:
        return self.folder / "tmp"

    @property
    def console(self) -> Path:
        return self.logs / "console.log"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"


def node_settings(server: Server, node: NodePlan, nodes: tuple[NodePlan, ...], cluster_name: str) -> dict[str, object]:
    """Return the settings (yml) of one of `nodes`: dotted names and their values.

    An unknown setting is fatal to a server, so each one is set only for the versions that know it.
    """
    elasticsearch = server.product == "elasticsearch"
    transport = "transport.tcp.port" if elasticsearch and server.number < (7,) else "transport.port"
    seeds = [f"127.0.0.1:{other.transport_port}" for other in nodes]
    settings: dict[str, object] = {
        "cluster.name": cluster_name,
        "node.name": node.name,
        "path.data": str(node.data),
        "path.logs": str(node.logs),
        "path.repo": str(nodes[0].folder / "snapshots"),  # a repository of files is one for all nodes
        "network.host": "127.0.0.1",
        "http.port": node.http_port,
        transport: node.transport_port,
        "cluster.routing.allocation.disk.threshold_enabled": False,
    }
    if elasticsearch and server.number < (7,):
        settings["discovery.zen.ping.unicast.hosts"] = seeds
        settings["discovery.zen.minimum_master_nodes"] = len(nodes) // 2 + 1
    else:
        old = elasticsearch or server.number < (2,)
        masters = "cluster.initial_master_nodes" if old else "cluster.initial_cluster_manager_nodes"
        settings["discovery.seed_hosts"] = seeds
        settings[masters] = [other.name for other in nodes]
    if elasticsearch and (7,) <= server.number < (7, 10):
        # With G1 and a small heap these versions refuse requests (429, "Data too large") for memory that the
        # next collection would free; 5.x and 6.x count reservations only, as this setting does.
        settings["indices.breaker.total.use_real_memory"] = False
    if any(name.startswith("x-pack") for name in server.modules | server.plugins):
        settings["xpack.security.enabled"] = False
    if any(name.endswith("-ml") and name.startswith("x-pack") for name in server.modules):
        settings["xpack.ml.enabled"] = False
    if elasticsearch and "ingest-geoip" in server.modules and server.number >= (7, 14):
        settings["ingest.geoip.downloader.enabled"] = False
    if "opensearch-security" in server.plugins:
        settings["plugins.security.disabled"] = True
    return settings


def checked_settings(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a user's node settings with nested names joined by dots. UsageError for one that esbench sets itself."""
    settings = dict(flat(given))
    if ours := [name for name in settings if _OURS.fullmatch(name)]:
        raise UsageError(f"esbench sets {', '.join(ours)} itself", where="--node-settings", hint="leave it out")
    return settings


def node_command(server: Server, node: NodePlan) -> list[str]:
    """Return the command that starts a node; run it with `node_environment`."""
    command = [str(server.home / "bin" / server.product)]
    if server.product == "elasticsearch" and server.number < (6,):
        command.append(f"-Epath.conf={node.config}")
    return command


def node_environment(server: Server, node: NodePlan, java: Java, path: str) -> Mapping[str, str]:
    """Return the whole environment of a node, without the caller's Java or Elasticsearch options.

    `path` is its PATH.
    """
    prefix = "ES" if server.product == "elasticsearch" else "OPENSEARCH"
    environment = {
        "PATH": path,
        "HOME": str(node.folder),
        "LANG": "C.UTF-8",
        "JAVA_HOME": str(java.home),
        f"{prefix}_JAVA_HOME": str(java.home),
        f"{prefix}_PATH_CONF": str(node.config),
        f"{prefix}_TMPDIR": str(node.temp),
    }
    if server.product == "elasticsearch" and server.number < (6,):
        environment["ES_JVM_OPTIONS"] = str(node.config / "jvm.options")
    return environment
