"""A request that is repeated until its reply holds a certain value."""

from __future__ import annotations

from typing import Any

import pytest
from compiled import script, session

from esbench.errors import TrackError
from esbench.features.administration.waiting import OPERATORS
from esbench.measure.verdict import GOOD
from esbench.operations import builtin_operations
from esbench.requests.exchange import RequestFailed

COUNT: dict[str, Any] = {
    "path": "/a/_count",
    "json-path": "$.count",
    "criterion": {"operator": "gte", "value": 5},
    "retry-wait-interval": 0,
}


async def test_a_request_is_repeated_until_the_value_is_there() -> None:
    told = session("{}", '{"count":4}', '{"count":"9"}', '{"count":5}')
    params = {**COUNT, "method": "post", "body": {"query": {}}, "request-params": {"q": 1}}
    assert await script("run-until", params).run(told) == GOOD
    assert told.asked == ["POST /a/_count"] * 4
    assert (told.bodies[0], told.queries[0]) == ({"query": {}}, {"q": 1})


@pytest.mark.parametrize("path", ["$.a[0].b", "a[0].b", "$a[0].b"])
async def test_a_path_leads_through_lists(path: str) -> None:
    params = {**COUNT, "json-path": path, "criterion": {"operator": "eq", "value": "x"}}
    assert await script("run-until", params).run(session('{"a":[{"b":"x"}]}')) == GOOD


async def test_the_reply_may_be_a_list() -> None:
    params = {**COUNT, "json-path": "$[0].status", "criterion": {"operator": "eq", "value": "green"}}
    assert await script("run-until", params).run(session('[{"status":"green"}]')) == GOOD


@pytest.mark.parametrize(
    ("operator", "value", "holds", "fails"),
    [
        ("gte", 5, 5, 4.9),
        ("lte", 5, 5, 5.1),
        ("eq", "a", "a", "b"),
        ("neq", "a", "b", "a"),
        ("neq", "a", 5, None),
        ("exists", None, 0, None),
        ("not_exists", None, None, 0),
        ("gte", 5, 6, "6"),
    ],
)
def test_what_a_criterion_means(operator: str, value: Any, holds: Any, fails: Any) -> None:
    assert OPERATORS[operator](holds, value)
    assert not OPERATORS[operator](fails, value)


@pytest.mark.parametrize(
    ("wrong", "expected"),
    [
        ({"criterion": {"operator": "get", "value": 5}}, 'no operator "get" (did you mean "gte"?'),
        ({"criterion": {"operator": "eq"}}, '"criterion" with "eq" needs a "value"'),
        ({"criterion": {"operator": "lte", "value": "x"}}, '"criterion" with "lte" needs a number, not \'x\''),
        ({"json-path": "$..a"}, '"json-path" cannot be "$..a" (say a.b[0].c)'),
        ({"json-path": "$"}, '"json-path" cannot be "$"'),
        ({"path": "a"}, '"path" must begin with "/", not "a"'),
    ],
)
def test_what_cannot_be_meant_is_refused(wrong: dict[str, Any], expected: str) -> None:
    with pytest.raises(TrackError) as caught:
        builtin_operations().get("run-until").check({**COUNT, **wrong}, "")
    assert expected in str(caught.value)


async def test_a_reply_that_is_no_json_is_a_failure() -> None:
    with pytest.raises(RequestFailed, match="bad response: not JSON"):
        await script("run-until", COUNT).run(session("<html>"))
