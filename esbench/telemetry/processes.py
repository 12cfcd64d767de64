"""What the operating system tells about one process, for the devices that watch processes of this host."""

from __future__ import annotations

from typing import Any

import psutil

KB_PER_BYTE = 1 / 1024  # as vmstat counts


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


def rounded(value: float | None, factor: float = 1.0) -> float | None:
    """A figure times `factor`, to one decimal; None stays None."""
    return None if value is None else round(value * factor, 1)


def whole(value: float | None) -> int | None:
    """A figure to the nearest whole number; None stays None."""
    return None if value is None else round(value)


def known(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures that are not None, nor empty."""
    return {name: value for name, value in figures.items() if value is not None and value != {}}
