"""Conditions on a reply, as Loadgen's `assert` has them: `equals: {_ctx.response.status: 200}`, `and`, `or`, `not` ...

Source of their names and meanings: the conditions of INFINI Gateway
(https://docs.infinilabs.com/gateway/main/docs/references/flow/#condition-type), which Loadgen shares.
"""

from __future__ import annotations

import ipaddress
import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from esbench.cluster.replies import parse_json
from esbench.errors import TrackError, did_you_mean

_MISSING = object()
_OF_A_GATEWAY = ("queue_has_lag", "consumer_has_lag", "cluster_available")
_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "lt": lambda value, bound: value < bound,
    "lte": lambda value, bound: value <= bound,
    "gt": lambda value, bound: value > bound,
    "gte": lambda value, bound: value >= bound,
}
_NETWORKS: Mapping[str, Callable[[Any], bool]] = {
    "loopback": lambda ip: ip.is_loopback,
    "multicast": lambda ip: ip.is_multicast,
    "link_local_unicast": lambda ip: ip.is_link_local,
    "private": lambda ip: ip.is_private,
    "public": lambda ip: ip.is_global,
    "unspecified": lambda ip: ip.is_unspecified,
    "unicast": lambda ip: not (ip.is_multicast or ip.is_unspecified or str(ip) == "255.255.255.255"),
}


@dataclass(frozen=True)
class ReplyFacts:
    """The facts of a reply that conditions and registers refer to, by the paths that begin with `_ctx`.

    `registered`: values of earlier replies, by name.
    """

    status: int
    body: bytes
    elapsed_ms: int = 0
    registered: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def get(self, path: str) -> Any:
        """Return the value of a path, `_ctx.response.body_json.hits.total`. Raises KeyError without one."""
        found = _at(path, self.registered)
        if found is not _MISSING:
            return found
        if path == "_ctx.elapsed":
            return self.elapsed_ms
        key = path.removeprefix("_ctx.response.")
        if key == path:
            raise KeyError(path)
        if key == "header":
            return self.headers
        if key.startswith("header."):
            named = {name.lower(): value for name, value in self.headers.items()}
            found = named.get(key.removeprefix("header.").lower(), _MISSING)
        elif key.startswith("body_json"):
            found = _at(key.removeprefix("body_json").removeprefix("."), self._json())
        else:
            known = {"status": self.status, "body_length": len(self.body)}
            found = self.body.decode(errors="replace") if key == "body" else known.get(key, _MISSING)
        if found is _MISSING:
            raise KeyError(path)
        return found

    def _json(self) -> Any:
        try:
            return parse_json(self.body)
        except ValueError:
            return _MISSING


def _at(path: str, content: Any) -> Any:
    """Return the value at a dotted path, whose keys may hold dots themselves; else _MISSING.

    Of an array, a number is the place of an element, from 0, and `*` stands for all elements that have what follows:
    their values are a list, however many arrays are passed.
    """
    if not path:
        return content
    if isinstance(content, list):
        return _of_array(path, content)
    if not isinstance(content, Mapping):
        return _MISSING
    if path in content:
        return content[path]
    keys = path.split(".")
    for length in range(len(keys) - 1, 0, -1):
        key = ".".join(keys[:length])
        if key in content and (found := _at(".".join(keys[length:]), content[key])) is not _MISSING:
            return found
    return _MISSING


def _of_array(path: str, content: list[Any]) -> Any:
    key, _, rest = path.partition(".")
    if key == "*":
        found = [value for item in content if (value := _at(rest, item)) is not _MISSING]
        return [value for values in found for value in values] if "*" in rest.split(".") else found
    return _at(rest, content[int(key)]) if key.isdecimal() and len(key) < 9 and int(key) < len(content) else _MISSING


Condition = Callable[[ReplyFacts], str]  # what does not hold; "" if it holds


def condition_of(config: Any, where: str) -> Condition:
    """Return the check of an `assert`: all conditions in it must hold. Raises TrackError for one that is not known."""
    if not isinstance(config, Mapping) or not config:
        raise TrackError(f"an assert has conditions, such as equals, not {str(config)[:100]}", where=where)
    checks = [check for name, content in config.items() for check in _checks(str(name), content, where)]

    def all_hold(facts: ReplyFacts) -> str:
        return next(filter(None, (check(facts) for check in checks)), "")

    return all_hold


def _checks(name: str, content: Any, where: str) -> Iterator[Condition]:
    if name in ("and", "or"):
        if not isinstance(content, list) or not content:
            raise TrackError(f'"{name}" has a list of conditions, not {str(content)[:100]}', where=where)
        parts = [condition_of(part, where) for part in content]
        if name == "and":
            yield from parts
        else:
            yield lambda facts: "" if any(not part(facts) for part in parts) else parts[0](facts)
    elif name == "not":
        part = condition_of(content, where)
        yield lambda facts: "" if part(facts) else f"holds, and should not: {json.dumps(content)[:200]}"
    elif name in ("exists", "has_fields"):
        yield from _exist(name, content, where)
    elif name in _OF_A_GATEWAY:
        raise TrackError(f'the condition "{name}" is about a gateway, and no reply has it', where=where)
    elif name not in _BY_NAME:
        raise TrackError(f'unknown condition "{name}"', where=where, hint=did_you_mean(name, CONDITION_NAMES))
    elif not isinstance(content, Mapping):
        raise TrackError(f'"{name}" has values by path, not {str(content)[:100]}', where=where)
    else:
        for path, wanted in content.items():
            yield from _BY_NAME[name](str(path), wanted, where)


