"""Searches for a capacity on the embedded node: do two find the same, and is a node with fewer search threads called?

    python benchmarks/node_capacity.py interleaved [TASK]...   two searches of each task, each probe sent to both
    python benchmarks/node_capacity.py apart [TASK]...         two searches of each, one after the other
    python benchmarks/node_capacity.py threads                 two duels: one search thread against four

Tasks: get-by-id, term-query, insert, mixed (reads by id while 200 orders a second are inserted). A search takes at most
--budget (15m), a duel six rounds of that: fewer have no verdict on fresh nodes. Printed are estimates and how each
search ended: an interval without an end is [0, ...] or inf. `interleaved` exits with 1 if fewer than three in four
estimates agree within 10 %, `threads` if a duel does not call the node with one thread. Races and sessions are kept in
$ESBENCH_HOME.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from programs import ESBENCH
from tabulate import tabulate

from esbench.features.capacity.parts import SEARCH
from esbench.features.capacity.record import FoundCapacity
from esbench.record.home import esbench_home
from esbench.record.sessions import SessionStore
from esbench.record.store import RaceStore

WITHIN, FEWEST = 0.10, 0.75
TASKS = {
    **{name: ("--track=orders", f"--task={name}", "--objective=p99<50ms") for name in ("get-by-id", "term-query")},
    "insert": ("--track=orders", "--task=insert", "--objective=p99<50ms"),
    "mixed": ("--track=mixed", "--task=get-by-id", "--while=insert@200", "--objective=p99<20ms"),
}
ONE_THREAD, FOUR_THREADS = (f"node-settings=thread_pool.search.size:{threads}" for threads in (1, 4))


def run(*arguments: str) -> None:
    """Run esbench; its command line and its result are printed."""
    print(f"\nesbench {' '.join(arguments)}", flush=True)
    subprocess.run([*ESBENCH, *arguments, "--quiet"], check=True)
    sys.stdout.flush()


def found_of(race_id: str) -> FoundCapacity:
    """Return what the search of a race has found."""
    search = SEARCH.kept_in(RaceStore(esbench_home()).load(race_id))
    assert search is not None
    assert search.found is not None
    return search.found


def interleaved(task: str, budget: str) -> list[FoundCapacity]:
    """Search twice at once: a duel of a node's indices with others of its own."""
    run("duel", "--capacity", "--rounds=1", f"--search-budget={budget}", *TASKS[task], "--baseline=", "--contender=")
    return [found_of(race.race_id) for race in SessionStore(esbench_home()).load("last").plan if race.race_id]


def apart(task: str, budget: str) -> list[FoundCapacity]:
    """Search twice, one after the other, each on a fresh node."""
    found = []
    for _ in range(2):
        run("capacity", f"--budget={budget}", "--sustain=0s", *TASKS[task])
        found.append(found_of("last"))
    return found


def differences(names: Sequence[str], budget: str, is_interleaved: bool) -> int:
    """Search each task twice and print by how much the capacities differ; 1 if too few agree."""
    rows, agree = [], 0
    for name in names:
        first, second = (interleaved if is_interleaved else apart)(name, budget)
        off = second.rate_per_s / first.rate_per_s - 1 if first.rate_per_s else math.inf
        agree += abs(off) <= WITHIN
        rows.append((name, *(text for each in (first, second) for text in (_text(each), each.why)), f"{off:+.1%}"))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(tabulate(rows, headers=("task", "first", "", "second", "", "differ by")))
    print(f"\nwithin {WITHIN:.0%}: {agree} of {len(rows)}")
    return int(is_interleaved and agree < FEWEST * len(rows))


def _text(found: FoundCapacity) -> str:
    return f"{found.rate_per_s:,.0f}/s [{found.low_per_s:,.0f}, {found.high_per_s:,.0f}]"


def threads(budget: str) -> int:
    """Race two duels of one search thread against four; 1 if one of them does not call it."""
    called = []
    for seed in (1, 2):
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "comparison.json"
            run(
                *("duel", "--capacity", "--rounds=6", f"--search-budget={budget}", f"--seed={seed}"),
                *TASKS["term-query"],
                *(f"--baseline={FOUR_THREADS}", f"--contender={ONE_THREAD}", f"--report-file={file}"),
            )
            rows = json.loads(file.read_text())["rows"]
        called += [row["verdict"] for row in rows if row["metric"] == "Capacity"]
    print(f"\nverdicts: {', '.join(called)}")
    return int(called != ["slower", "slower"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("interleaved", "apart", "threads"))
    parser.add_argument("tasks", nargs="*", metavar="TASK", help=f"of {', '.join(TASKS)}; all by default")
    parser.add_argument("--budget", default="15m", help="of each search")
    args = parser.parse_args()
    if unknown := set(args.tasks) - TASKS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(TASKS)}")
    if args.what == "threads":
        sys.exit(threads(args.budget))
    sys.exit(differences(args.tasks or tuple(TASKS), args.budget, args.what == "interleaved"))


if __name__ == "__main__":
    main()
