"""Tables, lists and pages of records that stay the same are, to the byte, what they were."""

from __future__ import annotations

from functools import cache

import pytest
from golden import GOLDEN, check_golden
from golden_outputs import outputs

KEPT = {file.name for file in (GOLDEN / "outputs").iterdir()}


@cache
def printed() -> dict[str, str]:
    return dict(outputs())


@pytest.mark.parametrize("name", sorted(KEPT))
def test_what_is_printed_of_a_record_is_as_it_was(name: str) -> None:
    check_golden(f"outputs/{name}", printed()[name])


def test_each_golden_output_is_compared() -> None:
    for name in printed().keys() - KEPT:
        check_golden(f"outputs/{name}", printed()[name])
    assert {file.name for file in (GOLDEN / "outputs").iterdir()} == set(printed())
