"""Which requests each turn of a client has."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from esbench.errors import TrackError
from esbench.operations import builtin_operations
from esbench.operations.turns import Turns

ONCE = {"path": "/in", "once-per-client": True}
PLAIN = {"path": "/x"}


def test_what_is_sent_once_is_in_each_turn_until_it_has_succeeded() -> None:
    turns = Turns([ONCE, PLAIN, {**ONCE, "path": "/there"}], Random(1))
    assert turns.next() == [0, 1, 2]
    turns.succeeded(2)
    assert turns.next() == [0, 1]
    turns.succeeded(0)
    turns.succeeded(1)
    assert turns.next() == turns.next() == [1]


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([ONCE], 'each request has "once-per-client" (after its first turn a client has none left)'),
        ([PLAIN, {**ONCE, "once-per-client": 3}], '"once-per-client" must be true or false, not 3'),
    ],
)
def test_requests_that_make_no_turns_are_refused(requests: list[dict[str, Any]], expected: str) -> None:
    with pytest.raises(TrackError) as raised:
        builtin_operations().get("http-requests").check({"requests": requests}, "")
    assert str(raised.value).startswith(expected)
