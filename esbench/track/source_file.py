"""Document files that a track brings along or that were downloaded: found, unpacked, given action lines."""

from __future__ import annotations

import bz2
import gzip
import hashlib
import tarfile
import zipfile
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, BinaryIO, cast

from esbench.errors import CorpusError
from esbench.model import Documents
from esbench.track.prepared import GROUP

_ARCHIVES = (".bz2", ".gz", ".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2")


def find_source(part: Documents, folders: list[Path], where: str) -> Path:
    """The document file, unpacked or as an archive, in the first of the folders that has it.

    Raises CorpusError that names the URL and where to put the file.
    """
    assert part.source_file is not None
    names = [part.source_file]
    for ending in _ARCHIVES:
        if part.source_file.endswith(ending):
            names.insert(0, part.source_file.removesuffix(ending))
        else:
            names.append(part.source_file + ending)
    for folder in folders:
        for name in names:
            if (folder / name).is_file():
                return folder / name
    hint = f"put it into {folders[0]}"
    if part.base_url:
        hint = f"download {part.base_url.rstrip('/')}/{part.source_file} to {folders[-1]}/"
    raise CorpusError(f'the document file "{part.source_file}" is not there', where=where, hint=hint)


def sha256_of(path: Path, where: str) -> str:
    """sha256 (hex) of a file's bytes; raises CorpusError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}", where=where) from error


def write_with_actions(
    out: BinaryIO,
    source: Path,
    part: Documents,
    *,
    action: str,
    where: str,
    progress: Callable[[int], None],
) -> array[int]:
    """Write the documents of a file, each after its action line; gives the offset of each GROUP and the length.

    `progress` is told how many documents are written. Raises CorpusError where counts or sizes are not what
    the track says, for blank lines, and for a damaged archive.
    """
    line = b'{"%b":{}}\n' % action.encode()
    lines_each = 2 if part.includes_action_and_meta_data else 1
    offsets = array("Q", [0])
    lines_read = size = 0
    try:
        with _open(source, where) as file:
            while lines := list(islice(file, GROUP * lines_each)):
                if not lines[-1].endswith(b"\n"):
                    lines[-1] += b"\n"
                if b"\n" in lines or b"\r\n" in lines:
                    raise CorpusError(
                        f"a blank line between line {lines_read + 1} and {lines_read + len(lines)} of {source}",
                        where=where,
                    )
                size += sum(map(len, lines))
                lines_read += len(lines)
                text = b"".join(lines) if lines_each == 2 else line + line.join(lines)
                out.write(text)
                offsets.append(offsets[-1] + len(text))
                progress(lines_read // lines_each)
    except (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk, not of the archive's format
        raise CorpusError(f"{source} is damaged: {error}", where=where, hint="get the file anew") from error
    _check_counts(source, part, lines_read, lines_each, size, where)
    return offsets


def _check_counts(source: Path, part: Documents, lines: int, lines_each: int, size: int, where: str) -> None:
    count, rest = divmod(lines, lines_each)
    if rest:
        raise CorpusError(f"{source} ends with an action line that has no document", where=where)
    if count != part.document_count:
        raise CorpusError(
            f"{source} holds {count:,} documents, not {part.document_count:,}",
            where=where,
            hint='correct "document-count", or get the file anew',
        )
    if part.uncompressed_bytes is not None and size != part.uncompressed_bytes:
        raise CorpusError(
            f"{source} has {size:,} bytes unpacked, not {part.uncompressed_bytes:,}",
            where=where,
            hint='correct "uncompressed-bytes", or get the file anew',
        )


@contextmanager
def _open(path: Path, where: str) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a plain file or of the only file of an archive."""
    name = path.name
    if name.endswith((".tar", ".tar.gz", ".tgz", ".tar.bz2")):
        with tarfile.open(path) as tar:
            files = [member for member in tar.getmembers() if member.isfile()]
            member = tar.extractfile(files[0]) if len(files) == 1 else None
            if member is None:
                raise CorpusError(f"{path} holds {len(files)} files, not one", where=where)
            with member:
                yield member
    elif name.endswith(".zip"):
        with zipfile.ZipFile(path) as archive:
            names = [entry for entry in archive.namelist() if not entry.endswith("/")]
            if len(names) != 1:
                raise CorpusError(f"{path} holds {len(names)} files, not one", where=where)
            with archive.open(names[0]) as entry:
                yield entry
    elif name.endswith(".bz2"):
        with bz2.open(path, "rb") as file:
            yield file
    elif name.endswith(".gz"):
        with gzip.open(path, "rb") as file:
            yield cast(IO[bytes], file)
    else:
        with path.open("rb", buffering=1 << 20) as plain:
            yield plain
