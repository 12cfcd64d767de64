"""A track made of a live index: `esbench create-track` beside Rally's, in turn, on the same node.

    python benchmarks/create_track.py --rally=FOLDER [--pairs 3] [--documents 200000]

Documents per second from the start of a command to its end, all documents of an index of orders with five shards, each
program with its own defaults. Rally reads the index with one scroll, and its first 1,000 documents once more.
Bar: esbench is faster in every pair.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from node import INDEX, RealNode, home_in, real_node
from peer_tracks import write_bulk_track, write_orders
from programs import ESBENCH, race_command
from rally import Rally, add_rally_option
from tabulate import tabulate


def run(command: list[str], env: Mapping[str, str]) -> float:
    """How many seconds it takes; ends the benchmark when it fails."""
    start = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return time.perf_counter() - start


def compare(node: RealNode, rally: Rally, folder: Path, documents: int, pairs: int) -> str:
    """A line for each pair; who begins alternates. A discarded one goes first: Java has compiled then."""
    rows, ratios = [], []
    for pair in range(pairs + 1):
        rates = {}
        for program in ("Rally", "esbench") if pair % 2 else ("esbench", "Rally"):
            options = [f"--indices={INDEX}", f"--target-hosts={node.url}", f"--output-path={folder / program}"]
            if program == "Rally":
                command, env = rally.create_track_command("--track=shop", *options), rally.env
            else:
                command, env = [*ESBENCH, "create-track", "--track=shop", *options, "--quiet"], {}
            rates[program] = documents / run(command, env)
            shutil.rmtree(folder / program)
        if pair:
            ratios.append(rates["esbench"] / rates["Rally"])
            rows.append([f"{rates['esbench']:,.0f}", f"{rates['Rally']:,.0f}", f"{ratios[-1]:.1f}"])
    table = tabulate(rows, ["esbench docs/s", "Rally docs/s", "ratio"], disable_numparse=True, stralign="right")
    wins = sum(ratio > 1 for ratio in ratios)
    median = statistics.median(ratios)
    return f"{table}\nesbench faster in {wins} of {pairs} pairs (bar: all), {median:.1f} times in the median"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rally_option(parser, required=True)
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--documents", type=int, default=200_000)
    parser.add_argument("--distribution", default="elasticsearch-7.17.29")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        home = home_in(folder)
        source = write_orders(folder / "orders.json", arguments.documents)
        track = write_bulk_track(folder / "load", source, {"clients": 4})
        with real_node(folder, arguments.distribution) as node:
            run(race_command(track, node.url), {"ESBENCH_HOME": str(home)})
            print(compare(node, Rally(arguments.rally, folder), folder, arguments.documents, arguments.pairs))


if __name__ == "__main__":
    main()
