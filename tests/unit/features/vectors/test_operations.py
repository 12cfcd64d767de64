"""Searches for neighbours in the form of each server, and what their parameters may be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from compiled import ES8, OPENSEARCH, context, requests

from esbench.cluster.dialect import Dialect
from esbench.errors import TrackError
from esbench.features.vectors.operations import as_knn_search
from esbench.operations import builtin_operations
from esbench.requests.exchange import Script
from esbench.requests.recordings import track_file

DATA = {"generate": {"count": 10, "dimensions": 2}}


def asked(folder: Path, kind: str, params: dict[str, Any], dialect: Dialect) -> tuple[str, dict[str, Any]]:
    """First line and body of the request, with files as the hook gives them."""
    builtin_operations().get(kind).check(params, "here")
    (folder / "q.tsv").write_text("0\t[0.5,-1]\n")
    (folder / "j.txt").write_text("0 0 7 1\n")
    files = {"queries": track_file(folder / "q.tsv"), "judgements": track_file(folder / "j.txt"), "score": "recall@10"}
    program = builtin_operations().get(kind).compile(context(kind, {**params, **files}, dialect=dialect))
    client = program.client(0, b"Host: n\r\n")
    assert not isinstance(client, Script)
    head, _, body = requests(client)[0].partition(b"\r\n\r\n")
    return head.partition(b" HTTP")[0].decode(), json.loads(body)


FULL = {
    "field": "v",
    "data": DATA,
    "k": 5,
    "candidates": 40,
    "filter": {"term": {"label": 1}},
    "oversample": 2,
    "body": {"track_total_hits": False},
}


def test_elasticsearch_is_asked_by_knn(tmp_path: Path) -> None:
    line, body = asked(tmp_path, "knn-search", FULL, ES8)
    assert line == "POST /orders/_search"
    assert body == {
        "knn": {
            "field": "v",
            "query_vector": [0.5, -1],
            "k": 5,
            "num_candidates": 40,
            "filter": {"term": {"label": 1}},
            "rescore_vector": {"oversample": 2.0},
        },
        "size": 5,
        "_source": False,
        "track_total_hits": False,
    }


def test_opensearch_is_asked_by_a_query(tmp_path: Path) -> None:
    _, body = asked(tmp_path, "knn-search", FULL, OPENSEARCH)
    assert body["query"] == {
        "knn": {
            "v": {
                "vector": [0.5, -1],
                "k": 5,
                "method_parameters": {"ef_search": 40},
                "filter": {"term": {"label": 1}},
                "rescore": {"oversample_factor": 2.0},
            }
        }
    }


def test_a_vector_search_of_opensearch_benchmark_is_a_knn_search(tmp_path: Path) -> None:
    params = {
        "target_index_name": "photos",
        "target_field_name": "v",
        "k": 5,
        "hnsw_ef_search": 64,
        "data_set_path": "sift.hdf5",
        "data_set_format": "hdf5",
        "neighbors_data_set_path": "near.ivecs",
        "filter_body": {"term": {"label": 1}},
    }
    named = as_knn_search(params)
    assert {name: named[name] for name in ("index", "field", "candidates", "filter")} == {
        "index": "photos",
        "field": "v",
        "candidates": 64,
        "filter": {"term": {"label": 1}},
    }
    assert named["data"] == {"documents": "sift.hdf5", "queries": "sift.hdf5", "neighbours": "near.ivecs"}
    line, body = asked(tmp_path, "vector-search", params, OPENSEARCH)
    assert (line, body["size"]) == ("POST /photos/_search", 5)


@pytest.mark.parametrize(
    ("kind", "params", "said"),
    [
        ("knn-search", {"data": DATA}, 'needs "field"'),
        ("knn-search", {"field": "v"}, 'a knn-search needs "data", or "queries" and "judgements"'),
        ("knn-search", {"field": "v", "queries": "q.tsv"}, '"queries" needs "judgements"'),
        (
            "knn-search",
            {"field": "v", "data": DATA, "k": 10, "candidates": 5},
            '"candidates" (5) are fewer than k (10)',
        ),
        ("vector-search", {"data": DATA}, 'needs "target_field_name"'),
        ("bulk-vector-data-set", {"field": "v"}, 'needs "data"'),
    ],
)
def test_wrong_parameters_are_said(kind: str, params: dict[str, Any], said: str) -> None:
    with pytest.raises(TrackError) as raised:
        builtin_operations().get(kind).check(params, "here")
    assert said in str(raised.value)


@pytest.mark.parametrize("version", [(7, 17), (8, 3)])
def test_a_server_without_knn_is_refused(tmp_path: Path, version: tuple[int, int]) -> None:
    with pytest.raises(TrackError, match="knn"):
        asked(tmp_path, "knn-search", FULL, Dialect("elasticsearch", version))
