"""The endpoint that scrapers read: where it listens, and in which format it answers."""

from __future__ import annotations

import contextlib
import gzip
import http.client
import socket
import struct
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from esbench.cli.publishing import followers
from esbench.errors import UsageError
from esbench.events.progress import Progress
from esbench.features.publish.prometheus.endpoint import Address, MetricsEndpoint, parse_address
from esbench.features.publish.prometheus.folding import parse_bounds
from esbench.features.publish.prometheus.following import FollowedRace
from esbench.measure.tally import Second, Tally
from esbench.progress.lines import LineProgress
from esbench.record.store import decode_record

GOLDEN = Path(__file__).parents[1] / "golden" / "race-schema-3.json"
BOUNDS = parse_bounds("1,10", "")
OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"


@dataclass
class Answer:
    status: int
    kind: str
    body: bytes


def ask(
    endpoint: MetricsEndpoint, accept: str = "", path: str = "/metrics", method: str = "GET", **headers: str
) -> Answer:
    host, port = endpoint.url.removeprefix("http://").removesuffix("/metrics").rsplit(":", 1)
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=10)
    try:
        connection.request(method, path, headers={"Accept": accept, "Accept-Encoding": "gzip"} | headers)
        reply = connection.getresponse()
        body = reply.read()
        if reply.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        return Answer(reply.status, reply.headers["Content-Type"] or "", body)
    finally:
        connection.close()


@pytest.fixture
def following() -> FollowedRace:
    following = FollowedRace()
    following.race_begins(decode_record(GOLDEN.read_bytes()), [])
    tally = Tally(sent=3, requests=4, units=3)
    tally.errors.add("timeout", "no reply within 60 s")
    for ns in (500_000, 5_000_000, 5_100_000):
        tally.service_time.add(ns)
    following.second("read", Second(0, False, tally))
    return following


@pytest.fixture
def endpoint(following: FollowedRace) -> Iterator[MetricsEndpoint]:
    with MetricsEndpoint(Address("127.0.0.1", 0), [following], BOUNDS) as endpoint:
        yield endpoint


def test_whoever_asks_gets_text(endpoint: MetricsEndpoint) -> None:
    answer = ask(endpoint)
    assert (answer.status, answer.kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"esbench_service_time_seconds_bucket{" in answer.body
    assert b'le="0.01"' in answer.body


def test_openmetrics_to_those_who_accept_it(endpoint: MetricsEndpoint) -> None:
    answer = ask(endpoint, OPENMETRICS)
    assert answer.kind.startswith("application/openmetrics-text; version=1.0.0")
    assert answer.body.endswith(b"# EOF\n")
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert families["esbench_service_time_seconds"].unit == "seconds"
    assert [sample.value for sample in families["esbench_requests"].samples] == [4]


def test_a_scraper_may_ask_for_some_names(endpoint: MetricsEndpoint) -> None:
    answer = ask(endpoint, path="/metrics?name[]=esbench_errors_total")
    names = {line.partition("{")[0] for line in answer.body.decode().splitlines() if not line.startswith("#")}
    assert names == {"esbench_errors_total"}


def test_a_scraper_that_goes_away_says_nothing_on_the_terminal(
    endpoint: MetricsEndpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    host, port = endpoint.url.removeprefix("http://").removesuffix("/metrics").split(":")
    with socket.create_connection((host, int(port))) as gone:
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        gone.sendall(b"GET /metrics HT")
    assert ask(endpoint).status == 200
    assert capfd.readouterr() == ("", "")


def test_connections_that_ask_nothing_are_few_and_end(endpoint: MetricsEndpoint) -> None:
    host, port = endpoint.url.removeprefix("http://").removesuffix("/metrics").rsplit(":", 1)
    before = threading.active_count()
    idle = [socket.create_connection((host, int(port)), 10) for _ in range(50)]
    try:
        for each in idle[:8]:
            each.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        for refused in idle[8:]:
            assert refused.recv(1) == b""
        assert threading.active_count() <= before + 16  # a thread and a timer each
        for each in idle[:8]:
            each.settimeout(30)
            with contextlib.suppress(ConnectionResetError):
                assert b"200 OK" not in each.recv(100)
    finally:
        for each in idle:
            each.close()
    assert ask(endpoint).status == 200


def test_buckets_that_nobody_serves_are_refused() -> None:
    flags = {"metrics_port": "", "metrics_buckets": "1,2"}
    with pytest.raises(UsageError, match="add --metrics-port=9108"), followers(flags, Progress()):
        pass


def test_nothing_but_reading_is_allowed(endpoint: MetricsEndpoint) -> None:
    assert ask(endpoint, method="POST").status == 405


def test_before_the_race_the_answer_is_empty() -> None:
    with MetricsEndpoint(Address("127.0.0.1", 0), [FollowedRace()], BOUNDS) as endpoint:
        assert ask(endpoint, OPENMETRICS).body == b"# EOF\n"


PREFERS_PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," + OPENMETRICS
)


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (PREFERS_PROTOBUF, "application/openmetrics-text"),
        ("application/vnd.google.protobuf", "text/plain"),
        ("*/*", "text/plain"),
    ],
)
def test_a_scraper_that_prefers_another_format_gets_text(endpoint: MetricsEndpoint, accept: str, kind: str) -> None:
    answer = ask(endpoint, accept)
    assert (answer.status, answer.kind.partition(";")[0]) == (200, kind)
    assert b"esbench_service_time_seconds_bucket{" in answer.body


