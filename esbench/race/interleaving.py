"""The order in which the sides of a session are raced. Pure: a function of the sides, the rounds and the seed.

A round is one race of every side. Two sides go ABBA BAAB ABBA ..., so that a drift of the machine, steady or not,
affects both equally; several go in an order that the seed draws, each round the reverse of the one before. The order
for fewer rounds is the beginning of the order for more.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The place of a race in a session: `position` among all races, `round` of its side; both from 1."""

    position: int
    round: int
    side: str


def order(sides: Sequence[str], rounds: int, seed: int) -> tuple[Place, ...]:
    """Return the places of all races of `rounds` rounds. The seed decides which side begins."""
    first = list(sides)
    random.Random(f"order of {seed}").shuffle(first)
    places = [(number, side) for number in range(rounds) for side in _round(first, number)]
    return tuple(Place(position, number + 1, side) for position, (number, side) in enumerate(places, start=1))


def _round(first: list[str], number: int) -> list[str]:
    """Return the order of the sides in a round: every second one is reversed; of two sides ABBA BAAB ..."""
    flips = number + (number // 2 if len(first) == 2 else 0)
    return first[::-1] if flips % 2 else first
