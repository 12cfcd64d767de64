"""What a record of a day costs those who read it, and what telemetry of 50 nodes for a day costs the race's process.

    python benchmarks/day.py [--hours 24] [--nodes 50] [--telemetry-hours 24] [--before PYTHON]

The record is made up: an open loop of about 100 requests a second over a day, a node and the driver's host read once a
second. Prints the seconds of CPU and the highest resident memory of show, compare, export --csv and report; then those
of a thread that is given the readings of the nodes of a day in one step, and what it says of the step's task. With the
Python of another version's virtual environment, that version does the same beside it, and ratios (before / now) are
printed; the task's figures must be the same.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from tabulate import tabulate

from esbench.cluster.client import ClusterInfo
from esbench.features.devices.node_stats import Nodes
from esbench.measure.histogram import Counts, encode
from esbench.record.model import Phase, RaceRecord, Window
from esbench.record.series import SecondLine, TelemetryWriter, encode_second
from esbench.record.store import RaceFolder, RaceStore
from esbench.telemetry.device import Reading, Scene, TaskSpan
from esbench.telemetry.watch import Watched

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from races import golden_race, task_of

MB = 1_000_000
TASK = "get-by-id-open"
BARS = {"export --csv": (10.0, None), "report --html": (10.0, 300.0), "telemetry": (None, 200.0)}  # s, MB
_DISTINCT = 500  # seconds of requests that the day repeats
_INTERVAL_S = 1.05
_TICK_S = 0.02


class Cost(NamedTuple):
    """Seconds of CPU, the highest resident memory in MB, and what was printed."""

    cpu_s: float
    peak_mb: float
    printed: str


def cost(command: Sequence[str], home: Path) -> Cost:
    """Run a command in a process of its own."""
    env = {**os.environ, "ESBENCH_HOME": str(home)}
    run = subprocess.Popen(command, cwd=home, env=env, stdout=subprocess.PIPE, text=True)
    seen: list[int] = []
    watching = threading.Thread(target=watch, args=(run.pid, seen))
    watching.start()
    assert run.stdout is not None
    printed = run.stdout.read()
    _, status, used = os.wait4(run.pid, 0)
    watching.join()
    run.returncode = os.waitstatus_to_exitcode(status)
    if run.returncode:
        sys.exit(f"{' '.join(command)} ended with {run.returncode}")
    return Cost(used.ru_utime + used.ru_stime, max(seen) * 1024 / MB, printed)


def watch(pid: int, seen: list[int]) -> None:
    """Note the process's highest resident memory, in KiB, until it ends: the system's own figure begins with ours."""
    with suppress(OSError):
        while peak := re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text()):
            seen.append(int(peak[1]))
            time.sleep(_TICK_S)


def made_record(home: Path, length_s: int) -> RaceRecord:
    """Store a race of one task that lasts so long."""
    drawn, made = random.Random(1), golden_race()
    seconds = [second_of(drawn) for _ in range(_DISTINCT)]
    folder = RaceStore(home).create("day")
    lines = [replace(seconds[drawn.randrange(_DISTINCT)], second=at) for at in range(length_s)]
    folder.append_seconds(b"".join(map(encode_second, lines)))
    requests = sum(line.requests for line in lines)
    task = replace(
        task_of(made, TASK),
        step=0,
        begun_s=1.0,
        duration_s=float(length_s),
        window=Window(0.0, float(length_s)),
        warmup=Phase(0, 0.0, 0, 0.0),
        due=requests,
        sent=requests,
        requests=requests,
    )
    readings = add_telemetry(folder, length_s, drawn)
    telemetry = {name: {"interval_s": 1.0, "samples": length_s, "readings": count} for name, count in readings.items()}
    record = replace(made, race_id="day", tasks=(task,), telemetry=telemetry)
    folder.save(record)
    return record


def second_of(drawn: random.Random) -> SecondLine:
    """About 100 requests of around 1.2 ms; one second in ten has a slow one, one in a hundred an error."""
    latency, service, lag = Counts(), Counts(), Counts()
    requests = drawn.randint(85, 115)
    for _ in range(requests):
        service_ns, lag_ns = int(drawn.lognormvariate(14, 0.4)), int(drawn.lognormvariate(10.5, 0.5))
        service.add(service_ns)
        lag.add(lag_ns)
        latency.add(service_ns + lag_ns)
    if drawn.random() < 0.1:
        latency.add(slow := drawn.randint(50_000_000, 900_000_000))
        service.add(slow)
        lag.add(40_000)
        requests += 1
    errors = {"503": 1} if drawn.random() < 0.01 else {}
    return SecondLine(
        TASK,
        0,
        "measurement",
        requests,
        requests,
        requests,
        float(requests),
        errors,
        latency=encode(latency),
        service_time=encode(service),
        driver_lag=encode(lag),
    )


def add_telemetry(folder: RaceFolder, length_s: int, drawn: random.Random) -> dict[str, int]:
    """Write readings of a node and of the driver's host; returns how many each device has."""
    lines: list[bytes] = []
    writer, counted = TelemetryWriter(lines.append), {"nodes": 0, "driver": 0}
    for second in range(length_s):
        for device, reading in (
            *(("nodes", reading) for reading in node_readings("node-0", second, drawn)),
            *(("driver", reading) for reading in driver_readings(second, drawn)),
        ):
            writer.add(reading.columns(device), second + 0.3, reading.figures)
            counted[device] += 1
    folder.append_telemetry(b"".join(lines))
    return counted