def test_it_ends_with_the_race(following: FollowedRace) -> None:
    with MetricsEndpoint(Address("127.0.0.1", 0), [following], BOUNDS) as endpoint:
        pass
    with pytest.raises(ConnectionRefusedError):
        ask(endpoint)
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    with MetricsEndpoint(Address("127.0.0.1", port), [following], BOUNDS) as again:
        assert ask(again).status == 200


def test_a_taken_port_is_one_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(UsageError, match=rf"--metrics-port: cannot listen at {address}: Address already in use"):
            MetricsEndpoint(address, [FollowedRace()], BOUNDS)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_of_another_host_is_an_error(host: str) -> None:
    with pytest.raises(UsageError, match="--metrics-port"):
        MetricsEndpoint(Address(host, 0), [FollowedRace()], BOUNDS)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9108", Address("127.0.0.1", 9108)),
        (":9108", Address("127.0.0.1", 9108)),
        ("0.0.0.0:9108", Address("0.0.0.0", 9108)),
        ("metrics.local:1", Address("metrics.local", 1)),
        ("[::1]:9108", Address("::1", 9108)),
    ],
)
def test_an_address_is_a_port_with_or_without_a_host(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "port", "70000", "-1", "host:", "::1:9108", "http://host:9108", "9" * 5000, "²"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--metrics-port"):
        parse_address(text)


def test_a_host_that_cannot_be_a_name_is_told() -> None:
    flags = {"metrics_port": "0..0.0:9108", "metrics_buckets": ""}
    with pytest.raises(UsageError, match=r'--metrics-port: "0..0.0" is not an address of this host'):
        followers(flags, LineProgress()).__enter__()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9108", 200),
        ("localhost:9108", 200),
        ("[::1]:9108", 200),
        ("evil.example:9108", 403),
        ("10.0.0.1", 403),
    ],
)
def test_a_page_of_another_name_does_not_read_the_metrics_of_this_host(
    endpoint: MetricsEndpoint, host: str, status: int
) -> None:
    answer = ask(endpoint, Host=host)
    assert answer.status == status
    assert (b"esbench_" in answer.body) == (status == 200)


def test_an_address_for_everyone_is_said_to_be_one(capsys: pytest.CaptureFixture[str]) -> None:
    for address, everyone in (("0", False), ("0.0.0.0:0", True)):
        flags = {"metrics_port": address, "metrics_buckets": ""}
        with followers(flags, LineProgress()):
            pass
        assert ("for everyone who can reach this host" in capsys.readouterr().err) == everyone
