"""A server that fails, over real sockets: what the record must say, and that the driver goes on as it should."""

from __future__ import annotations

import gzip
import math
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from driver import Driver, NullServerFactory, get, task
from raw_server import CLOSE, RESET, RawServer, reply, serve

from esbench.cluster.options import Access, ClientOptions, parse_hosts
from esbench.errors import ClusterError
from esbench.load.client import Client, Route
from esbench.load.coordinator import Cancelled
from esbench.load.hosts import Hosts
from esbench.load.recorder import Recorder
from esbench.load.script_client import ScriptClient
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import Verdict
from esbench.null_server import NullServer
from esbench.record.model import TaskResult
from esbench.requests.exchange import RequestFailed, ScriptSession


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver")) as driver:
        yield driver


def kinds(result: TaskResult) -> dict[str, int]:
    return {kind: error.count for kind, error in result.error_kinds.items()}


# faults of a connection


@pytest.mark.parametrize(
    ("fault", "kind", "example"),
    [
        ("hang", "timeout", r"within 0.2 s"),
        ("silence-inside", "timeout", r"within 0.2 s"),
        ("length-too-long", "timeout", r"within 0.2 s"),
        ("cut-before", "connection lost", "closed it before its reply"),
        ("cut-inside", "connection lost", "closed it before its reply"),
        ("reset-before", "connection lost", "reset"),
        ("reset-inside", "connection lost", "reset"),
        ("garbage", "bad response", "not HTTP"),
        ("length-too-short", "bad response", "more bytes"),
    ],
)
@pytest.mark.parametrize("keys", [{}, {"rate": 300}], ids=["closed", "open"])
def test_a_fault_is_counted_with_an_example_and_the_connection_replaced(
    server: NullServer, driver: Driver, fault: str, kind: str, example: str, keys: dict[str, Any]
) -> None:
    server.use({"rules": [{"path": "_doc", "every": 10, "fault": fault}]})
    params = {"request-timeout": "200ms"}
    result = driver.run(server.url, get(clients=2, requests=35, params=params, **keys))
    assert result.requests == server.counts().requests == 35
    if fault == "length-too-short" and keys:
        assert set(kinds(result)) <= {kind}  # between two requests the rest of a reply hurts nobody
    else:
        assert kinds(result) == {kind: 3}
        assert example in result.error_kinds[kind].example.lower().replace("http", "HTTP").replace(
            "not http", "not HTTP"
        )
        assert server.counts().connections > 2
    times = result.service_time_ms
    assert times is not None
    if kind == "timeout":
        assert times["max"] == math.inf
        assert 200 <= times["max_at_least"] < 1_500
    else:
        assert times["max"] < 200  # failures are not among the good replies
    assert result.error_rate_ratio == pytest.approx(result.errors / 35)


def test_a_refused_connection_is_tried_again_until_it_is_taken(server: NullServer, driver: Driver) -> None:
    server.use({"refuse": [{"at_s": 0.3, "for_s": 0.3}]})
    result = driver.run(server.url, get(rate=100, clients=4, time_period_s=1.7))
    assert set(kinds(result)) <= {"connection refused", "connection lost"}
    assert 4 <= kinds(result)["connection refused"] < 40  # with a pause in between
    assert server.url.removeprefix("http://") in result.error_kinds["connection refused"].example
    assert result.unsent == 0
    assert result.requests == result.due == 170
    assert result.driver_lag_ms is not None
    assert result.driver_lag_ms["p90"] < 50  # pauses are the server's doing


@pytest.fixture
def doomed(null_server: NullServerFactory) -> NullServer:
    """A server of the test's own: once it refuses connections, it cannot be told anything either."""
    return null_server()


GONE_SOON = {"at_s": 0.2, "for_s": 30}


def test_the_pause_after_a_refusal_is_client_wait(doomed: NullServer, driver: Driver) -> None:
    doomed.use({"refuse": [GONE_SOON]})
    result = driver.run(doomed.url, get(rate=100, clients=1, time_period_s=1.2))
    assert result.client_wait_ms is not None
    assert result.driver_lag_ms is not None
    assert result.client_wait_ms["max"] > 150
    assert result.driver_lag_ms["max"] < 100
    assert [second.second for _, second in driver.seconds] == sorted({second.second for _, second in driver.seconds})


def test_every_reply_may_close_its_connection(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "connection_close": True, "delay": {"type": "constant", "ms": 5}}]})
    result = driver.run(server.url, get(rate=200, clients=4, requests=60))
    assert (result.requests, result.errors) == (60, 0)
    assert 60 <= server.counts().connections <= 64


def test_a_connection_that_was_closed_between_requests_costs_no_request(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "fault": "close-after"}]})
    # far apart: after a stall requests that stand in line are sent in the moment of a reply, before the end is heard
    result = driver.run(server.url, get(rate=2.5, clients=1, requests=4))
    assert (result.requests, result.errors) == (4, 0)
    assert server.counts().connections == 4


