"""GET by id on a real node: is what esbench measures the node's? Closed loop, beside wrk in the same run.

    python benchmarks/real_node.py [--seconds 8] [--pairs 4] [--clients 16] [--distribution elasticsearch-7.17.29]

The node runs on CPU 1, esbench and wrk take turns on CPU 0 (wrk first, esbench first, ...), both with random ids of
the loaded orders. Needs wrk and two cores. Prints requests per second that the node counted, CPU per request, each
pair's ratio, and their median (bar: at least 0.95 of wrk's). With --rally=FOLDER, Rally's once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from pathlib import Path

from node import RealNode, home_in, real_node
from peer_tracks import order_ids, write_get_tracks
from programs import ESBENCH, Cost, measure, need, race_command, wrk_command
from rally import Rally, add_rally_option

DOCUMENTS = 200_000
WARM_UP_S = 10
BAR = 0.95
LUA = """
local ids = {}
for id in io.lines("%s") do ids[#ids + 1] = "/orders/_doc/" .. id end
math.randomseed(1)
request = function() return wrk.format("GET", ids[math.random(#ids)]) end
"""


def load(node: RealNode, home: Path) -> None:
    """The orders, merged into one segment a shard, by the orders track."""
    command = [*ESBENCH, "race", "--track=orders", "--include-tasks=tag:load", f"--target-hosts={node.url}", "--quiet"]
    subprocess.run(
        [*command, f"--track-params=documents:{DOCUMENTS}"],
        check=True,
        capture_output=True,
        env={**os.environ, **env_of(home)},
    )


def env_of(home: Path) -> dict[str, str]:
    return {"ESBENCH_HOME": str(home)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=8)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--distribution", default="elasticsearch-7.17.29")
    add_rally_option(parser)
    arguments = parser.parse_args()
    need("wrk", "taskset")
    costs: dict[str, list[Cost]] = {"wrk": [], "esbench": []}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = home_in(folder)
        task = {"clients": arguments.clients, "warmup-time-period": 1, "time-period": arguments.seconds}
        ours, rallys = write_get_tracks(folder, order_ids(DOCUMENTS), task)
        script = folder / "ids.lua"
        script.write_text(LUA % (ours / "ids.txt"))
        with real_node(folder, arguments.distribution, cpus={1}) as node:
            load(node, home)

            def wrk(seconds: int = arguments.seconds) -> Cost:
                command = wrk_command(node.url, arguments.clients, seconds, "-s", str(script))
                return measure(command, node)

            def esbench() -> Cost:
                command = race_command(ours, node.url)
                return measure(command, node, env_of(home))

            wrk(WARM_UP_S)  # Java compiles what it needs
            for pair in range(arguments.pairs):
                for program in (wrk, esbench) if pair % 2 == 0 else (esbench, wrk):
                    costs[program.__name__].append(program())
            if arguments.rally:
                rally = Rally(arguments.rally, folder)
                costs["Rally"] = [measure(rally.command(rallys, node.url), node, rally.env)]
    for program_name, found in costs.items():
        rate = statistics.median(cost.requests_per_s for cost in found)
        cpu_us = statistics.median(cost.cpu_us for cost in found)
        print(f"{program_name:8} {rate:8,.0f} requests/s   {cpu_us:6.1f} us of CPU per request")
    ratios = [
        ours.requests_per_s / theirs.requests_per_s for theirs, ours in zip(costs["wrk"], costs["esbench"], strict=True)
    ]
    each = ", ".join(f"{ratio:.3f}" for ratio in ratios)
    print(f"esbench / wrk, requests/s: {statistics.median(ratios):.3f} (bar: at least {BAR}; pairs: {each})")


if __name__ == "__main__":
    main()
