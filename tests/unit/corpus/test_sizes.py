"""Documents that cannot be generated, or that the disk has no room for, are refused before anything starts."""

from __future__ import annotations

import bz2
from pathlib import Path
from typing import Any

import pytest
from track_files import write_track

from esbench.cli.main import run
from esbench.corpus.locate import Origin
from esbench.corpus.preparation import Streaming, prepare
from esbench.corpus.sizes import DiskNeed, check_sizes
from esbench.errors import CorpusError, TrackError
from esbench.model import Corpus, Documents

FIELDS = {"n": {"type": "sequence"}, "name": {"type": "permuted", "of": "p[0-9]{4}"}}
SOME = {"fields": {"n": {"type": "sequence"}}}
ENDLESS = {"fields": {"n": {"type": "choice", "values": ["a", "b"]}}}
HUGE = 10**20


def checked(tmp_path: Path, *parts: Documents, mode: Any = "auto") -> tuple[DiskNeed, ...]:
    return check_sizes(
        [Corpus("things", parts)],
        cache=tmp_path / "home" / "cache" / "corpora",
        track_dir=tmp_path,
        origin=Origin(),
        streaming=Streaming(mode),
    )


def generated(count: int, **spec: Any) -> Documents:
    return Documents(count, generate=spec or SOME)


def listed(name: str, count: int | None = 5, **more: Any) -> Documents:
    return Documents(count, source_file=name, **more)


@pytest.mark.parametrize("count", [10**15, HUGE])
def test_generated_documents_beyond_the_disk(tmp_path: Path, count: int) -> None:
    with pytest.raises(CorpusError) as caught:
        checked(tmp_path, generated(count, **ENDLESS))
    assert caught.value.where == f'corpus "things" ({count:,} documents)'
    assert "the documents need about" in caught.value.what
    assert str(tmp_path) in caught.value.what
    assert list(tmp_path.iterdir()) == []


def test_all_corpora_together_need_room(tmp_path: Path) -> None:
    (small,) = checked(tmp_path, generated(1000))
    (both,) = checked(tmp_path, generated(1000), generated(500))
    assert both.size_bytes > 1.4 * small.size_bytes


def test_the_estimate_is_near_what_is_written(tmp_path: Path) -> None:
    part = generated(20_000)
    (need,) = checked(tmp_path, part)
    cache = tmp_path / "home" / "cache" / "corpora"
    (made,) = prepare([Corpus("things", (part,))], cache=cache, track_dir=tmp_path)
    assert need.size_bytes == pytest.approx(made.size_bytes, rel=0.1)
    assert checked(tmp_path, part) == ()  # it is there now


def test_more_documents_than_there_can_be(tmp_path: Path) -> None:
    with pytest.raises(TrackError, match="10,001 documents are asked for, and only 10,000 different ones"):
        checked(tmp_path, generated(10_001, fields=FIELDS))
    assert checked(tmp_path, generated(10_000, fields=FIELDS))


def test_a_download_beyond_the_disk(tmp_path: Path) -> None:
    part = listed("a.json.bz2", base_url="http://127.0.0.1:1", compressed_bytes=HUGE)
    with pytest.raises(CorpusError, match="the documents need about"):
        checked(tmp_path, part)


def test_a_file_is_unpacked_only_where_it_cannot_be_read_as_a_stream(tmp_path: Path) -> None:
    (tmp_path / "a.json.bz2").write_bytes(bz2.compress(b"{}\n" * 5))
    part = listed("a.json.bz2", uncompressed_bytes=HUGE)
    assert checked(tmp_path, part) == ()
    with pytest.raises(CorpusError, match="the documents need about"):
        checked(tmp_path, part, mode="unpack")


def test_a_file_that_states_nothing_is_not_judged(tmp_path: Path) -> None:
    assert checked(tmp_path, listed("a.json.bz2", base_url="http://127.0.0.1:1"), mode="unpack") == ()


TRACK = """\
indices: [{name: things, body: {}}]
corpora:
  - name: things
    documents: [{generate: {fields: {n: {type: sequence}}}, document-count: %s}]
schedule:
  - operation: {operation-type: bulk, bulk-size: 10}
"""


@pytest.mark.parametrize(
    ("count", "code", "expected"),
    [
        ("1e20", 2, 'corpus "things": 100,000,000,000,000,000,000 documents are asked for, and only '),
        ("1e15", 1, 'corpus "things" (1,000,000,000,000,000 documents): the documents need about '),
    ],
)
@pytest.mark.parametrize("option", ["--dry-run", "--quiet"])
def test_a_race_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    count: str,
    code: int,
    expected: str,
    option: str,
) -> None:
    monkeypatch.setenv("ESBENCH_HOME", str(tmp_path / "home"))
    file = write_track(tmp_path, TRACK % count)
    assert run(["race", f"--track-path={file}", option]) == code
    said = capsys.readouterr().err
    assert expected in said
    assert not list((tmp_path / "home").rglob("*.bulk*"))
    assert not list((tmp_path / "home").rglob("race.json"))


def test_a_dry_run_says_what_documents_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ESBENCH_HOME", str(tmp_path / "home"))
    file = write_track(tmp_path, TRACK % "100000")
    assert run(["race", f"--track-path={file}", "--dry-run"]) == 0
    assert "about " in next(line for line in capsys.readouterr().out.splitlines() if line.startswith("Disk"))
