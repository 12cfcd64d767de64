"""Reading of document files as a stream of unpacked bytes, plain or from an archive; nothing is written to disk.

An archive holds one file. Formats: zip (PKWARE APPNOTE), gzip (RFC 1952), bzip2, Zstandard (RFC 8878), tar.
"""

from __future__ import annotations

import bz2
import gzip
import io
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, cast

from esbench.errors import CorpusError

if TYPE_CHECKING:
    from zstandard import ZstdDecompressionObj
    from zstandard import ZstdDecompressor as Decompressor

ENDINGS = (".tar.gz", ".tar.bz2", ".tar.zst", ".tgz", ".tar", ".zip", ".bz2", ".gz", ".zst")  # the longest first
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.zst")
_BY_DIRECTORY = ".zip"  # which is at its end
_BUFFER_BYTES = 1 << 20


def ending_of(name: str) -> str:
    """Return the archive ending of a file name, such as ".tar.gz"; "" for a plain file."""
    return next((ending for ending in ENDINGS if name.endswith(ending)), "")


def is_streamable(name: str) -> bool:
    """True if a file of that name can be read from its beginning without its end; False for zip archives."""
    return not name.endswith(_BY_DIRECTORY)


class Damaged(CorpusError):  # noqa: N818 - what the archive is
    """Error: the rest of an archive cannot be read."""


@contextmanager
def open_documents(path: Path, where: str, packed: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open a plain file, or the only file of an archive, as a stream of unpacked bytes.

    packed: the bytes of a streamable file that is not on disk; `path` then only gives its name.
    Raises Damaged, and CorpusError for an archive that does not hold exactly one file; both also while it is read.
    `where` is the place that errors name.
    """
    try:
        with ExitStack() as stack:
            file: IO[bytes] = packed or stack.enter_context(path.open("rb", buffering=_BUFFER_BYTES))
            if not is_streamable(path.name):
                yield stack.enter_context(_only_entry(file, path, where))
            elif path.name.endswith(_TARS):
                yield from _only_member(stack.enter_context(_decompressed(file, path, where)), path, where)
            else:
                yield stack.enter_context(_decompressed(file, path, where))
    except (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of the disk, not of the archive's format
        what = "it ends too early" if isinstance(error, EOFError) else "it cannot be unpacked"
        raise Damaged(f"{path} is damaged: {what}", where=where, hint="delete it and get it anew") from error


def _decompressed(file: IO[bytes], path: Path, where: str) -> IO[bytes]:
    if path.name.endswith(".bz2"):
        return cast(IO[bytes], bz2.open(file, "rb"))
    if path.name.endswith((".gz", ".tgz")):
        return cast(IO[bytes], gzip.open(file, "rb"))
    if path.name.endswith(".zst"):
        return io.BufferedReader(_ZstdFile(file, path, where), _BUFFER_BYTES)
    return file


@contextmanager
def _only_entry(file: IO[bytes], path: Path, where: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(file) as archive:
        names = [entry for entry in archive.namelist() if not entry.endswith("/")]
        if len(names) != 1:
            raise CorpusError(f"{path} holds {len(names)} files, not one", where=where)
        with archive.open(names[0]) as entry:
            yield entry


def _only_member(packed: IO[bytes], path: Path, where: str) -> Iterator[IO[bytes]]:
    """Yield the first file of a tar, read as a stream; once it is read to its end, check that no other file follows."""
    with tarfile.open(fileobj=packed, mode="r|") as tar:
        files = (member for member in tar if member.isfile())
        member = next(files, None)
        entry = tar.extractfile(member) if member is not None else None
        if entry is None:
            raise CorpusError(f"{path} holds no file", where=where)
        yield entry
        if not entry.read(1) and next(files, None) is not None:
            raise CorpusError(f"{path} holds several files, not one", where=where)


class _ZstdFile(io.RawIOBase):
    """The unpacked bytes of a file of Zstandard frames; raises EOFError if the last frame is incomplete."""

    def __init__(self, file: IO[bytes], path: Path, where: str) -> None:
        try:
            import zstandard
        except ImportError:
            raise CorpusError(
                f"{path} is packed with Zstandard, which needs the package zstandard",
                where=where,
                hint="pip install zstandard",
            ) from None
        self._error: type[Exception] = zstandard.ZstdError
        self._decompressor: Decompressor = zstandard.ZstdDecompressor()
        self._frame: ZstdDecompressionObj | None = None
        self._unpacked = memoryview(b"")
        self._file = file

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._unpacked:
            packed = self._frame.unused_data if self._frame is not None and self._frame.eof else b""
            packed = packed or self._file.read(_BUFFER_BYTES >> 3)
            if not packed:
                if self._frame is not None and not self._frame.eof:
                    raise EOFError("its last frame is cut")
                return 0
            if self._frame is None or self._frame.eof:
                self._frame = self._decompressor.decompressobj()
            try:
                self._unpacked = memoryview(self._frame.decompress(packed))
            except self._error as error:
                raise OSError("not Zstandard") from error
        count = min(len(buffer), len(self._unpacked))
        buffer[:count] = self._unpacked[:count]
        self._unpacked = self._unpacked[count:]
        return count
