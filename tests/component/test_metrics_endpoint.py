"""The endpoint that scrapers read: where it listens, and in which format it answers."""

from __future__ import annotations

import gzip
import http.client
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import pytest
from google.protobuf.proto import parse_length_prefixed
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from esbench.cli.metrics_options import others_who_follow
from esbench.errors import UsageError
from esbench.events.progress import Progress
from esbench.measure.tally import Second, Tally
from esbench.publish.prometheus import protobuf
from esbench.publish.prometheus.endpoint import Address, Endpoint, parse_address, prefers_protobuf
from esbench.publish.prometheus.folding import NATIVE_SCHEMA, parse_bounds
from esbench.publish.prometheus.following import Following
from esbench.record.store import decode_record

GOLDEN = Path(__file__).parents[1] / "golden" / "race-schema-3.json"
BOUNDS = parse_bounds("1,10", "")
OPENMETRICS = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3"
PROTOBUF = (
    "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6," + OPENMETRICS
)


@dataclass
class Answer:
    status: int
    kind: str
    body: bytes


def ask(endpoint: Endpoint, accept: str = "", path: str = "/metrics", method: str = "GET") -> Answer:
    host, port = endpoint.url.removeprefix("http://").removesuffix("/metrics").rsplit(":", 1)
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=10)
    try:
        connection.request(method, path, headers={"Accept": accept, "Accept-Encoding": "gzip"})
        reply = connection.getresponse()
        body = reply.read()
        if reply.headers["Content-Encoding"] == "gzip":
            body = gzip.decompress(body)
        return Answer(reply.status, reply.headers["Content-Type"] or "", body)
    finally:
        connection.close()


@pytest.fixture
def following() -> Following:
    following = Following()
    following.race_begins(decode_record(GOLDEN.read_bytes()), [])
    tally = Tally(sent=3, requests=4, units=3)
    tally.errors.add("timeout", "no reply within 60 s")
    for ns in (500_000, 5_000_000, 5_100_000):
        tally.service_time.add(ns)
    following.second("read", Second(0, False, tally))
    return following


@pytest.fixture
def endpoint(following: Following) -> Iterator[Endpoint]:
    with Endpoint(Address("127.0.0.1", 0), following, BOUNDS) as endpoint:
        yield endpoint


def test_whoever_asks_gets_text(endpoint: Endpoint) -> None:
    answer = ask(endpoint)
    assert (answer.status, answer.kind) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert b"esbench_service_time_seconds_bucket{" in answer.body
    assert b'le="0.01"' in answer.body


def test_openmetrics_to_those_who_accept_it(endpoint: Endpoint) -> None:
    answer = ask(endpoint, OPENMETRICS)
    assert answer.kind.startswith("application/openmetrics-text; version=1.0.0")
    assert answer.body.endswith(b"# EOF\n")
    families = {family.name: family for family in text_string_to_metric_families(answer.body.decode())}
    assert families["esbench_service_time_seconds"].unit == "seconds"
    assert [sample.value for sample in families["esbench_requests"].samples] == [4]


def test_protobuf_with_native_histograms_to_those_who_prefer_it(endpoint: Endpoint) -> None:
    answer = ask(endpoint, PROTOBUF)
    assert answer.kind == protobuf.CONTENT_TYPE
    body = BytesIO(answer.body)
    families = {f.name: f for f in iter(lambda: parse_length_prefixed(protobuf.family_class(), body), None)}
    assert families["esbench_requests_total"].metric[0].counter.value == 4
    assert families["esbench_race_info"].metric[0].gauge.value == 1
    (metric,) = families["esbench_service_time_seconds"].metric
    assert {"task", "phase", "track"} <= {label.name for label in metric.label}
    histogram = metric.histogram
    assert histogram.sample_count == 3
    assert histogram.sample_sum == pytest.approx(0.0106)
    assert [(b.upper_bound, b.cumulative_count) for b in histogram.bucket] == [(0.001, 1), (0.01, 3), (float("inf"), 3)]
    assert (histogram.schema, histogram.zero_count) == (NATIVE_SCHEMA, 0)
    assert list(histogram.positive_delta) == [1, 0, 0]
    assert [span.length for span in histogram.positive_span] == [1, 2]


def test_a_scraper_may_ask_for_some_names(endpoint: Endpoint) -> None:
    answer = ask(endpoint, path="/metrics?name[]=esbench_errors_total")
    names = {line.partition("{")[0] for line in answer.body.decode().splitlines() if not line.startswith("#")}
    assert names == {"esbench_errors_total"}


def test_a_scraper_that_goes_away_says_nothing_on_the_terminal(
    endpoint: Endpoint, capfd: pytest.CaptureFixture[str]
) -> None:
    host, port = endpoint.url.removeprefix("http://").removesuffix("/metrics").split(":")
    with socket.create_connection((host, int(port))) as gone:
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
        gone.sendall(b"GET /metrics HT")
    assert ask(endpoint).status == 200
    assert capfd.readouterr() == ("", "")


def test_buckets_that_nobody_serves_are_refused() -> None:
    flags = {"metrics_port": "", "metrics_buckets": "1,2", "annotate": ""}
    with pytest.raises(UsageError, match="add --metrics-port=9108"), others_who_follow(flags, Progress()):
        pass


def test_nothing_but_reading_is_allowed(endpoint: Endpoint) -> None:
    assert ask(endpoint, method="POST").status == 405


def test_before_the_race_the_answer_is_empty() -> None:
    with Endpoint(Address("127.0.0.1", 0), Following(), BOUNDS) as endpoint:
        assert ask(endpoint, OPENMETRICS).body == b"# EOF\n"


@pytest.mark.parametrize(
    ("accept", "protobuf"),
    [
        ("", False),
        (PROTOBUF, True),
        (OPENMETRICS, False),
        ("application/openmetrics-text;q=0.6, application/vnd.google.protobuf;q=0.4", False),
        ("application/vnd.google.protobuf;q=0, */*;q=0.1", False),
        ("APPLICATION/vnd.google.protobuf", True),
        ("*/*, application/vnd.google.protobuf", False),
        ("application/vnd.google.protobuf;q=high", False),
    ],
)
def test_protobuf_is_answered_where_it_ranks_first(accept: str, protobuf: bool) -> None:
    assert prefers_protobuf(accept) is protobuf


def test_it_ends_with_the_race(following: Following) -> None:
    with Endpoint(Address("127.0.0.1", 0), following, BOUNDS) as endpoint:
        pass
    with pytest.raises(ConnectionRefusedError):
        ask(endpoint)
    port = int(endpoint.url.rpartition(":")[2].partition("/")[0])
    with Endpoint(Address("127.0.0.1", port), following, BOUNDS) as again:
        assert ask(again).status == 200


def test_a_taken_port_is_one_error() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = Address("127.0.0.1", taken.getsockname()[1])
        with pytest.raises(UsageError, match=rf"--metrics-port: cannot listen at {address}: Address already in use"):
            Endpoint(address, Following(), BOUNDS)


@pytest.mark.parametrize("host", ["no-such-host.invalid", "192.0.2.1"])
def test_an_address_of_another_host_is_an_error(host: str) -> None:
    with pytest.raises(UsageError, match="--metrics-port"):
        Endpoint(Address(host, 0), Following(), BOUNDS)


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


@pytest.mark.parametrize("text", ["", "port", "70000", "-1", "host:", "::1:9108", "http://host:9108"])
def test_what_is_no_address_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="--metrics-port"):
        parse_address(text)
