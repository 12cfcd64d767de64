"""Garbage collection pauses and other safepoints of embedded nodes, from the log that their Java writes."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from esbench.telemetry.device import Device, Param, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.gc_log import Pause, Safepoint, parse_line
from esbench.telemetry.processes import file_in_command
from esbench.telemetry.series import SeriesOf
from esbench.telemetry.task_figures import known, rounded, whole

LOG = "gc-esbench.log"
_SAFEPOINTS = "safepoints"
_LEAST_FOR_P99 = 100


class Gc(Device):
    """Every pause with its kind, at the time at which it ended; safepoints summed over each interval."""

    name = "gc"
    help = "pauses of the garbage collector and safepoints of the nodes, from the log of their Java (9 and later)"
    embedded_only = True
    params = (
        Param("gc-log-config", "text", "gc*,safepoint", "what Java logs: the selection of -Xlog"),
        Param("gc-sample-interval", "duration", 1.0, "time between looks at the log"),
    )

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._logs: dict[str, _GcLog] = {}
        self._ended: set[str] = set()

    @classmethod
    def java_options(cls, params: Mapping[str, Any]) -> tuple[str, ...]:
        return (f"-Xlog:{params['gc-log-config']}:file={{logs}}/{LOG}:utctime,uptime,level,tags:filecount=0",)

    @property
    def interval_s(self) -> float:
        return float(self.given["gc-sample-interval"])

    def begin(self) -> None:
        for name, pid in self.scene.pids.items():
            try:
                self._logs[name] = _GcLog(file_in_command(pid, LOG))
            except Unseen as error:
                self.note(f"{name}: {error}")

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
        between = (span.window_start_s, span.window_end_s)
        nodes = {}
        for name in self._logs:
            groups = {group: seen for (of, group), seen in series.items() if of == name}
            if name in self._ended and not any(seen.times_s[-1] >= span.window_start_s for seen in groups.values()):
                continue
            stops = groups.pop(_SAFEPOINTS, SeriesOf())
            pauses = [ms for seen in groups.values() for ms in seen.values("pause_ms", *between)]
            nodes[name] = known(
                {
                    "pauses": len(pauses),
                    "pause_ms": rounded(sum(pauses)),
                    "longest_pause_ms": rounded(max(pauses, default=None)),
                    "safepoints": whole(stops.gained("safepoints", *between)),
                    "stopped_ms": rounded(stops.gained("stopped_ms", *between)),
                }
            )
        return known({"by_node": nodes})

    def end(self) -> Mapping[str, Any]:
        for name, log in self._logs.items():
            self._read(name, log)
        return {"by_node": {name: {"log": f"logs/{name}/{LOG}", **log.summary()} for name, log in self._logs.items()}}

    def _read(self, name: str, log: _GcLog) -> list[Pause]:
        if not psutil.pid_exists(self.scene.pids[name]):  # what it wrote last is read all the same
            self._ended.add(name)
            self.note(f"{name} has ended by itself, and its log with it")
        return log.read()


class _GcLog:
    """The growing log of one Java process, read from the creation of this object on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pauses_ms: dict[str, list[float]] = {}
        self._stops_ms: list[float] = []
        self.safepoints = {"safepoints": 0.0, "stopped_ms": 0.0, "reaching_ms": 0.0}
        self._position = 0
        self._rest = b""
        self.tells_safepoints = any(isinstance(event, Safepoint) for event in self._events())

    def read(self) -> list[Pause]:
        """Process the lines written since the last call. Returns the pauses among them."""
        pauses = []
        for event in self._events():
            if isinstance(event, Pause):
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
        stops = _summary(self._stops_ms) if self._stops_ms else {}
        if stops:
            stops["reaching_ms"] = round(self.safepoints["reaching_ms"], 1)
        return known({"pauses": kinds, "safepoints": stops})

    def _events(self) -> Iterator[Pause | Safepoint]:
        with self._path.open("rb") as file:
            file.seek(self._position)
            content = self._rest + file.read()
            self._position = file.tell()
        *lines, self._rest = content.split(b"\n")
        for line in lines:
            if (event := parse_line(line.decode("ascii", errors="replace"))) is not None:
                yield event


def _summary(times_ms: Sequence[float]) -> dict[str, float]:
    ordered = sorted(times_ms)
    return known(
        {
            "count": len(ordered),
            "total_ms": round(sum(ordered), 1),
            "p50_ms": round(_quantile(ordered, 0.5), 2),
            "p99_ms": round(_quantile(ordered, 0.99), 2) if len(ordered) >= _LEAST_FOR_P99 else None,
            "max_ms": round(ordered[-1], 2),
        }
    )


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Return the smallest value that at least this share of the sorted values does not exceed."""
    return ordered[math.ceil(share * len(ordered)) - 1]
