"""Processors that make a corpus of the track's others: what they read, what they write, what workers get of it."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from track_files import load, write_track

from esbench.corpus import preparation
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.features.python.document_sets import DocumentSets
from esbench.features.python.loading import Plugins, load_plugins
from esbench.features.python.operations import TrackOperationTypes
from esbench.features.python.track_processors import own_code_of, packed
from esbench.features.python.view import TrackView
from esbench.features.python.worker_part import unpacked
from esbench.features.synthetic.synthetic import synthetic_corpora
from esbench.model import Corpus
from esbench.operations import builtin_operations
from esbench.race.corpora import fresh_cache

OPERATIONS = TrackOperationTypes(builtin_operations())
TRACK = """
data-streams: [{name: events}]
composable-templates:
  - {name: events, index-pattern: "events*", template: events.json}
corpora:
  - name: doors
    documents: [{source-file: doors.json.bz2, document-count: 3, target-data-stream: events}]
  - name: lamps
    documents: [{source-file: lamps.json, document-count: 4, target-data-stream: events}]
challenges:
  - name: only
    parameters: {lines: 5}
    schedule: [{operation: {operation-type: mixed, param-source: mixed}}]
"""
TEMPLATE = {
    "index_patterns": ["events*"],
    "data_stream": {},
    "template": {
        "mappings": {"properties": {"room": {"type": "keyword"}, "rally": {"properties": {"n": {"type": "long"}}}}}
    },
}
CODE = """
import json
import os
from beside.counting import Counted
from esrally.track import DocumentCorpus, Documents
from esrally.track.loader import DocumentSetPreparator


class Mixer:
    def __init__(self):
        self.downloader = None
        self.decompressor = None

    def on_after_load_track(self, track):
        track.corpora.append(DocumentCorpus("mix", [Counted("mixed/0.json")], meta_data={"made": True}))

    def on_prepare_track(self, track, data_root_dir):
        read = []
        for corpus in track.corpora[:2]:
            preparator = DocumentSetPreparator(track.name, self.downloader, self.decompressor)
            folder = os.path.join(data_root_dir, "raw", corpus.name)
            for documents in corpus.documents:
                if not preparator.prepare_bundled_document_set(documents, folder):
                    preparator.prepare_document_set(documents, folder)
                read.append((os.path.join(folder, documents.document_file), documents.number_of_documents))
        target = os.path.join(data_root_dir, "mix", "mixed", "0.json")
        yield mix, {"read": read, "target": target, "most": track.selected_challenge.parameters["lines"]}


def mix(read, target, most):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    lines = []
    for path, count in read:
        with open(path) as file:
            found = file.readlines()
        assert len(found) == count, (path, count, found)
        lines += found
    with open(target, "w") as file:
        for line in lines[:most]:
            file.write('{"create": {"_index": "events"}}' + "\\n" + line)


class Mixed:
    infinite = False

    def __init__(self, track, params, **kwargs):
        corpus = next(corpus for corpus in track.corpora if corpus.meta_data.get("made"))
        self.documents = corpus.documents[0]

    def params(self):
        with open(self.documents.document_file) as file:
            return {"lines": file.readlines(), "count": self.documents.number_of_documents}


async def mixed(es, params): ...


def register(registry):
    registry.register_param_source("mixed", Mixed)
    registry.register_runner("mixed", mixed, async_runner=True)
    registry.register_track_processor(Mixer())
"""
COUNTING = """
import os
from esrally.track import Documents


class Counted(Documents):
    def __init__(self, file):
        super().__init__(Documents.SOURCE_FORMAT_BULK, document_file=file, includes_action_and_meta_data=True)

    @property
    def uncompressed_size_in_bytes(self):
        return os.path.getsize(self.document_file) if os.path.exists(self.document_file) else 0

    @property
    def number_of_documents(self):
        if not os.path.exists(self.document_file):
            return 0
        with open(self.document_file) as file:
            return sum(1 for _ in file) // 2

    @number_of_documents.setter
    def number_of_documents(self, value):
        pass
