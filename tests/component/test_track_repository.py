"""Tracks of a Git URL: fetched once, updated, offline; and what git must not do."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from installed import need

from esbench.cli.main import run
from esbench.errors import UsageError
from esbench.track.library import find_track
from esbench.track.repository import track_repository

TRACK = '{"description": "%s", "schedule": [{"operation": "refresh"}]}'


@pytest.fixture
def upstream(tmp_path: Path) -> Path:
    """A repository with the branches main and 7 and the tag v1; its hooks would leave a file."""
    need("git")
    folder = tmp_path / "upstream"
    git(tmp_path, "init", "-q", "-b", "main", str(folder))
    commit(folder, "first")
    git(folder, "tag", "-a", "v1", "-m", "v1")
    git(folder, "branch", "7")
    return folder


@pytest.fixture(autouse=True)
def _own_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("HOME", str(tmp_path))
    yield


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def commit(folder: Path, description: str) -> str:
    (folder / "shop").mkdir(exist_ok=True)
    (folder / "shop" / "track.json").write_text(TRACK % description)
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", description)
    return git(folder, "rev-parse", "HEAD")


def fetched(upstream: Path, home: Path, revision: str | None = None, *, offline: bool = False) -> tuple[str, str]:
    """The commit of a repository, and the description of its track."""
    repository = track_repository(f"file://{upstream}", revision, home, offline=offline)
    assert repository is not None
    track = json.loads(find_track("shop", None, repository.folder).read_text())
    return repository.commit, track["description"]


def test_a_repository_is_fetched_once_and_updated_unless_offline(upstream: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    first = git(upstream, "rev-parse", "HEAD")
    assert fetched(upstream, home) == (first, "first")
    second = commit(upstream, "second")
    assert fetched(upstream, home, offline=True) == (first, "first")
    assert fetched(upstream, home) == (second, "second")
    upstream.rename(tmp_path / "gone")
    assert fetched(upstream, home, offline=True) == (second, "second")
    with pytest.raises(UsageError, match=r"cannot be fetched: .* \(--offline uses what was fetched last\)"):
        fetched(upstream, home)


def test_no_name_of_a_repository_leads_out_of_its_folder(upstream: Path, tmp_path: Path) -> None:
    found = track_repository(f"file://{upstream}/shop/..", None, tmp_path / "home")
    assert found is not None and found.folder.name == "tracks"
    assert found.folder.is_relative_to(tmp_path / "home" / "cache" / "tracks")


@pytest.mark.parametrize("named", ["7", "v1", "commit"])
def test_a_revision_is_a_branch_a_tag_or_a_commit(named: str, upstream: Path, tmp_path: Path) -> None:
    first = git(upstream, "rev-parse", "HEAD")
    commit(upstream, "second")
    assert fetched(upstream, tmp_path, first if named == "commit" else named) == (first, "first")


def test_a_revision_that_is_not_there_is_named(upstream: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f'--track-revision: file://{upstream} has no branch or tag "8"'):
        fetched(upstream, tmp_path, "8")
    with pytest.raises(UsageError, match="--track-revision: is for a Git URL"):
        track_repository("tracks", "8", tmp_path)


def test_offline_needs_what_was_fetched(upstream: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="was not fetched yet"):
        fetched(upstream, tmp_path, offline=True)


@pytest.mark.parametrize(
    "url",
    [
        "ext::sh -c touch% ran",
        "git://127.0.0.1/tracks",
        "http://127.0.0.1/tracks",
        "ssh://-oProxyCommand=touch ran/x",
        "-oProxyCommand=x@host:path",
        "https://user:hush@example.org/tracks",
        "https://hush@example.org/tracks",
    ],
)
def test_urls_that_lead_elsewhere_or_hold_a_secret_are_refused(url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"^--track-repository: ") as caught:
        track_repository(url, None, tmp_path)
    assert "hush" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_hooks_and_templates_of_the_user_are_not_run(
    upstream: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = tmp_path / "template" / "hooks"
    hooks.mkdir(parents=True)
    (hooks / "post-checkout").write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    (hooks / "post-checkout").chmod(0o755)
    (tmp_path / ".gitconfig").write_text(f"[init]\ntemplateDir={hooks.parent}\n[core]\nhooksPath={hooks}\n")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    fetched_folder = track_repository(f"file://{upstream}", None, tmp_path / "home")
    assert fetched_folder is not None and not (tmp_path / "ran").exists()
    assert {path.name for path in fetched_folder.folder.iterdir()} == {"shop"}


def test_git_that_is_not_there_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert run(["info", "--track-repository=https://127.0.0.1:1/tracks", "--track=shop"]) == 2
    said = "esbench: --track-repository: git is not installed (install it, or download the tracks: "
    assert capsys.readouterr().err.startswith(said)


def test_a_server_that_is_not_there_is_one_line(esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("git")
    assert run(["race", "--track-repository=https://127.0.0.1:1/tracks", "--track=shop"]) == 2
    said = "esbench: --track-repository: https://127.0.0.1:1/tracks cannot be fetched: "
    assert capsys.readouterr().err.startswith(said)
    assert not (esbench_home / "races").exists()


def test_commands_read_fetched_tracks(upstream: Path, esbench_home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    where = f"--track-repository=file://{upstream}"
    assert run(["list", "tracks", where, "--track-revision=v1", "--format=csv"]) == 0
    assert "shop,first," in capsys.readouterr().out
    assert run(["validate-track", where, "--track=shop"]) == 0
    assert 'track "shop" is valid' in capsys.readouterr().out
