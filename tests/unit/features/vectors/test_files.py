"""Files of vectors: each layout is read in blocks, and what does not fit is said."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from esbench.errors import CorpusError
from esbench.features.vectors.files import VectorFile

ROWS = np.arange(30, dtype=np.float32).reshape(10, 3) / 4


def read(path: Path, part: str = "vector", size: int = 4) -> tuple[list[str] | None, Any]:
    blocks = list(VectorFile(path, part).blocks(size))
    assert [len(block.rows) for block in blocks] == [4, 4, 2]
    ids = [each for block in blocks for each in block.ids or ()]
    return ids or None, np.concatenate([block.rows for block in blocks])


@pytest.mark.parametrize(("ending", "kind"), [(".fvecs", "<f4"), (".bvecs", "u1"), (".ivecs", "<i4")])
def test_rows_with_their_lengths(tmp_path: Path, ending: str, kind: str) -> None:
    rows = (ROWS * 4).astype(kind)
    path = tmp_path / f"a{ending}"
    path.write_bytes(b"".join(struct.pack("<i", 3) + row.tobytes() for row in rows))
    ids, found = read(path)
    assert ids is None
    assert (found == rows).all()


@pytest.mark.parametrize(("ending", "kind"), [(".fbin", "<f4"), (".u8bin", "u1"), (".i8bin", "i1"), (".ibin", "<i4")])
def test_rows_after_their_number_and_dimensions(tmp_path: Path, ending: str, kind: str) -> None:
    rows = (ROWS * 4).astype(kind)
    path = tmp_path / f"a{ending}"
    path.write_bytes(struct.pack("<II", 10, 3) + rows.tobytes() + b"ground truth may follow")
    assert (read(path)[1] == rows).all()


def test_an_array_of_numpy_and_documents_on_lines(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", ROWS)
    assert (read(tmp_path / "a.npy")[1] == ROWS).all()
    lines = [f'{{"id": "d{number}", "emb": {row.tolist()}}}\n' for number, row in enumerate(ROWS)]
    (tmp_path / "a.json").write_text("".join(lines))
    ids, found = read(tmp_path / "a.json", "emb")
    assert (ids, (found == ROWS).all()) == ([f"d{number}" for number in range(10)], True)


def test_hdf5_of_ann_benchmarks(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="the lock file of tests has no h5py")
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        file["train"] = ROWS
    assert (read(tmp_path / "a.hdf5", "train")[1] == ROWS).all()
    with pytest.raises(CorpusError, match=r'there is no dataset "test" \(there are train\)'):
        read(tmp_path / "a.hdf5", "test")


def test_parquet_of_vectordbbench(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the lock file of tests has no pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"id": list(range(100, 110)), "emb": ROWS.tolist()})
    parquet.write_table(table, tmp_path / "a.parquet")
    ids, found = read(tmp_path / "a.parquet", "emb")
    assert (ids, (found == ROWS).all()) == ([str(number) for number in range(100, 110)], True)
    with pytest.raises(CorpusError, match=r'there is no column "vec" \(there are id, emb\)'):
        read(tmp_path / "a.parquet", "vec")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.fvecs", struct.pack("<i", 3) + b"short", "its size does not fit rows of 3 numbers"),
        ("b.fvecs", struct.pack("<iifiifi", 2, 1, 1.0, 1, 2, 1.0, 1)[:24], "its rows have different lengths"),
        ("a.fbin", struct.pack("<II", 10, 3) + b"short", "it is shorter than its 10 rows of 3 numbers"),
        ("b.fbin", b"abc", "it lacks its head: rows and dimensions"),
        ("a.json", b'{"vector": [1, 2]}\n{"vector": [1]}\n', 'lines 1 to 2 are not documents with a "vector" each'),
        ("a.csv", b"1,2\n", 'vectors are not read from ".csv"'),
        ("missing.npy", None, "cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, content: bytes | None, said: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CorpusError) as raised:
        list(VectorFile(tmp_path / name, "vector").blocks())
    assert said in str(raised.value)
