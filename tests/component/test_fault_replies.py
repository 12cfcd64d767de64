"""Replies in every form: those that are good, those that say that something failed, and what is kept of them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from driver import Driver, bulk, documents, get, task
from raw_server import CLOSE, RESET, SILENCE, Action, RawServer, Request, reply

from esbench.cluster.options import ClientOptions
from esbench.corpus.preparation import prepare
from esbench.corpus.prepared import PreparedDocuments
from esbench.model import Corpus, Documents
from esbench.null_server import NullServer
from esbench.record.model import ErrorKind, TaskResult

FOUND = b'{"_index":"orders","_id":"1","found":true,"_source":{"n":1}}'
PACKED = gzip.compress(FOUND)


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver")) as driver:
        yield driver


def the_kind(result: TaskResult, kind: str) -> ErrorKind:
    """The only kind of failure that there was, of which all errors are."""
    assert list(result.error_kinds) == [kind]
    assert result.error_kinds[kind].count == result.errors
    return result.error_kinds[kind]


# good replies


def chunks(body: bytes, size: int, extension: bytes = b"", trailer: bytes = b"") -> bytes:
    pieces = [body[at : at + size] for at in range(0, len(body), size)]
    return b"".join(b"%x%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in pieces) + (
        b"0\r\n" + trailer + b"\r\n"
    )


OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
GOOD: dict[str, list[Action]] = {
    "plain": [reply(FOUND)],
    "byte by byte": [piece for byte in reply(FOUND) for piece in (bytes([byte]), 0.0005)],
    "lower case, no reason": [b"HTTP/1.1 200\r\ncontent-length: %d\r\n\r\n%b" % (len(FOUND), FOUND)],
    "chunked": [CHUNKED + chunks(FOUND, 10)],
    "chunked, in packets": [CHUNKED, 0.002, chunks(FOUND, 7)[:31], 0.002, chunks(FOUND, 7)[31:]],
    "chunked, with extensions and a trailer": [CHUNKED + chunks(FOUND, 10, b";a=b", b"X-Sum: 1\r\n")],
    "after an interim reply": [b"HTTP/1.1 100 Continue\r\n\r\n", 0.002, reply(FOUND)],
    "after early hints": [b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + reply(FOUND)],
    "gzip": [reply(PACKED, "200 OK", "Content-Encoding: gzip")],
    "gzip, chunked": [OK + b"Content-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(PACKED, 9)],
    "gzip, of two members": [reply(gzip.compress(FOUND[:20]) + gzip.compress(FOUND[20:]))],
    "Connection: close": [reply(FOUND, "200 OK", "Connection: close"), CLOSE],
    "Connection: close, chunked": [OK + b"Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks(FOUND, 9)],
    "Connection: close, kept open": [reply(FOUND, "200 OK", "Connection: close")],
    "to the end of the connection": [OK + b"Connection: close\r\n\r\n" + FOUND, CLOSE],
    "to the end, in packets": [OK + b"\r\n" + FOUND[:20], 0.002, FOUND[20:], 0.002, CLOSE],
    "to the end, gzip": [OK + b"Content-Encoding: gzip\r\n\r\n" + PACKED, CLOSE],
    "HTTP/1.0": [b"HTTP/1.0 200 OK\r\n\r\n" + FOUND, CLOSE],
    "HTTP/1.0 with a length": [b"HTTP/1.0 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(FOUND), FOUND), CLOSE],
}


@pytest.mark.parametrize("form", GOOD)
@pytest.mark.parametrize("keys", [{}, {"rate": 400}], ids=["closed", "open"])
def test_a_good_reply_is_good_in_every_form(driver: Driver, form: str, keys: dict[str, Any]) -> None:
    actions = GOOD[form]
    with RawServer(lambda number, request: actions) as raw:
        result = driver.run(raw.url, get(clients=2, requests=20, **keys))
    assert (result.requests, result.units, result.error_kinds) == (20, 20, {})
    assert len(raw.requests) == 20
    ends = "close" in form or "end" in form or "1.0" in form
    assert raw.connections in ((20, 21, 22) if ends else (2,))


@pytest.mark.parametrize(
    "packed",
    [PACKED[:-1], PACKED[:20], PACKED[:4], PACKED[:-8] + b"\0" * 8, b"\x1f\x8b" + FOUND, PACKED + b"garbage"],
    ids=["cut at its end", "cut", "only a head", "wrong sum", "not packed", "something behind"],
)
def test_a_broken_gzip_reply_is_a_bad_response(driver: Driver, packed: bytes) -> None:
    broken, good = reply(packed, "200 OK", "Content-Encoding: gzip"), reply(PACKED, "200 OK", "Content-Encoding: gzip")
    with RawServer(lambda number, request: [broken if number % 3 == 0 else good]) as raw:
        result = driver.run(raw.url, get(requests=9), options=ClientOptions(http_compress=True))
    assert result.units == 6
    failure = the_kind(result, "bad response")
    assert failure.count == 3
    assert failure.example.startswith("not gzip: ")
    assert b"Accept-Encoding: gzip" in raw.requests[0].head


# replies that say that something failed


@pytest.mark.parametrize("headers", [{}, {"retry-after": "30"}], ids=["", "retry-after"])
@pytest.mark.parametrize("keys", [{"clients": 2}, {"clients": 2, "rate": 300}], ids=["closed", "open"])
def test_a_rejection_is_counted_and_neither_waited_for_nor_repeated(
    server: NullServer, driver: Driver, headers: dict[str, str], keys: dict[str, Any]
) -> None:
    server.use({"rules": [{"path": "_doc", "every": 5, "reply": {"status": 429, "headers": headers}}]})
    result = driver.run(server.url, get(requests=100, **keys))
    failure = the_kind(result, "HTTP 429 es_rejected_execution_exception")
    assert (result.requests, result.errors, result.units) == (100, 20, 80)
    assert result.error_rate_ratio == pytest.approx(0.2)
    assert result.duration_s < 5
    assert server.counts().requests == 100
    assert "failed" in result.histograms
    assert "errors" in [check.name for check in result.checks]
    assert failure.request.startswith("GET /orders/_doc/")
    assert failure.status == 429
    assert json.loads(failure.body)["error"]["type"] == "es_rejected_execution_exception"
    assert failure.example == json.loads(failure.body)["error"]["reason"]


def test_an_overloaded_server_is_counted_by_its_own_words_or_by_its_status(server: NullServer, driver: Driver) -> None:
    page = "<html>" + "busy " * 300 + "</html>"
    rules = [
        {"path": "_doc", "every": 4, "reply": {"status": 503}},
        {"path": "_doc", "every": 3, "reply": {"status": 503, "body": page}},
    ]
    server.use({"rules": rules})
    result = driver.run(server.url, get(requests=12))
    own, page_kind = sorted(result.error_kinds, key=len, reverse=True)
    assert own.startswith("HTTP 503 ")
    assert page_kind == "HTTP 503"
    failure = result.error_kinds[page_kind]
    assert (failure.status, failure.body[:11], len(failure.body)) == (503, "<html>busy ", 500)
    assert failure.body.endswith("...")
    assert len(failure.example) == 300
    assert result.errors == 6


def test_documents_that_a_bulk_refuses_are_no_units(server: NullServer, driver: Driver, tmp_path: Path) -> None:
    server.use({"rules": [{"path": "_bulk", "every": 2, "bulk_errors": {"share": 0.3}}]})
    result = driver.run(server.url, bulk(50, clients=2), docs=documents(tmp_path, 1_000))
    failure = the_kind(result, "bulk item 429 es_rejected_execution_exception")
    assert (result.requests, result.errors) == (20, 10)
    assert result.units == server.counts().documents
    assert 600 < result.units < 1_000
    assert (failure.request, failure.status) == ("POST /orders/_bulk", 200)
    assert '"errors":true' in failure.body
    assert "of 50 documents: " in failure.example


def test_a_bulk_reply_that_says_nothing_of_its_documents_acknowledges_none(
    server: NullServer, driver: Driver, tmp_path: Path
) -> None:
    """A proxy that answers 200 to everything must not look like a fast cluster."""
    server.use({"rules": [{"path": "_bulk", "every": 2, "reply": {"status": 200, "body": {"message": "welcome"}}}]})
    result = driver.run(server.url, bulk(50), docs=documents(tmp_path, 500))
    failure = the_kind(result, "bad response")
    assert (result.requests, result.errors, result.units) == (10, 5, 250)
    assert failure.body == '{"message":"welcome"}'


def test_a_partial_failure_of_shards_is_a_failure_with_its_reason(server: NullServer, driver: Driver) -> None:
    failed = {"total": 5, "successful": 4, "skipped": 0, "failed": 1}
    failed["failures"] = [{"shard": 2, "reason": {"type": "query_shard_exception", "reason": "too many clauses"}}]  # type: ignore[assignment]
    server.use({"rules": [{"path": "_search", "every": 2, "merge": {"_shards": failed}}]})
    result = driver.run(server.url, task("search", {"body": {"query": {"match_all": {}}}}, requests=10))
    failure = the_kind(result, "shard failures")
    assert (result.errors, result.units) == (5, 5)
    assert (failure.request, failure.status) == ("GET /orders/_search", 200)
    assert failure.example == "1 of 5 shards failed: too many clauses"


def test_strange_replies_of_administrative_requests_are_failures_too(driver: Driver) -> None:
    strange = ["[]", '{"_shards":7}', '{"error":{"root_cause":"x"}}', "<html>", ""]
    for operation, params in [("refresh", {}), ("cluster-health", {}), ("assert-count", {"expected": 7})]:
        for body in strange:
            with RawServer(lambda number, request, body=body: [reply(body)]) as raw:  # type: ignore[misc]
                result = driver.run(raw.url, task(operation, params))
            assert result.requests == 1
            assert set(result.error_kinds) <= {"bad response"}, (operation, body, result.error_kinds)


def test_failures_of_the_warmup_have_kinds_and_examples_of_their_own(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "last": 5, "reply": {"status": 429}}]})
    result = driver.run(server.url, get(warmup_iterations=10, iterations=10))
    assert (result.errors, result.error_kinds) == (0, {})
    assert result.warmup.errors == 5
    failure = result.warmup.error_kinds["HTTP 429 es_rejected_execution_exception"]
    assert (failure.count, failure.status) == (5, 429)


def test_a_server_with_ever_new_errors_does_not_fill_the_record(driver: Driver) -> None:
    def answer(number: int, request: Request) -> Sequence[Action]:
        return [reply(json.dumps({"error": {"type": f"error_{number}", "reason": "new"}}), "500 Oops")]

    with RawServer(answer) as raw:
        result = driver.run(raw.url, get(requests=300))
    assert result.errors == 300
    assert len(result.error_kinds) == 101
    assert result.error_kinds["other failures"].count == 200


# secrets

PASSWORD = 'hunter2 "quoted" ü'
TOKEN = base64.b64encode(f"joe:{PASSWORD}".encode()).decode()
API_KEY = base64.b64encode(b"an-id:the-key-itself").decode()
OWN = {"Authorization": "Bearer abcdefghijkl", "X-Vault-Token": "tok-en-1"}
GIVEN: dict[str, tuple[ClientOptions, dict[str, str], list[str]]] = {
    "password": (ClientOptions(basic_auth_user="joe", basic_auth_password=PASSWORD), {}, [PASSWORD, TOKEN]),
    "api key": (ClientOptions(api_key=API_KEY), {}, [API_KEY, "the-key-itself"]),
    "header": (ClientOptions(), OWN, ["abcdefghijkl", "tok-en-1"]),
}


@pytest.mark.parametrize("given", GIVEN)
def test_no_secret_is_kept_when_the_server_repeats_the_request(driver: Driver, given: str) -> None:
    options, headers, secrets = GIVEN[given]

    def answer(number: int, request: Request) -> Sequence[Action]:
        lines = request.head.decode("latin-1").rstrip().split("\r\n")
        parts: list[Any] = [
            "\n".join(lines),
            dict(line.split(": ", 1) for line in lines[1:]),
            [line.split(" ")[-1] for line in lines[1:]],
            secrets,
            json.dumps({"api_key": "secret-in-json", "password": secrets[0], "secret_thing": "secret-in-json"}),
            "no route to https://joe:secret-in-url@proxy:8080/x",
        ]
        reason = parts[number] if isinstance(parts[number], str) else json.dumps(parts[number])
        error = {"type": "security_exception", "reason": reason, "again": parts[number]}
        return [reply(json.dumps({"error": error}), f"{400 + number} No")]  # a kind each

    params = {"path": "/orders/_doc?api_key=secret-in-query&x=1", "headers": headers}
    with RawServer(answer) as raw:
        result = driver.run(raw.url, task("raw-request", params, requests=6), options=options)
    assert result.errors == len(result.error_kinds) == 6
    assert all(secret.encode() in raw.requests[0].head for secret in secrets[-1:]) or given == "api key"
    for failure in result.error_kinds.values():
        text = f"{failure.example} {failure.body}"
        assert "<hidden>" in text
        for secret in [*secrets, "hunter2", "secret-in"]:
            assert secret not in text
            assert json.dumps(secret)[1:-1] not in text
        assert failure.request == "GET /orders/_doc?api_key=<hidden>&x=1"
        assert len(failure.body) <= 500
        assert len(failure.example) <= 300


# 100 MB


@pytest.fixture(scope="module")
def long_documents(tmp_path_factory: pytest.TempPathFactory) -> PreparedDocuments:
    folder = tmp_path_factory.mktemp("long")
    with (folder / "long.json").open("w") as file:
        for number in range(101):
            file.write(json.dumps({"text": "x" * 1_000_000, "n": number}) + "\n")
    corpus = Corpus("orders", (Documents(101, source_file="long.json"),))
    return prepare([corpus], cache=folder / "cache", track_dir=folder)[0]


def good_bulk(number: int, request: Request) -> Sequence[Action]:
    return [reply('{"took":1,"errors":false,"items":[]}')]


def test_a_body_of_100_mb_arrives_whole(driver: Driver, long_documents: PreparedDocuments) -> None:
    """Longer than any buffer: most of it is written by the event loop, piece by piece."""
    with RawServer(good_bulk) as raw:
        result = driver.run(raw.url, bulk(100), docs=long_documents)
    assert (result.requests, result.units, result.error_kinds) == (2, 101, {})
    long, short = raw.requests
    assert long.body_bytes > 100_000_000
    assert long.body.endswith(b'"n": 99}\n')
    assert short.body.endswith(b'"n": 100}\n')
    assert long.connection == short.connection == 0


@pytest.mark.parametrize(
    ("refusal", "kinds"),
    [
        # Elasticsearch refuses by the Content-Length and closes: its answer may be lost with the connection
        ([reply("{}", "413 Request Entity Too Large", "Connection: close"), CLOSE], {"HTTP 413", "connection lost"}),
        ([reply("{}", "413 Request Entity Too Large"), 0.2, RESET], {"HTTP 413", "connection lost"}),
        ([reply("{}", "413 Request Entity Too Large"), SILENCE], {"HTTP 413"}),
        ([RESET], {"connection lost"}),
        ([SILENCE], {"timeout"}),
    ],
    ids=["answered and closed", "answered, then reset", "answered, read no further", "reset", "silence"],
)
def test_a_body_of_100_mb_that_is_not_read_is_one_failure_and_the_next_request_works(
    driver: Driver, long_documents: PreparedDocuments, refusal: list[Action], kinds: set[str]
) -> None:
    def refuse_long(head: bytes) -> Sequence[Action]:
        return refusal if int(head.partition(b"Content-Length: ")[2].split()[0]) > 10_000_000 else ()

    with RawServer(good_bulk, refuse_long) as raw:
        result = driver.run(raw.url, bulk(100, params={"request-timeout": "1s"}), docs=long_documents)
    assert (result.requests, result.errors, result.units) == (2, 1, 1)
    (kind,) = result.error_kinds
    assert kind in kinds
    assert result.error_kinds[kind].request == "POST /orders/_bulk"
    (short,) = raw.requests
    assert short.body.endswith(b'"n": 100}\n')
    assert raw.connections == 2


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_a_reply_of_100_mb_is_read_whole(server: NullServer, driver: Driver, compressed: bool) -> None:
    server.use({"rules": [{"path": "_doc", "pad_to_bytes": 100_000_000}]})
    result = driver.run(server.url, get(requests=2), options=ClientOptions(http_compress=compressed))
    assert (result.requests, result.units, result.error_kinds) == (2, 2, {})
    assert server.counts().connections == 1


def test_of_a_failure_of_100_mb_a_beginning_is_kept(server: NullServer, driver: Driver) -> None:
    rule = {"path": "_doc", "reply": {"status": 500, "body": {"error": {"type": "large"}}}, "pad_to_bytes": 100_000_000}
    server.use({"rules": [rule]})
    failure = the_kind(driver.run(server.url, get(requests=1)), "HTTP 500 large")
    assert len(failure.body) == 500
    assert len(failure.example) <= 300
