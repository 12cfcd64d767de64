"""The tables of what features add: names and locations, "module:attribute", which are imported when they are needed."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from esbench.errors import UsageError

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
# and one that returns the distributions. See esbench.engine.nodes.
NODES = {
    "engine": "esbench.features.node.embedded:EmbeddedEngine",
    "catalog": "esbench.features.node.catalog:load_catalog",
}
# How workers send to a server, by the kind of the target: a function of the target, to a Sender.
SENDERS = {"sql": "esbench.features.sql.sender:SqlSender"}
# What starts load workers elsewhere than on this host: a function of a race's options and the log, to a Launcher.
LAUNCHERS = {"hosts": "esbench.features.hosts.load_hosts:load_hosts"}
# A track's own Python: what imports it where a track is loaded, and in a load worker.
PYTHON = {
    "track": "esbench.features.python.track_code:import_code",
    "worker": "esbench.features.python.worker_part:WorkerCode",
}
# What scores replies of searches: a function of the context of a task, the template of its request, and its measure
# ("recall@10"), to a requests.scoring.Scored.
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
