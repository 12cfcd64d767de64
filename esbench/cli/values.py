"""Parsing of values as users write them: `k:v,k2:v2`, inline JSON, or the path of a .json file.

The rules are Rally's (`'x'` is text, then integer, float, true/false, None, else text), and two more: numbers joined by
`/` are a list for a parameter that the track sweeps, and a .json file is also looked for in `folders`.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeGuard, TypeVar
from urllib.parse import urlsplit

from esbench.errors import UsageError, did_you_mean
from esbench.errors.user_paths import user_path
from esbench.model import DEFAULT_CLUSTER
from esbench.numbers import read_json, read_number, whole_of
from esbench.record.secrets import HIDDEN, Redactor, Secret, redact

_INT = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_IPV6 = re.compile(r"\[[0-9a-fA-F]*:")  # [::1]:9200 is no JSON array
_SSH_HOST = re.compile(r"(?:\w[\w.-]*@)?(?:\w[\w.-]*|\[[0-9a-fA-F:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_SCHEDULER = re.compile(r"tls://(?:\w[\w.-]*|\[[0-9a-fA-F:.]+\]):[0-9]{1,5}", re.ASCII)
_WORDS = {"true": True, "True": True, "false": False, "False": False, "None": None}
_QUOTES = "'\""
_YAML = (".yml", ".yaml")
FILES = (".json", *_YAML)
_FROM_ENVIRONMENT = "env:"
ALL_CLUSTERS = "*"
_QUOTED = "put quotes around a value that has a comma: \"name:'a,b'\""
_OBJECT = 'say name:value,name2:value2 or {"name": "value"}'
V = TypeVar("V")


def merged(values: Iterable[str], parse: Callable[[str], Mapping[str, V]]) -> dict[str, V]:
    """Parse each value of an option that is given more than once; of a name in several, the last one holds."""
    return {name: item for value in values for name, item in parse(value).items()}


def parse_mapping(value: str, where: str, folders: Sequence[Path] = ()) -> dict[str, Any]:
    """Parse a mapping from `k:v,k2:v2`, a JSON object, or the path of a .json file. Empty text is an empty mapping.

    `where` is the option, for errors ("--track-params"). A file is looked for in the current folder, then in `folders`.
    Raises UsageError for anything else, and for a name that is given twice.
    """
    return _mapping(value, where, folders, lambda name, text: _typed(text))


def parse_track_params(values: Iterable[str], track: Path) -> dict[str, Any]:
    """Parse the parameters of a track file, given once or more: as `parse_mapping`, a file also in the track's folder.

    Numbers joined by `/` are a list if the track sweeps the parameter, text if not ("2021/01/02"). `env:NAME` is the
    value of an environment variable, a Secret. Raises UsageError if it is not set.
    """
    from esbench.track.rendering import sweeps

    where = "--track-params"

    def typed(name: str, text: str) -> Any:
        numbers = _numbers(text) if "/" in text and sweeps(track, name) else None
        return _typed(text) if numbers is None else numbers

    given = merged(values, lambda value: _mapping(value, where, [track.parent], typed))
    found = {name: _from_environment(param, f"{where} {name}") for name, param in given.items()}
    return {name: value if value is given[name] else Secret(value) for name, value in found.items()}


def parse_settings(value: str, where: str, folders: Sequence[Path] = ()) -> dict[str, Any]:
    """Parse settings of a node: as `parse_mapping`, or the path of a file in YAML, whose dates are text."""
    text = value.strip()
    if not text.endswith(_YAML) or text.startswith("{") or (read := _read(text, where, folders)) is None:
        return parse_mapping(value, where, folders)
    from esbench.track.document import read_yaml

    source = f"{where}={text}"
    settings = read_yaml(read, source)
    if not isinstance(settings, dict | None):
        raise UsageError("no settings by name", where=source, hint="say indices.query.bool.max_clause_count: 2048")
    return settings or {}


def parse_paths(value: str, where: str) -> tuple[Path, ...]:
    """Parse a list of files as `parse_list` does, and make them absolute. They need not exist."""
    return tuple(user_path(name, where).absolute() for name in parse_list(value, where))


def parse_words(value: str, where: str) -> tuple[str, ...]:
    """Split text into words as a shell does. Raises UsageError if a quote is not closed."""
    try:
        return tuple(shlex.split(value))
    except ValueError:
        raise UsageError("a quote is not closed", where=where, hint="quotes come in pairs") from None


def parse_tags(value: str) -> dict[str, str]:
    """Parse user tags: as `parse_mapping`, but every value stays the text that was written ("version:7.10")."""
    tags = _mapping(value, "--user-tags", (), lambda name, text: _unquoted(text))
    return {name: item if isinstance(item, str) else json.dumps(item) for name, item in tags.items()}


def parse_list(value: str, where: str, folders: Sequence[Path] = ()) -> tuple[str, ...]:
    """Parse a list of names from `a,b`, a JSON array or a .json file. Empty text is an empty list.

    A file is looked for in the current folder, then in `folders`. Raises UsageError for JSON that is not an array of
    text.
    """
    text = value.strip()
    document = _json(text, where, folders, opening="[")
    if document is None:
        return tuple(_unquoted(item) for item in _split(text, ",", where) if item)
    if not isinstance(document, list) or not all(isinstance(item, str) for item in document):
        raise UsageError(f"expected a JSON array of text, not {text}", where=where, hint='say a,b or ["a", "b"]')
    return tuple(document)


def parse_target_hosts(value: str, where: str = "--target-hosts") -> tuple[str, ...]:
    """Parse hosts of one cluster: as `parse_clusters`. Raises UsageError for several clusters."""
    return _of_one_cluster(parse_clusters(value, where), where)


def parse_clusters(value: str, where: str = "--target-hosts") -> dict[str, tuple[str, ...]]:
    """Parse the hosts of each cluster, by its name: as `parse_list`, or more forms of JSON.

    A host may also be {"host": ..., "port": ...}, which becomes host:port, and the whole {"default": [...], "remote":
    [...]}. A single cluster is the default one, whatever its name. Raises UsageError if several lack a default one.
    """
    text = value.strip()
    document = _json(text, where, (), opening="[{")
    if document is None:
        return {DEFAULT_CLUSTER: parse_list(value, where)}
    if not isinstance(document, dict):
        return {DEFAULT_CLUSTER: _hosts(document, where)}
    if not document:
        raise UsageError("no cluster is named", where=where, hint='say {"default": ["10.0.0.1:9200"]}')
    clusters = {name: _hosts(hosts, where) for name, hosts in document.items()}
    if len(clusters) == 1:
        return {DEFAULT_CLUSTER: _of_one_cluster(clusters, where)}
    if DEFAULT_CLUSTER not in clusters:
        what = f'none of the clusters {", ".join(clusters)} is called "{DEFAULT_CLUSTER}"'
        raise UsageError(what, where=where, hint="tasks that name no cluster go to it")
    if empty := [name for name, hosts in clusters.items() if not hosts]:
        raise UsageError(f'cluster "{empty[0]}" has no host', where=where, hint='say ["10.0.0.1:9200"]')
    return clusters


def _hosts(document: Any, where: str) -> tuple[str, ...]:
    if isinstance(document, str):
        return parse_list(document, where)
    hosts = document if isinstance(document, list) else [document]
    return tuple(_host(host, where) for host in hosts)


def parse_load_hosts(value: str, where: str = "--load-hosts") -> tuple[str, ...]:
    """Parse the hosts that send the load, each [USER@]HOST[:PORT] as ssh knows it. UsageError for another form.

    It may be a variable of the shell that is not set: this host must not send the load in their place.
    """
    hosts = parse_list(value, where)
    if not hosts:
        raise UsageError(f"{where} is empty", hint="leave the option out to send the load from this host")
    for host in hosts:
        if not _SSH_HOST.fullmatch(host) or not _is_port(host):
            raise UsageError(f"{host!r} is not a host", where=where, hint="say 10.0.0.5,user@load-2:2222")
        if hosts.count(host) > 1:
            raise UsageError(f"{host} is there twice", where=where, hint="--workers is the number on each host")
    return hosts


def _is_port(text: str) -> bool:
    """True if the number behind the last colon, if there is any, may be a port."""
    port = text.rpartition(":")[2]
    return not port.isdigit() or 0 < (whole_of(port) or 0) < 1 << 16


def host_of(text: str) -> str:
    """Return the host in [SCHEME://][USER@]HOST[:PORT]."""
    return urlsplit(f"//{text.strip().rpartition('//')[2]}").hostname or ""


def parse_load_cluster(value: str, where: str = "--load-cluster") -> str:
    """Parse the address of a Dask scheduler. UsageError unless it is tls://HOST:PORT."""
    if not _SCHEDULER.fullmatch(value) or not _is_port(value):
        hint = "say tls://HOST:PORT; without TLS everyone who reaches the scheduler can run code on its workers"
        raise UsageError(f"{value!r} is not the address of a scheduler with TLS", where=where, hint=hint)
    return value


def parse_client_options(value: str, where: str = "--client-options") -> dict[str, Any]:
    """Parse client options of one cluster: as `parse_options_of_clusters`. Raises UsageError for several clusters."""
    return _of_one_cluster(parse_options_of_clusters(value, where), where)


def _of_one_cluster(clusters: Mapping[str, V], where: str) -> V:
    """Return what belongs to the only cluster, whatever its name. UsageError for several."""
    if len(clusters) > 1:
        what = f"{len(clusters)} clusters are named: {', '.join(clusters)}"
        raise UsageError(what, where=where, hint="give one of them alone")
    return next(iter(clusters.values()))


def parse_options_of_clusters(value: str, where: str = "--client-options") -> dict[str, dict[str, Any]]:
    """Parse client options: as `parse_mapping`, of ALL_CLUSTERS; or JSON, {"default": {...}, "remote": {...}}.

    `env:NAME` is the value of an environment variable, which no list of processes shows.
    """
    options = parse_mapping(value, where)
    is_by_cluster = options and all(isinstance(given, dict) for given in options.values())
    by_cluster = options if is_by_cluster else {ALL_CLUSTERS: options}
    return {
        cluster: {name: _from_environment(given, f"{where} {name}") for name, given in of_one.items()}
        for cluster, of_one in by_cluster.items()
    }


def client_options_of_clusters(values: Sequence[str], clusters: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the merged client options of each cluster: those without a cluster are for all of them, and later ones
    win. Raises UsageError for a cluster that is not raced."""
    found: dict[str, dict[str, Any]] = {cluster: {} for cluster in clusters}
    for value in values:
        by_cluster = parse_options_of_clusters(value)
        if len(clusters) == 1 and len(by_cluster) == 1:  # whatever its name
            by_cluster = {ALL_CLUSTERS: next(iter(by_cluster.values()))}
        for cluster, options in by_cluster.items():
            if cluster != ALL_CLUSTERS and cluster not in found:
                hint = did_you_mean(cluster, clusters) or f"--target-hosts names {', '.join(clusters)}"
                raise UsageError(f'no cluster "{cluster}" is raced', where="--client-options", hint=hint)
            for name in clusters if cluster == ALL_CLUSTERS else [cluster]:
                found[name] |= options
    return found


def names_variable(given: object) -> TypeGuard[str]:
    """True for `env:NAME`, which is the value of a variable of the environment."""
    return isinstance(given, str) and given.startswith(_FROM_ENVIRONMENT)


def _from_environment(given: Any, where: str) -> Any:
    if not names_variable(given):
        return given
    variable = given.removeprefix(_FROM_ENVIRONMENT)
    if not (value := os.environ.get(variable)):
        raise UsageError(f'the environment variable "{variable}" is not set', where=where, hint="export it")
    return value


def _mapping(value: str, where: str, folders: Sequence[Path], read: Callable[[str, str], Any]) -> dict[str, Any]:
    """Return a JSON object, or pairs whose values are what `read` makes of (name, text)."""
    text = value.strip()
    document = _json(text, where, folders, opening="{")
    if document is None:
        return {name: _read_as(read, name, item, where) for name, item in _pairs(text, where)}
    if not isinstance(document, dict):
        raise UsageError(f"expected a JSON object, not {_kind(document)}", where=where, hint=_OBJECT)
    return document


def _read_as(read: Callable[[str, str], Any], name: str, text: str, where: str) -> Any:
    try:
        return read(name, text)
    except ValueError as error:
        raise UsageError(f"{name}: {error}", where=where) from None


def _host(given: object, where: str) -> str:
    if isinstance(given, dict) and isinstance(given.get("host"), str):
        return f"{given['host']}:{given['port']}" if "port" in given else str(given["host"])
    if not isinstance(given, str):
        raise UsageError(f"{_kind(given)} is not a host", where=where, hint='say ["10.0.0.1:9200", "10.0.0.2:9200"]')
    return given


def _json(text: str, where: str, folders: Sequence[Path], *, opening: str) -> Any:
    """Return the JSON document that `text` is or names; None if it is neither."""
    source, file = where, None
    if text.endswith(".json") and not text.startswith(tuple("[{")):
        file = _read(text, where, folders)
        if file is None:
            return None
        source, text = f"{where}={text}", file
    elif not text.startswith(tuple(opening)) or _IPV6.match(text):
        return None
    try:
        return read_json(text, partial(_object, where=source))
    except (ValueError, RecursionError):
        from esbench.errors.json_faults import json_fault

        fault = json_fault(text)
        where = source if file is None else f"{source}:{fault.line}"
        may_be_secret = fault.what.endswith(" is not a value") and ("@" in text or HIDDEN in Redactor()(text))
        told = "this is not a value" if may_be_secret else fault.what
        what = f"not valid JSON at column {fault.column + 1}: {told}"
        raise UsageError(what, where=where, hint=fault.hint) from None


def _object(members: Sequence[tuple[str, Any]], where: str) -> dict[str, Any]:
    """Return an object of a JSON document; raises UsageError for a name that is given twice."""
    document: dict[str, Any] = {}
    for name, value in members:
        if name in document:
            raise UsageError(f'"{name}" is given twice', where=where)
        document[name] = value
    return document


def _read(name: str, where: str, folders: Sequence[Path]) -> str | None:
    """Return the text of a file; None if the name is a pair whose value happens to have a file's suffix."""
    file = _find(name, where, folders)
    if file is None:
        if ":" in name:
            return None
        looked = ", ".join(str(folder) for folder in (Path.cwd(), *folders))
        raise UsageError(f"there is no file {name}", where=where, hint=f"looked in {looked}")
    source = f"{where}={name}"
    try:
        return file.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot be read: {error.strerror}", where=source) from error
    except UnicodeDecodeError as error:
        raise UsageError(f"is not UTF-8 text (byte {error.start})", where=source, hint="save it as UTF-8") from None


def _find(name: str, where: str, folders: Sequence[Path]) -> Path | None:
    paths = (user_path(name, where), *(folder / name for folder in folders))
    return next((path for path in paths if path.is_file()), None)


def _pairs(text: str, where: str) -> list[tuple[str, str]]:
    pairs: dict[str, str] = {}
    for part in _split(text, ",", where):
        name, *values = _split(part, ":", where, most=1)
        if not part:
            continue
        name = _unquoted(name)
        if not name or not values:
            if HIDDEN in redact(dict.fromkeys(list(pairs)[-1:], "")).values():  # a password that has a comma
                raise UsageError(f"a part of {list(pairs)[-1]} is not NAME:VALUE", where=where, hint=_QUOTED)
            raise UsageError(f'"{part}" is not NAME:VALUE', where=where, hint=_pair_hint(part, pairs))
        if name in pairs:
            raise UsageError(f'"{name}" is given twice', where=where)
        pairs[name] = values[0]
    return list(pairs.items())


def _pair_hint(part: str, before: dict[str, str]) -> str:
    if "=" in part:
        return f'say "{part.replace("=", ":", 1)}"'
    if _FLOAT.fullmatch(part) and before:
        name, first = list(before.items())[-1]
        return f'a list of numbers is written "{name}:{first}/{part}"'
    if before:
        return _QUOTED
    return 'say "name:value,name2:value2", a JSON object, or the path of a .json file'


def _split(text: str, separator: str, where: str, most: int | None = None) -> list[str]:
    """Split text at the separators outside quotes, at most `most`; a quote opens only at the start of a value."""
    parts: list[str] = []
    current, quote = "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character == separator and len(parts) != most:
            parts.append(current.strip())
            current = ""
            continue
        elif character in _QUOTES and (not current.strip() or current.rstrip().endswith(":")):
            quote = character
        current += character
    if quote:
        raise UsageError(f"a quote ({quote}) is not closed", where=where, hint="quotes come in pairs")
    return [*parts, current.strip()]


def _unquoted(text: str) -> str:
    text = text.strip()
    if len(text) > 1 and text[0] in _QUOTES and text[-1] == text[0]:
        return text[1:-1]
    return text


def _typed(text: str) -> Any:
    text = text.strip()
    if _unquoted(text) != text:
        return _unquoted(text)
    number = _number(text)
    return _WORDS.get(text, text) if number is None else number


def _numbers(text: str) -> list[int | float | str] | None:
    """Return numbers and percentages that are joined by slashes; None for any other text."""
    numbers = [_number_or_percent(part.strip()) for part in text.split("/")]
    return [number for number in numbers if number is not None] if len(numbers) > 1 and None not in numbers else None


def _number_or_percent(text: str) -> int | float | str | None:
    """Return a number, or text such as "70%" as it is; None for any other text."""
    percent = text.removesuffix("%").rstrip()
    return _number(text) if percent == text or _number(percent) is None else text


def _number(text: str) -> int | float | None:
    return read_number(text) if _INT.fullmatch(text) or _FLOAT.fullmatch(text) else None


def _kind(document: object) -> str:
    names = {dict: "an object", list: "an array", str: "a string", bool: "true or false", type(None): "null"}
    return names.get(type(document), "a number")
