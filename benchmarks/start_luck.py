"""The luck of a node's start, and what makes it smaller: fresh nodes against a fixed one, both at once, in slices.

    python benchmarks/start_luck.py [VARIANT]... [--rounds=8] [--task-time=40]      about 10 min for each variant

A fixed node is started once for each variant, a fresh one in each round, with the variant's options. Two rounds are not
counted, in which the fixed node becomes warm: Java compiles for minutes, and a node that has been raced is faster than
a fresh one. The spread of the other rounds' differences, without that within rounds, is the luck of one start (the
fixed node has none); the mean says how far a fresh node is behind, and by comparison with the default's, what the
options do to the speed. Intervals are 95 %: of the spread by chi-squared, of the mean by Student's t.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from programs import ESBENCH
from scipy import stats
from tabulate import tabulate

from esbench.cli.compare import compare_stored
from esbench.comparison.model import Pair
from esbench.record.home import esbench_home
from esbench.record.sessions import SessionStore

SETUP = "type:delete-index,type:create-index,check-cluster-health,tag:load"
TASKS = ("get-by-id", "term-query")
MEASURED = "term-query"
WARMING = 2  # rounds that are not counted


@dataclass(frozen=True)
class Variant:
    """The words of the fresh nodes, and what is raced in a round before the tasks that are measured."""

    words: str = ""
    passes: int = 0  # over all tasks, before those that count
    longer: float = 1.0  # the tasks, by this factor


VARIANTS: Mapping[str, Variant] = {
    "default": Variant(),
    "heap 4g": Variant("heap=4g"),
    "huge pages": Variant('jvm-options="-XX:+AlwaysPreTouch -XX:+UseTransparentHugePages"'),
    "parallel GC": Variant('jvm-options="-XX:-UseG1GC -XX:+UseParallelGC"'),
    "Xbatch": Variant("jvm-options=-Xbatch"),
    "discarded pass": Variant(passes=1),
    "longer tasks": Variant(longer=2),
}


def esbench(*arguments: str) -> str:
    """Run a command of esbench; what it prints."""
    print(f"esbench {' '.join(arguments)}", file=sys.stderr, flush=True)
    return subprocess.run([*ESBENCH, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def fixed_node() -> str:
    """Start the fixed node, by a short race that leaves it running; its address."""
    said = esbench(
        "race", "--track=orders", "--track-params=documents:1000", f"--include-tasks={SETUP}", "--keep-node", "--quiet"
    )
    found = re.search(r"(127\.0\.0\.1|localhost):\d+", said + esbench("list", "nodes"))
    if found is None:
        sys.exit(f"the address of the fixed node is not in {said}")
    return found[0]


def write_track(folder: Path, variant: Variant, task_s: float) -> None:
    """Write a track of searches, with passes over all reads before those that are measured."""
    names = [(name, f"{name}-discarded-{number}") for number in range(variant.passes) for name in TASKS]
    reads = [
        {"name": name, "operation": operation, "clients": 8, "time-period": variant.longer * task_s / 2}
        for operation, name in (*names, (MEASURED, MEASURED))
    ]
    track = {
        "version": 2,
        "indices": [{"name": "orders", "body": "index.json"}],
        "corpora": [
            {
                "name": "orders",
                "documents": [
                    {
                        "document-count": 20_000,
                        "generate": {
                            "id": "number",
                            "fields": {
                                "number": {"type": "sequence"},
                                "merchant": {"type": "zipf", "from": 1, "to": 2000, "format": "m%d"},
                                "note": {"type": "words", "count": [5, 40]},
                            },
                        },
                    }
                ],
            }
        ],
        "variables": [{"name": "order", "type": "corpus-document", "corpus": "orders"}],
        "operations": [
            {"name": "get-by-id", "operation-type": "get", "index": "orders", "id": "$[[order._id]]"},
            {
                "name": "term-query",
                "operation-type": "search",
                "index": "orders",
                "body": {"query": {"bool": {"filter": {"term": {"merchant": "$[[order.merchant]]"}}}}},
            },
        ],
        "schedule": [
            {"operation": {"operation-type": "delete-index"}},
            {"operation": {"operation-type": "create-index"}},
            {"operation": {"operation-type": "bulk", "bulk-size": 1000}},
            {"operation": "refresh"},
            {"operation": "force-merge"},
            *reads,
        ],
    }
    (folder / "track.json").write_text(json.dumps(track))
    index = {"number_of_shards": 5, "number_of_replicas": 0, "requests.cache.enable": False}
    fields = {"merchant": {"type": "keyword"}, "note": {"type": "text"}, "number": {"type": "long"}}
    (folder / "index.json").write_text(json.dumps({"settings": {"index": index}, "mappings": {"properties": fields}}))


def duel(folder: Path, variant: Variant, rounds: int, task_s: float) -> Pair:
    """Race fresh nodes of a variant against a fixed node; their comparison."""
    write_track(folder, variant, task_s)
    address = fixed_node()
    try:
        esbench(
            *("duel", f"--track-path={folder / 'track.json'}", "--quiet", "--replace-indices"),
            *(
                f"--rounds={WARMING + rounds}",
                f"--task-time={variant.longer * task_s:g}s",
                f"--baseline=target-hosts={address}",
            ),
            f"--contender={variant.words}",
        )
    finally:
        esbench("stop", "--all")
    home = esbench_home()
    return compare_stored(home, SessionStore(home).load("last").id).pairs[0]


def figures(differences: Sequence[float], within: float) -> tuple[str, str]:
    """Return the luck of a start with its interval, and the mean of the differences with its own, in percent."""
    count, spread = len(differences), stdev(differences)
    luck = math.sqrt(max(0.0, spread**2 - within**2))
    bounds = (spread * math.sqrt((count - 1) / stats.chi2.ppf(q, count - 1)) for q in (0.975, 0.025))
    low, high = (math.sqrt(max(0.0, bound**2 - within**2)) for bound in bounds)
    half = stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count)
    return (
        f"{100 * luck:.1f} [{100 * low:.1f}, {100 * high:.1f}]",
        f"{100 * fmean(differences):+.1f} +-{100 * half:.1f}",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("variants", nargs="*", metavar="VARIANT", choices=[*VARIANTS, []])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--task-time", type=float, default=40, metavar="S", help="of a task, both sides together")
    args = parser.parse_args()
    rows = []
    for name in args.variants or VARIANTS:
        with tempfile.TemporaryDirectory() as folder:
            pair = duel(Path(folder), VARIANTS[name], args.rounds, args.task_time)
        within = pair.sliced.plan.within_ratio if pair.sliced is not None and pair.sliced.plan is not None else 0.0
        for row in pair.primary:
            if row.metric == "Mean throughput" and row.task == MEASURED and row.differences:
                rows.append((name, *figures(row.differences[WARMING:], within), f"{100 * within:.1f}"))
        print(tabulate(rows, headers=["variant", "start luck %", "to the fixed node %", "within %"]), flush=True)


if __name__ == "__main__":
    main()
