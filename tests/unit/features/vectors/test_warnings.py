"""What `esbench info` says of the vectors of a track."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from esbench.features.authoring.describe import describe
from esbench.track.rendering import RenderContext

TRACK = """
version: 2
description: Photos and their neighbours
indices: [{name: photos, body: index.json}]
schedule:
  - operation: {operation-type: bulk-vector-data-set, field: v, data: DATA}
  - {name: near-10, operation: {operation-type: knn-search, field: v, candidates: 10, data: DATA}}
  - {name: near-20, operation: {operation-type: knn-search, field: v, candidates: 20, data: DATA}}
"""
INDEX = '{"mappings": {"properties": {"v": {"type": "dense_vector", "dims": 4, "similarity": "dot_product"}}}}'


def warnings(folder: Path, data: str) -> tuple[str, ...]:
    (folder / "track.yml").write_text(TRACK.replace("DATA", data))
    (folder / "index.json").write_text(INDEX)
    return describe(folder / "track.yml", RenderContext({}, "elasticsearch", "8.19.4", 0), folder).warnings(
        folder / "home"
    )


def test_a_fault_is_said_once_by_the_metric_of_the_mapping(tmp_path: Path) -> None:
    rows = np.random.default_rng(1).standard_normal((50, 4), dtype=np.float32)
    np.save(tmp_path / "rows.npy", rows)
    assert warnings(tmp_path, "{documents: rows.npy, queries: rows.npy}") == (
        "not normalised: 50 of 50 vectors do not have the length 1 of a dot_product",
        "not normalised: 50 of 50 queries do not have the length 1 of a dot_product",
    )
    assert warnings(tmp_path, "{generate: {count: 50, dimensions: 4}}") == ()


def test_a_file_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    (line,) = warnings(tmp_path, "{documents: rows.npy, queries: rows.npy}")
    assert "there is no file of documents" in line
