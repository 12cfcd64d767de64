"""Bulks, feeds and samplers: what workers take from prepared documents."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import chain, islice, pairwise
from pathlib import Path
from typing import Any

import pytest
from corpora import SPEC, bodies_of, from_file, generated, lines

from esbench.corpus.bulk_source import BulkSource, partition
from esbench.corpus.feed import Document, DocumentFeed, document_feed
from esbench.corpus.prepared import PreparedDocuments, documents_of, mean_document_bytes
from esbench.errors import TrackError
from esbench.features.synthetic.generate.generator import Generator
from esbench.features.synthetic.sampler import DocumentSampler
from esbench.requests.variables import PICKS


@pytest.mark.parametrize(("count", "clients"), [(10, 4), (1000, 7), (3, 8), (0, 2), (200_000, 64)])
def test_the_parts_of_all_clients_are_the_whole(count: int, clients: int) -> None:
    parts = [partition(count, clients, slot) for slot in range(clients)]
    assert parts[0][0] == 0
    assert parts[-1][1] == count
    assert all(before[1] == after[0] for before, after in pairwise(parts))
    sizes = [last - first for first, last in parts]
    assert max(sizes) - min(sizes) <= 1


def test_parts_are_dealt_as_rally_deals_them() -> None:
    assert [partition(10, 4, slot) for slot in range(4)] == [(0, 2), (2, 5), (5, 8), (8, 10)]


@pytest.mark.parametrize("bulk_size", [1, 7, 64, 100, 5000])
def test_the_bulks_of_all_clients_are_the_file(tmp_path: Path, bulk_size: int) -> None:
    documents = generated(tmp_path, 1003)
    bodies = []
    for slot in range(3):
        first, last = partition(1003, 3, slot)
        bulks = list(BulkSource(documents, first, last, bulk_size))
        assert len(bulks) == -(-(last - first) // bulk_size)
        assert [docs for _, docs in bulks[:-1]] == [bulk_size] * (len(bulks) - 1)
        assert sum(docs for _, docs in bulks) == last - first
        for body, docs in bulks:
            assert bytes(body).count(b"\n") == 2 * docs
            assert bytes(body[-1:]) == b"\n"
        bodies += [bytes(body) for body, _ in bulks]
    assert b"".join(bodies) == documents.path.read_bytes()


def test_a_bulk_outlives_its_source(tmp_path: Path) -> None:
    source = BulkSource(generated(tmp_path, 10), 0, 10, 5)
    body, _ = next(iter(source))
    del source
    assert bytes(body).startswith(b'{"index":')


def test_an_empty_part_has_no_bulks(tmp_path: Path) -> None:
    assert list(BulkSource(generated(tmp_path, 10), 4, 4, 5)) == []
    with pytest.raises(ValueError, match=r"4\.\.11 of 10"):
        BulkSource(generated(tmp_path, 10), 4, 11, 5)


@pytest.fixture
def documents(tmp_path: Path) -> PreparedDocuments:
    return generated(tmp_path, 1000)


def taken(feed: DocumentFeed) -> Iterator[Document]:
    """The documents of a feed, one after the other."""
    return chain.from_iterable(iter(feed.take, None))


def test_a_feed_gives_each_stripe_its_own_documents(documents: PreparedDocuments) -> None:
    made = Generator(SPEC)
    keys = made.values(["_id", "_routing"], range(1000, 9000))
    bodies = bodies_of(made, 1000, 8000)
    for stripe in range(2):
        feed = document_feed(documents, 1000 + stripe, 2)
        feed.start()
        try:
            for expected, document in zip(range(1000 + stripe, 9000, 2), taken(feed), strict=False):
                document_id, routing = keys[expected - 1000]
                assert document == [document_id.encode(), routing.encode(), bodies[expected - 1000]]
        finally:
            feed.close()


def test_a_feed_counts_the_documents_that_it_waited_for(documents: PreparedDocuments) -> None:
    feed = document_feed(documents, 0, 1)
    feed.start()
    try:
        count = 0
        while not feed.waits:  # faster than any process can make documents
            count += len(feed.take())
        assert count > 200
    finally:
        feed.close()


def test_the_child_of_a_feed_ends_when_nobody_reads_any_more(documents: PreparedDocuments) -> None:
    feed = document_feed(documents, 0, 1)
    feed.start()
    child = feed._child._process  # type: ignore[union-attr]
    assert child.poll() is None
    child.stdout.close()
    assert child.wait(timeout=60) == -13  # SIGPIPE
    feed.close()


def test_closing_a_feed_ends_its_child(documents: PreparedDocuments) -> None:
    feed = document_feed(documents, 0, 1)
    feed.close()
    assert feed._child._process.poll() is not None  # type: ignore[union-attr]


def test_a_feed_beyond_the_last_possible_document_says_so(tmp_path: Path) -> None:
    spec = {"fields": {"key": {"type": "permuted", "of": "[0-9]{4}"}}}
    feed = document_feed(generated(tmp_path, 10, spec), 9_990, 1)
    with pytest.raises(TrackError, match="only 10,000 documents"):
        feed.start()
    feed.close()


def test_a_feed_whose_child_dies_says_so(documents: PreparedDocuments) -> None:
    feed = document_feed(documents, 0, 1)
    feed.start()
    feed._child._process.kill()  # type: ignore[union-attr]
    with pytest.raises(Exception, match="the process that makes the documents ended"):
        for _ in range(100_000):
            feed.take()
    feed.close()


@pytest.mark.parametrize(("first", "step"), [(0, 1), (95, 1), (3, 40), (1000, 7), (63, 64), (5, 100)])
def test_a_feed_of_a_file_starts_over_at_its_end(tmp_path: Path, first: int, step: int) -> None:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(100)))
    feed = document_feed(from_file(tmp_path, "d.json", 100), first, step)
    feed.start()
    for index, document in zip(range(first, first + 300 * step, step), taken(feed), strict=False):
        assert document == [b"", b"", lines(100)[index % 100]]
    assert feed.waits == 0
    feed.close()


@pytest.mark.parametrize(("first", "step"), [(0, 1), (60, 1), (3, 40), (1000, 7), (63, 64), (5, 103)])
def test_a_feed_of_files_goes_from_one_to_the_next(tmp_path: Path, first: int, step: int) -> None:
    joined = several_files(tmp_path, [100, 1, 70])
    every = [*lines(100), *lines(1), *lines(70)]
    feed = document_feed(joined, first, step)
    feed.start()
    for index, document in zip(range(first, first + 400 * step, step), taken(feed), strict=False):
        assert document == [b"", b"", every[index % 171]]
    feed.close()


def several_files(folder: Path, counts: Sequence[int]) -> PreparedDocuments:
    """Files of one corpus, as single documents are drawn of them all."""
    for number, count in enumerate(counts):
        (folder / f"{number}.json").write_bytes(b"\n".join(lines(count)))
    return documents_of([from_file(folder, f"{n}.json", count) for n, count in enumerate(counts)], None, "t")


def test_documents_of_all_files_are_drawn(tmp_path: Path) -> None:
    joined = several_files(tmp_path, [3, 70, 2])
    wanted: dict[str, Any] = {"fields": ["n", "text"], "pick": "uniform", "exponent": 1.0, "seed": 5}
    sampler = DocumentSampler(joined, indexed=75, **wanted)
    drawn = Counter(islice(chain.from_iterable(sampler.blocks()), 7_500))
    rows = [(row["n"], row["text"]) for row in map(json.loads, [*lines(3), *lines(70), *lines(2)])]
    assert drawn.keys() == set(rows)
    assert all(150 < drawn[row] < 450 for row in rows[:2])  # in three files each: 300
    assert all(40 < drawn[row] < 170 for row in rows[3:73][3:])  # in one of them: 100


def test_the_mean_size_is_that_of_all_files(tmp_path: Path) -> None:
    every = [*lines(100), *lines(1), *lines(70)]
    expected = sum(map(len, every)) / 171
    assert mean_document_bytes(several_files(tmp_path, [100, 1, 70])) == pytest.approx(expected)


def test_a_feed_of_a_file_gives_the_ids_of_its_action_lines(tmp_path: Path) -> None:
    text = b'{"index":{"_id":"a","routing":"r"}}\n{"n":1}\n{"index":{"_id":2,"_routing":"s"}}\n{"n":2}\n'
    (tmp_path / "d.json").write_bytes(text)
    feed = document_feed(from_file(tmp_path, "d.json", 2, includes_action_and_meta_data=True), 0, 1)
    feed.start()
    assert list(islice(taken(feed), 2)) == [[b"a", b"r", b'{"n":1}'], [b"2", b"s", b'{"n":2}']]
    feed.close()


def draws(documents: PreparedDocuments, pick: str = "uniform", count: int = 3000, **keys: Any) -> list[tuple[Any, ...]]:
    wanted = {"fields": ["key", "user", "at.n", "_id", "_routing"], "exponent": 1.0, "seed": 5, "indexed": 1000} | keys
    sampler = DocumentSampler(documents, pick=pick, **wanted)
    return list(islice(chain.from_iterable(sampler.blocks()), count))


@pytest.mark.parametrize("pick", PICKS)
def test_drawn_fields_belong_to_one_indexed_document(documents: PreparedDocuments, pick: str) -> None:
    real = {
        (document["key"], document["user"], document["at"]["n"], document["key"], document["user"])
        for document in map(json.loads, documents.path.read_bytes().splitlines()[1::2])
    }
    assert set(draws(documents, pick)) <= real


@pytest.mark.parametrize("pick", PICKS)
def test_draws_follow_the_seed_alone(documents: PreparedDocuments, pick: str) -> None:
    assert draws(documents, pick) == draws(documents, pick)
    assert draws(documents, pick) != draws(documents, pick, seed=6)


def test_uniform_draws_reach_every_document_about_as_often(documents: PreparedDocuments) -> None:
    seen = Counter(key for (key,) in draws(documents, count=50_000, fields=["key"]))
    assert len(seen) == 1000
    assert 20 < min(seen.values()) < 50 < max(seen.values()) < 90


def test_zipf_draws_have_favourites_that_every_seed_shares(documents: PreparedDocuments) -> None:
    first, second = (Counter(draws(documents, "zipf", 20_000, fields=["key"], seed=seed)) for seed in (1, 2))
    assert [key for key, _ in first.most_common(2)] == [key for key, _ in second.most_common(2)]
    assert first.most_common(1)[0][1] / 20_000 == pytest.approx(0.1336, abs=0.01)  # 1 / H(1000)
    assert len(Counter(draws(documents, "zipf", 20_000, fields=["key"], exponent=3.0))) < len(first)


def test_recent_draws_prefer_the_last_documents(documents: PreparedDocuments) -> None:
    place_of = {key: place for place, (key,) in enumerate(Generator(SPEC).values(["key"], range(1000)))}
    places = [place_of[key] for (key,) in draws(documents, "recent", fields=["key"])]
    assert Counter(places).most_common(1)[0][0] == 999
    assert sum(place >= 900 for place in places) / len(places) > 0.6


def test_a_sampler_of_a_file_draws_its_documents(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(300)))
    filed = from_file(tmp_path, "d.json", 300)
    seen = Counter(draws(filed, count=20_000, fields=["n", "text"], indexed=200))
    assert set(seen) == {(n, "x" * (n * 7 % 90)) for n in range(200)}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"fields": ["kee"]}, 'no field "kee" (did you mean "key"?'),
        ({"indexed": 0}, "there is no indexed document"),
    ],
)
def test_a_draw_that_means_nothing_is_told_before_the_clock(
    documents: PreparedDocuments, keys: dict[str, Any], message: str
) -> None:
    with pytest.raises(TrackError) as caught:
        draws(documents, **keys)
    assert message in str(caught.value)


def test_a_field_that_a_file_lacks_is_told(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(3)))
    with pytest.raises(TrackError, match=r'a document has no field "txt" .*"text"'):
        draws(from_file(tmp_path, "d.json", 3), fields=["txt"])
