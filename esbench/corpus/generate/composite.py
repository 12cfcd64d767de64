"""Fields made of other fields: objects, lists and mixtures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from esbench.corpus.generate.columns import Matrix
from esbench.corpus.generate.field import Compiler, Field, Row, json_parts, object_parts
from esbench.corpus.generate.hashing import U64, below, draw
from esbench.corpus.generate.spec import SpecReader
from esbench.corpus.generate.texts import weighted_ends


class ObjectField(Field):
    """An object of named fields."""

    plain = False

    def __init__(self, spec: SpecReader, compiler: Compiler, path: str) -> None:
        self._fields = compiler.fields(spec.take("fields"), path)
        self._row = Row(object_parts(self._fields))
        self.width = self._row.width

    def write(self, index: U64, out: Matrix) -> None:
        self._row.write(index, out)

    def values(self, index: U64) -> list[Any]:
        columns = [field.values(index) for field in self._fields.values()]
        if not columns:
            return [{} for _ in range(len(index))]
        return [dict(zip(self._fields, row, strict=True)) for row in zip(*columns, strict=True)]


class ListField(Field):
    """A list of `count` elements of another type; each position in the list has its own random stream."""

    plain = False

    def __init__(self, spec: SpecReader, compiler: Compiler, path: str) -> None:
        self._least, most = spec.span("count")
        element = spec.take("of")
        self._fields = [compiler.field(element, f"{path}/{place}") for place in range(most)]
        self._rows = [Row([b"," if place else b"", *json_parts(field)]) for place, field in enumerate(self._fields)]
        self._key = compiler.key(f"{path}/count")
        self.width = 2 + sum(row.width for row in self._rows)

    def _counts(self, index: U64) -> U64:
        size = len(self._fields) - self._least + 1
        return below(draw(self._key, index), size) + np.uint64(self._least)

    def write(self, index: U64, out: Matrix) -> None:
        counts = self._counts(index)
        out[:, 0], out[:, -1] = ord("["), ord("]")
        start = 1
        for place, row in enumerate(self._rows):
            end = start + row.width
            element = out[:, start:end]
            row.write(index, element)
            if place >= self._least:
                element *= (counts > np.uint64(place))[:, None]
            start = end

    def values(self, index: U64) -> list[Any]:
        columns = [field.values(index) for field in self._fields]
        counts = self._counts(index).tolist()
        return [[column[row] for column in columns[:count]] for row, count in enumerate(counts)]


class MixtureField(Field):
    """The value of one of several other types, by weight."""

    plain = False

    def __init__(self, spec: SpecReader, compiler: Compiler, path: str) -> None:
        parts = spec.take("of")
        if not isinstance(parts, list) or not parts or not all(isinstance(part, Mapping) for part in parts):
            raise spec.error('"of" must be a list of types, each with a "weight"')
        self._ends = weighted_ends(spec, [(part.get("type"), part.get("weight")) for part in parts])
        self._fields = [
            compiler.field({key: part[key] for key in part if key != "weight"}, f"{path}/{place}")
            for place, part in enumerate(parts)
        ]
        self._rows = [Row(json_parts(field)) for field in self._fields]
        self._key = compiler.key(path)
        self.width = max(row.width for row in self._rows)

    def _places(self, index: U64) -> list[Any]:
        """Return, for each of the types, the positions in `index` of the documents whose value is of that type."""
        chosen = np.searchsorted(self._ends, draw(self._key, index), side="right")
        return [np.flatnonzero(chosen == place) for place in range(len(self._fields))]

    def write(self, index: U64, out: Matrix) -> None:
        out[:] = 0
        for row, places in zip(self._rows, self._places(index), strict=True):
            out[places, : row.width] = row.matrix(index[places])

    def values(self, index: U64) -> list[Any]:
        values: list[Any] = [None] * len(index)
        for field, places in zip(self._fields, self._places(index), strict=True):
            for place, value in zip(places.tolist(), field.values(index[places]), strict=True):
                values[place] = value
        return values
