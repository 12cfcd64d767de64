"""Processes of this host as the operating system reports them, for the devices that observe processes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from esbench.telemetry.device import Reading, Unseen


class Processes:
    """Processes of this host by name, as long as they are visible.

    `note` is called with a sentence about each process that is not visible (any more).
    """

    def __init__(self, pids: Mapping[str, int], note: Callable[[str], None]) -> None:
        self._note = note
        self.seen: dict[str, psutil.Process] = {}
        for name, pid in pids.items():
            try:
                self.seen[name] = psutil.Process(pid)
            except psutil.Error as error:
                note(f"{name}: {error}")

    def readings(self, read: Callable[[str, psutil.Process], Reading]) -> Iterator[Reading]:
        """Yield `read` of each process; a process that has ended is noted and not read again."""
        for name, process in list(self.seen.items()):
            try:
                yield read(name, process)
            except psutil.Error as error:  # it has ended
                del self.seen[name]
                self._note(f"{name}: {error}")


def process_figures(process: psutil.Process) -> tuple[dict[str, float], dict[str, float]]:
    """Return gauges and counters of a process: resident bytes, threads; CPU seconds and context switches so far.

    Raises psutil.Error if it has ended or access is denied. Within `process.oneshot()` this reads each file of
    /proc once.
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


def file_in_command(pid: int, name: str) -> Path:
    """Return the path of the file `name` that a Java process was started to write, from its command line.

    Raises Unseen if no option names such a file.
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
