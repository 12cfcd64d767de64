"""Exact nearest neighbours by brute force, a block of documents at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from esbench.errors import TrackError

METRICS = ("cosine", "dot_product", "max_inner_product", "l2_norm", "hamming")
_BLOCK = 8192  # documents
_CLOSE = 2e-6  # of the largest product: what float32 leaves unknown of a score


def nearest(
    documents: Any, queries: Any, k: int, metric: str, allowed: Any = None, ties: int = 100
) -> Iterator[tuple[Any, Any]]:
    """Yield, for each query, the rows of its k nearest documents, and of all that are as near as the k-th.

    `documents` and `queries` are arrays of rows, `allowed` a mask of the documents that may be found; None: all. Up to
    `ties` more than k are found. Each result is rows and their scores, the nearest first: fewer than k where fewer are
    allowed, none for documents of length 0 with the cosine.
    """
    asked = as_compared(queries, metric)
    depth = k + ties
    best_scores = np.full((len(asked), 0), -np.inf, np.float32)
    best_rows = np.zeros((len(asked), 0), np.int64)
    largest = 0.0
    for first in range(0, len(documents), _BLOCK):
        mask = slice(first, first + _BLOCK)
        block = as_compared(documents[mask], metric)
        scores = asked @ block.T
        if metric == "l2_norm":
            scores = 2 * scores - np.einsum("ij,ij->i", block, block)[None, :]
        largest = max(largest, float(np.abs(scores).max(initial=0.0)))
        if allowed is not None:
            scores[:, ~allowed[mask]] = -np.inf
        if metric == "cosine":
            scores[:, ~block.any(axis=1)] = -np.inf
        scores, rows = _deepest(scores, np.arange(first, first + len(block)), depth)
        best_scores, best_rows = np.hstack([best_scores, scores]), np.hstack([best_rows, rows])
        best_scores, best_rows = _deepest(best_scores, best_rows, depth)
    for scores, rows in zip(best_scores, best_rows, strict=True):
        order = np.argsort(-scores, kind="stable")
        scores, rows = scores[order], rows[order]
        worst = scores[min(k, len(scores)) - 1] if len(scores) else -np.inf
        kept = np.isfinite(scores) & (scores >= worst - _CLOSE * largest)
        yield rows[kept], scores[kept]


def as_compared(rows: Any, metric: str) -> Any:
    """Return rows as float32 whose dot product orders as the metric does; of the cosine, of length 1 (or 0)."""
    if metric == "hamming":
        bits = np.unpackbits(np.ascontiguousarray(rows).view(np.uint8), axis=1)
        return bits.astype(np.float32) * 2 - 1
    rows = np.asarray(rows, dtype=np.float32)
    if metric == "cosine":
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        return np.divide(rows, lengths, out=np.zeros_like(rows), where=lengths > 0)
    return rows


def _deepest(scores: Any, rows: Any, depth: int) -> tuple[Any, Any]:
    """Return the `depth` highest scores of each query, in no order, with their rows."""
    rows = np.broadcast_to(rows, scores.shape)
    if scores.shape[1] <= depth:
        return scores, rows
    places = np.argpartition(-scores, depth - 1, axis=1)[:, :depth]
    return np.take_along_axis(scores, places, axis=1), np.take_along_axis(rows, places, axis=1)


def latest(ids: Sequence[str]) -> Any:
    """Return a mask of the last row of each id: documents that were replaced later are not found."""
    last = {each: row for row, each in enumerate(ids)}
    return np.array([last[each] == row for row, each in enumerate(ids)], dtype=bool)


def matches(filter_: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> Any:
    """Return a mask of the rows that a filter matches: `term`, `terms`, `range`, and `bool` of these.

    `fields` are arrays by the names of fields. Raises TrackError for another filter, or an unknown field.
    """

    def refused(what: str) -> TrackError:
        return TrackError(what, where=f'{where}: "filter"', hint="recall is of term, terms, range, and bool of these")

    if len(filter_) != 1:
        raise refused("a filter has one query")
    ((kind, content),) = filter_.items()
    if kind == "bool":
        return _combined(content, fields, where)
    if kind not in ("term", "terms", "range") or not isinstance(content, Mapping) or len(content) != 1:
        raise refused(f'"{kind}" cannot be followed')
    ((field, value),) = content.items()
    if field not in fields:
        raise refused(f'the data has no field "{field}", but {", ".join(fields) or "none"}')
    column = fields[field]
    if kind == "terms":
        return np.isin(column, list(value))
    if kind == "term":
        return column == (value["value"] if isinstance(value, Mapping) else value)
    found = np.ones(len(column), dtype=bool)
    for sign, bound in value.items():
        if sign not in _SIGNS:
            raise refused(f'a range has no "{sign}"')
        found &= _SIGNS[sign](column, bound)
    return found


_SIGNS = {"lt": np.less, "lte": np.less_equal, "gt": np.greater, "gte": np.greater_equal}


def _combined(content: Mapping[str, Any], fields: Mapping[str, Any], where: str) -> Any:
    """Return the mask of a `bool` of filters."""
    size = len(next(iter(fields.values()))) if fields else 0
    found = np.ones(size, dtype=bool)
    for name, inner in content.items():
        masks = [matches(each, fields, where) for each in (inner if isinstance(inner, list) else [inner])]
        if name in ("filter", "must"):
            found &= np.logical_and.reduce(masks)
        elif name == "must_not":
            found &= ~np.logical_or.reduce(masks)
        elif name == "should":
            found &= np.logical_or.reduce(masks)
        else:
            raise TrackError(
                f'"bool" has no "{name}"', where=f'{where}: "filter"', hint="filter, must, must_not, should"
            )
    return found
