"""The RaceOptions that the flags of a race are: each value checked, with one error for a wrong one."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.cli.race_flags import SYNTHETIC_DOCUMENTS, parser
from esbench.cli.track_flags import track_repository_of
from esbench.errors import UsageError
from esbench.model import DEFAULT_CLUSTER
from esbench.race.node_options import NodeOptions
from esbench.record.home import esbench_home
from esbench.record.model import HTTP

if TYPE_CHECKING:
    from esbench.cluster.options import Host
    from esbench.race.options import RaceOptions
    from esbench.telemetry import Chosen

_VERSION = re.compile(r"\d+(?:\.\d+)*(?:-\w+)?")  # alone, without a product
_MIRROR = "ESBENCH_CORPUS_MIRROR"


def race_options(flags: Mapping[str, Any], common_track_params: Sequence[str] = ()) -> RaceOptions:
    """Return RaceOptions from flags. UsageError for a wrong value, before anything starts.

    `flags`: the arguments of `race_flags` by name, as click passes them; `race_id` and `keep_node` are options of
    `esbench race` alone. `common_track_params`, texts as of --track-params, hold unless the flags give another value.
    """
    from esbench.race.options import RaceOptions

    named = _named_clusters(flags["target_hosts"])
    _refuse_contradictions(flags)
    read = {**_errors_allowed(flags), **_drivers(flags)}
    track = _track(flags, common_track_params)
    read |= {**track, **_clusters(flags, named), **_values(flags, track["track_path"].parent)}
    _check_load_hosts(read)
    given = {**flags, **read, **_identity(flags), "telemetry": _telemetry(flags, read)}
    node = NodeOptions(**{option.name: given[option.name] for option in fields(NodeOptions)})
    others = {option.name: given[option.name] for option in fields(RaceOptions) if option.name in given}
    return RaceOptions(node=node, **others)


def _refuse_contradictions(flags: Mapping[str, Any]) -> None:
    """Raise a UsageError for options that exclude each other."""
    if flags["include_tasks"] and flags["exclude_tasks"]:
        raise UsageError("--include-tasks and --exclude-tasks exclude each other")
    if flags["offline"] and flags["install_dependencies"]:
        what = "--offline and --install-dependencies exclude each other"
        raise UsageError(what, hint="pip downloads what it installs")
    if flags["max_error_rate"] is not None and flags["on_error"] == "abort":
        raise UsageError("--max-error-rate races on below it, and --on-error=abort does not: give one of them")
    _check_pipeline(flags)
    if flags["synthetic_documents"] and not flags["synthetic_corpus"]:
        raise UsageError("--synthetic-documents works only with --synthetic-corpus")


def _errors_allowed(flags: Mapping[str, Any]) -> dict[str, Any]:
    from esbench.units import parse_ratio

    given = flags["max_error_rate"]
    most = None if given is None else parse_ratio(given, "--max-error-rate")
    return {"max_error_ratio": most, "abort_on_error": most is None and flags["on_error"] != "continue"}


def _drivers(flags: Mapping[str, Any]) -> dict[str, Any]:
    """Return the hosts that send the load, and how many workers run on each."""
    from esbench.cli.values import parse_load_cluster, parse_load_hosts
    from esbench.record.host import default_workers

    hosts = () if flags["load_hosts"] is None else parse_load_hosts(flags["load_hosts"])
    cluster = "" if flags["load_cluster"] is None else parse_load_cluster(flags["load_cluster"])
    workers = flags["workers"] or (0 if hosts or cluster else default_workers())
    return {"load_hosts": hosts, "load_cluster": cluster, "workers": workers}


def _track(flags: Mapping[str, Any], common_params: Sequence[str]) -> dict[str, Any]:
    from esbench.cli.values import parse_track_params
    from esbench.track.library import find_track

    repository = track_repository_of(flags)
    path = find_track(flags["track"], flags["track_path"], repository.folder if repository else None)
    return {
        "track_path": path,
        "track_revision": repository.commit if repository else "",
        "track_params": parse_track_params((*common_params, *flags["track_params"]), path),
    }


def _clusters(flags: Mapping[str, Any], named: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """Return the clusters that are raced: hosts and options of the default one, and the others."""
    from esbench.cli.values import client_options_of_clusters
    from esbench.cluster.options import ClientOptions, names_sql_server, parse_hosts, parse_sql_host
    from esbench.race.options import OtherCluster

    given = client_options_of_clusters(flags["client_options"], list(named) or [DEFAULT_CLUSTER])
    options = ClientOptions.from_mapping(given[DEFAULT_CLUSTER])
    others = {
        name: OtherCluster(*parse_hosts(texts, ClientOptions.from_mapping(given[name])))
        for name, texts in _other_clusters(named, flags["pipeline"]).items()
    }
    hosts: tuple[Host, ...] = ()
    if texts := named.get(DEFAULT_CLUSTER, ()):
        is_sql = names_sql_server(texts) and flags["pipeline"] != HTTP
        hosts, options = (parse_sql_host if is_sql else parse_hosts)(texts, options)
        if is_sql:
            from esbench.cluster.sql_login import with_password

            options = with_password(options)
    return {
        "hosts": hosts,
        "client_options": options,
        "others": others,
        "any_server": flags["pipeline"] == HTTP,
        "answers": flags["answers"] and flags["pipeline"] != HTTP,
    }


def _values(flags: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the options that are each read by itself. Files that they name may stand in `folder`, the track's."""
    from esbench.cli.values import merged, parse_list, parse_paths, parse_settings, parse_tags, parse_words
    from esbench.corpus.origin import Origin
    from esbench.units import parse_size

    settings = merged(flags["node_settings"], lambda value: parse_settings(value, "--node-settings", [folder]))
    return {
        "include_tasks": parse_list(flags["include_tasks"], "--include-tasks", [folder]),
        "exclude_tasks": parse_list(flags["exclude_tasks"], "--exclude-tasks", [folder]),
        "user_tags": merged(flags["user_tags"], parse_tags),
        "node_settings": settings,
        "jvm_options": parse_words(flags["jvm_options"], "--jvm-options"),
        "node_plugins": parse_paths(flags["node_plugins"], "--node-plugins"),
        "heap_bytes": parse_size(flags["heap_bytes"], "--heap"),
        "origin": Origin(_mirror(), flags["offline"]),
        "synthetic_documents": _synthetic_documents(flags),
    }


