"""Vectors of a race: prepared once, in a folder of the cache, from a generator or from files.

The documents become bulk lines, which the core sends; the queries and their exact neighbours become the files by which
searches are scored.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from esbench.corpus.spec import SpecReader
from esbench.errors import CorpusError
from esbench.features.vectors.faults import faults
from esbench.features.vectors.files import Block, VectorFile
from esbench.features.vectors.generated import ALGORITHM, Generated
from esbench.features.vectors.truth import latest, matches, nearest
from esbench.record.private import private_folder

LABEL = "label"
_GIVEN_CHECKED = 20  # queries whose given neighbours are compared with brute force
_GIVEN_RECALL = 0.99
_PARTS = {  # of files that hold several arrays: documents, queries, neighbours
    ".hdf5": ("train", "test", "neighbors"),
    ".h5": ("train", "test", "neighbors"),
    ".parquet": ("emb", "emb", "neighbors_id"),
}


@dataclass(frozen=True)
class Neighbours:
    """The question that neighbours answer: the `k` nearest by `metric`, of the documents that `filter` matches."""

    k: int
    metric: str
    filter: str = ""  # as JSON

    @property
    def name(self) -> str:
        """The name of its file of judgements."""
        text = f"{self.k} {self.metric} {self.filter}"
        return f"judgements-{self.metric}-{self.k}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.txt"


class VectorData:
    """The vectors that an operation's `data` names: `generate`, or files of `documents`, `queries` and `neighbours`.

    `most` limits the documents and queries, in test mode. Raises TrackError for other keys.
    """

    def __init__(self, spec: Mapping[str, Any], folder: Path, home: Path, where: str, most: int | None = None) -> None:
        self._where = f"{where}: data"
        reader = SpecReader(spec, self._where)
        self._generated: Generated | None = None
        self._files: dict[str, VectorFile] = {}
        self._most = most
        if reader.has("generate"):
            self._generated = Generated.of(reader.take("generate"), where)
            key: list[Any] = [ALGORITHM, str(self._generated)]
        else:
            documents = Path(reader.text("documents"))
            is_whole = documents.suffix.lower() in (".hdf5", ".h5")
            asked = reader.text("queries", str(documents)) if is_whole else reader.text("queries")
            names = {"documents": documents, "queries": Path(asked)}
            if is_whole or reader.has("neighbours"):
                names["neighbours"] = Path(reader.text("neighbours", str(documents)))
            field = reader.text("field", "vector")
            for place, (name, path) in enumerate(names.items()):
                path = path if path.is_absolute() else folder / path
                if not path.is_file():
                    raise CorpusError(f"there is no file of {name}", where=str(path), hint=self._where)
                part = _PARTS.get(path.suffix.lower(), (field, field, field))[place]
                self._files[name] = VectorFile(path, part)
            key = [_told(file) for file in self._files.values()]
        reader.finish()
        digest = hashlib.sha256(json.dumps([key, most]).encode()).hexdigest()[:16]
        self.folder = home / "cache" / "vectors" / digest

    def documents(self, field: str) -> Path:
        """Return the file of bulk lines: an action line with the id, and a document with its vector in `field`."""

        def write(out: Any) -> None:
            ids, labels, first = self._ids, self._labels, 0
            for rows in self._blocks():
                numbers = self._as_numbers(rows)
                for place, row in enumerate(numbers, first):
                    document: dict[str, Any] = {field: row}
                    if labels is not None:
                        document[LABEL] = int(labels[place])
                    name = str(place) if ids is None else ids[place]
                    out.write(msgspec.json.encode({"index": {"_id": name}}) + b"\n")
                    out.write(msgspec.json.encode(document) + b"\n")
                first += len(rows)

        return self._made(f"documents-{hashlib.sha256(field.encode()).hexdigest()[:8]}.json", write)

    @property
    def count(self) -> int:
        """The number of documents."""
        return len(self._rows)

    def queries(self) -> Path:
        """Return the file of queries, by their numbers."""

        def write(out: Any) -> None:
            for number, row in enumerate(self._as_numbers(self._queries)):
                out.write(b"%d\t%b\n" % (number, msgspec.json.encode(row)))

        return self._made("queries.tsv", write)

    def judgements(self, sought: Neighbours) -> Path:
        """Return the file of the exact neighbours of the queries, as judgements of relevance 1.

        Neighbours that are given are taken where no filter is asked for, once some of them were checked. Raises
        CorpusError where these are wrong.
        """

        def write(out: Any) -> None:
            for query, rows in enumerate(self._neighbours(sought)):
                for row in rows:
                    name = str(row) if self._ids is None else self._ids[row]
                    out.write(f"{query} 0 {name} 1\n".encode())
                if not len(rows):
                    out.write(f"{query} 0 - 0\n".encode())

        return self._made(sought.name, write)

    def faults(self, metric: str) -> list[str]:
        """Return a line for each fault of the vectors and their queries as a metric sees them."""

        def write(out: Any) -> None:
            out.write("".join(f"{line}\n" for line in faults(self._blocks(), self._asked, metric)).encode())

        return self._made(f"faults-{metric}.txt", write).read_text().splitlines()

    def _neighbours(self, sought: Neighbours) -> Iterator[Any]:
        allowed = None if self._ids is None else latest(self._ids)
        if sought.filter:
            fields = {} if self._labels is None else {LABEL: self._labels}
            found = matches(json.loads(sought.filter), fields, self._where)
            allowed = found if allowed is None else allowed & found
        elif (given := self._given(sought, allowed)) is not None:
            yield from given
            return
        for rows, _ in nearest(self._rows, self._queries, sought.k, sought.metric, allowed):
            yield rows

    def _given(self, sought: Neighbours, allowed: Any) -> Any:
        """Return the neighbours that a file gives, without its padding of -1; None where it has none for the question.

        A few documents at the distance of the k-th are not known of given ones: only the first k count.
        """
        file = self._files.get("neighbours")
        if file is None or self._most is not None or self._ids is not None:
            return None
        given = np.concatenate([np.asarray(block.rows) for block in file.blocks()])[: len(self._queries)]
        if given.shape[1] < sought.k:
            return None
        checked = np.linspace(0, len(given) - 1, min(_GIVEN_CHECKED, len(given)), dtype=int)
        exact = [
            set(map(int, rows))
            for rows, _ in nearest(self._rows, self._queries[checked], sought.k, sought.metric, allowed)
        ]
        kept = [[int(row) for row in given[number][: sought.k] if row >= 0] for number in checked]
        right = sum(len(one & set(other)) for one, other in zip(exact, kept, strict=True))
        wanted = sum(map(len, kept))
        if right < _GIVEN_RECALL * wanted:
            raise CorpusError(
                f"its neighbours are not those by {sought.metric}: {right:,} of {wanted:,} are right",
                where=str(file.path),
                hint='say "metric", or leave out the neighbours, so that they are computed',
            )
        return ([int(row) for row in rows[: sought.k] if row >= 0] for rows in given)

    @cached_property
    def _rows(self) -> Any:
        """All vectors, mapped from a file."""

        def write(out: Any) -> None:
            blocks = self._blocks()
            first = next(blocks, None)
            if first is None:
                raise CorpusError("there is no vector", where=self._where)
            shape = [len(first), first.shape[1]]
            head = out.tell()
            np.lib.format.write_array_header_1_0(out, self._header(first.dtype, (1 << 40, shape[1])))
            out.write(np.ascontiguousarray(first).tobytes())
            for rows in blocks:
                if rows.shape[1] != shape[1]:
                    raise CorpusError(f"vectors of {shape[1]} and of {rows.shape[1]} dimensions", where=self._where)
                shape[0] += len(rows)
                out.write(np.ascontiguousarray(rows).tobytes())
            out.seek(head)
            np.lib.format.write_array_header_1_0(out, self._header(first.dtype, tuple(shape)))

        return np.load(self._made("vectors.npy", write), mmap_mode="r")

    @staticmethod
    def _header(kind: Any, shape: tuple[int, ...]) -> dict[str, Any]:
        return {"descr": np.lib.format.dtype_to_descr(kind), "fortran_order": False, "shape": shape}

    def _blocks(self) -> Iterator[Any]:
        """Yield the vectors as arrays of rows; at most `most` of them."""
        left = self._most if self._most is not None else 1 << 62
        for block in self._of_documents():
            rows = block.rows[:left]
            left -= len(rows)
            if len(rows):
                yield rows

    def _of_documents(self) -> Iterator[Block]:
        if self._generated is not None:
            yield from (Block(None, rows) for rows in self._generated.rows())
        else:
            yield from self._files["documents"].blocks()

    @cached_property
    def _ids(self) -> list[str] | None:
        """The ids of documents; None where they are their numbers."""
        if self._generated is not None:
            return None
        ids: list[str] = []
        for block in self._files["documents"].blocks():
            if block.ids is None:
                return None
            ids += block.ids
        return ids[: self._most]

    @cached_property
    def _labels(self) -> Any:
        return None if self._generated is None else self._generated.labels()[: self._most]

    @cached_property
    def _queries(self) -> Any:
        rows = self._asked
        if rows.shape[1] != self._rows.shape[1]:
            what = f"queries have {rows.shape[1]} dimensions, documents {self._rows.shape[1]}"
            raise CorpusError(what, where=self._where)
        return rows

    @cached_property
    def _asked(self) -> Any:
        """The queries, of any dimensions."""
        if self._generated is not None:
            return self._generated.query_rows()[: self._most]
        return np.concatenate([block.rows for block in self._files["queries"].blocks()])[: self._most]

    def _as_numbers(self, rows: Any) -> list[list[float]] | list[list[int]]:
        """Return rows as lists of numbers whose texts are short, and read as the same float32."""
        if np.issubdtype(rows.dtype, np.integer):
            return rows.tolist()  # type: ignore[no-any-return]
        wide = rows.astype(np.float64)
        if self._generated is not None:
            return np.round(wide, 5).tolist()  # type: ignore[no-any-return]
        scale = 10.0 ** (8 - np.floor(np.log10(np.where(wide == 0, 1.0, np.abs(wide)))))
        return (np.round(wide * scale) / scale).tolist()  # type: ignore[no-any-return]

    def _made(self, name: str, write: Any) -> Path:
        """Return a file of the folder, which is written once, whole or not at all."""
        path = self.folder / name
        if not path.exists():
            private_folder(self.folder)
            part = path.with_name(f"{name}.{os.getpid()}.part")
            try:
                with part.open("wb") as out:
                    write(out)
                part.replace(path)
            finally:
                part.unlink(missing_ok=True)
        return path


def _told(file: VectorFile) -> list[Any]:
    stat = file.path.stat()
    return [str(file.path.resolve()), file.part, stat.st_size, stat.st_mtime_ns]
