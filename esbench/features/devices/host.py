"""The server processes of embedded nodes, as this host's operating system sees them.

Unlike node-stats it sends no request to a node: it sees a node that is too busy to answer, but no node elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil

from esbench.record.host import process_fields
from esbench.telemetry.device import Device, Param, Reading, Scene, TaskSpan, Unseen
from esbench.telemetry.processes import Processes, disk_figures, process_figures
from esbench.telemetry.series import KB_PER_BYTE, SeriesOf, known, rounded, whole

_GROUP = "process"
_MAJOR_FAULTS = 9  # its place in /proc/PID/stat (proc(5): majflt), from 0, in `process_fields`


class HostUsage(Device):
    """CPU, memory, threads, page faults and disk I/O of the Java process of each node, and the host's page cache."""

    name = "host"
    help = "the nodes' own processes: CPU, memory, threads, disk I/O, page faults; the page cache"
    embedded_only = True
    asks_cluster = False
    params = (Param("host-sample-interval", "duration", 1.0, "time between two samples"),)

    def __init__(self, scene: Scene, params: Mapping[str, Any]) -> None:
        super().__init__(scene, params)
        self._processes = Processes(scene.pids, self.note)

    def sample(self) -> Iterator[Reading]:
        yield from self._processes.readings(self._process)
        if not self._processes.seen:
            raise Unseen("there is no process of a node left to watch")
        cached_bytes = getattr(psutil.virtual_memory(), "cached", None)  # macOS does not tell
        if cached_bytes is not None:
            yield Reading("host", "memory", {"cached_bytes": cached_bytes})

    def of_task(self, span: TaskSpan, series: Mapping[tuple[str, str], SeriesOf]) -> Mapping[str, Any]:
        by_node = known({name: _of_node(seen, span) for (name, group), seen in series.items() if group == _GROUP})
        if not by_node:
            return {}
        cached = series.get(("host", "memory"), SeriesOf()).last("cached_bytes", span.window_end_s)
        return known({"by_node": by_node, "page_cache_bytes": whole(cached)})

    def end(self) -> Mapping[str, Any]:
        for name, process in self._processes.seen.items():
            try:
                process.cpu_times()
            except psutil.Error as error:  # since the last sample
                self.note(f"{name}: {error}")
        return {}

    def _process(self, name: str, process: psutil.Process) -> Reading:
        with process.oneshot():
            gauges, counters = process_figures(process)
            gauges["memory_percent"] = process.memory_percent()
            try:
                counters |= disk_io(process)
            except Unseen as error:
                self.note(f"{name}: {error}")
        if (faults := major_faults(process.pid)) is not None:
            counters["major_faults"] = faults
        return Reading(name, _GROUP, gauges, counters)


def disk_io(process: psutil.Process) -> dict[str, float]:
    """Return read_bytes and written_bytes of a process on disks, and the numbers of its calls, `reads` and `writes`.

    All since its start. Raises Unseen if the system does not report it or access is denied, psutil.Error if the process
    has ended.
    """
    if not hasattr(process, "io_counters"):
        raise Unseen("this system does not report the disk I/O of a process")
    try:
        return disk_figures(process.io_counters())
    except psutil.AccessDenied as error:
        raise Unseen(f"/proc/{process.pid}/io is for root and the node's own user: no disk I/O") from error


def _of_node(seen: SeriesOf, span: TaskSpan) -> dict[str, Any]:
    return {
        "cpu_core_percent": {
            "mean": rounded(seen.rate("cpu_s", *span.window), 100.0),
            "peak": rounded(seen.peak_rate("cpu_s", *span.window), 100.0),
        },
        "system_core_percent": rounded(seen.rate("system_s", *span.window), 100.0),
        "memory_percent": rounded(seen.peak("memory_percent", *span.window)),
        "resident_peak_bytes": whole(seen.peak("resident_bytes", *span.window)),
        "threads": whole(seen.peak("threads", *span.window)),
        "disk_read_kb_per_s": rounded(seen.rate("read_bytes", *span.window), KB_PER_BYTE),
        "disk_written_kb_per_s": rounded(seen.rate("written_bytes", *span.window), KB_PER_BYTE),
        "written_bytes": whole(seen.gained("written_bytes", *span.window)),
        "major_faults": whole(seen.gained("major_faults", *span.window)),
    }


def major_faults(pid: int, proc: Path = Path("/proc")) -> int | None:
    """Return how many times a process has waited for a page from disk since its start (Linux).

    None on other systems, or after the end of the process. `proc`: the folder of the proc file system.
    """
    fields = process_fields(pid, proc)
    return int(fields[_MAJOR_FAULTS]) if fields else None
