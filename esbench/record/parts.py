"""The parts of a record that features keep: keys of race.json of which the record itself knows nothing.

PARTS says where each is declared. A key that is neither the record's own nor declared, since its feature is absent, is
kept as it was read, and saved again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import msgspec

from esbench.record.model import RaceRecord
from esbench.tables import is_absent

if TYPE_CHECKING:
    from esbench.record.figures import Notice

T = TypeVar("T")
RecordT = TypeVar("RecordT", bound=RaceRecord)
E = TypeVar("E")

PARTS: Mapping[str, str] = {
    "capacity": "esbench.features.capacity.parts:SEARCH",
    "capacity_of": "esbench.features.capacity.parts:KNOWN",
    "replayed": "esbench.features.replay.rounds_part:SENT",
}
_OWN = {each.name for each in fields(RaceRecord)} | {"elsewhere", "sums"}  # keys of race.json that are no parts
_NULL = b"null"


class HasParts(Protocol):
    """A record, or a list's entry of one: parts by their keys."""

    @property
    def parts(self) -> Mapping[str, Any]: ...


def _passes(_: Any) -> None:
    """Take any value."""


@dataclass(frozen=True)
class Part(Generic[T, E]):
    """A part that a feature keeps in race.json under `key`: a value of `kind`, a frozen dataclass; null without one.

    `check` raises ValueError for a value that cannot be shown or compared. Lists of races read as much of it as `entry`
    has, a frozen dataclass, too, which `check_entry` checks; None: nothing. `only_tried` is True of a task, by name, at
    a rate that was only tried: a cluster that misses it is not at fault. `report` is the place ("module:attribute") of
    what reports show of it (report.parts.PartReport), `judged` of how its results are compared
    (comparison.parts.JudgedPart); empty if they are not. `notices` are what the readers of a race need beside its
    figures.
    """

    key: str
    kind: type[T]
    check: Callable[[T], None] = _passes
    entry: type[E] | None = None
    check_entry: Callable[[E], None] = _passes
    only_tried: Callable[[T, str], bool] = lambda _, __: False
    report: str = ""
    judged: str = ""
    notices: Callable[[T], Iterable[Notice]] = lambda _: ()

    def kept_in(self, record: HasParts) -> T | None:
        """Return what a record has of the part; None without it."""
        value: T | None = record.parts.get(self.key)
        return value

    def listed_in(self, entry: HasParts) -> E | None:
        """Return what the entry of a race in a list has of the part; None without it."""
        value: E | None = entry.parts.get(self.key)
        return value


def attribute_at(place: str) -> Any | None:
    """Return what stands at "module:attribute"; None if there is no such module, as that of an absent feature."""
    name, _, attribute = place.partition(":")
    try:
        module = import_module(name)
    except ModuleNotFoundError as error:
        if f"{name}.".startswith(f"{error.name}."):
            return None
        raise
    return getattr(module, attribute)


def declared_parts(keys: Iterable[str] = PARTS) -> dict[str, Part[Any, Any]]:
    """Return the parts of the features that are there, by key; of other keys than these, nothing is imported."""
    wanted = {*keys}
    found = {key: attribute_at(place) for key, place in PARTS.items() if key in wanted}
    return {key: part for key, part in found.items() if part is not None}


def decoded_parts(payload: bytes) -> dict[str, Any]:
    """Return the parts of an encoded record by key; those that are not declared as plain values, with their nulls.

    Raises ValueError for a value that does not have the form of its part.
    """
    raws, empty, found = _raw(payload), _empty(), {}
    declared = declared_parts(key for key, raw in raws.items() if raw != _NULL)
    for key, raw in raws.items():
        if key in declared:
            found[key] = msgspec.json.decode(raw, type=declared[key].kind, strict=False)
        elif raw != _NULL or key not in empty:
            found[key] = msgspec.json.decode(raw)
    return found


def decoded_entries(payload: bytes) -> dict[str, Any]:
    """Return what lists show of the parts of an encoded record, by key. Raises ValueError as `decoded_parts`."""
    raws, found = _raw(payload), {}
    for key, part in declared_parts(key for key, raw in raws.items() if raw != _NULL).items():
        if part.entry is not None:
            found[key] = msgspec.json.decode(raws[key], type=part.entry, strict=False)
            part.check_entry(found[key])
    return found


def _empty() -> dict[str, None]:
    """Return the keys of the parts of the features that are there, each without a value."""
    return {key: None for key, place in PARTS.items() if not is_absent(place)}


def _raw(payload: bytes) -> dict[str, bytes]:
    raws = msgspec.json.decode(payload, type=dict[str, msgspec.Raw])
    return {key: bytes(raw) for key, raw in raws.items() if key not in _OWN}


def typed(record: RecordT) -> RecordT:
    """Return a record with values of their kinds for parts that are plain ones, as of `msgspec.to_builtins`.

    Raises ValueError for one that does not have the form of its part.
    """
    declared = declared_parts(record.parts)
    parts = {
        key: msgspec.convert(value, declared[key].kind) if key in declared else value
        for key, value in record.parts.items()
    }
    return replace(record, parts=parts)


def with_parts_as_keys(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a record's document as race.json has it: with a key for each part, null for one that is declared and not
    there."""
    written: dict[str, Any] = {}
    for key, value in document.items():
        written |= {**_empty(), **value} if key == "parts" else {key: value}
    return written


def check_parts(record: RaceRecord) -> None:
    """Raise ValueError for a part that cannot be shown or compared."""
    for part in declared_parts(record.parts).values():
        if (value := part.kept_in(record)) is not None:
            part.check(value)


def is_only_tried(record: RaceRecord, task: str) -> bool:
    """True if the rate of a task, by name, was only tried by what a part of the record is about."""
    declared = declared_parts(record.parts)
    return any(declared[key].only_tried(value, task) for key, value in record.parts.items() if key in declared)
