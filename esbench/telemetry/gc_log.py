"""Parsing of Java's log of its pauses (`-Xlog:gc*,safepoint`, Java 9 and later). Pure: no clock, no I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

# [2026-01-31T19:13:24.970+0000][1.5s][info][gc] GC(7) Pause Young (Normal) (G1 Evacuation Pause) 24M->4M(256M) 3.1ms
# Generations of ZGC are Y (young), y (young, minor) and O (old).
_PAUSE = re.compile(
    r"GC\(\d+\) (?P<generation>[YyO]: )?Pause "
    r"(?P<kind>[A-Z][\w ]*?(?: \((?:Normal|Mixed|Prepare Mixed|Concurrent Start)\))?)"
    r"(?: \(.*\))?(?: \d\S*->\S+)? (?P<ms>\d+\.\d+)ms$"
)
# Java 13 and later: Safepoint "ICBufferFull", Time since last: 9 ns, Reaching safepoint: 8 ns, ..., Total: 20 ns
_SAFEPOINT = re.compile(r'Safepoint "\w+".*Reaching safepoint: (?P<reaching>\d+) ns.*Total: (?P<total>\d+) ns')
# Before: Total time for which application threads were stopped: 0.0012 seconds, Stopping threads took: 0.0001 seconds
_STOPPED = re.compile(
    r"application threads were stopped: (?P<total>\d+\.\d+) seconds, Stopping threads took: (?P<reaching>\d+\.\d+) s"
)
_STAMP = re.compile(r"\[(\d{4}-\d\d-\d\dT[\d:.]+[+-]\d{4})\]")
_OLD = {"O: ": "Old "}


@dataclass(frozen=True)
class Pause:
    """A period in which the garbage collector stopped the program.

    `ended_at` is wall clock time, in seconds since the epoch; `kind` is Java's name ("Young (Mixed)", "Full", "Remark")
    without the cause.
    """

    ended_at: float
    kind: str
    ms: float


@dataclass(frozen=True)
class Safepoint:
    """A period in which all threads were stopped, for a collection or any other reason.

    `reaching_ms` is the part in which Java waited for the threads to stop; `ended_at` is as in `Pause`.
    """

    ended_at: float
    ms: float
    reaching_ms: float


def parse_line(line: str) -> Pause | Safepoint | None:
    """Return the pause or safepoint of a line of the log; None if the line has neither or is cut off."""
    stamp = _STAMP.match(line)
    if stamp is None:
        return None
    line = line.rstrip()
    if found := _PAUSE.search(line):
        kind = _OLD.get(found["generation"] or "", "") + found["kind"]
        return Pause(_seconds(stamp[1]), kind, float(found["ms"]))
    if found := _SAFEPOINT.search(line):
        return Safepoint(_seconds(stamp[1]), int(found["total"]) / 1e6, int(found["reaching"]) / 1e6)
    if found := _STOPPED.search(line):
        return Safepoint(_seconds(stamp[1]), float(found["total"]) * 1e3, float(found["reaching"]) * 1e3)
    return None


def _seconds(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
