"""The devices that have the Java of embedded nodes write about itself: its log of pauses (gc), a recording (jfr).

Their files are kept with the race's logs. Java writes a recording when it ends, after the last task: it is not read.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from esbench.errors.user_paths import user_path
from esbench.record.host import has_ended
from esbench.telemetry.device import Device, Param, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.processes import GrowingFile, file_in_command
from esbench.telemetry.series import SeriesOf, known, rounded, whole

LOG = "gc-esbench.log"
_SAFEPOINTS = "safepoints"
_LEAST_FOR_P99 = 100
RECORDING = "esbench.jfr"
_CHUNKS = "jfr"  # the folder in which Java keeps what it has recorded until it ends

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


class Gc(Device):
    """Every pause with its kind, at the time at which it ended; safepoints summed over each interval."""

    name = "gc"
    help = "pauses of the garbage collector and safepoints of the nodes, from the log of their Java (9 and later)"
    embedded_only = True
    params = (
        Param("gc-log-config", "text", "gc*,safepoint", "what Java logs: tags and levels of -Xlog"),
        Param("gc-sample-interval", "duration", 1.0, "time between readings of the log"),
    )

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._logs: dict[str, _GcLog] = {}
        self._ended: set[str] = set()

    @classmethod
    def java_options(cls, params: Mapping[str, Any]) -> tuple[str, ...]:
        return (f"-Xlog:{params['gc-log-config']}:file={{logs}}/{LOG}:utctime,uptime,level,tags:filecount=0",)

    def begin(self) -> None:
        self._logs = {name: _GcLog(path) for name, path in _files(self, LOG).items()}

    def sample(self) -> Iterator[Reading]:
        if not self._logs:
            raise Unseen("there is no log of a node's Java")
        for name, log in self._logs.items():
            if name in self._ended:
                continue
            pauses = self._read(name, log)
            now = time.time()
            for pause in pauses:
                yield Reading(name, pause.kind, {"pause_ms": pause.ms}, age_s=max(0.0, now - pause.ended_at))
            if log.tells_safepoints:
                yield Reading(name, _SAFEPOINTS, counters=dict(log.safepoints))

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        nodes = {}
        for name, log in self._logs.items():
            groups = {group: seen for (of, group), seen in series.items() if of == name}
            if name in self._ended and not any(seen.times_s[-1] >= span.window_start_s for seen in groups.values()):
                continue
            stops = groups.pop(_SAFEPOINTS, SeriesOf())
            pauses = [ms for seen in groups.values() for ms in seen.values("pause_ms", *span.window)]
            nodes[name] = {
                "pauses": len(pauses) if log.tells_pauses else None,
                "pause_ms": rounded(sum(pauses)) if log.tells_pauses else None,
                "longest_pause_ms": rounded(max(pauses, default=None)),
                "safepoints": whole(stops.gained("safepoints", *span.window)),
                "stopped_ms": rounded(stops.gained("stopped_ms", *span.window)),
            }
        return known({"by_node": nodes})

    def end(self) -> Mapping[str, Any]:
        for name, log in self._logs.items():
            self._read(name, log)
        return {"by_node": {name: {"log": f"logs/{name}/{LOG}", **log.summary()} for name, log in self._logs.items()}}

    def _read(self, name: str, log: _GcLog) -> list[Pause]:
        if has_ended(self.scene.pids[name]):  # what it wrote last is read all the same
            self._ended.add(name)
            self.note(f"{name} has ended by itself, and its log with it")
        return log.read()


class Jfr(Device):
    """A flight recording of each node."""

    name = "jfr"
    help = "a recording of Java Flight Recorder for each node, kept in the race's logs"
    embedded_only = True
    params = (
        Param(
            "recording-template",
            "text",
            "default",
            "default, profile (more events, more overhead), or the path of a .jfc file that the node's user can read",
        ),
        Param("jfr-delay", "duration", None, "how long after the node's start it begins, at least 1 s"),
        Param("jfr-duration", "duration", None, "how long it records, at least 1 s; without it until the node's end"),
    )

    @classmethod
    def java_options(cls, params: Mapping[str, Any]) -> tuple[str, ...]:
        recording = {
            "filename": f"{{logs}}/{RECORDING}",
            "settings": _template(params["recording-template"]),
            "dumponexit": "true",
            "maxsize": "0",  # no limit
            "maxage": "0s",
        }
        for name in ("delay", "duration"):
            if (seconds := params[f"jfr-{name}"]) is not None:
                recording[name] = f"{round(1000 * seconds)}ms"
        options = ",".join(f"{name}={value}" for name, value in recording.items())
        return f"-XX:StartFlightRecording={options}", f"-XX:FlightRecorderOptions=repository={{logs}}/{_CHUNKS}"

    def begin(self) -> None:
        self._files = _files(self, RECORDING)

    def end(self) -> Mapping[str, Any]:
        for name in self._files:
            if has_ended(self.scene.pids[name]):
                self.note(f"{name} has ended by itself: what it had recorded is in logs/{name}/{_CHUNKS}")
        return {"files": {name: f"logs/{name}/{path.name}" for name, path in self._files.items()}}


def _template(name: str) -> str:
    """Return a template's name, or the absolute path of a .jfc file, since nodes run in other folders."""
    return str(user_path(name, "recording-template").absolute()) if name.endswith(".jfc") else name


