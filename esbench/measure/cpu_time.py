"""CPU time of processes. Imports only the standard library: load workers and null servers use it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """CPU time of a process since its start (ns): running, and runnable but not running."""

    cpu_ns: int = 0
    run_delay_ns: int = 0


def run_delay_ns() -> int:
    """Return the time this process was runnable but not running so far (Linux: /proc/self/schedstat); 0 elsewhere."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
