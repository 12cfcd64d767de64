"""The order in which the sides of a session are raced. Pure: a function of the sides, the rounds and the seed.

A round is one race of every side. Two sides go ABBA BAAB ABBA ..., so that a drift of the machine, steady or not,
affects both equally; several go in an order that the seed draws, each round the reverse of the one before. The order
for fewer rounds is the beginning of the order for more. Where a round holds all sides at once, another one goes first
in each round.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Place:
    """The place of a race in a session: `position` among all races, `round` of its side; both from 1."""

    position: int
    round: int
    side: str


def order(sides: Sequence[str], rounds: int, seed: int) -> tuple[Place, ...]:
    """Return the places of all races of `rounds` rounds. The seed decides which side begins."""
    return _places(sides, rounds, seed, _in_turns)


def order_at_once(sides: Sequence[str], rounds: int, seed: int) -> tuple[Place, ...]:
    """Return the places of all races of `rounds` rounds, each of which holds all sides at once.

    The order within a round is that in which sides boot, load and merge. The seed decides which side begins.
    """
    return _places(sides, rounds, seed, _rotated)


def _places(
    sides: Sequence[str], rounds: int, seed: int, of_round: Callable[[list[str], int], list[str]]
) -> tuple[Place, ...]:
    first = list(sides)
    random.Random(f"order of {seed}").shuffle(first)
    places = [(number, side) for number in range(rounds) for side in of_round(first, number)]
    return tuple(Place(position, number + 1, side) for position, (number, side) in enumerate(places, start=1))


def _in_turns(first: list[str], number: int) -> list[str]:
    """Return the order of the sides in a round: every second one is reversed; of two sides ABBA BAAB ..."""
    flips = number + (number // 2 if len(first) == 2 else 0)
    return first[::-1] if flips % 2 else first


def _rotated(first: list[str], number: int) -> list[str]:
    """Return the order of the sides in a round: in each one the next side is the first."""
    begin = number % len(first)
    return first[begin:] + first[:begin]
