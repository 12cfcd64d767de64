"""The generator of a corpus: from a track's `generate` mapping to documents, ids and values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from esbench.corpus.spec import SpecReader, plain_spec
from esbench.errors import TrackError, did_you_mean
from esbench.features.synthetic.generate import composite, numbers, texts, times
from esbench.features.synthetic.generate.field import Field, FieldCompiler, FieldRow, FieldType, object_parts, squeeze
from esbench.features.synthetic.generate.hashing import U64

TYPES: Mapping[str, FieldType] = {
    "choice": texts.ChoiceField,
    "constant": texts.ConstantField,
    "decimal": numbers.DecimalField,
    "list": composite.ListField,
    "lognormal": numbers.LognormalField,
    "mixture": composite.MixtureField,
    "object": composite.ObjectField,
    "permuted": texts.PermutedField,
    "prefix": texts.PrefixField,
    "range": numbers.RangeField,
    "sequence": numbers.SequenceField,
    "timestamp": times.TimestampField,
    "words": texts.WordsField,
    "zipf": numbers.ZipfField,
}
ID, ROUTING = "_id", "_routing"


class Generator:
    """The documents of one `generate` mapping; the i-th is a pure function of (seed, i).

    size: the largest number of documents (None: no limit). where: the start of error messages. Raises TrackError for an
    invalid mapping.
    """

    def __init__(self, spec: Mapping[str, Any], where: str = "") -> None:
        reader = SpecReader(plain_spec(spec), f"{where}: generate" if where else "generate")
        seed = reader.integer("seed", 1)
        names = {ID: reader.take("id", None), ROUTING: reader.take("routing", None)}
        compiler = FieldCompiler(TYPES, seed, where)
        visible = compiler.fields(reader.take("fields"), "")
        reader.finish()
        self._fields = compiler.compiled
        self._where = reader.where
        self._keys: dict[str, Field] = {}
        for name, path in names.items():
            if path is not None:
                self._keys[name] = self._key_field(name, path, reader)
        sizes = [field.size for field in self._fields.values() if field.size is not None]
        self.size = min(sizes, default=None)
        self._document = object_parts(visible)

    def _key_field(self, name: str, path: object, reader: SpecReader) -> Field:
        field = self._fields.get(str(path))
        key = name.removeprefix("_")
        if field is None:
            raise reader.error(f'"{key}" names no field: {path!r}', hint=did_you_mean(str(path), self._fields))
        if not field.plain:
            raise reader.error(f'"{path}" cannot be the {key}', hint="its text may need escapes")
        return field

    def bulk_groups(self, first: int, count: int, group: int, action: str = "index") -> list[bytes]:
        """Return the bulk lines, an action line and a document in turn, of each `group` of documents.

        The documents are first .. first + count - 1; the last group may be smaller. Raises TrackError beyond `size`.
        """
        matrix = FieldRow([*self._action(action), *self._document, b"\n"]).matrix(self._range(first, count))
        return [squeeze(matrix[start : start + group]) for start in range(0, count, group)]

    def keyed_lines(self, first: int, count: int, step: int = 1) -> bytes:
        """Return lines of id, tab, routing, tab, JSON, for `count` documents first, first + step ...

        Id and routing are empty if the spec has none. Raises TrackError beyond `size`.
        """
        parts: list[bytes | Field] = []
        for name in (ID, ROUTING):
            parts += [self._keys[name], b"\t"] if name in self._keys else [b"\t"]
        row = FieldRow([*parts, *self._document, b"\n"])
        return squeeze(row.matrix(self._range(first, count, step)))

    def values(self, fields: Sequence[str], indices: U64 | Sequence[int]) -> list[tuple[Any, ...]]:
        """Return a tuple for each of the documents `indices`: its values of those fields, as json.loads returns them.

        Fields of objects have dotted names; "_id" and "_routing" are those of the action lines, as text; hidden fields
        are known. Raises TrackError for an unknown field, and beyond `size`.
        """
        index = self._checked(np.asarray(indices, dtype=np.uint64))
        return list(zip(*(self._values(name, index) for name in fields), strict=True))

    def _values(self, name: str, index: U64) -> list[Any]:
        if name in self._keys:
            lines = squeeze(FieldRow([self._keys[name], b"\n"]).matrix(index)).splitlines()
            return [line.decode() for line in lines]
        if name not in self._fields:
            raise TrackError(
                f'no field "{name}"', where=self._where, hint=did_you_mean(name, [*self._fields, *self._keys])
            )
        return self._fields[name].values(index)

    def _action(self, action: str) -> list[bytes | Field]:
        parts: list[bytes | Field] = [b'{"%b":{' % action.encode()]
        for name, key in ((ID, b'"_id":"'), (ROUTING, b'"routing":"')):
            if name in self._keys:
                parts += [b"," if len(parts) > 1 else b"", key, self._keys[name], b'"']
        return [*parts, b"}}\n"]

    def _range(self, first: int, count: int, step: int = 1) -> U64:
        index = np.arange(count, dtype=np.uint64)
        index *= np.uint64(step)
        index += np.uint64(first)
        return self._checked(index)

    def _checked(self, index: U64) -> U64:
        if self.size is not None and len(index) and int(index.max()) >= self.size:
            raise TrackError(
                f"there are only {self.size:,} documents, not {int(index.max()) + 1:,}",
                where=self._where,
                hint="give the permuted field a longer pattern",
            )
        return index
