"""Assertions: what they look at, when they hold, and how they are taken away."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from compiled import HEADERS, client, compiled, context, judged, script, session

from esbench.cluster.options import Host
from esbench.errors import TrackError
from esbench.measure.verdict import GOOD, Verdict
from esbench.model import Challenge, Operation, Step, Task
from esbench.operations.assertions import asserting, without_assertions
from esbench.requests.exchange import ClientProgram, Concurrent, HttpScript, Script

REPLY = {
    "took": 3,
    "timed_out": False,
    "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {"total": {"value": 7, "relation": "eq"}, "hits": []},
}


def assertion(name: str, condition: str, value: Any) -> dict[str, Any]:
    return {"property": name, "condition": condition, "value": value}


def asserted(*assertions: dict[str, Any], reply: Any = REPLY) -> Verdict:
    program = asserting(client("search", {}), {"assertions": list(assertions)})
    assert not isinstance(program, Script)
    return judged(program, 200, reply if isinstance(reply, str) else json.dumps(reply, separators=(",", ":")))


@pytest.mark.parametrize(
    ("name", "condition", "value"),
    [
        ("hits", ">", 0),
        ("hits", "==", 7),
        ("hits", "<=", 7),
        ("hits_relation", "==", "eq"),
        ("timed_out", "==", False),
        ("took", "<", 4),
        ("_shards.failed", "==", 0),
        ("hits.total.value", ">=", 7),
        ("weight", "==", 1),
        ("success", "==", True),
    ],
)
def test_an_assertion_that_holds_changes_nothing(name: str, condition: str, value: Any) -> None:
    assert asserted(assertion(name, condition, value)).error is None


@pytest.mark.parametrize(
    ("name", "condition", "value", "says"),
    [
        ("hits", ">", 7, "hits should be > 7, and is 7"),
        ("hits_relation", "==", "gte", "hits_relation should be == gte, and is eq"),
        ("hits", "<", "ten", "hits should be < ten, and is 7"),
        ("hist", ">", 0, "the reply has no hist, which should be > 0"),
    ],
)
def test_an_assertion_that_does_not_hold_is_a_failure(name: str, condition: str, value: Any, says: str) -> None:
    assert asserted(assertion("took", ">", 0), assertion(name, condition, value)) == Verdict(0, "assertion", says)


def test_totals_before_7_0_are_numbers() -> None:
    old = {**REPLY, "hits": {"total": 5, "hits": []}}
    assert asserted(assertion("hits", "==", 5), assertion("hits_relation", "==", "eq"), reply=old).error is None


def test_a_failed_request_is_not_looked_into() -> None:
    program = asserting(client("search", {}), {"assertions": [assertion("hits", ">", 0)]})
    assert not isinstance(program, Script)
    assert judged(program, 503, "{}").error == "HTTP 503"


async def test_assertions_of_a_script_look_at_its_last_reply() -> None:
    health = script("cluster-health")
    checked = asserting(health, {"assertions": [assertion("cluster-status", "==", "green")]})
    assert isinstance(checked, Script)
    assert await checked.run(session('{"status":"green"}')) == GOOD
    assert (await checked.run(session('{"status":"red"}'))).error == "assertion"


async def test_assertions_of_a_scroll_look_at_its_last_page() -> None:
    page = json.dumps({**REPLY, "_scroll_id": "s"}, separators=(",", ":"))
    checked = asserting(script("search", {"pages": 3}), {"assertions": [assertion("hits", "==", 7)]})
    assert isinstance(checked, Script)
    assert await checked.run(session(page, '{"succeeded":true}')) == Verdict(1)


def test_nothing_is_wrapped_without_assertions() -> None:
    program: ClientProgram = client("search", {})
    assert asserting(program, {}) is program


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"property": "hits"}, 'an assertion has "property", "condition" and "value": '),
        (assertion("hits", "=", 5), 'unknown condition "=" of an assertion (one of < <= == >= >)'),
        ("hits > 5", 'an assertion has "property", "condition" and "value": hits > 5'),
    ],
)
def test_a_wrong_assertion_is_told(wrong: Any, message: str) -> None:
    with pytest.raises(TrackError) as caught:
        compiled(context("search", {"assertions": [wrong]}))
    assert str(caught.value).startswith(f'task "t": {message}')


def test_assertions_are_taken_away_at_any_depth() -> None:
    def challenge(**keys: Any) -> Challenge:
        inner = {"operation-type": "search", **keys}
        params = {"requests": [inner, {"stream": [inner]}], "max-connections": 1, **keys}
        return Challenge("c", (Step((Task("t", Operation("t", "composite", params)),)),))

    assert without_assertions(challenge(assertions=[assertion("hits", ">", 0)])) == challenge()


def test_a_script_with_assertions_has_the_hosts_and_reads_the_headers_of_the_one_without() -> None:
    requests = [
        {"path": "/", "host": "a:9200", "assert": {"equals": {"_ctx.response.header.x": "1"}}},
        {"path": "/", "host": "b:9201"},
    ]
    hosts = (Host("a", 9200), Host("b", 9201))
    made = compiled(replace(context("http-requests", {"requests": requests}), hosts=hosts)).client(0, HEADERS)
    checked = asserting(made, {"assertions": [assertion("weight", "==", 1)]})
    assert checked is not made
    assert isinstance(checked, HttpScript)
    assert isinstance(checked, Concurrent)
    assert (checked.hosts, checked.connections, checked.reads_headers) == ((0, 1), 2, True)
