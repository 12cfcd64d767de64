"""The mark by which every esbench knows an index that one of them made: an entry of `_meta` in its mapping."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from esbench.cluster.dialect import Dialect, is_typeless

_KEY, _VALUE = "made_by", "esbench"


def marked(body: Mapping[str, Any], dialect: Dialect) -> dict[str, Any]:
    """Return the body of an index to create with the mark in its mapping.

    Left as it is: a mapping with type names, and, where mappings need them, a body without one, since the mark would
    choose the type.
    """
    mappings = body.get("mappings")
    if mappings is None and not dialect.typed:
        mappings = {}
    if not isinstance(mappings, Mapping) or not is_typeless(mappings):
        return dict(body)
    meta = mappings.get("_meta")
    return {**body, "mappings": {**mappings, "_meta": {**(meta if isinstance(meta, Mapping) else {}), _KEY: _VALUE}}}


def is_marked(mappings: Any) -> bool:
    """True if a mapping, as a server describes it, with or without a type name, has the mark."""
    if not isinstance(mappings, Mapping):
        return False
    return any(
        isinstance(each, Mapping) and isinstance(meta := each.get("_meta"), Mapping) and meta.get(_KEY) == _VALUE
        for each in (mappings, *mappings.values())
    )


def without_mark(mappings: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping without type name as it is without the mark."""
    if not is_marked(mappings):
        return dict(mappings)
    meta = {name: value for name, value in mappings["_meta"].items() if name != _KEY}
    others = {name: value for name, value in mappings.items() if name != "_meta"}
    return {**others, **({"_meta": meta} if meta else {})}
