"""Where the minutes of a duel go: booting, loading, measuring, waiting, for each round of a session that is stored.

    python benchmarks/duel_time.py [SESSION]                  the last one unless given; ESBENCH_HOME as of the duel

Times are of all sides together, from the race that began first to the end of the round. `boot`: until the first step
begins. `once`: steps that are no load, such as creating an index, a refresh, a merge. `load`: tasks that end with their
documents. `measured`: all other tasks. `between`: what is left between the first step and the last, the pilots of round
1 among it. `after`: asking for answers, stopping nodes, writing records.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence

from tabulate import tabulate

from esbench.record.home import esbench_home
from esbench.record.model import RaceRecord, TaskResult
from esbench.record.sessions import RaceSession, SessionStore
from esbench.record.store import RaceStore

PARTS = ("boot", "once", "load", "measured", "between", "after")


def spent(session: RaceSession, races: RaceStore) -> Iterator[tuple[int, float, dict[str, float]]]:
    """Yield each complete round: its number, its seconds, and these by part."""
    for number in range(1, session.rounds_done + 1):
        of_round = session.of_round(number)
        took_s = of_round[0].took_s
        records = [races.load(str(race.race_id)) for race in of_round]
        if took_s is not None and all(record.tasks for record in records):
            yield number, took_s, _parts(records, took_s)


def _parts(records: Sequence[RaceRecord], took_s: float) -> dict[str, float]:
    begins = [_span(record, record.tasks[0])[0] for record in records]
    ends = [max(_span(record, task)[1] for task in record.tasks) for record in records]
    parts = dict.fromkeys(PARTS, 0.0)
    steps = sorted({task.step for task in records[0].tasks})
    for step in steps:
        spans = [(task, _span(record, task)) for record in records for task in record.tasks if task.step == step]
        kind = _kind(spans[0][0])
        if kind == "once":  # one side after the other
            parts[kind] += sum(end - begin for _, (begin, end) in spans)
        else:
            parts[kind] += max(end for _, (_, end) in spans) - min(begin for _, (begin, _) in spans)
    parts["boot"] = min(begins)
    parts["after"] = max(0.0, took_s - max(ends))
    parts["between"] = max(0.0, took_s - sum(parts.values()))
    return parts


def _span(record: RaceRecord, task: TaskResult) -> tuple[float, float]:
    begun_s = task.begun_s or 0.0
    return begun_s, task.clock_until_s(task.duration_s) if task.begun_s is not None else begun_s


def _kind(task: TaskResult) -> str:
    if task.slices is None:
        return "once"
    return "load" if task.operation_type == "bulk" else "measured"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("session", nargs="?", default="last")
    args = parser.parse_args()
    home = esbench_home()
    session = SessionStore(home).load(args.session)
    rounds = list(spent(session, RaceStore(home)))
    if not rounds:
        print(f"session {session.id} has no complete round of sides at once", file=sys.stderr)
        return 1
    lines = [(number, took_s, *(parts[name] for name in PARTS)) for number, took_s, parts in rounds]
    total_s = sum(took_s for _, took_s, _ in rounds)
    sums = [sum(parts[name] for *_, parts in rounds) for name in PARTS]
    lines += [("all", total_s, *sums), ("%", 100.0, *(100 * part / total_s for part in sums))]
    print(tabulate(lines, ("round", "seconds", *PARTS), floatfmt=".1f"))
    return 0


if __name__ == "__main__":
    sys.exit(main())
