"""Whether a worker's memory and the record stay small in a long task: 10 million requests against a null server.

    python benchmarks/memory.py [--requests 10_000_000] [--clients 64] [--rate 0] [--reconnects 100_000]
        [--waiting 10_000_000]

Takes about four minutes; needs nginx, openssl and two cores. With a rate (requests per second) the loop is open: more
histograms a second, and a longer task. Prints the worker's resident memory at the start of the load, at most and at
its end, and the sizes of the race's files, beside the bars: flat and under 150 MB, race.json under 1 MB, the folder
under 10 MB. Then what 100,000 connections leave that end after a request each, without a garbage collector: nothing;
and what a line of 10 million waiting arrivals takes: less than 100 MB. With --requests 0 these two alone.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import uvloop
import yaml
from null_nginx import null_nginx
from programs import need, race_command
from tabulate import tabulate

from esbench.cluster.options import Access, ClientOptions, parse_hosts
from esbench.load.client import Route, TemplateClient
from esbench.load.hosts import Hosts
from esbench.load.hot import clock_ns
from esbench.load.loops import ClosedLoop, Length, Line
from esbench.load.recorder import Recorder
from esbench.measure.slices import WholeTime
from esbench.null_server import NullServer
from esbench.operations.replies import judge_found
from esbench.record.store import RaceStore
from esbench.requests.exchange import Exchange

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
                if "esbench.worker.process" in child.cmdline():
                    seen.append(child.memory_info().rss)
        except psutil.Error:
            pass  # it has just ended
        time.sleep(_TICK_S)
    if race.returncode or len(seen) < 10:
        sys.exit("the race failed, or was over too soon")
    return seen


def verdict(value_bytes: float, bar_bytes: float) -> list[str]:
    return [f"{value_bytes / MB:.2f} MB", f"< {bar_bytes / MB:.0f} MB", "yes" if value_bytes < bar_bytes else "NO"]


def race_rows(requests: int, clients: int, rate: int) -> list[list[str]]:
    """Race, and measure the worker and the files."""
    need("nginx", "openssl", "taskset")
    with tempfile.TemporaryDirectory() as name, null_nginx(Path(name)) as server:
        home = server.folder / "home"
        track = write_track(server.folder, requests, clients, rate)
        command = race_command(track, f"127.0.0.1:{server.port}")
        environment = {**os.environ, "ESBENCH_HOME": str(home)}
        race = subprocess.Popen(["taskset", "-c", "0", *command], env=environment, stdout=subprocess.DEVNULL)
        memory = worker_memory(race)
        store = RaceStore(home)
        (task,) = store.load("last").tasks
        files = [path for path in store.folder("last").path.rglob("*") if path.is_file()]
        sizes = {path.name: path.stat().st_size for path in files}
    start, end = memory[len(memory) // 10], memory[-2]  # after the first tenth, and before it left
    print(f"{task.requests:,} requests, {task.errors} errors, {task.duration_s:.0f} s")
    return [
        ["worker, after a tenth of the time", f"{start / MB:.2f} MB", "", ""],
        ["worker, at most", *verdict(max(memory), 150 * MB)],
        ["worker, what it grew by after that", *verdict(max(0, end - start), 5 * MB)],
        *([name, f"{size / MB:.2f} MB", "", ""] for name, size in sorted(sizes.items()) if name != "race.json"),
        ["race.json", *verdict(sizes["race.json"], MB)],
        ["the race's folder", *verdict(sum(sizes.values()), 10 * MB)],
    ]


async def reconnect(url: str, requests: int, clients: int = 8) -> None:
    """Send requests in a closed loop."""
    hosts = Hosts(parse_hosts([url], None)[0], ClientOptions(), lost=lambda: None, back=lambda: None)
    exchange = Exchange("", lambda drawn: (b"GET /orders/_doc/1 HTTP/1.1\r\nHost: x\r\n\r\n",), judge_found)
    program = SimpleNamespace(exchanges=(exchange,), draw=lambda: None)
    made = [TemplateClient(slot, Route(hosts, Access(), b"", 10), program) for slot in range(clients)]
    for client in made:
        await client.connect()
    ended, start_ns = asyncio.Event(), clock_ns()
    recorder = Recorder(WholeTime(start_ns), is_open=False)
    loop = ClosedLoop(made, recorder, Length(requests=requests), ended=ended.set, failed=print)
    loop.start(start_ns)
    while not ended.is_set():
        await asyncio.sleep(0.1)
        for _ in recorder.closed_seconds(clock_ns()):
            pass
    loop.close()
    hosts.close()


async def reconnected_bytes(requests: int) -> int:
    """What a process grows by while each reply ends its connection."""
    with NullServer({"rules": [{"path": "_doc", "connection_close": True}]}) as server:
        await reconnect(server.url, 5_000)
        gc.collect()
        gc.disable()
        before = psutil.Process().memory_info().rss
        await reconnect(server.url, requests)
        grown = psutil.Process().memory_info().rss - before
        gc.enable()
    return max(0, grown)


def waiting_bytes(arrivals: int) -> int:
    """What a process grows by with a line of so many arrivals, 5,000 a second, half of them seen late."""
    before = psutil.Process().memory_info().rss
    line = Line()
    for number in range(arrivals):
        due_ns = number * 200_000
        line.append(due_ns, (due_ns // 500_000_000 + 1) * 500_000_000 if due_ns // 500_000_000 % 2 else due_ns)
    assert line.length == arrivals
    return psutil.Process().memory_info().rss - before


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=10 * MB)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--reconnects", type=int, default=100_000)
    parser.add_argument("--waiting", type=int, default=10 * MB)
    arguments = parser.parse_args()
    rows = race_rows(arguments.requests, arguments.clients, arguments.rate) if arguments.requests else []
    if arguments.reconnects:
        grown = uvloop.run(reconnected_bytes(arguments.reconnects))
        each = f"{arguments.reconnects:,} connections, {grown / arguments.reconnects:.0f} bytes each"
        rows.append([each, *verdict(grown, MB)])
    if arguments.waiting:
        grown = waiting_bytes(arguments.waiting)
        each = f"{arguments.waiting:,} waiting arrivals, {grown / arguments.waiting:.0f} bytes each"
        rows.append([each, *verdict(grown, 100 * MB)])
    print(tabulate(rows, ["", "measured", "bar", "met"], disable_numparse=True, stralign="right"))


if __name__ == "__main__":
    main()
