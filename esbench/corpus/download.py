"""Fetches files over http(s), s3 and gs: whole and of the right size and sum, or not at all under their name.

What was fetched before a break stays beside the target as `NAME.partial`, with the version that the server gave it
in `NAME.partial.version`: the next attempt, or the next race, goes on from there if the server still has that version.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import io
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit, urlunsplit

from esbench.corpus.archives import open_documents
from esbench.errors import CorpusError
from esbench.errors.reasons import reason_of
from esbench.units import format_bytes

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse, PoolManager

CHUNK_BYTES = 1 << 20
CONNECT_TIMEOUT_S = 20.0
READ_TIMEOUT_S = 60.0
ATTEMPTS = 4  # in a row that bring nothing
PAUSE_S = 1.0  # before the second attempt; twice as long before each further one
_TRANSIENT = (408, 429, 500, 502, 503, 504)
_MISSING = (403, 404, 410)  # 403: what object stores say of missing keys
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
SCHEMES = ("http", "https", *_PACKAGES)


class DownloadProgress(Protocol):
    """How far a download is: name and bytes in all (0: unknown) -> a function that is told of each chunk's bytes."""

    def __call__(self, name: str, total_bytes: int) -> AbstractContextManager[Callable[[int], None]]: ...


def no_progress(name: str, total_bytes: int) -> AbstractContextManager[Callable[[int], None]]:
    """Nobody is told."""
    return nullcontext(lambda count: None)


class Unobtainable(CorpusError):  # noqa: N818 - it names what happened; whether it is an error, the caller knows
    """The file is not to be had from here and now."""


class FileMissing(Unobtainable):
    """The server has no such file."""


class _Interrupted(Exception):  # noqa: N818
    """The connection was lost, or could not be made: worth another attempt."""


@dataclass(frozen=True)
class _Stream:
    """A file from byte `start` on; `version` is "" where the server does not say which one it is."""

    chunks: Iterator[bytes]
    start: int
    total_bytes: int | None
    version: str


def download(
    url: str,
    target: Path,
    *,
    where: str,
    size_bytes: int | None = None,
    sha256: str | None = None,
    progress: DownloadProgress = no_progress,
    pause_s: float = PAUSE_S,
) -> None:
    """Fetch a file; of several processes, one does and the others wait for it.

    size_bytes, sha256 (hex): what it must be. Raises FileMissing where the server has no such file, Unobtainable
    where none could be reached, else CorpusError.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked(target):
            if not target.is_file():
                _fetch(url, target, where, size_bytes, sha256, progress, pause_s)
    except OSError as error:
        raise CorpusError(
            f"cannot write {target}: {error.strerror or error}",
            where=where,
            hint="free some space, or set ESBENCH_HOME to another disk",
        ) from error


def fetch_lines(
    url: str,
    count: int,
    *,
    where: str,
    size_bytes: int | None = None,
    progress: DownloadProgress = no_progress,
    pause_s: float = PAUSE_S,
) -> list[bytes]:
    """The first `count` lines of a file, unpacked, or all that it has; no more of it is fetched than these need.

    size_bytes: what the whole file must have. Raises as `download`.
    """
    for failures in range(1, ATTEMPTS + 1):
        try:
            return _lines_once(url, count, where, size_bytes, progress)
        except _Interrupted as error:
            if failures == ATTEMPTS:
                raise _given_up(url, where, error, "check the network and its proxy settings") from error
            time.sleep(pause_s * 2 ** (failures - 1))
    raise AssertionError


def _lines_once(url: str, count: int, where: str, size_bytes: int | None, progress: DownloadProgress) -> list[bytes]:
    name = PurePosixPath(urlsplit(url).path).name
    with _opened(url, 0, "", where) as stream:
        _check_size(url, stream, size_bytes, where)
        with (
            progress(f"the beginning of {name}", 0) as advance,
            io.BufferedReader(_Chunks(stream.chunks, advance)) as packed,
            open_documents(Path(name), where, packed) as file,
        ):
            return list(islice(file, count))


class _Chunks(io.RawIOBase):
    """Chunks of bytes as a file; `advance` is told of those that were needed."""

    def __init__(self, chunks: Iterator[bytes], advance: Callable[[int], None]) -> None:
        self._chunks = chunks
        self._advance = advance
        self._left = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        if not self._left:
            self._left = memoryview(next(self._chunks, b""))
            self._advance(len(self._left))
        count = min(len(buffer), len(self._left))
        buffer[:count] = self._left[:count]
        self._left = self._left[count:]
        return count


def shown(url: str) -> str:
    """A URL without what may be secret in it: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _fetch(
    url: str,
    target: Path,
    where: str,
    size_bytes: int | None,
    sha256: str | None,
    progress: DownloadProgress,
    pause_s: float,
) -> None:
    partial = target.with_name(f"{target.name}.partial")
    failures = 0
    while True:
        before = _length(partial)
        try:
            _fetch_once(url, partial, where, size_bytes, progress)
            break
        except _Interrupted as error:
            failures = 1 if _length(partial) > before else failures + 1
            if failures == ATTEMPTS:
                hint = "check the network and its proxy settings; the next race goes on where this one stopped"
                raise _given_up(url, where, error, hint) from error
            time.sleep(pause_s * 2 ** (failures - 1))
    if sha256 is not None and (found := _sha256(partial)) != sha256.lower():
        _forget(partial)
        raise CorpusError(
            f"{shown(url)} has sha256 {found}, not {sha256}",
            where=where,
            hint='nothing was kept; correct "sha256", or look for a proxy that alters files',
        )
    partial.replace(target)
    _forget(partial)


