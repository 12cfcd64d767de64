"""Duels whose answer is known: identical sides on an embedded node, and a null server that is 10 % slower.

    python benchmarks/known_duels.py identical     10 duels of different tasks, nothing should be called; about 20 min
    python benchmarks/known_duels.py slower        10 duels, each should call the contender slower; about 15 min

Six rounds a side. Each comparison is printed, then what benchmarks/duels.py counts, whose exit status it has. Races and
sessions are kept in $ESBENCH_HOME.
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

from esbench.cli.command import esbench_home
from esbench.null_server import NullServer
from esbench.record.sessions import SessionStore

SETUP = "type:delete-index,type:create-index,check-cluster-health"
SHORT = "warmup_time_period:1,time_period:5"
PERCOLATIONS = "percolator_with_content_president_bush,percolator_with_content_google,percolator_with_highlighting"
SLOWER_BY = 1.10
SECONDS = 6


@dataclass(frozen=True)
class Identical:
    """A duel of a bundled track with itself."""

    track: str
    tasks: str
    params: str


IDENTICAL = (
    Identical("orders", f"{SETUP},tag:load,get-by-id,insert", f"documents:20000,{SHORT}"),
    Identical("orders", f"{SETUP},tag:load,term-query,search-by-routing", f"documents:20000,{SHORT}"),
    Identical("orders", f"{SETUP},tag:load,read-after-write", f"documents:20000,{SHORT}"),
    Identical("orders", f"{SETUP},tag:load,get-by-id-at-1000-per-s", f"documents:20000,{SHORT}"),
    Identical("keyword", f"{SETUP},tag:load,type:get,type:search", f"documents:20000,rates:500,{SHORT}"),
    Identical("mixed", f"{SETUP},tag:load,get-by-id,insert", f"documents:20000,get_rate:800,insert_rate:200,{SHORT}"),
    Identical("order-analytics", f"{SETUP},tag:load,sum-over-all,group-by,list-page-1", f"documents:20000,{SHORT}"),
    Identical("ingest", f"{SETUP},bulk,one-at-a-time", f"bulk_documents:200000,{SHORT}"),
    Identical("ingest", f"{SETUP},single-documents", f"settings:relaxed,clients:32,{SHORT}"),
    Identical("percolator", f"{SETUP},tag:load,{PERCOLATIONS}", "documents:20000"),
)

# How long the null server takes to answer; the contender's takes SLOWER_BY as long.
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
    warmup-time-period: 1
    time-period: {SECONDS}
"""


def duel(*arguments: str) -> str:
    """Race a duel, its result on stdout; the id of its session."""
    command = [*ESBENCH, "duel", "--rounds=6", "--quiet", *arguments]
    print(f"\nesbench {' '.join(command[len(ESBENCH) :])}", flush=True)
    subprocess.run(command, check=True)
    session = SessionStore(esbench_home()).load("last").id
    print(f"session {session}", flush=True)
    return session


def identical() -> Iterator[str]:
    """The sessions of duels of a thing with itself."""
    for seed, raced in enumerate(IDENTICAL, start=1):
        yield duel(
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

    return {
        "seed": seed,
        "rules": [{"path": "/_doc/", "delay": {key: longer(key, value) for key, value in delay.items()}}],
    }


def slower() -> Iterator[str]:
    """The sessions of duels of a null server with one that is slower."""
    with tempfile.TemporaryDirectory() as folder:
        track = Path(folder) / "track.yml"
        track.write_text(TRACK)
        for seed, delay in enumerate(DELAYS, start=1):
            print(f"\nanswers after {json.dumps(delay)}", flush=True)
            with NullServer(script(delay, 1, seed)) as fast, NullServer(script(delay, SLOWER_BY, seed)) as slow:
                yield duel(
                    f"--track-path={track}",
                    f"--seed={seed}",
                    "--telemetry=none",
                    f"--baseline=target-hosts={fast.url.removeprefix('http://')}",
                    f"--contender=target-hosts={slow.url.removeprefix('http://')}",
                )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("answer", choices=("identical", "slower"))
    answer = parser.parse_args(arguments).answer
    sessions = list(identical() if answer == "identical" else slower())
    print()
    sys.exit(report(sessions, expect="slower" if answer == "slower" else "nothing"))


if __name__ == "__main__":
    main()
