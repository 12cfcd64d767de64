"""The prefix of the names of a race's indices, and facts without it: sides that share a node differ in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

INDEX_PREFIX = "index_prefix"  # a track parameter


def index_prefix(params: Mapping[str, Any]) -> str:
    """Return the prefix that the track parameters of a race put in front of its names; "" if none."""
    return str(params.get(INDEX_PREFIX) or "")


def other_params(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the track parameters but the prefix."""
    return {name: value for name, value in params.items() if name != INDEX_PREFIX}


def without_prefix(value: Any, prefix: str) -> Any:
    """Return a value without the prefix of the names in it: in text, keys and elements, at any depth.

    A name begins where no letter, digit or underscore stands before it: `/side1-orders/_search`, `.ds-side1-logs`.
    """
    return _without(value, re.compile(rf"(?<!\w){re.escape(prefix)}")) if prefix else value


def _without(value: Any, prefix: re.Pattern[str]) -> Any:
    if isinstance(value, str):
        return prefix.sub("", value)
    if isinstance(value, Mapping):
        return {_without(key, prefix): _without(inner, prefix) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_without(inner, prefix) for inner in value]
    return value


def has_prefix(name: str, prefixes: tuple[str, ...]) -> bool:
    """True if the name of an index, or of an index of a data stream, begins with one of the prefixes."""
    return name.removeprefix(".ds-").startswith(prefixes)
