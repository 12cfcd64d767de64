"""Servers on disk: unpacked, assembled, opened; built as a whole or not at all; errors of disks in one line."""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import shutil
import tarfile
import threading
import zipfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from plugins import stating_sizes

from esbench.errors import EngineError, UsageError
from esbench.events.progress import Progress
from esbench.features.node.catalog import Artifact, Distribution, JavaNeeds, Module, load_catalog
from esbench.features.node.download import Downloader, is_downloaded
from esbench.features.node.folders import Folders, built_once, disk_errors, is_open_to_all, open_folder
from esbench.features.node.unpacked import assemble, is_assembled, open_local

SERVER = {
    "bin/elasticsearch": b"#!/bin/sh\n",
    "lib/elasticsearch-7.5.0.jar": b"old",
    "config/jvm.options": b"-Xms1g\n",
    "modules/transport-netty4/plugin-descriptor.properties": b"version=7.5.0\nelasticsearch.version=7.5.0\nname=t\n",
    "modules/analysis-common/a.jar": b"a",
}


def zip_of(files: dict[str, bytes], top: str = "elasticsearch-7.5.0") -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(f"{top}/{name}")
            entry.external_attr = (0o755 if name.startswith("bin/") else 0o600) << 16
            archive.writestr(entry, content)
    return buffer.getvalue()


def cached(cache: Path, name: str, content: bytes, packaging: str = "jar") -> Artifact:
    artifact = Artifact("g", name, "1", packaging, hashlib.sha256(content).hexdigest())
    path = cache / artifact.cached_as
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return artifact


@pytest.fixture
def distribution(tmp_path: Path) -> Distribution:
    cache = tmp_path / "cache"
    painless = Module(
        "lang-painless",
        "org.P",
        (cached(cache, "painless", b"painless"), cached(cache, "asm", b"asm")),
        extends=("x", "y"),
        grants=('java.lang.RuntimePermission "createClassLoader"',),
    )
    return Distribution(
        name="elasticsearch-7.5.2",
        product="elasticsearch",
        version="7.5.2",
        archive=cached(cache, "elasticsearch", zip_of(SERVER), "zip"),
        java=JavaNeeds(11, 17),
        features=(),
        modules=(painless, Module("rank-eval", "org.R", (cached(cache, "rank", b"rank"),))),
        replaces={"lib/elasticsearch-7.5.0.jar": cached(cache, "newer", b"new")},
    )


def build(distribution: Distribution, tmp_path: Path) -> Path:
    downloader = Downloader(tmp_path / "cache", Progress(), offline=True)
    return assemble(distribution, downloader, tmp_path / "servers")


def test_a_server_is_assembled_from_its_artifacts(distribution: Distribution, tmp_path: Path) -> None:
    assert is_downloaded(distribution.artifacts, tmp_path / "cache")
    assert not is_assembled(distribution, tmp_path / "servers")
    home = build(distribution, tmp_path)
    assert is_assembled(distribution, tmp_path / "servers")
    assert not (home / "lib" / "elasticsearch-7.5.0.jar").exists()
    assert (home / "lib" / "newer-1.jar").read_bytes() == b"new"
    netty = (home / "modules/transport-netty4/plugin-descriptor.properties").read_text()
    assert netty == "version=7.5.2\nelasticsearch.version=7.5.2\nname=t\n"
    module = home / "modules" / "lang-painless"
    assert {path.name for path in module.iterdir()} == {
        "painless-1.jar",
        "asm-1.jar",
        "plugin-descriptor.properties",
        "plugin-security.policy",
    }
    told = (module / "plugin-descriptor.properties").read_text()
    assert "classname=org.P\n" in told
    assert "elasticsearch.version=7.5.2\n" in told
    assert "extended.plugins=x,y\n" in told
    policy = (module / "plugin-security.policy").read_text()
    assert policy == 'grant {\n  permission java.lang.RuntimePermission "createClassLoader";\n};\n'
    assert not (home / "modules" / "rank-eval" / "plugin-security.policy").exists()


