"""Secrets of a race that turn up in what is kept or shown of it, even in the name of a task or an index."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from typing import TypeVar

import msgspec

from esbench.model import DEFAULT_CLUSTER
from esbench.record import model
from esbench.record.parts import declared_parts, typed
from esbench.record.secrets import Redactor

Shown = TypeVar("Shown", model.RaceRecord, model.TaskResult, model.HostEvent)

_LEAST, _LEAST_OF_NUMBERS = 4, 8  # characters: shorter ones are in many other places, too
# Names of what esbench itself writes: words of its own, histograms, times of day.
_OWN = frozenset(
    (
        *("race_id", "status", "schema", "started_at", "finished_at", "pipeline", "distribution", "version", "esbench"),
        *("loop", "unit", "target_unit", "stage", "why", "level", "histogram", "histograms", "environment", "kind"),
        *("phase", "latency", "service_time", "driver_lag", "latency_beyond", "service_time_beyond", "completed_at"),
        *("window", "throughput", "worker_health", "host_class", "drivers", "device", "session", "digest"),
    )
)


def _names() -> frozenset[str]:
    """Return the names of the fields of records, those of the parts of features included."""
    parts = declared_parts()
    modules = [model, *(sys.modules[part.kind.__module__] for part in parts.values())]
    kinds = [kind for module in modules for kind in vars(module).values() if isinstance(kind, type)]
    found = {each.name for kind in kinds if is_dataclass(kind) for each in fields(kind)}
    return _OWN | found | parts.keys() | {DEFAULT_CLUSTER}


class HiddenSecrets:
    """A filter that hides the secrets of a race in its record, its series and the events for listeners.

    Short ones and small numbers are hidden only where they were given, as they are in many other places.
    """

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        found = [each for each in secrets if len(each) >= (_LEAST_OF_NUMBERS if each.isdigit() else _LEAST)]
        self._redactor = Redactor(found) if found else None
        self._names = _names() if found else frozenset()

    def text(self, text: str) -> str:
        """Return a text without the secrets."""
        return text if self._redactor is None else self._redactor.known_hidden(text)

    def part(self, part: Shown) -> Shown:
        """Return a record, or a part of one, without the secrets; words of esbench's own stay."""
        if self._redactor is None:
            return part
        hidden = self._redactor.throughout(msgspec.to_builtins(part), _OWN, self._names)
        kept = msgspec.convert(hidden, type(part))
        return typed(kept) if isinstance(kept, model.RaceRecord) else kept

    def lines(self, lines: bytes) -> bytes:
        """Return lines of JSON without the secrets."""
        if self._redactor is None or not self._redactor.knows_one_of(lines.decode()):
            return lines
        read = map(msgspec.json.decode, lines.splitlines())
        hidden = (self._redactor.throughout(line, _OWN, self._names) for line in read)
        return b"".join(msgspec.json.encode(line) + b"\n" for line in hidden)
