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
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self, cast

from esbench.errors import CorpusError
from esbench.units import format_bytes

ENDINGS = (".tar.gz", ".tar.bz2", ".tar.zst", ".tgz", ".tar", ".zip", ".bz2", ".gz", ".zst")  # the longest first
_TARS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.zst")
_BUFFER_BYTES = 1 << 20
_ZSTD_BYTES = 1 << 12  # become 128 MB at most: 4 bytes may stand for a block of 128 KB
_LONGEST_LINE = 100 << 20  # Elasticsearch takes no longer request, unless it is told to (http.max_content_length)
_ZIP_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)  # that need little memory
_MOST_MEMBERS = 10_000  # of a tar, whose facts are kept while it is read
_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)
_LONGEST_HEADER = 1 << 20


def ending_of(name: str) -> str:
    """Return the archive ending of a file name, such as ".tar.gz"; "" for a plain file."""
    return next((ending for ending in ENDINGS if name.endswith(ending)), "")


def is_streamable(name: str) -> bool:
    """True if a file of that name can be read from its beginning without its end; False for zip archives."""
    return not name.endswith(".zip")  # its directory is at its end


class Damaged(CorpusError):  # noqa: N818 - what the archive is
    """Error: the rest of an archive cannot be read."""


@contextmanager
def open_documents(path: Path, where: str, packed: IO[bytes] | None = None) -> Iterator[IO[bytes]]:
    """Open a plain file, or the only file of an archive, as a stream of unpacked bytes.

    packed: the bytes of a streamable file that is not on disk; `path` then only gives its name.
    Raises Damaged, and CorpusError for what cannot be read or does not hold exactly one file; both also while it is
    read.
    `where` is the place that errors name.
    """
    try:
        with ExitStack() as stack:
            file: IO[bytes] = packed or stack.enter_context(path.open("rb", buffering=_BUFFER_BYTES))
            if not is_streamable(path.name):
                unpacked = stack.enter_context(_only_entry(file, path, where))
            elif path.name.endswith(_TARS):
                unpacked = stack.enter_context(
                    _only_member(stack.enter_context(_decompressed(file, path, where)), path, where)
                )
            else:
                unpacked = stack.enter_context(_decompressed(file, path, where))
            yield io.BufferedReader(_Lines(unpacked, path, where))
    except (EOFError, OSError, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise CorpusError(f"cannot read {path}: {error.strerror}", where=where) from error
        what = "it ends too early" if isinstance(error, EOFError) else "it cannot be unpacked"
        raise Damaged(f"{path} is damaged: {what}", where=where, hint="delete it and download it again") from error


def _decompressed(file: IO[bytes], path: Path, where: str) -> IO[bytes]:
    if path.name.endswith(".bz2"):
        return cast(IO[bytes], bz2.open(file, "rb"))
    if path.name.endswith((".gz", ".tgz")):
        return cast(IO[bytes], gzip.open(file, "rb"))
    if path.name.endswith(".zst"):
        return io.BufferedReader(ChunkReader(_unpacked_zstd(file, path, where)), _BUFFER_BYTES)
    return file


@contextmanager
def _only_entry(file: IO[bytes], path: Path, where: str) -> Iterator[IO[bytes]]:
    with zipfile.ZipFile(file) as archive:
        files = [entry for entry in archive.infolist() if not entry.is_dir()]
        if len(files) != 1:
            raise CorpusError(f"{path} holds {len(files)} files, not one", where=where)
        if files[0].compress_type not in _ZIP_METHODS or files[0].flag_bits & 1:
            hint = "pack it with deflate, without a password"
            raise CorpusError(f"{path} is encrypted, or packed in a way that is not known", where=where, hint=hint)
        with archive.open(files[0]) as entry:
            yield entry


class _Member(tarfile.TarInfo):
    @classmethod
    def frombuf(cls, *args: Any, **keys: Any) -> Self:
        """Return the facts in a header; refuses extended ones that would fill the memory."""
        member = super().frombuf(*args, **keys)
        if member.type in _HEADERS and member.size > _LONGEST_HEADER:
            raise tarfile.ReadError("a header is too long")
        return member


@contextmanager
def _only_member(packed: IO[bytes], path: Path, where: str) -> Iterator[IO[bytes]]:
    """Yield the first file of a tar, read as a stream; once it is read to its end, check that no other file follows."""
    with tarfile.open(fileobj=packed, mode="r|", tarinfo=_Member) as tar:
        files = (member for member in islice(tar, _MOST_MEMBERS) if member.isfile())
        member = next(files, None)
        entry = tar.extractfile(member) if member is not None else None
        if entry is None:
            raise CorpusError(f"{path} holds no file", where=where)
        yield entry
        if not entry.read(1) and next(files, None) is not None:
            raise CorpusError(f"{path} holds several files, not one", where=where)


def _unpacked_zstd(file: IO[bytes], path: Path, where: str) -> Iterator[bytes]:
    """Yield the unpacked bytes of Zstandard frames; raises EOFError if the last frame is incomplete.

    Raises CorpusError for a frame that needs more memory than zstd itself allows.
    """
    import zstandard

    decompressor = zstandard.ZstdDecompressor()
    frame = decompressor.decompressobj()
    is_begun = False
    while packed := file.read(_ZSTD_BYTES):
        while packed:
            if frame.eof:
                frame = decompressor.decompressobj()
            try:
                unpacked = frame.decompress(packed)
            except zstandard.ZstdError as error:
                if "too much memory" in str(error):
                    what = f"{path} is packed with a window of more than 128 MB"
                    hint = "pack it without --long, or with --long=27"
                    raise CorpusError(what, where=where, hint=hint) from error
                raise OSError("not Zstandard") from error
            is_begun = not frame.eof
            packed = frame.unused_data if frame.eof else b""
            yield unpacked
    if is_begun:
        raise EOFError("its last frame is cut")


class _Lines(io.RawIOBase):
    """Unpacked documents, whose lines are refused before one of them fills the memory."""

    def __init__(self, unpacked: IO[bytes], path: Path, where: str) -> None:
        self._read = unpacked.readinto  # type: ignore[attr-defined]
        self._path = path
        self._where = where
        self._length = 0  # of the line that is not read to its end

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count: int = self._read(buffer)
        line_end = bytes(buffer[:count]).rfind(b"\n")
        self._length = self._length + count if line_end < 0 else count - line_end - 1
        if self._length > _LONGEST_LINE:
            what = f"a line of {self._path} is longer than {format_bytes(_LONGEST_LINE)}"
            raise CorpusError(what, where=self._where, hint="a document file has one JSON object a line")
        return count


class ChunkReader(io.RawIOBase):
    """Chunks of bytes as a readable file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        while not self._left:
            chunk = next(self._chunks, None)
            if chunk is None:
                return 0
            self._left = memoryview(chunk)
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count
