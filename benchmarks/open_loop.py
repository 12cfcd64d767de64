"""How punctual the driver is: open loops at 1,000/s over 8 clients and 10,000/s over 64, a null server.

    python benchmarks/open_loop.py [--seconds 10] [--rounds 3] [--rally=FOLDER]

nginx answers on CPU 1, esbench sends from CPU 0. Prints of each rate, medians of the rounds: what was achieved, driver
lag, latency and service time in us, CPU per request of all its processes, and the bars; and that CPU beside those of
bare_open_loop.c, an open loop in C that only sends and reads, of wake-ups of its own for each arrival and reply, and of
a closed loop, at the same rate (its clients think in between) and as fast as it can. With --rally its target-throughput
of 1,000/s over 8 clients, too. Needs nginx, openssl and a C compiler.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from null_nginx import NullNginx, null_nginx
from peer_tracks import write_get_tracks
from programs import measure, measure_and_read, need, race_command, watch
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
    (10_000, LAG_P99): (0, 150),
}
MOST_OF_C = 1.3  # times the CPU of the bare loop in C, at 10,000/s

Figures = Mapping[str, float]


def write_tracks(folder: Path, name: str, clients: int, seconds: int, **keys: float) -> tuple[Path, Path]:
    """GETs at a rate, or of a closed loop: for esbench and for Rally."""
    place = folder / name
    place.mkdir()
    task = {"clients": clients, "warmup-time-period": 2, "time-period": seconds, **keys}
    return write_get_tracks(place, [str(number) for number in range(100_000)], task)


def compiled(folder: Path) -> Path:
    program = folder / "bare_open_loop"
    source = Path(__file__).with_name("bare_open_loop.c")
    subprocess.run(["cc", "-O2", "-o", str(program), str(source)], check=True)
    return program


def bare(server: NullNginx, program: Path, rate: int, clients: int, seconds: int) -> Figures:
    command = [str(program), *map(str, (server.port, clients, rate, seconds))]
    cost, output = measure_and_read(command, server)
    wakeups, lag_p50_us, lag_p99_us = map(float, output.split())
    return {CPU: cost.cpu_us, "wake-ups/request": wakeups, LAG_P50: lag_p50_us, LAG_P99: lag_p99_us}


def esbench(server: NullNginx, track: Path) -> Figures:
    home = server.folder / "home"
    cost = {CPU: measure(race_command(track, f"127.0.0.1:{server.port}"), server, {"ESBENCH_HOME": str(home)}).cpu_us}
    record = RaceStore(home).load("last")
    (task,) = record.tasks
    assert task.service_time_ms
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
        low, high = BARS.get((rate, name), (0.0, 0.0)) if program == "esbench" else (0.0, 0.0)
        lines.append([f"{rate:,}/s", program, name, f"{value:,.1f}", *judged(value, low, high)])
    return lines


def judged(value: float, low: float, high: float) -> tuple[str, str]:
    """A bar in words, and whether it is met; neither if `high` is 0."""
    if not high:
        return "", ""
    return f"{low:g} to {high:g}" if low else f"at most {high:g}", "met" if low <= value <= high else "MISSED"


def ratio(rounds: list[Figures], others: list[Figures]) -> float:
    """The median of the CPU of each round beside that of the other program in the same round."""
    return statistics.median(one[CPU] / other[CPU] for one, other in zip(rounds, others, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    add_rally_option(parser)
    arguments = parser.parse_args()
    need("nginx", "openssl", "taskset", "cc")
    lines = []
    with tempfile.TemporaryDirectory() as name, null_nginx(Path(name)) as server:
        program = compiled(server.folder)
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
            rounds, bares, beside = [], [], {name: list[Figures]() for name in closed}
            for _ in range(arguments.rounds):
                bares.append(bare(server, program, rate, clients, arguments.seconds))
                rounds.append(esbench(server, ours))
                for name, track in tracks.items():
                    beside[name].append(esbench(server, track))
            lines += rows("bare C", rate, medians(bares)) + rows("esbench", rate, medians(rounds))
            over_c = ratio(rounds, bares)
            bar = judged(over_c, 0, MOST_OF_C if rate == max(RATES) else 0)
            lines.append([f"{rate:,}/s", "esbench", "CPU / that of the bare loop in C", f"{over_c:.2f}", *bar])
            for name, figures in beside.items():
                text = f"CPU / that of a loop that is {name}, {medians(figures)[ACHIEVED]:,.0f}/s"
                lines.append([f"{rate:,}/s", "esbench", text, f"{ratio(rounds, figures):.2f}", "", ""])
            if arguments.rally and rate == min(RATES):
                rally = Rally(arguments.rally, server.folder)
                lines += rows("Rally", rate, rally_at(server, rallys, rally))
    print(tabulate(lines, ["rate", "", "", "median", "bar", ""], disable_numparse=True, stralign="right"))


if __name__ == "__main__":
    main()
