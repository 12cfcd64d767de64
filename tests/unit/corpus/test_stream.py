"""Document files that are unpacked while they are sent: every document once, in order, or one clear error."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from archived import pack
from corpora import lines

from esbench.corpus.archives import ENDINGS
from esbench.corpus.preparation import Streaming, prepare
from esbench.corpus.prepared import DocumentFile, PreparedDocuments, size_of_first
from esbench.corpus.stream import BulkStream
from esbench.errors import CorpusError, TrackError
from esbench.features.python.view import plain_file
from esbench.model import Corpus, Documents

COUNT = 1000
TEXT = b"\n".join(lines(COUNT))


def filed(folder: Path, name: str, mode: Any = "stream", **keys: Any) -> PreparedDocuments:
    part = Documents(**{"document_count": COUNT, "source_file": name, **keys})
    corpora = [Corpus("orders", (part,))]
    return prepare(corpora, cache=folder / "cache", track_dir=folder, streaming=Streaming(mode))[0]


def sent(
    *documents: PreparedDocuments,
    bulk_size: int = 70,
    clients: int = 2,
    slots: Sequence[int] = (0, 1),
    count: int | None = None,
) -> list[tuple[bytes, int, int]]:
    """(lines, documents, file) of the bulks of those client slots."""

    async def take_all() -> list[tuple[bytes, int, int]]:
        files = [(each, each.document_count if count is None else count) for each in documents]
        stream = BulkStream(files, bulk_size, clients, slots)
        bulks = []
        try:
            stream.start()
            while not stream.is_over:
                taken = stream.take()
                if taken is None:
                    ready = asyncio.Event()
                    stream.call_back(ready.set)
                    await ready.wait()
                else:
                    bulks.append((bytes(taken.lines), taken.documents, taken.file))
        finally:
            stream.close()
        return bulks

    return asyncio.run(take_all())


@pytest.mark.parametrize("ending", ["", *ENDINGS])
def test_a_stream_has_the_documents_and_leaves_the_index_of_the_unpacked_file(tmp_path: Path, ending: str) -> None:
    name = pack(tmp_path, ending, TEXT)
    streamed = filed(tmp_path, name)
    assert streamed.streamed is not None
    bulks = sent(streamed)
    assert not streamed.path.exists()
    offsets = streamed.offsets_path.read_bytes()
    unpacked = filed(tmp_path, name, "unpack")
    assert b"".join(lines for lines, *_ in bulks) == unpacked.path.read_bytes()
    assert [documents for _, documents, _ in bulks] == [70] * 14 + [20]
    assert all(lines.count(b"\n") == 2 * documents for lines, documents, _ in bulks)
    assert (unpacked.offsets_path.read_bytes(), unpacked.digest) == (offsets, streamed.digest)
    assert filed(tmp_path, name) == unpacked  # what is unpacked is not streamed any more


def test_own_action_lines_are_kept(tmp_path: Path) -> None:
    text = b"".join(b'{"index": {"_id": "%d"}}\n%b\n' % (n, line) for n, line in enumerate(lines(COUNT)))
    documents = filed(tmp_path, pack(tmp_path, ".gz", text), includes_action_and_meta_data=True)
    assert b"".join(lines for lines, *_ in sent(documents)) == text


def test_files_come_one_after_the_other_and_each_slot_has_its_bulks(tmp_path: Path) -> None:
    one, two = (filed(tmp_path, pack(tmp_path, ending, TEXT)) for ending in (".gz", ".zst"))
    both = sent(one, two, clients=3, slots=(0, 1, 2), bulk_size=100)
    assert [file for *_, file in both] == [0] * 10 + [1] * 10
    assert sent(one, two, clients=3, slots=(0, 2), bulk_size=100) == [b for n, b in enumerate(both) if n % 3 != 1]
    assert sent(one, two, clients=3, slots=(1,), bulk_size=100) == both[1::3]


def test_a_part_of_the_documents_is_the_first_ones_and_leaves_no_index(tmp_path: Path) -> None:
    documents = filed(tmp_path, pack(tmp_path, ".bz2", TEXT))
    bulks = sent(documents, count=333)
    assert b"".join(text for text, *_ in bulks).splitlines()[1::2] == lines(333)
    assert not documents.offsets_path.exists()


def test_what_an_earlier_race_has_read_is_known(tmp_path: Path) -> None:
    name = pack(tmp_path, ".bz2", TEXT)
    sized = {"orders": "a rate"}
    for known in (False, True):
        again = Streaming("stream", sized=sized)
        part = Documents(None if known else COUNT, source_file=name)
        found = prepare([Corpus("orders", (part,))], cache=tmp_path / "c", track_dir=tmp_path, streaming=again)[0]
        assert (found.streamed is not None, found.document_count) == (known, COUNT)
        if not known:
            assert size_of_first(found, COUNT) == found.path.stat().st_size
            found.path.unlink()  # as if the first race had only read it as a stream
    exact = found.offsets_path.read_bytes()
    assert size_of_first(found, COUNT) == found.size_bytes
    assert size_of_first(found, 64 * 3) == int.from_bytes(exact[24:32], "little")
    assert size_of_first(found, 64 * 3) < size_of_first(found, 64 * 3 + 1) < size_of_first(found, 64 * 4)


@pytest.mark.parametrize(
    ("reason", "keys", "streaming"),
    [
        ("does not read it in order", {}, Streaming("stream", unordered={"orders": 'task "x"'})),
        ("needs the sizes of its documents", {}, Streaming("stream", sized={"orders": 'task "x"'})),
        ('it has no "document-count"', {"document_count": None}, Streaming("stream")),
    ],
)
def test_what_must_be_unpacked_is_and_the_reason_is_told(
    tmp_path: Path, reason: str, keys: dict[str, Any], streaming: Streaming
) -> None:
    part = Documents(**{"document_count": COUNT, "source_file": pack(tmp_path, ".gz", TEXT), **keys})
    huge = Corpus("orders", (replace(part, uncompressed_bytes=1 << 62),))
    room = replace(streaming, mode="auto")
    with pytest.raises(CorpusError, match=rf"cannot be unpacked: .*cannot be read as a stream: .*{reason}"):
        prepare([huge], cache=tmp_path / "cache", track_dir=tmp_path, streaming=room)
    told: list[str] = []
    (found,) = prepare(
        [Corpus("orders", (part,))],
        cache=tmp_path / "cache",
        track_dir=tmp_path,
        streaming=streaming,
        progress=lambda what, done, total: told.append(what),
    )
    assert found.streamed is None
    assert found.path.exists()
    assert reason in told[0]


def test_what_the_disk_has_no_room_for_is_streamed(tmp_path: Path) -> None:
    name = pack(tmp_path, ".gz", TEXT)
    assert filed(tmp_path, name, "auto", uncompressed_bytes=1 << 62).streamed is not None
    with pytest.raises(CorpusError, match=r"has room for .*--corpus-cache=stream"):
        filed(tmp_path, name, "unpack", uncompressed_bytes=1 << 62)
    assert filed(tmp_path, name, "auto").streamed is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (gzip.compress(b"\n".join(lines(900))), r"orders.json.gz holds 900 documents, not 1,000"),
        (gzip.compress(b"\n".join(lines(1001))), r"orders.json.gz holds more than 1,000 documents"),
        (
            gzip.compress(TEXT)[:-3000],
            r"orders.json.gz is damaged: .* beyond its line [1-9]\d* \(byte [1-9][\d,]*, unp",
        ),
        (b"no archive", r"orders.json.gz is damaged"),
        (gzip.compress(b"\n".join([*lines(500), b"", *lines(499)])), r"line 501 of .* is blank"),
    ],
)
def test_a_wrong_file_is_one_error_after_its_good_bulks(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "orders.json.gz").write_bytes(content)
    documents = filed(tmp_path, "orders.json.gz")
    with pytest.raises(CorpusError, match=message) as caught:
        sent(documents)
    assert caught.value.where == 'corpus "orders"'
    assert not documents.offsets_path.exists()


@pytest.mark.parametrize("first", [900, 400])
def test_a_part_of_a_file_that_has_not_even_that_is_an_error(tmp_path: Path, first: int) -> None:
    name = pack(tmp_path, ".gz", b"\n".join(lines(first - 1)))
    with pytest.raises(CorpusError, match=f"holds {first - 1} documents, not 1,000"):
        sent(filed(tmp_path, name), count=first)


def test_who_needs_the_file_of_what_is_not_unpacked_is_told(tmp_path: Path) -> None:
    documents = filed(tmp_path, pack(tmp_path, ".gz", TEXT))
    for reads in (plain_file, DocumentFile):
        with pytest.raises(TrackError, match=r"documents.json.gz is not unpacked, .*--corpus-cache=unpack"):
            reads(documents)


def test_it_is_ahead_of_its_readers_and_no_further(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("esbench.corpus.stream._AHEAD_BYTES", 10_000)
    documents = filed(tmp_path, pack(tmp_path, "", TEXT))

    async def wait_for_all_that_comes() -> tuple[int, int, int]:
        stream = BulkStream([(documents, COUNT)], 20, 4, range(4))
        try:
            stream.start()
            for _ in range(4):
                assert stream.take() is not None  # one for each client
            before = stream.waits
            await asyncio.sleep(0.3)
            ahead = 0
            while (bulk := stream.take()) is not None:
                ahead += len(bulk.lines)
            called: list[bool] = []
            stream.call_back(lambda: called.append(stream.take() is not None))
            while not called:
                await asyncio.sleep(0.01)
            assert called == [True]
            return before, stream.waits, ahead
        finally:
            stream.close()

    before, waits, ahead = asyncio.run(wait_for_all_that_comes())
    assert (before, waits) == (0, 1)
    assert 10_000 <= ahead < 15_000


def test_a_cache_without_room_for_the_index_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "orders").write_text("no folder")
    bulks = sent(filed(tmp_path, pack(tmp_path, ".gz", TEXT)))
    assert sum(documents for _, documents, _ in bulks) == COUNT
