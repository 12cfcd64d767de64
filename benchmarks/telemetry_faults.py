"""Race the orders track with every telemetry device on, and kill a node in the middle: does a device break the race?

    python benchmarks/telemetry_faults.py [--distributions a,b] [--only kept|killed] [-- further race options]

Each distribution is raced twice: once undisturbed, once with its node killed (SIGKILL of its Java) while the second
measured task runs and the race told to go on; then two nodes with a replica the same way, where the node that is not
the master is killed. Prints a line per race and one per device: samples, missed and failed ones, what it could not see.
Exits 1 when an undisturbed race was not complete or had an error, when two nodes did not survive the loss of one, or
when a race left no final record with every device in it.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from esbench.cluster.client import Cluster
from esbench.record.home import esbench_home
from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore, new_race_id
from esbench.telemetry import builtin_devices, choose

ESBENCH = Path(sys.executable).parent / "esbench"
DISTRIBUTIONS = "elasticsearch-5.6.16,elasticsearch-7.10.2,elasticsearch-8.19.4,opensearch-3.6.0"
TWO_NODES = "elasticsearch-7.10.2"
PARAMS = "documents:20000,number_of_shards:2,clients:4,rates:300,warmup_time_period:1,time_period:3"
FATAL_TASK = "term-query"
LONGEST_S = 300
DEVICES = choose(["all"], {}, builtin_devices(), embedded=True)
KEYS = {chosen.kind.name: chosen.kind.key or chosen.kind.name for chosen in DEVICES}  # of what they say of tasks


@dataclass(frozen=True)
class Plan:
    name: str
    options: tuple[str, ...]
    track_params: str
    kills: bool
    survives: bool


@dataclass(frozen=True)
class Outcome:
    """A race that is over. `stderr` is all that it said."""

    plan: Plan
    record: RaceRecord | None
    seconds: float
    stderr: str
    telemetry_bytes: int
    record_bytes: int

    @property
    def errors(self) -> int:
        return sum(task.errors + task.warmup.errors for task in self.record.tasks) if self.record else 0

    def faults(self) -> list[str]:
        """What must not be, whatever the cluster did."""
        if self.record is None:
            return ["no record"]
        found = []
        expected = "complete" if self.plan.survives else "failed"
        if self.record.status != expected:
            found.append(f"{self.record.status}, not {expected}: {self.record.failure}")
        if not self.plan.kills and self.errors:
            found.append(f"{self.errors} errors")
        found += [
            f"nothing of {chosen.kind.name}" for chosen in DEVICES if chosen.kind.name not in self.record.telemetry
        ]
        if "Traceback" in self.stderr:
            found.append(f"a traceback: {self.stderr.splitlines()[-1]}")
        return found


def race(plan: Plan) -> Outcome:
    race_id = f"{new_race_id()}-{plan.name}".lower().replace("*", "x")
    folder = RaceStore(esbench_home()).races_folder / race_id
    options = [*plan.options, "--telemetry=all", "--on-error=continue", "--quiet"]
    command = [str(ESBENCH), "race", "--track=orders", f"--race-id={race_id}", f"--track-params={plan.track_params}"]
    started = time.monotonic()
    process = subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        if plan.kills:
            wait_for_task(folder / "seconds.jsonl", process)
            os.kill(victim(json.loads((folder / "race.json").read_text())), signal.SIGKILL)
        _, stderr = process.communicate(timeout=LONGEST_S)
    except BaseException:
        os.killpg(process.pid, signal.SIGINT)
        process.communicate(timeout=30)
        raise
    seconds = time.monotonic() - started
    record = RaceStore(esbench_home()).load(race_id) if folder.exists() else None
    return Outcome(plan, record, seconds, stderr, size(folder / "telemetry.jsonl"), size(folder / "race.json"))


def wait_for_task(seconds_file: Path, process: subprocess.Popen[str]) -> None:
    """Until the task during which a node is to die has been running for a second."""
    while f'"{FATAL_TASK}"' not in (seconds_file.read_text() if seconds_file.exists() else ""):
        if process.poll() is not None:
            raise SystemExit(f"the race was over before {FATAL_TASK}: {process.communicate()[1]}")
        time.sleep(0.1)


def victim(record: dict[str, object]) -> int:
    """The process id of a node: one that is not the master, where there are several."""
    with Cluster(record["clusters"]["default"]["hosts"]) as cluster:  # type: ignore[index]
        master = cluster.request("GET", "/_cluster/state/master_node")["master_node"]
        nodes = cluster.request("GET", "/_nodes/process")["nodes"]
    chosen = next((node for node in nodes if node != master), master)
    return int(nodes[chosen]["process"]["id"])


def size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def print_outcome(outcome: Outcome) -> None:
    plan, record = outcome.plan, outcome.record
    print(
        f"\n{plan.name}, {'a node killed' if plan.kills else 'undisturbed'}: "
        f"{record.status if record else 'no record'}, {outcome.seconds:.0f} s, "
        f"{len(record.tasks) if record else 0} tasks, {outcome.errors:,} errors, "
        f"telemetry.jsonl {outcome.telemetry_bytes / 1024:.0f} KB, race.json {outcome.record_bytes / 1024:.0f} KB"
    )
    for fault in outcome.faults():
        print(f"  WRONG: {fault}")
    if record is None:
        print(outcome.stderr)
        return
    rows = []
    for name, told in record.telemetry.items():
        notes = [str(note) for note in told.get("notes", ())]
        tasks = sum(KEYS.get(name, name) in task.telemetry for task in record.tasks)
        counts = [told.get(key) for key in ("samples", "missed", "failed", "cost_ms")]
        rows.append([name, *counts, tasks, len(notes), notes[0][:100] if notes else ""])
    headers = ["device", "samples", "missed", "failed", "cost ms", "tasks", "notes", "the first note"]
    print(tabulate(rows, headers=headers))
    for warning in record.warnings:
        print(f"  warning: {warning[:200]}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--distributions", default=DISTRIBUTIONS)
    parser.add_argument("--only", choices=("kept", "killed"), help="only races without, or with, a node killed")
    parser.add_argument("--skip-two-nodes", action="store_true")
    parser.add_argument("options", nargs="*", help="further options of esbench race, after --")
    arguments = parser.parse_args()
    plans = []
    for kills in [arguments.only == "killed"] if arguments.only else [False, True]:
        for name in filter(None, arguments.distributions.split(",")):
            options = (f"--distribution={name}", *arguments.options)
            plans.append(Plan(name, options, PARAMS, kills, survives=not kills))
        if not arguments.skip_two_nodes:
            options = (f"--distribution={TWO_NODES}", "--nodes=2", *arguments.options)
            plans.append(Plan(f"{TWO_NODES}*2", options, f"{PARAMS},number_of_replicas:1", kills, survives=True))
    outcomes = []
    for plan in plans:
        outcomes.append(race(plan))
        print_outcome(outcomes[-1])
        sys.stdout.flush()
    return int(any(outcome.faults() for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
