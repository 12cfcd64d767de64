"""Servers that mean harm: whatever they send costs bounded memory and time, and ends in one line."""

from __future__ import annotations

import gzip
import itertools
import tracemalloc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast

import pytest
from driver import Driver, get
from raw_server import CLOSE, SILENCE, Action, RawServer, Request, reply

from esbench.cluster.bounded import MOST_BYTES
from esbench.cluster.client import Cluster, ClusterInfo
from esbench.cluster.options import ClientOptions
from esbench.errors import ClusterError, EsbenchError
from esbench.features.authoring.pages import Extent, open_slices
from esbench.features.authoring.targets import find_data_streams, find_indices

MB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"
CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
HUGE = OK + b"Content-Length: 1000000000000000000\r\n\r\n"
DEEP = b'{"a":' * 100_000 + b"1" + b"}" * 100_000
BOMB = gzip.compress(b" " * (300 * MB), 1)
LONG = "the reply is longer than 100.0 MB"
LATE = "no answer within 1 s"


def without_end(first: bytes, then: bytes) -> Iterable[Action]:
    return itertools.chain([first], itertools.repeat(then))


def dripping(first: bytes) -> Iterable[Action]:
    return itertools.chain([first], itertools.cycle([b"a", 0.2]))


REPLIES: dict[str, tuple[Callable[[], Iterable[Action]], str, str]] = {  # what the client says, and the driver
    "gzip bomb": (lambda: [reply(BOMB, "200 OK", "Content-Encoding: gzip")], LONG, "longer than 256.0 MB"),
    "many encodings": (lambda: [reply(BOMB, "200 OK", "Content-Encoding: gzip, gzip, br")], LONG, "longer than"),
    "header line": (lambda: without_end(OK + b"X: ", b"a" * MB), "not HTTP: got more than 65536", "head has no end"),
    "header lines": (lambda: without_end(OK, b"X: y\r\n" * 9_999), "not HTTP: got more than 100", "head has no end"),
    "interim": (lambda: without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 9_999), LATE, "head has no end"),
    "chunks": (lambda: without_end(CHUNKED, b"100000\r\n" + b" " * MB + b"\r\n"), LONG, "longer than 256.0 MB"),
    "huge chunk": (lambda: [CHUNKED + b"ffffffffffff\r\n{", CLOSE], LONG, "before its reply was complete"),
    "chunk extension": (lambda: without_end(CHUNKED + b"1;", b"a" * MB), "not HTTP: got more", "head has no end"),
    "trailers": (lambda: without_end(CHUNKED + b"0\r\n", b"X: y\r\n" * 9_999), LATE, "head has no end"),
    "to the end": (lambda: without_end(OK + b"\r\n", b" " * MB), LONG, "longer than 256.0 MB"),
    "huge length": (lambda: without_end(HUGE, b" " * MB), LONG, "longer than 256.0 MB"),
    "huge length, silence": (lambda: [HUGE + b"{", SILENCE], LONG, "within 1 s"),
    "dripping head": (lambda: dripping(OK), LATE, "within 1 s"),
    "dripping body": (lambda: dripping(HUGE.replace(b"0" * 12, b"")), LATE, "within 1 s"),
    "redirect": (lambda: [reply("", "302 Found", "Location: http://elsewhere.invalid/")], "HTTP 302", ""),
    "deep error": (lambda: [reply(DEEP, "500 Oops")], 'HTTP 500 {"a":{"a":', '{"a":{"a":'),
    "broken gzip": (lambda: [reply(b"\x1f\x8b garbage")], "the reply is broken gzip", "not gzip"),
}


def always(actions: Callable[[], Iterable[Action]]) -> RawServer:
    return RawServer(lambda number, request: cast(Sequence[Action], actions()))


@pytest.mark.parametrize("kind", REPLIES)
def test_the_parent_reads_any_reply_within_bounds(kind: str) -> None:
    actions, expected, _ = REPLIES[kind]
    tracemalloc.start()
    try:
        with (
            always(actions) as server,
            Cluster([server.url]) as cluster,
            pytest.raises(ClusterError) as caught,
        ):
            cluster.request("GET", "/", timeout_s=1 if expected == LATE else 20)
        assert tracemalloc.get_traced_memory()[1] < 3 * MOST_BYTES
    finally:
        tracemalloc.stop()
    assert expected in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 500


