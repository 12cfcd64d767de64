"""esql, sql, field-caps, msearch, terms-enum: what they send, and what they make of the replies."""

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


SEARCHED = '{"took":1,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{},"status":200}'
MSEARCH = {"index": "orders", "body": [{}, {"query": {"term": {"user": "$[[user]]"}}}, {"index": "other"}, {"size": 0}]}
USERS = [Variable("user", "list", {"data": [7, 8, 9]})]


def test_several_searches_are_lines_of_one_request() -> None:
    line, body = request("msearch", {**MSEARCH, "request-params": {"max_concurrent_searches": 2}}, variables=USERS)
    assert line == "POST /orders/_msearch?max_concurrent_searches=2"
    lines = [json.loads(each) for each in body.decode().splitlines()]
    assert lines == [{}, {"query": {"term": {"user": 7}}}, {"index": "other"}, {"size": 0}]
    assert body.endswith(b"\n")


def test_a_repeated_body_of_searches_draws_each_time() -> None:
    _, body = request("msearch", {"index": "orders", "body": MSEARCH["body"][:2], "repeat": 3}, variables=USERS)
    users = [json.loads(each)["query"]["term"]["user"] for each in body.decode().splitlines()[1::2]]
    assert len(users) == 3
    assert {*users} <= {7, 8, 9}


def replies(*searches: str) -> str:
    return f'{{"took":2,"responses":[{",".join(searches)}]}}'


@pytest.mark.parametrize(
    ("reply", "error"),
    [
        (replies(SEARCHED, SEARCHED), None),
        (replies(SEARCHED, SEARCHED.replace('"hits":{}', '"hits":{"error":"x","failed":7}')), None),
        (replies(SEARCHED, SEARCHED.replace('"timed_out":false', '"timed_out":true')), "search timed out"),
        (replies(SEARCHED, SEARCHED.replace('"failed":0', '"failed":1')), "shard failures"),
        (
            replies('{"error":{"type":"index_not_found_exception","reason":"no such index"},"status":404}', SEARCHED),
            "HTTP 404 index_not_found_exception",
        ),
        (replies(SEARCHED), "bad response"),
        ("<html>", "bad response"),
        ('{"responses":7}', "bad response"),
    ],
    ids=["good", "words in documents", "timed out", "shards", "no index", "one is missing", "no JSON", "no list"],
)
def test_each_of_several_searches_is_judged(reply: str, error: str | None) -> None:
    verdict = judged(client("msearch", MSEARCH, variables=USERS), 200, reply)
    assert (verdict.error, verdict.units) == (error, 0 if error else 1)
    assert judged(client("msearch", MSEARCH, variables=USERS), 503, "").error == "HTTP 503"


def test_searches_without_a_header_are_refused() -> None:
    with pytest.raises(TrackError, match=r"has 3 lines .*two for each search"):
        compiled(context("msearch", {**MSEARCH, "body": MSEARCH["body"][:3]}))


TERMS = {"index": "orders", "field": "city", "string": "Rot", "size": 5}


def test_the_terms_of_a_field() -> None:
    line, body = request("terms-enum", {**TERMS, "body": {"search_after": "Rota"}, "case_insensitive": True})
    assert line == "POST /orders/_terms_enum"
    assert json.loads(body) == {
        "search_after": "Rota",
        "field": "city",
        "string": "Rot",
        "size": 5,
        "case_insensitive": True,
    }
    program = client("terms-enum", TERMS)
    assert judged(program, 200, '{"_shards":{},"terms":["Rotterdam"],"complete":true}') == GOOD
    assert judged(program, 200, '{"_shards":{},"terms":[],"complete":false}').error == "partial results"
