"""esql, sql, field-caps: what they send, and what they make of the replies."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compiled import ES6, OPENSEARCH, client, compiled, context, judged, request, script, session

from esbench.cluster.dialect import Dialect
from esbench.errors import TrackError
from esbench.measure.verdict import GOOD, Details, Verdict
from esbench.model import Variable

RESULT = '{"took":4,"is_partial":false,"documents_found":10,"values_loaded":20,"columns":[],"values":[]}'


def test_an_esql_query_is_sent_with_its_filter() -> None:
    params = {
        "query": "FROM orders | WHERE user == $[[user]] | LIMIT 1",
        "filter": {"range": {"n": {"gt": 5}}},
        "body": {"columnar": True},
        "request-params": {"format": "json"},
    }
    line, body = request("esql", params, variables=[Variable("user", "list", {"data": [7]})])
    assert line == "POST /_query?format=json"
    assert json.loads(body) == {
        "columnar": True,
        "query": "FROM orders | WHERE user == 7 | LIMIT 1",
        "filter": {"range": {"n": {"gt": 5}}},
    }
    assert json.loads(request("esql-profile", {"query": "ROW 1"})[1]) == {"query": "ROW 1", "profile": True}


def test_partial_results_of_esql_are_a_failure() -> None:
    program = client("esql", {"query": "ROW 1"})
    assert judged(program, 200, RESULT) == GOOD
    assert judged(program, 200, RESULT.replace("false", "true")).error == "partial results"
    assert judged(program, 200, '{"columns":[],"values":[]}') == GOOD  # before 8.18
    assert judged(program, 400, '{"error":{"type":"parsing_exception","reason":"x"}}').error == (
        "HTTP 400 parsing_exception"
    )


def test_details_of_esql_are_what_was_found_and_loaded() -> None:
    program = client("esql", {"query": "ROW 1", "detailed-results": "true"})
    told = Details({"documents_found": 10, "values_loaded": 20}, 4)
    assert judged(program, 200, RESULT) == Verdict(details=told)
    assert judged(program, 500, RESULT).details is None


def test_field_capabilities_are_asked_for_all_fields_by_default() -> None:
    assert request("field-caps") == ("GET /_all/_field_caps?fields=*", b"")
    params = {"index": ["a", "b"], "fields": ["x", "y*"], "index_filter": {"match_all": {}}}
    assert request("field-caps", params) == (
        "POST /a,b/_field_caps?fields=x,y*",
        b'{"index_filter": {"match_all": {}}}',
    )


# sql

QUERY = {"query": "SELECT 1", "fetch_size": 10}


@pytest.mark.parametrize(
    ("keys", "path"), [({}, "/_sql"), ({"dialect": ES6}, "/_xpack/sql"), ({"dialect": OPENSEARCH}, "/_plugins/_sql")]
)
async def test_sql_is_asked_where_the_version_has_it(keys: dict[str, Dialect], path: str) -> None:
    asked = session('{"rows":[]}')
    assert await script("sql", {"body": QUERY}, **keys).run(asked) == Verdict(1)
    assert (asked.asked, asked.bodies) == ([f"POST {path}"], [QUERY])


async def test_further_pages_of_sql_are_asked_for_by_their_cursor() -> None:
    asked = session('{"rows":[1],"cursor":"c1"}', '{"rows":[2],"cursor":"c2"}', '{"rows":[3]}')
    assert await script("sql", {"body": QUERY, "pages": 3}).run(asked) == Verdict(3)
    assert asked.bodies == [QUERY, {"cursor": "c1"}, {"cursor": "c2"}]
    assert asked.parts == ["first-page", "next-page", "next-page"]


async def test_fewer_pages_of_sql_than_wanted_are_a_failure() -> None:
    asked = session('{"rows":[1],"cursor":"c1"}', '{"rows":[2]}')
    verdict = await script("sql", {"body": QUERY, "pages": 4}).run(asked)
    assert (verdict.units, verdict.error) == (2, "too few pages")
    assert verdict.example == "the result ended 2 of 4 pages early"


@pytest.mark.parametrize(
    ("kind", "params", "message"),
    [
        ("sql", {}, 'operation type "sql" needs "body"'),
        ("sql", {"body": {"fetch_size": 5}}, 'the "body" of an sql operation needs a "query"'),
        ("sql", {"body": QUERY, "pages": 0}, '"pages" must be at least 1, not 0'),
        ("esql", {"qurey": "ROW 1"}, 'operation type "esql" needs "query": the query, with variables (it is spelt'),
    ],
)
def test_a_wrong_query_is_told(kind: str, params: dict[str, Any], message: str) -> None:
    with pytest.raises(TrackError) as caught:
        compiled(context(kind, params))
    assert str(caught.value).startswith(f'task "t": {message}')