def test_a_connection_that_is_closed_as_soon_as_it_is_open_is_lost(driver: Driver) -> None:
    """As a proxy does whose server is gone."""
    last = reply(b"{}", "200 OK", "Connection: close")
    with RawServer(lambda number, request: [last, CLOSE], greet=lambda number: [RESET] if number else []) as cutting:
        result = driver.run(cutting.url, task("raw-request", {"path": "/a"}, requests=8, think_time_s=0.005))
    assert (result.requests, result.errors) == (8, 7)
    assert set(kinds(result)) <= {"connection lost", "connection refused"}


async def test_a_connection_may_be_lost_before_its_request_is_sent(server: NullServer) -> None:
    class CutAtOnce(ScriptClient):
        async def connect(self) -> None:
            await super().connect()
            self.link.close()

    class Nothing:
        async def run(self, session: ScriptSession) -> Verdict:
            raise NotImplementedError

    class Closed:
        recorder = Recorder(WholeTime(0), is_open=False)

        def failed(self, verdict: Verdict) -> None:
            raise NotImplementedError

        def freed(self, client: Client) -> None:
            raise NotImplementedError

        def not_drawn(self, client: Client, reason: Exception) -> None:
            raise NotImplementedError

    (host,), _ = parse_hosts(server.url)
    hosts = Hosts([host], ClientOptions(), lost=lambda: None, back=lambda: None)
    client = CutAtOnce(0, Route(hosts, Access(), b"", 5), Nothing())
    client.loop = Closed()
    await client.connect()
    with pytest.raises(RequestFailed, match="as soon as it was open"):
        await client.request("GET", "/")
    client.close()
    hosts.close()


def test_half_of_a_sequence_fails_under_its_name(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"method": "PUT", "every": 4, "reply": {"status": 503}}]})
    sequence = task("read-after-write", {"id": "$[[any_id]]", "body": {"n": 1}}, clients=1, requests=20)
    result = driver.run(server.url, sequence)
    assert kinds(result) == {"HTTP 503 unavailable_shards_exception": 5} or result.errors == 5
    halves = {part.name: (part.requests, part.errors) for part in result.requests_by_name}
    assert (halves["write"], halves["read"]) == ((20, 5), (15, 0))  # a failed one skips the rest


# faults of replies


@pytest.mark.parametrize(
    ("merge", "kind"),
    [
        ({"timed_out": True}, "search timed out"),
        ({"_shards": {"total": 5, "successful": 4, "skipped": 0, "failed": 1}}, "shard failures"),
    ],
)
def test_a_search_over_less_than_all_is_a_failure(
    server: NullServer, driver: Driver, merge: dict[str, Any], kind: str
) -> None:
    server.use({"rules": [{"path": "_search", "every": 2, "merge": merge}]})
    result = driver.run(server.url, task("search", {"body": {"query": {"match_all": {}}}}, requests=10))
    assert kinds(result) == {kind: 5}


def test_a_reply_is_read_by_its_bytes_whatever_its_encoding_says(server: NullServer, driver: Driver) -> None:
    headers = {"content-encoding": "gzip"}
    server.use({"rules": [{"path": "_doc", "every": 3, "reply": {"status": 200, "body": {}, "headers": headers}}]})
    result = driver.run(server.url, get(requests=9))
    assert kinds(result) == {"bad response": 3}
    assert "{}" in result.error_kinds["bad response"].example


# unusual replies that are good


@pytest.mark.parametrize(
    "rule",
    [
        {"chunked": True},
        {"chunked": True, "pad_to_bytes": 300_000},
        {"pad_to_bytes": 20_000_000},
        {"drip": {"bytes": 100, "every_ms": 5}},
        {"chunked": True, "drip": {"bytes": 50, "every_ms": 2}},
    ],
    ids=["chunked", "many chunks", "huge", "slow", "slow chunks"],
)
@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_a_reply_may_come_in_any_form(
    server: NullServer, driver: Driver, rule: dict[str, Any], compressed: bool
) -> None:
    server.use({"rules": [{"path": "_doc", **rule}]})
    result = driver.run(server.url, get(clients=2, requests=6), options=ClientOptions(http_compress=compressed))
    assert (result.requests, result.errors) == (6, 0)
    assert server.counts().connections == 2


def test_a_slow_body_is_service_time_to_its_last_byte(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "drip": {"bytes": 100, "every_ms": 30}}]})
    result = driver.run(server.url, get(requests=3))
    assert result.service_time_ms is not None
    assert result.service_time_ms["min"] > 100


# what is sent


def test_credentials_and_compression_are_asked_for_in_each_request(driver: Driver) -> None:
    options = ClientOptions(basic_auth_user="u", basic_auth_password="p:ä", http_compress=True)
    with serve({"GET /a": (200, {})}) as tiny:
        result = driver.run(
            tiny.url, task("raw-request", {"path": "/a", "headers": {"X-Own": "1"}}, requests=3), options=options
        )
    assert result.errors == 0
    assert len(tiny.requests) == 3
    for asked in tiny.requests:
        headers = {name.lower(): value for name, value in asked.headers.items()}
        assert headers["authorization"] == "Basic dTpwOsOk"
        assert headers["accept-encoding"] == "gzip"
        assert headers["host"] == tiny.url.removeprefix("http://")
        assert headers["x-own"] == "1"


