"""Headers that belong to a connection: `Connection: close` is acted upon, the others are not sent, and that is said."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from raw_server import CLOSE, Action, RawServer, Request, reply

from esbench.record.model import RaceRecord
from esbench.record.store import RaceStore

CLOSING = {"headers": {"connection": "CLOSE"}}
FRAMING = {"Content-Length": "7", "transfer-encoding": "chunked", "Connection": "Upgrade", "X-Own": "kept"}


def polite(number: int, request: Request) -> Sequence[Action]:
    """Answer, and close the connection where the request says so, without a word about it (RFC 9112, 9.6)."""
    asks = request.headers.get("Connection", "").lower() == "close"
    return [reply('{"took":1,"errors":false,"items":[{"index":{"status":201}}]}'), *([CLOSE] if asks else [])]


@pytest.fixture
def server() -> Iterator[RawServer]:
    with RawServer(polite) as server:
        yield server


def run(folder: Path, *words: str) -> str:
    """What a command of esbench says; it must succeed."""
    ended = subprocess.run(
        [sys.executable, "-m", "esbench.cli.main", *words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "ESBENCH_HOME": str(folder / "home")},
    )
    assert ended.returncode == 0, ended.stderr + ended.stdout
    return ended.stderr + ended.stdout


def connections_of(server: RawServer) -> list[int]:
    """The number of the connection of each request, counted from that of the first one: a race looks before it."""
    first = server.requests[0].connection
    return [request.connection - first for request in server.requests]


def raced(folder: Path, server: RawServer, operation: dict[str, object], *words: str) -> tuple[RaceRecord, str]:
    """The record of ten requests of an operation by one client, and what was said."""
    track = {"version": 2, "schedule": [{"name": "t", "iterations": 10, "operation": operation}]}
    file = folder / "track.json"
    file.write_text(json.dumps(track))
    said = run(folder, "race", f"--track-path={file}", "--pipeline=http", f"--target-hosts={server.url}", *words)
    return RaceStore(folder / "home").load("last"), said


@pytest.mark.parametrize(
    "operation",
    [
        {"operation-type": "raw-request", "path": "/a", **CLOSING},
        {"operation-type": "raw-request", "path": "/a", "body": {"a": 1}, "method": "POST", **CLOSING},
        {"operation-type": "http-requests", "requests": [{"path": "/a", **CLOSING}]},
        {"operation-type": "http-requests", "requests": [{"path": "/a", "pause": 0.001, **CLOSING}]},
    ],
)
def test_a_request_that_says_so_has_a_connection_of_its_own(
    tmp_path: Path, server: RawServer, operation: dict[str, object]
) -> None:
    record, _ = raced(tmp_path, server, operation)
    (task,) = record.tasks
    assert (task.requests, task.errors) == (10, 0)
    assert connections_of(server) == list(range(10))
    assert {request.headers["Connection"] for request in server.requests} == {"close"}


def test_only_the_request_that_says_so_ends_its_connection(tmp_path: Path, server: RawServer) -> None:
    operation = {"operation-type": "http-requests", "requests": [{"path": "/a"}, {"path": "/b", **CLOSING}]}
    record, _ = raced(tmp_path, server, operation)
    assert record.tasks[0].errors == 0
    assert [request.target for request in server.requests[:4]] == ["/a", "/b", "/a", "/b"]
    assert connections_of(server)[:4] == [0, 0, 1, 1]


def test_without_keep_alive_each_request_has_a_connection(tmp_path: Path, server: RawServer) -> None:
    operation = {"operation-type": "raw-request", "path": "/a"}
    record, _ = raced(tmp_path, server, operation, "--client-options=keep_alive:false")
    assert record.tasks[0].errors == 0
    assert connections_of(server) == list(range(10))


@pytest.mark.parametrize("kind", ["raw-request", "http-requests"])
def test_headers_of_the_connection_are_not_sent(tmp_path: Path, server: RawServer, kind: str) -> None:
    request = {"path": "/a", "method": "POST", "body": '{"a":1}', "headers": FRAMING}
    operation = request if kind == "raw-request" else {"requests": [request]}
    record, said = raced(tmp_path, server, {"operation-type": kind, **operation})
    assert record.tasks[0].errors == 0
    for got in server.requests:
        assert (got.headers.get_all("Content-Length"), got.headers["X-Own"]) == (["7"], "kept")
        assert "Transfer-Encoding" not in got.headers
        assert "Connection" not in got.headers
    assert said.count("Content-Length, transfer-encoding, Connection: not sent, it belongs to the connection") == 1


def test_a_file_of_loadgen_acts_on_them_in_the_same_way(tmp_path: Path, server: RawServer) -> None:
    file = tmp_path / "load.yml"
    file.write_text(
        "runner: {no_warm: true}\nrequests:\n"
        f'  - request: {{url: "{server.url}/a", headers: [{{Connection: close}}]}}\n'
        f'  - request: {{method: POST, url: "{server.url}/b", headers: [{{Content-Length: "3"}}], body: "1234567"}}\n'
    )
    said = run(tmp_path, "load", str(file), "-l", "10")
    assert said.count("Content-Length: not sent, it belongs to the connection") == 1
    assert f"{file.name}:4" in said or "line 4" in said
    assert [request.target for request in server.requests] == ["/a", "/b"] * 5
    assert connections_of(server) == [0, 1, 1, 2, 2, 3, 3, 4, 4, 5]
    assert RaceStore(tmp_path / "home").load("last").tasks[0].errors == 0


def head_is_empty(number: int, request: Request) -> Sequence[Action]:
    """Answer; to HEAD with the length of a body that does not follow (RFC 9110, 9.3.2), in two pieces."""
    whole = reply('{"a":1}', "200 OK", "X-Kind: new")
    if request.method != "HEAD":
        return [whole]
    head = whole[: whole.index(b"\r\n\r\n") + 4]
    return [head[:20], 0.01, head[20:]]


@pytest.mark.parametrize(
    "operation",
    [
        {"operation-type": "raw-request", "path": "/a#part", "method": "HEAD"},
        {"operation-type": "http-requests", "requests": [{"path": "/a#part", "method": "HEAD"}]},
        {
            "operation-type": "http-requests",
            "requests": [
                {"path": "/a#part", "method": "HEAD", "register": {"kind": "_ctx.response.header.X-Kind"}},
                {"path": "/$[[kind]]", "assert": {"equals": {"_ctx.response.body_json.a": 1}}},
            ],
        },
    ],
)
def test_a_reply_to_head_ends_with_its_head(tmp_path: Path, operation: dict[str, object]) -> None:
    with RawServer(head_is_empty) as server:
        record, _ = raced(tmp_path, server, operation)
        assert record.tasks[0].errors == 0, record.tasks[0].error_kinds
        assert set(connections_of(server)) == {0}
        heads = [request.target for request in server.requests if request.method == "HEAD"]
        assert set(heads) == {"/a"}
        assert {request.target for request in server.requests if request.method == "GET"} <= {"/new"}
