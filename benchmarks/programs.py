"""Load programs of a benchmark and what they cost: wrk, the bare client and esbench, measured from outside alike."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
from null_nginx import NullNginx

ESBENCH = [sys.executable, "-m", "esbench.cli.main"]
BARE_CLIENT = [sys.executable, str(Path(__file__).with_name("bare_client.py"))]
_TICK_S = 0.2


@dataclass(frozen=True)
class Cost:
    """Requests per second that the server counted, and CPU of the program and its children per request."""

    requests_per_s: float
    cpu_us: float


def need(*tools: str) -> None:
    """End with a sentence when a program is missing."""
    for tool in tools:
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing (Debian: wrk, nginx-light, openssl, util-linux)")


def measure(command: Sequence[str], server: NullNginx, env: Mapping[str, str] | None = None) -> Cost:
    """Run a command on CPU 0; its figures while the server was busy, without start and end."""
    process = subprocess.Popen(
        ["taskset", "-c", "0", *command],
        env={**os.environ, **(env or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    samples = []  # (seconds, requests, CPU seconds)
    cpu_s: dict[int, float] = {}
    while process.poll() is None:
        _see(process.pid, cpu_s)
        samples.append((time.monotonic(), server.requests(), sum(cpu_s.values())))
        time.sleep(_TICK_S)
    output = process.communicate()[0].decode()
    if process.returncode:
        sys.exit(f"{command[0]} failed:\n{output}")
    rates = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(samples)]
    busy = [number for number, rate in enumerate(rates) if rate > 0.5 * max(rates)]
    if max(rates, default=0) < 100 or len(busy) < 4:
        sys.exit(f"{command} was busy for too short a time; it said:\n{output}")
    (from_s, first, cpu_first), (until_s, last, cpu_last) = samples[busy[1]], samples[busy[-1]]
    return Cost((last - first) / (until_s - from_s), (cpu_last - cpu_first) / (last - first) * 1e6)


def _see(pid: int, cpu_s: dict[int, float]) -> None:
    """Note the CPU time of a process and of its descendants."""
    try:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            times = process.cpu_times()
            cpu_s[process.pid] = times.user + times.system
    except psutil.Error:
        pass  # it has just ended; what it had used is known from the sample before


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.requests_per_s for cost in costs), statistics.median(cost.cpu_us for cost in costs)
    )