def test_an_assembled_server_is_shared_and_read_only(distribution: Distribution, tmp_path: Path) -> None:
    home = build(distribution, tmp_path)
    for path in home.rglob("*"):
        mode = path.stat().st_mode
        assert mode & 0o444 == 0o444
        assert path.is_dir() or not mode & 0o222
    assert (home / "bin" / "elasticsearch").stat().st_mode & 0o111 == 0o111


def test_a_server_is_assembled_once(distribution: Distribution, tmp_path: Path) -> None:
    home = build(distribution, tmp_path)
    stamp = home.stat().st_mtime_ns
    (tmp_path / "cache").rename(tmp_path / "gone")
    assert build(distribution, tmp_path) == home
    assert home.stat().st_mtime_ns == stamp


def test_a_missing_artifact_leaves_no_half_server(distribution: Distribution, tmp_path: Path) -> None:
    (tmp_path / "cache" / distribution.archive.cached_as).write_bytes(b"poisoned")
    with pytest.raises(EngineError, match="has not been downloaded yet"):
        build(distribution, tmp_path)
    assert not (tmp_path / "servers").exists()


def building(target: Path, progress: Progress | None = None) -> AbstractContextManager[Path | None]:
    return built_once(target, progress or Progress(), doing="building it", does="builds it")


class Said(Progress):
    """A progress that says one thing."""

    def __init__(self) -> None:
        super().__init__()
        self.message = ""
        self.has_come = threading.Event()

    def say(self, message: str) -> None:
        self.message = message
        self.has_come.set()


def test_what_is_built_appears_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    target = tmp_path / "a" / "target"
    with pytest.raises(RuntimeError), building(target) as work:
        assert work is not None
        (work / "half").write_text("")
        raise RuntimeError
    assert not target.exists()
    leftover = target.parent / ".target.partial"  # of a process that was killed
    leftover.mkdir()
    (leftover / "junk").write_text("")
    with building(target) as work:
        assert work is not None
        (work / "whole").write_text("")
    assert [path.name for path in target.iterdir()] == ["whole"]
    with building(target) as work:
        assert work is None


def test_two_builders_do_the_work_once(tmp_path: Path) -> None:
    target = tmp_path / "target"
    said = Said()
    built: list[str] = []

    def second() -> None:
        with building(target, said) as work:
            if work is not None:
                built.append("second")

    with building(target) as work:
        assert work is not None
        other = threading.Thread(target=second)
        other.start()
        assert said.has_come.wait(10)
        built.append("first")
    other.join(10)
    assert built == ["first"]
    assert said.message == "waiting for another esbench that builds it"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.ENOSPC, "No space left on device .free some space"),
        (errno.EACCES, "Permission denied .make it writable"),
        (errno.EROFS, "Read-only file system .set ESBENCH_HOME"),
    ],
)
def test_an_error_of_the_disk_is_one_line(code: int, words: str) -> None:
    with (
        pytest.raises(EngineError, match=f"^/some/file: unpacking x failed: {words}") as caught,
        disk_errors("unpacking x", Path("/place")),
    ):
        raise OSError(code, os.strerror(code), "/some/file")
    assert "\n" not in str(caught.value)
    with pytest.raises(EngineError, match=r"^/place: unpacking x"), disk_errors("unpacking x", Path("/place")):
        raise OSError(code, os.strerror(code))


def test_a_home_that_start_scripts_would_take_apart_is_refused(tmp_path: Path) -> None:
    Folders.of(tmp_path, tmp_path).check_names("race-1")
    with pytest.raises(EngineError, match="blanks"):
        Folders.of(tmp_path / "my home", tmp_path / "my home").check_names("race-1")
    with pytest.raises(EngineError, match="blanks"):
        Folders.of(tmp_path, tmp_path).check_names("my race")


