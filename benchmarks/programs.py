"""Load programs of a benchmark and what they cost: wrk, the bare client and esbench, measured from outside alike."""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple, Protocol

import psutil

ESBENCH = [sys.executable, "-m", "esbench.cli.main"]
_TICK_S = 0.2
_MARK = "ESBENCH_BENCHMARK_RUN"  # in the environment of a program and so of all its children


class CountsRequests(Protocol):
    """A server that says how many requests it has answered."""

    def requests(self) -> int: ...


class Sample(NamedTuple):
    """What was seen at a moment: requests since the server's start, CPU seconds of the program's processes."""

    at_s: float
    requests: int
    cpu_s: float


@dataclass(frozen=True)
class Cost:
    """Requests per second that the server counted, and CPU of the program and all its processes per request."""

    requests_per_s: float
    cpu_us: float


def need(*tools: str) -> None:
    """End with a sentence when a program is missing."""
    for tool in tools:
        if shutil.which(tool) is None:
            sys.exit(f"{tool} is missing (Debian: wrk, nginx-light, openssl, util-linux)")


def race_command(track: Path, host: str, *options: str) -> list[str]:
    """The command of a race on a running cluster that prints nothing but its table."""
    return [*ESBENCH, "race", f"--track-path={track}", f"--target-hosts={host}", "--quiet", *options]


def wrk_command(url: str, clients: int, seconds: int, *options: str) -> list[str]:
    """The command of wrk on one thread."""
    return ["wrk", "-t1", f"-c{clients}", f"-d{seconds}", *options, url]


def bare_client_command(port: int, clients: int, seconds: int, *body: Path) -> list[str]:
    """The command of the bare client, which sends GETs, or bulks of one body."""
    return [sys.executable, str(Path(__file__).with_name("bare_client.py")), *map(str, (port, clients, seconds, *body))]


def measure(command: Sequence[str], server: CountsRequests, env: Mapping[str, str] | None = None) -> Cost:
    """Run a command on CPU 0; its figures while the server was busy, without start and end."""
    return measure_and_read(command, server, env)[0]


def measure_and_read(
    command: Sequence[str], server: CountsRequests, env: Mapping[str, str] | None = None
) -> tuple[Cost, str]:
    """As `measure`, with what the command printed."""
    samples, output = watch(command, server.requests, cpus="0", env=env)
    rates = [(b.requests - a.requests) / (b.at_s - a.at_s) for a, b in pairwise(samples)]
    most = statistics.quantiles(rates, n=10)[-1] if len(rates) > 1 else 0.0  # a sample that was held up says anything
    busy = [number for number, rate in enumerate(rates) if rate > 0.5 * most]
    if most < 20 or len(busy) < 4:
        sys.exit(f"{command} was busy for too short a time; it said:\n{output}")
    first, last = samples[busy[1]], samples[busy[-1]]
    requests = last.requests - first.requests
    return Cost(requests / (last.at_s - first.at_s), (last.cpu_s - first.cpu_s) / requests * 1e6), output


def watch(
    command: Sequence[str],
    count: Callable[[], int],
    *,
    cpus: str | None = None,
    env: Mapping[str, str] | None = None,
) -> tuple[list[Sample], str]:
    """Run a command, on those CPUs; what was seen of it five times a second, and what it printed.

    A command that fails ends the benchmark, with its words.
    """
    pinned = [] if cpus is None else ["taskset", "-c", cpus]
    mark = uuid.uuid4().hex
    process = subprocess.Popen(
        [*pinned, *command],
        env={**os.environ, **(env or {}), _MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    samples = []
    cpu_s: dict[int, float] = {}
    strangers: set[int] = set()
    while process.poll() is None:
        _see(mark, cpu_s, strangers)
        samples.append(Sample(time.monotonic(), count(), sum(cpu_s.values())))
        time.sleep(_TICK_S)
    assert process.stdout is not None
    output = process.stdout.read().decode()
    process.stdout.close()
    if process.returncode:
        sys.exit(f"{command[0]} failed:\n{output}")
    return samples, output


def _see(mark: str, cpu_s: dict[int, float], strangers: set[int]) -> None:
    """Note the CPU time of the processes that carry the mark: those that left their parent, too."""
    for pid in psutil.pids():
        if pid in strangers:
            continue
        try:
            process = psutil.Process(pid)
            if pid not in cpu_s and (environment := process.environ()).get(_MARK) != mark:
                if environment:  # it has none while it becomes another program
                    strangers.add(pid)
                continue
            times = process.cpu_times()
        except psutil.Error:
            continue  # it has just ended; what it had used is known from the sample before
        cpu_s[pid] = times.user + times.system


def median(costs: Sequence[Cost]) -> Cost:
    return Cost(
        statistics.median(cost.requests_per_s for cost in costs), statistics.median(cost.cpu_us for cost in costs)
    )
