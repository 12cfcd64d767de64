"""Answers of a SQL server and of a cluster to the same question."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

from esbench.errors import TrackError
from esbench.operations.answers import AnswerMapping, answer, exact, shortened
from esbench.operations.tables import plain_value


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


def test_an_unknown_key_of_a_mapping_is_an_error() -> None:
    with pytest.raises(TrackError, match=r'unknown key "row" in "answer" .it has "rows" and "columns"'):
        mapping(columns={"id": "key"}, row="aggregations.ids.buckets")


def test_no_mapping() -> None:
    assert AnswerMapping.of({}, "here") is None


def test_of_a_long_document_the_rows_stay() -> None:
    reply = {"found": True, "_source": {"id": 7, "text": "a" * 5000}}
    found = answer(reply, "/orders/_doc/7", None, mapping(columns={"id": "_source.id"}))
    short = shortened(found)
    assert short["document"]["rows"] == [{"id": 7}]
    assert short["document"]["digest"]
    assert exact(found) == exact(answer(reply, "/orders/_doc/7", None, mapping(columns={"id": "_source.id"})))


def test_many_rows_have_the_same_digest_in_any_order_and_of_either_kind_of_server() -> None:
    rows = [{"n": n, "sum": n + 0.00000001} for n in range(1, 61)]
    ours = shortened({"search": {"total": 60, "rows": rows}})["search"]["rows"]
    theirs = shortened({"rows": [{"n": row["n"], "sum": row["n"]} for row in reversed(rows)]})["rows"]
    assert ours["digest"] == theirs["digest"]
