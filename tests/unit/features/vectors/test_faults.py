"""What is odd about vectors is told with their number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from esbench.features.vectors.data import VectorData
from esbench.features.vectors.faults import faults


def normal(count: int, dimensions: int = 8, seed: int = 1) -> Any:
    rows = np.random.default_rng(seed).standard_normal((count, dimensions), dtype=np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("metric", ["cosine", "dot_product", "max_inner_product", "l2_norm"])
def test_vectors_that_are_drawn_alike_have_no_fault(metric: str) -> None:
    assert faults([normal(3000), normal(2500, seed=2)], normal(300, seed=3), metric) == []


def test_duplicates_are_counted_over_blocks() -> None:
    rows = normal(500)
    assert faults([rows, rows[:7]], normal(50, seed=3), "l2_norm") == [
        "duplicates: 7 of 507 vectors are copies of others, and equally near"
    ]


def test_dimensions_that_hardly_vary() -> None:
    rows = normal(500)
    rows[:, 3] = 0.5
    rows[:, 6] = 0.1 + rows[:, 6] / 1000
    queries = normal(50, seed=3)
    queries[:, [3, 6]] = 0.5, 0.1
    assert faults([rows], queries, "l2_norm") == ["near-constant dimensions: 2 of 8 (3, 6) tell vectors hardly apart"]


def test_zero_vectors_are_a_fault_of_the_cosine_alone() -> None:
    rows = normal(500)
    rows[9] = 0
    assert faults([rows], normal(50, seed=3), "cosine") == [
        "zero vectors: 1 of 500 have no direction, which the cosine needs"
    ]
    assert faults([rows], normal(50, seed=3), "l2_norm") == []


def test_a_dot_product_needs_the_length_1_of_float_alone() -> None:
    rows, queries = normal(500), normal(50, seed=3)
    rows[:20] *= 1.1
    assert faults([rows], queries, "dot_product") == [
        "not normalised: 20 of 500 vectors do not have the length 1 of a dot_product"
    ]
    assert faults([rows], queries, "max_inner_product") == []
    wide = np.rint(normal(500) * 100).astype(np.int8), np.rint(queries * 100).astype(np.int8)
    assert faults([wide[0]], wide[1], "dot_product") == []
    (line,) = faults([normal(500)], 2 * queries[:5], "dot_product")[:1]
    assert line == "not normalised: 5 of 5 queries do not have the length 1 of a dot_product"


def test_queries_outside_of_the_documents() -> None:
    queries = normal(100, seed=3)
    queries[:40, 0] += 5
    (line,) = faults([normal(6000)], queries, "l2_norm")
    assert line.startswith("queries outside of the documents: 4")
    assert line.endswith(" of 100 are farther from a sample of 1,500 documents than 99% of these are from one another")


def test_faults_of_data_are_seen_once(tmp_path: Path) -> None:
    rows = normal(300)
    np.save(tmp_path / "rows.npy", np.concatenate([rows, rows[:2]]))
    np.save(tmp_path / "queries.npy", normal(20, seed=3))
    spec = {"documents": "rows.npy", "queries": "queries.npy"}
    data = VectorData(spec, tmp_path, tmp_path / "home", "task")
    assert data.faults("cosine") == ["duplicates: 2 of 302 vectors are copies of others, and equally near"]
    assert [path.name for path in data.folder.iterdir()] == ["faults-cosine.txt"]
    assert (
        VectorData({"generate": {"count": 5000, "dimensions": 16}}, tmp_path, tmp_path / "home", "task").faults(
            "dot_product"
        )
        == []
    )
