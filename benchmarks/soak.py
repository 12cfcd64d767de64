"""Whether a long race with every telemetry device loses nothing and grows nowhere, against the null server.

    python benchmarks/soak.py [--minutes 120] [--rate 2000] [--clients 32]

An open loop of GETs by id, with all devices that need no node of esbench's own. Every five seconds the resident memory
and the open descriptors of each process are noted: the race's, its workers', the null server's. Prints them after a
tenth of the time and at the end (medians of a tenth), and ends with 1 unless requests that the server counted are those
of the record and of its seconds, no process grew by 5 MB or more, and none has more descriptors at its end.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import psutil
import yaml
from programs import race_command
from tabulate import tabulate

from esbench.null_server import NullServer
from esbench.record.series import seconds_of
from esbench.record.store import RaceStore
from esbench.telemetry import builtin_devices

MB = 1_000_000
GROWN_MB = 5.0
_TICK_S = 5.0
_CLASS = "GET /*/_doc/*"


class Seen(NamedTuple):
    """A process at a moment: resident memory in MB, open descriptors, threads."""

    rss_mb: float
    descriptors: int
    threads: int


def write_track(folder: Path, minutes: float, rate: int, clients: int) -> Path:
    get = {"operation-type": "get", "index": "orders", "id": "$[[n]]"}
    task = {"name": "get", "operation": get, "clients": clients, "time-period": 60 * minutes, "target-throughput": rate}
    track = {"variables": [{"name": "n", "type": "range", "from": 1, "to": 100_000}], "schedule": [task]}
    path = folder / "track.yml"
    path.write_text(yaml.safe_dump(track))
    return path


def all_devices() -> str:
    registry = builtin_devices()
    kinds = {name: registry.get(name) for name in registry}
    return ",".join(name for name, kind in kinds.items() if not kind.embedded_only and not kind.always)


def watch(race: subprocess.Popen[bytes], server: int) -> dict[str, list[Seen]]:
    """What is seen of each process, by its name, until the race has ended."""
    found: dict[str, list[Seen]] = defaultdict(list)
    while race.poll() is None:
        try:
            parent = psutil.Process(race.pid)
            named = {"null server": psutil.Process(server), "race": parent}
            workers = sorted(child.pid for child in parent.children() if "esbench.worker.process" in child.cmdline())
            named |= {f"worker {number}": psutil.Process(pid) for number, pid in enumerate(workers)}
            for name, process in named.items():
                with process.oneshot():
                    rss = process.memory_info().rss
                    found[name].append(Seen(rss / MB, process.num_fds(), process.num_threads()))
        except psutil.Error:
            pass  # it has just ended
        time.sleep(_TICK_S)
    return found


def median_of(seen: Sequence[Seen]) -> Seen:
    rss_mb, descriptors, threads = zip(*seen, strict=True)
    return Seen(statistics.median(rss_mb), statistics.median_high(descriptors), statistics.median_high(threads))


def rows_of(found: dict[str, list[Seen]]) -> tuple[list[list[object]], bool]:
    """A row for each process, and whether all are flat."""
    rows: list[list[object]] = []
    flat = True
    for name, seen in found.items():
        seen = seen[:-1]  # the last one may be that of an end
        tenth = max(2, len(seen) // 10)
        early, late = median_of(seen[tenth : 2 * tenth]), median_of(seen[-tenth:])
        is_flat = late.rss_mb - early.rss_mb < GROWN_MB and late.descriptors <= early.descriptors
        flat = flat and is_flat
        growth = f"{early.rss_mb:.1f} to {late.rss_mb:.1f}"
        descriptors = f"{early.descriptors} to {late.descriptors}"
        rows.append([name, growth, descriptors, f"{early.threads} to {late.threads}", "yes" if is_flat else "NO"])
    return rows, flat


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--rate", type=int, default=2000)
    parser.add_argument("--clients", type=int, default=32)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name, NullServer() as server:
        home = Path(name, "home")
        track = write_track(Path(name), given.minutes, given.rate, given.clients)
        command = race_command(
            track, server.url.removeprefix("http://"), f"--telemetry={all_devices()}", "--no-answers"
        )
        race = subprocess.Popen(command, env={**os.environ, "ESBENCH_HOME": str(home)}, stdout=subprocess.DEVNULL)
        try:
            found = watch(race, server.pid)
        finally:
            race.terminate()
            race.wait()
        if race.returncode:
            sys.exit(f"the race ended with {race.returncode}")
        counted = server.counts().by_class.get(_CLASS, 0)
        record, folder = RaceStore(home).load("last"), RaceStore(home).folder("last")
        (task,) = record.tasks
        recorded = task.requests + task.warmup.requests
        in_seconds = sum(line.requests for line in seconds_of(record, folder.seconds_file))
        sizes = {path.name: path.stat().st_size / MB for path in folder.path.iterdir() if path.is_file()}
    rows, flat = rows_of(found)
    print(tabulate(rows, ["", "resident MB", "descriptors", "threads", "flat"], disable_numparse=True))
    print(", ".join(f"{name} {size:.1f} MB" for name, size in sorted(sizes.items())))
    unseen = {name: facts["missed"] for name, facts in record.telemetry.items() if facts.get("missed")}
    print(f"devices: {', '.join(record.telemetry)}; missed samples: {unseen or 'none'}")
    print(f"requests: the server counted {counted:,}, the record has {recorded:,} ({task.errors} errors), its seconds")
    print(f"{in_seconds:,}: {'equal' if counted == recorded == in_seconds else 'NOT EQUAL'}")
    if not flat or not counted == recorded == in_seconds:
        sys.exit(1)


if __name__ == "__main__":
    main()
