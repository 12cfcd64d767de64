"""The interface of generated fields, and rows: fields and constant text side by side."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

import numpy as np

from esbench.corpus.generate.columns import Matrix
from esbench.corpus.generate.hashing import U64
from esbench.corpus.generate.spec import SpecReader


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
        """Write the JSON of each document's value into its row of `out`, (documents, width)."""

    @abstractmethod
    def values(self, index: U64) -> list[Any]:
        """Return each document's value as `json.loads` would return it."""


class Compiler(Protocol):
    """The compiler of field specs, as a field's type sees it while it is compiled."""

    def key(self, path: str) -> np.uint64:
        """Return the key of the random stream of that name."""

    def field(self, spec: object, path: str) -> Field:
        """Compile a field below another one."""

    def fields(self, specs: Mapping[str, Any], path: str) -> dict[str, Field]:
        """Compile the fields of an object; hidden ones are left out."""

    def earlier(self, path: str, asker: SpecReader) -> Field:
        """Return a field that was compiled before; raises TrackError, at `asker`, if it was not."""


class Row:
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
