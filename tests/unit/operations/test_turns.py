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
        ([PLAIN, {**ONCE, "weight": 3}], 'request 2 has both "once-per-client" and "weight"'),
        ([{**PLAIN, "weight": 0}], "request 1: \"weight\" must be a number above zero, not '0'"),
        ([{**PLAIN, "weight": -1.5}], "request 1: \"weight\" must be a number above zero, not '-1.5'"),
        ([{**PLAIN, "weight": "3"}], '"weight" must be '),
        ([PLAIN, {**ONCE, "once-per-client": 3}], '"once-per-client" must be true or false, not 3'),
    ],
)
def test_requests_that_make_no_turns_are_refused(requests: list[dict[str, Any]], expected: str) -> None:
    with pytest.raises(TrackError) as raised:
        builtin_operations().get("http-requests").check({"requests": requests}, "")
    assert str(raised.value).startswith(expected)


def test_one_of_adjacent_weighted_requests_is_drawn() -> None:
    turns = Turns([{"weight": 3}, {"weight": 1}, {}, {"weight": 1}, {"weight": 1}], Random(1))
    drawn = [turns.next() for _ in range(4000)]
    assert all(len(turn) == 3 and turn[0] in (0, 1) and turn[1] == 2 and turn[2] in (3, 4) for turn in drawn)
    assert sum(turn[0] == 0 for turn in drawn) / 4000 == pytest.approx(0.75, abs=0.03)
    assert sum(turn[2] == 3 for turn in drawn) / 4000 == pytest.approx(0.5, abs=0.03)


FIND = {"operation-type": "search", "name": "find", "index": "a", "body": {}}
OPEN = {"operation-type": "open-point-in-time", "name": "open", "index": "a"}
PAGES = {"operation-type": "paginated-search", "with-point-in-time-from": "open", "pages": 1, "body": {}}


@pytest.mark.parametrize(
    ("requests", "expected"),
    [
        ([{**FIND, "weight": 0}], "a request: \"weight\" must be a number above zero, not '0'"),
        ([{"stream": [{**FIND, "weight": 1}]}], '"weight" belongs to the requests and streams of the outermost '),
        (
            [{**OPEN, "weight": 1}, {**PAGES, "weight": 1}],
            'request "paginated-search": no open-point-in-time named "open"',
        ),
    ],
)
def test_a_composite_refuses_weights_that_cannot_be(requests: list[dict[str, Any]], expected: str) -> None:
    with pytest.raises(TrackError) as raised:
        builtin_operations().get("composite").check({"requests": requests}, "")
    assert str(raised.value).startswith(expected)


def test_the_connections_of_a_mix_are_those_of_its_widest_turn() -> None:
    composite = builtin_operations().get("composite")
    stream = {"stream": [FIND]}
    assert composite.connections({"requests": [{**stream, "weight": 1}] * 5}) == 1
    assert composite.connections({"requests": [stream, {**FIND, "weight": 1}, {**stream, "weight": 1}]}) == 2
