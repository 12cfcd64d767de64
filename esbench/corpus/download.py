"""Download of files over http(s), s3 and gs: a file gets its name only when it is whole and its size and sum are right.

An interrupted download stays beside the target as `NAME.partial`, with the version that the server gave it in
`NAME.partial.version`: the next attempt, or the next race, continues it if the server still has that version.
"""

from __future__ import annotations

import fcntl
import hashlib
import http.client
import io
import re
import shutil
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib import import_module
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from esbench.corpus.archives import ChunkReader, open_documents
from esbench.corpus.cache import check_reserve, write_errors
from esbench.errors import FREE_SPACE, CorpusError, hint_to_install
from esbench.errors.reasons import reason_of
from esbench.record.private import open_private, private_folder
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
_OTHER_SIZE = 'correct "compressed-bytes", or get the file elsewhere'
_PACKAGES = {"s3": "s3fs", "gs": "gcsfs"}
SCHEMES = ("http", "https", *_PACKAGES)

T = TypeVar("T")


# Shows a download: called with a file's name and total bytes (0: unknown), it returns a context manager that yields a
# function to call with the size of each chunk.
DownloadProgress = Callable[[str, int], AbstractContextManager[Callable[[int], None]]]


def no_progress(name: str, total_bytes: int) -> AbstractContextManager[Callable[[int], None]]:
    """A DownloadProgress that shows nothing."""
    return nullcontext(lambda count: None)


class Unobtainable(CorpusError):  # noqa: N818 - it names what happened; whether it is an error, the caller knows
    """Error: the file cannot be obtained at present."""


class FileMissing(Unobtainable):
    """Error: the server has no such file."""


class _Interrupted(Exception):  # noqa: N818
    """Error: the connection was lost or could not be made; a further attempt may succeed."""


