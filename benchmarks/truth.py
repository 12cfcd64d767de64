"""Does the driver measure what happened? Every request is matched with the null server's own log.

    python benchmarks/truth.py [--seconds 20] [--rate 1000] [--clients 6]

The server delays by known distributions; requests carry an X-Opaque-Id. Printed, for an open loop (latency) and a
closed one (service time), one after the other: the median over requests of |driver - server| beside
what is allowed (100 us + 1 %); p99 and p99.9 by the driver's histogram and by the server's log, their difference beside
what is allowed: 1 % + the run's driver lag at that percentile and, in closed loops, the requests' way to the server.
Exit status 1 when anything differs by more.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from matching import DISTRIBUTIONS, Matched, match

from esbench.null_server import NullServer


def line(name: str, matched: Matched) -> str:
    figures = [f"median {matched.median_difference_ms * 1000:5.0f} / {matched.allowed_median_ms * 1000:5.0f} us"]
    for rank, found in matched.percentiles.items():
        difference_us = (found.driver_ms - found.server_ms) * 1000
        figures.append(
            f"p{rank:g} {found.driver_ms:8.3f} {found.server_ms:8.3f} ms {difference_us:+6.0f} / "
            f"{found.allowed_ms * 1000:5.0f} us"
        )
    verdict = "agree" if matched.agrees else "DIFFER"
    return f"{name:17} {len(matched.times):6} requests   {'   '.join(figures)}   {verdict}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rate", type=int, default=1000, help="of the open loop, requests/s")
    parser.add_argument("--clients", type=int, default=6, help="of the closed loop")
    options = parser.parse_args()
    differ = 0
    with NullServer(log=True) as server:
        for name, rules in DISTRIBUTIONS.items():
            *found, run_delay_ratio = match(
                server, rules, rate_per_s=options.rate, clients=options.clients, seconds=options.seconds
            )
            for loop, matched in zip(("open", "closed"), found, strict=True):
                differ += not matched.agrees
                print(line(f"{name}, {loop}", matched), flush=True)
            if run_delay_ratio > 0.05:
                print(f"{'':17} (the driver waited for a CPU {run_delay_ratio:.0%} of the time)")
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
