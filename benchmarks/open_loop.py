"""How punctual the driver is: open loops at 1,000/s over 8 clients and 10,000/s over 64, a null server.

    python benchmarks/open_loop.py [--seconds 10] [--rounds 3] [--rally=FOLDER]

nginx answers on CPU 1, esbench sends from CPU 0. Prints of each rate, medians of the rounds: what was achieved, driver
lag, latency and service time in us, CPU per request of the load worker, and the bars; and that CPU beside a closed
loop's, at the same rate (its clients think in between) and as fast as it can. With --rally its target-throughput of
1,000/s over 8 clients, too. Needs nginx and openssl.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from null_nginx import NullNginx, null_nginx
from peer_tracks import write_get_tracks
from programs import need, race_command, watch
from rally import Rally, add_rally_option
from tabulate import tabulate

from esbench.record.store import RaceStore

RATES = {1_000: 8, 10_000: 64}  # requests per second: clients
ACHIEVED, CPU = "achieved/s", "CPU us/request"
LAG_P50, LAG_P99, LATENCY_P50 = "driver lag p50 us", "driver lag p99 us", "latency p50 us"
BARS: Mapping[tuple[int, str], tuple[float, float]] = {  # from, to
    (1_000, LAG_P50): (0, 80),
    (1_000, LAG_P99): (0, 400),
    (1_000, LATENCY_P50): (0, 200),
    (10_000, ACHIEVED): (9_990, 10_010),
    (10_000, LAG_P50): (0, 80),
    (10_000, LAG_P99): (0, 400),
}

Figures = Mapping[str, float]


def write_tracks(folder: Path, name: str, clients: int, seconds: int, **keys: float) -> tuple[Path, Path]:
    """GETs at a rate, or of a closed loop: for esbench and for Rally."""
    place = folder / name
    place.mkdir()
    task = {"clients": clients, "warmup-time-period": 2, "time-period": seconds, **keys}
    return write_get_tracks(place, [str(number) for number in range(100_000)], task)


def esbench(server: NullNginx, track: Path) -> Figures:
    home = server.folder / "home"
    command = race_command(track, f"127.0.0.1:{server.port}")
    env = {**os.environ, "ESBENCH_HOME": str(home)}
    subprocess.run(["taskset", "-c", "0", *command], check=True, stdout=subprocess.DEVNULL, env=env)
    record = RaceStore(home).load("last")
    (task,) = record.tasks
    assert task.service_time_ms
    requests = task.requests + task.warmup.requests
    cost = {CPU: sum(driver.cpu_s for driver in record.drivers) / requests * 1e6}
    if task.driver_lag_ms is None or task.latency_ms is None:
        return {ACHIEVED: task.throughput.mean or 0.0, **cost}
    return {
        ACHIEVED: task.throughput.mean or 0.0,
        LAG_P50: task.driver_lag_ms["p50"] * 1000,
        LAG_P99: task.driver_lag_ms["p99"] * 1000,
        LATENCY_P50: task.latency_ms["p50"] * 1000,
        "latency p99 us": task.latency_ms["p99"] * 1000,
        "service p50 us": task.service_time_ms["p50"] * 1000,
        **cost,
    }


def rally_at(server: NullNginx, track: Path, rally: Rally) -> Figures:
    """It reports no lag: its latency is due time to reply, as esbench's."""
    watch(rally.command(track, f"127.0.0.1:{server.port}"), server.requests, cpus="0", env=rally.env)
    report = rally.report()
    return {
        ACHIEVED: report["Mean Throughput", "get"],
        LATENCY_P50: report["50th percentile latency", "get"] * 1000,
        "latency p99 us": report["99th percentile latency", "get"] * 1000,
        "service p50 us": report["50th percentile service time", "get"] * 1000,
    }


def medians(rounds: list[Figures]) -> Figures:
    return {name: statistics.median(figures[name] for figures in rounds) for name in rounds[0]}


def rows(program: str, rate: int, figures: Figures) -> list[list[str]]:
    lines = []
    for name, value in figures.items():
        low, high = BARS.get((rate, name), (0.0, 0.0))
        judged = program == "esbench" and high > 0
        bar = (f"{low:g} to {high:g}" if low else f"at most {high:g}") if judged else ""
        verdict = ("met" if low <= value <= high else "MISSED") if judged else ""
        lines.append([f"{rate:,}/s", program, name, f"{value:,.1f}", bar, verdict])
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    add_rally_option(parser)
    arguments = parser.parse_args()
    need("nginx", "openssl", "taskset")
    lines = []
    with tempfile.TemporaryDirectory() as name, null_nginx(Path(name)) as server:
        for rate, clients in RATES.items():
            ours, rallys = write_tracks(
                server.folder, str(rate), clients, arguments.seconds, **{"target-throughput": rate}
            )
            closed = {
                "closed, same rate": {"think-time": clients / rate},
                "closed, saturated": {},
            }
            tracks = {
                name: write_tracks(server.folder, f"{name}-{rate}", clients, arguments.seconds, **keys)[0]
                for name, keys in closed.items()
            }
            rounds, beside = [], {name: list[Figures]() for name in closed}
            for _ in range(arguments.rounds):
                rounds.append(esbench(server, ours))
                for name, track in tracks.items():
                    beside[name].append(esbench(server, track))
            lines += rows("esbench", rate, medians(rounds))
            for name, figures in beside.items():
                ratio = statistics.median(one[CPU] / other[CPU] for one, other in zip(rounds, figures, strict=True))
                text = f"CPU / that of a loop that is {name}, {medians(figures)[ACHIEVED]:,.0f}/s"
                lines.append([f"{rate:,}/s", "esbench", text, f"{ratio:.2f}", "", ""])
            if arguments.rally and rate == min(RATES):
                rally = Rally(arguments.rally, server.folder)
                lines += rows("Rally", rate, rally_at(server, rallys, rally))
    print(tabulate(lines, ["rate", "", "", "median", "bar", ""], disable_numparse=True, stralign="right"))


if __name__ == "__main__":
    main()