def _fetch_once(url: str, partial: Path, where: str, size_bytes: int | None, progress: DownloadProgress) -> None:
    """Append what is missing; raises _Interrupted when it did not end well."""
    note = _version_file(partial)
    version = note.read_text() if note.is_file() else ""
    start = _length(partial) if version else 0
    with _opened(url, start, version, where) as stream:
        try:
            _check_size(url, stream, size_bytes, where)
        except CorpusError:
            _forget(partial)
            raise
        total_bytes = stream.total_bytes if stream.total_bytes is not None else size_bytes
        _check_space(partial, (total_bytes or 0) - stream.start, where)
        with (
            partial.open("ab" if stream.start else "wb") as out,
            progress(partial.name.removesuffix(".partial"), total_bytes or 0) as advance,
        ):
            note.write_text(stream.version)  # what was there of another version is gone by now
            advance(stream.start)
            for chunk in stream.chunks:
                out.write(chunk)
                advance(len(chunk))
    if total_bytes is not None and _length(partial) != total_bytes:
        _forget(partial)
        raise _Interrupted(f"it ended after {_length(partial):,} of {total_bytes:,} bytes")


def _check_size(url: str, stream: _Stream, size_bytes: int | None, where: str) -> None:
    if size_bytes is not None and stream.total_bytes not in {None, size_bytes}:
        raise CorpusError(
            f"{shown(url)} has {stream.total_bytes:,} bytes, not {size_bytes:,}",
            where=where,
            hint='correct "compressed-bytes", or get the file elsewhere',
        )


def _given_up(url: str, where: str, error: _Interrupted, hint: str) -> Unobtainable:
    return Unobtainable(f"{shown(url)} could not be downloaded: {error}", where=where, hint=hint)


def _opened(url: str, start: int, version: str, where: str) -> AbstractContextManager[_Stream]:
    opener = _http if urlsplit(url).scheme in {"http", "https"} else _object_store
    return opener(url, start, version, where)


