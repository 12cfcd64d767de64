"""Draws of existing documents for requests: blocks of their indices, as a pure function of the seed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from esbench.corpus.generate.hashing import I64, Permutation, Zipf, below, draw, stream_key, unit

PICKS = ("uniform", "zipf", "recent")


def picks(pick: str, count: int, exponent: float, seed: int, block: int) -> Iterator[I64]:
    """Yield blocks of `block` document indices in [0, count), without end, drawn by the distribution `pick`.

    uniform: all with equal probability. zipf: popularity falls with rank ** -exponent; which documents are popular does
    not depend on the seed, so all workers ask for the same ones. recent: the same distribution, with the last document
    as the most likely.
    """
    key = stream_key(seed, "picks", pick)
    zipf = Zipf(count, exponent)
    popular = Permutation(count, stream_key("popular documents"))
    position = 0
    while True:
        bits = draw(key, np.arange(position, position + block, dtype=np.uint64))
        position += block
        if pick == "uniform":
            yield below(bits, count).view(np.int64)
            continue
        ranks = zipf.ranks(unit(bits))
        if pick == "recent":
            yield count - ranks
        else:
            yield popular.forward((ranks - 1).view(np.uint64)).view(np.int64)
