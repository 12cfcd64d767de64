"""The vectors of a race: documents, queries and judgements are made once, from a generator or from files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from esbench.errors import CorpusError, TrackError
from esbench.features.vectors.data import Neighbours, VectorData
from esbench.features.vectors.relevance import read_judgements, read_queries
from esbench.features.vectors.truth import nearest

SPEC = {"generate": {"count": 300, "queries": 7, "dimensions": 8}}
SOUGHT = Neighbours(5, "cosine")


def data(folder: Path, spec: dict[str, Any], most: int | None = None) -> VectorData:
    return VectorData(spec, folder, folder / "home", 'task "t"', most)


def vectors(path: Path, field: str = "v") -> tuple[list[str], Any]:
    lines = path.read_bytes().splitlines()
    ids = [json.loads(line)["index"]["_id"] for line in lines[::2]]
    return ids, np.array([json.loads(line)[field] for line in lines[1::2]], dtype=np.float32)


def test_documents_queries_and_judgements_fit_one_another(tmp_path: Path) -> None:
    made = data(tmp_path, SPEC)
    ids, rows = vectors(made.documents("v"))
    assert ids == [str(number) for number in range(300)]
    queries = [value for _, value in read_queries(made.queries())]
    judged = read_judgements(made.judgements(SOUGHT))
    for number, (near, _) in enumerate(nearest(rows, np.array(queries), 5, "cosine")):
        assert set(judged[str(number)]) == {str(row) for row in near}
    assert len(judged) == made.count / 300 * 7


def test_files_are_made_once(tmp_path: Path) -> None:
    made = data(tmp_path, SPEC)
    paths = [made.documents("v"), made.queries(), made.judgements(SOUGHT)]
    times = [path.stat().st_mtime_ns for path in paths]
    again = data(tmp_path, SPEC)
    assert [again.documents("v"), again.queries(), again.judgements(SOUGHT)] == paths
    assert [path.stat().st_mtime_ns for path in paths] == times
    assert data(tmp_path, SPEC, most=100).folder != made.folder
    assert len(vectors(data(tmp_path, SPEC, most=100).documents("v"))[0]) == 100


def test_a_filter_is_judged_by_what_it_matches(tmp_path: Path) -> None:
    made = data(tmp_path, SPEC)
    labels = [json.loads(line)["label"] for line in made.documents("v").read_bytes().splitlines()[1::2]]
    judged = read_judgements(made.judgements(Neighbours(5, "cosine", '{"range": {"label": {"lt": 100}}}')))
    assert all(labels[int(each)] < 100 for near in judged.values() for each in near)
    nothing = read_judgements(made.judgements(Neighbours(5, "cosine", '{"range": {"label": {"lt": 0}}}')))
    assert nothing == {str(number): {} for number in range(7)}


def files(folder: Path, padding: bool = False, wrong: bool = False) -> dict[str, Any]:
    rows = np.random.default_rng(1).standard_normal((200, 6), dtype=np.float32)
    queries = np.random.default_rng(2).standard_normal((9, 6), dtype=np.float32)
    near = np.array([rows_[:5] for rows_, _ in nearest(rows, queries, 5, "l2_norm")], dtype=np.int32)
    if padding:
        near[0, 4] = -1
    if wrong:
        near = (near + 1) % 200
    np.save(folder / "d.npy", rows)
    np.save(folder / "q.npy", queries)
    np.save(folder / "n.npy", near)
    return {"documents": "d.npy", "queries": "q.npy", "neighbours": "n.npy"}


def test_given_neighbours_are_taken_without_their_padding(tmp_path: Path) -> None:
    made = data(tmp_path, files(tmp_path, padding=True))
    judged = read_judgements(made.judgements(Neighbours(5, "l2_norm")))
    assert [len(near) for near in judged.values()] == [4, *[5] * 8]
    assert "-1" not in {each for near in judged.values() for each in near}


def test_given_neighbours_that_are_wrong_are_said(tmp_path: Path) -> None:
    made = data(tmp_path, files(tmp_path, wrong=True))
    with pytest.raises(CorpusError, match=r"its neighbours are not those by l2_norm: \d+ of 45 are right"):
        made.judgements(Neighbours(5, "l2_norm"))


def test_vectors_of_files_are_written_so_that_they_are_read_as_the_same_numbers(tmp_path: Path) -> None:
    given = files(tmp_path)
    _, rows = vectors(data(tmp_path, given).documents("v"))
    assert (rows == np.load(tmp_path / "d.npy")).all()


def test_an_id_that_comes_again_is_found_at_its_last_vector(tmp_path: Path) -> None:
    lines = [{"id": "a", "vector": [1.0, 0.0]}, {"id": "b", "vector": [0.9, 0.1]}, {"id": "a", "vector": [0.0, 1.0]}]
    (tmp_path / "d.json").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    (tmp_path / "q.json").write_text('{"vector": [1.0, 0.0]}\n')
    made = data(tmp_path, {"documents": "d.json", "queries": "q.json"})
    assert read_judgements(made.judgements(Neighbours(1, "cosine"))) == {"0": {"b": 1.0}}


@pytest.mark.parametrize(
    ("spec", "error", "said"),
    [
        ({}, TrackError, '"documents" is missing'),
        ({"documents": "d.npy"}, TrackError, '"queries" is missing'),
        ({"documents": "x.npy", "queries": "q.npy"}, CorpusError, "there is no file of documents"),
        ({"generate": {"count": 3}}, TrackError, '"dimensions" is missing'),
        ({**SPEC, "file": "a"}, TrackError, 'unknown key "file"'),
    ],
)
def test_wrong_data_is_said(tmp_path: Path, spec: dict[str, Any], error: type[Exception], said: str) -> None:
    files(tmp_path)
    with pytest.raises(error) as raised:
        data(tmp_path, spec)
    assert said in str(raised.value)


def test_queries_of_other_dimensions_are_said(tmp_path: Path) -> None:
    files(tmp_path)
    np.save(tmp_path / "q.npy", np.zeros((2, 5), np.float32))
    with pytest.raises(CorpusError, match="queries have 5 dimensions, documents 6"):
        data(tmp_path, {"documents": "d.npy", "queries": "q.npy"}).queries()
