"""The core gets no larger, and no more hangs together in it, than what is written down."""

from __future__ import annotations

from must_know import LIMITS, measured, too_large

RACED = {"modules that race --target-hosts loads"}  # python tests/must_know.py races


def test_a_maintainer_needs_to_know_no_more_than_before() -> None:
    numbers = measured()
    assert set(numbers) == set(LIMITS) - RACED
    assert too_large(numbers) == []


def test_a_number_above_its_limit_is_told_with_both() -> None:
    (name, most), *_ = LIMITS.items()
    assert too_large({name: most + 1}) == [f"{name}: {most + 1}, at most {most}"]
    assert too_large({name: most}) == []
