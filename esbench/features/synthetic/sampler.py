"""Draws of field values from indexed documents, for variables of type corpus-document."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from esbench.corpus.prepared import FileDocuments, PreparedDocuments
from esbench.errors import TrackError, did_you_mean
from esbench.features.synthetic.generate.generator import Generator
from esbench.features.synthetic.generate.hashing import I64, Permutation, Zipf, below, draw, stream_key, unit

_BLOCK = 256  # draws at once, while the event loop waits
_SAMPLE = 100_000  # documents of a file that are parsed before the clock

_Values = Callable[[Any], Sequence[tuple[Any, ...]]]  # of a block of indices


class DocumentSampler:
    """Field values of one indexed document per draw; an id and its routing value always match.

    fields: dotted names; "_id" and "_routing" are those of the action lines. pick, exponent: as of `picks`. indexed:
    documents 0 .. indexed - 1 exist. From corpus files at most 100,000 documents are used, the same for every seed.
    Raises TrackError for a field that one of these lacks, and if `indexed` is below 1.
    """

    def __init__(
        self,
        documents: PreparedDocuments,
        fields: Sequence[str],
        pick: str,
        exponent: float,
        seed: int,
        indexed: int,
    ) -> None:
        if indexed < 1:
            raise TrackError("there is no indexed document to draw", where=documents.where)
        made = _sample if documents.generate is None else _generated
        self._values, count = made(documents, fields, indexed)
        self._indices = picks(pick, count, exponent, seed)

    def blocks(self) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Yield blocks of draws without end; a draw holds one document's values of `fields`, in their order."""
        return map(self._values, self._indices)


def picks(pick: str, count: int, exponent: float, seed: int) -> Iterator[I64]:
    """Yield blocks of document indices in [0, count), without end, as a pure function of the seed.

    pick: the distribution. uniform: all with equal probability. zipf: popularity falls with rank ** -exponent; which
    documents are popular does not depend on the seed, so all workers ask for the same ones. recent: the same
    distribution, with the last document as the most likely.
    """
    key = stream_key(seed, "picks", pick)
    zipf = Zipf(count, exponent)
    popular = Permutation(count, stream_key("popular documents"))
    position = 0
    while True:
        bits = draw(key, np.arange(position, position + _BLOCK, dtype=np.uint64))
        position += _BLOCK
        if pick == "uniform":
            yield below(bits, count).view(np.int64)
            continue
        ranks = zipf.ranks(unit(bits))
        if pick == "recent":
            yield count - ranks
        else:
            yield popular.forward((ranks - 1).view(np.uint64)).view(np.int64)


def _generated(documents: PreparedDocuments, fields: Sequence[str], indexed: int) -> tuple[_Values, int]:
    assert documents.generate is not None
    generator = Generator(documents.generate, documents.where)
    generator.values(fields, [0])  # raises TrackError for an unknown field before the clock starts
    return lambda indices: generator.values(fields, indices), indexed


def _sample(documents: PreparedDocuments, fields: Sequence[str], indexed: int) -> tuple[_Values, int]:
    """Return (values by block of indices, count of documents) of a sample of the corpus files.

    The sample is the same for all seeds and workers, in the documents' order, file after file.
    """
    count = min(indexed, documents.count_of_all)
    chosen = sorted(random.Random(1).sample(range(count), min(count, _SAMPLE)))
    files = FileDocuments(documents)
    rows: list[tuple[Any, ...]] = []
    for number in chosen:
        document_id, routing, body = files.document(number)
        document = {**json.loads(body), "_id": document_id, "_routing": routing}
        rows.append(tuple(_field(document, name, documents.where) for name in fields))
    return lambda indices: [rows[index] for index in indices.tolist()], len(rows)


def _field(document: Mapping[str, Any], name: str, where: str) -> Any:
    value: Any = document.get(name)
    if value is None:
        value = document
        for part in name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
    if value is None:
        known = [key for key, found in document.items() if found is not None]
        raise TrackError(f'a document has no field "{name}"', where=where, hint=did_you_mean(name, known))
    return value
