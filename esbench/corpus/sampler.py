"""Draws of field values from indexed documents, for variables of type corpus-document."""

from __future__ import annotations

import json
import random
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from esbench.corpus.prepared import GROUP, DocumentFile, PreparedDocuments
from esbench.errors import TrackError, did_you_mean

_BLOCK = 256  # draws at once, while the event loop waits
_SAMPLE = 100_000  # documents of a file that are parsed before the clock


class DocumentSampler:
    """Field values of one indexed document per draw; an id and its routing value always match.

    fields: dotted names; "_id" and "_routing" are those of the action lines. pick: uniform, zipf or recent
    (the latter two with params["exponent"], 1.0 by default). indexed: documents 0 .. indexed - 1 exist. From corpus
    files at most 100,000 documents are used, the same for every seed. numpy is imported when the first sampler is made.
    """

    def __init__(
        self,
        documents: PreparedDocuments,
        fields: Sequence[str],
        pick: str,
        params: Mapping[str, Any],
        seed: int,
        indexed: int,
    ) -> None:
        from esbench.corpus.generate.picks import PICKS, picks

        where = documents.where
        if pick not in PICKS:
            raise TrackError(f'unknown pick "{pick}"', where=where, hint=did_you_mean(pick, PICKS))
        if indexed < 1:
            raise TrackError("there is no indexed document to draw", where=where)
        exponent = params.get("exponent", 1.0)
        if isinstance(exponent, bool) or not isinstance(exponent, int | float) or not 0 <= exponent <= 10:
            raise TrackError(f'"exponent" must be a number from 0 to 10, not {exponent!r}', where=where)
        self._values, count = (
            _sample(documents, fields, indexed)
            if documents.generate is None
            else _generated(documents, fields, indexed)
        )
        self._indices = picks(pick, count, float(exponent), seed, _BLOCK)

    def blocks(self) -> Iterator[Sequence[tuple[Any, ...]]]:
        """Yield blocks of draws without end; a draw holds one document's values of `fields`, in their order."""
        return map(self._values, self._indices)


_Values = Callable[[Any], Sequence[tuple[Any, ...]]]  # of a block of indices


def _generated(documents: PreparedDocuments, fields: Sequence[str], indexed: int) -> tuple[_Values, int]:
    from esbench.corpus.generate.generator import Generator

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
    rows: list[tuple[Any, ...]] = []
    first = 0
    for part in documents.files:
        last = first + part.document_count
        mine = chosen[bisect_left(chosen, first) : bisect_left(chosen, last)]
        rows += _rows(part, fields, [index - first for index in mine])
        first = last
    return lambda indices: [rows[index] for index in indices.tolist()], len(rows)


def _rows(documents: PreparedDocuments, fields: Sequence[str], chosen: Sequence[int]) -> Iterator[tuple[Any, ...]]:
    """Yield the values of `fields` in each of the chosen documents of one file."""
    file = DocumentFile(documents)
    group, lines = -1, []
    for index in chosen:
        if index // GROUP != group:
            group = index // GROUP
            lines = file.group(group)
        within = 2 * (index % GROUP)
        document = json.loads(lines[within + 1])
        (keys,) = json.loads(lines[within]).values()
        keys = {"_id": keys.get("_id"), "_routing": keys.get("routing", keys.get("_routing"))}
        yield tuple(_field({**document, **keys}, name, documents.where) for name in fields)


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
