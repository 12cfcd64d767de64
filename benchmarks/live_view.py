"""What the live view costs: the CPU that it takes of one core while tasks run.

    python benchmarks/live_view.py [--tasks 1] [--seconds 20] [--columns 200] [--rows 50]

A scripted stream of seconds goes to the view, as a race would tell it: for each task once a second a histogram of
5,000 requests over about 1,500 buckets, and twice a second how busy a server is. The terminal is a pty that somebody
empties. Everything is made before the clock starts; what is measured is all CPU time of this process, the imports of
rich left out.
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import random
import struct
import termios
import threading
import time
from contextlib import suppress
from typing import TextIO

from esbench.measure.tally import Second, Tally
from esbench.model import Operation, Schedule, Step, Task
from esbench.progress.live import LiveProgress
from esbench.telemetry.device import Reading
from esbench.units import Rate

REQUESTS = 5_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, default=1)
    parser.add_argument("--seconds", type=int, default=20)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--rows", type=int, default=50)
    given = parser.parse_args()
    names = [f"task-{number}" for number in range(given.tasks)]
    seconds = [second_of(number) for number in range(given.seconds)]
    schedule = Schedule(rate=Rate(REQUESTS, "ops"))
    read = Operation("read", "get")
    step = Step(tuple(Task(name, read, 8, schedule, time_period_s=given.seconds) for name in names))
    terminal, written = opened_terminal(given.columns, given.rows)
    os.environ["TERM"] = "xterm-256color"
    with LiveProgress(terminal) as view:
        view.step_begins(0, step)
        time.sleep(1)  # imports
        view.step_runs(0, dict.fromkeys(names, "ops"))
        begun_s, cpu_s, bytes_before = time.monotonic(), time.process_time(), written[0]
        for number, second in enumerate(seconds):
            for half in range(2):
                view.read("nodes", Reading("node-0", "jvm", {"heap_used_percent": 40.0 + half}))
                view.read("nodes", Reading("node-0", "process", counters={"cpu_ms": 1000.0 * number + 500 * half}))
                time.sleep(max(0.0, begun_s + number + half / 2 - time.monotonic()))
            for name in names:
                view.second(name, second)
        took_s, cpu_s = time.monotonic() - begun_s, time.process_time() - cpu_s
    print(
        f"{given.tasks} tasks, {given.columns} columns: {100 * cpu_s / took_s:.2f} % of a core, "
        f"{(written[0] - bytes_before) / took_s / 1024:.1f} KB/s"
    )


def second_of(number: int) -> Second:
    """A second's worth of requests: log-normal latencies around 1 ms."""
    draw, tally = random.Random(number).lognormvariate, Tally()
    tally.due = tally.sent = tally.requests = REQUESTS
    tally.units = REQUESTS
    for _ in range(REQUESTS):
        ns = int(1e6 * draw(0.0, 0.3))
        tally.latency.add(ns)
        tally.service_time.add(ns)
        tally.schedule_lag.add(ns // 20)
    return Second(number, False, tally)


def opened_terminal(columns: int, rows: int) -> tuple[TextIO, list[int]]:
    """A pty of that size, and how many bytes were written to it so far."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    written = [0]

    def empty() -> None:
        with suppress(OSError):  # the end
            while True:
                written[0] += len(os.read(ours, 65536))

    threading.Thread(target=empty, daemon=True).start()
    return os.fdopen(theirs, "w"), written


if __name__ == "__main__":
    main()
