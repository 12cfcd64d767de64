"""Which searches are approximate."""

from __future__ import annotations

import json
from typing import Any

import pytest

from esbench.operations.approximate import is_approximate

KNN = {"field": "v", "query_vector": [1, 2], "k": 10}


@pytest.mark.parametrize(
    "body",
    [
        {"knn": KNN},
        {"knn": [KNN, KNN], "query": {"match_all": {}}},
        {"query": {"knn": KNN}},
        {"query": {"knn": {"my_vector": {"vector": [1, 2], "k": 10}}}},  # OpenSearch
        {"query": {"bool": {"must": [{"match": {"a": "b"}}, {"knn": KNN}]}}},
        {"query": {"nested": {"path": "p", "query": {"script_score": {"query": {"knn": KNN}}}}}},
        {"retriever": {"rrf": {"retrievers": [{"standard": {}}, {"knn": KNN}]}}},
        {"query": {"neural": {"v": {"query_text": "a", "model_id": "m", "k": 3}}}},
        {"query": {"hybrid": {"queries": [{"match": {"a": "b"}}, {"neural_sparse": {"v": {"query_text": "a"}}}]}}},
        {"query": {"text_expansion": {"ml.tokens": {"model_id": "m", "model_text": "a"}}}},
        {"query": {"sparse_vector": {"field": "v", "inference_id": "m", "query": "a"}}},
        {"query": {"weighted_tokens": {"v": {"tokens": {"a": 1}}}}},
        {"query": {"semantic": {"field": "v", "query": "a"}}},
        {"query": {"match_all": {}}, "terminate_after": 100},
        {"aggs": {"near": {"filter": {"knn": KNN}}}},
        {"aggs": {"a": {"filters": {"filters": {"near": {"knn": KNN}}}}}},
    ],
)
def test_searches_that_may_find_less_for_speed(body: Any) -> None:
    assert is_approximate(body)
    assert is_approximate({"index": "a", "body": body})
    assert is_approximate({"index": "a", "body": json.dumps(body)})
    assert is_approximate({"body": [{}, body]})
    assert is_approximate({"body": f"{{}}\n{json.dumps(body)}\n"})
    assert is_approximate({"requests": [{"stream": [{"operation-type": "search", "body": body}]}]})


@pytest.mark.parametrize(
    "params",
    [
        {"path": "/a/_search?size=1&terminate_after=100"},
        {"request-params": {"terminate_after": "100"}},
        {"body": '{"query": {"knn": {"field": "v", "query_vector": $[[vector]]}}}'},
        {"query": 'FROM a METADATA _score | WHERE knn(v, "[1, 2]") | SORT _score DESC | LIMIT 10'},
        {"body": {"query": "from a | where KNN (v, ?) | limit 10"}},
    ],
)
def test_parameters_that_ask_for_one(params: Any) -> None:
    assert is_approximate(params)


@pytest.mark.parametrize(
    "body",
    [
        {"query": {"match": {"knn": {"query": "a"}}}},
        {"query": {"range": {"semantic": {"gte": 1}}}},
        {"query": {"term": {"neural": {"value": True}}}},
        {"query": {"match": {"title": {"query": "from here KNN (k nearest neighbours)"}}}},
        {"query": {"match": {"title": {"query": 'the key "knn": what is it?'}}}},
        {"aggs": {"knn": {"terms": {"field": "a"}}}},
        {"aggs": {"a": {"filters": {"filters": {"semantic": {"term": {"a": 1}}}}}}},
        {"sort": [{"knn": {"order": "asc"}}], "fields": ["knn"], "highlight": {"fields": {"semantic": {}}}},
        {"query": {"script_score": {"query": {"match_all": {}}, "script": {"source": "cosineSimilarity(p, 'v')"}}}},
        {"query": {"exists": {"field": "knn"}}, "knn": []},
    ],
)
def test_exact_searches_with_such_words(body: Any) -> None:
    assert not is_approximate({"body": body})
    assert not is_approximate({"body": json.dumps(body)})
