"""The tables of what features add, and the registries that are made of such tables.

A row is a name and a location, "module:attribute", which is imported when it is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any, Generic, TypeVar

from esbench.errors import EsbenchError, UsageError, did_you_mean

T = TypeVar("T")
SEAMS_VERSION = 1  # of the signatures in esbench/seams.py: entry points of installed packages carry it

# What publishes a race of the command line: see esbench.cli.publishing.Publisher. Help has their options in this order.
PUBLISHERS = (
    "esbench.features.publish.metrics:MetricsPublisher",
    "esbench.features.publish.store_command:StorePublisher",
)

# Servers of a race other than clusters, by kind: a function of options, progress, the race's folder and an exit stack.
SERVERS = {"sql": "esbench.features.sql.raced:RacedDatabase"}
# What races a track several times (`race --rounds`): a function of the context of the command, and of progress.
ROUNDS = "esbench.features.duel.session_command:race_rounds"
# Nodes of Elasticsearch and OpenSearch that esbench starts: a function of their options and the progress, to an Engine;
# and one that returns the distributions. See esbench.race.node_engine.
NODES = {
    "engine": "esbench.features.node.embedded:EmbeddedEngine",
    "catalog": "esbench.features.node.catalog:load_catalog",
}
# Tracks that are made of a file of the user: an option of `duel`, and a function of its text and a new folder.
TRACKS = {"replay": "esbench.features.replay.command:track_of"}
# How workers send to a server, by the kind of the target: a function of the target, to a Sender.
SENDERS = {"sql": "esbench.features.sql.sender:SqlSender"}
# What starts load workers elsewhere than on this host: a function of a race's options and the log, to a Launcher.
LAUNCHERS = {"hosts": "esbench.features.hosts.load_hosts:load_hosts"}
# A track's own Python: what imports it where a track is loaded, and in a load worker.
PYTHON = {
    "track": "esbench.features.python.track_code:import_code",
    "worker": "esbench.features.python.worker_part:WorkerCode",
}
# What draws queries of searches, and scores replies: a function of the context of a task and the template of its
# request, to a requests.scoring.Scored.
SCORING = "esbench.features.vectors.relevance:scored"
# Telemetry devices, by name. Those in ALWAYS_ON watch every race; the others are imported when somebody asks for one.
_DEVICES = "esbench.features.devices"
DEVICES = {
    "driver": f"{_DEVICES}.driver_host:DriverHost",
    "nodes": f"{_DEVICES}.node_stats:Nodes",
    "node-stats": f"{_DEVICES}.node_stats:NodeStats",
    "host": f"{_DEVICES}.host:HostUsage",
    "gc": f"{_DEVICES}.java:Gc",
    "jfr": f"{_DEVICES}.java:Jfr",
    "hot-threads": f"{_DEVICES}.hot_threads:HotThreads",
    "shard-stats": f"{_DEVICES}.shard_stats:ShardStats",
    "segment-stats": f"{_DEVICES}.segment_stats:SegmentStats",
    "disk-usage": f"{_DEVICES}.disk_usage:DiskUsage",
    "recovery-stats": f"{_DEVICES}.recovery_stats:RecoveryStats",
    "ingest-pipeline-stats": f"{_DEVICES}.ingest_pipeline_stats:IngestPipelineStats",
    "data-stream-stats": f"{_DEVICES}.data_stream_stats:DataStreamStats",
    "master-node-stats": f"{_DEVICES}.node_stats:MasterNodeStats",
    "slowlog": f"{_DEVICES}.slowlog:Slowlog",
}
ALWAYS_ON = ("driver", "nodes")
# Generated documents: what makes some of a spec, corpora in place of a track's, a sampler.
GENERATED = {
    "generator": "esbench.features.synthetic.generate.generator:Generator",
    "corpora": "esbench.features.synthetic.synthetic:synthetic_corpora",
    "counts": "esbench.features.synthetic.synthetic:synthetic_counts",
    "sampler": "esbench.features.synthetic.sampler:DocumentSampler",
}
# A module that is run as a process, and writes them.
GENERATING = "esbench.features.synthetic.generate"
# Pages with charts, each a function that returns HTML.
PAGES = {
    "races": "esbench.features.pages.report_page:report_page",
    "comparison": "esbench.features.pages.comparison_page:comparison_page",
    "matrix": "esbench.features.pages.matrix_page:matrix_page",
}


def load(location: str) -> Any:
    """Import the module of a location, and return its attribute. UsageError if its feature is not installed."""
    module, _, attribute = location.partition(":")
    try:
        return getattr(import_module(module), attribute)
    except ModuleNotFoundError:
        require(location)
        raise


def require(location: str) -> None:
    """Raise a UsageError if a location is in a feature that is not installed. Nothing is imported."""
    if is_absent(location):
        name = location.removeprefix("esbench.features.").partition(":")[0].partition(".")[0]
        raise UsageError(f'the feature "{name}" of esbench is not installed', hint="install the whole package")


def is_absent(location: str) -> bool:
    """True if a location is in a feature that is not installed."""
    from importlib.util import find_spec

    parts = location.partition(":")[0].split(".")[:3]
    is_feature = parts[:2] == ["esbench", "features"]
    return is_feature and (find_spec("esbench.features") is None or find_spec(".".join(parts)) is None)


class Registry(Generic[T]):
    """A mapping from name to plugin, in order of names; built by a function and passed in, never global."""

    def __init__(self, kind: str, error: type[EsbenchError] = UsageError) -> None:
        """`kind` names one plugin in error messages ("operation type"); `error` is raised for an unknown name."""
        self.kind = kind
        self._error = error
        self._plugins: dict[str, T] = {}
        self._makers: dict[str, Callable[[], T]] = {}

    def add(self, name: str, plugin: T) -> None:
        """Register a plugin. Raises ValueError if the name is taken: nothing is overridden silently."""
        if name in self:
            raise ValueError(f'{self.kind} "{name}" is registered twice')
        self._plugins[name] = plugin

    def add_lazy(self, name: str, make: Callable[[], T]) -> None:
        """Register a plugin that is made when it is asked for. Raises ValueError if the name is taken."""
        if name in self:
            raise ValueError(f'{self.kind} "{name}" is registered twice')
        self._makers[name] = make

    def include(self, other: Registry[T]) -> None:
        """Register all plugins of another registry. Raises ValueError if a name is taken."""
        for name, plugin in other._plugins.items():
            self.add(name, plugin)
        for name, make in other._makers.items():
            self.add_lazy(name, make)

    def add_entry_points(self, group: str) -> None:
        """Register the plugins that installed packages declare for esbench's seams (group `esbench.operations.v1`).

        `group` is without the version. They are imported at once, and an import error is not caught. Raises UsageError
        for one of another version, which is not imported, and if a name is taken.
        """
        wanted = f"{group}.v{SEAMS_VERSION}"
        groups = sorted(name for name in entry_points().groups if f"{name}.".startswith(f"{group}."))
        for point in (point for name in groups for point in entry_points(group=name)):
            package = "an installed package" if point.dist is None else f"the package {point.dist.name}"
            where = f"entry point {point.group}"
            if point.group != wanted:
                what = f'{package} brings the {self.kind} "{point.name}" for another version of esbench'
                raise UsageError(what, where=where, hint=f"uninstall it, or install one with the group {wanted}")
            if point.name in self:
                what = f'{package} brings the {self.kind} "{point.name}", which exists already'
                raise UsageError(what, where=where, hint="uninstall it, or give its type another name")
            self.add(point.name, point.load())

    def get(self, name: str, where: str = "") -> T:
        """Return the plugin of that name.

        Raises the registry's error, which begins with `where` and suggests a name, if there is no such plugin.
        """
        if make := self._makers.get(name):
            self._plugins[name] = make()
            del self._makers[name]  # only now: a row of a feature that is not installed says so each time
        try:
            return self._plugins[name]
        except KeyError:
            hint = did_you_mean(name, self)
            raise self._error(f'unknown {self.kind} "{name}"', where=where, hint=hint) from None

    def __contains__(self, name: object) -> bool:
        return name in self._plugins or name in self._makers

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._plugins, *self._makers}))
