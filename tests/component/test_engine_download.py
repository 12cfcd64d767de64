"""Downloads from a real HTTP server: whole, cut, altered, missing, two at once."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from file_server import FileServer, serve_files

from esbench.errors import EngineError
from esbench.events.progress import Progress
from esbench.features.node.catalog import Artifact
from esbench.features.node.download import Downloader

pytest.importorskip("jgo")

CONTENT = bytes(range(256)) * 4096
ARTIFACT = Artifact("org.example", "server", "1.0", "zip", hashlib.sha256(CONTENT).hexdigest())
PATH = "/org/example/server/1.0/server-1.0.zip"


def repository(send: str = "whole") -> AbstractContextManager[FileServer]:
    """A Maven repository with one file, which it sends whole, cut or altered."""
    content = CONTENT[:-1] + b"x" if send == "altered" else CONTENT
    return serve_files({PATH: content}, cuts=[100_000] * 9 if send == "cut" else [])


def served(files: FileServer) -> int:
    """How often the file was asked for."""
    return sum(path == PATH for path, _, _ in files.asked)


def downloader(cache: Path, url: str, *, offline: bool = False) -> Downloader:
    return Downloader(cache, Progress(), offline=offline, repositories={"test": url})


def files_in(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("[!.]*") if path.is_file())


def test_a_file_is_fetched_once_and_then_needs_no_network(tmp_path: Path) -> None:
    with repository() as files:
        found = downloader(tmp_path, files.url).fetch([ARTIFACT])
        assert found[ARTIFACT].read_bytes() == CONTENT
        downloader(tmp_path, files.url).fetch([ARTIFACT])
        assert served(files) == 1
    assert downloader(tmp_path, files.url, offline=True).fetch([ARTIFACT]) == found
    assert files_in(tmp_path) == ["org.example/server-1.0.zip"]


@pytest.mark.parametrize("send", ["cut", "altered"])
def test_a_cut_or_altered_download_never_reaches_the_cache(tmp_path: Path, send: str) -> None:
    with repository(send) as files, pytest.raises(EngineError) as caught:
        downloader(tmp_path, files.url).fetch([ARTIFACT])
    assert "server-1.0.zip" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]
    with repository() as files:
        assert downloader(tmp_path, files.url).fetch([ARTIFACT])[ARTIFACT].read_bytes() == CONTENT


def test_what_a_killed_download_left_is_removed(tmp_path: Path) -> None:
    leftover = tmp_path / ".partial" / PATH[1:]
    leftover.parent.mkdir(parents=True)
    leftover.write_bytes(CONTENT[:5000])
    with repository() as files:
        assert downloader(tmp_path, files.url).fetch([ARTIFACT])[ARTIFACT].read_bytes() == CONTENT
    assert not (tmp_path / ".partial").exists()


def test_a_damaged_file_in_the_cache_is_fetched_again(tmp_path: Path) -> None:
    path = tmp_path / ARTIFACT.cached_as
    path.parent.mkdir()
    path.write_bytes(CONTENT[:1000])
    with repository() as files:
        downloader(tmp_path, files.url).fetch([ARTIFACT])
        assert served(files) == 1
    assert path.read_bytes() == CONTENT


def test_a_file_that_no_repository_has_is_named(tmp_path: Path) -> None:
    missing = Artifact("org.example", "other", "1.0", "jar", "0" * 64)
    with repository() as files, pytest.raises(EngineError, match=r"other-1\.0\.jar was not found"):
        downloader(tmp_path, files.url).fetch([missing])


def test_without_a_network_the_error_is_one_line_that_helps(tmp_path: Path) -> None:
    with repository() as files:
        pass  # nobody listens there any more
    with pytest.raises(EngineError, match=r"server-1\.0\.zip could not be downloaded") as caught:
        downloader(tmp_path, files.url).fetch([ARTIFACT])
    assert "--distribution" in caught.value.hint
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [".lock"]


def test_several_may_fetch_the_same_file_at_once(tmp_path: Path) -> None:
    with repository() as files, ThreadPoolExecutor(4) as pool:
        downloaders = [downloader(tmp_path, files.url) for _ in range(4)]
        results = list(pool.map(lambda each: each.fetch([ARTIFACT])[ARTIFACT].read_bytes(), downloaders))
        assert served(files) == 1
    assert results == [CONTENT] * 4
    assert files_in(tmp_path) == ["org.example/server-1.0.zip"]
