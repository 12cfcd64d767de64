"""Whether a worker's memory and the record stay small in a long task: 10 million requests against a null server.

    python benchmarks/memory.py [--requests 10_000_000] [--clients 64] [--rate 0]

Takes about three minutes; needs nginx, openssl and two cores. With a rate (requests per second) the loop is open: more
histograms a second, and a longer task. Prints the worker's resident memory at the start of the load, at most and at
its end, and the sizes of the race's files, beside the bars: flat and under 150 MB, race.json under 1 MB, the folder
under 10 MB.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
import yaml
from null_nginx import null_nginx
from programs import need, race_command
from tabulate import tabulate

from esbench.store import RaceStore

MB = 1_000_000
_TICK_S = 0.5


def write_track(folder: Path, requests: int, clients: int, rate: int) -> Path:
    get = {"operation-type": "get", "index": "orders", "id": "$[[n]]"}
    task = {"name": "get", "operation": get, "clients": clients, "requests": requests}
    track = {
        "variables": [{"name": "n", "type": "range", "from": 1, "to": 100_000}],
        "schedule": [{**task, "target-throughput": rate} if rate else task],
    }
    path = folder / "track.yml"
    path.write_text(yaml.safe_dump(track))
    return path


def worker_memory(race: subprocess.Popen[bytes]) -> list[int]:
    """The resident bytes of the race's worker, twice a second until it has ended."""
    seen: list[int] = []
    while race.poll() is None:
        try:
            for child in psutil.Process(race.pid).children():
                if "esbench.load.worker" in child.cmdline():
                    seen.append(child.memory_info().rss)
        except psutil.Error:
            pass  # it has just ended
        time.sleep(_TICK_S)
    if race.returncode or len(seen) < 10:
        sys.exit("the race failed, or was over too soon")
    return seen


def verdict(value_bytes: float, bar_bytes: float) -> list[str]:
    return [f"{value_bytes / MB:.2f} MB", f"< {bar_bytes / MB:.0f} MB", "yes" if value_bytes < bar_bytes else "NO"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10 * MB)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=int, default=0)
    arguments = parser.parse_args()
    need("nginx", "openssl", "taskset")
    with tempfile.TemporaryDirectory() as name, null_nginx(Path(name)) as server:
        home = server.folder / "home"
        track = write_track(server.folder, arguments.requests, arguments.clients, arguments.rate)
        command = race_command(track, f"127.0.0.1:{server.port}")
        environment = {**os.environ, "ESBENCH_HOME": str(home)}
        race = subprocess.Popen(["taskset", "-c", "0", *command], env=environment, stdout=subprocess.DEVNULL)
        memory = worker_memory(race)
        store = RaceStore(home)
        (task,) = store.load("last").tasks
        files = [path for path in store.folder("last").path.rglob("*") if path.is_file()]
        sizes = {path.name: path.stat().st_size for path in files}
    start, end = memory[len(memory) // 10], memory[-2]  # after the first tenth, and before it left
    rows = [
        ["worker, after a tenth of the time", f"{start / MB:.2f} MB", "", ""],
        ["worker, at most", *verdict(max(memory), 150 * MB)],
        ["worker, what it grew by after that", *verdict(max(0, end - start), 5 * MB)],
        *([name, f"{size / MB:.2f} MB", "", ""] for name, size in sorted(sizes.items()) if name != "race.json"),
        ["race.json", *verdict(sizes["race.json"], MB)],
        ["the race's folder", *verdict(sum(sizes.values()), 10 * MB)],
    ]
    print(f"{task.requests:,} requests, {task.errors} errors, {task.duration_s:.0f} s")
    print(tabulate(rows, ["", "measured", "bar", "met"], disable_numparse=True, stralign="right"))


if __name__ == "__main__":
    main()
