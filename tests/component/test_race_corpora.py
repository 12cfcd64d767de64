"""Races whose document files are elsewhere, or nowhere: downloads, mirrors, test mode, synthetic documents."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from driver import NullServerFactory
from file_server import serve_files
from racing import DOCUMENTS, Races

MAPPING = {"mappings": {"dynamic": "strict", "properties": {"n": {"type": "long"}, "at": {"type": "date"}}}}
URL = "https://corpora.invalid/shop/orders.json.gz"


@pytest.fixture
def races(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Races]:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    races = Races(tmp_path)
    (races.track / "orders.json").unlink()
    (races.track / "index.json").write_text(json.dumps(MAPPING))
    track = races.track / "track.yml"
    named = "source-file: orders.json.gz, base-url: 'https://corpora.invalid/shop'"
    track.write_text(track.read_text().replace("source-file: orders.json", named))
    yield races
    races.end()


def packed(count: int = DOCUMENTS) -> bytes:
    return gzip.compress(b"".join(b'{"n": %d}\n' % number for number in range(count)))


def test_a_corpus_comes_from_the_mirror(
    races: Races, null_server: NullServerFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve_files({"/copies/shop/orders.json.gz": packed()}) as mirror:
        monkeypatch.setenv("ESBENCH_CORPUS_MIRROR", f"{mirror.url}/copies")
        outcome = races.run(null_server())
    assert outcome.code == 0, outcome.stderr
    assert f"downloading orders.json.gz: {len(packed()) / 1024:.1f} KB" in outcome.stderr
    (corpus,) = races.record().corpora
    assert (corpus.documents, corpus.synthetic) == (DOCUMENTS, False)


def test_test_mode_takes_the_first_documents_of_a_full_file(races: Races, null_server: NullServerFactory) -> None:
    track = races.track / "track.yml"
    track.write_text(track.read_text().replace("document-count: 500", "document-count: 3000"))
    (races.track / "orders.json.gz").write_bytes(packed(3000))
    outcome = races.run(null_server(), "--test-mode", "--offline")
    assert outcome.code == 0, outcome.stderr
    assert races.record().corpora[0].documents == 1000


def test_without_the_network_what_is_missing_is_one_line(races: Races, null_server: NullServerFactory) -> None:
    outcome = races.run(null_server(), "--offline")
    assert outcome.code == 1
    place = races.home / "cache" / "corpora" / "orders" / "orders.json.gz"
    assert f"--offline: download {URL} to {place}, or race generated documents with --synthetic-corpus" in outcome.error
    assert list((races.home / "races").iterdir()) == []  # nothing was started


def test_a_wrong_number_of_documents_is_one_line_with_file_and_both_numbers(
    races: Races, null_server: NullServerFactory
) -> None:
    (races.track / "orders.json.gz").write_bytes(packed(499))
    outcome = races.run(null_server())
    assert outcome.code == 1
    assert f"{races.track / 'orders.json.gz'} holds 499 documents, not 500" in outcome.error


def test_synthetic_documents_are_marked_wherever_their_figures_are(
    races: Races, null_server: NullServerFactory
) -> None:
    for documents in (60, 70):
        flags = ("--synthetic-corpus", f"--synthetic-documents={documents}", f"--race-id=r{documents}")
        outcome = races.run(null_server(), *flags)
        assert outcome.code == 0, outcome.stderr
        assert f"synthetic documents, not the track's own: orders ({documents})" in outcome.stdout
        (corpus,) = races.record(f"r{documents}").corpora
        assert (corpus.documents, corpus.synthetic) == (documents, True)
    compared = races.ask("compare", "--baseline=r60", "--contender=r70", "--all")
    assert "60 synthetic documents" in compared


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--synthetic-documents=5"], "works only with --synthetic-corpus"),
        (["--synthetic-corpus", "--synthetic-documents=0"], "--synthetic-documents"),
        (["--synthetic-corpora"], 'did you mean "--synthetic-corpus"'),
    ],
)
def test_options_that_mean_nothing_are_wrong_usage(
    races: Races, unused_url: str, arguments: list[str], message: str
) -> None:
    outcome = races.run(unused_url, *arguments)
    assert outcome.code == 2
    assert message in outcome.error


def test_a_mirror_that_is_nowhere_is_wrong_usage(
    races: Races, unused_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ESBENCH_CORPUS_MIRROR", "/not/there")
    outcome = races.run(unused_url)
    assert outcome.code == 2
    assert 'ESBENCH_CORPUS_MIRROR: there is no folder "/not/there"' in outcome.error
