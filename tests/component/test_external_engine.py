"""A cluster that somebody else runs is checked before the race: all hosts at once, in one line."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace

import pytest
from raw_server import GREEN, INFO, Action, RawServer, Request, reply, serve

from esbench.cluster.options import ClientOptions, Host, parse_hosts
from esbench.errors import ClusterError
from esbench.race.external import SOON_S, ExternalEngine

TIMEOUT_S = 1.0
WITHIN_S = 20.0  # not a minute, which `timeout` is by default, nor one of them after the other


def engine(*urls: str, options: ClientOptions | None = None) -> ExternalEngine:
    hosts, given = parse_hosts(list(urls), options)
    return ExternalEngine(hosts, replace(given, timeout_s=TIMEOUT_S))


def failure(*urls: str, options: ClientOptions | None = None) -> str:
    started = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        engine(*urls, options=options).start()
    assert time.monotonic() - started < WITHIN_S
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_hosts_that_answer_become_the_endpoint() -> None:
    with serve(GREEN) as one, serve(GREEN) as two:
        external = engine(one.url, two.url)
        assert external.start().urls == (one.url, two.url)
        external.stop()
        assert all(server.requests[0].target == "/" for server in (one, two))


def test_every_host_is_checked_and_the_bad_one_named() -> None:
    with serve(GREEN) as good, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        port = taken.getsockname()[1]
        assert failure(good.url, f"127.0.0.1:{port}").startswith(f"127.0.0.1:{port}: connection refused")


def test_hosts_that_never_answer_are_told_at_once_not_one_after_the_other() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        ports = [sock.getsockname()[1] for sock in (one, two)]
        assert failure(*(f"127.0.0.1:{port}" for port in ports)).startswith(f"127.0.0.1:{ports[0]}: no answer")


def test_a_host_that_answers_byte_by_byte_does_not_hold_the_race() -> None:
    bytes_and_pauses = [part for byte in b"HTTP/1.1 200 OK\r\nX-Long: " + b"x" * 100 for part in (0.2, bytes([byte]))]
    with RawServer(lambda number, request: bytes_and_pauses) as slow:
        assert "no answer within" in failure(slow.url)


def test_a_host_has_as_long_as_a_request_may_take_and_is_named_meanwhile() -> None:
    said: list[str] = []

    def answer(number: int, request: Request) -> list[Action]:
        body = reply(json.dumps(GREEN[request.line][1]), "200 OK", "Content-Type: application/json")
        return [SOON_S + 0.5, body] if request.target == "/" else [body]

    with serve(GREEN) as quick, RawServer(answer) as slow:
        hosts, options = parse_hosts([quick.url, slow.url])
        assert ExternalEngine(hosts, options, said.append).start().urls == (quick.url, slow.url)
    (line,) = said
    assert line.startswith(f"waiting for 127.0.0.1:{slow.port} to answer, up to 60 s (--client-options=timeout:5")


def test_a_red_cluster_names_its_red_indices() -> None:
    indices = {f"i{n}": {"status": "red"} for n in range(7)} | {"fine": {"status": "green"}}
    health = {"status": "red", "indices": indices}
    with serve({**GREEN, "GET /_cluster/health": (200, health)}) as server:
        said = failure(server.url)
        assert "the cluster is red: i0, i1, i2, i3, i4 and 2 more (" in said
        assert "fine" not in said


def test_a_cluster_without_a_master_is_told() -> None:
    reply = {"error": {"type": "master_not_discovered_exception", "reason": None}, "status": 503}
    with serve({**GREEN, "GET /_cluster/health": (503, reply)}) as server:
        assert "HTTP 503 master_not_discovered_exception" in failure(server.url)


def test_a_wrong_password_names_host_and_user() -> None:
    with serve({"GET /": (401, {"error": {"type": "security_exception"}})}) as server:
        options = ClientOptions(basic_auth_user="elastic", basic_auth_password="nope")
        said = failure(server.url, options=options)
        assert f"127.0.0.1:{server.port}: GET /: wrong user or password (user elastic)" in said
        assert "nope" not in said


def test_nodes_of_two_clusters_are_not_one_target() -> None:
    other = {**INFO, "cluster_uuid": "u2", "cluster_name": "other"}
    with serve(GREEN) as one, serve({**GREEN, "GET /": (200, other)}) as two:
        assert f'127.0.0.1:{two.port}: belongs to another cluster ("other")' in failure(one.url, two.url)


def test_serverless_has_no_health_to_ask_for() -> None:
    version = {"number": "8.11.0", "build_flavor": "serverless"}
    with serve({"GET /": (200, {**INFO, "version": version})}) as server:
        assert engine(server.url).start().urls == (server.url,)
        assert [asked.target for asked in server.requests] == ["/"]


def test_another_kind_of_server_is_named() -> None:
    with serve({"GET /": (200, "<html>")}) as server:
        assert "neither Elasticsearch nor OpenSearch" in failure(server.url)


def test_stop_without_a_start_does_nothing() -> None:
    ExternalEngine((Host("nowhere.invalid"),), ClientOptions()).stop()
