"""Approximate searches: what they find may be worse in exchange for speed, so that their speed alone says nothing."""

from __future__ import annotations

import json
import re
from typing import Any


class NotComparable(Exception):  # noqa: N818 - a reason, not an error
    """Raised for a request whose answers are not compared, with the reason."""


# Keys of a search, with an object or a list each: nearest neighbours of vectors, and learned sparse vectors, of which
# engines leave out what weighs little.
VECTOR_SEARCHES = frozenset(
    (
        *(
            "knn",
            "sparse_vector",
            "text_expansion",
            "weighted_tokens",
            "semantic",
        ),  # Elasticsearch; knn of OpenSearch, too
        *("neural", "neural_sparse"),  # OpenSearch
    )
)
EARLY_END = "terminate_after"  # the best of the documents that were looked at until then
_ESQL = re.compile(r"\s*(FROM|TS|ROW)\b.*\bKNN\s*\(", re.IGNORECASE | re.DOTALL)

# Keys whose objects have names of the user's for keys: of fields, aggregations, filters, scripts.
_HOLD_NAMES = frozenset(
    (
        *(
            "aggs",
            "aggregations",
            "filters",
            "suggest",
            "fields",
            "runtime_mappings",
            "script_fields",
            "params",
            "sort",
        ),
        *("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix", "term", "terms", "terms_set", "range"),
        *("prefix", "wildcard", "fuzzy", "regexp", "intervals", "span_term", "meta", "gauss", "linear", "exp"),
    )
)
_ESQL_IN_TEXT = re.compile(rf'"query"\s*:\s*"{_ESQL.pattern}', _ESQL.flags)
_OF_QUERIES = ("", "body", "requests", "stream")  # where a text as `query` is ES|QL or SQL
_VECTOR_IN_TEXT = re.compile(rf"""\\*["']({"|".join(sorted(VECTOR_SEARCHES))})\\*["']\s*:\s*[\[{{]""")
_END_IN_TEXT = re.compile(rf"""\\*["']{EARLY_END}\\*["']\s*:|[?&]{EARLY_END}=""")


def is_approximate(value: Any, key: str = "") -> bool:
    """True if the parameters of an operation, or the body of a request, hold an approximate search, at any depth.

    `key`: that at which the value stands.
    """
    if isinstance(value, dict):
        found = set() if key in _HOLD_NAMES else VECTOR_SEARCHES & value.keys()
        if any(isinstance(value[name], dict | list) and value[name] for name in found):
            return True
        if key in _OF_QUERIES and isinstance(query := value.get("query"), str) and _ESQL.match(query):
            return True
        is_early = EARLY_END in value and key not in _HOLD_NAMES
        return is_early or any(is_approximate(inner, name) for name, inner in value.items())
    if isinstance(value, list | tuple):
        return any(is_approximate(inner, key) for inner in value)
    return isinstance(value, str) and _is_approximate_text(value)


def _is_approximate_text(text: str) -> bool:
    """True of a target, a body or lines of bodies with an approximate search."""
    if _END_IN_TEXT.search(text):
        return True
    if not (_VECTOR_IN_TEXT.search(text) or _ESQL_IN_TEXT.search(text)):
        return False
    for lines in ([text], text.splitlines()):
        try:
            return any(is_approximate(json.loads(line)) for line in lines if line.strip())
        except (ValueError, RecursionError):
            continue
    return True  # a body with variables, or a template: as it reads