def _files(device: Device, name: str) -> dict[str, Path]:
    """Return node -> the file `name` that its Java was started to write; a node without one is noted."""
    found: dict[str, Path] = {}
    for node, pid in device.scene.pids.items():
        try:
            found[node] = file_in_command(pid, name)
        except Unseen as error:
            device.note(f"{node}: {error}")
    return found


class _GcLog:
    """The growing log of one Java process, read from the creation of this object on."""

    def __init__(self, path: Path) -> None:
        self._file = GrowingFile(path)
        self._pauses_ms: dict[str, list[float]] = {}
        self._stops_ms: list[float] = []
        self.safepoints = {"safepoints": 0.0, "stopped_ms": 0.0, "reaching_ms": 0.0}
        kinds = {type(event) for event in self._events()}
        self.tells_pauses, self.tells_safepoints = Pause in kinds, Safepoint in kinds

    def read(self) -> list[Pause]:
        """Process the lines written since the last call. Returns the pauses among them."""
        pauses = []
        for event in self._events():
            if isinstance(event, Pause):
                self.tells_pauses = True
                pauses.append(event)
                self._pauses_ms.setdefault(event.kind, []).append(event.ms)
            else:
                self._stops_ms.append(event.ms)
                self.safepoints["safepoints"] += 1
                self.safepoints["stopped_ms"] += event.ms
                self.safepoints["reaching_ms"] += event.reaching_ms
        return pauses

    def summary(self) -> dict[str, Any]:
        """Return a summary of all lines read: each kind of pause, and the safepoints."""
        kinds = {kind: _summary(times_ms) for kind, times_ms in sorted(self._pauses_ms.items())}
        stops: dict[str, Any] = {}
        if self._stops_ms:
            stops = {**_summary(self._stops_ms), "reaching_ms": round(self.safepoints["reaching_ms"], 1)}
        return known({"pauses": kinds, "safepoints": stops})

    def _events(self) -> list[Pause | Safepoint]:
        lines = (line.decode("ascii", errors="replace") for line in self._file.new_lines())
        return [event for line in lines if (event := parse_line(line)) is not None]


def _summary(times_ms: Sequence[float]) -> dict[str, float | None]:
    ordered = sorted(times_ms)
    return {
        "count": len(ordered),
        "total_ms": round(sum(ordered), 1),
        "p50_ms": round(_quantile(ordered, 0.5), 2),
        "p99_ms": round(_quantile(ordered, 0.99), 2) if len(ordered) >= _LEAST_FOR_P99 else None,
        "max_ms": round(ordered[-1], 2),
    }


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]


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

    `reaching_ms` is the part in which Java waited for the threads to stop.
    """

    ms: float
    reaching_ms: float


def parse_line(line: str) -> Pause | Safepoint | None:
    """Return the pause or safepoint of a line of Java's unified log, with its wall clock time first (`utctime`).

    None if the line has neither, has no such time or is cut off.
    """
    stamp = _STAMP.match(line)
    if stamp is None:
        return None
    line = line.rstrip()
    if found := _PAUSE.search(line):
        kind = _OLD.get(found["generation"] or "", "") + found["kind"]
        return Pause(_seconds(stamp[1]), kind, float(found["ms"]))
    if found := _SAFEPOINT.search(line):
        return Safepoint(int(found["total"]) / 1e6, int(found["reaching"]) / 1e6)
    if found := _STOPPED.search(line):
        return Safepoint(float(found["total"]) * 1e3, float(found["reaching"]) * 1e3)
    return None


def _seconds(stamp: str) -> float:
    return datetime.strptime(stamp, "%Y-%m-%dT%H:%M:%S.%f%z").timestamp()