def node_readings(name: str, second: int, drawn: random.Random) -> Iterator[Reading]:
    """The groups of a node's figures that are read in every race."""
    noise = drawn.random()
    yield Reading(name, "process", {}, {"cpu_ms": 1000 * second + int(900 * noise)})
    yield Reading(name, "os", {"load_1m": round(1 + noise, 2), "memory_used_bytes": 4_000_000_000 + int(1e8 * noise)})
    heap = {"heap_used_percent": 30 + int(40 * noise)}
    yield Reading(name, "jvm", heap, {"gc_ms": 10 * second + int(9 * noise), "gc_count": second // 3})
    yield Reading(name, "thread_pool", {"queued": int(5 * noise)}, {"rejected": second // 100})
    yield Reading(name, "fs", {}, {"read_kb": 5 * second, "written_kb": 800 * second + int(700 * noise)})
    yield Reading(name, "http", {"connections": 60 + int(9 * noise)})


def driver_readings(second: int, drawn: random.Random) -> Iterator[Reading]:
    noise = drawn.random()
    busy = {"busy_s": 0.8 * second + 0.7 * noise, "total_s": 2.0 * second}
    kinds = {f"{kind}_s": 0.2 * second + noise for kind in ("user", "system", "iowait", "steal")}
    yield Reading("host", "cpu", {}, busy | kinds)
    yield Reading("host", "load", {"load_1m": 1 + noise, "runnable": 2.0})
    yield Reading("host", "memory", {"used_bytes": 3_000_000_000.0}, {"swap_in_bytes": 0.0, "swap_out_bytes": 0.0})
    yield Reading("host", "disk", {}, {"read_bytes": 4096.0 * second, "written_bytes": 1e6 * second})
    yield Reading("host", "network", {}, {"received_bytes": 3e6 * second, "sent_bytes": 1e6 * second})
    for process in ("coordinator", "worker-0"):
        yield Reading(process, "process", {}, {"cpu_s": 0.3 * second + noise})


class MadeUp(Nodes):
    """The device of nodes, of which the readings are made up; it asks nobody."""

    def __init__(self, folder: Path, nodes: int) -> None:
        super().__init__(Scene(None, ClusterInfo("elasticsearch", "9.1.0"), (), folder), {"nodes-sample-interval": 1e9})
        self._nodes, self._drawn, self.second = nodes, random.Random(2), 0

    def sample(self) -> Iterable[Reading]:
        return [
            reading
            for node in range(self._nodes)
            for reading in node_readings(f"node-{node}", self.second, self._drawn)
        ]


def telemetry_part(nodes: int, length_s: int) -> None:
    """Give a device's thread the readings of so long a step; prints the task's figures, as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        now_s = 0.0
        device = MadeUp(Path(folder), nodes)
        watched = Watched(device, lambda: now_s, lambda *_: None)
        while now_s < length_s:  # what its thread does at each interval, at once
            device.second = int(now_s)
            watched._sample()
            now_s += _INTERVAL_S
        begun_s = time.monotonic()
        watched.start()
        watched.end_step(0, [TaskSpan("task", 0.5, now_s - 0.5, 300.2, now_s - 0.5)])
        watched.close().result()
        took_s = time.monotonic() - begun_s
    ((_, told),) = watched.told.items()
    print(json.dumps({"told": told, "took_s": took_s}))


def parts(record: RaceRecord, page: Path, given: argparse.Namespace) -> Mapping[str, Sequence[str]]:
    """What is measured, without the Python that runs it."""
    cli = ("-m", "esbench.cli.main")
    options = (f"--nodes={given.nodes}", f"--telemetry-hours={given.telemetry_hours}")
    return {
        "show": (*cli, "show", record.race_id),
        "compare": (*cli, "compare", record.race_id, record.race_id),
        "export --csv": (*cli, "export", record.race_id, "--csv"),
        "report --html": (*cli, "report", record.race_id, f"--html={page}"),
        "telemetry": (str(Path(__file__).resolve()), "--only-telemetry", *options),
    }


def row(name: str, now: Cost, before: Cost | None) -> list[Any]:
    most_s, most_mb = BARS.get(name, (None, None))
    late = most_s is not None and now.cpu_s >= most_s
    large = most_mb is not None and now.peak_mb >= most_mb
    bar = ", ".join(f"< {bar:g} {unit}" for bar, unit in ((most_s, "s"), (most_mb, "MB")) if bar is not None)
    said = [name, now.cpu_s, now.peak_mb, bar, ("NO" if late or large else "yes") if bar else ""]
    if before is not None:
        said += [before.cpu_s, before.peak_mb, before.cpu_s / now.cpu_s, before.peak_mb / now.peak_mb]
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--telemetry-hours", type=float, default=24)
    parser.add_argument("--before", metavar="PYTHON")
    parser.add_argument("--only", metavar="PART", default="")
    parser.add_argument("--only-telemetry", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.only_telemetry:
        telemetry_part(given.nodes, int(3600 * given.telemetry_hours))
        return
    rows, told = [], []
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        record = made_record(home, int(3600 * given.hours))
        sizes = (
            f"{path.name} {path.stat().st_size / MB:.0f} MB" for path in RaceStore(home).folder("day").path.iterdir()
        )
        print(f"{given.hours:g} h: {', '.join(sorted(sizes))}")
        print(f"telemetry: {given.nodes} nodes for {given.telemetry_hours:g} h")
        page = home / "page.html"
        for what, command in parts(record, page, given).items():
            if given.only not in what:
                continue
            now = cost([sys.executable, *command], home)
            before = cost([given.before, *command], home) if given.before else None
            rows.append(row(what, now, before))
            told = (
                [json.loads(each.printed) for each in (now, before) if each is not None] if what == "telemetry" else []
            )
        page_mb = page.stat().st_size / MB if page.exists() else 0.0
    headers = ["", "s of CPU", "MB at most", "bar", "met", "s before", "MB before", "s before / now", "MB before / now"]
    print(tabulate(rows, headers[: len(rows[0])], floatfmt=".1f", missingval=""))
    after = ", ".join(f"{each['took_s']:.1f} s" for each in told)
    print(f"page: {page_mb:.1f} MB; figures of the step's task {after} after its end")
    if given.before:
        print(f"the same figures of the task: {'yes' if told[0]['told'] == told[1]['told'] else 'NO'}")


if __name__ == "__main__":
    main()
