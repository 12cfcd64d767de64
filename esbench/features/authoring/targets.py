"""The indices or data streams that a user's names and patterns match, with checks that they can be read."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

from esbench.cluster.client import Cluster, ClusterInfo, index_path
from esbench.cluster.replies import counted, known_form, mapping, text
from esbench.errors import ClusterError, EsbenchError, UsageError, did_you_mean
from esbench.errors.reasons import form_fault

INDICES, DATA_STREAMS = "--indices", "--data-streams"
_BACKING = re.compile(r"(.+-)?\.ds-")  # of a data stream; index lifecycles put partial-, restored- ... before it


@dataclass(frozen=True)
class ExtractedTarget:
    """An index, or a data stream with its `backing` indices, the newest last, and the name of its index template.

    `settings` and `mappings` are the server's (of the newest backing index), `shards` the primary ones of all backing
    indices. `is_routed`: some documents have a routing value; `is_typed`: the mapping stands below the name of a type.
    """

    name: str
    documents: int
    shards: int
    settings: Mapping[str, Any]
    mappings: Mapping[str, Any]
    aliases: Mapping[str, Any]
    is_routed: bool
    is_typed: bool = False
    backing: tuple[str, ...] = ()
    template: str = ""

    @property
    def is_data_stream(self) -> bool:
        return bool(self.backing)


@known_form(INDICES)
def find_indices(cluster: Cluster, info: ClusterInfo, expressions: Sequence[str]) -> tuple[ExtractedTarget, ...]:
    """Return the open indices behind names, aliases and patterns, sorted by name.

    UsageError for what does not exist, is closed, hidden, a data stream or an alias with a filter; ClusterError for
    what may not be read.
    """
    names: dict[str, None] = {}
    for expression in expressions:
        names |= dict.fromkeys(_indices_of(cluster, expression))
    targets = tuple(_target(cluster, info, name, (name,)) for name in sorted(names))
    for target in targets:
        _refuse_filter(target, expressions)
    return targets


@known_form(DATA_STREAMS)
def find_data_streams(cluster: Cluster, info: ClusterInfo, expressions: Sequence[str]) -> tuple[ExtractedTarget, ...]:
    """Return the data streams that names and patterns match, sorted by name; hidden ones only if they are named.

    UsageError for what does not exist, and for a server without data streams; ClusterError for what may not be read.
    """
    streams: dict[str, Mapping[str, Any]] = {}
    for expression in expressions:
        where = f"{DATA_STREAMS}={expression}"
        reply = cluster.request("GET", f"/_data_stream{_path(expression, where)}", ignore=(400, 404, 405))
        found = reply.get("data_streams") if isinstance(reply, Mapping) else None
        if found is None and not _is_missing(reply):
            raise UsageError(f"{info.distribution} {info.version} has no data streams here", where=where)
        if not found:
            raise _missing(expression, where, "data stream", _stream_names(cluster))
        of_hidden = expression.startswith(".")
        streams |= {stream["name"]: stream for stream in found if of_hidden or not stream["name"].startswith(".")}
    return tuple(_stream_target(cluster, info, streams[name]) for name in sorted(streams))


def _indices_of(cluster: Cluster, expression: str) -> list[str]:
    """Return the index names behind an expression. Patterns match no closed ones, nor those that begin with a dot."""
    where = f"{INDICES}={expression}"
    path = f"{_path(expression, where)}/_settings"
    params = {"filter_path": "*.settings.index.uuid,error,status", "allow_no_indices": True}
    reply = cluster.request("GET", path, params=params, ignore=(404,))
    names = sorted(reply or ()) if not _is_missing(reply) else []
    is_pattern = "*" in expression or expression == "_all"
    backing = [name for name in names if _BACKING.match(name) and name != expression]
    if backing and not expression.startswith("."):
        if not is_pattern:
            raise UsageError(f'"{expression}" is a data stream', where=where, hint=f"say {DATA_STREAMS}={expression}")
        names = [name for name in names if name not in backing]
    hidden = [name for name in names if name.startswith(".")]
    if hidden and (not is_pattern or expression.startswith(".")):
        hint = "its cluster makes it by itself; tracks are made of indices of your own"
        raise UsageError(f'"{hidden[0]}" is a hidden or system index', where=where, hint=hint)
    names = [name for name in names if name not in hidden]
    if not names:
        if is_pattern and any(fnmatchcase(stream, expression) for stream in _stream_names(cluster)):
            hint = f"say {DATA_STREAMS}={expression}"
            raise UsageError(f'only data streams match "{expression}"', where=where, hint=hint)
        raise _missing(expression, where, "index", _index_names(cluster))
    return names


def _refuse_filter(target: ExtractedTarget, expressions: Sequence[str]) -> None:
    """Raise UsageError if an index is found only by aliases that have a filter: all of it would be read."""

    def is_meant(name: str) -> bool:
        return any(fnmatchcase(name, expression) for expression in expressions)

    aliases = [alias for alias in target.aliases if is_meant(alias)]
    if not is_meant(target.name) and aliases and all("filter" in target.aliases[alias] for alias in aliases):
        what = f'"{aliases[0]}" is an alias with a filter: esbench would read all of {target.name}'
        raise UsageError(what, where=f"{INDICES}={aliases[0]}", hint="name the index")


def _path(expression: str, where: str) -> str:
    if not expression.strip() or "/" in expression or (expression.startswith(("_", "-")) and expression != "_all"):
        raise UsageError(f'"{expression}" is not the name of an index or a pattern of names', where=where)
    return index_path([expression])


def _is_missing(reply: object) -> bool:
    return isinstance(reply, Mapping) and reply.get("status") == 404


def _missing(expression: str, where: str, kind: str, known: Sequence[str]) -> UsageError:
    what = f'no {kind} matches "{expression}"' if "*" in expression else f'there is no {kind} "{expression}"'
    return UsageError(what, where=where, hint=did_you_mean(expression, known))


def _index_names(cluster: Cluster) -> list[str]:
    """Return open indices and aliases, for a hint."""
    reply = _listed(cluster, "/_alias")
    names = {*reply, *(alias for index in reply.values() for alias in index.get("aliases", ()))}
    return [name for name in names if not name.startswith(".")]


def _stream_names(cluster: Cluster) -> list[str]:
    streams = _listed(cluster, "/_data_stream").get("data_streams", ())
    return [name for stream in streams if not (name := text(stream["name"])).startswith(".")]


def _listed(cluster: Cluster, path: str) -> Mapping[str, Any]:
    """Return a list of the server; empty if the user may not see it."""
    try:
        reply: Mapping[str, Any] = cluster.request("GET", path)
    except EsbenchError:
        return {}
    return reply


def _stream_target(cluster: Cluster, info: ClusterInfo, stream: Mapping[str, Any]) -> ExtractedTarget:
    backing = tuple(index["index_name"] for index in stream["indices"])
    return replace(
        _target(cluster, info, stream["name"], backing), backing=backing, template=str(stream.get("template", ""))
    )


def _target(cluster: Cluster, info: ClusterInfo, name: str, indices: tuple[str, ...]) -> ExtractedTarget:
    """Return the target of a name: one index, or several, of which the last one gives settings and mappings."""
    path = index_path([name])
    documents = _count(cluster, name)
    reply = cluster.request("GET", path)
    try:
        newest = reply[indices[-1]]
        shards = sum(int(reply[index]["settings"]["index"].get("number_of_shards", 1)) for index in indices)
        return ExtractedTarget(
            name=name,
            documents=documents,
            shards=shards,
            settings=mapping(newest["settings"]),
            mappings=mapping(newest.get("mappings")),
            aliases=mapping(newest.get("aliases")),
            is_routed=documents > 0 and _has_routing(cluster, path),
            is_typed=info.distribution == "elasticsearch" and info.version_tuple < (7,),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise ClusterError(f"the reply has an unknown form ({form_fault(error)})", where=f"GET {path}") from error


def _count(cluster: Cluster, name: str) -> int:
    reply = cluster.request("GET", f"{index_path([name])}/_count", ignore=(400,))
    if "count" in reply:
        return counted(reply["count"])
    if reply["error"].get("type") == "index_closed_exception":
        raise UsageError(f'the index "{name}" is closed', hint=f"open it: POST /{name}/_open")
    raise ClusterError(str(reply["error"].get("reason", reply)), where=f"GET /{name}/_count")


def _has_routing(cluster: Cluster, path: str) -> bool:
    """True if any document was indexed with a routing value."""
    body = {"size": 0, "terminate_after": 1, "query": {"exists": {"field": "_routing"}}}
    total = cluster.request("POST", f"{path}/_search", body=body)["hits"]["total"]
    return bool(total["value"] if isinstance(total, Mapping) else total)
