"""The files of the cache: each gets its name when it is complete, and what is known of a prepared file lies beside it.

`NAME.bulk` is a prepared file, `NAME.offsets` its offset index, `NAME.json` its metadata, written last. A file that was
only read as a stream leaves the last two: how many documents it has, and where each begins.
"""

from __future__ import annotations

import json
import os
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from esbench.corpus.prepared import GROUP
from esbench.errors import CorpusError


@dataclass(frozen=True)
class Metadata:
    """What is known of a prepared file; `source_*` is of the file that it was made from, if any."""

    documents: int
    size_bytes: int
    digest: str
    source_size_bytes: int = 0
    source_mtime_ns: int = 0


def read_metadata(path: Path) -> Metadata | None:
    """What is known of the prepared file at `path`, whether it is there or not; None where nothing is, or not all."""
    try:
        metadata = Metadata(**json.loads(path.with_suffix(".json").read_text()))
        index_bytes = path.with_suffix(".offsets").stat().st_size
    except (OSError, ValueError, TypeError):
        return None
    entries = -(-metadata.documents // GROUP) + 1
    return metadata if index_bytes == 8 * entries else None


def is_complete(path: Path, metadata: Metadata) -> bool:
    """Whether the prepared file itself is there."""
    return path.is_file() and path.stat().st_size == metadata.size_bytes


def write_metadata(path: Path, offsets: array[int], metadata: Metadata, where: str) -> None:
    """Leave the offset index and the metadata of the prepared file at `path`."""
    with writing(path.with_suffix(".offsets"), where) as out:
        offsets.tofile(out)
    with writing(path.with_suffix(".json"), where) as out:
        out.write(json.dumps(asdict(metadata)).encode())


@contextmanager
def writing(path: Path, where: str) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete and vanishes when it is not."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as out:
                yield out
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise CorpusError(
            f"cannot write {path}: {error.strerror or error}",
            where=where,
            hint="free some space, or set ESBENCH_HOME to another disk",
        ) from error
