"""How long a race takes to begin, and to go from one task to the next; and what is imported meanwhile.

    python benchmarks/startup.py [--races 5] [--imports]

Races a track of tiny tasks against a null server, whose log says when each request was received. Printed:
from the command to its first request at all and to the first one of a task; from the last reply of a task to the
first request of the next; from the last reply to the end of the command; `esbench --help`. Medians and worst ones,
in ms.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from esbench.null_server import NullServer
from esbench.null_server.log import LogLine

TASKS = 8
TASK = "  - {name: task-%d, operation: {operation-type: get, index: orders, id: task-%d}, clients: 8, requests: 200}\n"
TRACK = "schedule:\n" + "".join(TASK % (n, n) for n in range(TASKS))
ESBENCH = [sys.executable, "-m", "esbench.cli.main"]


def race(server: NullServer, track: Path, home: Path) -> dict[str, list[float]]:
    """Durations (ms) of one race, by name."""
    server.reset()
    command = [*ESBENCH, "race", f"--track-path={track}", f"--target-hosts={server.url}", "--quiet"]
    begin_ns = time.monotonic_ns()
    subprocess.run(command, env=os.environ | {"ESBENCH_HOME": str(home)}, check=True, stdout=subprocess.DEVNULL)
    end_ns = time.monotonic_ns()
    log = server.log()
    tasks = [[line for line in log if line.path.endswith(f"/task-{n}")] for n in range(TASKS)]
    return {
        "command -> first request": [(min(line.received_ns for line in log) - begin_ns) / 1e6],
        "command -> first request of a task": [(first_ns(tasks[0]) - begin_ns) / 1e6],
        "task -> next task": [(first_ns(after) - last_ns(task)) / 1e6 for task, after in pairwise(tasks)],
        "last task -> end of the command": [(end_ns - last_ns(tasks[-1])) / 1e6],
    }


def first_ns(lines: list[LogLine]) -> int:
    return min(line.received_ns for line in lines)


def last_ns(lines: list[LogLine]) -> int:
    return max(line.answered_ns or 0 for line in lines)


def help_ms() -> float:
    begin = time.monotonic()
    subprocess.run([*ESBENCH, "--help"], check=True, stdout=subprocess.DEVNULL)
    return (time.monotonic() - begin) * 1000


def print_imports(program: list[str], most: int = 12) -> None:
    """The packages whose own modules take longest to import."""
    shown = subprocess.run([sys.executable, "-X", "importtime", *program], check=True, capture_output=True, text=True)
    own_ms: dict[str, float] = {}
    for own_us, name in re.findall(r"import time: +(\d+) \| +\d+ \| *(\S+)", shown.stderr):
        package = name.partition(".")[0]
        own_ms[package] = own_ms.get(package, 0) + int(own_us) / 1000
    print(f"\nimports of `{' '.join(program)}`: {sum(own_ms.values()):.0f} ms")
    for package in sorted(own_ms, key=lambda name: -own_ms[name])[:most]:
        print(f"  {own_ms[package]:7.1f} ms  {package}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--races", type=int, default=5)
    parser.add_argument("--imports", action="store_true", help="also say what is imported, and how long it takes")
    options = parser.parse_args()
    found: dict[str, list[float]] = {}
    with NullServer(log=True) as server, tempfile.TemporaryDirectory() as folder:
        track = Path(folder, "track")
        track.mkdir()
        (track / "track.yml").write_text(TRACK)
        for _ in range(options.races):
            for name, values in race(server, track, Path(folder, "home")).items():
                found.setdefault(name, []).extend(values)
    found["esbench --help"] = [help_ms() for _ in range(options.races)]
    for name, values in found.items():
        print(f"{name:36} median {statistics.median(values):7.1f} ms   worst {max(values):7.1f} ms")
    if options.imports:
        print_imports(["-c", "import esbench.cli.race, esbench.race.race, esbench.operations, elasticsearch"])
        print_imports(["-c", "import esbench.worker.process, uvloop"])


if __name__ == "__main__":
    main()
