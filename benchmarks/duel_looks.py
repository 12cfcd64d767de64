"""How often a duel that plans itself is wrong, and what it finds: simulated rounds, no race is run.

    python benchmarks/duel_looks.py [--duels=2000] [--seed=1]                                        about 3 min

A duel of identical sides has two looks, leaves settled tasks out after the first, and ends by the spread of its first
rounds (features/duel/looks.py). Any verdict `faster` or `slower` in it is false: at most 5 % of the duels may have one.
tests/unit/features/duel/test_looks.py asserts the same of fewer duels. The standard error of 5 % is 0.5 % at 2,000.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from statistics import fmean

import numpy as np
from tabulate import tabulate

from esbench.comparison.nodes import FEWEST_ON_ONE_NODE, FEWEST_ROUNDS
from esbench.comparison.stats import share_bounds
from esbench.features.duel.looks import SettlingAim

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "helpers"))

import simulated_looks
from simulated_rounds import WEATHER, Setup

LUCK = ((0.0, False), (0.02, True), (0.04, False), (0.08, True))
EFFECT = 0.10


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--duels", type=int, default=2000, help="simulated for each line")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng, lines, worst = np.random.default_rng(args.seed), [], 0.0
    for fewest in (FEWEST_ON_ONE_NODE, FEWEST_ROUNDS):
        for rows in (2, 8, 40):
            aim = SettlingAim(math.log1p(EFFECT), rows, fewest)
            for luck, of_tasks in LUCK:
                for weather in WEATHER if rows == 8 else ("calm",):
                    duels = args.duels if rows < 40 else max(1, args.duels // 4)
                    of = Setup(luck, of_tasks, weather)
                    same = simulated_looks.duels(rng, of, rows, duels, aim)
                    other = simulated_looks.duels(rng, of, rows, max(1, duels // 4), aim, EFFECT)
                    wrong = sum(bool(each.different.any()) for each in same)
                    worst = max(worst, share_bounds(wrong, duels)[0])
                    lines.append(
                        (
                            fewest,
                            rows,
                            f"{100 * luck:g} %{' a task' if of_tasks else ''}",
                            weather,
                            100 * wrong / duels,
                            100 * fmean(float(each.same.mean()) for each in same),
                            100 * fmean(float(each.different[0]) for each in other),
                            fmean(each.rounds for each in same),
                            fmean(each.task_rounds / (rows / simulated_looks.ROWS_OF_A_TASK) for each in same),
                        )
                    )
                    print(".", end="", file=sys.stderr, flush=True)
    head = ("first look", "rows", "luck", "weather", "false %", "same %", "10 % found %", "rounds", "of a task")
    print(f"\n{tabulate(lines, head, floatfmt='.1f')}")
    print(f"least false rate that the worst line allows (95 %): {100 * worst:.1f} %")
    return int(worst > 0.05)


if __name__ == "__main__":
    sys.exit(main())
