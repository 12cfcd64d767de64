"""Duels whose answer is known, both sides at once: identical sides on an embedded node, and a slower null server.

    python benchmarks/known_duels.py identical     20 duels of different tasks, nothing should be called; about an hour
    python benchmarks/known_duels.py slower        10 duels, each should call the contender slower; about 20 min
    python benchmarks/known_duels.py slower --by=5

Identical sides are two sets of indices on one node, four rounds. Null servers, six rounds, are the same ones in all of
them: what is called is an interval without zero (Bonferroni over the rows of a duel). Each comparison is printed, then
what benchmarks/duels.py counts, whose exit status it has. Races and sessions are kept in $ESBENCH_HOME.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from duels import report
from programs import ESBENCH

from esbench.null_server import NullServer
from esbench.null_server.versions import parse_version
from esbench.record.home import esbench_home
from esbench.record.sessions import SessionStore

SETUP = "type:delete-index,type:create-index,check-cluster-health"
PERCOLATIONS = "percolator_with_content_president_bush,percolator_with_content_google,percolator_with_highlighting"
SECONDS = 14  # of a task, both sides together
DUELS_OF_EACH = 2  # of identical sides, with different seeds


@dataclass(frozen=True)
class Identical:
    """A duel of a bundled track with itself."""

    track: str
    tasks: str
    params: str


IDENTICAL = (
    Identical("orders", f"{SETUP},tag:load,get-by-id,insert", "documents:20000"),
    Identical("orders", f"{SETUP},tag:load,term-query,search-by-routing", "documents:20000"),
    Identical("orders", f"{SETUP},tag:load,read-after-write", "documents:20000"),
    Identical("orders", f"{SETUP},tag:load,get-by-id-at-1000-per-s", "documents:20000"),
    Identical("keyword", f"{SETUP},tag:load,type:get,type:search", "documents:20000,rates:500"),
    Identical("mixed", f"{SETUP},tag:load,get-by-id,insert", "documents:20000,get_rate:800,insert_rate:200"),
    Identical("order-analytics", f"{SETUP},tag:load,sum-over-all,group-by,list-page-1", "documents:20000"),
    Identical("ingest", f"{SETUP},bulk,one-at-a-time", "bulk_documents:200000"),
    Identical("ingest", f"{SETUP},single-documents", "settings:relaxed,clients:32"),
    Identical("percolator", f"{SETUP},tag:load,{PERCOLATIONS}", "documents:20000"),
)

# How long the null server takes to answer; the contender's takes longer by a factor.
DELAYS: tuple[Mapping[str, object], ...] = (
    {"type": "constant", "ms": 5},
    {"type": "constant", "ms": 20},
    {"type": "exponential", "mean_ms": 5},
    {"type": "exponential", "mean_ms": 10},
    {"type": "exponential", "mean_ms": 20},
    {"type": "bimodal", "low_ms": 4, "high_ms": 20, "high_ratio": 0.1},
    {"type": "bimodal", "low_ms": 5, "high_ms": 50, "high_ratio": 0.05},
    {"type": "bimodal", "low_ms": 10, "high_ms": 100, "high_ratio": 0.02},
    {"type": "list", "ms": [3, 5, 8, 13, 21]},
    {"type": "list", "ms": [2, 4, 8, 16, 32, 64]},
)

TRACK = f"""
version: 2
description: Reads of documents in a closed loop
indices: [{{name: documents}}]
schedule:
  - {{operation: delete-index}}
  - {{operation: create-index}}
  - name: get
    operation: {{operation-type: get, index: documents, id: "1"}}
    clients: 8
    time-period: {SECONDS}
"""


def duel(rounds: int, *arguments: str) -> str:
    """Race a duel, its result on stdout; the id of its session."""
    command = [*ESBENCH, "duel", f"--rounds={rounds}", f"--task-time={SECONDS}s", "--quiet", *arguments]
    print(f"\nesbench {' '.join(command[len(ESBENCH) :])}", flush=True)
    subprocess.run(command, check=True)
    session = SessionStore(esbench_home()).load("last").id
    print(f"session {session}", flush=True)
    return session


def identical() -> Iterator[str]:
    """The sessions of duels of a thing with itself."""
    for seed, raced in enumerate(IDENTICAL * DUELS_OF_EACH, start=1):
        yield duel(
            4,
            f"--track={raced.track}",
            f"--include-tasks={raced.tasks}",
            f"--track-params={raced.params}",
            f"--seed={seed}",
            "--baseline=",
            "--contender=",
        )


def script(delay: Mapping[str, object], factor: float, seed: int) -> dict[str, object]:
    """What a null server does whose answers take `factor` as long as `delay` says."""

    def longer(key: str, value: object) -> object:
        if isinstance(value, list):
            return [factor * ms for ms in value]
        return factor * float(str(value)) if key.endswith("ms") else value

    root = {**parse_version("7.17.29").root(), "cluster_uuid": f"takes {factor:g} as long"}  # two clusters
    return {
        "seed": seed,
        "rules": [
            {"path": "/_doc/", "delay": {key: longer(key, value) for key, value in delay.items()}},
            {"method": "GET", "path": "^/$", "reply": {"status": 200, "body": root}},
        ],
    }


def slower(by: float) -> Iterator[str]:
    """The sessions of duels of a null server with one that takes `by` as long."""
    with tempfile.TemporaryDirectory() as folder:
        track = Path(folder) / "track.yml"
        track.write_text(TRACK)
        for seed, delay in enumerate(DELAYS, start=1):
            print(f"\nanswers after {json.dumps(delay)}", flush=True)
            with NullServer(script(delay, 1, seed)) as fast, NullServer(script(delay, by, seed)) as slow:
                yield duel(
                    6,
                    f"--track-path={track}",
                    f"--seed={seed}",
                    "--telemetry=none",
                    f"--baseline=target-hosts={fast.url.removeprefix('http://')}",
                    f"--contender=target-hosts={slow.url.removeprefix('http://')}",
                )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("answer", choices=("identical", "slower"))
    parser.add_argument("--by", type=float, default=10, metavar="PERCENT", help="of slower: how much")
    args = parser.parse_args(arguments)
    sessions = list(identical() if args.answer == "identical" else slower(1 + args.by / 100))
    print()
    sys.exit(report(sessions, expect="slower" if args.answer == "slower" else "nothing"))


if __name__ == "__main__":
    main()
