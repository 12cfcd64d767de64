"""Processes of this host as the operating system reports them, and the files that they write."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import psutil

from esbench.telemetry.device import Unseen

T = TypeVar("T")


class Processes:
    """Processes of this host by name, as long as they are visible; `seen` has those that still are.

    `pids`: name -> process id. `note` is called with a sentence about each process that is not visible (any more).
    """

    def __init__(self, pids: Mapping[str, int], note: Callable[[str], None]) -> None:
        self._note = note
        self.seen: dict[str, psutil.Process] = {}
        for name, pid in pids.items():
            try:
                self.seen[name] = psutil.Process(pid)
            except psutil.Error as error:
                note(f"{name}: {error}")

    def readings(self, read: Callable[[str, psutil.Process], T]) -> Iterator[T]:
        """Yield `read` of each process; one that has ended or denies access is noted and not read again."""
        for name, process in list(self.seen.items()):
            try:
                yield read(name, process)
            except psutil.Error as error:  # it has ended
                del self.seen[name]
                self._note(f"{name}: {error}")

    def cpu_s(self) -> float:
        """Return the CPU seconds that all of them have used so far."""

        def used_s(name: str, process: psutil.Process) -> float:
            times = process.cpu_times()
            return float(times.user + times.system)

        return sum(self.readings(used_s))


def process_figures(process: psutil.Process) -> tuple[dict[str, float], dict[str, float]]:
    """Return gauges and counters of a process.

    Gauges: resident_bytes, threads. Counters since its start: user_s, system_s, cpu_s (their sum, seconds of CPU),
    voluntary_switches, involuntary_switches. Raises psutil.Error if it has ended or access is denied. Within
    `process.oneshot()` this reads each file of /proc once.
    """
    times, switches = process.cpu_times(), process.num_ctx_switches()
    gauges: dict[str, float] = {"resident_bytes": process.memory_info().rss, "threads": process.num_threads()}
    counters: dict[str, float] = {
        "user_s": times.user,
        "system_s": times.system,
        "voluntary_switches": switches.voluntary,
        "involuntary_switches": switches.involuntary,
    }
    return gauges, {**counters, "cpu_s": times.user + times.system}


def disk_figures(io: Any) -> dict[str, float]:
    """Return psutil's counters of a disk, or of a process's use of disks: read_bytes, written_bytes, reads, writes."""
    return {
        "read_bytes": io.read_bytes,
        "written_bytes": io.write_bytes,
        "reads": io.read_count,
        "writes": io.write_count,
    }


def file_in_command(pid: int, name: str) -> Path:
    """Return the absolute path of the file `name` that a Java process was started to write, from its command line.

    The path is that of an option with `file=` or `filename=`. Raises Unseen if no option names such a file, or if the
    process has ended or denies access.
    """
    try:
        arguments = psutil.Process(pid).cmdline()
    except psutil.Error as error:
        raise Unseen(str(error)) from error
    option = re.compile(rf"\bfile(?:name)?=(/.*/{re.escape(name)})(?:[:,]|$)")
    for argument in arguments:
        if found := option.search(argument):
            return Path(found[1])
    raise Unseen(f"the process was not started with {name} (pid={pid})")


class GrowingFile:
    """A file to which a process appends lines."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_bytes = 0

    def new_lines(self) -> Iterator[bytes]:
        """Yield the complete lines written since the last one that was read, with their line ends.

        A file that has become shorter is read from its beginning again. Raises OSError if it cannot be read.
        """
        if self._path.stat().st_size < self._read_bytes:
            self._read_bytes = 0  # it was rolled over
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._read_bytes += len(line)
                yield line
