"""What a request costs the driver, beside wrk and bare Python in the same run: closed loop, a null server.

    python benchmarks/driver.py [--seconds 5] [--rounds 3] [--clients 64] [--rows get,term,insert,tls,gzip,workers,many]

Needs wrk, nginx, openssl and two cores: nginx answers on CPU 1 with canned replies, the programs take turns on CPU 0.
Prints requests per second, CPU per request of the program and all its children, and ratios (medians of the rounds);
"workers" is the GET on two workers, and says how they share it; "many" says how fairly 2,000 clients on one worker are
served. With ESBENCH_PURE=1 in the environment esbench's rows are those of its Python classes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from null_nginx import NullNginx, null_nginx
from programs import Cost, bare_client_command, measure, median, need, race_command, wrk_command
from tabulate import tabulate

from esbench.record.model import DriverFacts, RaceRecord
from esbench.record.store import RaceStore

MANY = 2000
ORDERS = Path(__file__).parents[1] / "tracks" / "orders" / "orders-corpus.yml"
GET = {"operation-type": "get", "index": "orders", "id": "$[[n]]"}
TERM = {"operation-type": "search", "index": "orders", "body": {"query": {"term": {"user": "$[[n]]"}}, "size": 10}}
INSERT = {"operation-type": "index", "index": "orders", "corpus": "orders"}  # documents of a generator's process
BODY = {"order_id": "$[[n]]", "user_id": "u$[[n]]", "amount": "$[[n]]", "note": "x" * 320}
INSERT_BODY = {"operation-type": "index", "index": "orders", "id": "$[[n]]", "body": BODY}  # a body with variables
ROWS = {
    "get": GET,
    "term": TERM,
    "insert": INSERT,
    "insert-body": INSERT_BODY,
    "tls": GET,
    "gzip": GET,
    "gzip-term": TERM,
    "workers": GET,
    "many": GET,
}
# the most CPU per request, as a multiple of the GET's
BARS = {"term": 1.15, "insert": 1.25, "insert-body": 1.25, "tls": 1.6, "workers": 1.1}


def write_track(folder: Path, operation: Mapping[str, Any], clients: int, seconds: int) -> Path:
    corpus = {"name": "orders", "documents": [{"document-count": 1000, **yaml.safe_load(ORDERS.read_text())}]}
    task = {"name": "task", "operation": dict(operation), "clients": clients, "warmup-time-period": 1}
    track = {
        "indices": [{"name": "orders"}],
        "corpora": [corpus],
        "variables": [{"name": "n", "type": "range", "from": 1, "to": 100_000}],
        "schedule": [{**task, "time-period": seconds}],
    }
    path = folder / "track.yml"
    path.write_text(yaml.safe_dump(track))
    return path


class Programs:
    """The programs that take turns, each with the same connections and seconds."""

    def __init__(self, server: NullNginx, clients: int, seconds: int) -> None:
        self._server = server
        self._clients = clients
        self._seconds = seconds

    def wrk(self) -> Cost:
        url = f"http://127.0.0.1:{self._server.port}/orders/_doc/42"
        return measure(wrk_command(url, self._clients, self._seconds), self._server)

    def bare_python(self) -> Cost:
        return measure(bare_client_command(self._server.port, self._clients, self._seconds), self._server)

    def esbench(self, row: str) -> Cost:
        server, clients = self._server, MANY if row == "many" else self._clients
        host, options = f"http://127.0.0.1:{server.port}", []
        if row == "tls":
            host, options = f"https://127.0.0.1:{server.tls_port}", [f"--client-options=ca_certs:{server.certificate}"]
        elif row.startswith("gzip"):
            options = ["--client-options=http_compress:true"]
        elif row == "workers":
            options = ["--workers=2"]
        elif row == "many":
            host = f"http://127.0.0.1:{server.logged_port}"
        track = write_track(server.folder, ROWS[row], clients, self._seconds)
        return measure(race_command(track, host, *options), server, {"ESBENCH_HOME": str(server.folder / "home")})


def table(costs: Mapping[str, list[Cost]]) -> str:
    """A line per program: rate, CPU per request, this CPU beside that of the GET in the same round, and the bar."""
    lines = []
    for name, rounds in costs.items():
        cost = median(rounds)
        over_get = statistics.median(our.cpu_us / get.cpu_us for our, get in zip(rounds, costs["get"], strict=True))
        bar = f"<= {BARS[name]}" if name in BARS else ""
        lines.append([name, f"{cost.requests_per_s:,.0f}", f"{cost.cpu_us:.1f}", f"{over_get:.2f}", bar])
    heads = ["", "requests/s", "CPU us", "CPU / get's", "bar"]
    return tabulate(lines, heads, disable_numparse=True, stralign="right")


def beside_wrk(costs: Mapping[str, list[Cost]]) -> str:
    rates = zip(costs["get"], costs["wrk"], costs["bare python"], strict=True)
    ratios = [
        (get.requests_per_s / wrk.requests_per_s, get.cpu_us / wrk.cpu_us, get.cpu_us / bare.cpu_us)
        for get, wrk, bare in rates
    ]
    of_rate, of_wrks, of_bare = (statistics.median(ratio) for ratio in zip(*ratios, strict=True))
    return (
        f"get: {of_rate:.2f} of wrk's rate (bar: at least 0.55), {of_wrks:.2f} times wrk's CPU (bar: at most 1.6), "
        f"{of_bare:.2f} times that of bare Python"
    )


def latest(home: Path) -> RaceRecord:
    return RaceStore(home).load("last")


def shares(drivers: Sequence[DriverFacts]) -> str:
    """How two workers shared a closed loop, by the CPU time that each used."""
    whole = sum(driver.cpu_s for driver in drivers)
    return "workers: " + ", ".join(f"{driver.cpu_s / whole:.0%}" for driver in drivers) + " of their CPU time"


def fairness(requests: list[int]) -> str:
    """Of each race with many clients: the fewest requests of one over the most."""
    races = [requests[start : start + MANY] for start in range(0, len(requests), MANY)]
    ratios = ", ".join(f"{min(race) / max(race):.3f}" for race in races)
    return f"{MANY:,} clients, fewest / most requests of one (bar: at least 0.8): {ratios}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rows", default=",".join(ROWS))
    arguments = parser.parse_args()
    need("wrk", "nginx", "openssl", "taskset")
    rows = list(dict.fromkeys(["get", *arguments.rows.split(",")]))
    if unknown := set(rows) - ROWS.keys():
        sys.exit(f"no rows called {', '.join(unknown)}: there are {', '.join(ROWS)}")
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as name:
        with null_nginx(Path(name)) as server:
            programs = Programs(server, arguments.clients, arguments.seconds)
            for _ in range(arguments.rounds):
                costs.setdefault("wrk", []).append(programs.wrk())
                costs.setdefault("bare python", []).append(programs.bare_python())
                for row in rows:
                    costs.setdefault(row, []).append(programs.esbench(row))
                    record = latest(server.folder / "home")
                    if row == "workers":
                        print(shares(record.drivers))
                    elif row == "get":
                        (task,) = record.tasks
                        assert task.service_time_ms
                        lane = "compiled" if record.drivers[0].compiled else "Python"
                        print(f"get ({lane}): p50 service time {task.service_time_ms['p50'] * 1000:.0f} us")
        print(table(costs))
        print(beside_wrk(costs))
        if "many" in rows:
            print(fairness(server.requests_by_connection("/orders/_doc/")))


if __name__ == "__main__":
    main()
