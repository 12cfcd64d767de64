"""A neighbour that takes a core in bursts: for races on a machine that does something else besides.

    python benchmarks/neighbour.py [--seconds=1200] [--burst=2] [--pause=4] [--core=0] [--seed=1]

Bursts and pauses have exponential lengths with these means, in seconds; in a burst it computes without a break, on the
given core if there is one. At its end it prints what it took.
"""

from __future__ import annotations

import argparse
import os
import random
import time


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1200)
    parser.add_argument("--burst", type=float, default=2)
    parser.add_argument("--pause", type=float, default=4)
    parser.add_argument("--core", type=int)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.core is not None:
        os.sched_setaffinity(0, {args.core})
    drawn, began_s, bursts = random.Random(args.seed), time.monotonic(), 0
    while (left_s := args.seconds - (time.monotonic() - began_s)) > 0:
        time.sleep(min(left_s, drawn.expovariate(1 / args.pause)))
        ends_s = time.monotonic() + drawn.expovariate(1 / args.burst)
        while time.monotonic() < ends_s:
            sum(range(1000))
        bursts += 1
    took_s, used_s = time.monotonic() - began_s, time.process_time()
    print(f"{bursts} bursts in {took_s:.0f} s took {used_s:.0f} s of CPU, {used_s / took_s:.0%} of a core")


if __name__ == "__main__":
    main()
