"""Folders and files that only their owner can read, whatever the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from races import golden_race, keep

from esbench.corpus.cache import writing
from esbench.record.locks import RaceLock
from esbench.record.private import open_private, private_folder


@pytest.fixture(params=[0o000, 0o022, 0o077])
def umask(request: pytest.FixtureRequest) -> Iterator[None]:
    earlier = os.umask(request.param)
    yield
    os.umask(earlier)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.usefixtures("umask")
def test_a_folder_and_its_missing_parents_are_the_owners_alone(tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    there.chmod(0o750)
    made = private_folder(there / "a" / "b")
    assert [rights(path) for path in (made, made.parent, there)] == [0o700, 0o700, 0o750]
    assert private_folder(made) == made


@pytest.mark.usefixtures("umask")
def test_a_file_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with open_private(path, "wb") as file:
        file.write(b"a")
    with open_private(path, "ab") as file:
        file.write(b"b")
    assert path.read_bytes() == b"ab"
    assert rights(path) == 0o600


@pytest.mark.usefixtures("umask")
def test_nobody_else_reads_records_locks_and_documents(tmp_path: Path) -> None:
    home = tmp_path / "home"
    keep(home, golden_race(race_id="a"))
    with writing(home / "cache" / "corpora" / "orders" / "x.bulk", "here") as out:
        out.write(b"{}")
    with RaceLock(home, "a"):
        paths = [home, *home.rglob("*")]
        assert {rights(path) for path in paths if path.is_dir()} == {0o700}
        assert {rights(path) for path in paths if path.is_file()} == {0o600}
        assert len(paths) == 12
