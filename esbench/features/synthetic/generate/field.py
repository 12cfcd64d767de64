"""The interface of generated fields, the compiler of their specs, and rows: fields and constant text side by side.

Text is made in columns: a block of documents is one matrix of bytes, one row per document, padded with NULs. JSON
never holds a NUL byte, so NULs may stand anywhere: `squeeze` drops them all in one pass. That is what makes it fast: no
object per document or value exists.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from esbench.corpus.spec import SpecReader
from esbench.errors import TrackError, did_you_mean
from esbench.features.synthetic.generate.hashing import U64, stream_key

Matrix = NDArray[np.uint8]


def _four_digits() -> NDArray[np.uint32]:
    numbers = np.arange(10_000)
    digits = np.stack([numbers // 1000, numbers // 100 % 10, numbers // 10 % 10, numbers % 10], axis=1)
    return (digits + ord("0")).astype(np.uint8).view(np.uint32).ravel()


_FOUR_DIGITS = _four_digits()
_TEN_THOUSAND = np.uint64(10_000)


def squeeze(matrix: Matrix) -> bytes:
    """Return the rows one after another, without their NULs."""
    return matrix.tobytes().translate(None, b"\0")


def table(texts: Sequence[bytes]) -> Matrix:
    """Return the texts as rows of one matrix, as wide as the longest, padded with NULs."""
    width = max(1, *(len(text) for text in texts))
    return np.array(list(texts), dtype=f"S{width}").view(np.uint8).reshape(len(texts), width)


def write_digits(numbers: U64, out: Matrix, least: int = 1) -> None:
    """Write each number's decimal digits into its row of `out`, right-aligned; digits beyond its width are lost.

    Leading zeros stay up to `least` digits; others become NULs.
    """
    rows, width = out.shape
    groups = -(-width // 4)
    block = np.empty((rows, groups), np.uint32)
    rest = numbers
    for group in range(groups - 1, -1, -1):
        quotient = rest // _TEN_THOUSAND
        block[:, group] = _FOUR_DIGITS[rest - quotient * _TEN_THOUSAND]
        rest = quotient
    text = block.view(np.uint8)[:, groups * 4 - width :]
    if (ragged := width - least) > 0:
        powers = np.array([10**power for power in range(width - 1, least - 1, -1)], np.uint64)
        text[:, :ragged] *= numbers[:, None] >= powers
    out[:] = text


class Field(ABC):
    """Values as a pure function of the documents' indices, as JSON text and as Python values.

    width: the most bytes that its JSON takes, quotes left out. quoted: its JSON is a string, whose quotes
    `write` leaves out. plain: that text needs no escape, so it can be an id. size: how many documents it has
    values for (None: any number).
    """

    width: int
    quoted: bool = False
    plain: bool = True
    size: int | None = None

    @abstractmethod
    def write(self, index: U64, out: Matrix) -> None:
        """Write the JSON of each document's value into its row of `out`, (documents, width).

        If `quoted`, without the quotes. Bytes that the text does not need become NULs, at any place.
        """

    def values(self, index: U64) -> list[Any]:
        """Return each document's value as `json.loads` returns it."""
        elements = squeeze(FieldRow([*json_parts(self), b","]).matrix(index))
        values: list[Any] = json.loads(b"[%b]" % elements[:-1])
        return values


FieldType = Callable[[SpecReader, "FieldCompiler", str], Field]  # from spec, compiler and dotted path


class FieldCompiler:
    """The compiler of field specs: each is made by the one of `types` that it names.

    seed: of all random streams. where: the start of error messages. compiled: the fields by dotted path, hidden ones
    too, for those that refer to others.
    """

    def __init__(self, types: Mapping[str, FieldType], seed: int, where: str) -> None:
        self._types = types
        self._seed = seed
        self._where = where
        self.compiled: dict[str, Field] = {}

    def key(self, path: str) -> np.uint64:
        """Return the key of the random stream of that name, such as a field's path."""
        return stream_key(self._seed, path)

    def field(self, spec: object, path: str) -> Field:
        """Compile the field at that dotted path, and add it to `compiled`.

        Raises TrackError for an unknown type, and for keys that the type lacks or values that it cannot have.
        """
        reader = SpecReader(spec, self._at(path))
        kind = reader.text("type")
        reader.flag("hidden", False)
        if kind not in self._types:
            raise reader.error(f'unknown type "{kind}"', hint=did_you_mean(kind, self._types))
        field = self._types[kind](reader, self, path)
        reader.finish()
        self.compiled[path] = field
        return field

    def fields(self, specs: object, path: str) -> dict[str, Field]:
        """Compile the fields of an object, by name; returns those that are not hidden.

        path: that of the object, "" for the document. Raises TrackError for no mapping or an empty one, and as `field`.
        """
        if not isinstance(specs, Mapping) or not specs:
            raise TrackError('"fields" must map names to types', where=self._at(path))
        visible = {}
        for name, spec in specs.items():
            field = self.field(spec, f"{path}.{name}" if path else str(name))
            if not spec.get("hidden", False):
                visible[str(name)] = field
        return visible

    def earlier(self, path: str, asker: SpecReader) -> Field:
        """Return a field that was compiled before; raises TrackError, at `asker`, if it was not."""
        if path not in self.compiled:
            raise asker.error(f'there is no field "{path}" above it', hint=did_you_mean(path, self.compiled))
        return self.compiled[path]

    def _at(self, path: str) -> str:
        field = f'field "{path}"' if path else "generate"
        return f"{self._where}: {field}" if self._where else field


class FieldRow:
    """Constant bytes and fields, one after another; the rows of a block of documents are written into one matrix."""

    def __init__(self, parts: Iterable[bytes | Field]) -> None:
        template = bytearray()
        self._fields: list[tuple[int, int, Field]] = []
        for part in parts:
            if isinstance(part, bytes):
                template += part
            else:
                self._fields.append((len(template), len(template) + part.width, part))
                template += bytes(part.width)
        self.width = len(template)
        self._template = np.frombuffer(bytes(template), np.uint8)

    def write(self, index: U64, out: Matrix) -> None:
        """Write the rows of those documents into `out`, (documents, width)."""
        out[:] = self._template
        for start, end, field in self._fields:
            field.write(index, out[:, start:end])

    def matrix(self, index: U64) -> Matrix:
        """Return a new matrix with the rows of those documents."""
        out = np.empty((len(index), self.width), np.uint8)
        self.write(index, out)
        return out


def json_parts(field: Field) -> list[bytes | Field]:
    """Return the parts of a field's whole JSON, quotes included."""
    return [b'"', field, b'"'] if field.quoted else [field]


def object_parts(fields: Mapping[str, Field]) -> list[bytes | Field]:
    """Return the parts of the JSON of an object of those fields."""
    parts: list[bytes | Field] = [b"{"]
    for name, field in fields.items():
        comma = b"," if len(parts) > 1 else b""
        parts.append(comma + json_text(name) + b":")
        parts.extend(json_parts(field))
    return [*parts, b"}"]


def json_text(value: object) -> bytes:
    """Return a value as compact JSON, in UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
