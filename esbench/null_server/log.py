"""The figures of a null server: its counts, and its log with one JSON line for each request."""

from __future__ import annotations

from pathlib import Path

import msgspec


class ReceivedCounts(msgspec.Struct, frozen=True):
    """Counts of what a null server received since its start or the last reset, without control requests.

    `requests`, `by_class` (by method and shape of the path: `GET /*/_doc/*`) and `per_second` (from the first second
    on) leave out those with wrong credentials. `documents` are acknowledged writes. Only `busy_s` is of the whole
    process since its start: the time that it ran, or waited for a CPU.
    """

    requests: int
    documents: int
    connections: int
    malformed: int
    by_class: dict[str, int]
    per_second: list[int]
    busy_s: float


class LogLine(msgspec.Struct, frozen=True):
    """One request. Times are CLOCK_MONOTONIC.

    `answered_ns`: when the last byte was written to the socket (or handed to the loop if the socket is full); None if
    it never was. `delay_ms` is what the script added; the difference of the times is what really passed.
    """

    received_ns: int
    answered_ns: int | None
    method: str
    path: str
    opaque_id: str
    status: int
    delay_ms: float


class RequestLog:
    """A log file of requests, buffered so that writes do not slow down the requests."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("wb", buffering=1 << 18)

    def write(self, line: LogLine) -> None:
        self._file.write(msgspec.json.encode(line) + b"\n")

    def read(self) -> bytes:
        """Return all lines so far, newline-delimited."""
        self._file.flush()
        return self._path.read_bytes()

    def clear(self) -> None:
        self._file.seek(0)
        self._file.truncate()

    def close(self) -> None:
        self._file.close()
