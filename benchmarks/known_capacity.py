"""Searches for a known capacity, over sockets: null servers with one queue, first come first served.

    python benchmarks/known_capacity.py [--budget 15m]       six searches of 5 to 15 min

M/M/1 with a service rate mu: the time in the system is exponential with the rate mu - r, so that 99 % of the requests
are answered within t up to the rate r = mu - ln(100) / t (Kleinrock, Queueing Systems I, 1975, 3.2). M/D/1 is worked
out by Lindley's recursion (1952) over ten million arrivals. With a limit of 200 service times it is all but a cliff at
mu. The server and the driver share this machine: time that they add makes the capacity smaller, more so at high rates.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from programs import ESBENCH
from tabulate import tabulate

from esbench.features.capacity.parts import SEARCH
from esbench.null_server import NullServer
from esbench.record.home import esbench_home
from esbench.record.store import RaceStore

_ARRIVALS = 10_000_000
_LATE = 0.01
TRACK = """
version: 2
variables: [{name: any_id, type: range, from: 1, to: 1000000}]
schedule:
  - {name: get, operation: {operation-type: get, index: orders, id: "$[[any_id]]"}, clients: 8, time-period: 10}
"""


@dataclass(frozen=True)
class Case:
    """A server with service times of `kind` at `mu` per second; 99 % within `limits` service times are asked for."""

    kind: str
    mu: float
    limits: float

    @property
    def name(self) -> str:
        return f"M/{'M' if self.kind == 'exponential' else 'D'}/1, {self.mu:g}/s, {self.limits:g} service times"

    @property
    def limit_s(self) -> float:
        return self.limits / self.mu

    @property
    def capacity_per_s(self) -> float:
        if self.kind == "exponential":
            return self.mu - math.log(1 / _LATE) / self.limit_s
        draws = np.random.default_rng(1).exponential(1.0, _ARRIVALS)
        low, high = 0.5, 1.0  # of mu
        while high - low > 0.0005:
            middle = (low + high) / 2
            due, work = np.cumsum(draws / middle), np.arange(1.0, _ARRIVALS + 1)
            late = float(np.mean(work + np.maximum.accumulate(due - work + 1) - due > self.limits))
            low, high = (low, middle) if late > _LATE else (middle, high)
        return self.mu * (low + high) / 2

    @property
    def script(self) -> Mapping[str, object]:
        key = "ms" if self.kind == "constant" else "mean_ms"
        queue = {"slots": 1, "service": {"type": self.kind, key: 1000 / self.mu}}
        return {"rules": [{"path": "/_doc/", "queue": queue}]}


CASES = (
    *(Case("exponential", mu, 20) for mu in (500, 500, 2000, 2000)),
    Case("constant", 500, 10),
    Case("constant", 500, 200),
)


def searched(case: Case, track: Path, budget: str) -> tuple[object, ...]:
    """Search the capacity of a server; a row of the table."""
    began_s = time.monotonic()
    with NullServer() as server:
        server.use(case.script)
        subprocess.run(
            [
                *(*ESBENCH, "capacity", f"--track-path={track}", f"--target-hosts={server.url}", "--task=get"),
                *(f"--objective=p99<{1000 * case.limit_s:g}ms", f"--budget={budget}", "--quiet", "--telemetry=none"),
            ],
            check=True,
            stdout=sys.stderr,
        )
    search = SEARCH.kept_in(RaceStore(esbench_home()).load("last"))
    assert search is not None
    assert search.found is not None
    found, truth = search.found, case.capacity_per_s
    is_covered = found.low_per_s <= truth <= found.high_per_s
    is_right = found.is_known and (is_covered or abs(found.rate_per_s / truth - 1) <= 0.05)
    return (
        *(case.name, truth, found.rate_per_s, found.low_per_s, found.high_per_s),
        *(f"{found.rate_per_s / truth - 1:+.1%}", is_right, found.why),
        *(len(search.probes), (time.monotonic() - began_s) / 60),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--budget", default="15m", help="of each search")
    parser.add_argument("--case", type=int, action="append", choices=range(len(CASES)), help="only these")
    args = parser.parse_args()
    headers = ("server", "capacity", "found", "from", "to", "off", "right", "why", "probes", "min")
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "track.yml").write_text(TRACK)
        for number in args.case or range(len(CASES)):
            rows.append(searched(CASES[number], Path(folder), args.budget))
            print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
    print(tabulate(rows, headers=headers, floatfmt=".1f"))


if __name__ == "__main__":
    main()
