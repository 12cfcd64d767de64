"""The null server over real sockets: its answers, its script, its counts. Timing bounds are wide on purpose."""

from __future__ import annotations

import asyncio
import gzip
import http.client
import json
import os
import select
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from esbench.errors import EngineError, UsageError
from esbench.null_server import NullServer, ServerScript
from esbench.null_server.log import LogLine

NullServerFactory = Callable[..., NullServer]

GET = b"GET /orders/_doc/%d HTTP/1.1\r\nHost: null\r\n\r\n"


class Client:
    """One keep-alive connection that reads JSON replies."""

    def __init__(self, server: NullServer, timeout_s: float = 10.0) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout_s)

    def __call__(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[int, Any]:
        reply, data = self.raw(method, path, body, headers)
        return reply.status, json.loads(data) if data else None

    def raw(
        self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> tuple[http.client.HTTPResponse, bytes]:
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        self._connection.request(method, path, data, dict(headers or {}))
        with self._connection.getresponse() as reply:
            return reply, reply.read()

    def close(self) -> None:
        self._connection.close()

    def __del__(self) -> None:
        self.close()


def bulk(*ids: int, action: str = "index") -> bytes:
    return b"".join(b'{"%s":{"_id":"%d"}}\n{"n":%d}\n' % (action.encode(), i, i) for i in ids)


def exchange(server: NullServer, request: bytes, timeout_s: float = 5.0) -> bytes:
    """All bytes that come back until the server closes or falls silent for `timeout_s`."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=timeout_s) as connection:
        connection.sendall(request)
        data = b""
        while True:
            try:
                piece = connection.recv(1 << 20)
            except TimeoutError:
                return data
            if not piece:
                return data
            data += piece


def elapsed_ms(client: Client, path: str = "/orders/_doc/1") -> float:
    begin = time.monotonic()
    client("GET", path)
    return (time.monotonic() - begin) * 1000


def waits_ms(log: list[LogLine]) -> list[float]:
    return [(line.answered_ns - line.received_ns) / 1e6 for line in log if line.answered_ns is not None]


# answers


def test_a_document_is_found_under_the_id_that_was_asked_for(null_server: NullServerFactory) -> None:
    status, reply = Client(null_server())("GET", "/orders/_doc/a%2Fb%22c")
    assert status == 200
    assert (reply["_index"], reply["_id"], reply["found"]) == ("orders", 'a/b"c', True)
    assert 380 <= len(json.dumps(reply["_source"])) <= 480


@pytest.mark.parametrize(
    ("version", "has_type", "product", "total"),
    [
        ("5.6.16", True, None, 1),
        ("6.8.23", True, None, 1),
        ("7.10.2", True, None, {"value": 1, "relation": "eq"}),
        ("7.17.29", True, "Elasticsearch", {"value": 1, "relation": "eq"}),
        ("8.19.4", False, "Elasticsearch", {"value": 1, "relation": "eq"}),
        ("opensearch-2.19.6", False, None, {"value": 1, "relation": "eq"}),
    ],
)
def test_replies_differ_by_version_as_the_real_ones_do(
    null_server: NullServerFactory, version: str, has_type: bool, product: str | None, total: object
) -> None:
    client = Client(null_server({"version": version}))
    reply, data = client.raw("GET", "/")
    facts = json.loads(data)["version"]
    assert facts["number"] == version.removeprefix("opensearch-")
    assert facts.get("distribution") == ("opensearch" if "opensearch" in version else None)
    assert reply.headers.get("X-elastic-product") == product
    assert ("_type" in client("GET", "/orders/_doc/1")[1]) == has_type
    assert client("GET", "/orders/_search")[1]["hits"]["total"] == total


def test_typed_paths_are_documents_on_6_and_unknown_on_7(null_server: NullServerFactory) -> None:
    server = null_server({"version": "6.8.23", "store": True})
    client = Client(server)
    assert client("PUT", "/orders/doc/1?refresh=true", {"n": 1})[0] == 201
    assert client("POST", "/orders/doc/_bulk?refresh=true", bulk(2, 3))[1]["errors"] is False
    assert client("GET", "/orders/doc/2")[1]["_source"] == {"n": 2}
    assert client("GET", "/orders/doc/_count")[1]["count"] == 3
    assert server.counts().by_class == {
        "PUT /*/_doc/*": 1,
        "POST /*/_bulk": 1,
        "GET /*/_doc/*": 1,
        "GET /*/_count": 1,
    }
    status, reply = Client(null_server())("GET", "/orders/doc/1")
    assert status == 400
    assert "no handler found for uri [/orders/doc/1]" in reply["error"]


def test_stored_documents_are_found_and_no_others(null_server: NullServerFactory) -> None:
    client = Client(null_server({"store": True}))
    assert client("GET", "/orders/_doc/1")[1]["error"]["type"] == "index_not_found_exception"
    assert client("PUT", "/orders/_doc/1", {"n": 1})[1]["result"] == "created"
    status, reply = client("PUT", "/orders/_doc/1", {"n": 2})
    assert (status, reply["result"], reply["_version"]) == (200, "updated", 2)
    status, reply = client("GET", "/orders/_doc/1")
    assert (status, reply["found"], reply["_source"], reply["_version"]) == (200, True, {"n": 2}, 2)
    assert client("GET", "/orders/_doc/2")[0] == 404
    status, reply = client("PUT", "/orders/_create/1", {"n": 3})
    assert (status, reply["error"]["type"]) == (409, "version_conflict_engine_exception")
    assert client("PUT", "/orders/_doc/1?op_type=create", {"n": 3})[0] == 409
    assert client("POST", "/orders/_doc", {"n": 4})[0] == 201
    assert client("DELETE", "/orders/_doc/1")[1]["result"] == "deleted"
    assert client("DELETE", "/orders/_doc/1")[0] == 404


def test_a_stored_document_needs_the_routing_that_it_was_indexed_with(null_server: NullServerFactory) -> None:
    client = Client(null_server({"store": True}))
    client("PUT", "/orders/_doc/1?routing=u7", {"n": 1})
    assert client("GET", "/orders/_doc/1?routing=u7")[0] == 200
    assert client("GET", "/orders/_doc/1")[0] == 404


@pytest.mark.parametrize("store", [False, True])
def test_a_count_sees_what_was_acknowledged_before_the_last_refresh(
    null_server: NullServerFactory, store: bool
) -> None:
    server = null_server({"store": store})
    client = Client(server)
    client("PUT", "/orders", {"settings": {"index.number_of_shards": 3}})
    assert client("POST", "/orders/_bulk", bulk(*range(50)))[1]["errors"] is False
    assert client("GET", "/orders/_count")[1]["count"] == 0
    assert client("POST", "/orders/_refresh")[1]["_shards"]["total"] == 3
    assert client("POST", "/_all/_refresh")[1]["_shards"]["total"] == 3
    assert client("GET", "/orders/_count")[1]["count"] == 50
    client("PUT", "/orders/_doc/50?refresh=true", {"n": 50})
    assert client("GET", "/_count")[1]["count"] == 51
    assert client("GET", "/_stats")[1]["_all"]["primaries"]["docs"]["count"] == 51
    assert server.counts().documents == 51


def test_a_bulk_answers_each_item_with_its_action_and_id(null_server: NullServerFactory) -> None:
    client = Client(null_server({"store": True}))
    body = bulk(1) + b'{"delete":{"_id":"9"}}\n' + bulk(1, action="create") + b'{"index":{}}\n{"n":3}\n'
    status, reply = client("POST", "/orders/_bulk", body)
    assert (status, reply["errors"]) == (200, True)
    assert [(*item, next(iter(item.values()))["status"]) for item in reply["items"]] == [
        ("index", 201),
        ("delete", 404),
        ("create", 409),
        ("index", 201),
    ]
    assert reply["items"][2]["create"]["error"]["type"] == "version_conflict_engine_exception"
    assert reply["items"][3]["index"]["_id"]


@pytest.mark.parametrize("body", [b'{"index":{}}\n{"n":1}', b"nonsense\n", b'{"idnex":{}}\n{"n":1}\n'])
def test_a_malformed_bulk_is_refused(null_server: NullServerFactory, body: bytes) -> None:
    status, reply = Client(null_server())("POST", "/orders/_bulk", body)
    assert (status, reply["error"]["type"]) == (400, "illegal_argument_exception")


def test_bulks_that_are_only_counted_count_the_same(null_server: NullServerFactory) -> None:
    server = null_server({"bulk_items": False})
    client = Client(server)
    assert client("POST", "/orders/_bulk", bulk(*range(1000)))[1] == {"took": 1, "errors": False, "items": []}
    client("POST", "/orders/_refresh")
    assert client("GET", "/orders/_count")[1]["count"] == server.counts().documents == 1000


def test_indices_are_created_described_changed_and_deleted(null_server: NullServerFactory) -> None:
    client = Client(null_server())
    assert client("HEAD", "/orders")[0] == 404
    body = {"settings": {"index": {"number_of_shards": 24}}, "mappings": {"properties": {"n": {"type": "long"}}}}
    assert client("PUT", "/orders", body)[1]["acknowledged"] is True
    assert client("HEAD", "/orders")[0] == 200
    assert client("PUT", "/orders", body)[1]["error"]["type"] == "resource_already_exists_exception"
    assert client("PUT", "/orders/_settings", {"index.refresh_interval": "5s"})[0] == 200
    settings = client("GET", "/orders/_settings")[1]["orders"]["settings"]["index"]
    assert (settings["number_of_shards"], settings["refresh_interval"]) == ("24", "5s")
    assert client("GET", "/orders/_mapping")[1] == {"orders": {"mappings": body["mappings"]}}
    assert client("GET", "/orders")[1]["orders"]["mappings"] == body["mappings"]
    assert client("GET", "/_cluster/health/orders?wait_for_status=green")[1]["active_shards"] == 24
    assert client("POST", "/orders/_forcemerge?max_num_segments=1")[1]["_shards"]["successful"] == 24
    assert client("DELETE", "/ord*")[0] == 200
    assert client("DELETE", "/orders")[1]["error"]["type"] == "index_not_found_exception"
    assert client("DELETE", "/orders?ignore_unavailable=true")[0] == 200


def test_nodes_and_their_statistics_are_told(null_server: NullServerFactory) -> None:
    client = Client(null_server())
    (node,) = client("GET", "/_nodes")[1]["nodes"].values()
    assert node["version"] == "7.17.29"
    (node,) = client("GET", "/_nodes/stats/jvm,process")[1]["nodes"].values()
    assert node["process"]["cpu"]["total_in_millis"] > 0
    assert set(node["jvm"]["gc"]["collectors"]) == {"young", "old"}


# HTTP


def test_pipelined_requests_are_answered_in_their_order(null_server: NullServerFactory) -> None:
    delays = {"type": "list", "ms": [60, 0, 30, 0]}
    server = null_server({"rules": [{"path": "/_doc/", "delay": delays}]})
    data = exchange(server, b"".join(GET % i for i in range(8)), timeout_s=0.5)
    ids = [json.loads(part.partition(b"\r\n\r\n")[2])["_id"] for part in data.split(b"HTTP/1.1 ")[1:]]
    assert ids == [str(i) for i in range(8)]


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_what_a_socket_does_not_take_at_once_is_followed_by_what_comes_after_it(
    null_server: NullServerFactory, loop: str
) -> None:
    server = null_server({"rules": [{"path": "/1$", "pad_to_bytes": 8_000_000}]}, loop=loop)
    last = GET.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    replies = exchange(server, GET % 1 + GET % 2 + GET % 1 + last % 3)
    bodies = [json.loads(reply.partition(b"\r\n\r\n")[2]) for reply in replies.split(b"HTTP/1.1 ")[1:]]
    assert [body["_id"] for body in bodies] == ["1", "2", "1", "3"]
    assert len(replies) > 16_000_000


def test_the_time_that_it_was_busy_is_told(null_server: NullServerFactory) -> None:
    server = null_server()
    before, begin = server.counts(), time.monotonic()
    while time.monotonic() < begin + 0.3:
        server.counts()
    busy_s = server.counts().busy_s - before.busy_s
    assert 0.01 < busy_s < time.monotonic() - begin


def test_requests_may_arrive_in_any_pieces(null_server: NullServerFactory) -> None:
    server = null_server({"store": True})
    body = b'{"n":1}'
    request = b"PUT /orders/_doc/1 HTTP/1.1\r\nHost: null\r\nContent-Length: 7\r\n\r\n" + body + GET % 1 + GET % 1
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(request), 11):
            connection.sendall(request[at : at + 11])
            time.sleep(0.001)
        data = b""
        while data.count(b'"_source":{"n":1}') < 2:
            data += connection.recv(65536)
    assert server.counts().by_class == {"PUT /*/_doc/*": 1, "GET /*/_doc/*": 2}


def test_chunked_and_compressed_request_bodies_are_read(null_server: NullServerFactory) -> None:
    server = null_server({"store": True})
    client = Client(server)
    client("POST", "/orders/_bulk", gzip.compress(bulk(1, 2)), {"Content-Encoding": "gzip"})
    data = bulk(3)
    chunks = b"5\r\n" + data[:5] + b"\r\n" + b"%x\r\n" % (len(data) - 5) + data[5:] + b"\r\n0\r\n\r\n"
    head = b"POST /orders/_bulk HTTP/1.1\r\nHost: null\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    assert b'"errors":false' in exchange(server, head + chunks)
    assert client("GET", "/orders/_doc/3")[0] == 200
    assert server.counts().documents == 3


def test_replies_are_compressed_where_that_is_accepted(null_server: NullServerFactory) -> None:
    reply, data = Client(null_server()).raw("GET", "/orders/_doc/1", headers={"Accept-Encoding": "gzip"})
    assert reply.headers["content-encoding"] == "gzip"
    assert json.loads(gzip.decompress(data))["found"] is True


def test_an_opaque_id_comes_back_and_stands_in_the_log(null_server: NullServerFactory) -> None:
    server = null_server(log=True)
    client = Client(server)
    for number in range(3):
        reply, _ = client.raw("GET", "/orders/_doc/1", headers={"X-Opaque-Id": f"r-{number}"})
        assert reply.headers["X-Opaque-Id"] == f"r-{number}"
    assert [line.opaque_id for line in server.log()] == ["r-0", "r-1", "r-2"]


def test_a_client_that_asks_to_close_is_closed(null_server: NullServerFactory) -> None:
    server = null_server()
    request = (GET % 1).replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    for _ in range(2):  # parsed, then looked up
        assert b"\r\nConnection: close\r\n" in exchange(server, request)
    old = (GET % 1).replace(b"HTTP/1.1", b"HTTP/1.0")
    assert exchange(server, old).startswith(b"HTTP/1.1 200 OK")


def test_what_is_not_http_is_refused_and_counted(null_server: NullServerFactory) -> None:
    server = null_server()
    assert exchange(server, b"\x16\x03\x01 hello\r\n\r\n").startswith(b"HTTP/1.1 400 ")
    assert server.counts().malformed == 1


def test_a_head_reply_has_a_length_and_no_body(null_server: NullServerFactory) -> None:
    reply, data = Client(null_server()).raw("HEAD", "/orders/_doc/1")
    assert data == b""
    assert int(reply.headers["content-length"]) > 400


def test_tls(null_server: NullServerFactory, tmp_path: Path) -> None:
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run(
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 1 -subj /CN=localhost "
        f"-addext subjectAltName=IP:127.0.0.1 -out {certificate} -keyout {key}".split(),
        check=True,
        capture_output=True,
    )
    server = null_server(tls=(certificate, key))
    trusted = ssl.create_default_context(cafile=str(certificate))
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, context=trusted, timeout=5)
    connection.request("GET", "/orders/_doc/1")
    assert json.loads(connection.getresponse().read())["found"] is True
    connection.close()
    assert server.url.startswith("https://")
    assert server.counts().requests == 1


# the script: times


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
def test_a_constant_delay_is_kept_to_the_fraction_of_a_millisecond(null_server: NullServerFactory, loop: str) -> None:
    script = {"rules": [{"path": "/_doc/", "delay": {"type": "constant", "ms": 3}}]}
    server = null_server(script, log=True, loop=loop)
    client = Client(server)
    for _ in range(100):
        client("GET", "/orders/_doc/1")
    waits = waits_ms(server.log())
    assert min(waits) >= 3
    assert statistics.median(waits) < 3.5
    assert {line.delay_ms for line in server.log()} == {3.0}


def test_a_bimodal_delay_hits_its_share(null_server: NullServerFactory) -> None:
    delay = {"type": "bimodal", "low_ms": 0, "high_ms": 20, "high_ratio": 0.1}
    server = null_server({"rules": [{"delay": delay}]}, log=True)
    client = Client(server)
    for _ in range(300):
        client("GET", "/orders/_doc/1")
    slow = [line for line in server.log() if line.delay_ms == 20]
    assert 10 <= len(slow) <= 55  # 30 expected, standard deviation 5.2
    assert {line.delay_ms for line in server.log()} == {0.0, 20.0}


def test_draws_repeat_with_the_seed(null_server: NullServerFactory) -> None:
    def delays(seed: int) -> list[float]:
        delay = {"type": "exponential", "mean_ms": 0.5}
        with NullServer({"seed": seed, "rules": [{"delay": delay}]}, log=True) as server:
            client = Client(server)
            for _ in range(50):
                client("GET", "/orders/_doc/1")
            return [line.delay_ms for line in server.log()]

    first = delays(1)
    assert first == delays(1)
    assert first != delays(2)
    assert 0.2 < statistics.mean(first) < 1.0


def test_nothing_is_answered_in_a_stall_then_everything(null_server: NullServerFactory) -> None:
    script = {"rules": [{"path": "/_doc/", "since": "first-match", "stall": {"at_s": 0.3, "for_s": 0.5}}]}
    server = null_server(script, log=True)

    async def open_loop() -> None:
        async def one(number: int) -> None:
            await asyncio.sleep(number * 0.02)
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            writer.write(GET % number)
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()

        await asyncio.gather(*(one(number) for number in range(50)))

    asyncio.run(open_loop())
    log = server.log()
    zero = min(line.received_ns for line in log)
    held = [line for line in log if 300e6 <= line.received_ns - zero < 800e6]
    assert len(held) >= 15
    assert all((line.answered_ns or 0) - zero >= 800e6 for line in held)
    assert all(line.delay_ms == 0 for line in log if line not in held)
    answered = [(line.answered_ns or 0) - zero for line in held]
    assert max(answered) - min(answered) < 200e6


def test_a_queue_serves_as_many_at_a_time_as_it_has_slots(null_server: NullServerFactory) -> None:
    queue = {"slots": 2, "service": {"type": "constant", "ms": 20}}
    server = null_server({"rules": [{"path": "/_doc/", "queue": queue}]}, log=True)
    connections = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(6)]
    for number, connection in enumerate(connections):
        connection.sendall(GET % number)
    for connection in connections:
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.close()
    log = server.log()
    zero = min(line.received_ns for line in log)
    finished = sorted(((line.answered_ns or 0) - zero) / 1e6 for line in log)
    for position, expected in enumerate([20, 20, 40, 40, 60, 60]):
        assert expected - 0.1 <= finished[position] < expected + 15


# the script: replies


def test_rules_choose_by_method_path_number_and_turn(null_server: NullServerFactory) -> None:
    rules = [
        {"method": "GET", "path": "^/orders/_doc/", "first": 3, "every": 2, "last": 7, "reply": {"status": 503}},
        {"method": "PUT", "reply": {"status": 429, "headers": {"retry-after": "1"}}},
        {"path": "_search", "reply": {"status": 200, "body": {"custom": 1}}},
    ]
    server = null_server({"rules": rules})
    client = Client(server)
    assert [client("GET", f"/orders/_doc/{i}")[0] for i in range(10)] == [200] * 3 + [503, 200, 503] + [200] * 4
    reply, data = client.raw("PUT", "/orders/_doc/1", {"n": 1})
    assert (reply.status, reply.headers["retry-after"]) == (429, "1")
    assert json.loads(data)["error"]["type"] == "es_rejected_execution_exception"
    assert client("GET", "/orders/_search")[1] == {"custom": 1}
    assert server.counts().documents == 0  # a request that was refused is not carried out


def test_a_rule_may_hold_for_a_while_only(null_server: NullServerFactory) -> None:
    rule = {"since": "first-match", "after_s": 0.1, "until_s": 0.3, "reply": {"status": 500}}
    client = Client(null_server({"rules": [rule]}))
    begin, seen = time.monotonic(), []
    while time.monotonic() - begin < 0.5:
        seen.append(client("GET", "/orders/_doc/1")[0])
        time.sleep(0.01)
    assert seen[0] == seen[-1] == 200
    assert 500 in seen


def test_a_share_of_bulk_items_fails(null_server: NullServerFactory) -> None:
    server = null_server({"rules": [{"path": "_bulk", "bulk_errors": {"share": 0.25}}]})
    client = Client(server)
    reply = client("POST", "/orders/_bulk", bulk(*range(400)))[1]
    failed = [item for item in reply["items"] if item["index"]["status"] == 429]
    assert reply["errors"] is True
    assert 60 <= len(failed) <= 140  # 100 expected, standard deviation 8.7
    assert server.counts().documents == 400 - len(failed)


def test_replies_are_changed_by_merging(null_server: NullServerFactory) -> None:
    change = {"timed_out": True, "_shards": {"failed": 1}}
    client = Client(null_server({"rules": [{"path": "_search", "merge": change}]}))
    status, reply = client("GET", "/orders/_search")
    assert (status, reply["timed_out"], reply["_shards"]["failed"], reply["_shards"]["total"]) == (200, True, 1, 1)


def test_replies_may_be_huge_chunked_and_dripped(null_server: NullServerFactory) -> None:
    rules = [
        {"path": "huge", "pad_to_bytes": 20_000_000},
        {"path": "chunked", "chunked": True, "pad_to_bytes": 50_000},
        {"path": "dripped", "drip": {"bytes": 100, "every_ms": 20}},
        {"path": "both", "chunked": True, "drip": {"bytes": 200, "every_ms": 5}},
    ]
    client = Client(null_server({"rules": rules}))
    assert len(client.raw("GET", "/orders/_doc/huge")[1]) == 20_000_000
    reply, data = client.raw("GET", "/orders/_doc/chunked")
    assert reply.headers["transfer-encoding"] == "chunked"
    assert len(data) == 50_000
    assert json.loads(data)["found"] is True
    assert elapsed_ms(client, "/orders/_doc/dripped") >= 80
    assert client("GET", "/orders/_doc/both")[1]["found"] is True


# the script: faults


def faulty(fault: str, **more: Any) -> dict[str, Any]:
    return {"rules": [{"path": "/_doc/", "fault": fault, **more}]}


def test_a_hanging_request_is_never_answered(null_server: NullServerFactory) -> None:
    server = null_server(faulty("hang"), log=True)
    client = Client(server, timeout_s=0.2)
    with pytest.raises(TimeoutError):
        client("GET", "/orders/_doc/1")
    client.close()
    deadline = time.monotonic() + 5
    while not server.log() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [line.answered_ns for line in server.log()] == [None]
    assert Client(server)("GET", "/orders/_search")[0] == 200


def test_a_connection_is_cut_before_the_reply(null_server: NullServerFactory) -> None:
    server = null_server(faulty("cut-before"), log=True)
    assert exchange(server, GET % 1) == b""
    assert [line.answered_ns for line in server.log()] == [None]
    assert server.counts().requests == 1


def test_a_connection_is_cut_inside_the_reply(null_server: NullServerFactory) -> None:
    server = null_server(faulty("cut-inside"), log=True)
    data = exchange(server, GET % 1)
    assert [line.answered_ns for line in server.log()] == [None]
    head, _, body = data.partition(b"\r\n\r\n")
    assert b"200 OK" in head
    assert 0 < len(body) < int(head.rpartition(b"content-length: ")[2])


@pytest.mark.parametrize("loop", ["uvloop", "asyncio"])
@pytest.mark.parametrize("fault", ["reset-before", "reset-inside"])
def test_a_connection_is_reset(null_server: NullServerFactory, fault: str, loop: str) -> None:
    with pytest.raises(ConnectionResetError):
        exchange(null_server(faulty(fault), loop=loop), GET % 1)


def test_half_a_reply_then_silence(null_server: NullServerFactory) -> None:
    with pytest.raises(TimeoutError):
        Client(null_server(faulty("silence-inside")), timeout_s=0.3)("GET", "/orders/_doc/1")


def test_a_length_that_promises_too_much(null_server: NullServerFactory) -> None:
    with pytest.raises(TimeoutError):
        Client(null_server(faulty("length-too-long")), timeout_s=0.3)("GET", "/orders/_doc/1")


def test_a_length_that_promises_too_little(null_server: NullServerFactory) -> None:
    data = exchange(null_server(faulty("length-too-short")), GET % 1, timeout_s=0.3)
    head, _, body = data.partition(b"\r\n\r\n")
    assert json.loads(body)["found"] is True
    assert int(head.rpartition(b"content-length: ")[2]) < len(body)


def test_garbage(null_server: NullServerFactory) -> None:
    with pytest.raises(http.client.BadStatusLine):
        Client(null_server(faulty("garbage")))("GET", "/orders/_doc/1")


def test_a_connection_closes_after_a_reply_with_or_without_a_word(null_server: NullServerFactory) -> None:
    data = exchange(null_server(faulty("close-after")), GET % 1)
    assert b'"found":true' in data
    assert b"Connection" not in data
    data = exchange(null_server({"rules": [{"connection_close": True}]}), GET % 1)
    assert b"\r\nConnection: close\r\n" in data


def test_a_fault_may_come_late_and_seldom(null_server: NullServerFactory) -> None:
    server = null_server(faulty("cut-before", every=3, delay={"type": "constant", "ms": 50}))
    client = Client(server)
    assert [client("GET", "/orders/_doc/1")[0] for _ in range(2)] == [200, 200]
    begin = time.monotonic()
    with pytest.raises(http.client.RemoteDisconnected):
        client("GET", "/orders/_doc/1")
    assert time.monotonic() - begin >= 0.05


def test_connections_are_refused_for_a_while(null_server: NullServerFactory) -> None:
    server = null_server({"refuse": [{"at_s": 0.3, "for_s": 0.5}]})
    outcomes = []
    begin = time.monotonic()
    while time.monotonic() - begin < 1.5:
        try:
            socket.create_connection(("127.0.0.1", server.port), timeout=1).close()
            outcomes.append("open")
        except ConnectionRefusedError:
            outcomes.append("refused")
        time.sleep(0.02)
    runs = [kind for at, kind in enumerate(outcomes) if at == 0 or outcomes[at - 1] != kind]
    assert runs == ["open", "refused", "open"]
    assert 10 <= outcomes.count("refused") <= 26
    assert Client(server)("GET", "/orders/_doc/1")[0] == 200


@pytest.mark.parametrize("cut", [True, False])
def test_an_outage_cuts_open_connections_or_leaves_them(null_server: NullServerFactory, cut: bool) -> None:
    server = null_server()
    client = Client(server)
    assert client("GET", "/orders/_doc/1")[0] == 200
    server.use({"refuse": [{"at_s": 0.05, "for_s": 0.2, "cut": cut}]})
    time.sleep(0.15)
    if cut:
        with pytest.raises(ConnectionError):
            client("GET", "/orders/_doc/1")
    else:
        assert client("GET", "/orders/_doc/1")[0] == 200


# counts, control, life


def test_counts_tell_classes_seconds_and_connections_but_not_the_control_path(
    null_server: NullServerFactory,
) -> None:
    server = null_server()
    clients = [Client(server) for _ in range(3)]
    for client in clients:
        for number in range(5):
            client("GET", f"/orders/_doc/{number}")
    clients[0]("POST", "/_search", {})
    server.counts()
    counts = server.counts()
    assert counts.by_class == {"GET /*/_doc/*": 15, "POST /_search": 1}
    assert (counts.requests, counts.connections, sum(counts.per_second)) == (16, 3, 16)
    server.reset()
    assert server.counts().requests == 0
    clients[1]("GET", "/orders/_doc/1")
    assert (server.counts().requests, server.counts().connections) == (1, 1)


def test_a_new_script_keeps_the_documents_and_starts_its_clock(null_server: NullServerFactory) -> None:
    server = null_server({"store": True}, log=True)
    client = Client(server)
    client("PUT", "/orders/_doc/1", {"n": 1})
    server.use({"store": True, "rules": [{"until_s": 60, "delay": {"type": "constant", "ms": 30}}]})
    assert server.log() == []
    assert elapsed_ms(client) >= 30
    assert client("GET", "/orders/_doc/1")[1]["_source"] == {"n": 1}
    server.use(ServerScript())
    assert client("HEAD", "/orders")[0] == 404  # without a store it is another cluster


def test_a_log_that_is_not_kept_is_an_error(null_server: NullServerFactory) -> None:
    with pytest.raises(EngineError, match="keeps no log"):
        null_server().log()


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ({"rules": [{"dealy": {"type": "constant", "ms": 1}}]}, 'did you mean "delay"'),
        ({"rule": []}, 'did you mean "rules"'),
        ({"rules": [{"fault": "hangs"}]}, "hangs"),
        ({"rules": [{"path": "("}]}, r"rules\[0\]: path"),
        ({"rules": [{}, {"share": 2}]}, r"rules\[1\]: share"),
        ({"rules": [{"delay": {"type": "constant", "ms": "x"}}]}, "delay"),
        ({"rules": [{"delay": {"type": "list", "ms": []}}]}, "needs a value"),
        ({"version": "seven"}, "seven"),
    ],
)
def test_a_wrong_script_is_told_in_one_line(script: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        NullServer(script)
    assert "\n" not in str(caught.value)


def test_a_server_that_is_gone_does_not_answer() -> None:
    with NullServer() as server:
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(EngineError, match="null server, counts: it does not answer: "):
            server.counts()


def test_a_port_that_is_taken_is_told(null_server: NullServerFactory) -> None:
    with pytest.raises(EngineError, match="address already in use"), NullServer(port=null_server().port):
        pass


def test_the_command_prints_its_address_and_ends_on_sigterm(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text('{"version": "8.19.4"}')
    log = tmp_path / "requests.ndjson"
    process = subprocess.Popen(
        [sys.executable, "-m", "esbench.null_server", "--script", str(script), "--log", str(log)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        url = json.loads(process.stdout.readline())["url"]
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=5)
        connection.request("GET", "/")
        assert json.loads(connection.getresponse().read())["version"]["number"] == "8.19.4"
        connection.close()
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(5) == 0
        process.stdout.close()
    assert json.loads(log.read_text())["path"] == "/"


def test_the_server_ends_with_the_process_that_started_it() -> None:
    code = (
        "import time; from esbench.null_server import NullServer\n"
        "server = NullServer().start(); print(server.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    descriptor = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    parent.stdout.close()
    ready, _, _ = select.select([descriptor], [], [], 5)
    os.close(descriptor)
    assert ready


def test_it_serves_until_it_is_stopped_and_may_be_stopped_twice() -> None:
    server = NullServer({"version": "7.10.2"})
    server.stop()
    address = ("127.0.0.1", server.start().port)
    socket.create_connection(address, timeout=5).close()
    assert server.script.version == "7.10.2"
    server.stop()
    server.stop()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address, timeout=5)
