"""How often comparisons are wrong, and what they find: simulated races, printed as the tables of docs/evidence.md.

    python benchmarks/statistics_tables.py [--comparisons 20000] [--seed 1]

No race is run, nothing is measured: tests/unit/comparison/test_stats_simulations.py asserts the same figures from fewer
comparisons. The standard error of a share of 5 % is 0.15 % at 20,000 comparisons; ten seconds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from math import log1p
from pathlib import Path

import numpy as np

from esbench.comparison import stats

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

import simulated
import simulated_rounds

CHANGES = (0.0, 0.02, 0.05, 0.10, 0.20)
SDS = (0.01, 0.02, 0.03, 0.05)


def table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> None:
    head = tuple(head)
    print(f"\n{title}\n\n| {' | '.join(head)} |\n|{'---|' * len(head)}")
    for row in rows:
        print(f"| {' | '.join(row)} |")


def percent(share: float) -> str:
    return f"{100 * share:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--comparisons", type=int, default=20_000, help="simulated for each figure")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    sets = args.comparisons
    rng = np.random.default_rng(args.seed)

    sessions = [
        *((name, spread, simulated.ROUNDS) for name, spread in simulated.SPREADS.items()),
        ("1 race in 2 is 10 sd higher, in each task by itself", simulated.MODES_OF_TASKS, simulated.ROUNDS),
        ("the same, twelve rounds a side", simulated.MODES_OF_TASKS, 12),
    ]
    table(
        "Any false verdict on identical sides, six rounds a side, %",
        ["a session's races", "8 rows", "40 rows"],
        (
            [name, *(percent(simulated.any_false_verdict(rng, spread, rows, sets, rounds)) for rows in (8, 40))]
            for name, spread, rounds in sessions
        ),
    )

    def side_by_side(weather: str) -> Iterable[str]:
        for of in (
            simulated_rounds.Setup(weather=weather),
            simulated_rounds.Setup(0.04, weather=weather),
            simulated_rounds.Setup(0.08, of_tasks=True, weather=weather),
            simulated_rounds.Setup(0.04, of_tasks=True, weather=weather, warmup_s=5.0),
        ):
            yield percent(simulated_rounds.any_false_verdict(rng, of, 8, sets // 4, log1p(0.10)))
        for luck in (0.0, 0.04, 0.08):
            yield percent(simulated_rounds.found(rng, simulated_rounds.Setup(luck, True, weather), sets // 4))

    table(
        "Six rounds side by side of 8 rows, luck of each start: any false verdict; 10 % change of one row found, %",
        [
            "weather",
            *("no luck", "4 %", "8 % in each task", "4 %, warmup of 5 s cut"),
            *("found: no luck", "found: 4 %", "found: 8 %"),
        ],
        ([weather, *side_by_side(weather)] for weather in simulated_rounds.WEATHER),
    )

    def at_six_rounds(sd: float) -> Iterable[str]:
        for change in CHANGES:
            found = simulated.called(rng, sd, change, sets // 4, rounds=simulated.ROUNDS)
            yield f"{100 * found.different:.0f} / {100 * found.same:.0f}"

    table(
        "Called different / the same, six rounds a side, 8 rows of which one changed, min-effect 5 %, %",
        ["sd of rounds", *(f"{100 * change:g} % change" if change else "no change" for change in CHANGES)],
        ([f"{100 * sd:g} %", *at_six_rounds(sd)] for sd in SDS),
    )

    def settled(sd: float) -> Iterable[str]:
        rounds = stats.rounds_to_settle(sd, log1p(0.05), 8)
        assert rounds is not None
        changed, level = (simulated.called(rng, sd, change, sets // 10, rounds=rounds) for change in (0.05, 0.0))
        yield from (str(rounds), f"{100 * changed.different:.0f}", f"{100 * level.same:.0f}")

    table(
        "The rounds a side that would settle 5 % in 8 rows, and what they do, %",
        ["sd of rounds", "rounds", "5 % found", "no change called the same"],
        ([f"{100 * sd:g} %", *settled(sd)] for sd in SDS),
    )
    table(
        "Identical sides called different without rounds in turn, one row at p < 0.05, %",
        ["what was raced", "called different"],
        [
            *(
                [
                    f"six rounds a side (sd {100 * sd:g} %), each side in its own session (sd 2 %)",
                    percent(simulated.sessions_called_different(rng, sd, 0.02, sets)),
                ]
                for sd in (0.01, 0.015)
            ),
            *(
                [
                    f"one race a side (sd {100 * sd:g} %), by its sections (standard error 0.5 %)",
                    percent(simulated.single_races_called_different(rng, 0.005, sd, sets)),
                ]
                for sd in (0.0, 0.01, 0.02, 0.03)
            ),
            *(
                [
                    f"one race a side, by {earlier} earlier races{', whose level moved by 3 sd' if moved else ''}",
                    percent(simulated.called_different_by_history(rng, earlier, moved, sets)),
                ]
                for earlier in (5, 20)
                for moved in (0.0, 3.0)
            ),
            *(
                [
                    f"six rounds a side (sd 1 %), each side in its own session (sd 2 %), by {history}",
                    percent(
                        simulated.sessions_called_different_by_history(rng, 0.01, 0.02, sets, each_round_counts=each)
                    ),
                ]
                for history, each in (
                    ("10 earlier sessions", False),
                    ("4 earlier sessions, if every round counted as a race", True),
                )
            ),
        ],
    )
    table(
        "Stopping at the first verdict among 6, 8, 10, 12 and 14 rounds of identical sides, one row, %",
        ["p", "called different"],
        [
            [name, percent(simulated.called_different_by_looking(rng, counted, sets))]
            for name, counted in (("as it is", False), ("times the looks so far", True))
        ],
    )


if __name__ == "__main__":
    main()
