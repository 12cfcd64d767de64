"""Figures and texts of replies: what is not known is None, what has another type is one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from esbench.cluster.replies import count, counted, decode_json, flag, known_form, listed, mapping, number, text
from esbench.errors import ClusterError
from esbench.errors.reasons import WrongType


@pytest.mark.parametrize(
    ("content", "value"),
    [
        ("18446744073709551615", 2**64 - 1),
        ("-9223372036854775808", -(2**63)),
        ("18446744073709551616", float(2**64)),
        ("1" + "0" * 30, 1e30),
        ("9" * 400, None),
        ("9" * 5000, None),
        ("-1e999", None),
        ("NaN", None),
        ("-Infinity", None),
        ("1.5", 1.5),
        ("[" * 100 + "]" * 100, "[]"),
        ("[" * 101 + "]" * 101, "text"),
        ("[" * 100_000, "text"),
        ('"\\ud83d"', "text"),
        ("", None),
    ],
)
def test_json_of_a_reply_holds_what_can_be_kept(content: str, value: Any) -> None:
    found = decode_json(content.encode())
    if value == "text":
        assert found == content
    elif value == "[]":
        assert isinstance(found, list)
    else:
        assert (type(found), found) == (type(value), value)


@pytest.mark.parametrize(
    ("value", "figure", "whole"),
    [
        (None, None, None),
        (3, 3, 3),
        (3.0, 3.0, 3),
        (-1, -1, None),
        (2**63 - 1, 2**63 - 1, 2**63 - 1),
        (2**63, None, None),
        (10**400, None, None),
        (1e30, None, None),
        (math.inf, None, None),
        (math.nan, None, None),
    ],
)
def test_a_figure_that_is_not_known_is_absent(value: Any, figure: float | None, whole: int | None) -> None:
    assert number(value) == figure
    assert count(value) == whole
    if whole is None:
        with pytest.raises(WrongType, match="is not a count"):
            counted(value)
    else:
        assert counted(value) == whole


@pytest.mark.parametrize(
    ("read", "value", "said"),
    [
        (number, "many", '"many" is not a number'),
        (number, True, "true is not a number"),
        (number, [1], "[1] is not a number"),
        (count, 1.5, "1.5 is not a whole number"),
        (count, {"a": "b" * 100}, f'{{"a": "{"b" * 33}... is not a number'),
        (text, 1, "1 is not a text"),
        (flag, "true", '"true" is not true or false'),
        (mapping, [], "[] is not an object"),
        (listed, {}, "{} is not an array"),
    ],
)
def test_a_value_of_another_type_is_one_line(read: Callable[[Any], Any], value: Any, said: str) -> None:
    with pytest.raises(ClusterError) as caught, known_form("/_stats"):
        read(value)
    assert str(caught.value) == f"/_stats: the reply has an unknown form ({said})"