"""


@pytest.fixture
def track_folder(tmp_path: Path) -> Path:
    import bz2

    root = write_track(tmp_path, TRACK, track__py=CODE)
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "counting.py").write_text(COUNTING)
    (root / "events.json").write_text(json.dumps(TEMPLATE))
    (root / "doors.json.bz2").write_bytes(bz2.compress(b"".join(b'{"door": %d}\n' % n for n in range(3))))
    (root / "lamps.json").write_text("".join(f'{{"lamp": {n}}}\n' for n in range(4)))
    for name in [name for name in sys.modules if name.partition(".")[0] == "beside"]:
        del sys.modules[name]
    return root


def prepared(root: Path, synthetic: bool = False) -> tuple[Plugins, TrackView, tuple[Corpus, ...]]:
    """What a race does before its first step, with its cache beside the track."""
    plugins = load_plugins(root)
    track, own = own_code_of(load(root), plugins, "only", OPERATIONS)

    def ready(wanted: Corpus) -> tuple[PreparedDocuments, ...]:
        corpora = synthetic_corpora(track, track.challenges[0], [wanted], 4, raw=True) if synthetic else (wanted,)
        return preparation.prepare(corpora, cache=root.parent / "cache", track_dir=root)

    _, made = own.prepare(track, root.parent / "made", ready)
    return plugins, own.view, made


def in_a_worker(plugins: Plugins, view: TrackView, made: tuple[Corpus, ...], root: Path) -> TrackView:
    cache = fresh_cache(made, root.parent / "made")
    documents = preparation.prepare(made, cache=cache, track_dir=root)
    return unpacked(plugins, packed(view, documents, "only"))


def test_a_processor_reads_documents_and_makes_a_corpus_that_its_source_reads(track_folder: Path) -> None:
    plugins, view, made = prepared(track_folder)
    assert [each.name for each in made] == ["mix"]
    sent = in_a_worker(plugins, view, made, track_folder)
    params = plugins.new_source("mixed", sent, {}, "here").params()
    assert params is not None
    assert params["count"] == 5
    assert params["lines"][1::2] == [f'{{"door": {n}}}\n' for n in range(3)] + [f'{{"lamp": {n}}}\n' for n in range(2)]


def test_what_was_made_of_synthetic_documents_says_so_and_lacks_what_processors_add(track_folder: Path) -> None:
    plugins, view, made = prepared(track_folder, synthetic=True)
    assert [part.synthetic for part in made[0].documents] == [True]
    sent = in_a_worker(plugins, view, made, track_folder)
    params = plugins.new_source("mixed", sent, {}, "here").params()
    assert params is not None
    documents = [json.loads(line) for line in params["lines"][1::2]]
    assert {name for document in documents for name in document} == {"@timestamp", "room"}
    assert all(isinstance(document["@timestamp"], str) for document in documents)


def test_a_corpus_that_is_made_anew_is_prepared_anew(track_folder: Path) -> None:
    plugins, view, made = prepared(track_folder)
    in_a_worker(plugins, view, made, track_folder)
    later = (track_folder.parent / "made" / "prepared" / "mix").stat().st_mtime_ns + 10**9
    (file,) = (track_folder.parent / "made" / "mix").rglob("0.json")
    file.write_text(file.read_text().replace("door", "gate"))
    os.utime(file, ns=(later, later))
    (part,) = in_a_worker(plugins, view, made, track_folder).corpora[2].documents
    assert part.prepared is not None
    assert b"gate" in part.prepared.path.read_bytes()


def test_a_file_that_somebody_else_has_put_there_stays(track_folder: Path) -> None:
    there = track_folder.parent / "made" / "raw" / "lamps" / "lamps.json"
    there.parent.mkdir(parents=True)
    there.write_text("".join(f'{{"lamp": {n}0}}\n' for n in range(4)))
    prepared(track_folder)
    prepared(track_folder)
    assert not there.is_symlink()
    assert there.read_text().startswith('{"lamp": 00}')


def test_documents_that_are_not_the_tracks_cannot_be_placed(track_folder: Path) -> None:
    code = (track_folder / "track.py").read_text()
    (track_folder / "track.py").write_text(
        code.replace("for documents in corpus.documents:", "for documents in [Counted('x')]:")
    )
    with pytest.raises(
        TrackError, match=r"given documents that are not the track's \(give it those of track.corpora\)"
    ):
        prepared(track_folder)


def test_a_preparator_without_the_processors_downloader_is_refused(track_folder: Path) -> None:
    code = (track_folder / "track.py").read_text()
    (track_folder / "track.py").write_text(
        code.replace("self.downloader = None", "self.loader = None").replace("self.downloader,", "None,")
    )
    with pytest.raises(TrackError, match="give the processor an attribute downloader"):
        prepared(track_folder)


def test_what_cannot_be_sent_to_workers_is_one_line(track_folder: Path) -> None:
    _, view, _ = prepared(track_folder)
    view.meta_data["open"] = lambda: None
    with pytest.raises(TrackError) as caught:
        packed(view, (), "only")
    assert str(caught.value).startswith(
        f"{track_folder}: what its own code made of the track cannot be sent to the load"
    )


def test_what_lies_beside_document_files_is_not_fetched_where_it_is(tmp_path: Path) -> None:
    there = tmp_path / "queries.json"
    there.write_text("[]")
    nothing: Any = None
    sets = DocumentSets(nothing, nothing, lambda corpus: (), [])
    sets.download(base_url="http://127.0.0.1:1/nowhere", target_path=str(there), size_in_bytes=None)
    assert there.read_text() == "[]"
