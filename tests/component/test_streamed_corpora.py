"""Races whose document files are unpacked while they are sent, by real workers."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import Driver, NullServerFactory, all_units, bulk
from racing import Races

from esbench.corpus.preparation import Streaming, prepare
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import CorpusError
from esbench.load.coordinator import StepFailed
from esbench.model import Corpus, Documents


def streamed(folder: Path, content: bytes, count: int, **keys: Any) -> PreparedDocuments:
    (folder / "orders.json.gz").write_bytes(content)
    corpora = [Corpus("orders", (Documents(count, source_file="orders.json.gz", **keys),))]
    return prepare(corpora, cache=folder / "cache", track_dir=folder, streaming=Streaming("stream"))[0]


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver"), workers=2, on_error="abort") as driver:
        yield driver


@pytest.mark.parametrize("keys", [{"clients": 5}, {"clients": 600}, {"clients": 5, "rate": 400}])
def test_clients_of_all_workers_index_each_document_once(
    driver: Driver, tmp_path: Path, null_server: NullServerFactory, keys: dict[str, Any]
) -> None:
    text = b"".join(b'{"index": {"_id": "%d"}}\n{"n": %d}\n' % (n, n) for n in range(1000))
    documents = streamed(tmp_path, gzip.compress(text), 1000, includes_action_and_meta_data=True)
    server = null_server({"store": True})
    result = driver.run(
        server.url, bulk(3, params={"index": "orders", "detailed-results": True}, **keys), docs=documents
    )
    assert (all_units(result), result.errors) == (1000, 0)
    assert [(part.name, part.requests) for part in result.requests_by_name if part.name != "took"] == [
        ("created", 1000)
    ]
    assert documents.offsets_path.exists()


def test_a_damaged_file_ends_the_race(driver: Driver, tmp_path: Path, null_server: NullServerFactory) -> None:
    packed = gzip.compress(b"".join(b'{"n": %d}\n' % n for n in range(100_000)))
    documents = streamed(tmp_path, packed[: len(packed) // 2], 100_000)
    with pytest.raises(StepFailed) as caught:
        driver.run(null_server().url, bulk(100, clients=2), docs=documents)
    assert isinstance(caught.value.error, CorpusError)
    assert "orders.json.gz is damaged" in str(caught.value.error)


def test_a_race_streams_and_the_next_one_unpacks(tmp_path: Path, null_server: NullServerFactory) -> None:
    races = Races(tmp_path)
    try:
        track = races.track / "track.yml"
        track.write_text(track.read_text().replace("orders.json}", "orders.json.gz}"))
        (races.track / "orders.json.gz").write_bytes(gzip.compress((races.track / "orders.json").read_bytes()))
        (races.track / "orders.json").unlink()
        flags = ("--include-tasks=create-index,bulk,assert-count",)
        for race, mode, streamed in (("one", "stream", True), ("two", "auto", False)):
            outcome = races.run(null_server(), f"--corpus-cache={mode}", f"--race-id={race}", *flags)
            assert outcome.code == 0, outcome.stderr
            assert ("as a stream" in outcome.stderr) == streamed
            assert ("unpacked while they were sent: orders" in outcome.stdout) == streamed
            (corpus,) = races.record(race).corpora
            assert (corpus.documents, corpus.streamed) == (500, streamed)
        digests = {races.record(race).corpora[0].digest for race in ("one", "two")}
        assert len(digests) == 1
    finally:
        races.end()
