"""Document files as rows of SQL, written once: a bulk is one INSERT whose rows are a slice of such a file.

A row is `(` and a line feed, the values, and `),` and a line feed: two lines a document, as in the file it is made of,
so that both are read by the same code. `NAME.sql` lies beside `NAME.bulk`, with its own index of offsets.
"""

from __future__ import annotations

import json
import math
import re
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from esbench.corpus.cache import writing
from esbench.corpus.prepared import GROUP, DocumentFile, PreparedDocuments
from esbench.errors import CorpusError

_ESCAPED = str.maketrans({"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\0": "\\0", "\x1a": "\\Z"})
_UTC = re.compile(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)(?:Z|\+00:?00)", re.ASCII)
_HALF_A_CHARACTER = re.compile("[\ud800-\udfff]")
_NO_NUMBER = "a number that SQL and JSON do not have (NaN or Infinity)"
END = 2  # bytes behind the last row of a slice: a comma and a line feed


@dataclass(frozen=True)
class RowDocuments(PreparedDocuments):
    """Prepared documents whose file to send has rows of SQL."""

    @classmethod
    def of(cls, documents: PreparedDocuments) -> RowDocuments:
        return cls(**{each.name: getattr(documents, each.name) for each in fields(PreparedDocuments)})

    @property
    def offsets_path(self) -> Path:
        return self.path.with_suffix(".sql-offsets")

    @property
    def file(self) -> Path:
        return self.path.with_suffix(".sql")


def columns_of(documents: PreparedDocuments) -> tuple[str, ...]:
    """Return the columns that the rows of a file have: the fields of its first document, in their order."""
    if not documents.document_count:
        return ()
    first = json.loads(DocumentFile(documents).group(0)[1])
    return tuple(first)


def prepare_rows(documents: Sequence[PreparedDocuments], progress: Callable[[str, int, int | None], None]) -> None:
    """Write the rows of files that have none yet. `progress` is given what is done, and of how many documents.

    Raises CorpusError for documents that come with action lines, for a field that the first document of its
    file has not, and if the cache cannot be written.
    """
    for each in documents:
        rows = RowDocuments.of(each)
        if not each.document_count or (rows.file.is_file() and rows.offsets_path.is_file()):
            continue
        if each.has_own_actions:
            what = "documents with action lines of their own cannot be rows of a table"
            raise CorpusError(what, where=each.where, hint="give a file of documents alone")
        offsets = array("Q", [0])
        with writing(rows.file, each.where) as out:
            columns = columns_of(each)
            for group in _groups(each):
                offsets.append(offsets[-1] + out.write(b"".join(_row(body, columns, each) for body in group)))
                done = min(each.document_count, GROUP * (len(offsets) - 1))
                progress(f"writing rows of {each.corpus}", done, each.document_count)
        with writing(rows.offsets_path, each.where) as out:
            offsets.tofile(out)


def _groups(documents: PreparedDocuments) -> Iterator[list[bytes]]:
    file = DocumentFile(documents)
    for number in range(-(-documents.document_count // GROUP)):
        yield file.group(number)[1::2]


def _row(body: bytes, columns: Sequence[str], documents: PreparedDocuments) -> bytes:
    document = json.loads(body)
    if more := [name for name in document if name not in columns]:
        begin = body[:100].decode(errors="replace")
        what = f'a document has the field "{more[0]}", which the first one of its file has not: {begin}'
        raise CorpusError(what, where=documents.where, hint="columns are the fields of the first document")
    try:
        values = ",".join(literal(document[name]) if name in document else "DEFAULT" for name in columns)
    except ValueError as error:
        begin = body[:100].decode(errors="replace")
        raise CorpusError(f"a document has {error}: {begin}", where=documents.where) from None
    return f"(\n{values}),\n".encode()


def literal(value: Any) -> str:
    """Return a value of a document as SQL writes it, as `parameter` says."""
    value = parameter(value)
    if value is None:
        return "NULL"
    return f"'{value.translate(_ESCAPED)}'" if isinstance(value, str) else repr(value)


def parameter(value: Any) -> Any:
    """Return a value of a document as a parameter of a prepared statement.

    Objects and lists are their JSON, true and false 1 and 0; a time of ISO 8601 in UTC is as a DATETIME takes it.

    Raises ValueError for NaN and infinite numbers.
    """
    if isinstance(value, dict | list):
        try:
            return whole_text(json.dumps(value, ensure_ascii=False, allow_nan=False))
        except ValueError:
            raise ValueError(_NO_NUMBER) from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(_NO_NUMBER)
    if isinstance(value, str):
        match = _UTC.fullmatch(value)
        return f"{match[1]} {match[2]}" if match else whole_text(value)
    return int(value) if isinstance(value, bool) else value


def whole_text(text: str) -> str:
    """Return a text with `?` for each half of a character (a lone surrogate, which JSON can have and UTF-8 has not)."""
    return text if text.isascii() else _HALF_A_CHARACTER.sub("?", text)
