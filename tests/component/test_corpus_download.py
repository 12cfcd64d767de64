"""Document files over real sockets: whole, resumed, checked, from a mirror, or one clear error."""

from __future__ import annotations

import base64
import bz2
import gzip
import hashlib
import io
import os
import ssl
import tarfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trustme
import zstandard
from file_server import FileServer, serve_files
from raw_server import CLOSE, Action, RawServer, Request, reply

from esbench.corpus.download import _PACKAGES, FileMissing, download, fetch_lines
from esbench.corpus.locate import check_mirror
from esbench.corpus.preparation import Origin, PreparedDocuments, prepare
from esbench.errors import CorpusError, UsageError
from esbench.model import Corpus, Documents

CONTENT = os.urandom(3_000_000)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "127.0.0.1")


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serve_files({"/files/d.bin": CONTENT}) as running:
        yield running


class Bar:
    """Hears how far a download is."""

    def __init__(self) -> None:
        self.begun: list[tuple[str, int]] = []
        self.done = 0

    @contextmanager
    def __call__(self, name: str, total_bytes: int) -> Iterator[Any]:
        self.begun.append((name, total_bytes))
        self.done = 0
        yield self.advance

    def advance(self, count: int) -> None:
        self.done += count


def fetch(server: FileServer, target: Path, **options: Any) -> None:
    download(f"{server.url}/files/d.bin", target, where="here", pause_s=0.001, **options)


def test_a_file_is_fetched_once_with_progress(server: FileServer, tmp_path: Path) -> None:
    bar = Bar()
    target = tmp_path / "new" / "d.bin"
    for _ in range(2):
        fetch(server, target, progress=bar, size_bytes=len(CONTENT), sha256=hashlib.sha256(CONTENT).hexdigest())
    assert target.read_bytes() == CONTENT
    assert (bar.begun, bar.done) == ([("d.bin", len(CONTENT))], len(CONTENT))
    assert len(server.asked) == 1
    assert not list(target.parent.glob("*.partial*"))


def test_a_download_that_breaks_goes_on_where_it_stopped(server: FileServer, tmp_path: Path) -> None:
    bar = Bar()
    server.cuts = [1_000_000, 500_000]
    fetch(server, tmp_path / "d.bin", progress=bar)
    assert (tmp_path / "d.bin").read_bytes() == CONTENT
    starts = [int((asked or "bytes=0-").removeprefix("bytes=").removesuffix("-")) for _, asked, _ in server.asked]
    assert starts[0] == 0 < starts[1] <= 1_000_000 < starts[2] <= 1_500_000
    assert bar.done == len(CONTENT)


def test_the_next_race_goes_on_where_this_one_stopped(server: FileServer, tmp_path: Path) -> None:
    server.cuts = [1_000_000]
    server.statuses = [200, 503, 503, 503, 503, 503]
    with pytest.raises(CorpusError, match=r"could not be downloaded: .*503.*the next race resumes it"):
        fetch(server, tmp_path / "d.bin")
    assert not (tmp_path / "d.bin").exists()
    server.statuses = []
    fetch(server, tmp_path / "d.bin")
    assert (tmp_path / "d.bin").read_bytes() == CONTENT
    assert server.asked[-1][1] not in {None, "bytes=0-"}


@pytest.mark.parametrize(("etag", "has_ranges"), [('"two"', True), ('"one"', False), ("", True)])
def test_another_version_or_a_server_without_ranges_starts_over(
    server: FileServer, tmp_path: Path, etag: str, has_ranges: bool
) -> None:
    (tmp_path / "d.bin.partial").write_bytes(b"of another version")
    (tmp_path / "d.bin.partial.version").write_text('"one"')
    server.etag, server.has_ranges = etag, has_ranges
    fetch(server, tmp_path / "d.bin")
    assert (tmp_path / "d.bin").read_bytes() == CONTENT


def test_a_partial_file_that_is_whole_is_taken(server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "d.bin.partial").write_bytes(CONTENT)
    (tmp_path / "d.bin.partial.version").write_text(server.etag)
    fetch(server, tmp_path / "d.bin")
    assert (tmp_path / "d.bin").read_bytes() == CONTENT


def test_a_wrong_size_is_told_before_anything_is_fetched(server: FileServer, tmp_path: Path) -> None:
    bar = Bar()
    with pytest.raises(CorpusError, match=r'has 3,000,000 bytes, not 5.*"compressed-bytes"'):
        fetch(server, tmp_path / "d.bin", size_bytes=5, progress=bar)
    assert bar.begun == []


def test_a_wrong_sum_leaves_nothing(server: FileServer, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="has sha256"):
        fetch(server, tmp_path / "d.bin", sha256="0" * 64)
    assert not list(tmp_path.glob("d.bin*"))