@contextmanager
def _http(url: str, start: int, version: str, where: str) -> Iterator[_Stream]:
    """`Range` with `If-Range` gives the rest of the same version, else all of the new one (RFC 9110, 13.1.5, 14.2)."""
    from urllib3 import Timeout, make_headers
    from urllib3.exceptions import HTTPError
    from urllib3.util import Retry

    headers = {"Accept-Encoding": "identity", "User-Agent": "esbench"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    parts = urlsplit(url)
    if parts.username:
        headers |= make_headers(basic_auth=f"{parts.username}:{parts.password or ''}")
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    try:
        with _pool(url) as pool:
            response = pool.request(
                "GET",
                url,
                headers=headers,
                preload_content=False,
                decode_content=False,
                timeout=Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
                retries=Retry(total=10, connect=0, read=0, status=0, other=0, redirect=10),
            )
            try:
                yield _stream_of(response, start, version, url, where)
            finally:
                response.close()
    except HTTPError as error:
        raise _Interrupted(_reason(error)) from error


def _stream_of(response: BaseHTTPResponse, start: int, version: str, url: str, where: str) -> _Stream:
    status, headers = response.status, response.headers
    length = headers.get("Content-Length", "")
    etag = headers.get("ETag", "")
    now_version = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
    chunks = response.stream(CHUNK_BYTES, decode_content=False)
    if status == 206 and start:
        place, _, total = headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        if place.partition("-")[0] != str(start):
            raise CorpusError(f"{shown(url)} answered with another range than was asked for", where=where)
        return _Stream(chunks, start, int(total) if total.isdigit() else None, version)
    if status == 416 and start:  # nothing is missing: the server says how long the file is
        total = headers.get("Content-Range", "").rpartition("/")[2]
        return _Stream(iter(()), start, int(total) if total.isdigit() else None, version)
    if status == 200:
        return _Stream(chunks, 0, int(length) if length.isdigit() else None, now_version)
    if status in _MISSING:
        raise FileMissing(f"{shown(url)} cannot be had: the server answered {status} {response.reason}", where=where)
    if status in _TRANSIENT:
        raise _Interrupted(f"the server answered {status} {response.reason}")
    raise CorpusError(f"{shown(url)} cannot be had: the server answered {status} {response.reason}", where=where)


def _pool(url: str) -> PoolManager:
    """A pool that uses the proxy of the environment and trusts the machine's certificates and the public ones."""
    from urllib.request import getproxies, proxy_bypass

    from urllib3 import PoolManager, ProxyManager

    from esbench.cluster.options import ClientOptions

    context = ClientOptions(use_ssl=True).ssl_context()
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if proxy and not proxy_bypass(parts.netloc):
        return ProxyManager(proxy if "://" in proxy else f"http://{proxy}", ssl_context=context)
    return PoolManager(ssl_context=context)


@contextmanager
def _object_store(url: str, start: int, version: str, where: str) -> Iterator[_Stream]:
    """s3:// and gs:// through fsspec, with the credentials that its packages find."""
    scheme = urlsplit(url).scheme
    package = _PACKAGES.get(scheme, "")
    try:
        fsspec = import_module("fsspec")
        import_module(package)
    except ImportError:
        raise CorpusError(
            f"{scheme}:// needs the packages fsspec and {package}", where=where, hint=f"pip install 'esbench[{scheme}]'"
        ) from None
    try:
        files, path = fsspec.core.url_to_fs(url)
        facts = files.info(path)
        now_version = str(facts.get("ETag") or facts.get("etag") or facts.get("LastModified") or "")
        start = start if now_version and version == now_version else 0
        with files.open(path, "rb") as file:
            file.seek(start)
            yield _Stream(iter(lambda: file.read(CHUNK_BYTES), b""), start, int(facts["size"]), now_version)
    except FileNotFoundError as error:
        raise FileMissing(f"{shown(url)} cannot be had: there is no such file", where=where) from error
    except CorpusError:
        raise
    except Exception as error:  # each package raises its own kinds
        of_network = isinstance(error, ConnectionError | TimeoutError)
        if isinstance(error, OSError) and error.errno is not None and not of_network:
            raise  # of the disk
        raise _Interrupted(_reason(error)) from error


def _reason(error: Exception) -> str:
    """One line about a network's error: the innermost one says it best."""
    cause: BaseException = error
    while (inner := getattr(cause, "reason", None) or cause.__cause__) is not None and isinstance(inner, BaseException):
        cause = inner
    if isinstance(cause, http.client.IncompleteRead):
        return "the answer ended too early"
    return reason_of(cause).partition("\n")[0][:200]


@contextmanager
def _locked(target: Path) -> Iterator[None]:
    with target.with_name(f".{target.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _check_space(partial: Path, missing_bytes: int, where: str) -> None:
    free = shutil.disk_usage(partial.parent).free
    if missing_bytes > free:
        raise CorpusError(
            f"{partial.name.removesuffix('.partial')} needs {format_bytes(missing_bytes)} more, "
            f"and {partial.parent} has {format_bytes(free)}",
            where=where,
            hint="free some space, or set ESBENCH_HOME to another disk",
        )


def _length(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _version_file(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.version")


def _forget(partial: Path) -> None:
    partial.unlink(missing_ok=True)
    _version_file(partial).unlink(missing_ok=True)
