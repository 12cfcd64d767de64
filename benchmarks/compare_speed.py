"""How long a comparison takes: two sides of ten rounds, ten minutes and ten tasks each, read from disk.

    python benchmarks/compare_speed.py [--rounds 10] [--seconds 600] [--tasks 10]

Records and seconds are made up and written to a temporary home. What is timed is what `esbench compare SESSION` does in
its process: finding, reading, comparing, rendering. Median of five.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from esbench.cli.compare import compare_stored
from esbench.measure.histogram import Counts, encode, percentiles_ns
from esbench.record.model import RaceRecord, Session, TaskResult, Throughput, Window
from esbench.record.series import SecondLine, encode_second
from esbench.record.sessions import RaceSession, SessionRace, SessionSide, SessionStore
from esbench.record.store import RaceStore
from esbench.report.comparison import comparison
from esbench.report.render import render

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from races import golden_race, task_of

SIDES = ("baseline", "contender")


def second(drawn: random.Random, samples: int) -> Counts:
    counts = Counts()
    for _ in range(samples):
        counts.add(int(drawn.lognormvariate(14, 0.6)))  # around 1.2 ms
    return counts


def task(template: TaskResult, number: int, length_s: int, whole: Counts) -> TaskResult:
    percentiles = {f"p{rank:g}": ns / 1e6 for rank, ns in percentiles_ns(whole, (50.0, 99.0)).items()}
    return replace(
        template,
        name=f"task-{number}",
        step=number,
        window=Window(0.0, length_s),
        requests=whole.count * length_s,
        throughput=Throughput("ops", 1000.0 + number),
        service_time_ms={**percentiles, "max": whole.max_ns / 1e6},
        checks=(),
    )


def write(home: Path, rounds: int, length_s: int, tasks: int, drawn: random.Random) -> None:
    """A session of two sides that took turns; each task of a race has its share of the race's seconds."""
    store, plan = RaceStore(home), []
    counted = second(drawn, 1000)
    encoded = encode(counted)
    template = task_of(golden_race(), "get-by-id")
    for number in range(2 * rounds):
        name, place = SIDES[(number + 1) // 2 % 2], number + 1
        record: RaceRecord = golden_race(
            race_id=f"r{place:03}",
            started_at=f"2026-11-21T10:{number:02}:00+00:00",
            session=Session("speed", "duel", name, number // 2 + 1, number // 2 + 1, place),
            tasks=tuple(task(template, n, length_s // tasks, counted) for n in range(tasks)),
        )
        folder = store.create(record.race_id)
        lines = (
            SecondLine(f"task-{n}", at, "measurement", 0, 1000, 1000, 1000, service_time=encoded)
            for n in range(tasks)
            for at in range(length_s // tasks)
        )
        folder.append_seconds(b"".join(map(encode_second, lines)))
        folder.save(record)
        plan.append(SessionRace(name, number // 2 + 1, place, record.race_id, "complete", 600.0))
    sides = tuple(SessionSide(name) for name in SIDES)
    SessionStore(home).save(RaceSession("speed", "duel", "2026-11-21T10:00:00Z", 1, (), sides, tuple(plan)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seconds", type=int, default=600)
    parser.add_argument("--tasks", type=int, default=10)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        write(home, options.rounds, options.seconds, options.tasks, random.Random(1))
        took = []
        for _ in range(5):
            began = time.perf_counter()
            render(comparison(compare_stored(home, "speed")), "text")
            took.append(time.perf_counter() - began)
    print(
        f"2 x {options.rounds} races of {options.seconds} s, {options.tasks} tasks: "
        f"{statistics.median(took):.2f} s (first {took[0]:.2f} s)"
    )


if __name__ == "__main__":
    main()
