"""Answers of ES|QL and SQL: what of a table belongs to them. Replies have the forms of the products' references."""

from __future__ import annotations

import json
from typing import Any

import pytest

from esbench.cluster.dialect import Dialect
from esbench.operations.answers import answer, asked, exact, shortened
from esbench.operations.approximate import NotComparable
from esbench.operations.drawn import RenderedRequest

V8 = Dialect("elasticsearch", (8, 15))
BOOKS = [
    ["Peter F. Hamilton", "Pandora's Star", 768, "2004-03-02T00:00:00.000Z"],
    ["Vernor Vinge", "A Fire Upon the Deep", 613, "1992-06-01T00:00:00.000Z"],
    ["Frank Herbert", "Dune", 604, "1965-06-01T00:00:00.000Z"],
]
NAMES = ["author", "name", "page_count", "release_date"]
FOUND = [
    {"author": row[0], "name": row[1], "page_count": row[2], "release_date": str(row[3]).removesuffix(".000Z")}
    for row in BOOKS
]
ESQL = "FROM library | KEEP author, name, page_count, release_date | SORT page_count DESC | LIMIT 5"
SQL = "SELECT author, name, page_count, release_date FROM library ORDER BY page_count DESC"


def request(path: str, query: str, **body: Any) -> RenderedRequest:
    return RenderedRequest("POST", path, {}, json.dumps({"query": query, **body}).encode())


def esql(query: str, names: list[str], rows: list[list[Any]], **others: Any) -> Any:
    sent = request("/_query", query)
    target, body = asked(sent, V8)
    assert (target, body) == (sent.target, sent.body)
    columns = [{"name": name, "type": "keyword"} for name in names]
    return answer({"took": 28, "is_partial": False, "columns": columns, "values": rows, **others}, target, body)


def sql(query: str, names: list[str], rows: list[list[Any]], **others: Any) -> Any:
    target, body = asked(request("/_sql?format=json", query), V8)
    return answer({"columns": [{"name": name, "type": "text"} for name in names], "rows": rows, **others}, target, body)


def test_a_whole_table_is_all_of_its_rows() -> None:
    assert esql(ESQL, NAMES, BOOKS) == {"rows": FOUND}
    assert sql(SQL, NAMES, BOOKS) == {"rows": FOUND}
    assert exact(sql(SQL, NAMES, BOOKS)) == exact(sql(SQL, NAMES, BOOKS[::-1]))


def test_a_table_of_columns() -> None:
    sent = request("/_query", ESQL, columnar=True)
    columns = [{"name": name, "type": "keyword"} for name in NAMES]
    reply = {"columns": columns, "values": [list(column) for column in zip(*BOOKS, strict=True)]}
    assert answer(reply, *asked(sent, V8)) == {"rows": FOUND}


def test_a_table_of_opensearch() -> None:
    sent = request("/_plugins/_sql", "SELECT firstname AS first, age FROM accounts")
    schema = [{"name": "firstname", "alias": "first", "type": "text"}, {"name": "age", "type": "long"}]
    reply = {"schema": schema, "datarows": [["Cherry", 39], ["Amber", None]], "total": 2, "size": 2, "status": 200}
    found = answer(reply, *asked(sent, Dialect("opensearch", (2, 11))))
    assert found == {"rows": [{"first": "Cherry", "age": 39}, {"first": "Amber", "age": None}]}


def test_an_error_is_one() -> None:
    target, body = asked(request("/_query", "FROM nowhere"), V8)
    reply = {"error": {"type": "verification_exception", "reason": "Unknown index"}, "status": 400}
    assert answer(reply, target, body) == {"error": "verification_exception"}
    assert esql(ESQL, NAMES, BOOKS, is_partial=True) == {"error": "partial"}


@pytest.mark.parametrize(
    ("query", "rows", "found"),
    [
        ("FROM a | SORT n | LIMIT 3", [["x", 1], ["y", 2], ["z", 2]], [{"a": "x", "n": 1}, {"~rows": 2, "n": 2}]),
        ("FROM a | SORT n, a | LIMIT 2", [["x", 1], ["y", 1]], [{"a": "x", "n": 1}, {"~rows": 1, "n": 1, "a": "y"}]),
        ("FROM a | SORT length(b), n | LIMIT 2", [["x", 1], ["y", 2]], [{"~rows": 2}]),
        ("FROM a | SORT n | STATS n = MAX(n) BY a | LIMIT 2", [["x", 1], ["y", 2]], [{"~rows": 2}]),
        ("FROM a | STATS n = MAX(n) BY a | SORT n | KEEP a, n | LIMIT 1", [["x", 1]], [{"~rows": 1, "n": 1}]),
        ('FROM a | WHERE b == "| LIMIT 1" | SORT n // | LIMIT 1', [["x", 1]], [{"a": "x", "n": 1}]),
        ("FROM a | limit 1 | EVAL c = 1 | KEEP a, n", [["x", 1]], [{"~rows": 1}]),
    ],
)
def test_of_a_table_that_was_cut_short_what_its_order_decides(query: str, rows: Any, found: Any) -> None:
    assert esql(query, ["a", "n"], rows) == {"rows": found}


def test_a_query_without_a_limit_has_one() -> None:
    rows = [["x", number] for number in range(1_000)]
    assert esql("FROM a", ["a", "n"], rows) == {"rows": [{"~rows": 1_000}]}
    assert len(esql("FROM a | SORT n", ["a", "n"], rows)["rows"]) == 1_000
    assert len(esql("FROM a", ["a", "n"], rows[:-1])["rows"]) == 999


