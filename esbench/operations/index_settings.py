"""Settings of an index or template, in any of their spellings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def with_settings(body: Mapping[str, Any], settings: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the body of an index or template with its `settings` overridden by others, in any of their spellings.

    Settings may be nested or dotted, with or without `index.`; in the result they are dotted. Without others the body
    keeps its own as they are.
    """
    if not settings:
        return dict(body)
    theirs = dict(_flat(body.get("settings") or {}))
    ours = dict(_flat(settings))
    overridden = {_full(name) for name in ours}
    kept = {name: value for name, value in theirs.items() if _full(name) not in overridden}
    return {**body, "settings": {**kept, **ours}}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (dotted name, value) of nested settings; an empty mapping counts as a value."""
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _full(name: str) -> str:
    return name if name.startswith("index.") else f"index.{name}"
