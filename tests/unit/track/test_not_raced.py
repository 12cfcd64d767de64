"""Faults outside of the raced challenge are warnings of a race, and errors of validate-track."""

from __future__ import annotations

from pathlib import Path

import pytest
from track_files import context, write_track

from esbench.errors import TrackError
from esbench.features.authoring.validation import check_track
from esbench.model import Track
from esbench.race.loading import load_with_python
from esbench.track.loader import track_file

TRACK = """
version: 2
indices: [{name: stock}]
corpora: [{name: parts, documents: [{source-file: parts.json, document-count: 3}]}%(corpora)s]
operations: [{name: fine, operation-type: refresh}%(operations)s]
challenges:
  - {name: main, default: true, schedule: [{operation: %(raced)s}]}
  - {name: other, schedule: [{operation: refresh}, {operation: %(other)s}]}
"""
OPERATIONS = [
    "{name: bad, operation-type: bulk, bulk-size: 2, corpora: parts_raw}",
    "{name: bad, operation-type: bulk}",
    "{name: bad, operation-type: bulk, bulk-size: -1}",
    "{name: bad, operation-type: search, param-source: not-there}",
    '{name: bad, operation-type: create-snapshot-repository, repository: "", body: {}}',
    "{name: bad, operation-type: not-there}",
    '{name: bad, operation-type: search, body: {query: "$[[word]]"}}',
    "{name: bad}",
    "{name: bad, operation-type: 7}",
    "{name: bad, operation-type: search, variables: [{name: word, type: file, path: none.txt}]}",
]
CORPORA = [
    "{name: more, documents: []}",
    "{name: more}",
    "{name: more, documents: [{source-file: ../more.json, document-count: 1}]}",
    "{name: more, documents: [{document-count: 1}]}",
    "{name: more, documents: [{source-file: more.json, target-data-stream: logs}]}",
]


def write(
    folder: Path, *, raced: str = "fine", other: str = "fine", operation: str = "", corpus: str = "", code: str = ""
) -> Path:
    given = {"operations": operation and f", {operation}", "corpora": corpus and f", {corpus}"}
    files = {"track__py": code} if code else {}
    return write_track(folder, TRACK % {"raced": raced, "other": other, **given}, **files)


def race(folder: Path, challenge: str = "") -> Track:
    return load_with_python(folder, context(), folder.parent, raced=challenge).track


def problems(folder: Path) -> int:
    return len(check_track(track_file(folder, "test"), context(), folder.parent).problems)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_is_not_raced_may_have_a_fault(tmp_path: Path, operation: str) -> None:
    folder = write(tmp_path, operation=operation)
    track = race(folder)
    assert [challenge.name for challenge in track.challenges] == ["main", "other"]
    assert len(track.warnings) == 1 and "it is not raced" in track.warnings[0] and "track.yml:5" in track.warnings[0]
    assert problems(folder) == 1


@pytest.mark.parametrize("operation", OPERATIONS)
def test_another_challenge_may_have_a_fault_and_is_left_out(tmp_path: Path, operation: str) -> None:
    for number, folder in enumerate(
        [write(tmp_path / "0", operation=operation, other="bad"), write(tmp_path / "1", other=operation)]
    ):
        track = race(folder)
        assert [challenge.name for challenge in track.challenges] == ["main"], number
        assert track.warnings
        with pytest.raises(TrackError) as raised:
            race(folder, "other")
        assert "it is not raced" not in str(raised.value)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_that_is_raced_must_have_no_fault(tmp_path: Path, operation: str) -> None:
    with pytest.raises(TrackError) as raised:
        race(write(tmp_path, operation=operation, raced="bad"))
    assert "it is not raced" not in str(raised.value)


@pytest.mark.parametrize("corpus", CORPORA)
def test_a_corpus_that_is_not_raced_may_have_a_fault(tmp_path: Path, corpus: str) -> None:
    sends_parts = "{name: send, operation-type: bulk, bulk-size: 1, corpora: parts}"
    for number, raced in enumerate(("fine", sends_parts)):
        folder = write(tmp_path / str(number), corpus=corpus, raced=raced)
        track = race(folder)
        assert [each.name for each in track.corpora] == ["parts"] and len(track.warnings) == 1
        assert problems(folder) == 1


@pytest.mark.parametrize("corpus", CORPORA)
@pytest.mark.parametrize(
    "raced",
    [
        "{name: send, operation-type: bulk, bulk-size: 1}",
        "{name: send, operation-type: bulk, bulk-size: 1, corpora: more}",
        "{name: send, operation-type: search, body: {id: '$[[one]]'}, variables: [{name: one, type: corpus-document}]}",
    ],
)
def test_a_corpus_that_is_raced_must_have_no_fault(tmp_path: Path, corpus: str, raced: str) -> None:
    with pytest.raises(TrackError):
        race(write(tmp_path, corpus=corpus, raced=raced))


def test_code_that_is_raced_may_read_every_corpus(tmp_path: Path) -> None:
    code = "async def own(es, params): pass\ndef register(registry): registry.register_runner('own', own)"
    raced = "{name: own, operation-type: own}"
    with pytest.raises(TrackError):
        race(write(tmp_path, corpus=CORPORA[1], raced=raced, code=code))


@pytest.mark.parametrize(
    "faulty", ["{clients: 0, operation: fine}", "{parallel: {}}", "{operation: fine, schedule: x}"]
)
def test_a_task_that_is_not_raced_may_have_a_fault(tmp_path: Path, faulty: str) -> None:
    folder = write(tmp_path)
    text = (folder / "track.yml").read_text().replace("{operation: refresh}, {operation: fine}", faulty)
    (folder / "track.yml").write_text(text)
    assert [challenge.name for challenge in race(folder).challenges] == ["main"]
    with pytest.raises(TrackError):
        race(folder, "other")