def test_folders_are_opened_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        open_folder(tmp_path / "a" / "b")
    finally:
        os.umask(before)
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o755
    tmp_path.chmod(0o700)
    assert not is_open_to_all(tmp_path / "a" / "b")


def test_a_path_is_told_from_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    catalog = load_catalog()
    for folder in ("elasticsearch-7.5.2", "elasticsearch-7.99.1"):
        (tmp_path / folder).mkdir()
    for path in ("./es", "es.tar.gz", "ES.ZIP", "elasticsearch-7.99.1", "./elasticsearch-7.5.2"):
        assert catalog.is_path(path), path
    for name in ("7.5.2", "elasticsearch-7.5.2", "elasticsearch-7.99.2"):
        assert not catalog.is_path(name), name


def make_local(folder: Path) -> Path:
    for name, content in SERVER.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_a_users_folder_is_used_where_it_is(tmp_path: Path) -> None:
    home = make_local(tmp_path / "es")
    assert open_local(str(home), tmp_path / "servers", Progress(), for_all_users=False) == home
    assert not (tmp_path / "servers").exists()


def test_a_users_folder_that_the_nodes_user_cannot_enter_is_copied(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    home = make_local(tmp_path / "es")
    (home / "data").mkdir()
    copy = open_local(str(home), tmp_path / "servers", Progress(), for_all_users=True)
    assert copy.parent == tmp_path / "servers"
    assert (copy / "lib" / "elasticsearch-7.5.0.jar").stat().st_mode & 0o444 == 0o444
    assert not (copy / "data").exists()


def test_a_users_folder_whose_files_have_changed_is_copied_again(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    home = make_local(tmp_path / "es")
    (home / "data").mkdir()
    first = open_local(str(home), tmp_path / "servers", Progress(), for_all_users=True)
    (home / "data" / "a.cfs").write_text("of a node that the user runs")
    assert open_local(str(home), tmp_path / "servers", Progress(), for_all_users=True) == first
    (home / "lib" / "elasticsearch-7.5.0.jar").write_bytes(b"rebuilt")
    again = open_local(str(home), tmp_path / "servers", Progress(), for_all_users=True)
    assert (again / "lib" / "elasticsearch-7.5.0.jar").read_bytes() == b"rebuilt"


@pytest.mark.parametrize("suffix", [".zip", ".tar.gz"])
def test_a_users_archive_is_unpacked_once(tmp_path: Path, suffix: str) -> None:
    archive = tmp_path / f"elasticsearch-9.1.0-linux{suffix}"
    if suffix == ".zip":
        archive.write_bytes(zip_of(SERVER))
    else:
        with tarfile.open(archive, "w:gz") as tar:
            tar.add(make_local(tmp_path / "es"), "elasticsearch-9.1.0")
    home = open_local(str(archive), tmp_path / "servers", Progress(), for_all_users=False)
    assert (home / "bin" / "elasticsearch").is_file()
    stamp = home.stat().st_mtime_ns
    assert open_local(str(archive), tmp_path / "servers", Progress(), for_all_users=False) == home
    assert home.stat().st_mtime_ns == stamp


def test_an_archive_writes_and_links_only_inside_of_its_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()

    def link(name: str, to: str, kind: bytes) -> tarfile.TarInfo:
        member = tarfile.TarInfo(name)
        member.type, member.linkname = kind, to
        return member

    members = [
        tarfile.TarInfo("../outside/x"),
        tarfile.TarInfo(str(outside / "x")),
        link("es/data", str(outside), tarfile.SYMTYPE),
        link("es/data", "../../outside", tarfile.SYMTYPE),
        link("es/data", "../outside", tarfile.LNKTYPE),
        link("es/null", "", tarfile.CHRTYPE),
    ]
    for number, member in enumerate(members):
        archive = tmp_path / f"{number}.tar.gz"
        with tarfile.open(archive, "w:gz") as tar:
            tar.addfile(member)
        with pytest.raises(EngineError, match="leads out of the archive"):
            open_local(str(archive), tmp_path / "servers", Progress(), for_all_users=False)
    assert not any(outside.iterdir())


def test_what_is_no_archive_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder or archive"):
        open_local(str(tmp_path / "absent.zip"), tmp_path / "servers", Progress(), for_all_users=False)
    (tmp_path / "es.rpm").write_bytes(b"")
    with pytest.raises(UsageError, match="not an archive of a server"):
        open_local(str(tmp_path / "es.rpm"), tmp_path / "servers", Progress(), for_all_users=False)
    for name in ("cut.zip", "cut.tar.gz"):
        (tmp_path / name).write_bytes(b"PK\x03\x04 half of it")
        with pytest.raises(EngineError, match="not a readable archive"):
            open_local(str(tmp_path / name), tmp_path / "servers", Progress(), for_all_users=False)
    (tmp_path / "other.zip").write_bytes(zip_of({"README": b"x"}))
    with pytest.raises(EngineError, match="neither Elasticsearch nor OpenSearch"):
        open_local(str(tmp_path / "other.zip"), tmp_path / "servers", Progress(), for_all_users=False)
    assert not [path for path in (tmp_path / "servers").iterdir() if path.is_dir()]


def test_no_file_of_an_archive_is_written_through_its_links(tmp_path: Path) -> None:
    """`x` lies in the archive by its name, and outside of it through the link `up`."""
    archive = tmp_path / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, target in (("es/a/b/up", "../.."), ("es/x", "a/b/up/../..")):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        tar.addfile(tarfile.TarInfo("es/x/escaped"))
    with pytest.raises(EngineError, match=r"es/x leads out of the archive"):
        open_local(str(archive), tmp_path / "servers", Progress(), for_all_users=False)
    assert not list(tmp_path.rglob("escaped"))


@pytest.mark.parametrize(("kind", "target"), [(tarfile.SYMTYPE, "."), (tarfile.LNKTYPE, "es/a/up")])
def test_a_link_of_an_archive_is_no_folder_for_others(tmp_path: Path, kind: bytes, target: str) -> None:
    archive = tmp_path / "evil.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for name, of_kind, to in (("es/a/up", tarfile.SYMTYPE, ".."), ("es/link", kind, target)):
            link = tarfile.TarInfo(name)
            link.type, link.linkname = of_kind, to
            tar.addfile(link)
        tar.addfile(tarfile.TarInfo("es/link/escaped"))
    with pytest.raises(EngineError, match=r"es/link(/escaped)? leads out of the archive"):
        open_local(str(archive), tmp_path / "servers", Progress(), for_all_users=False)
    assert not list(tmp_path.rglob("escaped"))


def endless_zip(free: int) -> bytes:
    """An archive of a server, of some KB, whose files state more bytes than are free."""
    return stating_sizes(zip_of(SERVER | {f"bin/{number}": b"" for number in range(free // (1 << 32) + 1)}))


def endless_tar(free: int) -> bytes:
    entry = tarfile.TarInfo("elasticsearch-7.5.0/lib/elasticsearch-7.5.0.jar")
    entry.size = free + 1
    return gzip.compress(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 20))


@pytest.mark.parametrize(("name", "make"), [("es.zip", endless_zip), ("es.tar.gz", endless_tar)])
def test_an_archive_that_would_fill_the_disk_is_not_unpacked(
    tmp_path: Path, name: str, make: Callable[[int], bytes]
) -> None:
    free = shutil.disk_usage(tmp_path).free
    (tmp_path / name).write_bytes(make(2 * free))
    with pytest.raises(EngineError, match=r"unpacked it has more than the [\d.]+ .B that are free") as caught:
        open_local(str(tmp_path / name), tmp_path / "servers", Progress(), for_all_users=False)
    assert str(caught.value).startswith(f"{tmp_path / name}: ")
    assert not list((tmp_path / "servers").glob("*local*/*"))