@dataclass(frozen=True)
class _Stream:
    """The content of a file from byte `start` on; `version` is "" if the server states none."""

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
    """Download a file to `target`, unless it exists; of several processes, one downloads and the others wait for it.

    size_bytes, sha256 (hex): the values that the file must have; a file that exists is not checked. pause_s: before the
    second attempt, doubled for each further one. Raises FileMissing if the server has no such file, Unobtainable if it
    could not be reached, else CorpusError: another size or sum, no room on the disk, a package that is missing.
    """
    partial = target.with_name(f"{target.name}.partial")
    with write_errors(target, where):
        private_folder(target.parent)
        with target.with_name(f".{target.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if target.is_file():
                return
            _repeated(
                lambda: _append(url, partial, where, size_bytes, progress),
                url,
                where,
                "check the network and its proxy settings; the next race resumes it",
                pause_s,
                length=lambda: _length(partial),
            )
            if sha256 is not None:
                _check_sum(url, partial, sha256, where)
            partial.replace(target)
            _forget(partial)


def fetch_lines(
    url: str,
    count: int,
    *,
    where: str,
    size_bytes: int | None = None,
    progress: DownloadProgress = no_progress,
    pause_s: float = PAUSE_S,
) -> list[bytes]:
    """Download the first `count` lines of a file, unpacked, or all if it has fewer; no more of it than they need.

    Lines keep their ends. size_bytes: the size that the whole file must have, as it is on the server. Raises as
    `download`, and CorpusError for a damaged archive.
    """
    hint = "check the network and its proxy settings"
    return _repeated(lambda: _first_lines(url, count, where, size_bytes, progress), url, where, hint, pause_s)


def _repeated(
    attempt: Callable[[], T], url: str, where: str, hint: str, pause_s: float, length: Callable[[], int] = lambda: 0
) -> T:
    """Call `attempt` until it is not _Interrupted; raises Unobtainable after ATTEMPTS in a row that bring nothing.

    length: the bytes that are kept of all attempts; an attempt brings something if they are more than ever before.
    """
    failures, most = 0, length()
    while True:
        try:
            return attempt()
        except _Interrupted as error:
            now = length()
            failures, most = (1, now) if now > most else (failures + 1, most)
            if failures == ATTEMPTS:
                raise Unobtainable(f"{shown(url)} could not be downloaded: {error}", where=where, hint=hint) from error
            time.sleep(pause_s * 2 ** (failures - 1))


def _first_lines(url: str, count: int, where: str, size_bytes: int | None, progress: DownloadProgress) -> list[bytes]:
    name = PurePosixPath(urlsplit(url).path).name
    with _opened(url, 0, "", where) as stream:
        _check_size(url, stream, size_bytes, where)
        with (
            progress(f"the beginning of {name}", 0) as advance,
            io.BufferedReader(ChunkReader(_counted(stream.chunks, advance))) as packed,
            open_documents(Path(name), where, packed) as file,
        ):
            return list(islice(file, count))


def _counted(chunks: Iterator[bytes], advance: Callable[[int], None]) -> Iterator[bytes]:
    for chunk in chunks:
        advance(len(chunk))
        yield chunk


def shown(url: str) -> str:
    """Return a URL for display, without the parts that may be secret: user, password and query."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _append(url: str, partial: Path, where: str, size_bytes: int | None, progress: DownloadProgress) -> None:
    """Append the missing bytes to the partial file; raises _Interrupted if the download broke off."""
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
            open_private(partial, "ab" if stream.start else "wb") as out,
            progress(partial.name.removesuffix(".partial"), total_bytes or 0) as advance,
        ):
            note.write_text(stream.version)  # what was there of another version is gone by now
            advance(stream.start)
            for chunk in stream.chunks:
                if total_bytes is None:
                    _keep_reserve(partial, where)
                out.write(chunk)
                advance(len(chunk))
                if total_bytes is not None and out.tell() > total_bytes:
                    break
    length = _length(partial)
    if total_bytes is not None and length != total_bytes:
        _forget(partial)
        what = f"more than {total_bytes:,} bytes" if length > total_bytes else f"{length:,} bytes, not {total_bytes:,}"
        raise CorpusError(f"{shown(url)} has {what}", where=where, hint=_OTHER_SIZE)


def _check_size(url: str, stream: _Stream, size_bytes: int | None, where: str) -> None:
    if size_bytes is not None and stream.total_bytes not in {None, size_bytes}:
        raise CorpusError(
            f"{shown(url)} has {stream.total_bytes:,} bytes, not {size_bytes:,}",
            where=where,
            hint=_OTHER_SIZE,
        )


def _check_sum(url: str, partial: Path, sha256: str, where: str) -> None:
    with partial.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256.lower():
        _forget(partial)
        raise CorpusError(
            f"{shown(url)} has sha256 {found}, not {sha256}",
            where=where,
            hint='nothing was kept; correct "sha256", or look for a proxy that alters files',
        )


def _opened(url: str, start: int, version: str, where: str) -> AbstractContextManager[_Stream]:
    opener = _http if urlsplit(url).scheme in {"http", "https"} else _object_store
    return opener(url, start, version, where)


@contextmanager
def _http(url: str, start: int, version: str, where: str) -> Iterator[_Stream]:
    """Open a file over http(s): the rest if the server still has `version`, else all of the new one.

    By `Range` with `If-Range` (RFC 9110, 13.1.5, 14.2).
    """
    from urllib3 import Timeout
    from urllib3.exceptions import HTTPError
    from urllib3.util import Retry

    headers = {"Accept-Encoding": "identity", "User-Agent": "esbench"}
    if start:
        headers |= {"Range": f"bytes={start}-", "If-Range": version}
    headers |= _credentials(url, "Authorization")
    parts = urlsplit(url)
    url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
    try:
        with _pool(url) as pool:
            try:
                response = pool.request(
                    "GET",
                    url,
                    headers=headers,
                    preload_content=False,
                    decode_content=False,
                    timeout=Timeout(connect=CONNECT_TIMEOUT_S, read=READ_TIMEOUT_S),
                    retries=Retry(total=10, connect=0, read=0, status=0, other=0, redirect=10),
                )
            except ValueError as error:
                raise CorpusError(
                    f"{shown(url)} redirects to something that is not a URL: {_reason(error)}", where=where
                ) from error
            try:
                _check_redirects(url, response, where)
                yield _stream_of(response, start, version, url, where)
            finally:
                response.close()
    except HTTPError as error:
        raise _Interrupted(_reason(error)) from error


def _credentials(url: str, header: str) -> dict[str, str]:
    """Return the header that gives user and password of a URL; empty if it names no user."""
    parts = urlsplit(url)
    if not parts.username:
        return {}
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return {header: f"Basic {b64encode(pair.encode()).decode()}"}


def _check_redirects(url: str, response: BaseHTTPResponse, where: str) -> None:
    """Raise CorpusError if a file that was asked for over https comes over http, where anybody may alter it."""
    hops = [hop.redirect_location or "" for hop in response.retries.history] if response.retries else []
    if url.startswith("https:") and any(urlsplit(hop).scheme == "http" for hop in hops):
        raise CorpusError(f"{shown(url)} leads from https to http", where=where, hint="get the file elsewhere")


def _stream_of(response: BaseHTTPResponse, start: int, version: str, url: str, where: str) -> _Stream:
    status, headers = response.status, response.headers
    if start and status in {206, 416}:  # 416: nothing is missing, and the server says how long the file is
        place, _, total = headers.get("Content-Range", "").removeprefix("bytes ").partition("/")
        if status == 206 and place.partition("-")[0] != str(start):
            raise CorpusError(f"{shown(url)} answered with another range than was asked for", where=where)
        chunks = response.stream(CHUNK_BYTES, decode_content=False) if status == 206 else iter(())
        return _Stream(chunks, start, _count(total), version)
    if status == 200:
        etag, length = headers.get("ETag", ""), headers.get("Content-Length", "")
        version = etag if etag and not etag.startswith("W/") else headers.get("Last-Modified", "")
        chunks = response.stream(CHUNK_BYTES, decode_content=False)
        return _Stream(chunks, 0, _count(length), version)
    if status in _TRANSIENT:
        raise _Interrupted(f"the server answered {status} {response.reason}")
    kind = FileMissing if status in _MISSING else CorpusError
    raise kind(f"{shown(url)} cannot be had: the server answered {status} {response.reason}", where=where)


def _count(text: str) -> int | None:
    """Return the number of bytes that a header states, if it is one that a file may have."""
    return int(text) if re.fullmatch("[0-9]{1,18}", text) else None


def _pool(url: str) -> PoolManager:
    """Return a connection pool with the environment's proxy that trusts the machine's and the public certificates.

    Its replies are bounded: their heads, and the time in which each part of them must arrive.
    """
    from urllib.request import getproxies, proxy_bypass

    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool, PoolManager, ProxyManager

    from esbench.cluster.bounded import PacedReply, bounded
    from esbench.cluster.options import ClientOptions

    context = ClientOptions(use_ssl=True).ssl_context()
    parts = urlsplit(url)
    proxy = getproxies().get(parts.scheme)
    if proxy and not proxy_bypass(parts.netloc):
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        credentials = _credentials(proxy, "Proxy-Authorization")
        manager: PoolManager = ProxyManager(proxy, ssl_context=context, proxy_headers=credentials)
    else:
        manager = PoolManager(ssl_context=context)
    manager.pool_classes_by_scheme = {
        pool.scheme: type(pool.__name__, (pool,), {"ConnectionCls": bounded(pool.ConnectionCls, PacedReply)})
        for pool in (HTTPConnectionPool, HTTPSConnectionPool)
    }
    return manager


@contextmanager
def _object_store(url: str, start: int, version: str, where: str) -> Iterator[_Stream]:
    """Open a file at s3:// or gs:// through fsspec, with the credentials that its packages find."""
    scheme = urlsplit(url).scheme
    package = _PACKAGES.get(scheme, "")
    try:
        fsspec = import_module("fsspec")
        import_module(package)
    except ImportError:
        raise CorpusError(
            f"{scheme}:// needs the packages fsspec and {package}", where=where, hint=hint_to_install(scheme)
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
        raise FileMissing(f"{shown(url)} cannot be downloaded: there is no such file", where=where) from error
    except CorpusError:
        raise
    except Exception as error:  # each package raises its own kinds
        of_network = isinstance(error, ConnectionError | TimeoutError)
        if isinstance(error, OSError) and error.errno is not None and not of_network:
            raise  # of the disk
        raise _Interrupted(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Return one line about a network error, from its innermost cause, which is the most specific."""
    cause: BaseException = error
    while (inner := getattr(cause, "reason", None) or cause.__cause__) is not None and isinstance(inner, BaseException):
        cause = inner
    if isinstance(cause, http.client.IncompleteRead):
        return "the answer ended too early"
    return reason_of(cause).partition("\n")[0][:200]


def _check_space(partial: Path, missing_bytes: int, where: str) -> None:
    free = shutil.disk_usage(partial.parent).free
    if missing_bytes > free:
        raise CorpusError(
            f"{partial.name.removesuffix('.partial')} needs {format_bytes(missing_bytes)} more, "
            f"and {partial.parent} has {format_bytes(free)}",
            where=where,
            hint=FREE_SPACE,
        )


def _keep_reserve(partial: Path, where: str) -> None:
    try:
        check_reserve(partial.name.removesuffix(".partial"), partial.parent, where)
    except CorpusError:
        _forget(partial)
        raise


def _length(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0


def _version_file(partial: Path) -> Path:
    return partial.with_name(f"{partial.name}.version")


def _forget(partial: Path) -> None:
    partial.unlink(missing_ok=True)
    _version_file(partial).unlink(missing_ok=True)
