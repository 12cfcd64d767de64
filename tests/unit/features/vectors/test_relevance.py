"""Recall, nDCG and MRR of the hits of a reply, against figures that were worked out by hand."""

from __future__ import annotations

import math

import pytest

from esbench.features.vectors.relevance import found_ids, mrr, ndcg, recall


def test_recall_is_the_share_of_k_neighbours_that_were_found() -> None:
    near = dict.fromkeys("abcd", 1.0)
    assert recall("abxy", near, 4) == 0.5
    assert recall("xyab", near, 2) == 0.0  # only the first two count
    assert recall("dcba", near, 4) == 1.0


def test_recall_with_ties_takes_any_of_the_documents_at_the_distance_of_the_last() -> None:
    near = dict.fromkeys("abcd", 1.0)  # k is 2, and b, c, d are equally far
    assert [recall(found, near, 2) for found in ("ab", "ad", "cd", "xd")] == [1.0, 1.0, 1.0, 0.5]


def test_recall_with_fewer_matches_than_k_is_of_these() -> None:
    assert recall("ab", {"a": 1.0, "b": 1.0}, 10) == 1.0
    assert recall("a", {"a": 1.0, "b": 1.0}, 10) == 0.5
    assert recall("", {}, 10) == 1.0


def test_ndcg_discounts_by_the_logarithm_of_the_place() -> None:
    grades = {"a": 3.0, "b": 2.0, "c": 1.0}
    best = 3 + 2 / math.log2(3) + 1 / 2
    assert ndcg("abc", grades, 3) == pytest.approx(1.0)
    assert ndcg("bxa", grades, 3) == pytest.approx((2 + 3 / 2) / best)
    assert ndcg("xyz", grades, 3) == 0.0
    assert ndcg("a", {}, 3) == 0.0


def test_mrr_is_the_reciprocal_rank_of_the_first_relevant_document() -> None:
    assert [mrr("xya", {"a": 1.0}, 3), mrr("xya", {"a": 1.0}, 2)] == [pytest.approx(1 / 3), 0.0]


def test_an_id_that_a_reply_holds_twice_counts_once() -> None:
    body = b'{"hits":{"total":3,"hits":[{"_id":"a","_source":{"_id":"z"}},{"_id":"a"},{"_id":"b"}]}}'
    assert found_ids(body) == ["a", "b"]
    with pytest.raises(ValueError, match="hits"):
        found_ids(b'{"error":{}}')
