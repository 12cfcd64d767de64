"""The order of a session's races."""

from __future__ import annotations

from collections import Counter

import pytest

from esbench.features.duel.race_order import order


def written(sides: str, rounds: int, seed: int) -> str:
    return "".join(place.side for place in order(sides, rounds, seed))


SEED_OF_A, SEED_OF_B = (next(seed for seed in range(100) if written("AB", 1, seed)[0] == side) for side in "AB")


@pytest.mark.parametrize(
    ("rounds", "expected"),
    [(1, "AB"), (2, "ABBA"), (3, "ABBABA"), (4, "ABBABAAB"), (6, "ABBABAABABBA"), (8, "ABBABAABABBABAAB")],
)
def test_two_sides_take_turns(rounds: int, expected: str) -> None:
    assert written("AB", rounds, SEED_OF_A) == expected
    assert written("AB", rounds, SEED_OF_B) == expected.translate(str.maketrans("AB", "BA"))


@pytest.mark.parametrize("seed", range(5))
def test_with_several_contenders_each_round_is_the_reverse_of_the_one_before(seed: int) -> None:
    text = written("ABCD", 5, seed)
    rounds = [text[i : i + 4] for i in range(0, 20, 4)]
    assert rounds == [rounds[0], rounds[0][::-1]] * 2 + [rounds[0]]
    assert sorted(rounds[0]) == list("ABCD")


def test_every_side_begins_for_some_seed() -> None:
    assert {written("ABC", 1, seed)[0] for seed in range(50)} == set("ABC")


@pytest.mark.parametrize("sides", ["A", "AB", "ABC"])
def test_the_plan_of_fewer_rounds_is_the_beginning_of_that_of_more(sides: str) -> None:
    assert order(sides, 9, 3)[: 4 * len(sides)] == order(sides, 4, 3)


def test_positions_and_rounds_count_from_one() -> None:
    places = order(["baseline", "contender"], 3, 1)
    assert [place.position for place in places] == [1, 2, 3, 4, 5, 6]
    assert [place.round for place in places] == [1, 1, 2, 2, 3, 3]
    assert Counter(place.side for place in places) == {"baseline": 3, "contender": 3}


def test_a_steady_drift_falls_on_both_sides_alike() -> None:
    places = order("AB", 6, 1)
    sums = {side: sum(place.position for place in places if place.side == side) for side in "AB"}
    assert sums["A"] == sums["B"]