@pytest.mark.parametrize(
    ("query", "more", "found"),
    [
        ("SELECT a, n FROM t ORDER BY n LIMIT 3", {}, [{"a": "x", "n": 1}, {"~rows": 2, "n": 2}]),
        ("SELECT a, n FROM t ORDER BY 2 DESC LIMIT 3", {}, [{"a": "x", "n": 1}, {"~rows": 2, "n": 2}]),
        ("SELECT TOP 3 a, n FROM t ORDER BY n NULLS LAST", {}, [{"a": "x", "n": 1}, {"~rows": 2, "n": 2}]),
        ("SELECT a, n FROM t ORDER BY n", {"cursor": "sDXF1ZXJ5"}, [{"a": "x", "n": 1}, {"~rows": 2, "n": 2}]),
        ("SELECT a, n FROM t", {"cursor": "sDXF1ZXJ5"}, [{"~rows": 3}]),
        ("SELECT a, n FROM t WHERE b = 'LIMIT 3' -- LIMIT 3", {}, None),
        ("SELECT a, n FROM t ORDER BY n LIMIT 4", {}, None),
    ],
)
def test_of_a_page_of_sql_what_its_order_decides(query: str, more: Any, found: Any) -> None:
    rows: list[list[Any]] = [["x", 1], ["y", 2], ["z", 2]]
    whole = [{"a": "x", "n": 1}, {"a": "y", "n": 2}, {"a": "z", "n": 2}]
    assert sql(query, ["a", "n"], rows, **more) == {"rows": whole if found is None else found}


def test_figures_that_are_sampled_are_marked() -> None:
    names, rows = (
        ["c", "COUNT_DISTINCT(u)", "p", "median(x)", "city"],
        [[12.5, 1_234_567_891, 7.123456789, None, "Rome"]],
    )
    (row,) = esql(
        "FROM a | STATS c = AVG(x), COUNT_DISTINCT(u), p = PERCENTILE(x, 95), median(x) BY city", names, rows
    )["rows"]
    assert row == {
        "c": 12.5,
        "COUNT_DISTINCT(u)": {"~": 1_234_570_000.0},
        "p": {"~": 7.12346},
        "median(x)": None,
        "city": "Rome",
    }
    (row,) = sql("SELECT COUNT(DISTINCT u) AS users, MAX(n) FROM t", ["users", "MAX(n)"], [[7, 7]])["rows"]
    assert row == {"users": {"~": 7.0}, "MAX(n)": 7}
    assert exact({"rows": [{"users": {"~": 7.0}}]}) == exact({"rows": [{"users": {"~": 8.0}}]})


def test_scores_and_the_order_of_several_values_say_nothing() -> None:
    query = 'FROM a METADATA _score | WHERE MATCH(t, "x") | SORT _score DESC | LIMIT 2'
    assert esql(query, ["_score", "a"], [[2.0, ["y", "x"]], [1.0, "z"]]) == {"rows": [{"a": ["x", "y"]}, {"~rows": 1}]}
    assert sql("SELECT a, a FROM t", ["a", "a"], [[1, {"b": 2}]]) == {"rows": [{"a": 1, "a#2": '{"b": 2}'}]}


@pytest.mark.parametrize(
    ("path", "query", "body", "why"),
    [
        ("/_query", "FROM a | WHERE at > NOW() - 1 hour", {}, "time of day"),
        ("/_sql", "SELECT a FROM t WHERE at > CURRENT_DATE", {}, "time of day"),
        ("/_sql", "SELECT a FROM t WHERE at > CURRENT_TIMESTAMP()", {}, "time of day"),
        ("/_query", "FROM a | SAMPLE 0.1", {}, "drawn"),
        ("/_sql", "SELECT RAND(3) FROM t", {}, "drawn"),
        ("/_query", "FROM a | LIMIT 10 | STATS COUNT(*)", {}, "a LIMIT before its end"),
        ("/_sql", "SELECT AVG(a) FROM (SELECT a FROM t LIMIT 10)", {}, "a LIMIT before its end"),
        ("/_query", "FROM a | WHERE KNN(v, [1, 2]) | LIMIT 10", {}, "^approximate$"),
        ("/_sql", "SELECT a FROM t", {"format": "csv"}, "not JSON"),
        ("/_query?format=txt", "FROM a", {}, "not JSON"),
    ],
)
def test_queries_that_are_not_compared(path: str, query: str, body: Any, why: str) -> None:
    with pytest.raises(NotComparable, match=why):
        asked(request(path, query, **body), V8)


def test_words_in_texts_and_comments_are_none_of_the_language() -> None:
    asked(request("/_query", 'FROM a | WHERE b == "NOW()" // SAMPLE 0.1 | LIMIT 1 | STATS a'), V8)
    asked(request("/_sql", "SELECT a FROM t WHERE b = 'CURRENT_DATE' AND c = 'it''s NOW()' /* RAND() */"), V8)


def test_many_rows_are_a_digest_in_any_order() -> None:
    rows = [[f"a{number}", number / 7] for number in range(300)]
    one, other = (shortened(esql("FROM a", ["a", "n"], each)) for each in (rows, rows[::-1]))
    assert one == other
    assert set(one["rows"]) == {"digest", "begins"}
