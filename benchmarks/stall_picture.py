"""Draws docs/images/stall.svg: what an open and a closed loop say about a server that stalls for half a second.

    python benchmarks/stall_picture.py [--out docs/images/stall.svg]

Races the built-in null server, which answers after 5 ms on average and stalls once, and prints the figures that
docs/method.md quotes. The upper pictures come from the server's log (arrival n of the open loop asks for document n,
and is due at start + n / rate), the lower one comes from the histograms of the race's record. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from programs import race_command

from esbench.measure.histogram import decode, lowest_equivalent_ns
from esbench.null_server import NullServer
from esbench.null_server.log import LogLine
from esbench.record.model import TaskResult
from esbench.record.store import RaceStore

CLIENTS = 8
RATE = 200
SECONDS = 20
STALL_AT_S = 10
STALL_S = 0.5
DELAY = {"type": "exponential", "mean_ms": 5}
STALL = {"at_s": STALL_AT_S, "for_s": STALL_S}
SCRIPT = {
    "rules": [
        {
            "path": f"/_doc/{loop}-",
            "since": "first-match",
            "stall": {"at_s": STALL_AT_S, "for_s": STALL_S},
            "delay": DELAY,
        }
        for loop in ("open", "closed")
    ]
}
LATENCY = ("latency, open loop", "#d1495b")
OPEN = ("service time, open loop", "#2a7fba")
CLOSED = ("service time, closed loop", "#3a9d6e")
RANKS = (50, 90, 99, 99.9, 99.99)
SLOW_MS = 100
FROM_S, TO_S = -0.15, 0.7  # what the upper picture shows, from the stall's begin

Point = tuple[float, float]  # seconds from the stall's begin, milliseconds


def track() -> dict[str, object]:
    def task(loop: str, **keys: object) -> dict[str, object]:
        operation = {"operation-type": "get", "index": "orders", "id": f"{loop}-$[[n]]"}
        return {"name": loop, "operation": operation, "clients": CLIENTS, "time-period": SECONDS, **keys}

    variables = [{"name": "n", "type": "sequence", "from": 0}]
    return {"variables": variables, "schedule": [task("open", **{"target-throughput": RATE}), task("closed")]}


def race(server: NullServer, folder: Path) -> dict[str, TaskResult]:
    (folder / "track.json").write_text(json.dumps(track()))
    command = race_command(folder / "track.json", server.url)
    home = folder / "home"
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "ESBENCH_HOME": str(home)})
    return {task.name: task for task in RaceStore(home).load("last").tasks}


def requests(log: Sequence[LogLine], loop: str) -> list[tuple[int, LogLine]]:
    """The requests of a task by the number of their document."""
    marked = f"/_doc/{loop}-"
    return [(int(line.path.partition(marked)[2]), line) for line in log if marked in line.path]


def service_times(log: Sequence[LogLine], loop: str) -> list[Point]:
    """When each request was received, and how long it took, as the server saw it."""
    lines = [line for _, line in requests(log, loop)]
    begin_ns = min(line.received_ns for line in lines) + STALL_AT_S * 10**9
    return [((line.received_ns - begin_ns) / 1e9, _took_ms(line, line.received_ns)) for line in lines]


def latencies(log: Sequence[LogLine], loop: str) -> list[Point]:
    """When each request was due, and how long after that it was answered."""
    numbered = requests(log, loop)
    gap_ns = 1e9 / RATE
    start_ns = min(line.received_ns - number * gap_ns for number, line in numbered)  # of the least late one
    begin_ns = min(line.received_ns for _, line in numbered) + STALL_AT_S * 10**9
    due = [(start_ns + number * gap_ns, line) for number, line in numbered]
    return [((due_ns - begin_ns) / 1e9, _took_ms(line, due_ns)) for due_ns, line in due]


def _took_ms(line: LogLine, since_ns: float) -> float:
    assert line.answered_ns is not None
    return (line.answered_ns - since_ns) / 1e6


def draw_requests(axes: Axes, label: str, colour: str, points: Sequence[Point]) -> None:
    """One dot for each request near the stall."""
    shown = [point for point in points if FROM_S <= point[0] <= TO_S]
    slow = sum(ms > SLOW_MS for _, ms in shown)
    axes.axvspan(0, STALL_S, color="#ececec", linewidth=0)
    axes.plot(*zip(*shown, strict=True), ".", markersize=4, markeredgewidth=0, color=colour)
    axes.text(0.97, 0.9, f"{slow} over {SLOW_MS} ms", transform=axes.transAxes, ha="right", color="#333333")
    axes.set(xlim=(FROM_S, TO_S), ylim=(0, STALL_S * 1000 + 80), title=label)


def draw_percentiles(axes: Axes, curves: dict[tuple[str, str], list[Point]]) -> None:
    for (label, colour), curve in curves.items():
        axes.step(*zip(*curve, strict=True), where="pre", color=colour, label=label, linewidth=2)
    axes.set(xscale="log", yscale="log", xlim=(2, 20_000), ylabel="ms", xlabel="percentile")
    axes.set_xticks([1 / (1 - rank / 100) for rank in RANKS], [f"p{rank:g}" for rank in RANKS])
    axes.set_xticks([], minor=True)
    axes.set_yticks([5, 10, 50, 100, 500], ["5", "10", "50", "100", "500"])
    axes.set_yticks([], minor=True)
    axes.set_title(f"Percentiles of the {SECONDS} s race", loc="left")
    axes.legend(frameon=False, loc="upper left")


def percentile_curve(histogram: str) -> list[Point]:
    """(1 / (1 - rank), ms) of the durations from the median on."""
    counts = decode(histogram)
    curve: list[Point] = []
    below = 0
    for index, count in sorted(counts.buckets.items()):
        below += count
        ms = lowest_equivalent_ns(index) / 1e6
        if 2 * below >= counts.count and (not curve or ms > 1.01 * curve[-1][1]):  # finer steps cannot be seen
            beyond = max(counts.count - below, 0.5)  # the longest one has nothing beyond it
            curve.append((counts.count / beyond, ms))
    return curve


def print_figures(tasks: dict[str, TaskResult]) -> None:
    for name, task in tasks.items():
        print(f"{name}: {task.requests} requests, {task.throughput.mean:.0f}/s")
        for measure in ("latency", "service_time", "client_wait", "driver_lag"):
            found = getattr(task, f"{measure}_ms")
            if found:
                shown = "  ".join(f"{key} {ms:.3g}" for key, ms in found.items())
                buckets = decode(task.histograms[measure]).buckets.items()
                slow = sum(count for index, count in buckets if lowest_equivalent_ns(index) > SLOW_MS * 1e6)
                print(f"  {measure:12} {shown}  over {SLOW_MS} ms: {slow}")
        for check in task.checks:
            print(f"  {check.level}: {check.name}: {check.message}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images" / "stall.svg")
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as name, NullServer(SCRIPT, log=True) as server:
        tasks = race(server, Path(name))
        log = server.log()
    print_figures(tasks)
    mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "stall", "font.family": "sans-serif", "font.size": 10})
    figure, panels = plt.subplot_mosaic(
        [["latency", "open", "closed"], ["percentiles"] * 3], figsize=(9, 7), layout="constrained"
    )
    draw_requests(panels["latency"], *LATENCY, latencies(log, "open"))
    draw_requests(panels["open"], *OPEN, service_times(log, "open"))
    draw_requests(panels["closed"], *CLOSED, service_times(log, "closed"))
    panels["latency"].set(xlabel="due, seconds from the stall", ylabel="ms")
    panels["open"].set(xlabel="sent, seconds from the stall")
    panels["closed"].set(xlabel="sent, seconds from the stall")
    histograms = {
        LATENCY: tasks["open"].histograms["latency"],
        OPEN: tasks["open"].histograms["service_time"],
        CLOSED: tasks["closed"].histograms["service_time"],
    }
    curves = {label: percentile_curve(histogram) for label, histogram in histograms.items()}
    draw_percentiles(panels["percentiles"], curves)
    for axes in panels.values():
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
    out.parent.mkdir(parents=True, exist_ok=True)
    svg = io.StringIO()
    figure.savefig(svg, format="svg", metadata={"Date": None})
    out.write_text(re.sub(r"(\d\.\d\d)\d+|[ \t]+(?=\n)", r"\1", svg.getvalue()))  # a hundredth of a point is enough
    print(f"{out}: {out.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main()
