"""Request bodies with `http_compress`, as a server sees them."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import Driver, bulk, documents, task
from raw_server import Request, serve

from esbench.cluster.options import ClientOptions

COMPRESSED = ClientOptions(http_compress=True)
BULK_REPLY = {"took": 1, "errors": False, "items": [{"index": {"status": 201}}] * 50}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with Driver(tmp_path) as driver:
        yield driver


def body_of(asked: Request) -> bytes:
    headers = {name.lower(): value for name, value in asked.headers.items()}
    assert headers["content-encoding"] == "gzip"
    return gzip.decompress(asked.body)


def test_a_corpus_arrives_whole_in_compressed_bulks(driver: Driver, tmp_path: Path) -> None:
    docs = documents(tmp_path, 200)
    with serve({"POST /orders/_bulk": (200, BULK_REPLY)}) as tiny:
        result = driver.run(tiny.url, bulk(50, clients=2), docs=docs, options=COMPRESSED)

    assert (result.units, result.errors) == (200, 0)
    lines = [json.loads(line) for asked in tiny.requests for line in body_of(asked).splitlines()]
    assert sorted(line["n"] for line in lines if "n" in line) == list(range(200))


def test_the_bodies_of_administrative_requests_are_compressed_too(driver: Driver) -> None:
    with serve({"PUT /orders": (200, {"acknowledged": True})}) as tiny:
        result = driver.run(tiny.url, task("create-index", {"index": "orders"}), options=COMPRESSED)

    assert result.errors == 0
    (asked,) = [asked for asked in tiny.requests if asked.method == "PUT"]
    assert isinstance(json.loads(body_of(asked)), dict)
