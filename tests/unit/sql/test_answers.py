"""Answers of a SQL server and of a cluster to the same question."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from esbench.errors import TrackError
from esbench.operations.answers import AnswerMapping, plain_value


def mapping(**answer: Any) -> AnswerMapping:
    found = AnswerMapping.of({"answer": answer}, "here")
    assert found is not None
    return found


def test_rows_are_a_list_of_the_reply_or_the_reply_itself() -> None:
    reply = {"aggregations": {"cities": {"buckets": [{"key": "Paris", "sum": {"value": 1.5}}, {"key": "Lyon"}]}}}
    cities = mapping(rows="aggregations.cities.buckets", columns={"city": "key", "sum": "sum.value"})
    assert cities.rows(reply) == [{"city": "Paris", "sum": 1.5}, {"city": "Lyon", "sum": None}]
    assert mapping(columns={"sum": "a.b"}).rows({"a": {"b": 2}}) == [{"sum": 2}]
    assert mapping(rows="hits.hits", columns={"id": "_id"}).rows({"error": "x"}) == []
    assert mapping(columns={"id": "_source.id"}).rows({"found": False}) == []


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (Decimal("12.30"), 12.3),
        (datetime.datetime(2024, 3, 1, 12, 0, 5), "2024-03-01T12:00:05"),
        (datetime.date(2024, 3, 1), "2024-03-01T00:00:00"),
        ("2024-03-01T12:00:05Z", "2024-03-01T12:00:05"),
        ("2024-03-01T12:00:10.000Z", "2024-03-01T12:00:10"),
        ("2024-03-01T12:00:10.250Z", "2024-03-01T12:00:10.25"),
        ("2024-03-01", "2024-03-01T00:00:00"),
        ("2024-03-01 12:00:10", "2024-03-01T12:00:10"),
        ("orders of 2024-03-01", "orders of 2024-03-01"),
        (7, 7),
        (12.0, 12),
        (Decimal("12.00"), 12),
        (datetime.datetime(2024, 3, 1, 12, 0, 5, 250000), "2024-03-01T12:00:05.25"),
        (datetime.timedelta(hours=1), "1:00:00"),
        ("a\u20ac".encode(), "a\u20ac"),
        (None, None),
    ],
)
def test_values_that_both_kinds_of_servers_can_give(value: Any, plain: Any) -> None:
    assert plain_value(value) == plain


@pytest.mark.parametrize("answer", [{}, {"columns": {}}, {"columns": ["a"]}, {"columns": {"a": 1}}, "a"])
def test_a_wrong_mapping_is_an_error(answer: Any) -> None:
    with pytest.raises(TrackError, match='"answer" has no "columns"'):
        AnswerMapping.of({"answer": answer}, "here")


def test_no_mapping() -> None:
    assert AnswerMapping.of({}, "here") is None
