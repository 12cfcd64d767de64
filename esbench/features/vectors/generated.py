"""Generated vectors: a mixture of clusters, a function of the seed.

Uniform noise has no neighbourhoods: in many dimensions all of it is equally far. The centres of clusters are drawn from
a normal distribution in a subspace of few dimensions; vectors scatter around their centre, and so do queries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from esbench.corpus.spec import SpecReader
from esbench.features.vectors.files import BLOCK

ALGORITHM = 1  # raised whenever the same spec would give other vectors
LABELS = 1000  # "label" is a whole number below it, each as often as the others: a range of it has any selectivity
ELEMENTS = ("float", "byte", "bit")
_OF_ROWS, _OF_QUERIES = 1, 2  # streams of the seed


@dataclass(frozen=True)
class Generated:
    """The spec of generated vectors. `spread`: the deviation within a cluster, with 1 between their centres. `rank`:
    the dimensions of the subspace of the centres. `element` is that of Elasticsearch; bits are packed into bytes."""

    count: int
    queries: int
    dimensions: int
    clusters: int
    spread: float
    rank: int
    element: str
    seed: int

    @classmethod
    def of(cls, spec: Mapping[str, Any], where: str) -> Generated:
        """Return the spec of a track's `generate`. Raises TrackError for a wrong one."""
        reader = SpecReader(spec, f"{where}: generate")
        dimensions = reader.integer("dimensions", minimum=1)
        made = cls(
            count=reader.integer("count", minimum=1),
            queries=reader.integer("queries", 1000, minimum=1),
            dimensions=dimensions,
            clusters=reader.integer("clusters", 200, minimum=1),
            spread=reader.number("spread", 0.5, minimum=0),
            rank=min(dimensions, reader.integer("rank", 24, minimum=1)),
            element=reader.text("element", "float"),
            seed=reader.integer("seed", 1, minimum=0),
        )
        reader.finish()
        if made.element not in ELEMENTS:
            raise reader.error(f'"element" cannot be "{made.element}"', f"one of {', '.join(ELEMENTS)}")
        if made.element == "bit" and dimensions % 8:
            raise reader.error(f'"dimensions" of bits must be a multiple of 8, not {dimensions}')
        return made

    def rows(self) -> Iterator[Any]:
        """Yield the vectors, a block of rows at a time: float32 of length 1, int8, or int8 of eight bits each."""
        yield from self._drawn(_OF_ROWS, self.count)

    def query_rows(self) -> Any:
        """Return the queries, an array of rows as those of documents."""
        return np.concatenate(list(self._drawn(_OF_QUERIES, self.queries)))

    def labels(self) -> Any:
        """Return the label of each vector, drawn apart from it: a filter by labels cuts through all clusters."""
        return np.random.default_rng([ALGORITHM, self.seed, 3]).integers(0, LABELS, self.count, dtype=np.int32)

    def _drawn(self, stream: int, count: int) -> Iterator[Any]:
        draw = np.random.default_rng([ALGORITHM, self.seed, 0])
        basis = draw.standard_normal((self.rank, self.dimensions), dtype=np.float32) / np.float32(self.rank**0.5)
        centres = draw.standard_normal((self.clusters, self.rank), dtype=np.float32) @ basis
        for number, first in enumerate(range(0, count, BLOCK)):
            size = min(BLOCK, count - first)
            own = np.random.default_rng([ALGORITHM, self.seed, stream, number])
            near = centres[own.integers(0, self.clusters, size)]
            inner = own.standard_normal((size, self.rank), dtype=np.float32) @ basis
            noise = own.standard_normal((size, self.dimensions), dtype=np.float32)
            yield self._as_element(near + np.float32(self.spread) * (inner + np.float32(0.3) * noise))

    def _as_element(self, rows: Any) -> Any:
        if self.element == "bit":
            return np.packbits(rows > 0, axis=1).view(np.int8)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
        if self.element == "byte":
            scaled = rows * (127 * self.dimensions**0.5 / 4)
            return np.clip(np.rint(scaled), -127, 127).astype(np.int8)
        return np.round(rows, 5).astype(np.float32)
