"""Reading documents in slices and writing them to packed files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_cluster import FakeCluster, FakeIndex, cluster_of

from esbench.corpus.archives import open_documents
from esbench.errors import ClusterError, CorpusError
from esbench.features.authoring.documents import DocumentsFile, Extraction, Extractor, Lines
from esbench.features.authoring.pages import Extent, SourceHit, open_slices, sample_query

WITH_PIT = ["elasticsearch-7.17.29", "elasticsearch-9.2.0", "opensearch-2.19.6"]
WITHOUT_PIT = ["elasticsearch-5.6.16", "elasticsearch-6.8.23", "elasticsearch-7.10.2", "opensearch-1.3.0"]


def numbered(count: int, shards: int = 1, routing: str | None = None) -> FakeIndex:
    return FakeIndex([(f"id{n}", routing, f'{{"n":{n}}}') for n in range(count)], shards=shards)


def extract(
    folder: Path,
    cluster: FakeCluster,
    *,
    lines: Lines | None = None,
    sample: int | None = None,
    readers: int = 3,
    page_size: int = 2,
    packing: str = "zst",
) -> tuple[DocumentsFile, ...]:
    extractions = [
        Extraction(
            Extent(name, len(index.documents), index.shards, sample),
            lines or Lines(name),
            folder / f"{name}-documents.json.{packing}",
        )
        for name, index in cluster.indices.items()
    ]
    told: list[int] = []
    extractor = Extractor(cluster, cluster.info(), page_size=page_size, readers=readers, news=told.append)
    files = extractor.run(extractions)
    assert told[-1] == sum(file.documents for file in files)
    return files


def read(folder: Path, name: str) -> list[str]:
    with open_documents(folder / name, "test") as file:
        return file.read().decode().splitlines()


@pytest.mark.parametrize("version", [*WITH_PIT, *WITHOUT_PIT])
def test_every_document_is_written_once_on_every_version(tmp_path: Path, version: str) -> None:
    cluster = cluster_of(version, {"a": numbered(25, shards=2), "b": numbered(7)})
    files = {file.name: file for file in extract(tmp_path, cluster)}
    for name, count in (("a", 25), ("b", 7)):
        lines = read(tmp_path, f"{name}-documents.json.zst")
        assert sorted(json.loads(line)["n"] for line in lines) == list(range(count))
        file = files[f"{name}-documents.json.zst"]
        assert file.documents == count
        assert file.uncompressed_bytes == sum(len(line) + 1 for line in lines)
        assert file.compressed_bytes == (tmp_path / file.name).stat().st_size
    assert cluster.open == set()
    asked_for_pit = any("_pit" in line or "point_in_time" in line for line in cluster.asked)
    assert asked_for_pit == (version in WITH_PIT)


@pytest.mark.parametrize(
    ("version", "slices"),
    [("elasticsearch-8.19.4", 6), ("opensearch-3.6.0", 3), ("elasticsearch-7.10.2", 3)],
)
def test_a_shard_has_several_slices_only_where_they_cost_the_server_nothing(version: str, slices: int) -> None:
    cluster = cluster_of(version, {"a": numbered(5, shards=3)})
    opened = open_slices(cluster, cluster.info(), Extent("a", 5, 3), page_size=2, readers=4)
    assert opened.count == slices
    opened.close()


def test_a_server_without_x_pack_refuses_a_point_in_time_and_is_scrolled(tmp_path: Path) -> None:
    class WithoutXPack(FakeCluster):
        def _answer(self, method, path, params, body):  # type: ignore[no-untyped-def]
            return (405, {}) if path.endswith("_pit") else super()._answer(method, path, params, body)

    known = cluster_of("elasticsearch-7.17.29", {"a": numbered(9)})
    cluster = WithoutXPack(known.info(), known.indices)
    (file,) = extract(tmp_path, cluster)
    assert file.documents == 9


@pytest.mark.parametrize("packing", ["zst", "gz", "bz2"])
def test_the_file_of_test_mode_holds_the_first_thousand(tmp_path: Path, packing: str) -> None:
    cluster = cluster_of("elasticsearch-8.19.4", {"a": numbered(1200), "few": numbered(1000)})
    extract(tmp_path, cluster, page_size=400, readers=1, packing=packing)
    first = read(tmp_path, f"a-documents-1k.json.{packing}")
    assert first == read(tmp_path, f"a-documents.json.{packing}")[:1000]
    assert not (tmp_path / f"few-documents-1k.json.{packing}").exists()


def test_a_sample_has_the_number_of_documents_that_was_asked_for(tmp_path: Path) -> None:
    cluster = cluster_of("elasticsearch-8.19.4", {"a": numbered(100)})
    (file,) = extract(tmp_path, cluster, sample=30)
    assert file.documents == len(read(tmp_path, file.name)) == 30
    assert cluster.open == set()


@pytest.mark.parametrize("count", [30, 200, 900])
def test_a_sample_is_the_same_in_whatever_order_its_pages_come(tmp_path: Path, count: int) -> None:
    cluster = cluster_of("elasticsearch-8.19.4", {"a": numbered(1000, shards=5)})
    samples = []
    for readers, page_size in ((1, 100), (4, 7)):
        (file,) = extract(tmp_path, cluster, sample=count, readers=readers, page_size=page_size)
        samples.append({json.loads(line)["n"] for line in read(tmp_path, file.name)})
    assert samples[0] == samples[1]
    assert len(samples[0]) == count
    by_slice = [len([n for n in samples[0] if n % 5 == number]) for number in range(5)]
    assert min(by_slice) > count // 10, "no slice is left out"


def test_a_sample_is_drawn_by_the_server_with_some_to_spare() -> None:
    info = cluster_of("elasticsearch-8.19.4", {}).info()
    query = sample_query(Extent("a", 1_000_000, 5, 10_000), info)["function_score"]
    assert query["min_score"] == pytest.approx(1 - 0.01041)
    assert query["random_score"] == {"seed": 1, "field": "_seq_no"}
    assert sample_query(Extent("a", 5, 1, 5), info) == {"match_all": {}}
    old = cluster_of("elasticsearch-5.6.16", {}).info()
    assert sample_query(Extent("a", 100, 1, 5), old)["function_score"]["random_score"] == {"seed": 1}


def test_action_lines_hold_what_is_kept() -> None:
    source = b'{"n":1}'
    hit = SourceHit(id='7"', source=_raw(source), routing="u1")
    both = Lines("a", "index", keeps_ids=True, keeps_routing=True).of(hit)
    assert both == b'{"index":{"_index":"a","_id":"7\\"","routing":"u1"}}\n{"n":1}\n'
    assert Lines("a", "create", keeps_routing=True).of(hit).startswith(b'{"create":{"_index":"a","routing":"u1"}}\n')
    unrouted = SourceHit(id="8", source=_raw(source))
    assert Lines("a", "index", keeps_routing=True).of(unrouted) == b'{"index":{"_index":"a"}}\n{"n":1}\n'
    assert Lines("a").of(unrouted) == b'{"n":1}\n'


def test_numbers_stay_as_they_were_written_and_line_breaks_go(tmp_path: Path) -> None:
    source = '{\n  "price": 1.10,\r\n  "big": 12345678901234567890, "text": "a\\nb"\n}'
    cluster = cluster_of("elasticsearch-8.19.4", {"a": FakeIndex([("1", None, source)])})
    extract(tmp_path, cluster)
    (line,) = read(tmp_path, "a-documents.json.zst")
    assert line == source.replace("\r", " ").replace("\n", " ")
    assert json.loads(line)["text"] == "a\nb"


@pytest.mark.parametrize(
    ("faults", "message"),
    [
        ({"lost": 1}, "the server gave 4 of the 5 documents of a slice"),
        ({"failed": 2}, "a search failed on 2 shards: documents would be missing"),
    ],
)
def test_documents_that_are_missing_are_an_error(tmp_path: Path, faults: dict[str, int], message: str) -> None:
    cluster = cluster_of("elasticsearch-7.10.2", {"a": numbered(5)}, **faults)
    with pytest.raises(ClusterError, match=f"a: {message}"):
        extract(tmp_path, cluster)
    assert cluster.open == set()


def test_routing_that_would_be_lost_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="documents with a routing value came while they were read"):
        extract(tmp_path, cluster_of("elasticsearch-8.19.4", {"a": numbered(3, routing="u")}))


def test_a_document_without_its_source_is_an_error() -> None:
    with pytest.raises(ClusterError, match=r"a, document 1: the server does not give its _source"):
        Lines("a").of(SourceHit(id="1"))


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    cluster = cluster_of("elasticsearch-8.19.4", {"a": numbered(3)})
    with pytest.raises(CorpusError, match=r"cannot write a-documents\.json\.zst: No such file or directory"):
        extract(tmp_path / "missing", cluster)
    assert cluster.open == set()


def test_an_interrupt_ends_the_readers_and_lets_the_server_forget(tmp_path: Path) -> None:
    cluster = cluster_of("elasticsearch-8.19.4", {"a": numbered(1000, shards=2)})

    def interrupt(done: int) -> None:
        raise KeyboardInterrupt

    extractor = Extractor(cluster, cluster.info(), page_size=2, readers=2, news=interrupt)
    with pytest.raises(KeyboardInterrupt):
        extractor.run([Extraction(Extent("a", 1000, 2), Lines("a"), tmp_path / "a.json.zst")])
    assert cluster.open == set()


def _raw(source: bytes):  # type: ignore[no-untyped-def]
    import msgspec

    return msgspec.Raw(source)
