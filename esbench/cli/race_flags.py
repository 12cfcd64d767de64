"""The options of `esbench race` on the track, the cluster and the load; `race_options` makes RaceOptions of them.

`esbench race` and `esbench duel` share them. Options of printing are not among them. An option is a field of
RaceOptions, or of NodeOptions if it defines the embedded node, and a flag here whose argument has the field's name.
"""

from __future__ import annotations

from typing import Any

import click

from esbench.cli.command import CapacityText, Choice, EsbenchCommand, PathsText, UserPath, with_options
from esbench.cli.completion import TaskNames
from esbench.cli.option import Group, of_cluster, of_load, of_node, of_results, of_track, option
from esbench.cli.track_flags import mapping_option, mapping_with_variables, track_flags
from esbench.race.node_options import DEFAULT_NODE_USER, NodeOptions
from esbench.record.model import HTTP

SYNTHETIC_DOCUMENTS = 100_000
_ARCHIVE = "use --distribution=ARCHIVE of a build"
_PIPELINES = Choice(
    ["embedded", "benchmark-only", HTTP],
    same={"from-distribution": "embedded"},
    gone={"from-sources": _ARCHIVE, "docker": "start the container and give its --target-hosts"},
)
_ON_ERROR = Choice(
    ["abort", "continue"],
    gone={"continue-on-network": "use --on-error=continue, which continues while a host answers"},
)
user_tags_option = of_results(
    "--user-tags", "--user-tag", multiple=True, metavar="TAGS", help="Tags to keep in the record: k:v,k2:v2."
)
workers_option = of_load(
    "--workers",
    type=click.IntRange(min=1),
    show_default="half of the cores",
    help="How many processes send the load.",
)
dry_run_option = option(
    "--dry-run", is_flag=True, matters=True, help="Only say what would be started, deleted, loaded and asked."
)
keep_node_option = of_node(
    "--keep-node", is_flag=True, help="Leave the node running after the race. esbench stop ends it."
)
race_id_option = of_results("--race-id", metavar="ID", show_default="made from the time", help="The id of the race.")
race_flags = with_options(
    track_flags,
    of_track("--challenge", metavar="NAME", show_default="as the track says", help="The challenge to race."),
    of_track(
        "--include-tasks",
        default="",
        type=TaskNames(),
        metavar="LIST",
        help="Race these tasks only: names, type:TYPE, tag:TAG.",
    ),
    of_track(
        "--exclude-tasks",
        default="",
        type=TaskNames(),
        metavar="LIST",
        help="Race all tasks but these: names, type:TYPE, tag:TAG.",
    ),
    of_load(
        "--capacity",
        type=CapacityText(),
        metavar="RACE",
        help="A race of esbench capacity. Target rates in percent of the track are percent of the rate that it found.",
    ),
    of_cluster(
        "--target-hosts",
        metavar="HOSTS",
        matters=True,
        show_default="a node is started",
        help="A running cluster: host:port,...",
    ),
    mapping_with_variables(
        "--client-options",
        metavar="OPTIONS",
        group=Group.CLUSTER,
        matters=True,
        help="How to connect: use_ssl:true,api_key:env:KEY... May be repeated.",
    ),
    of_cluster(
        "--pipeline",
        type=_PIPELINES,
        show_default="benchmark-only with --target-hosts, else embedded",
        help="embedded: esbench starts a node. benchmark-only: it uses --target-hosts. http: --target-hosts is any "
        "HTTP server, which is sent only the requests of the track.",
    ),
    of_node(
        "--distribution",
        "--distribution-version",
        default="",
        metavar="NAME",
        matters=True,
        show_default="the one marked there",
        help="The server: a name of esbench list distributions, a version, or an archive.",
    ),
    of_node("--nodes", type=click.IntRange(min=1), default=1, help="How many nodes to start."),
    of_node(
        "--heap",
        "heap_bytes",
        default=f"{NodeOptions.heap_bytes >> 20}m",
        metavar="SIZE",
        help="The heap of each node.",
    ),
    of_node(
        "--java-home", type=UserPath(), show_default="one that fits, or a download", help="The Java that runs the node."
    ),
    of_node(
        "--node-user",
        type=int,
        metavar="UID",
        show_default=str(DEFAULT_NODE_USER),
        help="As root: the user that runs the node.",
    ),
    mapping_option(
        "--node-settings",
        metavar="SETTINGS",
        group=Group.NODE,
        help="Settings of each node: k:v,k2:v2, JSON, or a .json or .yml file.",
    ),
    of_node(
        "--jvm-options", default="", metavar="OPTIONS", help="JVM options of each node, added last: '-Xint -Dx=y'."
    ),
    of_node("--node-plugins", type=PathsText(), default="", metavar="FILES", help="Plugins to install: zip archives."),
    user_tags_option,
    of_track(
        "--test-mode",
        is_flag=True,
        matters=True,
        help="Try the track with few documents, briefly. The figures mean nothing.",
    ),
    of_track("--install-dependencies", is_flag=True, help="Install the Python packages that the track asks for."),
    of_track(
        "--corpus-cache",
        type=click.Choice(["auto", "unpack", "stream"]),
        default="auto",
        help="unpack: packed documents are unpacked before the race. stream: while they are sent. auto: before the "
        "race if the disk has room.",
    ),
    of_track("--synthetic-corpus", is_flag=True, help="Generate documents, in place of the track's files."),
    of_track(
        "--synthetic-documents",
        type=click.IntRange(min=1),
        show_default=f"{SYNTHETIC_DOCUMENTS}; 1000 with --test-mode",
        help="With --synthetic-corpus: how many for each corpus.",
    ),
    of_load("--on-error", type=_ON_ERROR, show_default="abort", help="What a failed request does to the race."),
    of_load(
        "--enable-assertions",
        is_flag=True,
        help="Check the assertions of operations. The first that does not hold ends the race.",
    ),
    of_load(
        "--max-error-rate",
        metavar="RATIO",
        help="Continue on errors, until more than this part of a task's requests has failed: 1%, 0.01.",
    ),
    workers_option,
    of_load("--load-hosts", metavar="HOSTS", help="Send the load from these hosts, over ssh: [USER@]HOST[:PORT],..."),
    of_load(
        "--load-cluster",
        metavar="ADDRESS",
        help="Send the load from the workers of a Dask scheduler: tls://HOST:PORT.",
    ),
    of_load("--seed", type=int, default=1, help="The seed of arrivals and of drawn values."),
    of_load(
        "--no-answers",
        "answers",
        flag_value=False,
        default=True,
        help="Do not send reads again after their task. Without these answers, comparisons cannot say whether sides "
        "answer the same.",
    ),
    of_load("--kill-running-processes", is_flag=True, help="End other races of this user first."),
    of_cluster(
        "--replace-indices",
        is_flag=True,
        help="Delete indices of the track's names also where esbench did not make them.",
    ),
    of_cluster(
        "--telemetry",
        default="",
        metavar="LIST",
        help="What else to record of the cluster: names of esbench list telemetry, all or none.",
    ),
    mapping_option(
        "--telemetry-params",
        metavar="PARAMS",
        group=Group.CLUSTER,
        help="Its parameters: k:v,k2:v2, JSON or a .json file.",
    ),
)

session_flags = with_options(
    option(
        "--restart-node",
        is_flag=True,
        help="Start a fresh node for each round; with --turns or race --rounds for each race.",
    ),
    option(
        "--before-round",
        metavar="COMMAND",
        help="A shell command to run before each round; with --turns or race --rounds before each race.",
    ),
)


@click.command(cls=EsbenchCommand, name="race")
@race_flags
def parser(**flags: Any) -> None:
    """Declare the flags of a race: never run, `_check_pipeline` looks them up in its params."""
