"""Names and texts that are shortened for messages."""

from __future__ import annotations

from esbench.errors.short import beginning, first_of


def test_names_beyond_the_most_are_counted() -> None:
    assert first_of([], 2) == ""
    assert first_of(["a", "b"], 2) == "a, b"
    assert first_of(["a", "b", "c", "d"], 2) == "a, b and 2 more"


def test_a_long_text_ends_in_dots() -> None:
    assert beginning("abcdef", 6) == "abcdef"
    assert beginning("abcdefg", 6) == "abc..."
