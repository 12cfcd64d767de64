"""Faults of vectors: what makes the answers of a data set, or its speed, say less than they seem to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from esbench.features.vectors.truth import as_compared

_CONSTANT = 0.01  # of the median deviation of dimensions
_LENGTH_ERROR = 1e-4  # of the square of a length 1: what Elasticsearch takes for normalised
_FEWEST, _SAMPLED, _ASKED = 100, 2000, 200  # documents, at least and at most, and queries, for distances
_FAR, _MANY_FAR = 0.99, 0.10  # quantile of the distances of documents, share of queries beyond it
_MOST_NAMED = 5


def faults(blocks: Iterable[Any], queries: Any, metric: str) -> list[str]:
    """Return a line for each fault of documents, arrays of rows, and of their queries, as a metric sees them."""
    seen = _Seen(metric)
    for rows in blocks:
        seen.add(rows)
    return list(seen.faults(queries)) if seen.count else []


class _Seen:
    """Sums over the vectors of a data set; its memory grows by eight bytes a vector."""

    def __init__(self, metric: str) -> None:
        self._metric = metric
        self._hashes: list[Any] = []
        self._sample: list[Any] = []
        self._stride = 1
        self._sum: Any = 0.0
        self._squares: Any = 0.0
        self._zeros = self._not_unit = 0
        self.count = 0

    def add(self, rows: Any) -> None:
        """Count a block of rows."""
        self._hashes.append(np.fromiter((hash(row.tobytes()) for row in rows), np.int64, len(rows)))
        wide = np.asarray(as_compared(rows, self._metric), np.float64)
        self._sum = self._sum + wide.sum(axis=0)
        self._squares = self._squares + (wide**2).sum(axis=0)
        self._zeros += int((~rows.any(axis=1)).sum())
        self._not_unit += _not_unit(rows)
        self._sample += [rows[place] for place in range(-self.count % self._stride, len(rows), self._stride)]
        self.count += len(rows)
        while len(self._sample) > _SAMPLED:
            self._sample, self._stride = self._sample[::2], 2 * self._stride

    def faults(self, queries: Any) -> Iterator[str]:
        """Yield a line for each fault."""
        if copies := self.count - len(np.unique(np.concatenate(self._hashes))):
            yield f"duplicates: {copies:,} of {self.count:,} vectors are copies of others, and equally near"
        deviations = np.sqrt(np.maximum(self._squares / self.count - (self._sum / self.count) ** 2, 0))
        constant = np.flatnonzero(deviations <= _CONSTANT * np.median(deviations))
        if len(constant) and self.count > 1:
            named = ", ".join(map(str, constant[:_MOST_NAMED])) + (", ..." if len(constant) > _MOST_NAMED else "")
            yield f"near-constant dimensions: {len(constant)} of {len(deviations)} ({named}) tell vectors hardly apart"
        if self._zeros and self._metric == "cosine":
            yield f"zero vectors: {self._zeros:,} of {self.count:,} have no direction, which the cosine needs"
        if self._metric == "dot_product":
            for number, of, what in (
                (self._not_unit, self.count, "vectors"),
                (_not_unit(queries), len(queries), "queries"),
            ):
                if number:
                    yield f"not normalised: {number:,} of {of:,} {what} do not have the length 1 of a dot_product"
        yield from self._outside(queries)

    def _outside(self, queries: Any) -> Iterator[str]:
        """Yield a line if many queries are farther from a sample of the documents than the documents of it are from
        one another."""
        documents = np.unique(as_compared(np.stack(self._sample), self._metric), axis=0)
        places = np.linspace(0, len(queries) - 1, min(_ASKED, len(queries)), dtype=int)
        asked = as_compared(queries[places], self._metric)
        if len(documents) < _FEWEST or asked.shape[1] != documents.shape[1]:
            return
        among = _squared_distances(documents, documents)
        np.fill_diagonal(among, np.inf)
        far = np.quantile(among.min(axis=1), _FAR)
        outside = int((_squared_distances(asked, documents).min(axis=1) > far).sum())
        if outside > _MANY_FAR * len(asked):
            yield (
                f"queries outside of the documents: {outside} of {len(asked)} are farther from a sample of "
                f"{len(documents):,} documents than {_FAR:.0%} of these are from one another"
            )


def _not_unit(rows: Any) -> int:
    """Return the number of rows of float whose length is not 1; whole numbers need none."""
    if np.issubdtype(rows.dtype, np.integer):
        return 0
    squares = np.einsum("ij,ij->i", rows, rows, dtype=np.float64)
    return int((np.abs(squares - 1) > _LENGTH_ERROR).sum())


def _squared_distances(one: Any, other: Any) -> Any:
    squares = [np.einsum("ij,ij->i", rows, rows) for rows in (one, other)]
    return squares[0][:, None] + squares[1][None, :] - 2 * (one @ other.T)