@pytest.mark.parametrize("status", [403, 404, 410])
def test_a_file_that_is_not_there_is_said_to_be_missing(server: FileServer, tmp_path: Path, status: int) -> None:
    server.statuses = [status]
    with pytest.raises(FileMissing, match=f"the server answered {status}"):
        fetch(server, tmp_path / "d.bin")


def test_a_refused_connection_is_one_line_without_secrets(tmp_path: Path) -> None:
    with pytest.raises(CorpusError) as caught:
        download("http://me:secret@127.0.0.1:1/d?key=secret", tmp_path / "d", where="here", pause_s=0.001)
    assert str(caught.value).startswith("here: http://127.0.0.1:1/d could not be downloaded: ")
    assert "refused" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_the_user_of_a_url_is_sent_as_its_header(server: FileServer, tmp_path: Path) -> None:
    download(server.url.replace("//", "//me:pass@") + "/files/d.bin", tmp_path / "d", where="here")
    assert server.asked[0][2] == "Basic bWU6cGFzcw=="


def test_user_and_password_of_a_url_are_decoded(server: FileServer, tmp_path: Path) -> None:
    download(server.url.replace("//", "//m%C3%A9:p%40ss@") + "/files/d.bin", tmp_path / "d", where="here")
    assert server.asked[0][2] == f"Basic {base64.b64encode('mé:p@ss'.encode()).decode()}"


