"""Request bodies with `http_compress`: gzip that says so, for every kind of request that has one."""

from __future__ import annotations

import gzip
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compiled import HEADERS, compiled, context, requests
from corpora import generated

from esbench.model import Variable
from esbench.requests.exchange import ClientProgram, Script

NUMBER = Variable("n", "range", {"from": 1, "to": 9})
NOW = Variable("now", "now_unix")


def program(kind: str, params: Mapping[str, Any], *, compress: bool = True, **keys: Any) -> ClientProgram:
    of = context(kind, params, variables=[NUMBER, NOW], **keys)
    made = compiled(replace(of, compress=compress)).client(0, HEADERS)
    assert not isinstance(made, Script)
    return made


def parts(request: bytes) -> tuple[dict[str, str], bytes]:
    """Headers and body, whose length the headers tell."""
    head, _, body = request.partition(b"\r\n\r\n")
    headers = dict(line.split(": ", 1) for line in head.decode().split("\r\n")[1:])
    assert int(headers.get("Content-Length", 0)) == len(body)
    return headers, body


@pytest.mark.parametrize(
    ("kind", "params", "plain"),
    [
        ("search", {"body": {"query": {"match_all": {}}}}, b'{"query": {"match_all": {}}}'),
        ("search", {"body": '{"size": $[[n]]}'}, None),
        ("index", {"id": "$[[n]]", "body": '{"n": "$[[n]]"}'}, None),
        ("raw-request", {"path": "/_x", "method": "POST", "body": '{"at": "$[[now]]"}'}, None),
    ],
    ids=["constant", "drawn", "write", "drawn at the send"],
)
def test_a_body_is_sent_as_gzip(kind: str, params: Mapping[str, Any], plain: bytes | None) -> None:
    ((headers, body),) = map(parts, requests(program(kind, params)))
    ((without, expected),) = map(parts, requests(program(kind, params, compress=False)))

    assert headers["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in without
    assert headers["Content-Type"] == without["Content-Type"]
    if plain is not None:
        assert expected == plain
    if "now" not in str(params):
        assert gzip.decompress(body) == expected
    assert gzip.decompress(body).startswith(b"{")


def test_bulks_are_sent_as_gzip(tmp_path: Path) -> None:
    documents = generated(tmp_path, 100)
    made = program("bulk", {"bulk-size": 60}, documents=[documents])
    bodies = [parts(request) for _ in range(2) for request in requests(made)]

    assert [headers["Content-Encoding"] for headers, _ in bodies] == ["gzip", "gzip"]
    assert b"".join(gzip.decompress(body) for _, body in bodies) == documents.path.read_bytes()


def test_both_requests_of_a_sequence_share_a_draw() -> None:
    params = {"id": "$[[n]]", "body": '{"n": $[[n]]}'}
    write, read = requests(program("read-after-write", params))
    number = gzip.decompress(parts(write)[1]).decode().removeprefix('{"n": ').removesuffix("}")

    assert read.startswith(f"GET /orders/_doc/{number} ".encode())
    assert b"Content-Encoding" not in read


def test_a_request_without_a_body_is_as_ever() -> None:
    assert requests(program("get", {"id": "1"})) == requests(program("get", {"id": "1"}, compress=False))


@pytest.mark.parametrize("kind", ["search", "bulk"])
def test_a_body_whose_encoding_the_operation_names_is_left_alone(kind: str, tmp_path: Path) -> None:
    params = {"body": {"size": 1}, "bulk-size": 10, "headers": {"content-encoding": "identity"}}
    ((headers, body),) = map(parts, requests(program(kind, params, documents=[generated(tmp_path, 10)])))

    assert headers["content-encoding"] == "identity"
    assert "Content-Encoding" not in headers
    assert body.startswith(b"{")
