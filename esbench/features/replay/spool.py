"""Requests on disk, in order of arrival, however many they are: sorted in parts, which are merged as they are read."""

from __future__ import annotations

import heapq
import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from esbench.features.replay.entries import Entry

_MOST_LINES, _MOST_BYTES, _MOST_PARTS = 100_000, 32 << 20, 200
_TIME, _KEY = slice(0, 20), slice(21, 37)


@dataclass(frozen=True, slots=True)
class Spooled:
    """A request: its arrival in us since 1970, the key of its shape, what the log has of its reply, and its JSON."""

    arrival_us: int
    key: bytes
    took_ms: float | None
    hits: int | None
    text: bytes


def arrival_us(line: bytes) -> int:
    """Return the arrival of a spooled line."""
    return int(line[_TIME])


def shape_key(line: bytes) -> bytes:
    """Return the key of the shape of a spooled line."""
    return line[_KEY]


def spooled(line: bytes) -> Spooled:
    """Return the request of a spooled line."""
    took, hits, text = line[38:-1].split(b" ", 2)
    return Spooled(
        int(line[_TIME]),
        line[_KEY],
        None if took == b"-" else float(took),
        None if hits == b"-" else int(hits),
        text,
    )


class Spool:
    """Requests that are added in any order; iterating gives their lines in order of arrival, as often as wanted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lines: list[bytes] = []
        self._bytes = 0
        self._parts: list[Path] = []
        self._written = 0

    def add(self, arrival_s: float, key: str, entry: Entry) -> None:
        """Add a request. Times before 1970 are those of 1970."""
        took = "-" if entry.took_ms is None else f"{entry.took_ms:g}"
        hits = "-" if entry.hits is None else entry.hits
        fields = {"method": entry.method, "path": entry.path, "body": body_text(entry.body)}
        text = json.dumps({name: value for name, value in fields.items() if value is not None}, separators=(",", ":"))
        line = f"{max(0, round(arrival_s * 1e6)):020d} {key:.16} {took} {hits} {text}\n".encode()
        self._lines.append(line)
        self._bytes += len(line)
        if len(self._lines) >= _MOST_LINES or self._bytes >= _MOST_BYTES:
            self._write(sorted(self._lines))
            self._lines, self._bytes = [], 0

    def __iter__(self) -> Iterator[bytes]:
        with ExitStack() as stack:
            files = [stack.enter_context(part.open("rb")) for part in self._parts]
            yield from heapq.merge(*files, sorted(self._lines))

    def _write(self, lines: list[bytes]) -> None:
        self._parts.append(self._new_part())
        with self._parts[-1].open("wb") as file:
            file.writelines(lines)
        if len(self._parts) >= _MOST_PARTS:  # a merge opens them all
            merged, parts = self._new_part(), self._parts
            with merged.open("wb") as file, ExitStack() as stack:
                file.writelines(heapq.merge(*(stack.enter_context(part.open("rb")) for part in parts)))
            for part in parts:
                part.unlink()
            self._parts = [merged]

    def _new_part(self) -> Path:
        self._written += 1
        return self._folder / f"spool-{self._written}"


def body_text(body: object) -> str | None:
    """Return a body as it is sent: JSON, or lines of JSON where it is a list; None for none."""
    if body is None:
        return None
    if isinstance(body, list):
        return "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in body)
    return json.dumps(body, separators=(",", ":"))
