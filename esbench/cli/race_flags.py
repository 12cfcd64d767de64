"""The options of `esbench race` on the track, the cluster and the load; and the RaceOptions made from them.

`esbench race` and `esbench duel` share them. Options of printing are not among them. An option is a field of
RaceOptions, or of NodeOptions if it defines the embedded node, and a flag here whose argument has the field's name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import click

from esbench.cli.command import CapacityText, Choice, EsbenchCommand, PathsText, UserPath, with_options
from esbench.cli.completion import TaskNames
from esbench.cli.option import Group, of_cluster, of_load, of_node, of_results, of_track, option
from esbench.cli.track_flags import mapping_option, mapping_with_variables, track_flags, track_repository_of
from esbench.errors import UsageError
from esbench.model import DEFAULT_CLUSTER
from esbench.race.node_options import DEFAULT_NODE_USER, NodeOptions
from esbench.record.home import esbench_home
from esbench.record.model import HTTP

if TYPE_CHECKING:
    from esbench.cluster.options import Host
    from esbench.race.options import RaceOptions

SYNTHETIC_DOCUMENTS = 100_000
_VERSION = re.compile(r"\d+(?:\.\d+)*(?:-\w+)?")  # alone, without a product
_MIRROR = "ESBENCH_CORPUS_MIRROR"
_ARCHIVE = "use --distribution=ARCHIVE of a build"
_PIPELINES = Choice(
    ["embedded", "benchmark-only", HTTP],
    same={"from-distribution": "embedded"},
    gone={"from-sources": _ARCHIVE, "docker": "start the container and give its --target-hosts"},
)
_ON_ERROR = Choice(
    ["abort", "continue"],
    gone={"continue-on-network": "use --on-error=continue, which goes on while a host answers"},
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


def race_options(flags: Mapping[str, Any], common_track_params: Sequence[str] = ()) -> RaceOptions:
    """Return RaceOptions from flags. UsageError for a wrong value, before anything starts.

    `flags`: the arguments of `race_flags` by name, as click passes them; `race_id` and `keep_node` are options of
    `esbench race` alone. `common_track_params`, texts as of --track-params, hold unless the flags give another value.
    """
    from esbench.cli.values import (
        client_options_of_clusters,
        merged,
        parse_list,
        parse_load_cluster,
        parse_load_hosts,
        parse_mapping,
        parse_paths,
        parse_settings,
        parse_tags,
        parse_track_params,
        parse_words,
    )
    from esbench.cluster.options import MYSQL, ClientOptions, names_sql_server, parse_hosts, parse_sql_host
    from esbench.corpus.locate import Origin, check_mirror
    from esbench.race.options import OtherCluster, RaceOptions
    from esbench.record.host import default_workers
    from esbench.record.store import check_race_id, new_race_id
    from esbench.telemetry import builtin_devices, choose
    from esbench.track.library import find_track
    from esbench.units import parse_ratio, parse_size

    named_clusters = _named_clusters(flags["target_hosts"])
    named_hosts = named_clusters.get(DEFAULT_CLUSTER, ())
    if flags["include_tasks"] and flags["exclude_tasks"]:
        raise UsageError("--include-tasks and --exclude-tasks exclude each other")
    if flags["offline"] and flags["install_dependencies"]:
        what = "--offline and --install-dependencies exclude each other"
        raise UsageError(what, hint="pip downloads what it installs")
    max_error_ratio = None
    if flags["max_error_rate"] is not None:
        if flags["on_error"] == "abort":
            raise UsageError("--max-error-rate races on below it, and --on-error=abort does not: give one of them")
        max_error_ratio = parse_ratio(flags["max_error_rate"], "--max-error-rate")
    _check_pipeline(flags)
    load_hosts = () if flags["load_hosts"] is None else parse_load_hosts(flags["load_hosts"])
    load_cluster = "" if flags["load_cluster"] is None else parse_load_cluster(flags["load_cluster"])
    if flags["synthetic_documents"] and not flags["synthetic_corpus"]:
        raise UsageError("--synthetic-documents works only with --synthetic-corpus")
    repository = track_repository_of(flags)
    path = find_track(flags["track"], flags["track_path"], repository.folder if repository else None)
    given_options = client_options_of_clusters(flags["client_options"], list(named_clusters) or [DEFAULT_CLUSTER])
    client_options = ClientOptions.from_mapping(given_options[DEFAULT_CLUSTER])
    other_clusters = {
        name: OtherCluster(*parse_hosts(texts, ClientOptions.from_mapping(given_options[name])))
        for name, texts in _other_clusters(named_clusters, flags["pipeline"]).items()
    }
    hosts: tuple[Host, ...] = ()
    if named_hosts:
        is_sql = names_sql_server(named_hosts) and flags["pipeline"] != HTTP
        hosts, client_options = (parse_sql_host if is_sql else parse_hosts)(named_hosts, client_options)
        if is_sql:
            from esbench.cluster.sql_login import with_password

            client_options = with_password(client_options)
    all_hosts = [*hosts, *(host for other in other_clusters.values() for host in other.hosts)]
    _check_load_hosts(load_hosts, load_cluster, all_hosts)
    read: dict[str, Any] = {
        "home": esbench_home(),
        "race_id": new_race_id() if flags.get("race_id") is None else check_race_id(flags["race_id"]),
        "track_path": path,
        "track_revision": repository.commit if repository else "",
        "track_params": parse_track_params((*common_track_params, *flags["track_params"]), path),
        "include_tasks": parse_list(flags["include_tasks"], "--include-tasks", [path.parent]),
        "exclude_tasks": parse_list(flags["exclude_tasks"], "--exclude-tasks", [path.parent]),
        "user_tags": merged(flags["user_tags"], parse_tags),
        "abort_on_error": max_error_ratio is None and flags["on_error"] != "continue",
        "max_error_ratio": max_error_ratio,
        "load_hosts": load_hosts,
        "load_cluster": load_cluster,
        "workers": flags["workers"] or (0 if load_hosts or load_cluster else default_workers()),
        "hosts": hosts,
        "any_server": flags["pipeline"] == HTTP,
        "answers": flags["answers"] and flags["pipeline"] != HTTP,
        "client_options": client_options,
        "others": other_clusters,
        "node_settings": merged(
            flags["node_settings"], lambda value: parse_settings(value, "--node-settings", [path.parent])
        ),
        "jvm_options": parse_words(flags["jvm_options"], "--jvm-options"),
        "node_plugins": parse_paths(flags["node_plugins"], "--node-plugins"),
        "heap_bytes": parse_size(flags["heap_bytes"], "--heap"),
        "origin": Origin(check_mirror(os.environ.get(_MIRROR, ""), _MIRROR), flags["offline"]),
        "synthetic_documents": _synthetic_documents(flags),
        "telemetry": choose(
            parse_list(flags["telemetry"], "--telemetry"),
            merged(flags["telemetry_params"], lambda value: parse_mapping(value, "--telemetry-params", [path.parent])),
            builtin_devices(),
            embedded=not flags["target_hosts"],
            sql=hosts[0].scheme == MYSQL if hosts else NodeOptions(flags["distribution"]).is_database,
        ),
    }
    given = {**flags, **read}
    node = NodeOptions(**{option.name: given[option.name] for option in fields(NodeOptions)})
    others = {option.name: given[option.name] for option in fields(RaceOptions) if option.name in given}
    return RaceOptions(node=node, **others)


def _named_clusters(value: str | None) -> dict[str, tuple[str, ...]]:
    """Return the hosts of each cluster of --target-hosts, none without the option. UsageError for a value without any.

    It may be a variable of the shell that is not set: a node of esbench's own must not be raced in its place.
    """
    from esbench.cli.values import parse_clusters

    clusters = {} if value is None else parse_clusters(value)
    if value is not None and not any(host.strip() for host in clusters[DEFAULT_CLUSTER]):
        what = "--target-hosts is empty" if not value.strip() else f"--target-hosts={value} names no host"
        raise UsageError(what, hint="leave the option out to race a node of esbench's own")
    return clusters


def _other_clusters(named: Mapping[str, Sequence[str]], pipeline: str | None) -> dict[str, Sequence[str]]:
    """Return the hosts of all clusters but the default one. UsageError if one of several is another kind of server."""
    from esbench.cluster.options import names_sql_server

    if len(named) > 1 and (pipeline == HTTP or any(map(names_sql_server, named.values()))):
        raise UsageError("several clusters are those of Elasticsearch and OpenSearch", where="--target-hosts")
    return {name: texts for name, texts in named.items() if name != DEFAULT_CLUSTER}


def _check_load_hosts(load_hosts: Sequence[str], load_cluster: str, hosts: Sequence[Host]) -> None:
    """Raise a UsageError unless the hosts that send the load can reach the cluster that is raced."""
    from esbench.cli.values import host_of
    from esbench.cluster.addresses import is_loopback

    if load_hosts and load_cluster:
        raise UsageError("--load-hosts and --load-cluster exclude each other")
    drivers = [load_cluster] if load_cluster else load_hosts
    if not drivers:
        return
    option = "--load-hosts" if load_hosts else "--load-cluster"
    if not hosts:
        raise UsageError(f"{option} needs --target-hosts: a node of esbench's own listens on this host alone")
    for host in hosts:
        if is_loopback(host.host) and not all(is_loopback(host_of(driver)) for driver in drivers):
            what = f"{option}: on a load host, {host.host} is that host itself"
            raise UsageError(what, where="--target-hosts", hint="give an address that all load hosts reach")


def _synthetic_documents(flags: Mapping[str, Any]) -> int | None:
    if not flags["synthetic_corpus"]:
        return None
    from esbench.track.testmode import DOCUMENTS

    asked: int | None = flags["synthetic_documents"]
    return asked or (DOCUMENTS if flags["test_mode"] else SYNTHETIC_DOCUMENTS)


def _check_pipeline(flags: Mapping[str, Any]) -> None:
    if flags["pipeline"] in ("benchmark-only", HTTP) and not flags["target_hosts"]:
        raise UsageError(f"--pipeline={flags['pipeline']} needs --target-hosts")
    if flags["pipeline"] == HTTP and flags["telemetry"] not in ("", "none"):
        what = "--telemetry asks for statistics, and any HTTP server has none"
        raise UsageError(what, where=f"--pipeline={HTTP}", hint="leave it out")
    if flags["pipeline"] == "embedded" and flags["target_hosts"]:
        raise UsageError("--pipeline=embedded starts its own node: leave out --target-hosts")
    if flags["target_hosts"]:
        of_a_node = {option.name for option in fields(NodeOptions)}
        given = [
            param.opts[0]
            for param in parser.params
            if param.name in of_a_node and flags[param.name] and flags[param.name] != param.default
            # Rally takes the version of the cluster from it where that is not asked
            if not (param.name == "distribution" and _VERSION.fullmatch(flags["distribution"]))
        ]
        given += ["--keep-node"] if flags.get("keep_node") else []
        if given:
            does, them = ("describes", "it") if len(given) == 1 else ("describe", "them")
            raise UsageError(f"{', '.join(given)} {does} an embedded node: leave {them} out with --target-hosts")
