"""Fields made of other fields: objects, lists and mixtures."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from esbench.corpus.spec import SpecReader
from esbench.features.synthetic.generate.field import Field, FieldCompiler, FieldRow, Matrix, json_parts, object_parts
from esbench.features.synthetic.generate.hashing import U64, below, draw
from esbench.features.synthetic.generate.texts import weighted_ends


class ObjectField(Field):
    """An object of named fields."""

    plain = False

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._row = FieldRow(object_parts(compiler.fields(spec.take("fields"), path)))
        self.width = self._row.width

    def write(self, index: U64, out: Matrix) -> None:
        self._row.write(index, out)


class ListField(Field):
    """A list of `count` elements of another type; each position in the list has its own random stream."""

    plain = False

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        self._least, self._most = spec.span("count")
        element = spec.take("of")
        fields = [compiler.field(element, f"{path}/{place}") for place in range(self._most)]
        self._rows = [FieldRow([b"," if place else b"", *json_parts(field)]) for place, field in enumerate(fields)]
        self._key = compiler.key(f"{path}/count")
        self.width = 2 + sum(row.width for row in self._rows)

    def write(self, index: U64, out: Matrix) -> None:
        counts = below(draw(self._key, index), self._most - self._least + 1) + np.uint64(self._least)
        out[:, 0], out[:, -1] = ord("["), ord("]")
        start = 1
        for place, row in enumerate(self._rows):
            end = start + row.width
            element = out[:, start:end]
            row.write(index, element)
            if place >= self._least:
                element *= (counts > np.uint64(place))[:, None]
            start = end


class MixtureField(Field):
    """The value of one of several other types, by weight."""

    plain = False

    def __init__(self, spec: SpecReader, compiler: FieldCompiler, path: str) -> None:
        parts = spec.take("of")
        if not isinstance(parts, list) or not parts or not all(isinstance(part, Mapping) for part in parts):
            raise spec.error('"of" must be a list of types, each with a "weight"')
        self._ends = weighted_ends(spec, [(part.get("type"), part.get("weight")) for part in parts])
        fields = [
            compiler.field({key: part[key] for key in part if key != "weight"}, f"{path}/{place}")
            for place, part in enumerate(parts)
        ]
        self._rows = [FieldRow(json_parts(field)) for field in fields]
        self._key = compiler.key(path)
        self.width = max(row.width for row in self._rows)

    def write(self, index: U64, out: Matrix) -> None:
        out[:] = 0
        chosen = np.searchsorted(self._ends, draw(self._key, index), side="right")
        for number, row in enumerate(self._rows):
            places = np.flatnonzero(chosen == number)
            out[places, : row.width] = row.matrix(index[places])
