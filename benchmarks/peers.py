"""GET by id, closed loop, a null server: what a request costs esbench and its peers in the same run.

    python benchmarks/peers.py [--rally=FOLDER] [--hey=PROGRAM] [--seconds 6] [--rounds 2] [--clients 64]

nginx answers on CPU 1, the programs take turns on CPU 0. Prints requests per second, CPU per request of the program
and all its processes, and how many times esbench's that is (medians of the rounds; bar for Rally: 25 times). Needs wrk,
nginx and openssl; hey is `go install github.com/rakyll/hey@latest`. esbench and Rally draw an id for each request,
wrk and hey repeat one.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from null_nginx import null_nginx
from peer_tracks import write_get_tracks
from programs import Cost, measure, median, need, race_command, wrk_command
from rally import Rally, add_rally_option
from tabulate import tabulate

Command = tuple[list[str], Mapping[str, str]]  # and its environment


def table(costs: Mapping[str, Sequence[Cost]]) -> str:
    ours = median(costs["esbench"])
    lines = []
    for name, rounds in costs.items():
        cost = median(rounds)
        times = f"{cost.cpu_us / ours.cpu_us:.2f}"
        lines.append([name, f"{cost.requests_per_s:,.0f}", f"{cost.cpu_us:.1f}", times])
    return tabulate(
        lines, ["", "requests/s", "CPU us/request", "times esbench's"], disable_numparse=True, stralign="right"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_rally_option(parser)
    parser.add_argument("--hey", help="the program hey")
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--clients", type=int, default=64)
    arguments = parser.parse_args()
    need("wrk", "nginx", "openssl", "taskset", *filter(None, [arguments.hey]))
    clients, seconds = arguments.clients, arguments.seconds
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as name, null_nginx(Path(name)) as server:
        task = {"clients": clients, "warmup-time-period": 1, "time-period": seconds}
        ours, rallys = write_get_tracks(server.folder, [str(number) for number in range(100_000)], task)
        host = f"127.0.0.1:{server.port}"
        url = f"http://{host}/orders/_doc/42"
        home = {"ESBENCH_HOME": str(server.folder / "home")}
        commands: dict[str, Callable[[], Command]] = {
            "wrk": lambda: (wrk_command(url, clients, seconds), {}),
            "esbench": lambda: (race_command(ours, host), home),
        }
        if arguments.hey:
            commands["hey"] = lambda: ([arguments.hey, "-c", str(clients), "-z", f"{seconds}s", url], {})
        if arguments.rally:
            rally = Rally(arguments.rally, server.folder)
            commands["Rally"] = lambda: (rally.command(rallys, host), rally.env)
        for _ in range(arguments.rounds):
            for program, command_of in commands.items():
                command, env = command_of()
                costs.setdefault(program, []).append(measure(command, server, env))
    print(table(costs))


if __name__ == "__main__":
    main()
