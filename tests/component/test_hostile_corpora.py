"""Hosts of document files that mean harm: whatever they send costs bounded memory and disk, and ends in one line."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import json
import ssl
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import trustme
import zstandard
from raw_server import Action, RawServer, Request, reply

from esbench.corpus import cache, download
from esbench.corpus.preparation import prepare
from esbench.errors import CorpusError
from esbench.model import Corpus, Documents

MB = 1 << 20
OK = b"HTTP/1.1 200 OK\r\n"
BLANKS = b" " * (150 * MB)
LINE = b'{"a":"x"}\n'
TOO_LONG = "is longer than 100.0 MB"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(download, "READ_TIMEOUT_S", 0.5)
    monkeypatch.setitem(cast(dict[str, Any], download.download.__kwdefaults__), "pause_s", 0.001)


def tar(*members: tuple[str, bytes, bytes | str]) -> bytes:
    """A packed tar of (name, type, content or target)."""
    with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w:gz", compresslevel=1) as out:
        for name, kind, content in members:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            if isinstance(content, bytes):
                entry.size = len(content)
                out.addfile(entry, io.BytesIO(content))
            else:
                entry.linkname = content
                out.addfile(entry)
    return packed.getvalue()


def long_header(kind: bytes) -> bytes:
    entry = tarfile.TarInfo("d.json")
    entry.type, entry.size = kind, len(BLANKS)
    return gzip.compress(entry.tobuf(tarfile.GNU_FORMAT) + BLANKS, 1)


def zipped(content: bytes, method: int = zipfile.ZIP_DEFLATED, flag: int = 0) -> bytes:
    with zipfile.ZipFile(packed := io.BytesIO(), "w", method, compresslevel=1) as out:
        out.writestr("d.json", content)
    data = bytearray(packed.getvalue())
    for at in (6, data.find(b"PK\1\2") + 8):
        data[at] |= flag
    return bytes(data)


ARCHIVES: dict[str, tuple[str, Callable[[], bytes], str]] = {  # ending, content, what is said
    "gz bomb": (".gz", lambda: gzip.compress(BLANKS, 1), TOO_LONG),
    "bz2 bomb": (".bz2", lambda: bz2.compress(BLANKS, 1), TOO_LONG),
    "zst bomb": (".zst", lambda: zstandard.compress(BLANKS), TOO_LONG),
    "a wide window": (
        ".zst",
        lambda: b"\x28\xb5\x2f\xfd\x00\x90" + (len(LINE) << 3 | 1).to_bytes(3, "little") + LINE,  # of 256 MB
        "is packed with a window of more than 128 MB (pack it without --long, or with --long=27)",
    ),
    "zip bomb": (".zip", lambda: zipped(BLANKS), TOO_LONG),
    "tar.gz bomb": (".tar.gz", lambda: tar(("d.json", tarfile.REGTYPE, BLANKS)), TOO_LONG),
    "a plain line": ("", lambda: BLANKS, TOO_LONG),
    "a tar's extended header": (".tar.gz", lambda: long_header(tarfile.XHDTYPE), "is damaged: it cannot be unpacked"),
    "a tar's long name": (".tar.gz", lambda: long_header(tarfile.GNUTYPE_LONGNAME), "is damaged"),
    "many folders": (".tar.gz", lambda: tar(*[("x", tarfile.DIRTYPE, b"")] * 10_000), "holds no file"),
    "a symlink": (".tar.gz", lambda: tar(("d.json", tarfile.SYMTYPE, "/etc/passwd")), "holds no file"),
    "a hard link": (".tar.gz", lambda: tar(("d.json", tarfile.LNKTYPE, "../../etc/passwd")), "holds no file"),
    "a device": (".tar.gz", lambda: tar(("d.json", tarfile.FIFOTYPE, "")), "holds no file"),
    "a zip with a password": (".zip", lambda: zipped(LINE, flag=1), "is encrypted, or packed in a way"),
    "a zip of another kind": (".zip", lambda: zipped(LINE, zipfile.ZIP_LZMA), "is encrypted, or packed in a way"),
    "many levels": ("", lambda: b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"\n", "has too many levels"),
}


def refusal(folder: Path, server: RawServer, name: str = "d.json", **keys: Any) -> str:
    """The one line about a file that a server does not have as it should."""
    (folder / "track").mkdir(parents=True)
    part = Documents(**{"document_count": 1, "source_file": name, "base_url": server.url, **keys})
    with pytest.raises(CorpusError) as caught:
        prepare([Corpus("c", (part,))], cache=folder / "cache", track_dir=folder / "track")
    text = str(caught.value)
    assert "\n" not in text
    assert len(text) < 500
    return text


@pytest.mark.parametrize("sample", [None, 1], ids=["whole", "sample"])
@pytest.mark.parametrize("kind", ARCHIVES)
def test_an_archive_costs_bounded_memory(tmp_path: Path, kind: str, sample: int | None) -> None:
    ending, make, expected = ARCHIVES[kind]
    content = make()

    def answer(number: int, request: Request) -> Sequence[Action]:
        return [reply("", "404 Not Found") if "-1k" in request.target else reply(content)]

    with RawServer(answer) as server:
        tracemalloc.start()
        try:
            said = refusal(tmp_path, server, f"d.json{ending}", sample=sample)
            assert tracemalloc.get_traced_memory()[1] < 400 * MB + len(content)
        finally:
            tracemalloc.stop()
    assert expected in said
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != f"d.json{ending}"]
    assert sum(path.stat().st_size for path in kept) < MB


def test_a_name_in_an_archive_that_leads_elsewhere_is_not_used(tmp_path: Path) -> None:
    content = tar(("../../../../evil.json", tarfile.REGTYPE, LINE))
    (tmp_path / "track").mkdir()
    with RawServer(lambda number, request: [reply(content)]) as server:
        part = Documents(1, source_file="d.json.tar.gz", base_url=server.url)
        (found,) = prepare([Corpus("c", (part,))], cache=tmp_path / "cache", track_dir=tmp_path / "track")
    assert found.document_count == 1
    assert not list(tmp_path.parent.rglob("evil.json"))


def without_end(first: bytes, then: bytes) -> Iterable[Action]:
    return itertools.chain([first], itertools.repeat(then))


MOVED = b"HTTP/1.1 302 Found\r\nLocation: /d.json\r\n"
REPLIES: dict[str, tuple[Callable[[], Iterable[Action]], str]] = {
    "chunks": (
        lambda: without_end(OK + b"Transfer-Encoding: chunked\r\n\r\n", b"100000\r\n" + b" " * MB + b"\r\n"),
        'has more than 50 bytes (correct "compressed-bytes"',
    ),
    "to the end": (lambda: without_end(OK + b"\r\n", b" " * MB), "has more than 50 bytes"),
    "another length": (lambda: [reply(LINE)], "has 10 bytes, not 50"),
    "a huge length": (lambda: [OK + b"Content-Length: 1" + b"0" * 17 + b"\r\n\r\n"], "not 50 ("),
    "a length of many digits": (lambda: [OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n{}"], "no answer in time"),
    "a length of other digits": (lambda: [OK + b"Content-Length: \xb2\r\nConnection: close\r\n\r\n{}"], ""),
    "header line": (lambda: without_end(OK + b"X: ", b"a" * MB), "65536 bytes when reading header line"),
    "interim": (lambda: without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 9_999), "no answer in time"),
    "dripping head": (lambda: itertools.chain([OK], itertools.cycle([b"a", 0.1])), "no answer in time"),
    "dripping body": (lambda: itertools.chain([OK + b"\r\n"], itertools.cycle([b"a", 0.1])), "no answer in time"),
    "redirect to itself": (lambda: [reply("", "302 Found", "Location: /d.json")], "too many redirects"),
    "redirect to a file": (
        lambda: [reply("", "302 Found", "Location: file:///etc/passwd")],
        "redirects to something that is not a URL",
    ),
    "redirect to no URL": (
        lambda: [reply("", "302 Found", "Location: http://[::1")],
        "redirects to something that is not a URL",
    ),
    "redirect with a long body": (lambda: without_end(MOVED + b"\r\n", b" " * MB), "could not be downloaded"),
}


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # urllib3 leaves it to the collector
@pytest.mark.parametrize("kind", REPLIES)
def test_a_reply_costs_bounded_disk_and_time(tmp_path: Path, kind: str) -> None:
    actions, expected = REPLIES[kind]
    with RawServer(lambda number, request: cast(Sequence[Action], actions())) as server:
        assert expected in refusal(tmp_path, server, compressed_bytes=50)
    assert sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()) < 5 * MB


@pytest.mark.parametrize("kind", ["download", "archive"])
def test_a_file_of_no_stated_size_stops_before_the_disk_is_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(cache, "RESERVE_BYTES", 1 << 62)
    monkeypatch.setattr(cache, "RESERVE_PART", 1)  # all of the disk

    def answer(number: int, request: Request) -> Sequence[Action]:
        if kind == "archive":
            return [reply(gzip.compress(LINE * 100_000))]
        return cast(Sequence[Action], without_end(OK + b"\r\n", b" " * MB))

    name = "d.json.gz" if kind == "archive" else "d.json"
    with RawServer(answer) as server:
        said = refusal(tmp_path, server, name, document_count=100_000)
    assert f"{name} has no stated size, and would fill the disk" in said
    assert "state its size in the track" in said
    kept = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "d.json.gz"]
    assert sum(path.stat().st_size for path in kept) < MB


def test_a_file_of_a_stated_size_may_take_what_is_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "RESERVE_BYTES", 1 << 62)
    monkeypatch.setattr(cache, "RESERVE_PART", 1)
    (tmp_path / "track").mkdir()
    with RawServer(lambda number, request: [reply(LINE)]) as server:
        part = Documents(1, source_file="d.json", base_url=server.url, uncompressed_bytes=len(LINE))
        (found,) = prepare([Corpus("c", (part,))], cache=tmp_path / "cache", track_dir=tmp_path / "track")
    assert found.document_count == 1


def test_a_file_asked_for_over_https_does_not_come_over_http(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with RawServer(lambda number, request: [reply(json.dumps({"a": 1}))]) as plain:
        moved = reply("", "302 Found", f"Location: {plain.url}/d.json")
        with RawServer(lambda number, request: [moved], tls=context) as server:
            assert "d.json leads from https to http (" in refusal(tmp_path, server)