def _mirror() -> str:
    if mirror := os.environ.get(_MIRROR, ""):
        from esbench.corpus.locate import check_mirror

        check_mirror(mirror, _MIRROR)
    return mirror


def _identity(flags: Mapping[str, Any]) -> dict[str, Any]:
    from esbench.record.store import check_race_id, new_race_id

    race_id = new_race_id() if flags.get("race_id") is None else check_race_id(flags["race_id"])
    return {"home": esbench_home(), "race_id": race_id}


def _telemetry(flags: Mapping[str, Any], read: Mapping[str, Any]) -> tuple[Chosen, ...]:
    """Return the chosen devices; `read`: the options that were read before."""
    from esbench.cli.values import merged, parse_list, parse_mapping
    from esbench.cluster.options import MYSQL
    from esbench.telemetry import builtin_devices, choose

    folder, hosts = read["track_path"].parent, read["hosts"]
    return choose(
        parse_list(flags["telemetry"], "--telemetry"),
        merged(flags["telemetry_params"], lambda value: parse_mapping(value, "--telemetry-params", [folder])),
        builtin_devices(),
        embedded=not flags["target_hosts"],
        sql=hosts[0].scheme == MYSQL if hosts else NodeOptions(flags["distribution"]).is_database,
    )


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


def _check_load_hosts(read: Mapping[str, Any]) -> None:
    """Raise a UsageError unless the hosts that send the load can reach the clusters that are raced."""
    from esbench.cli.values import host_of
    from esbench.cluster.addresses import is_loopback

    load_hosts, load_cluster = read["load_hosts"], read["load_cluster"]
    hosts = [*read["hosts"], *(host for other in read["others"].values() for host in other.hosts)]
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
