"""composite: the order of its requests, what they tell one another, and what cannot stand in it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from compiled import ES6, HEADERS, OPENSEARCH, FakeSession, compiled, context, script, session

from esbench.cluster.dialect import Dialect
from esbench.errors import TrackError
from esbench.measure.verdict import GOOD
from esbench.model import Variable
from esbench.operations.drawn import as_drawn
from esbench.requests.exchange import Concurrent, Reply, RequestBytes, RequestFailed, ScriptSession
from esbench.requests.ledger import Ledger

FOUND = '{"took":1,"timed_out":false,"_shards":{"total":1,"failed":0},"hits":{"hits":[]}}'


def raw(path: str, **keys: Any) -> dict[str, Any]:
    return {"operation-type": "raw-request", "name": path.strip("/"), "path": path, **keys}


def failure(*requests: Any, **params: Any) -> str:
    with pytest.raises(TrackError) as caught:
        compiled(context("composite", {"requests": list(requests), **params}))
    return str(caught.value).removeprefix('task "t": ')


async def test_requests_run_one_after_the_other_each_under_its_name() -> None:
    asked = session("{}", FOUND, "{}")
    search = {"operation-type": "search", "index": "a", "body": {"size": 5}}
    params = {"requests": [raw("/a", method="PUT"), search, raw("/b")]}
    assert await script("composite", params).run(asked) == GOOD
    assert asked.asked == ["PUT /a", "GET /a/_search", "GET /b"]
    assert asked.parts == ["a", "search", "b"]


async def test_a_request_that_fails_ends_the_composite() -> None:
    asked = session("{}", (500, '{"error":{"type":"broken","reason":"why"}}'))
    with pytest.raises(RequestFailed, match="HTTP 500 broken: why"):
        await script("composite", {"requests": [raw("/a"), raw("/b"), raw("/c")]}).run(asked)
    assert asked.asked == ["GET /a", "GET /b"]


async def test_a_variable_has_one_value_in_all_requests_of_a_turn() -> None:
    users = Variable("user", "range", {"from": 1, "to": 1_000_000})
    search = {"operation-type": "search", "body": {"query": {"term": {"user": "$[[user]]"}}}}
    requests = [raw("/$[[user]]", name="a"), {"stream": [search]}, raw("/x/$[[user]]", name="b")]
    composite = script("composite", {"requests": requests}, variables=[users])
    seen = set()
    for _ in range(20):
        asked = session("{}", FOUND, "{}")
        await composite.run(asked)
        user = asked.asked[0].removeprefix("GET /")
        assert asked.asked[2] == f"GET /x/{user}"
        assert asked.bodies[1] == {"query": {"term": {"user": int(user)}}}
        seen.add(user)
    assert len(seen) > 15


def test_requests_draw_from_the_sequences_of_their_composite() -> None:
    ledger = Ledger()
    for name in ("one", "two"):
        of = context("composite", {"requests": [raw("/$[[n]]", name="a")]}, ledger=ledger)
        operation = replace(of.task.operation, name=name, variables=(Variable("n", "sequence"),))
        program = compiled(replace(of, task=replace(of.task, operation=operation)))
        as_drawn(program.client(0, HEADERS)).draw()
        program.close()
    assert ledger.next_values == {"n of one": 2, "n of two": 2}


# streams


class Lanes(FakeSession):
    """Several sessions; a request waits as many turns of the loop as its path says, and is logged when it ends."""

    def __init__(self, count: int, log: list[str], failing: str = "") -> None:
        super().__init__([Reply(200, b"{}")])
        self.log = log
        self.failing = failing
        self.running = 0
        self.most = 0
        self._count = count

    @property
    def lanes(self) -> Sequence[ScriptSession]:
        return tuple(_Lane(self) for _ in range(self._count))


class _Lane(FakeSession):
    def __init__(self, parent: Lanes) -> None:
        super().__init__([])
        self._parent = parent

    @contextmanager
    def part(self, name: str, timeout_s: float | None = None) -> Iterator[None]:
        yield

    async def request(self, method: str, path: str, **keys: Any) -> Reply:
        parent = self._parent
        parent.running += 1
        parent.most = max(parent.most, parent.running)
        for _ in range(10 * int(path.rpartition("/")[2])):
            await asyncio.sleep(0)
        parent.running -= 1
        parent.log.append(path)
        return Reply(500 if path == parent.failing else 200, b"{}")


async def test_streams_beside_each_other_run_at_once_and_what_follows_waits() -> None:
    log: list[str] = []
    requests = [
        {"stream": [raw("/a/3"), raw("/b/3")]},
        {"stream": [raw("/c/1"), {"stream": [raw("/d/1")]}, {"stream": [raw("/e/2")]}]},
        raw("/f/0"),
    ]
    composite = script("composite", {"requests": requests})
    assert isinstance(composite, Concurrent)
    assert composite.connections == 3
    lanes = Lanes(3, log)
    assert await composite.run(lanes) == GOOD
    assert log[-1] == "/f/0"
    assert log.index("/c/1") < log.index("/a/3") < log.index("/b/3")
    assert lanes.most == 3


async def test_no_more_requests_run_at_once_than_there_may_be_connections() -> None:
    log: list[str] = []
    requests = [{"stream": [raw(f"/{number}/1")]} for number in range(5)]
    composite = script("composite", {"requests": requests, "max-connections": 2})
    assert isinstance(composite, Concurrent)
    assert composite.connections == 2
    lanes = Lanes(2, log)
    await composite.run(lanes)
    assert (len(log), lanes.most) == (5, 2)


async def test_streams_beside_a_failed_one_end_by_themselves() -> None:
    log: list[str] = []
    requests = [{"stream": [raw("/a/1"), raw("/b/1")]}, {"stream": [raw("/c/2"), raw("/d/1")]}, raw("/e/0")]
    with pytest.raises(RequestFailed, match="HTTP 500"):
        await script("composite", {"requests": requests}).run(Lanes(2, log, failing="/a/1"))
    assert log == ["/a/1", "/c/2", "/d/1"]


# what one request leaves for another


async def test_pages_of_a_point_in_time_follow_its_id() -> None:
    def page(hits: int, pit: str) -> str:
        found = [{"sort": [number]} for number in range(hits)]
        return json.dumps({"timed_out": False, "_shards": {"failed": 0}, "pit_id": pit, "hits": {"hits": found}})

    asked = session('{"id":"p1"}', page(2, "p2"), page(0, "p3"), "{}")
    paged = {"operation-type": "paginated-search", "with-point-in-time-from": "open", "pages": "all"}
    paged["body"] = {"sort": "n", "size": 2}  # type: ignore[assignment]
    requests = [
        {"operation-type": "open-point-in-time", "name": "open", "keep-alive": "2m"},
        paged,
        {"operation-type": "close-point-in-time", "with-point-in-time-from": "open"},
    ]
    assert await script("composite", {"requests": requests}).run(asked) == GOOD
    assert asked.asked == ["POST /orders/_pit?keep_alive=2m", "GET /_search", "GET /_search", "DELETE /_pit"]
    assert asked.bodies[1:] == [
        {"sort": "n", "size": 2, "pit": {"id": "p1", "keep_alive": "1m"}},
        {"sort": "n", "size": 2, "search_after": [1], "pit": {"id": "p2", "keep_alive": "1m"}},
        {"id": "p3"},
    ]


async def test_opensearch_has_its_own_words_for_a_point_in_time() -> None:
    asked = session('{"pit_id":"p1"}', "{}")
    requests = [
        {"operation-type": "open-point-in-time", "name": "open", "index": "a"},
        {"operation-type": "close-point-in-time", "with-point-in-time-from": "open"},
    ]
    await script("composite", {"requests": requests}, dialect=Dialect("opensearch", (2, 11))).run(asked)
    assert asked.asked == ["POST /a/_search/point_in_time?keep_alive=1m", "DELETE /_search/point_in_time"]
    assert asked.bodies[1] == {"pit_id": ["p1"]}


async def test_what_the_server_has_not_is_told_in_words() -> None:
    requests = [{"operation-type": "open-point-in-time"}]
    for dialect, server in [(ES6, "Elasticsearch 6.8"), (OPENSEARCH, "OpenSearch 1.3")]:
        with pytest.raises(TrackError, match=f'task "t": {server} has no points in time'):
            compiled(context("composite", {"requests": requests}, dialect=dialect))
    refused = '{"error":{"type":"illegal_argument_exception","reason":"no handler found for uri [/orders/_pit]"}}'
    for reply in (refused, refused.replace("no handler found", "request body is required")):
        with pytest.raises(RequestFailed, match=r"not supported: this Elasticsearch 8\.15 has no points in time"):
            await script("composite", {"requests": requests}).run(session((400, reply)))
    with pytest.raises(RequestFailed, match="HTTP 404 index_not_found"):
        await script("composite", {"requests": requests}).run(
            session((404, '{"error":{"type":"index_not_found","reason":"x"}}'))
        )


def async_searches() -> list[dict[str, Any]]:
    return [
        {"operation-type": "submit-async-search", "name": "one", "index": "a", "body": {}},
        {"operation-type": "submit-async-search", "name": "two", "index": "b", "body": {}},
        {"operation-type": "get-async-search", "retrieve-results-for": ["one", "two"]},
        {"operation-type": "delete-async-search", "delete-results-for": "one"},
    ]


async def test_async_searches_are_fetched_and_deleted_by_their_ids() -> None:
    ended = '{"id":"x","is_running":false,"response":{}}'
    asked = session('{"id":"i/1","is_running":true}', '{"is_running":false}', ended, '{"acknowledged":true}')
    assert await script("composite", {"requests": async_searches()}).run(asked) == GOOD
    assert asked.asked == [
        "POST /a/_async_search",
        "POST /b/_async_search",  # it ended in time: no id, nothing to fetch
        "GET /_async_search/i%2F1",
        "DELETE /_async_search/i%2F1",
    ]


async def test_an_async_search_that_still_runs_is_a_failure() -> None:
    asked = session('{"id":"1"}', '{"id":"2"}', '{"is_running":true}')
    with pytest.raises(RequestFailed, match='search still running: the async search "one" has not ended yet'):
        await script("composite", {"requests": async_searches()}).run(asked)


async def test_requests_carry_their_own_headers_and_those_of_the_connection() -> None:
    sent: list[bytes] = []

    class Wire(FakeSession):
        async def send(self, request: RequestBytes) -> Reply:
            sent.append(b"".join(bytes(piece) for piece in request))
            return Reply(200, b"{}")

    close = {"operation-type": "raw-request", "path": "/x", "headers": {"X-A": "b"}}
    await script("composite", {"requests": [close]}).run(Wire([]))
    assert sent == [b"GET /x HTTP/1.1\r\n" + HEADERS + b"X-A: b\r\n\r\n"]


async def test_an_assertion_of_a_request_is_checked() -> None:
    def asserting(value: int) -> Mapping[str, Any]:
        assertion = {"property": "n", "condition": ">=", "value": value}
        return {"requests": [raw("/a", assertions=[assertion])]}

    assert await script("composite", asserting(5)).run(session('{"n":5}')) == GOOD
    with pytest.raises(RequestFailed, match="assertion: n should be >= 6, and is 5"):
        await script("composite", asserting(6)).run(session('{"n":5}'))


def test_what_cannot_stand_in_a_composite_is_told() -> None:
    paged = {"operation-type": "paginated-search", "pages": 2, "body": {"sort": "n"}}
    opened = {"operation-type": "open-point-in-time", "name": "open-pit"}
    assert failure({"operation-type": "bulk"}).startswith('a composite cannot contain "bulk" (')
    assert failure({"operation-type": "serach"}).startswith(
        'a composite cannot contain "serach" (did you mean "search"'
    )
    assert failure("search").startswith('a request needs an "operation-type", or is a {"stream": [...]}, not search')
    assert failure({"stream": "a"}) == 'a "stream" must be a list of requests'
    assert failure(raw("/a", method="GTE")) == (
        'request "a": unknown method "GTE" (one of GET, POST, PUT, DELETE, PATCH, HEAD, OPTIONS)'
    )
    assert failure({"stream": [{**paged, "with-point-in-time-from": "open"}]}) == (
        'request "paginated-search": no open-point-in-time named "open" comes before (there are none)'
    )
    assert failure(opened, {**paged, "with-point-in-time-from": "open-pti"}).startswith(
        'request "paginated-search": no open-point-in-time named "open-pti" comes before (did you mean "open-pit"'
    )
    assert failure({"operation-type": "sleep", "duration": 1, "opaque-id": "$[[n]]"}).startswith(
        'request "sleep": "opaque-id" of "sleep" cannot hold a variable: $[[n]]'
    )
    assert failure(raw("/a", **{"request-timeout": "soon"})).startswith('request "a": "request-timeout": "soon" is not')
    assert failure(raw("/a"), **{"max-connections": 0}) == '"max-connections" must be at least 1, not 0'
    nested = {"operation-type": "composite", "requests": [raw("/a")], "max-connections": 5}
    assert failure(nested) == 'request "composite": "max-connections" belongs to the outermost composite'


@pytest.mark.parametrize(
    "kind",
    ["open-point-in-time", "close-point-in-time", "submit-async-search", "get-async-search", "delete-async-search"],
)
def test_what_belongs_into_a_composite_is_refused_outside_of_it(kind: str) -> None:
    with pytest.raises(TrackError, match=f'"{kind}" can only be a request of a composite'):
        compiled(context(kind))


async def test_a_composite_within_a_composite_is_as_if_its_requests_stood_there() -> None:
    asked = session("{}")
    nested = {"operation-type": "composite", "name": "inner", "requests": [raw("/b"), {"stream": [raw("/c")]}]}
    await script("composite", {"requests": [raw("/a"), nested, raw("/d")]}).run(asked)
    assert asked.asked == ["GET /a", "GET /b", "GET /c", "GET /d"]
