"""The bytes and the HTTP statuses of a task are those that its server has seen."""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from driver import Driver, bulk, documents, get, task
from raw_server import CLOSE, Action, RawServer, Request, reply

from esbench.cluster.options import ClientOptions

FOUND = reply(b'{"_index":"orders","_id":"1","found":true,"_source":{"n":1}}')
PACKED = reply(gzip.compress(FOUND), "200 OK", "Content-Encoding: gzip")
CREATED = reply(b'{"_index":"orders","_id":"1","result":"created","_shards":{"failed":0}}', "201 Created")
REFUSED = reply(b'{"error":{"type":"es_rejected_execution_exception"},"status":429}', "429 Too Many Requests")
PAGE = reply(
    b'{"timed_out":false,"_shards":{"failed":0},"hits":{"hits":[{"_id":"1","sort":[1]},{"_id":"2","sort":[2]}]}}'
)
PAGES = {"body": {"query": {"match_all": {}}, "sort": ["n"], "size": 2}, "pages": 3}
READ_AFTER_WRITE = {"id": "$[[any_id]]", "body": {"n": 1}}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver")) as driver:
        yield driver


def sent(requests: Sequence[Request]) -> int:
    return sum(len(request.head) + request.body_bytes for request in requests)


@pytest.mark.parametrize("keys", [{}, {"rate": 1_000}], ids=["closed", "open"])
@pytest.mark.parametrize("whole", [FOUND, PACKED, CREATED], ids=["plain", "gzip", "created"])
def test_bytes_are_those_on_the_wire_and_the_warmup_is_apart(
    driver: Driver, whole: bytes, keys: dict[str, Any]
) -> None:
    with RawServer(lambda number, request: [whole[:30], 0.001, whole[30:]] if number % 3 else [whole]) as raw:
        result = driver.run(raw.url, get(warmup_iterations=7, iterations=20, **keys))
    assert result.requests == 20
    assert result.bytes_sent == sent(raw.requests[7:])
    assert result.bytes_received == 20 * len(whole)
    assert result.status_codes == {"201" if whole is CREATED else "200": 20}


def test_failures_have_their_bytes_and_only_replies_have_a_status(driver: Driver) -> None:
    answers: tuple[list[Action], ...] = ([FOUND], [REFUSED], [FOUND[:50], CLOSE], [CLOSE])
    with RawServer(lambda number, request: answers[number % 4]) as raw:
        result = driver.run(raw.url, get(requests=20))
    assert result.errors == 15
    assert result.bytes_sent == sent(raw.requests)
    assert result.bytes_received == 5 * (len(FOUND) + len(REFUSED) + 50)
    assert result.status_codes == {"200": 5, "429": 5}


def test_nothing_sent_is_no_figure(driver: Driver) -> None:
    with RawServer(accepts=1) as raw:
        result = driver.run(raw.url, task("sleep", {"duration": 0.01}, iterations=2))
    assert (result.bytes_sent, result.bytes_received, result.status_codes) == (None, None, {})


def test_each_reply_of_a_sequence_has_a_status(driver: Driver) -> None:
    with RawServer(lambda number, request: [FOUND if request.method == "GET" else CREATED]) as raw:
        result = driver.run(raw.url, task("read-after-write", READ_AFTER_WRITE, requests=10))
    assert (result.requests, result.errors) == (10, 0)
    assert (result.bytes_sent, result.bytes_received) == (sent(raw.requests), 10 * (len(FOUND) + len(CREATED)))
    assert result.status_codes == {"200": 10, "201": 10}


def test_requests_of_a_script_count_too(driver: Driver) -> None:
    with RawServer(lambda number, request: [REFUSED] if number == 4 else [PAGE]) as raw:
        result = driver.run(raw.url, task("paginated-search", PAGES, requests=3))
    replies = len(raw.requests)
    assert (result.requests, result.errors) == (3, 1)
    assert (result.bytes_sent, result.bytes_received) == (sent(raw.requests), (replies - 1) * len(PAGE) + len(REFUSED))
    assert result.status_codes == {"200": replies - 1, "429": 1}


@pytest.mark.parametrize(("kind", "params"), [("refresh", {}), ("paginated-search", PAGES)])
def test_headers_of_a_script_are_sent_as_utf_8(driver: Driver, kind: str, params: dict[str, Any]) -> None:
    with RawServer(lambda number, request: [PAGE]) as raw:
        assert driver.run(raw.url, task(kind, {**params, "opaque-id": "größe €"})).errors == 0
    assert all("X-Opaque-Id: größe €\r\n".encode() in request.head for request in raw.requests)


def test_a_request_that_the_socket_takes_in_parts_counts_once(driver: Driver, tmp_path: Path) -> None:
    good = reply(b'{"took":1,"errors":false,"items":[]}')
    docs = documents(tmp_path, 400_000)
    with RawServer(lambda number, request: [good]) as raw:
        result = driver.run(raw.url, bulk(200_000), docs=docs)
        compressed = driver.run(raw.url, bulk(200_000), docs=docs, options=ClientOptions(http_compress=True))
    assert result.bytes_sent is not None
    assert compressed.bytes_sent is not None
    assert result.bytes_sent == sent(raw.requests[: result.requests]) > 10_000_000
    assert compressed.bytes_sent == sent(raw.requests[result.requests :]) < result.bytes_sent / 2
