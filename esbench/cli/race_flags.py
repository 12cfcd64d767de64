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
from esbench.cli.track_flags import mapping_option, mapping_with_variables, track_flags, track_repository_of
from esbench.engine.base import NodeOptions
from esbench.errors import UsageError
from esbench.model import DEFAULT_CLUSTER
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
user_tags_option = click.option(
    "--user-tags", "--user-tag", multiple=True, metavar="TAGS", help="k:v,k2:v2 kept in the record."
)
workers_option = click.option(
    "--workers", type=click.IntRange(min=1), help="Load worker processes; half of the cores otherwise."
)
keep_node_option = click.option("--keep-node", is_flag=True, help="Leave the embedded node running.")
race_id_option = click.option("--race-id", help="The race's id; made up otherwise.")
race_flags = with_options(
    track_flags,
    click.option("--challenge", help="The challenge to race; the track's default one otherwise."),
    click.option(
        "--include-tasks", default="", type=TaskNames(), metavar="LIST", help="Only these: names, type:TYPE, tag:TAG."
    ),
    click.option(
        "--exclude-tasks",
        default="",
        type=TaskNames(),
        metavar="LIST",
        help="All but these: names, type:TYPE, tag:TAG.",
    ),
    click.option(
        "--capacity", type=CapacityText(), metavar="RACE", help="Target rates in percent are of what this race found."
    ),
    click.option("--target-hosts", metavar="HOSTS", help="host:port,... of a cluster that runs already."),
    mapping_with_variables(
        "--client-options", metavar="OPTIONS", help="timeout:60,use_ssl:true, basic_auth_user:'x' ..."
    ),
    click.option(
        "--pipeline",
        type=_PIPELINES,
        help="embedded or benchmark-only, as --target-hosts says; http: any server, which is asked nothing else.",
    ),
    click.option(
        "--distribution", "--distribution-version", default="", help="The embedded node: a name, version or path."
    ),
    click.option("--nodes", type=click.IntRange(min=1), default=1, show_default=True, help="Embedded nodes."),
    click.option(
        "--heap",
        "heap_bytes",
        default=f"{NodeOptions.heap_bytes >> 20}m",
        show_default=True,
        help="Heap of each embedded node.",
    ),
    click.option("--java-home", type=UserPath(), help="The Java for the embedded node."),
    click.option("--node-user", type=int, help="As root: the uid that runs the embedded node (64000)."),
    mapping_option(
        "--node-settings", metavar="SETTINGS", help="Embedded nodes' settings: k:v,k2:v2, JSON, a .json or .yml file."
    ),
    click.option(
        "--jvm-options", default="", metavar="OPTIONS", help="Embedded nodes' last JVM options: '-Xint -Dx=y'."
    ),
    click.option(
        "--node-plugins", type=PathsText(), default="", metavar="FILES", help="Embedded nodes' plugins: zip archives."
    ),
    user_tags_option,
    click.option("--test-mode", is_flag=True, help="Everything small and quick; the figures mean nothing."),
    click.option("--install-dependencies", is_flag=True, help="Install the Python packages that the track asks for."),
    click.option(
        "--corpus-cache",
        type=click.Choice(["auto", "unpack", "stream"]),
        default="auto",
        show_default=True,
        help="Unpack document files first (auto: where there is room), or while they are sent.",
    ),
    click.option("--synthetic-corpus", is_flag=True, help="Generate documents in place of the track's document files."),
    click.option(
        "--synthetic-documents",
        type=click.IntRange(min=1),
        metavar="N",
        help="How many of each corpus (100000; 1000 in test mode).",
    ),
    click.option("--on-error", type=_ON_ERROR, help="A failed request: abort (unless said so) or continue."),
    click.option(
        "--enable-assertions", is_flag=True, help="Check the assertions of operations; a failed one ends the race."
    ),
    click.option("--max-error-rate", metavar="RATIO", help="Race on until more of a task's requests fail: 1%, 0.01."),
    workers_option,
    click.option("--load-hosts", metavar="HOSTS", help="[USER@]HOST[:PORT],... of ssh: they send the load."),
    click.option("--load-cluster", metavar="ADDRESS", help="tls://HOST:PORT of a Dask scheduler; its workers do."),
    click.option("--seed", type=int, default=1, show_default=True, help="Seed of arrivals and draws."),
    click.option(
        "--no-answers",
        "answers",
        flag_value=False,
        default=True,
        help="Do not ask read tasks once more for answers that can be compared.",
    ),
    click.option("--kill-running-processes", is_flag=True, help="End this user's other races first."),
    click.option(
        "--replace-indices", is_flag=True, help="Delete the track's indices also where esbench did not make them."
    ),
    click.option(
        "--telemetry", default="", metavar="LIST", help="More to watch: names of esbench list telemetry, all, none."
    ),
    mapping_option("--telemetry-params", metavar="PARAMS", help="k:v,k2:v2, inline JSON or a .json file."),
)

session_flags = with_options(
    click.option(
        "--restart-node", is_flag=True, help="A fresh node for each round (with --turns or race --rounds: each race)."
    ),
    click.option(
        "--before-round",
        metavar="COMMAND",
        help="A shell command that is run before each round (with --turns or race --rounds: each race).",
    ),
)


@click.command(cls=EsbenchCommand, name="race")
@race_flags
def parser(**flags: Any) -> None:
    """The flags alone."""


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
        raise UsageError("--synthetic-documents is a number of documents to generate: add --synthetic-corpus")
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
            from esbench.sql.connection import with_password

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
