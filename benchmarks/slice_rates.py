"""How a closed loop's throughput in slices can be found: simulated servers, printed as the tables of docs/evidence.md.

    python benchmarks/slice_rates.py [--seeds 200] [--seed 1]

Nothing is measured: servers are simulated whose throughput is known. tests/unit/measure/test_slice_rate.py asserts the
same of fewer. Some minutes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

from simulated_slices import CLIENTS, ESTIMATORS, SERVERS, Duel, requests

VARIATIONS = (0.0, 0.1, 0.2, 1.0)
RATIOS = (0.5, 0.9, 0.97, 1.0, 1.03, 1.1, 2.0)
RATIOS_OF_CHANCE = (0.5, 1.0, 2.0)  # where most of a median is chance
LENGTHS_S = (1.0, 2.0, 4.0, 8.0)
SERVICE_TIMES_S = (0.0477, 0.1, 0.25, 0.5, 1.0, 2.0)
OF_SLICE = 1 / 3.5  # the longest service time of which there are verdicts


def table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    head = tuple(head)
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}", flush=True)
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def estimates(server: str, variation: float, random: np.random.Generator) -> Iterable[str]:
    """How far each estimator is off, in percent, in slices of 2 s with requests of several lengths."""
    loops = [(s, requests(server, s, variation, 2.0, max(200, round(4000 * s)), random)) for s in (0.1, 0.2, 0.35, 0.5)]
    for estimator in ESTIMATORS.values():
        yield " / ".join(f"{100 * (estimator(loop, 2.0) * s / CLIENTS - 1):+.1f}" for s, loop in loops)


def worst(server: str, service_s: float, length_s: float, seeds: int, random: np.random.Generator) -> str:
    """The median of the ratio over the true one that is furthest from 1, in percent, of all kinds of duels."""
    if service_s > OF_SLICE * length_s or service_s < length_s / 200:  # no verdict; hundreds of cycles, which are easy
        return "-"
    medians = [
        float(np.median(Duel(server, service_s, ratio, variation, length_s, by_documents, size).found(seeds, random)))
        for variation in VARIATIONS
        for by_documents in (False, True)
        for ratio in (RATIOS_OF_CHANCE if variation == 1 else RATIOS)
        for size in [5000 if variation == 1 else 300]  # chance moves a median by 0.2 %
    ]
    return f"{100 * max(medians, key=abs):+.2f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=200, help="duels for each median")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    random = np.random.default_rng(args.seed)
    table(
        "Off by, %, in slices of 2 s: requests of 0.1 / 0.2 / 0.35 / 0.5 s",
        ["server", "variation", *ESTIMATORS],
        (
            [server, f"{variation:g}", *estimates(server, variation, random)]
            for server in SERVERS
            for variation in VARIATIONS
        ),
    )
    table(
        "The ratio of two sides over the true one: the worst median, %",
        ["server", "slices", *(f"{service_s * 1000:g} ms" for service_s in SERVICE_TIMES_S)],
        (
            [
                server,
                f"{length_s:g} s",
                *(worst(server, service_s, length_s, args.seeds, random) for service_s in SERVICE_TIMES_S),
            ]
            for server in SERVERS
            for length_s in LENGTHS_S
        ),
    )


if __name__ == "__main__":
    main()
