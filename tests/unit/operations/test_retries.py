"""Which failures of administrative operations are tried again, and how often."""

from __future__ import annotations

import time
from typing import Any

import pytest
from compiled import FakeSession, script, session

from esbench.measure.verdict import CONNECTION_ERRORS, GOOD
from esbench.operations.administrative import ask
from esbench.requests.exchange import Reply, RequestFailed

TIMEOUT = RequestFailed("timeout", "no reply within 60 s")
REFUSED = (400, '{"error":{"type":"parsing_exception","reason":"unknown"},"status":400}')
SHARDS = '{"_shards":{"total":2,"successful":2,"failed":0}}'
GREEN = '{"status":"green"}'
YELLOW = '{"status":"yellow"}'


def retrying(kind: str = "refresh", **params: Any) -> Any:
    names = {name.replace("_", "-"): value for name, value in params.items()}
    return script(kind, {"retry-wait-period": 0, **names})


async def tries(asked: FakeSession, **params: Any) -> tuple[int, str | None]:
    """How often it was tried, and how it failed at last."""
    try:
        verdict = await retrying(**params).run(asked)
    except RequestFailed as failure:
        return len(asked.asked), failure.kind
    return len(asked.asked), verdict.error


async def test_nothing_is_tried_again_by_default() -> None:
    assert await tries(session(TIMEOUT)) == (1, "timeout")
    assert await tries(session(REFUSED)) == (1, "HTTP 400 parsing_exception")
    assert await tries(session(SHARDS)) == (1, None)


@pytest.mark.parametrize("kind", ["timeout", *CONNECTION_ERRORS])
async def test_a_request_without_a_reply_is_tried_again_so_many_times(kind: str) -> None:
    failure = RequestFailed(kind, "x")
    assert await tries(session(failure), retries=2) == (3, kind)
    assert await tries(session(failure, failure, SHARDS), retries=2) == (3, None)
    assert await tries(session(failure), retries=2, retry_on_timeout=False) == (1, kind)


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
async def test_an_overloaded_server_is_asked_again(status: int) -> None:
    assert await tries(session((status, "{}"), SHARDS), retries=1) == (2, None)
    assert await tries(session((status, "{}")), retries=1, retry_on_timeout="false") == (1, f"HTTP {status}")


async def test_a_refused_request_is_tried_again_only_when_the_track_says_so() -> None:
    assert await tries(session(REFUSED), retries=3) == (1, "HTTP 400 parsing_exception")
    assert await tries(session(REFUSED, REFUSED, SHARDS), retries=3, retry_on_error=True) == (3, None)
    assert await tries(session(REFUSED), retries=1, retry_on_error="true") == (2, "HTTP 400 parsing_exception")


async def test_until_success_is_for_ever_but_not_for_what_was_refused() -> None:
    until_success = {"retry_until_success": True}
    assert await tries(session(*[TIMEOUT] * 50, SHARDS), **until_success) == (51, None)
    assert await tries(session(TIMEOUT, REFUSED), **until_success) == (2, "HTTP 400 parsing_exception")
    assert await tries(session(*[REFUSED] * 5, SHARDS), retry_on_error=True, **until_success) == (6, None)


async def test_what_is_not_as_it_should_be_is_tried_again_until_it_is() -> None:
    wanted = {"kind": "cluster-health", "request_params": {"wait_for_status": "green"}}
    assert await tries(session(YELLOW, YELLOW, GREEN), retry_until_success="true", **wanted) == (3, None)
    assert await tries(session(YELLOW, GREEN), retries=5, **wanted) == (1, "cluster not healthy")
    assert await tries(session(YELLOW), retries=2, retry_on_error=True, **wanted) == (3, "cluster not healthy")


async def test_a_cancelled_request_is_not_tried_again() -> None:
    cancelled = RequestFailed("cancelled", "the race was stopped")
    assert await tries(session(cancelled), retry_until_success=True, retry_on_error=True) == (1, "cancelled")


async def test_the_time_between_tries_is_the_tracks() -> None:
    begun_s = time.monotonic()
    assert await tries(session(TIMEOUT, TIMEOUT, SHARDS), retries=2, retry_wait_period="30ms") == (3, None)
    assert time.monotonic() - begun_s >= 0.06
    begun_s = time.monotonic()
    assert await tries(session(TIMEOUT, SHARDS), retries=1, retry_wait_period=None) == (2, None)
    assert time.monotonic() - begun_s >= 0.5
    assert await tries(session(TIMEOUT), retries=None) == (1, "timeout")


async def test_headers_of_the_operation_go_with_every_request() -> None:
    asked = session(SHARDS, '{"count":5}')
    params = {"headers": {"X-A": "b"}, "opaque-id": "check", "expected": 5}
    assert await script("assert-count", params).run(asked) == GOOD
    assert asked.headers == [{"X-A": "b", "X-Opaque-Id": "check"}] * 2


@pytest.mark.parametrize("body", ["<html>", "[]", "null", "7", "[" * 100_000])
async def test_an_answer_that_is_no_json_object_is_a_failure(body: str) -> None:
    with pytest.raises(RequestFailed, match="bad response: not a JSON object: "):
        await script("index-stats").run(session(body))
    assert Reply(200, b"").json() == {}


async def test_an_answer_that_lacks_what_was_asked_for_is_a_failure() -> None:
    with pytest.raises(RequestFailed, match=r'bad response: no "count" in \{"took": 3\}'):
        await script("assert-count", {"expected": 5}).run(session(SHARDS, '{"took":3}'))
    with pytest.raises(RequestFailed, match="bad response: not a cluster's status: mauve"):
        await script("cluster-health").run(session('{"status":"mauve"}'))


async def test_statuses_that_are_accepted_come_back() -> None:
    assert (await ask(session((404, "{}")), "GET", "/a", accept=(404,))).status == 404
    with pytest.raises(RequestFailed, match="HTTP 404"):
        await ask(session((404, "{}")), "GET", "/a")
