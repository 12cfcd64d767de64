"""Unpacking of zip and tar.gz archives of servers into folders that every user can read and no user can change."""

from __future__ import annotations

import stat
import tarfile
import zipfile
from pathlib import Path

from esbench.errors import EngineError

SUFFIXES = (".zip", ".tar.gz", ".tgz")


def unpack(archive: Path, into: Path) -> Path:
    """Unpack an archive into an empty folder and return its single top folder. EngineError if it is unreadable."""
    try:
        if archive.name.endswith(".zip"):
            _unpack_zip(archive, into)
        else:
            with tarfile.open(archive) as tar:
                # Python before 3.11.4 has no filters; an archive of a server runs its own code anyway
                tar.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
                tar.extractall(into)
    except (zipfile.BadZipFile, tarfile.TarError, EOFError, ValueError) as error:
        raise EngineError("not a readable archive", where=str(archive), hint="download it again") from error
    tops = [entry for entry in into.iterdir() if entry.is_dir()]
    if len(tops) != 1:
        raise EngineError("the archive does not hold one folder with a server", where=str(archive))
    return tops[0]


def share_read_only(folder: Path) -> None:
    """Make a folder readable (and its programs runnable) by every user, and its files read-only.

    Folders stay deletable.
    """
    for path in (folder, *folder.rglob("*")):
        if path.is_symlink():
            continue
        if path.is_dir():
            path.chmod(0o755)
        else:
            path.chmod(0o555 if path.stat().st_mode & stat.S_IXUSR else 0o444)


def _unpack_zip(archive: Path, into: Path) -> None:
    with zipfile.ZipFile(archive) as source:
        for entry in source.infolist():
            path = Path(source.extract(entry, into))
            mode = entry.external_attr >> 16
            if mode and path.is_file():
                path.chmod(stat.S_IMODE(mode) | stat.S_IRUSR)
