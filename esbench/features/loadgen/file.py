"""Reading of a Loadgen file: its variables, requests and runner options, checked, each fault with its line.

Source of the format: Loadgen's documentation (https://docs.infinilabs.com/loadgen/main/), and its own sources for what
that leaves open.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from esbench.errors import TrackError, UsageError, did_you_mean, nearest
from esbench.features.loadgen import dsl
from esbench.operations.conditions import CONDITION_NAMES, condition_of
from esbench.operations.http_requests import METHODS
from esbench.requests.templates import own_headers, unsent_headers
from esbench.track.document import DocumentNode, parse
from esbench.track.rendering import RenderContext, Rendered, TrackRenderer
from esbench.track.source import YAML_SUFFIXES

_OF_FILE = ("env", "runner", "variables")
_READ = (*_OF_FILE, "requests")
_KEYS = (*_READ, "tests")
_ITEM_KEYS = ("request", "assert", "register", "sleep")
_REQUEST_KEYS = (
    *("method", "url", "headers", "basic_auth", "body", "body_repeat_times", "execute_repeat_times"),
    *("runtime_variables", "runtime_body_line_variables", "disable_header_names_normalizing", "simple_mode"),
)
_BOUNDS = ("from", "to")
TYPES: Mapping[str, Sequence[str]] = {  # of variables, with their keys but name, type and replace
    **dict.fromkeys(("file", "list"), ("path", "data")),
    **dict.fromkeys(("sequence", "sequence64", "range"), _BOUNDS),
    "random_array": ("variable_key", "variable_type", "size", "square_bracket", "string_bracket"),
    "int_array_bitmap": (*_BOUNDS, "size"),
    **dict.fromkeys(("uuid", "now_local", "now_utc", "now_utc_lite"), ()),
    **dict.fromkeys(("now_unix", "now_unix_in_ms", "now_unix_in_micro", "now_unix_in_nano"), ()),
    "now_with_format": ("format",),
}
_OF_ANY = ("name", "type", "replace")
_VARIABLE_KEYS = (*_OF_ANY, *dict.fromkeys(key for keys in TYPES.values() for key in keys))
ENV_TAG = re.compile(r"\$\[\[env\.(.*?)\]\]")
_ORIGIN = re.compile(r"((?:\w+://)?[^/?#]*).*", re.DOTALL)
_TEMPLATES = ("url", "headers", "body")  # whose environment variables become parameters of the track
_WITHOUT_EFFECT = (  # they tune how Loadgen measures and logs
    *("log_requests", "log_status_codes", "benchmark_only", "duration_in_us", "no_stats", "no_size_stats"),
    *("metric_sample_size", "disable_header_names_normalizing", "reset_context", "skip_invalid_assert"),
)
_RUNNER_KEYS = (
    *("total_rounds", "no_warm", "valid_status_codes_during_warmup", "assert_invalid", "continue_on_assert_invalid"),
    *("assert_error", "default_endpoint", "default_basic_auth", *_WITHOUT_EFFECT),
)
_PIPELINES = ("pipeline", "flow", "entry", "router", "elasticsearch")  # of INFINI Gateway's files


@dataclass(frozen=True)
class Identity:
    """A user name and password of basic authentication, as the file has them."""

    username: str
    password: str


@dataclass(frozen=True)
class LoadgenVariable:
    """A variable: its type, and the keys of the file but name and type."""

    name: str
    type: str
    keys: Mapping[str, Any]
    where: str


@dataclass(frozen=True, kw_only=True)
class LoadgenRequest:
    """A request with all that is said of it; texts hold `$[[name]]` as the file does."""

    method: str
    url: str
    headers: Mapping[str, str]
    basic_auth: Identity | None
    body: str
    body_repeat_times: int
    execute_repeat_times: int
    runtime_variables: Mapping[str, str]
    runtime_body_line_variables: Mapping[str, str]
    register: Mapping[str, str]
    asserted: Mapping[str, Any] | None
    sleep_ms: int
    simple: bool  # it has neither headers nor a body, whatever the file says
    where: str


@dataclass(frozen=True, kw_only=True)
class RunnerOptions:
    """The options of the runner that have an effect. `valid_statuses`: of the try-out; none: those below 400."""

    total_rounds: int = 0
    no_warm: bool = False
    valid_statuses: Sequence[int] = ()
    assert_invalid: bool = False
    continue_on_assert_invalid: bool = False
    assert_error: bool = False
    default_endpoint: str = ""
    default_basic_auth: Identity | None = None


@dataclass(frozen=True)
class Environment:
    """The values of environment variables: those that the file may have win over its own `defaults`."""

    file: Path
    defaults: Mapping[str, str]
    variables: Mapping[str, str]

    def value(self, name: str) -> str:
        """Return the value of a variable. Raises UsageError if it has none."""
        if name in self.variables:
            return self.variables[name]
        if name not in self.defaults:
            hint = f"set it and add --env={name}, or give it a value in the file: env: {{{name}: ...}}"
            raise UsageError(f"the environment variable {name} has no value", where=str(self.file), hint=hint)
        return self.defaults[name]

    def within(self, text: str) -> str:
        """Return a text with the values of the variables in it."""
        return ENV_TAG.sub(lambda match: self.value(match[1]), text)


@dataclass(frozen=True)
class LoadgenFile:
    """A Loadgen file. Environment variables have their values, but in URLs, headers and bodies."""

    path: Path
    environment: Environment
    runner: RunnerOptions
    variables: Sequence[LoadgenVariable]
    elements: Sequence[LoadgenRequest | int]  # an int: a pause alone, in ms
    warnings: Sequence[str] = field(default=())

    @property
    def requests(self) -> Sequence[LoadgenRequest]:
        return [each for each in self.elements if isinstance(each, LoadgenRequest)]


@dataclass(frozen=True)
class LoadgenSource:
    """A Loadgen file that was parsed, without values of environment variables: somebody else may have written it."""

    path: Path
    root: DocumentNode

    @property
    def environment_names(self) -> Sequence[str]:
        """The names of the environment variables that the file asks for, in its order."""
        names = (*ENV_TAG.findall(self.root.rendered.text), *_mapping(self.root, "env"))
        return tuple(dict.fromkeys(name for name in map(str, names) if name.isidentifier()))

    @property
    def destinations(self) -> Sequence[str]:
        """The beginnings of the URLs that requests are sent to, as the file has them."""
        runner = self.root.get("runner")
        urls = [runner.get("default_endpoint")] if isinstance(runner, Mapping) else []
        requests = (item.get("request") for item in _nodes(self.root, "requests"))
        urls += [request.get("url") for request in requests if isinstance(request, Mapping)]
        return tuple(dict.fromkeys(_ORIGIN.sub(r"\1", url) for url in urls if isinstance(url, str) and url[:1] != "/"))

    def read(self, variables: Mapping[str, str]) -> LoadgenFile:
        """Return the file with the values of those environment variables that it may have.

        Raises UsageError if one has no value, TrackError for faults of the file.
        """
        defaults = {str(key): _default(self.root["env"][key]) for key in _mapping(self.root, "env")}
        asked = {name: value for name, value in variables.items() if name in self.environment_names}
        environment = Environment(self.path, defaults, asked)
        root = replace(self.root, value=_with_values(self.root.value, environment.within))
        runner = root.find("runner")
        return LoadgenFile(
            path=self.path,
            environment=environment,
            runner=RunnerOptions() if runner is None else _runner(runner),
            variables=tuple(_variables(root)),
            elements=tuple(_requests(root)),
            warnings=(*_without_effect(root), *_read_past(root)),
        )


def open_loadgen(path: Path, beside: Path | None = None) -> LoadgenSource:
    """Parse a Loadgen file, YAML or of the DSL. Raises UsageError if it cannot be read; TrackError for its faults.

    `beside` is a YAML file whose `env`, `runner` and `variables` count where one of the DSL does not say them.
    """
    root = _parsed(path)
    if beside is not None:
        above = _parsed(beside).value
        own = {key: above[key] for key in _OF_FILE if isinstance(above, Mapping) and key in above}
        root = replace(root, value={**own, **root.value})
    _check_requests(root)
    return LoadgenSource(path, root)


def _parsed(path: Path) -> DocumentNode:
    if path.suffix not in (*YAML_SUFFIXES, dsl.SUFFIX):
        raise UsageError(f'"{path}" is not a Loadgen file', hint="it ends in .yml, or of the DSL in .dsl")
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UsageError(f'"{path}" cannot be read: {error.strerror}', hint="esbench load FILE.yml") from None
    except UnicodeDecodeError:
        raise UsageError(f'"{path}" is not UTF-8 text') from None
    renderer = TrackRenderer(path.parent, RenderContext({}, distribution="", version="0", now=0.0))
    text = dsl.as_json(path, text) if path.suffix == dsl.SUFFIX else text
    root = parse(Rendered(path.name, text, renderer), last_wins=True)
    if not isinstance(root.value, Mapping):
        is_dsl = re.match(r"\s*(#|GET|POST|PUT|DELETE|HEAD)\b", text)
        hint = "a file of the DSL ends in .dsl" if is_dsl else "it has requests: and variables:"
        root.fail("this is not a Loadgen file", hint)
    return root


def _check_requests(root: DocumentNode) -> None:
    """Raise TrackError for a file without requests."""
    if not root.get("requests"):
        if root.find("tests") is not None:
            root["tests"].fail("suites of tests are not run", "name one of their files: esbench load TEST/loadgen.yml")
        for key in root.value:
            if key in _PIPELINES:
                root[key].fail(
                    f'"{key}" belongs to a file for INFINI Gateway', "esbench load takes requests: and variables:"
                )
            if key not in _KEYS and nearest(str(key), _KEYS):
                root[key].fail(f'a Loadgen file has no "{key}"', did_you_mean(str(key), _KEYS))
        root.fail("the file has no requests", "requests: is a list of what to send")
    if all(_is_pause(item) for item in _nodes(root, "requests")):
        root["requests"].fail("there are sleeps alone, and no request", "say request: {method: GET, url: ...}")


def _with_values(value: Any, within: Callable[[str], str]) -> Any:
    """Return the content of a file with the values of environment variables, but where they become parameters."""
    if isinstance(value, Mapping):
        return {key: each if key in _TEMPLATES else _with_values(each, within) for key, each in value.items()}
    if isinstance(value, list):
        return [_with_values(each, within) for each in value]
    return within(value) if isinstance(value, str) else value


def _kind(value: object) -> str:
    """Return what a value is, without the value: it may be a secret."""
    return "a mapping" if isinstance(value, Mapping) else "a list" if isinstance(value, list) else "text"


def _mapping(node: DocumentNode, key: str) -> Mapping[str, Any]:
    """Return the mapping of a key, empty without it. Raises TrackError for anything else."""
    value = node.get(key, {})
    if not isinstance(value, Mapping):
        node[key].fail(f'"{key}" must be a mapping, not {_kind(value)}')
    return value


def _list(node: DocumentNode, key: str) -> Iterator[DocumentNode]:
    """Yield the elements of a list; none without the key. Raises TrackError for anything else."""
    value = node.get(key, [])
    if not isinstance(value, list):
        node[key].fail(f'"{key}" must be a list, not {_kind(value)}')
    yield from node[key] if value else ()


def _nodes(node: DocumentNode, key: str) -> Iterator[DocumentNode]:
    """Yield the mappings of a list."""
    for element in _list(node, key):
        if not isinstance(element.value, Mapping):
            element.fail(f'"{key}" has mappings, not {_kind(element.value)}')
        yield element


@lru_cache(maxsize=1)
def _written(text: str) -> Any:
    """Return the content of a YAML text with all scalars as they are written: 010 is no number."""
    return yaml.load(text, Loader=yaml.CBaseLoader)  # it makes nothing but text, lists and mappings  # nosec B506


def _plain(node: DocumentNode) -> str:
    """Return a scalar as it is written, whatever YAML takes it for; "" for null."""
    if isinstance(node.value, list | Mapping):
        node.fail(f"{node.label} must be text, not {_kind(node.value)}")
    if node.value is None:
        return ""
    written = _written(node.rendered.text)
    for key in node.path:
        try:
            written = written[key]
        except LookupError:  # of a mapping that was merged (<<)
            return str(node.value)
    has_value = ENV_TAG.search(str(written)) is not None and ENV_TAG.search(str(node.value)) is None
    return str(node.value if has_value else written)


def _default(node: DocumentNode) -> str:
    """Return what the file says of an environment variable: text, or a list or mapping as JSON."""
    if isinstance(node.value, list | Mapping):
        return json.dumps(node.value, ensure_ascii=False, separators=(",", ":"))
    return _plain(node)


def _text(node: DocumentNode, key: str, default: str = "") -> str:
    return _plain(node[key]) if node.find(key) is not None else default


def _number(node: DocumentNode, key: str, least: int) -> int:
    value = node.get(key, 0)
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        node[key].fail(f'"{key}" must be a whole number from {least} on, not {value!r}')
    return int(value)


def _count(node: DocumentNode, key: str) -> int:
    """Return how often, 0 for as often as usual: so Loadgen takes what is negative."""
    return max(0, _number(node, key, -(2**63)))


def _flag(node: DocumentNode, key: str) -> bool:
    value = node.get(key, False)
    value = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
    if not isinstance(value, bool):
        node[key].fail(f'"{key}" must be true or false, not {value!r}')
    return bool(value)


def _names(node: DocumentNode, key: str) -> dict[str, str]:
    return {str(name): _plain(node[key][name]) for name in _mapping(node, key)}


def _pairs(node: DocumentNode, key: str) -> dict[str, str]:
    """Return a list of mappings, as Loadgen writes headers and registers, or one mapping, as one."""
    if isinstance(node.get(key), Mapping):
        return _names(node, key)
    return {str(name): _plain(element[name]) for element in _nodes(node, key) for name in element.value}


def _identity(node: DocumentNode, key: str) -> Identity | None:
    if not _mapping(node, key):
        return None
    user = _text(node[key], "username")
    return Identity(user, _text(node[key], "password")) if user else None


def _runner(node: DocumentNode) -> RunnerOptions:
    if not isinstance(node.value, Mapping):
        node.fail(f'"runner" must be a mapping, not {_kind(node.value)}')
    statuses = node.get("valid_status_codes_during_warmup", [])
    if not isinstance(statuses, list) or not all(isinstance(each, int) for each in statuses):
        node["valid_status_codes_during_warmup"].fail("statuses are a list of numbers, [200, 404]")
    return RunnerOptions(
        total_rounds=_count(node, "total_rounds"),
        no_warm=_flag(node, "no_warm"),
        valid_statuses=tuple(statuses),
        assert_invalid=_flag(node, "assert_invalid"),
        continue_on_assert_invalid=_flag(node, "continue_on_assert_invalid"),
        assert_error=_flag(node, "assert_error"),
        default_endpoint=_text(node, "default_endpoint"),
        default_basic_auth=_identity(node, "default_basic_auth"),
    )


def _without_effect(root: DocumentNode) -> Iterator[str]:
    runner = root.get("runner") or {}
    if given := [key for key in runner if key in _WITHOUT_EFFECT and runner[key]]:
        yield f"runner: {', '.join(given)}: without effect (all is measured; the record has a reply of each failure)"
    if others := [str(key) for key in root.value if key not in _READ]:
        yield f"{', '.join(others)}: without effect (esbench load reads {', '.join(_READ)})"
    if unsent := [(name, node) for node in _with(root, "headers") for name in unsent_headers(_pairs(node, "headers"))]:
        names = ", ".join(dict.fromkeys(name for name, _ in unsent))
        yield f"{unsent[0][1]['headers'].where}: {names}: not sent, it belongs to the connection (Connection: close is)"
    for node in _nodes(root, "variables"):
        known = TYPES[_text(node, "type")]
        if unused := [key for key in node.value if key in _VARIABLE_KEYS and key not in (*_OF_ANY, *known)]:
            yield f'variable "{_text(node, "name")}": {", ".join(unused)}: without effect on {_text(node, "type")}'


def _read_past(root: DocumentNode) -> Iterator[str]:
    """Yield a notice for each key that Loadgen, too, reads past, and for each that stands twice in its mapping."""
    for what, node, keys in _known_keys(root):
        for key in node.value:
            if key not in keys:
                near = nearest(str(key), keys)
                yield f'{node[key].where}: {what} has no "{key}": read past{f" ({near})" if near else ""}'
    for key, line in repeated_keys(root.rendered.text):
        yield f'{root.rendered.location(line)}: the key "{key}" is here a second time: this one counts'


def _known_keys(root: DocumentNode) -> Iterator[tuple[str, DocumentNode, Collection[str]]]:
    """Yield what each mapping is, the mapping, and the keys that it may have."""
    identity = ("username", "password")
    if isinstance(root.get("runner"), Mapping):
        yield "runner", root["runner"], _RUNNER_KEYS
    for node in _nodes(root, "variables"):
        yield "a variable", node, _VARIABLE_KEYS
    for item in _nodes(root, "requests"):
        yield "an element of requests", item, _ITEM_KEYS
        if isinstance(item.get("sleep"), Mapping):
            yield "sleep", item["sleep"], ("sleep_in_milli_seconds",)
        asserted = item.get("assert")
        if isinstance(asserted, Mapping) and asserted != _conditions(asserted):
            yield "an assert", item["assert"], CONDITION_NAMES
        if isinstance(item.get("request"), Mapping):
            yield "a request", item["request"], _REQUEST_KEYS
    owners = [*_with(root, "basic_auth"), *filter(None, [root.find("runner")])]
    for owner in owners:
        for key in ("basic_auth", "default_basic_auth"):
            if isinstance(owner.value, Mapping) and isinstance(owner.get(key), Mapping):
                yield key, owner[key], identity


def repeated_keys(text: str) -> Iterator[tuple[str, int]]:
    """Yield the keys that stand in a mapping of a YAML text for a second time, each with its line from 1."""
    pending = [yaml.compose(text, Loader=yaml.CSafeLoader)]
    while pending:
        node = pending.pop(0)
        if isinstance(node, yaml.SequenceNode):
            pending += node.value
        elif isinstance(node, yaml.MappingNode):
            seen: set[str] = set()
            for key, value in node.value:
                if str(key.value) in seen:
                    yield str(key.value), key.start_mark.line + 1
                seen.add(str(key.value))
                pending.append(value)


def _with(root: DocumentNode, key: str) -> Iterator[DocumentNode]:
    """Yield the requests that have a key."""
    for item in _nodes(root, "requests"):
        node = item.find("request")
        if node is not None and isinstance(node.value, Mapping) and node.find(key) is not None:
            yield node


def _variables(root: DocumentNode) -> Iterator[LoadgenVariable]:
    seen: set[str] = set()
    for node in _nodes(root, "variables"):
        name, kind = _text(node, "name").strip(), _text(node, "type")
        if not name:
            node.fail("a variable has no name")
        if name in seen:
            node["name"].fail(f'the variable "{name}" is defined twice')
        seen.add(name)
        if kind not in TYPES:
            place = node["type"] if node.find("type") is not None else node
            place.fail(f'unknown type of a variable: "{kind}"', did_you_mean(kind, TYPES))
        yield LoadgenVariable(name, kind, _keys(node), node.where)


def _keys(node: DocumentNode) -> dict[str, Any]:
    """Return the keys that a variable of its type has: numbers and flags as such, all else as it is written."""
    keys: dict[str, Any] = {}
    for key in ("replace", *TYPES[_text(node, "type")]):
        if node.find(key) is None:
            continue
        if key == "data":
            keys[key] = [_plain(element) for element in _list(node, key)]
        elif key == "replace":
            keys[key] = _names(node, key)
        elif key in ("from", "to", "size"):
            keys[key] = _number(node, key, 0)
        else:
            keys[key] = _flag(node, key) if key == "square_bracket" else _plain(node[key])
    return keys


def _conditions(value: Any) -> Any:
    """Return an `assert` without the keys that are no conditions, if it has others: Loadgen reads past them."""
    if not isinstance(value, Mapping) or not any(key in CONDITION_NAMES for key in value):
        return value
    return {key: each for key, each in value.items() if key in CONDITION_NAMES}


def _is_pause(item: DocumentNode) -> bool:
    """True for an element of requests that is a sleep alone."""
    return item.get("request") is None and item.get("sleep") is not None


def _sleep_ms(item: DocumentNode) -> int:
    return _count(item["sleep"], "sleep_in_milli_seconds") if _mapping(item, "sleep") else 0


def _requests(root: DocumentNode) -> Iterator[LoadgenRequest | int]:
    """Yield the requests in order; for a sleep alone, its milliseconds."""
    for item in _nodes(root, "requests"):
        node = item.find("request")
        if _is_pause(item):
            yield _sleep_ms(item)
            continue
        if node is None:
            item.fail('an element of requests has a "request"', did_you_mean("request", item.value))
        if not isinstance(node.value, Mapping):
            node.fail(f'"request" must be a mapping, not {_kind(node.value)}')
        method = _text(node, "method", "GET").upper()
        if method not in METHODS:
            node["method"].fail(f'the method "{method}" cannot be sent', did_you_mean(method, METHODS))
        if not _text(node, "url"):
            node.fail('a request has a "url"')
        asserted = item.find("assert")
        if asserted is not None:
            try:
                condition_of(_conditions(asserted.value), "")
            except TrackError as error:
                raise asserted.failed(error) from None
        yield LoadgenRequest(
            method=method,
            url=_text(node, "url").strip(),
            headers=own_headers(_pairs(node, "headers")),
            basic_auth=_identity(node, "basic_auth"),
            body=_text(node, "body"),
            body_repeat_times=_count(node, "body_repeat_times") or 1,
            execute_repeat_times=_count(node, "execute_repeat_times") or 1,
            runtime_variables=_names(node, "runtime_variables"),
            runtime_body_line_variables=_names(node, "runtime_body_line_variables"),
            register=_pairs(item, "register"),
            asserted=None if asserted is None else _conditions(asserted.value),
            sleep_ms=_sleep_ms(item),
            simple=_flag(node, "simple_mode"),
            where=node.where,
        )
