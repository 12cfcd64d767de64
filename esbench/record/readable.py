"""A record that can be read again: what servers said of themselves is left out where it cannot, whatever they said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from esbench.record.model import RaceRecord
from esbench.record.parts import typed
from esbench.record.store import decode_record, encode_record

_UNREADABLE = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)
_SAID = ("nodes", "indices", "health", "cluster_settings", "shards", "shards_by_node", "addresses")  # by a cluster

Place = tuple[str | int, ...]  # of a value in the record's document


def readable(record: RaceRecord) -> RaceRecord:
    """Return a record without what could not be read again of clusters' facts, statistics and telemetry.

    A warning names each. The record itself where all of it can be read, or where the reason is elsewhere.
    """
    if _can_be_read(record):
        return record
    whole, bare = (_whole_characters(msgspec.to_builtins(record)) for _ in range(2))
    places = list(_places(whole))
    for place in places:
        _holder(bare, place).pop(place[-1])
    if _record_of(bare) is None:
        return record
    dropped = _put_back(bare, whole, places)
    kept = _record_of(bare) or record
    warnings = (f"not kept, since it cannot be read again: {'.'.join(map(str, place))}" for place in dropped)
    return replace(kept, warnings=tuple(dict.fromkeys((*kept.warnings, *warnings))))


def _can_be_read(record: RaceRecord) -> bool:
    try:
        decode_record(encode_record(record))
    except _UNREADABLE:
        return False
    return True


def _record_of(document: dict[str, Any]) -> RaceRecord | None:
    """Return the record of a document; None if it cannot be read again."""
    try:
        record = typed(msgspec.convert(document, RaceRecord))
    except _UNREADABLE:
        return None
    return record if _can_be_read(record) else None


def _put_back(document: dict[str, Any], whole: dict[str, Any], places: Sequence[Place]) -> list[Place]:
    """Put the values of a whole document back into one that lacks them; return the places of those that it cannot
    hold."""
    for place in places:
        _holder(document, place)[place[-1]] = _holder(whole, place)[place[-1]]
    if not places or _record_of(document) is not None:
        return []
    for place in places:
        _holder(document, place).pop(place[-1])
    if len(places) == 1:
        return list(places)
    middle = len(places) // 2
    return [*_put_back(document, whole, places[:middle]), *_put_back(document, whole, places[middle:])]


def _places(document: dict[str, Any]) -> Iterator[Place]:
    for name, facts in document["clusters"].items():
        yield from (("clusters", name, key) for key in _SAID)
        yield from (("clusters", name, "statistics", key) for key in facts["statistics"])
    yield from (("telemetry", device) for device in document["telemetry"])
    for number, task in enumerate(document["tasks"]):
        yield from (("tasks", number, "telemetry", device) for device in task["telemetry"])


def _whole_characters(value: Any) -> Any:
    """Return a document in whose texts question marks stand for half characters (lone surrogates)."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole_characters(name): _whole_characters(item) for name, item in value.items()}
    return [_whole_characters(item) for item in value] if isinstance(value, list | tuple) else value


def _holder(document: Any, place: Place) -> Any:
    for key in place[:-1]:
        document = document[key]
    return document
