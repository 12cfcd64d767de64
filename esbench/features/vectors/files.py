"""Files of vectors: blocks of rows, read one after the other, so that memory does not grow with the file.

| ending | layout | source |
|---|---|---|
| .hdf5, .h5 | datasets train, test, neighbors | ann-benchmarks |
| .fvecs, .bvecs, .ivecs | of each row its length (int32), then its numbers | corpus-texmex.irisa.fr |
| .fbin, .u8bin, .i8bin, .ibin | rows and dimensions (uint32), then all numbers | big-ann-benchmarks |
| .parquet | columns id and emb, or id and neighbors_id | VectorDBBench |
| .npy | an array | NumPy |
| .json, .ndjson | a document on each line | Rally's tracks |
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from esbench.errors import CorpusError, hint_to_install

BLOCK = 4096  # rows
_PER_ROW: dict[str, np.dtype[Any]] = {".fvecs": np.dtype("<f4"), ".bvecs": np.dtype("u1"), ".ivecs": np.dtype("<i4")}
_WHOLE: dict[str, np.dtype[Any]] = {
    ".fbin": np.dtype("<f4"),
    ".u8bin": np.dtype("u1"),
    ".i8bin": np.dtype("i1"),
    ".ibin": np.dtype("<i4"),
}
_HDF5 = (".hdf5", ".h5")
_LINES = (".json", ".ndjson", ".jsonl")
ENDINGS = (*_HDF5, *_PER_ROW, *_WHOLE, ".parquet", ".npy", *_LINES)


@dataclass(frozen=True)
class Block:
    """Some rows of a file: their ids, None where they are counted from 0, and their numbers (rows x dimensions)."""

    ids: list[str] | None
    rows: Any


@dataclass(frozen=True)
class VectorFile:
    """A file of vectors or of neighbours. `part` names the dataset, the column or the field that holds them."""

    path: Path
    part: str = ""

    def blocks(self, size: int = BLOCK) -> Iterator[Block]:
        """Yield the rows in their order, `size` at a time. Raises CorpusError for a file that cannot be read so."""
        ending = self.path.suffix.lower()
        try:
            if ending in _HDF5:
                yield from self._of_hdf5(size)
            elif ending in _PER_ROW:
                yield from _split(_rows_with_lengths(self.path, _PER_ROW[ending]), size)
            elif ending in _WHOLE:
                yield from _split(_rows_after_head(self.path, _WHOLE[ending]), size)
            elif ending == ".npy":
                yield from _split(np.load(self.path, mmap_mode="r"), size)
            elif ending == ".parquet":
                yield from self._of_parquet(size)
            elif ending in _LINES:
                yield from self._of_lines(size)
            else:
                raise self._bad(f'vectors are not read from "{ending}"', f"files end with {', '.join(ENDINGS)}")
        except OSError as error:
            raise self._bad(f"cannot be read: {error.strerror or error}") from None

    def _bad(self, what: str, hint: str = "") -> CorpusError:
        return CorpusError(what, where=str(self.path), hint=hint)

    def _of_hdf5(self, size: int) -> Iterator[Block]:
        try:
            import h5py  # type: ignore[import-untyped,unused-ignore]
        except ModuleNotFoundError:
            raise self._bad("HDF5 needs h5py", hint_to_install("vectors")) from None
        with h5py.File(self.path, "r") as file:
            if self.part not in file:
                raise self._bad(f'there is no dataset "{self.part}"', f"there are {', '.join(sorted(file))}")
            yield from _split(file[self.part], size)

    def _of_parquet(self, size: int) -> Iterator[Block]:
        try:
            from pyarrow import parquet
        except ModuleNotFoundError:
            raise self._bad("Parquet needs pyarrow", hint_to_install("vectors")) from None
        file = parquet.ParquetFile(self.path)
        names = file.schema_arrow.names
        if self.part not in names:
            raise self._bad(f'there is no column "{self.part}"', f"there are {', '.join(names)}")
        columns = [self.part, *(["id"] if "id" in names else [])]
        for batch in file.iter_batches(size, columns=columns):
            vectors = batch.column(self.part)
            flat = vectors.flatten().to_numpy(zero_copy_only=False)
            if len(flat) % max(1, len(vectors)):
                raise self._bad(f'rows of "{self.part}" have different lengths')
            ids = [str(each) for each in batch.column("id").to_pylist()] if "id" in names else None
            yield Block(ids, flat.reshape(len(vectors), -1))

    def _of_lines(self, size: int) -> Iterator[Block]:
        with self.path.open("rb") as lines:
            first = 0
            while found := list(islice(lines, size)):
                try:
                    rows = [msgspec.json.decode(line) for line in found]
                    ids = [str(row.get("_id", row.get("id", first + number))) for number, row in enumerate(rows)]
                    vectors = np.array([row[self.part] for row in rows])
                except (ValueError, KeyError, AttributeError, TypeError):
                    what = f'lines {first + 1:,} to {first + len(found):,} are not documents with a "{self.part}" each'
                    raise self._bad(what, "each as long as the others") from None
                yield Block(ids, vectors)
                first += len(found)


def _split(rows: Any, size: int) -> Iterator[Block]:
    for first in range(0, len(rows), size):
        yield Block(None, np.asarray(rows[first : first + size]))


def _rows_with_lengths(path: Path, kind: np.dtype[Any]) -> Any:
    """Return a view of rows with their lengths in front of them. Raises CorpusError for rows of different lengths."""
    head = np.fromfile(path, dtype="<i4", count=1)
    if not len(head):
        return np.empty((0, 0), kind)
    row = np.dtype([("length", "<i4"), ("values", kind, (int(head[0]),))])
    size = path.stat().st_size
    if head[0] < 1 or size % row.itemsize:
        raise CorpusError(f"its size does not fit rows of {head[0]} numbers", where=str(path))
    mapped = np.memmap(path, dtype=row, mode="r")
    if not (mapped["length"] == head[0]).all():
        raise CorpusError("its rows have different lengths", where=str(path))
    return mapped["values"]


def _rows_after_head(path: Path, kind: np.dtype[Any]) -> Any:
    """Return a view of rows after a head of their number and length. Raises CorpusError for a file that lacks some."""
    head = np.fromfile(path, dtype="<u4", count=2)
    if len(head) < 2:
        raise CorpusError("it lacks its head: rows and dimensions", where=str(path))
    count, dimensions = int(head[0]), int(head[1])
    if path.stat().st_size < 8 + count * dimensions * kind.itemsize:
        raise CorpusError(f"it is shorter than its {count:,} rows of {dimensions} numbers", where=str(path))
    return np.memmap(path, dtype=kind, mode="r", offset=8, shape=(count, dimensions))
