"""What the operating system tells about one process, for the devices that watch processes of this host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import psutil

from esbench.telemetry.device import Reading, Unseen


class Processes:
    """Processes of this host by name, as long as they can be seen; `note` is told of those that cannot (any more)."""

    def __init__(self, pids: Mapping[str, int], note: Callable[[str], None]) -> None:
        self._note = note
        self.seen: dict[str, psutil.Process] = {}
        for name, pid in pids.items():
            try:
                self.seen[name] = psutil.Process(pid)
            except psutil.Error as error:
                note(f"{name}: {error}")

    def readings(self, read: Callable[[str, psutil.Process], Reading]) -> Iterator[Reading]:
        """What is read of each; one that has ended is not read again."""
        for name, process in list(self.seen.items()):
            try:
                yield read(name, process)
            except psutil.Error as error:  # it has ended
                del self.seen[name]
                self._note(f"{name}: {error}")


def process_figures(process: psutil.Process) -> tuple[dict[str, float], dict[str, float]]:
    """Gauges and counters of a process: resident bytes, threads; seconds of CPU and context switches since it began.

    Raises psutil.Error when it has ended or must not be seen. Within `process.oneshot()` this reads each file of
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
    """The path of a file of that name that an option of Java tells it to write; Unseen where there is none."""
    try:
        arguments = psutil.Process(pid).cmdline()
    except psutil.Error as error:
        raise Unseen(str(error)) from error
    option = re.compile(rf"\bfile(?:name)?=(/.*/{re.escape(name)})(?:[:,]|$)")
    for argument in arguments:
        if found := option.search(argument):
            return Path(found[1])
    raise Unseen(f"the process was not started with {name} (pid={pid})")
