"""Exact neighbours against a plain computation of every distance, with ties, filters, replaced ids."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from esbench.errors import TrackError
from esbench.features.vectors.generated import Generated
from esbench.features.vectors.truth import latest, matches, nearest


def generated(**changes: Any) -> Generated:
    spec = {"count": 9000, "queries": 20, "dimensions": 16, "clusters": 30, **changes}
    return Generated.of(spec, "here")


def documents(spec: Generated) -> Any:
    return np.concatenate(list(spec.rows()))


def distances(rows: Any, query: Any, metric: str) -> Any:
    """The distance of each row from a query, in float64."""
    if metric == "hamming":
        return np.unpackbits((rows ^ query).view(np.uint8), axis=1).sum(axis=1)
    rows, query = rows.astype(np.float64), query.astype(np.float64)
    if metric == "l2_norm":
        return ((rows - query) ** 2).sum(axis=1)
    if metric == "cosine":
        return 1 - rows @ query / (np.linalg.norm(rows, axis=1) * np.linalg.norm(query))
    return -(rows @ query)


@pytest.mark.parametrize(
    ("metric", "element"),
    [("cosine", "float"), ("dot_product", "float"), ("l2_norm", "float"), ("l2_norm", "byte"), ("hamming", "bit")],
)
def test_neighbours_are_those_of_a_plain_computation(metric: str, element: str) -> None:
    spec = generated(element=element)
    rows, queries = documents(spec), spec.query_rows()
    found = list(nearest(rows, queries, 10, metric, ties=2000))
    assert len(found) == 20
    for query, (near, _) in zip(queries, found, strict=True):
        all_of_them = distances(rows, query, metric)
        last = np.sort(all_of_them)[9]
        surely = set(np.flatnonzero(all_of_them < last - 1e-5))
        assert surely <= set(near) <= set(np.flatnonzero(all_of_them <= last + 1e-5))
        assert len(near) >= 10


def test_all_documents_at_the_distance_of_the_last_are_neighbours() -> None:
    rows = np.array([[1, 0], [0, 1], [0, 1], [0, 1], [-1, 0]], dtype=np.float32)
    ((near, scores),) = nearest(rows, np.array([[1.0, 0.1]]), 2, "cosine")
    assert sorted(near) == [0, 1, 2, 3]
    assert list(scores) == sorted(scores, reverse=True)


def test_fewer_matches_than_k_are_all_neighbours_and_none_without_a_direction() -> None:
    rows = np.array([[1, 0], [0, 0], [0, 1]], dtype=np.float32)
    ((near, _),) = nearest(rows, np.array([[1.0, 0.0]]), 10, "cosine")
    assert sorted(near) == [0, 2]
    ((near, _),) = nearest(rows, np.array([[1.0, 0.0]]), 10, "cosine", np.array([False, True, True]))
    assert list(near) == [2]
    ((near, _),) = nearest(rows, np.array([[1.0, 0.0]]), 10, "cosine", np.zeros(3, dtype=bool))
    assert list(near) == []


def test_a_filter_leaves_its_matches() -> None:
    labels = {"label": np.array([0, 1, 2, 3]), "kind": np.array(["a", "b", "a", "b"])}

    def rows(filter_: dict[str, Any]) -> list[int]:
        return list(np.flatnonzero(matches(filter_, labels, "here")))

    assert rows({"range": {"label": {"gte": 1, "lt": 3}}}) == [1, 2]
    assert rows({"term": {"kind": "a"}}) == [0, 2]
    assert rows({"terms": {"label": [0, 3]}}) == [0, 3]
    both = [{"term": {"kind": {"value": "a"}}}, {"range": {"label": {"gt": 0}}}]
    assert rows({"bool": {"filter": both}}) == [2]
    assert rows({"bool": {"should": both, "must_not": {"term": {"label": 3}}}}) == [0, 1, 2]


@pytest.mark.parametrize(
    ("filter_", "said"),
    [
        ({"match": {"kind": "a"}}, '"match" cannot be followed'),
        ({"term": {"colour": 1}}, 'the data has no field "colour", but label'),
        ({"range": {"label": {"below": 1}}}, 'a range has no "below"'),
        ({"bool": {"none": []}}, '"bool" has no "none"'),
        ({}, "a filter has one query"),
    ],
)
def test_a_filter_that_cannot_be_followed_is_said(filter_: dict[str, Any], said: str) -> None:
    with pytest.raises(TrackError) as raised:
        matches(filter_, {"label": np.arange(3)}, "here")
    assert said in str(raised.value)


def test_the_last_document_of_an_id_is_the_one_that_is_found() -> None:
    assert list(latest(["a", "b", "a", "c"])) == [False, True, True, True]


def test_generated_vectors_are_a_function_of_the_seed() -> None:
    one, other = generated(), generated(seed=2)
    assert (documents(one) == documents(generated())).all()
    assert not (documents(one) == documents(other)).any(axis=1).all()
    assert np.allclose(np.linalg.norm(documents(one), axis=1), 1, atol=1e-3)
    labels = one.labels()
    assert 0.08 < (labels < 100).mean() < 0.12


def test_generated_vectors_have_neighbourhoods() -> None:
    """The nearest neighbours of a query are much nearer than a random document."""
    spec = generated(dimensions=64)
    rows, queries = documents(spec), spec.query_rows()
    near = [scores[9] for _, scores in nearest(rows, queries, 10, "cosine")]
    assert np.mean(near) > 0.5
    assert abs(float((rows[:500] @ queries.T).mean())) < 0.2


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"element": "double"}, '"element" cannot be "double" (one of float, byte, bit)'),
        ({"element": "bit", "dimensions": 12}, '"dimensions" of bits must be a multiple of 8, not 12'),
        ({"cluster": 3}, 'unknown key "cluster"'),
        ({"count": 0}, '"count" must be at least 1, not 0'),
    ],
)
def test_a_wrong_spec_is_said(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(TrackError) as raised:
        generated(**changes)
    assert said in str(raised.value)
