"""CPU time of processes. It imports next to nothing: workers and null servers ask it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Usage:
    """CPU time of a process since it began: in which it ran, and in which it was runnable and did not."""

    cpu_ns: int = 0
    run_delay_ns: int = 0


def run_delay_ns() -> int:
    """How long this process was runnable but not running so far (Linux: /proc/self/schedstat); 0 elsewhere."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
