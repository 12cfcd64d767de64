"""What watching costs: throughput of a real node without telemetry, with what is always on, and with node-stats.

    python benchmarks/telemetry_overhead.py [--rounds 8] [--seconds 10] [--clients 16] [--distribution ...]

GET by id, closed loop; node and driver share all CPUs, so that whatever watching takes is taken from the race. A round
races each of the three twice, in an order that runs back (a b c c b a): what drifts evenly cancels out. Prints ratios
of throughput and of the server's CPU per request (which other programs on the machine move far less), the median of
the rounds and the interval that holds it with 95 % confidence (order statistics: any distribution). First it takes
samples in a row: CPU of the server and of the caller for each, and what that is of the machine at one per interval.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
from node import RealNode, home_in, real_node
from peer_tracks import order_ids, write_get_tracks
from programs import race_command
from real_node import DOCUMENTS, load
from tabulate import tabulate

from esbench.cluster.client import Cluster
from esbench.features.devices.node_stats import Nodes, NodeStats
from esbench.record.store import RaceStore
from esbench.telemetry.device import Scene

NONE, ALWAYS, NODE_STATS = "no telemetry", "always on", "always on, node-stats"
OPTIONS = {NONE: ["--telemetry=none"], ALWAYS: [], NODE_STATS: ["--telemetry=node-stats"]}
BARS = {ALWAYS: 0.01, NODE_STATS: 0.02}  # of throughput
WARM_UP_S = 20
CALLS_WARM, CALLS = 6000, 2000


class Race(NamedTuple):
    """What a race showed: requests per second of its window, CPU of the server for each request that it counted."""

    throughput: float
    server_us: float


def race(track: Path, node: RealNode, home: Path, options: Sequence[str]) -> Race:
    command = race_command(track, node.url, *options)
    requests, used_s = node.requests(), cpu_s(node.pid)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "ESBENCH_HOME": str(home)})
    server_us = (cpu_s(node.pid) - used_s) / (node.requests() - requests) * 1e6
    (task,) = RaceStore(home).load("last").tasks
    assert task.throughput.mean and not task.errors
    return Race(task.throughput.mean, server_us)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Bounds that hold the median with 95 % confidence: the k-th value from below and from above; None under six."""
    n = len(values)
    ordered = sorted(values)
    # the chance that fewer than k of n values lie below the median, on either side
    outside = 0.0
    k = 0
    while k < n // 2 and outside + math.comb(n, k) / 2**n <= 0.025:
        outside += math.comb(n, k) / 2**n
        k += 1
    return (ordered[k - 1], ordered[n - k]) if k else None


def verdict(bounds: tuple[float, float] | None, worst: float) -> str:
    """Whether a cost (0.01: a hundredth) is known to be at most `worst`."""
    if bounds is None:
        return "undecided: it takes six rounds"
    if bounds[1] <= worst:
        return "met"
    return "NOT met" if bounds[0] > worst else "undecided: it takes more rounds, or a quieter machine"


def print_costs(rounds: Sequence[Mapping[str, Sequence[Race]]]) -> None:
    for name, bar in BARS.items():
        print(f"{name}, at most {100 * bar:g} %")
        for what, costs in (
            ("throughput lost", [1 - mean(found[name])[0] / mean(found[NONE])[0] for found in rounds]),
            ("server CPU per request", [mean(found[name])[1] / mean(found[NONE])[1] - 1 for found in rounds]),
        ):
            bounds = interval(costs)
            within = f", 95 % within {100 * bounds[0]:+.2f} to {100 * bounds[1]:+.2f} %" if bounds else ""
            print(f"    {what}: {100 * statistics.median(costs):+.2f} %{within}: {verdict(bounds, bar)}")


def mean(races: Sequence[Race]) -> Race:
    return Race(*(statistics.fmean(figures) for figures in zip(*races, strict=True)))


def cpu_s(pid: int | None = None) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def print_calls(node: RealNode) -> None:
    """What a sample costs the server and the caller, when nothing else happens."""
    rows = []
    with Cluster([node.url]) as cluster:
        scene = Scene(cluster, cluster.info(), (), Path())
        params = {param.name: param.default for param in NodeStats.params}
        devices = (Nodes(scene, {}), NodeStats(scene, params))
        for number in range(CALLS_WARM):  # Java compiles what both need
            devices[number % 2].sample()
        for device in devices:
            server_s, caller_s, begun_s = cpu_s(node.pid), cpu_s(), time.monotonic()
            for _ in range(CALLS):
                device.sample()
            wall_s = time.monotonic() - begun_s
            server_s, caller_s = cpu_s(node.pid) - server_s, cpu_s() - caller_s
            share = (server_s + caller_s) / CALLS / device.interval_s / (os.cpu_count() or 1)
            per_call = [1000 * seconds / CALLS for seconds in (server_s, caller_s, wall_s)]
            rows.append([device.name, *per_call, 100 * share])
    headers = ["a sample of", "server ms of CPU", "caller ms of CPU", "ms", "% of all CPUs, at its interval"]
    print(tabulate(rows, headers, floatfmt=".2f"), "\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--distribution", default="elasticsearch-7.10.2")
    arguments = parser.parse_args()
    task = {"clients": arguments.clients, "warmup-time-period": 1, "time-period": arguments.seconds}
    warm_up = {**task, "time-period": WARM_UP_S}
    rounds: list[dict[str, list[Race]]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = home_in(folder)
        ids = order_ids(DOCUMENTS)
        track, _ = write_get_tracks(folder, ids, task)
        (folder / "warm-up").mkdir()
        warm_up_track, _ = write_get_tracks(folder / "warm-up", ids, warm_up)
        with real_node(folder, arguments.distribution) as node:
            load(node, home)
            race(warm_up_track, node, home, OPTIONS[NODE_STATS])  # Java compiles what it needs
            print_calls(node)
            for number in range(arguments.rounds):
                order = list(OPTIONS) if number % 2 == 0 else [NODE_STATS, ALWAYS, NONE]
                found: dict[str, list[Race]] = {name: [] for name in OPTIONS}
                for which in (*order, *reversed(order)):
                    found[which].append(race(track, node, home, OPTIONS[which]))
                rounds.append(found)
                told = (f"{which} {mean(races).throughput:,.0f}/s" for which, races in found.items())
                print(", ".join(told), flush=True)
    print_costs(rounds)


if __name__ == "__main__":
    main()