def test_a_proxy_gets_the_user_and_password_of_its_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(number: int, request: Request) -> list[bytes]:
        asked.append((request.target, request.headers["Proxy-Authorization"], request.headers["Authorization"]))
        return [reply(b"content")]

    with RawServer(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//me:p%40ss@"))
        download("http://corpora.invalid/d", tmp_path / "d", where="here")
    assert asked == [("http://corpora.invalid/d", f"Basic {base64.b64encode(b'me:p@ss').decode()}", None)]


def test_of_two_at_once_one_downloads(server: FileServer, tmp_path: Path) -> None:
    threads = [threading.Thread(target=fetch, args=(server, tmp_path / "d.bin")) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (tmp_path / "d.bin").read_bytes() == CONTENT
    assert len(server.asked) == 1


@pytest.mark.parametrize("scheme", ["s3", "gs"])
def test_object_stores_name_their_extra(tmp_path: Path, scheme: str) -> None:
    with pytest.raises(CorpusError, match=rf"{scheme}:// needs the packages .*pip install '\.\[{scheme}\]'"):
        download(f"{scheme}://bucket/d", tmp_path / "d", where="here")


def test_object_stores_are_read_through_fsspec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    monkeypatch.setitem(_PACKAGES, "memory", "fsspec")  # a store that needs no account
    with fsspec.open("memory://bucket/d.bin", "wb") as out:
        out.write(CONTENT)
    download("memory://bucket/d.bin", tmp_path / "d.bin", where="here", size_bytes=len(CONTENT))
    assert (tmp_path / "d.bin").read_bytes() == CONTENT
    with pytest.raises(FileMissing, match=r"memory://bucket/e.bin cannot be downloaded: there is no such file"):
        download("memory://bucket/e.bin", tmp_path / "e.bin", where="here")


def documents(count: int) -> bytes:
    return b"".join(b'{"n":%d}\n' % number for number in range(count))


def prepared(folder: Path, origin: Origin, **keys: Any) -> PreparedDocuments:
    part = Documents(**{"document_count": 2000, "source_file": "d.json.bz2", **keys})
    return prepare([Corpus("c", (part,))], cache=folder / "cache", track_dir=folder, origin=origin)[0]


def test_a_corpus_is_downloaded_into_its_folder_of_the_cache(tmp_path: Path) -> None:
    with serve_files({"/noaa/d.json.bz2": bz2.compress(documents(2000))}) as server:
        found = prepared(tmp_path, Origin(), base_url=f"{server.url}/noaa/")
        assert found.path.read_bytes().splitlines()[1::2] == documents(2000).splitlines()
        assert (tmp_path / "cache" / "c" / "d.json.bz2").is_file()
        assert prepared(tmp_path, Origin(offline=True), base_url=f"{server.url}/noaa") == found
    assert len(server.asked) == 1


def test_a_source_url_names_the_file(tmp_path: Path) -> None:
    with serve_files({"/any/e.json": documents(5)}) as server:
        found = prepared(
            tmp_path, Origin(), source_url=f"{server.url}/any/e.json?x=1", source_file=None, document_count=5
        )
    assert found.document_count == 5
    assert (tmp_path / "cache" / "c" / "e.json").is_file()


@pytest.mark.parametrize("suffix", ["", "/"])
def test_a_mirror_takes_the_place_of_scheme_and_host(tmp_path: Path, suffix: str) -> None:
    with serve_files({"/copies/noaa/d.json.bz2": bz2.compress(documents(2000))}) as server:
        origin = Origin(mirror=f"{server.url}/copies{suffix}")
        assert prepared(tmp_path, origin, base_url="https://corpora.invalid/noaa").document_count == 2000


def test_a_mirror_may_be_a_folder_whose_files_are_used_in_place(tmp_path: Path) -> None:
    folder = tmp_path / "a mirror" / "noaa"
    folder.mkdir(parents=True)
    (folder / "d.json.bz2").write_bytes(bz2.compress(documents(2000)))
    origin = Origin(mirror=str(folder.parent), offline=True)
    assert prepared(tmp_path, origin, base_url="s3://bucket/noaa").document_count == 2000
    with pytest.raises(CorpusError, match=f'no document file "e.json.bz2" in {folder}'):
        prepared(tmp_path, origin, base_url="s3://bucket/noaa", source_file="e.json.bz2")


def test_a_sample_is_the_published_small_file_else_the_head_of_the_full_one(tmp_path: Path) -> None:
    small, full = bz2.compress(documents(1500)), bz2.compress(documents(2000))
    sampled = {"document_count": None, "sample": 1000, "compressed_bytes": len(full)}
    with serve_files({"/d.json.bz2": full, "/d-1k.json.bz2": small}) as server:
        first = prepared(tmp_path / "one", Origin(), base_url=server.url, **sampled)
        del server.files["/d-1k.json.bz2"]
        second = prepared(tmp_path / "two", Origin(), base_url=server.url, **sampled)
        paths = [path for path, _, _ in server.asked]
    assert paths == ["/d-1k.json.bz2", "/d-1k.json.bz2", "/d.json.bz2"]
    assert first.document_count == second.document_count == 1000
    assert second.path.read_bytes().splitlines()[1::2] == documents(1000).splitlines()


NOISE = os.urandom(20_000).hex()  # hardly packed: a document of 40 KB


@pytest.mark.parametrize("ending", ["", ".bz2", ".gz", ".zst", ".tar.gz"])
def test_of_a_large_file_only_the_beginning_is_fetched_for_its_first_documents(tmp_path: Path, ending: str) -> None:
    lines = documents(1000) + b'{"s":"%b"}\n' % NOISE.encode() * 60
    if ending == ".tar.gz":
        with tarfile.open(fileobj=(packed := io.BytesIO()), mode="w") as tar:
            entry = tarfile.TarInfo("d.json")
            entry.size = len(lines)
            tar.addfile(entry, io.BytesIO(lines))
        whole = gzip.compress(packed.getvalue(), 0)
    else:
        store: dict[str, Any] = {"": bytes, ".bz2": bz2.compress, ".zst": zstandard.compress}
        store[".gz"] = partial(gzip.compress, compresslevel=0)
        whole = store[ending](lines)
    keys: dict[str, Any] = {"document_count": None, "sample": 1000, "source_file": f"d.json{ending}"}
    with serve_files({f"/d.json{ending}": whole}) as server:
        server.cuts = [len(whole) // 2] if ending in {"", ".gz", ".tar.gz"} else []  # nobody has asked for the rest
        found = prepared(tmp_path, Origin(), base_url=server.url, **keys)
        assert found.path.read_bytes().splitlines()[1::2] == documents(1000).splitlines()
        asked = [path for path, _, _ in server.asked]
        assert asked == [f"/d-1k.json{ending}", f"/d.json{ending}"]
    folder = tmp_path / "cache" / "c"
    assert {path.name for path in folder.glob("d*") if path.is_file()} == {"d-1k.json"}
    assert prepared(tmp_path, Origin(offline=True), base_url=server.url, **keys).document_count == 1000


def test_the_first_documents_come_with_their_own_action_lines(tmp_path: Path) -> None:
    text = b"".join(b'{"index":{}}\n{"n":%d}\n' % number for number in range(2000))
    keys: dict[str, Any] = {"document_count": None, "sample": 1000, "includes_action_and_meta_data": True}
    with serve_files({"/d.json.bz2": bz2.compress(text)}) as server:
        found = prepared(tmp_path, Origin(), base_url=server.url, **keys)
    assert found.path.read_bytes() == b"".join(text.splitlines(keepends=True)[:2000])


def test_of_a_zip_archive_everything_is_fetched(tmp_path: Path) -> None:
    with zipfile.ZipFile(packed := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("d.json", documents(2000))
    keys: dict[str, Any] = {"document_count": None, "sample": 1000, "source_file": "d.json.zip"}
    with serve_files({"/d.json.zip": packed.getvalue()}) as server:
        assert prepared(tmp_path, Origin(), base_url=server.url, **keys).document_count == 1000
    assert (tmp_path / "cache" / "c" / "d.json.zip").is_file()


def test_the_first_documents_of_a_file_of_another_size_are_refused(tmp_path: Path) -> None:
    keys: dict[str, Any] = {"document_count": None, "sample": 1000, "compressed_bytes": 5}
    wrong = pytest.raises(CorpusError, match=r'bytes, not 5 \(correct "compressed-bytes"')
    with serve_files({"/d.json.bz2": bz2.compress(documents(2000))}) as server, wrong:
        prepared(tmp_path, Origin(), base_url=server.url, **keys)


def test_a_beginning_that_breaks_is_fetched_once_more(server: FileServer) -> None:
    server.files = {"/d.json": documents(2000)}
    server.cuts, server.statuses = [100], [503]
    lines = fetch_lines(f"{server.url}/d.json", 1000, where="here", pause_s=0.001)
    assert lines == documents(1000).splitlines(keepends=True)
    assert len(server.asked) == 3
    server.statuses = [503] * 4
    with pytest.raises(CorpusError, match=r"d.json could not be downloaded: .*503"):
        fetch_lines(f"{server.url}/d.json", 1000, where="here", pause_s=0.001)


def test_what_cannot_be_had_says_what_else_can_be_done(tmp_path: Path) -> None:
    with serve_files({}) as server, pytest.raises(CorpusError) as caught:
        prepared(tmp_path, Origin(), base_url=server.url)
    for remedy in ("404", str(tmp_path / "cache" / "c"), "ESBENCH_CORPUS_MIRROR", "--synthetic-corpus"):
        assert remedy in str(caught.value)


def test_a_mirror_that_means_nothing_is_wrong_usage(tmp_path: Path) -> None:
    assert check_mirror(str(tmp_path), "M") == str(tmp_path)
    with pytest.raises(UsageError, match=r"M: user and password cannot be read .in a password") as caught:
        check_mirror("https://me:12/secret@h/x", "M")
    assert "secret" not in str(caught.value)
    assert check_mirror("https://h/x", "M") == "https://h/x"
    with pytest.raises(UsageError, match="M: ftp:// cannot be downloaded from"):
        check_mirror("ftp://h/x", "M")
    with pytest.raises(UsageError, match=f'M: there is no folder "{tmp_path}/x"'):
        check_mirror(f"{tmp_path}/x", "M")


def test_no_redirect_leads_from_https_to_http(
    server: FileServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority, context = trustme.CA(), ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(tmp_path / "ca.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
    moved = reply(b"", "302 Found", f"Location: {server.url}/files/d.bin")
    with RawServer(lambda number, request: [moved], tls=context) as secure:
        for fetched in (
            lambda: fetch_lines(f"{secure.url}/d.bin", 1, where="here"),
            lambda: download(f"{secure.url}/d.bin", tmp_path / "d.bin", where="here"),
        ):
            with pytest.raises(CorpusError, match=r"d\.bin leads from https to http"):
                fetched()
    assert not (tmp_path / "d.bin").exists()


def test_a_file_that_does_not_end_is_left_at_its_stated_size(tmp_path: Path) -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    endless = [head, *[b"100000\r\n" + bytes(1 << 20) + b"\r\n"] * 64]
    with (
        RawServer(lambda number, request: endless) as server,
        pytest.raises(CorpusError, match=r"/d\.bin has more than 2,000,000 bytes"),
    ):
        download(f"{server.url}/d.bin", tmp_path / "d.bin", where="here", size_bytes=2_000_000)
    assert [path.name for path in tmp_path.iterdir()] == [".d.bin.lock"]


def test_a_file_that_ends_before_its_stated_size_is_refused_at_once(tmp_path: Path) -> None:
    asked = []

    def answer(number: int, request: Request) -> Sequence[Action]:
        asked.append(request.target)
        return [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"]

    message = r"/d\.bin has 3 bytes, not 2,000 \(correct \"compressed-bytes\", or get the file elsewhere\)"
    with RawServer(answer) as server, pytest.raises(CorpusError, match=message):
        download(f"{server.url}/d.bin", tmp_path / "d.bin", where="here", size_bytes=2000, pause_s=0.001)
    assert len(asked) == 1
    assert [path.name for path in tmp_path.iterdir()] == [".d.bin.lock"]


def test_attempts_that_begin_again_and_bring_no_more_than_before_end(tmp_path: Path) -> None:
    asked = []

    def answer(number: int, request: Request) -> Sequence[Action]:
        asked.append(request.target)
        return [reply(bytes(2000))[: -1000 if number % 2 else -1500], CLOSE]

    with RawServer(answer) as server, pytest.raises(CorpusError, match=r"could not be downloaded: .*ended too early"):
        download(f"{server.url}/d.bin", tmp_path / "d.bin", where="here", pause_s=0.001)
    assert len(asked) == 5, "500 bytes, 1,000 bytes, and three that bring no more"
