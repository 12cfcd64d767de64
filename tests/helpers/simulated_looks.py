"""Simulated duels that plan themselves: two looks, settled tasks left out, an end by the spread of the first rounds."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from simulated_rounds import Setup, difference, units

from esbench.comparison import stats
from esbench.comparison.stats import Floats
from esbench.features.duel.looks import SettlingAim

ROWS_OF_A_TASK = 2
MOST, RACED = 14, 24  # rounds that the time holds with all tasks, and at most when some are left out


@dataclass(frozen=True)
class Ended:
    """One duel: its rows that were called different, those called the same, the rounds, and those of all its tasks."""

    different: Floats
    same: Floats
    rounds: int
    task_rounds: int


def duel(differences: Floats, aim: SettlingAim, most: int = MOST) -> Ended:
    """Race one planned duel, whose differences (row, round) are known."""
    first = differences[:, : aim.fewest]
    looks = aim.looks(tuple(map(float, first.std(axis=-1, ddof=1))), most)
    different, same = _judged(differences[:, : looks[0]], aim.margin, len(looks), 0)
    rows, rounds = len(differences), looks[0]
    task_rounds = rows // ROWS_OF_A_TASK * rounds
    settled = (different | same).reshape(-1, ROWS_OF_A_TASK).all(axis=-1)
    is_open = np.repeat(~settled, ROWS_OF_A_TASK)
    if len(looks) > 1 and is_open.any():
        more = int((most - looks[0]) * settled.size / (~settled).sum())  # in the time of the tasks that are left out
        spreads = tuple(map(float, differences[:, : looks[0]].std(axis=-1, ddof=1)))
        rounds = aim.later(spreads, min(RACED, looks[0] + more))
        task_rounds += int((~settled).sum()) * (rounds - looks[0])
        later = _judged(differences[is_open, :rounds], aim.margin, len(looks), int((~is_open).sum()))
        different[is_open], same[is_open] = later
    return Ended(different, same, rounds, task_rounds)


def _judged(differences: Floats, margin: float, looks: int, decided: int) -> tuple[Floats, Floats]:
    effect = stats.paired(differences)
    same = stats.is_same(effect, margin, looks)
    p = stats.adjusted(stats.p_value(effect), looks, decided)
    return ~same & (p < 0.05), same


def duels(
    rng: np.random.Generator, of: Setup, rows: int, sets: int, aim: SettlingAim, change: float = 0.0
) -> list[Ended]:
    """Race planned duels of sides of which the contender does `change` more (a ratio) in the first row."""
    found: list[Ended] = []
    while len(found) < sets:  # in parts, for the memory
        done = difference(units(rng, of, min(100, sets - len(found)), rows, RACED, change))
        found += [duel(each, aim) for each in done]
    return found
