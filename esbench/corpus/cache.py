"""The files of the cache: each gets its name when it is complete; the metadata of a prepared file lie beside it.

`NAME.bulk` is a prepared file, `NAME.offsets` its offset index, `NAME.json` its metadata, written last. A file that was
only read as a stream leaves the last two: how many documents it has, and where each begins.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import shutil
from array import array
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from esbench.corpus.prepared import GROUP
from esbench.errors import FREE_SPACE, CorpusError
from esbench.record.private import open_private, private_folder, process_name
from esbench.units import format_bytes

RESERVE_BYTES = 256 << 20  # of the disk, that a file of no stated size leaves free; of a small disk a part of it
RESERVE_PART = 20
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Metadata:
    """The metadata of a prepared file; `source_*` describe the file that it was made from (0: generated).

    `digest`: sha256 (hex) of that file, or of the generator's spec. `size_bytes` is of the prepared file.
    """

    documents: int
    size_bytes: int
    digest: str
    source_size_bytes: int = 0
    source_mtime_ns: int = 0


def read_metadata(path: Path) -> Metadata | None:
    """Return the metadata of the prepared file at `path`, which need not exist itself.

    None if the metadata or the offset index are missing or incomplete.
    """
    try:
        metadata = Metadata(**json.loads(path.with_suffix(".json").read_text()))
        index_bytes = path.with_suffix(".offsets").stat().st_size
    except (OSError, ValueError, TypeError):
        return None
    entries = -(-metadata.documents // GROUP) + 1
    return metadata if index_bytes == 8 * entries else None


def is_complete(path: Path, metadata: Metadata) -> bool:
    """True if the prepared file exists and has the size that its metadata states."""
    return path.is_file() and path.stat().st_size == metadata.size_bytes


def write_metadata(path: Path, offsets: array[int], metadata: Metadata, where: str) -> None:
    """Write the offset index and the metadata of the prepared file at `path` beside it.

    `offsets`: the bytes before each GROUP of documents, then the file's length. Raises CorpusError if they cannot be
    written.
    """
    with writing(path.with_suffix(".offsets"), where) as out:
        offsets.tofile(out)
    with writing(path.with_suffix(".json"), where) as out:
        out.write(json.dumps(asdict(metadata)).encode())


@contextmanager
def writing(path: Path, where: str) -> Iterator[BinaryIO]:
    """Context manager: a file open for writing, renamed to `path` on success and deleted on failure.

    Raises CorpusError if it cannot be written.
    """
    partial = path.with_name(f"{path.name}.{process_name()}.partial")
    with write_errors(path, where):
        private_folder(path.parent)
        _delete_left_partials(path)
        try:
            with _open_locked(partial) as out:
                yield out
                out.flush()
                partial.replace(path)  # while it is locked
        finally:
            partial.unlink(missing_ok=True)


def _open_locked(partial: Path) -> BinaryIO:
    """Open a partial file, locked until it is closed."""
    while True:
        out = open_private(partial, "wb")
        fcntl.flock(out, fcntl.LOCK_EX)
        if partial.exists():
            return out
        out.close()  # another process took it for a left one before it was locked


def _delete_left_partials(path: Path) -> None:
    """Delete the partial files of processes of this host that were killed: they are not locked."""
    ours = re.compile(rf"{re.escape(path.name)}\.\d+(-{re.escape(os.uname().nodename)})?\.partial")
    for left in [file for file in path.parent.iterdir() if ours.fullmatch(file.name)]:
        with suppress(OSError), left.open("r+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            left.unlink()


def check_reserve(name: str, folder: Path, where: str) -> None:
    """Raise CorpusError if the disk of the folder to which a file is being written has only the reserve left."""
    disk = shutil.disk_usage(folder)
    if disk.free <= min(RESERVE_BYTES, disk.total // RESERVE_PART):
        raise CorpusError(
            f"{name} has no stated size, and would fill the disk: {folder} has {format_bytes(disk.free)} left",
            where=where,
            hint=f"state its size in the track, {FREE_SPACE}",
        )


@contextmanager
def write_errors(path: Path, where: str) -> Iterator[None]:
    """Turn an OSError of writing to the cache into a CorpusError that names the file."""
    try:
        yield
    except OSError as error:
        raise CorpusError(
            f"cannot write {path}: {error.strerror or error}",
            where=where,
            hint=FREE_SPACE if error.errno in _FULL else "set ESBENCH_HOME to a folder that can be written",
        ) from error
