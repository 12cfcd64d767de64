"""Shapes of requests: the same structure with other literals is one shape, with a short name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl

from esbench.errors.printable import printable
from esbench.errors.short import beginning
from esbench.features.replay.searches import endpoint_of

_DEEPEST = 60
_MOST_WORDS = 4
_LONGEST_NAME = 80
_BRANCHES = {"must", "should", "filter", "must_not", "query", "queries", "positive", "negative", "no_match_query"}
_WRAPPERS = {"bool", "constant_score", "dis_max", "boosting", "nested", "function_score", "script_score", "has_child"}


def shape_of(path: str, body: Any) -> tuple[str, str]:
    """Return the key of a request's shape, 16 hexadecimal digits, and its name: `match+terms agg on orders`.

    Two requests have one key if indices, endpoint, parameters and the body's structure are alike.
    """
    indices, endpoint, further = endpoint_of(path)
    names = sorted(name for name, _ in parse_qsl(path.partition("?")[2], keep_blank_values=True))
    rest = "" if endpoint in ("_doc", "_source") else further
    text = f"{indices} {endpoint} {rest} {names} {_template(body, 0)}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16], _name(indices, endpoint, names, body)


def _template(value: Any, depth: int) -> str:
    """Return the structure of a JSON value: keys in order, a ? for each literal, equal items of a list once."""
    if depth > _DEEPEST:
        return "..."
    if isinstance(value, dict):
        inner = ",".join(f"{key!r}:{_template(item, depth + 1)}" for key, item in sorted(value.items()))
        return f"{{{inner}}}"
    if isinstance(value, list):
        items = dict.fromkeys(_template(item, depth + 1) for item in value)
        return f"[{','.join(items)}]"
    return "?"


def _name(indices: str, endpoint: str, names: list[str], body: Any) -> str:
    words = {"_doc": "get", "_source": "get", "_mget": "multi-get", "_msearch": "multi-search"}.get(endpoint)
    if words is None:
        words = "+".join(_words(body)) or ("query_string" if "q" in names else "match_all")
        words = f"count {words}" if endpoint == "_count" else words
    return beginning(printable(f"{words} on {indices or 'all'}"), _LONGEST_NAME)


def _words(body: Any) -> list[str]:
    if not isinstance(body, dict):
        return []
    found = list(dict.fromkeys(_queries(body.get("query"), 0)))
    found += ["knn"] if "knn" in body and "knn" not in found else []
    aggregations = body.get("aggs", body.get("aggregations"))
    if isinstance(aggregations, dict):
        found += dict.fromkeys(f"{kind} agg" for item in aggregations.values() for kind in _kinds(item))
    if len(found) > _MOST_WORDS:
        found = [*found[:_MOST_WORDS], "..."]
    return found


def _kinds(aggregation: Any) -> list[str]:
    if not isinstance(aggregation, dict):
        return []
    return [kind for kind in aggregation if kind not in ("aggs", "aggregations", "meta")][:1]


def _queries(query: Any, depth: int) -> Iterator[str]:
    """Yield the kinds of the queries inside of a query, without those that only hold others."""
    if depth > _DEEPEST:
        return
    if isinstance(query, list):
        for item in query:
            yield from _queries(item, depth + 1)
    if not isinstance(query, dict):
        return
    for kind, inner in query.items():
        if kind not in _WRAPPERS:
            yield kind
        elif isinstance(inner, dict):
            for branch in inner.keys() & _BRANCHES if len(inner) > 20 else [key for key in inner if key in _BRANCHES]:
                yield from _queries(inner[branch], depth + 1)
