"""Scores of replies: their counts, percentiles, and the interval of their mean."""

from __future__ import annotations

import random

import pytest

from esbench.measure.scores import Scores, interval


def test_scores_are_counted_by_value_and_by_query() -> None:
    scores = Scores()
    for query, score in ((1, 0.9), (1, 0.7), (2, 1.0)):
        scores.add("recall@10", query, score)
    assert (scores.name, scores.count, scores.total) == ("recall@10", 3, pytest.approx(2.6))
    assert scores.by_query == {1: (2, pytest.approx(1.6)), 2: (1, 1.0)}


def test_merged_scores_are_those_of_both() -> None:
    one, other, both = Scores(), Scores(), Scores()
    for query, score in ((1, 0.5), (2, 0.25), (1, 1.0)):
        both.add("mrr@10", query, score)
    one.add("mrr@10", 1, 0.5)
    other.add("mrr@10", 2, 0.25)
    other.add("mrr@10", 1, 1.0)
    one.merge(other)
    one.merge(Scores())
    assert one == both


def test_a_percentile_is_the_score_that_so_many_replies_have_at_most() -> None:
    scores = Scores()
    for query, score in enumerate([0.1] + [0.5] * 9 + [1.0] * 90):
        scores.add("recall@10", query, score)
    assert (scores.percentile(1), scores.percentile(10), scores.percentile(11)) == (0.1, 0.5, 1.0)
    with pytest.raises(ValueError, match="no reply was scored"):
        Scores().percentile(10)


def test_many_replies_to_the_same_queries_make_no_narrower_interval() -> None:
    once = interval([(1, 0.8), (1, 1.0), (1, 0.9), (1, 0.6)])
    assert once is not None
    assert interval([(100, 80.0), (100, 100.0), (100, 90.0), (100, 60.0)]) == pytest.approx(once)
    assert once[0] < 0.825 < once[1]


def test_the_interval_holds_the_mean_of_all_queries_nearly_as_often_as_it_says() -> None:
    draw = random.Random(5)
    held = 0
    for _ in range(400):
        drawn = [(2, 2 * draw.betavariate(8, 2)) for _ in range(200)]
        low, high = interval(drawn) or (1, 0)
        held += low <= 0.8 <= high
    assert 0.92 <= held / 400 <= 0.98


def test_where_all_queries_score_the_same_the_interval_follows_the_rule_of_three() -> None:
    assert interval(dict.fromkeys(range(300), (3, 3.0))) == (0.99, 1.0)
    assert interval({7: (10, 9.0)}) is None
