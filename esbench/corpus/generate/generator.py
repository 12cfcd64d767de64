"""The generator of a corpus: from a track's `generate` mapping to documents, ids and values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from esbench.corpus.generate.columns import row_texts, squeeze
from esbench.corpus.generate.composite import ListField, MixtureField, ObjectField
from esbench.corpus.generate.field import Field, Row, object_parts
from esbench.corpus.generate.hashing import U64, stream_key
from esbench.corpus.generate.numbers import DecimalField, LognormalField, RangeField, SequenceField, ZipfField
from esbench.corpus.generate.spec import SpecReader, plain_spec, spec_digest
from esbench.corpus.generate.texts import ChoiceField, ConstantField, PermutedField, PrefixField, WordsField
from esbench.corpus.generate.times import TimestampField
from esbench.errors import TrackError, did_you_mean

TYPES: Mapping[str, Callable[[SpecReader, Any, str], Field]] = {
    "choice": ChoiceField,
    "constant": ConstantField,
    "decimal": DecimalField,
    "list": ListField,
    "lognormal": LognormalField,
    "mixture": MixtureField,
    "object": ObjectField,
    "permuted": PermutedField,
    "prefix": PrefixField,
    "range": RangeField,
    "sequence": SequenceField,
    "timestamp": TimestampField,
    "words": WordsField,
    "zipf": ZipfField,
}
ID, ROUTING = "_id", "_routing"


class _FieldCompiler:
    """The compiler of field specs; it keeps compiled fields by path, for fields that refer to others."""

    def __init__(self, seed: int, where: str) -> None:
        self._seed = seed
        self._where = where
        self.compiled: dict[str, Field] = {}

    def key(self, path: str) -> np.uint64:
        return stream_key(self._seed, path)

    def field(self, spec: object, path: str) -> Field:
        reader = SpecReader(spec, self._at(path))
        kind = reader.text("type")
        reader.flag("hidden", False)
        if kind not in TYPES:
            raise reader.error(f'unknown type "{kind}"', hint=did_you_mean(kind, TYPES))
        field = TYPES[kind](reader, self, path)
        reader.finish()
        self.compiled[path] = field
        return field

    def fields(self, specs: object, path: str) -> dict[str, Field]:
        if not isinstance(specs, Mapping) or not specs:
            raise TrackError('"fields" must map names to types', where=self._at(path))
        visible = {}
        for name, spec in specs.items():
            field = self.field(spec, f"{path}.{name}" if path else str(name))
            if not spec.get("hidden", False):
                visible[str(name)] = field
        return visible

    def earlier(self, path: str, asker: SpecReader) -> Field:
        if path not in self.compiled:
            raise asker.error(f'there is no field "{path}" above it', hint=did_you_mean(path, self.compiled))
        return self.compiled[path]

    def _at(self, path: str) -> str:
        field = f'field "{path}"' if path else "generate"
        return f"{self._where}: {field}" if self._where else field


class Generator:
    """The documents of one `generate` mapping; the i-th is a pure function of (seed, i).

    size: the largest number of documents (None: no limit). where: the start of error messages.
    """

    def __init__(self, spec: Mapping[str, Any], where: str = "") -> None:
        spec = plain_spec(spec)
        reader = SpecReader(spec, f"{where}: generate" if where else "generate")
        seed = reader.integer("seed", 1)
        names = {ID: reader.take("id", None), ROUTING: reader.take("routing", None)}
        compiler = _FieldCompiler(seed, where)
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
        self.digest = spec_digest(spec)

    def _key_field(self, name: str, path: object, reader: SpecReader) -> Field:
        field = self._fields.get(str(path))
        key = name.removeprefix("_")
        if field is None:
            raise reader.error(f'"{key}" names no field: {path!r}', hint=did_you_mean(str(path), self._fields))
        if not field.plain:
            raise reader.error(f'"{path}" cannot be the {key}', hint="its text may need escapes")
        return field

    def documents(self, first: int, count: int) -> list[bytes]:
        """Return the JSON of documents first .. first + count - 1, in UTF-8, without line ends."""
        return self._lines([*self._document, b"\n"], self._range(first, count))

    def actions(self, first: int, count: int, action: str = "index") -> list[bytes]:
        """Return the action lines of documents first .. first + count - 1, without line ends.

        They hold id and routing as far as the spec has them.
        """
        return self._lines(self._action(action), self._range(first, count))

    def bulk_groups(self, first: int, count: int, group: int, action: str = "index") -> list[bytes]:
        """Return the bulk lines, an action line and a document in turn, of each `group` of documents.

        The documents are first .. first + count - 1; the last group may be smaller.
        """
        matrix = Row([*self._action(action), *self._document, b"\n"]).matrix(self._range(first, count))
        return [squeeze(matrix[start : start + group]) for start in range(0, count, group)]

    def keyed_lines(self, first: int, count: int, step: int = 1) -> bytes:
        """Return lines of id, tab, routing, tab, JSON, for `count` documents first, first + step ...

        Id and routing are empty if the spec has none.
        """
        parts: list[bytes | Field] = []
        for name in (ID, ROUTING):
            parts += [self._keys[name], b"\t"] if name in self._keys else [b"\t"]
        row = Row([*parts, *self._document, b"\n"])
        return squeeze(row.matrix(self._range(first, count, step)))

    def values(self, fields: Sequence[str], indices: U64 | Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the values of those fields in each of the documents `indices`, as json.loads would return them.

        Fields of objects have dotted names; "_id" and "_routing" are those of the action lines, as text.
        """
        index = self._checked(np.asarray(indices, dtype=np.uint64))
        return list(zip(*(self._values(name, index) for name in fields), strict=True))

    def index_of(self, field: str, value: str) -> int:
        """Return the index of the document with this value in a permuted field.

        Raises ValueError for a value that no document has, TrackError if the field is not permuted.
        """
        found = self._keys.get(field) or self._fields.get(field)
        if not isinstance(found, PermutedField):
            raise TrackError(f'"{field}" is not a permuted field', where=self._where)
        return found.index_of(value)

    def _values(self, name: str, index: U64) -> list[Any]:
        if name in self._keys:
            field = self._keys[name]
            return row_texts(Row([field]).matrix(index)) if not field.quoted else field.values(index)
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

    def _lines(self, parts: list[bytes | Field], index: U64) -> list[bytes]:
        return squeeze(Row(parts).matrix(index)).splitlines()

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
