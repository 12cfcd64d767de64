"""The sentence about races that ran beside a race."""

from __future__ import annotations

from esbench.race.targets import ran_beside


def test_one_race_is_named() -> None:
    assert ran_beside(["a"]) == "race a ran on this host at the same time: both disturbed each other"


def test_many_races_are_one_sentence() -> None:
    told = ran_beside([f"r{number}" for number in range(7)])
    assert told.startswith("7 races ran on this host at the same time, and disturbed this one: r0, r1, r2")
    assert told.endswith("4 more")