@pytest.fixture(scope="module")
def tls_server(null_servers: NullServerFactory, tmp_path_factory: pytest.TempPathFactory) -> tuple[NullServer, str]:
    folder = tmp_path_factory.mktemp("tls")
    authority, paths = trustme.CA(), [folder / name for name in ("cert.pem", "key.pem", "ca.pem")]
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(str(paths[0]))
    certificate.private_key_pem.write_to_path(str(paths[1]))
    authority.cert_pem.write_to_path(str(paths[2]))
    return null_servers(tls=(paths[0], paths[1])), str(paths[2])


@pytest.mark.parametrize("keys", [{}, {"rate": 300}], ids=["closed", "open"])
def test_the_same_over_tls(tls_server: tuple[NullServer, str], driver: Driver, keys: dict[str, Any]) -> None:
    server, authority = tls_server
    server.use({"rules": [{"path": "_doc", "every": 10, "fault": "cut-inside"}]})
    options = ClientOptions(use_ssl=True, ca_certs=authority)
    result = driver.run(server.url, get(clients=4, requests=100, **keys), options=options)
    assert result.requests == server.counts().requests == 100
    assert kinds(result) == {"connection lost": 10}


def test_a_certificate_need_not_be_verified(tls_server: tuple[NullServer, str], driver: Driver) -> None:
    server, _ = tls_server
    server.use({})
    options = ClientOptions(use_ssl=True, verify_certs=False)
    assert driver.run(server.url, get(requests=5), options=options).errors == 0


def test_a_certificate_that_is_not_trusted_is_one_line(tls_server: tuple[NullServer, str], driver: Driver) -> None:
    with pytest.raises(ClusterError, match=r"cannot connect: .*its certificate is not trusted: ") as caught:
        driver.run(tls_server[0].url, get(requests=5), options=ClientOptions(use_ssl=True))
    assert "\n" not in str(caught.value)


# ends in the middle of a fault


@pytest.mark.parametrize("keys", [{}, {"rate": 100}], ids=["closed", "open"])
def test_a_period_ends_while_nobody_listens(doomed: NullServer, driver: Driver, keys: dict[str, Any]) -> None:
    doomed.use({"refuse": [{"at_s": 1.0, "for_s": 30}]})  # by then the clients have begun, on a busy machine, too
    result = driver.run(doomed.url, get(clients=3, time_period_s=1.5, **keys))
    assert result.duration_s < 3.3
    assert kinds(result)["connection refused"] > 3
    assert result.requests > kinds(result)["connection refused"]


@pytest.mark.parametrize("stopped", ["clients", "script"])
def test_a_cancelled_step_does_not_wait_for_a_connection(doomed: NullServer, tmp_path: Path, stopped: str) -> None:
    slow = {"retry-until-success": True, "retry-wait-period": 30}
    tasks = {
        "clients": get(clients=4, rate=50, time_period_s=60),
        "script": task("refresh", slow, iterations=999, think_time_s=0.02),
    }
    with Driver(tmp_path, drain_s=0.5) as driver:
        driver.run(doomed.url, get())  # the worker is ready
        doomed.use({"refuse": [GONE_SOON]})
        threading.Timer(2, driver.coordinator.cancel).start()  # when it runs, on a busy machine, too
        begin = time.monotonic()
        with pytest.raises(Cancelled) as caught:
            driver.run(doomed.url, tasks[stopped])
        assert time.monotonic() - begin < 6
        (result,) = caught.value.results
        assert kinds(result) if stopped == "script" else kinds(result)["connection refused"]
        assert (result.unsent or 0) == (result.due or result.sent) - result.sent


def test_a_cancelled_step_does_not_wait_for_a_host_that_takes_no_connection(tmp_path: Path) -> None:
    """As one behind a firewall, or with a full backlog: connecting takes its time and comes to nothing."""
    reply = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, Driver(tmp_path, drain_s=0.5) as driver:

        def serve_each_client_once() -> None:
            accepted = [listener.accept()[0] for _ in range(4)]
            for connection in accepted:
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(reply)
            time.sleep(0.3)
            driver.coordinator.cancel()

        thread = threading.Thread(target=serve_each_client_once)
        thread.start()
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(Cancelled) as caught:
            driver.run(url, task("raw-request", {"path": "/a"}, clients=4, time_period_s=60))
        thread.join(5)
        (result,) = caught.value.results
        assert (result.requests, kinds(result)) == (8, {"cancelled": 4})


def test_gzip_is_what_the_null_server_sends(null_server: NullServerFactory) -> None:
    """The tests above would be of no use otherwise."""
    import urllib.request

    request = urllib.request.Request(f"{null_server().url}/orders/_doc/1", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(request) as reply:
        assert reply.headers["Content-Encoding"] == "gzip"
        assert b'"found"' in gzip.decompress(reply.read())