def test_json_of_many_levels_is_text() -> None:
    with always(lambda: [reply(DEEP)]) as server, Cluster([server.url]) as cluster:
        assert cluster.request("GET", "/") == DEEP.decode()
        with pytest.raises(ClusterError, match="neither Elasticsearch nor OpenSearch"):
            cluster.info()


def test_a_reply_of_several_gzip_members_is_unpacked() -> None:
    packed = gzip.compress(b'{"a":') + gzip.compress(b"1}")
    with always(lambda: [reply(packed, "200 OK", "Content-Encoding: gzip")]) as server, Cluster([server.url]) as client:
        assert client.request("GET", "/") == {"a": 1}


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver")) as driver:
        yield driver


FOUND = reply('{"_index":"orders","_id":"1","found":true,"_source":{"n":1}}')


@pytest.mark.parametrize("kind", REPLIES)
def test_the_driver_counts_any_reply_as_one_failure_and_the_next_request_works(driver: Driver, kind: str) -> None:
    actions, _, expected = REPLIES[kind]
    late = expected.startswith("within")

    def answer(number: int, request: Request) -> Sequence[Action]:
        return cast(Sequence[Action], actions()) if number == 1 else [FOUND]

    keys: dict[str, Any] = {"options": ClientOptions(timeout_s=1)} if late else {}
    with RawServer(answer) as server:
        result = driver.run(server.url, get(requests=4), **keys)
    assert (result.requests, result.errors, result.units) == (4, 1, 3)
    (failure,) = result.error_kinds.values()
    assert expected in failure.example
    assert len(failure.example) <= 300


@pytest.mark.parametrize("text", ['{"name":"\\ud800"}', '{"a":[{"\\uDFFF":1}]}'])
def test_json_with_half_a_character_is_text(text: str) -> None:
    """It could be neither shown nor recorded."""
    with always(lambda: [reply(text)]) as server, Cluster([server.url]) as cluster:
        assert cluster.request("GET", "/") == text


def test_json_with_a_pair_of_escapes_is_json() -> None:
    with always(lambda: [reply('{"name":"\\ud83d\\ude00"}')]) as server, Cluster([server.url]) as cluster:
        assert cluster.request("GET", "/") == {"name": "😀"}


@pytest.mark.parametrize("text", ["[1]", '"green"', "{}", "7", "null", "<html>"])
def test_a_health_of_another_form_is_one_line(text: str) -> None:
    with (
        always(lambda: [reply(text)]) as server,
        Cluster([server.url]) as cluster,
        pytest.raises(ClusterError) as caught,
    ):
        cluster.health()
    assert str(caught.value).startswith("/_cluster/health: the reply has an unknown form (")


PAGE = b'{"_scroll_id":"s","hits":{"total":3,"hits":[{"_id":"1","_source":{}}]}}'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (PAGE, "the server gave 4 of the 3 documents of a slice"),
        (PAGE.replace(b"{}", DEEP), "the reply has an unknown form"),
        (PAGE.replace(b'"total":3', b'"total":{"value":' + DEEP + b"}"), "the reply has an unknown form"),
        (BOMB, LONG),
    ],
    ids=["pages without end", "levels", "levels of another part", "gzip bomb"],
)
def test_the_documents_of_a_slice_are_bounded(body: bytes, expected: str) -> None:
    extent = Extent("orders", documents=3, shards=1)
    with always(lambda: [reply(body)]) as server, Cluster([server.url]) as cluster:
        slices = open_slices(cluster, ClusterInfo("elasticsearch", "7.10.0"), extent, page_size=1, readers=1)
        with pytest.raises(ClusterError) as caught:
            list(slices.pages(0))
    assert expected in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("body", [b"[1]", b"null", b"<html>", b"7", DEEP, b'{"x":[]}'])
@pytest.mark.parametrize("find", [find_indices, find_data_streams])
def test_indices_of_another_form_are_one_line(find: Callable[..., object], body: bytes) -> None:
    with always(lambda: [reply(body)]) as server, Cluster([server.url]) as cluster:
        with pytest.raises(EsbenchError) as caught:
            find(cluster, ClusterInfo("elasticsearch", "8.19.4"), ["x"])
        with pytest.raises(ClusterError, match="unknown form"):
            find_indices(cluster, ClusterInfo("elasticsearch", "8.19.4"), ["x*"])
    assert "\n" not in str(caught.value)
