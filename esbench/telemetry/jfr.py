"""Java Flight Recorder on embedded nodes, from their start to their end; its files are kept with the race's logs.

Java writes a recording when it ends, after the last task: this module does not read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import psutil

from esbench.telemetry.device import Device, Param, Unseen
from esbench.telemetry.processes import file_in_command

RECORDING = "esbench.jfr"
_CHUNKS = "jfr"  # the folder in which Java keeps what it has recorded until it ends


class Jfr(Device):
    """A flight recording of each node."""

    name = "jfr"
    help = "a recording of Java Flight Recorder for each node, kept in the race's logs"
    embedded_only = True
    params = (
        Param("recording-template", "text", "default", "default, profile, or the path of a .jfc file"),
        Param("jfr-delay", "duration", None, "how long after the node's start it begins, at least 1 s"),
        Param("jfr-duration", "duration", None, "how long it records, at least 1 s; to the node's end"),
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
        self._files: dict[str, Path] = {}
        for name, pid in self.scene.pids.items():
            try:
                self._files[name] = file_in_command(pid, RECORDING)
            except Unseen as error:
                self.note(f"{name}: {error}")

    def end(self) -> Mapping[str, Any]:
        for name in self._files:
            if not psutil.pid_exists(self.scene.pids[name]):
                self.note(f"{name} has ended by itself: what it had recorded is in logs/{name}/{_CHUNKS}")
        return {"files": {name: f"logs/{name}/{path.name}" for name, path in self._files.items()}}


def _template(name: str) -> str:
    """Return a template's name, or the absolute path of a .jfc file, since nodes run in other folders."""
    return str(Path(name).expanduser().absolute()) if name.endswith(".jfc") else name
