"""How long this process was kept waiting for a CPU. It imports next to nothing: workers and null servers ask it."""

from __future__ import annotations

from pathlib import Path


def run_delay_ns() -> int:
    """How long this process was runnable but not running so far (Linux: /proc/self/schedstat); 0 elsewhere."""
    try:
        return int(Path("/proc/self/schedstat").read_text().split()[1])
    except (OSError, IndexError, ValueError):
        return 0
