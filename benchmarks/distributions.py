"""Race the orders track on every distribution, and on two nodes with a replica: does each task run, and how fast?

    python benchmarks/distributions.py [--distributions a,b] [--track-params PARAMS] [-- further race options]

Prints a line per race and task: throughput, p50 and p99 (latency of open loops, service time of closed ones), errors.
Exits 1 when a race was not complete or a request failed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from tabulate import tabulate

from esbench.features.node.catalog import load_catalog
from esbench.record.home import esbench_home
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore, new_race_id

ESBENCH = Path(sys.executable).parent / "esbench"
UNBOOTABLE = {"elasticsearch-5.2.2"}  # where cgroups v1 and v2 are mounted together; name it to try it


def race(name: str, track_params: str, options: list[str]) -> tuple[RaceRecord | None, str, float]:
    """The record (None when there is none), what the race said at its end, and its seconds."""
    race_id = f"{new_race_id()}-{name}".lower()
    started = time.monotonic()
    command = [str(ESBENCH), "race", "--track=orders", f"--race-id={race_id}", "--quiet", *options]
    if track_params:
        command.append(f"--track-params={track_params}")
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    seconds = time.monotonic() - started
    store = RaceStore(esbench_home())
    record = store.load(race_id) if (store.races_folder / race_id).exists() else None
    return record, done.stderr.strip().splitlines()[-1] if done.returncode else "", seconds


def rows(record: RaceRecord) -> list[list[object]]:
    table: list[list[object]] = []
    for task in record.tasks:
        times = task.latency_ms or task.service_time_ms or {}
        unusable = [check.name for check in task.checks if check.level == "unusable"]
        table.append(
            [
                task.name,
                task.throughput.mean,
                f"{task.throughput.unit}/s",
                times.get("p50"),
                times.get("p99"),
                task.errors,
                ", ".join(unusable),
            ]
        )
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distributions", default=",".join(n for n in load_catalog() if n not in UNBOOTABLE))
    parser.add_argument("--track-params", default="warmup_time_period:2,time_period:5")
    parser.add_argument("--skip-two-nodes", action="store_true")
    parser.add_argument("options", nargs="*", help="further options of esbench race, after --")
    arguments = parser.parse_args()
    plans = [(n, arguments.track_params, ["--distribution", n]) for n in arguments.distributions.split(",") if n]
    if not arguments.skip_two_nodes:
        replica = ",".join(filter(None, [arguments.track_params, "number_of_replicas:1"]))
        plans.append(("two-nodes-one-replica", replica, ["--nodes=2"]))
    good = True
    for name, track_params, options in plans:
        record, said, seconds = race(name, track_params, [*options, *arguments.options])
        status = record.status if record else "not begun"
        errors = sum(task.errors + task.warmup.errors for task in record.tasks) if record else 0
        tasks = len(record.tasks) if record else 0
        good = good and status == "complete" and not errors
        print(f"\n{name}: {status}, {tasks} tasks, {errors} errors, {seconds:.0f} s {said}")
        if record:
            print(
                tabulate(rows(record), ["task", "throughput", "", "p50 ms", "p99 ms", "errors", "unusable"]), flush=True
            )
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