def _exist(name: str, content: Any, where: str) -> Iterator[Condition]:
    paths = [content] if isinstance(content, str) else content
    if not isinstance(paths, list):
        raise TrackError(f'"{name}" takes a list of paths, not {content!r}', where=where)
    for path in paths:
        yield _compared(str(path), "be there", lambda value: True)


def _compared(path: str, should: str, holds: Callable[[Any], bool]) -> Condition:
    def check(facts: ReplyFacts) -> str:
        try:
            value = facts.get(path)
        except KeyError:
            return f"there is no {path}, which should {should}"
        return "" if holds(value) else f"{path} should {should}, and is {json.dumps(value, default=str)[:200]}"

    return check


def _is(value: Any, wanted: Any) -> bool:
    if isinstance(value, bool) or isinstance(wanted, bool):  # which Python takes for 1 and 0
        return value is wanted
    return bool(value == wanted or (isinstance(value, str) != isinstance(wanted, str) and str(value) == str(wanted)))


def _equals(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    yield _compared(path, f"be {wanted}", lambda value: _is(value, wanted))


def _of_any(holds: Callable[[str], bool]) -> Callable[[Any], bool]:
    """Return the check of a value as text; of a list one element must hold."""
    return lambda value: any(holds(str(each)) for each in (value if isinstance(value, list) else [value]))


def _contains(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    text = str(wanted)
    yield _compared(path, f"contain {text}", _of_any(lambda value: text in value))


def _prefix(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    yield _compared(path, f"begin with {wanted}", lambda value: str(value).startswith(str(wanted)))


def _suffix(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    yield _compared(path, f"end with {wanted}", lambda value: str(value).endswith(str(wanted)))


def _regexp(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    try:
        pattern = re.compile(str(wanted))
    except re.error as error:
        raise TrackError(f'"{wanted}" is not a regular expression: {error}', where=where) from None
    yield _compared(path, f"match {wanted}", _of_any(lambda value: pattern.search(value) is not None))


def _in(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    if not isinstance(wanted, list):
        raise TrackError(f'"in" takes a list of values, not {wanted!r}', where=where)
    yield _compared(path, f"be one of {wanted}", lambda value: any(_is(value, each) for each in wanted))


def _length(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    yield _compared(path, f"have the length {wanted}", lambda value: hasattr(value, "__len__") and len(value) == wanted)


def _range(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    """Yield the bounds of a path: `path: {gte: 1, lt: 5}`, or each for itself, `path.gte: 1`."""
    bounds = wanted if isinstance(wanted, Mapping) else {path.rpartition(".")[2]: wanted}
    path = path if isinstance(wanted, Mapping) else path.rpartition(".")[0]
    for name, bound in bounds.items():
        if name not in _BOUNDS or isinstance(bound, bool) or not isinstance(bound, int | float):
            raise TrackError(f'"range" takes numbers for {", ".join(_BOUNDS)}, not {name}: {bound!r}', where=where)
        yield _compared(path, f"be {name} {bound}", partial(_is_bounded, _BOUNDS[name], bound))


def _is_bounded(holds: Callable[[float, float], bool], bound: float, value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and holds(value, bound)


def _network(path: str, wanted: Any, where: str) -> Iterator[Condition]:
    tests: list[Callable[[Any], bool]] = []
    for name in wanted if isinstance(wanted, list) else [wanted]:
        if str(name) in _NETWORKS:
            tests.append(_NETWORKS[str(name)])
            continue
        try:
            tests.append(partial(operator.contains, ipaddress.ip_network(str(name))))
        except ValueError:
            raise TrackError(
                f'"{name}" is not a network', where=where, hint=did_you_mean(str(name), _NETWORKS)
            ) from None

    def holds(value: Any) -> bool:
        try:
            address = ipaddress.ip_address(str(value))
        except ValueError:
            return False
        return any(test(address) for test in tests)

    yield _compared(path, f"be in {wanted}", holds)


_BY_NAME: Mapping[str, Callable[[str, Any, str], Iterator[Condition]]] = {
    "equals": _equals,
    "contains": _contains,
    "prefix": _prefix,
    "suffix": _suffix,
    "regexp": _regexp,
    "in": _in,
    "length": _length,
    "range": _range,
    "network": _network,
}
CONDITION_NAMES = (*_BY_NAME, *_OF_A_GATEWAY, "and", "or", "not", "exists", "has_fields")
