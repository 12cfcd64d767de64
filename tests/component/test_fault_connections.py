"""Connections that end, and replies that are none: what the record says, and that nothing is sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from driver import Driver, task
from raw_server import CLOSE, RESET, SILENCE, Action, RawServer, Request, reply

from esbench.model import Task
from esbench.record.model import TaskResult

# Far apart: after a stall of the machine requests that stand in line follow one another at once, when no connection is
# idle.
RARELY = {"rate": 2.5}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver")) as driver:
        yield driver


def writes(requests: int, **keys: Any) -> Task:
    """Requests that a server must not get twice."""
    params = {"method": "POST", "path": "/orders/_doc", "body": {"n": 1}, "request-timeout": "300ms"}
    return task("raw-request", params, requests=requests, name="write", **keys)


def kinds(result: TaskResult) -> dict[str, int]:
    return {kind: error.count for kind, error in result.error_kinds.items()}


def raced(driver: Driver, server: RawServer, requests: int, **keys: Any) -> TaskResult:
    result = driver.run(server.url, writes(requests, **keys))
    assert result.requests == requests
    return result


@pytest.mark.parametrize("end", [CLOSE, RESET])
@pytest.mark.parametrize("keys", [RARELY, {"think_time_s": 0.4}], ids=["open", "closed"])
def test_a_connection_that_the_server_closed_while_it_was_idle_is_no_failure(
    driver: Driver, end: str, keys: dict[str, Any]
) -> None:
    with RawServer(lambda number, request: [reply(), 0.01, end]) as server:
        result = raced(driver, server, 4, **keys)
    assert result.errors == 0
    assert len(server.requests) == 4
    assert server.connections == 4


@pytest.mark.parametrize("end", [CLOSE, RESET])
def test_a_request_that_was_sent_is_not_sent_again(driver: Driver, end: str) -> None:
    """The server has read it, and may have carried it out."""
    with RawServer(lambda number, request: [end] if number % 3 == 2 else [reply()]) as server:
        result = raced(driver, server, 15)
    assert kinds(result) == {"connection lost": 5}
    assert len(server.requests) == 15
    failure = result.error_kinds["connection lost"]
    assert (failure.request, failure.status, failure.body) == ("POST /orders/_doc", None, "")
    assert failure.example


def test_a_request_sent_into_a_connection_that_is_just_ending_is_a_failure_and_not_repeated(driver: Driver) -> None:
    """A closed loop sends in the moment of the reply; the end of the connection arrives behind it."""
    with RawServer(lambda number, request: [reply(), CLOSE]) as server:
        result = raced(driver, server, 40)
    assert set(kinds(result)) <= {"connection lost"}
    assert len(server.requests) == result.requests - result.errors
    assert result.units == len(server.requests)


@pytest.mark.parametrize(
    ("half", "then", "kind", "example"),
    [
        (b"", SILENCE, "timeout", "no reply from"),
        (b"HTTP/1.1 20", SILENCE, "timeout", "within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\nContent-Le", SILENCE, "timeout", "within 0.3 s"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"half":', SILENCE, "timeout", "within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n{", SILENCE, "timeout", "within 0.3 s"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", SILENCE, "timeout", "within 0.3 s"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", SILENCE, "timeout", "within 0.3 s"),
        (b"HTTP/1.1 20", CLOSE, "connection lost", "before its reply was complete"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"half":', CLOSE, "connection lost", "before its reply"),
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9\r\n\r\n{", CLOSE, "connection lost", "complete"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n", CLOSE, "connection lost", "complete"),
        (b'HTTP/1.1 200 OK\r\n\r\n{"half":', CLOSE, "connection lost", "complete"),
        (b'HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{"half":', RESET, "connection lost", ""),
    ],
)
def test_half_a_reply_is_one_failure_and_the_next_request_works(
    driver: Driver, half: bytes, then: str, kind: str, example: str
) -> None:
    def answer(number: int, request: Request) -> Sequence[Action]:
        return [half, 0.02, then] if number == 3 else [reply()]

    with RawServer(answer) as server:
        result = raced(driver, server, 8)
    assert kinds(result) == {kind: 1}
    assert (result.units, result.errors) == (7, 1)
    assert example in result.error_kinds[kind].example
    # the connection is replaced, and each request arrived once
    assert Counter(request.connection for request in server.requests) == {0: 4, 1: 4}


MALFORMED = [
    b"SSH-2.0-OpenSSH_9.6\r\n",
    b"HTTP/2 200 OK\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.1 2xx OK\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
    b"HTTP/1.1 200 OK\r\nno colon\r\nContent-Length: 2\r\n\r\n{}",
    b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
    b"\x00\x00\x12\x04\x00\x00\x00\x00\x00",  # HTTP/2's first frame
    b"\x15\x03\x01\x00\x02\x02\x46",  # an alert of TLS
    b"\xff" * 4096,
]


@pytest.mark.parametrize("malformed", MALFORMED, ids=[repr(text[:40]) for text in MALFORMED])
def test_a_malformed_reply_is_a_bad_response_and_the_next_request_works(driver: Driver, malformed: bytes) -> None:
    with RawServer(lambda number, request: [malformed if number % 4 == 2 else reply()]) as server:
        result = raced(driver, server, 12)
    assert kinds(result) == {"bad response": 3}
    failure = result.error_kinds["bad response"]
    assert repr(malformed[:8])[2:-1] in failure.example  # its beginning is shown
    assert len(failure.example) <= 300
    assert failure.request == "POST /orders/_doc"
    assert len(server.requests) == 12
    assert server.connections == 4


def test_a_reply_before_the_request_is_nobodys(driver: Driver) -> None:
    """A proxy tells an idle connection that it was too slow, and closes it."""
    late = reply(b"<html>", "408 Request Timeout", "Connection: close")
    with RawServer(lambda number, request: [reply(), 0.01, late, CLOSE]) as server:
        result = raced(driver, server, 4, **RARELY)
    assert result.errors == 0
    assert len(server.requests) == 4


def test_a_connection_is_opened_anew_for_each_client(driver: Driver) -> None:
    with RawServer(lambda number, request: [CLOSE] if number == 5 else [reply()]) as server:
        result = raced(driver, server, 40, clients=4)
    assert kinds(result) == {"connection lost": 1}
    assert server.connections == 5
    assert len(server.requests) == 40
