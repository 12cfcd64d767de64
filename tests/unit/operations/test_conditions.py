"""Conditions on replies, as Loadgen's assert has them."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.errors import TrackError
from esbench.operations.conditions import ReplyFacts, condition_of

BODY = (
    b'{"took": 3, "hits": {"total": {"value": 12}}, "tags": ["a", "b"], "a.b": {"c": 1}, "ip": "10.1.2.3", "ok": true}'
)
FACTS = ReplyFacts(200, BODY, 15, {"token": "t1"}, {"content-type": "application/json"})
JSON = "_ctx.response.body_json"


def failure(config: Any, facts: ReplyFacts = FACTS) -> str:
    return condition_of(config, "here")(facts)


@pytest.mark.parametrize(
    "config",
    [
        {"equals": {"_ctx.response.status": 200}},
        {"equals": {"_ctx.response.status": "200"}},
        {"equals": {f"{JSON}.hits.total.value": 12, f"{JSON}.a.b.c": 1, "token": "t1", f"{JSON}.ok": True}},
        {"contains": {"_ctx.response.body": '"took"', f"{JSON}.tags": "b"}},
        {"prefix": {f"{JSON}.ip": "10."}, "suffix": {f"{JSON}.ip": ".3"}},
        {"regexp": {"_ctx.response.body": r'"took": \d+'}},
        {"range": {"_ctx.elapsed": {"lt": 100, "gte": 15}}},
        {"range": {"_ctx.elapsed.lte": 15, f"{JSON}.took.gt": 2}},
        {"in": {"_ctx.response.status": [403, 200]}},
        {"length": {f"{JSON}.tags": 2}},
        {"exists": [f"{JSON}.took", "_ctx.response.body_length"]},
        {"has_fields": f"{JSON}.hits"},
        {"prefix": {"_ctx.response.header.Content-Type": "application/"}},
        {"contains": {f"{JSON}.tags": "b"}, "regexp": {f"{JSON}.tags": "^b$"}},
        {"has_fields": ["_ctx.response.header"]},
        {"network": {f"{JSON}.ip": "10.0.0.0/8"}},
        {"network": {f"{JSON}.ip": ["loopback", "private"]}},
        {"not": {"equals": {"_ctx.response.status": 404}}},
        {"or": [{"equals": {"_ctx.response.status": 404}}, {"equals": {"_ctx.response.status": 200}}]},
        {"and": [{"equals": {"_ctx.response.status": 200}}, {"not": {"exists": ["_ctx.response.nothing"]}}]},
    ],
)
def test_conditions_that_hold(config: Any) -> None:
    assert failure(config) == ""


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"equals": {"_ctx.response.status": 201}}, "_ctx.response.status should be 201, and is 200"),
        ({"equals": {f"{JSON}.hits.total.relation": "eq"}}, "there is no _ctx.response.body_json.hits.total.relation"),
        ({"contains": {f"{JSON}.tags": "c"}}, 'tags should contain c, and is ["a", "b"]'),
        ({"regexp": {f"{JSON}.ip": "^11"}}, "ip should match ^11, and is"),
        ({"equals": {f"{JSON}.ok": 1}}, "ok should be 1, and is true"),
        ({"equals": {f"{JSON}.took": True}}, "took should be True, and is 3"),
        ({"range": {"_ctx.elapsed": {"lt": 10}}}, "_ctx.elapsed should be lt 10, and is 15"),
        ({"range": {f"{JSON}.ip.gt": 1}}, "ip should be gt 1"),
        ({"in": {"_ctx.response.status": [403]}}, "should be one of [403], and is 200"),
        ({"network": {f"{JSON}.ip": "public"}}, "should be in public"),
        ({"network": {f"{JSON}.took": "public"}}, "should be in public"),
        ({"not": {"equals": {"_ctx.response.status": 200}}}, "holds, and should not"),
        ({"or": [{"exists": ["x"]}, {"exists": ["y"]}]}, "there is no x, which should be there"),
        ({"equals": {"_ctx.response.status": 200}, "exists": ["x"]}, "there is no x"),
    ],
)
def test_what_does_not_hold_is_said(config: Any, said: str) -> None:
    assert said in failure(config)


def test_a_reply_that_is_no_json_has_no_fields() -> None:
    for path in (JSON, f"{JSON}.took"):
        assert "there is no" in failure({"exists": [path]}, ReplyFacts(502, b"<html>", 1, {}))


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({}, "an assert has conditions"),
        ("equals", "an assert has conditions, such as equals, not equals"),
        ({"equal": {"a": 1}}, 'here: unknown condition "equal" (did you mean "equals"?'),
        ({"queue_has_lag": ["q"]}, 'the condition "queue_has_lag" is about a gateway'),
        ({"equals": ["a"]}, '"equals" has values by path'),
        ({"or": {"equals": {"a": 1}}}, '"or" has a list of conditions'),
        ({"and": []}, '"and" has a list of conditions'),
        ({"regexp": {"a": "("}}, '"(" is not a regular expression'),
        ({"range": {"a": {"less": 1}}}, '"range" takes numbers for lt, lte, gt, gte, not less: 1'),
        ({"range": {"a": 1}}, '"range" takes numbers'),
        ({"in": {"a": 1}}, '"in" takes a list of values, not 1'),
        ({"exists": 5}, '"exists" takes a list of paths, not 5'),
        ({"network": {"a": [[1]]}}, '"[1]" is not a network'),
        ({"network": {"a": "privat"}}, '"privat" is not a network (did you mean "private"?'),
    ],
)
def test_what_is_no_condition_is_refused(config: Any, said: str) -> None:
    with pytest.raises(TrackError) as caught:
        condition_of(config, "here")
    assert said in str(caught.value)
