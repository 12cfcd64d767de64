"""The folders of nodes, servers and Javas on disk, and errors of the disk as one line each.

As root a node runs as an unprivileged user, so all that it reads or writes lies outside of root's home.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from esbench.errors import FREE_SPACE, EngineError
from esbench.events.progress import Progress
from esbench.race.node_options import SHARED


@dataclass(frozen=True)
class Folders:
    """The engine's folders: caches of downloads, and what nodes themselves read and write."""

    downloads: Path
    wheels: Path
    servers: Path  # unpacked, shared by all nodes, read-only
    javas: Path
    nodes: Path

    @classmethod
    def of(cls, home: Path, shared: Path = SHARED) -> Folders:
        """Return the folders under ESBENCH_HOME; as root, those that nodes use lie under `shared`."""
        cache, as_root = home / "cache", os.geteuid() == 0
        return cls(
            downloads=cache / "distributions",
            wheels=cache / "java",
            servers=(shared if as_root else cache) / "servers",
            javas=(shared if as_root else cache) / "java",
            nodes=(shared if as_root else home) / "nodes",
        )

    def check_names(self, race_id: str) -> None:
        """Raise an EngineError for a path that the servers' start scripts cannot handle.

        Such a path has blanks, quotes, commas, colons, backslashes or $.
        """
        for folder in (self.servers, self.nodes / race_id):
            if re.search(r"[\s,:'\"$\\]", str(folder)):
                raise EngineError(
                    "a node cannot live in a folder whose path has blanks, quotes, commas, colons or $",
                    where=str(folder),
                    hint="set ESBENCH_HOME to a plain path",
                )


@contextmanager
def disk_errors(doing: str, place: Path) -> Iterator[None]:
    """Turn an OSError into an EngineError that says what was being done, where, and how to fix it.

    `place` is named if the error itself names no file, as when a disk is full.
    """
    try:
        yield
    except OSError as error:
        hints = {
            errno.ENOSPC: FREE_SPACE,
            errno.EDQUOT: FREE_SPACE,
            errno.EACCES: "make it writable or set ESBENCH_HOME to a folder that is",
            errno.EPERM: "make it writable or set ESBENCH_HOME to a folder that is",
            errno.EROFS: "set ESBENCH_HOME to a folder that can be written",
            errno.EEXIST: "what another race left or still uses: end that race, delete it or use another race id",
        }
        raise EngineError(
            f"{doing} failed: {error.strerror or error}",
            where=str(error.filename or place),
            hint=hints.get(error.errno or 0, ""),
        ) from error


def open_folder(path: Path) -> Path:
    """Make a folder and its missing parents; every user can enter them, whatever the umask. Returns `path`."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
    return path


def is_open_to_all(path: Path) -> bool:
    """True if any user can enter every folder on the way to `path` and read it."""
    real = path.resolve()
    return all(folder.stat().st_mode & 0o001 for folder in real.parents) and bool(real.stat().st_mode & 0o004)


@contextmanager
def locked(lock: Path, progress: Progress, does: str) -> Iterator[None]:
    """Hold a lock file, which the kernel releases if the process ends.

    If another process holds it, `progress` says what that one does ("downloads").
    """
    open_folder(lock.parent)
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            progress.say(f"waiting for another esbench that {does}")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextmanager
def built_once(target: Path, progress: Progress, *, doing: str, does: str) -> Iterator[Path | None]:
    """Build `target` as a whole or not at all, in one process at a time.

    Yields an empty folder to build in, which becomes `target` if the block ends without an error; or None if `target`
    exists already. `doing` names the work in errors of the disk, `does` while another process is at it.
    """
    lock = target.parent / f".{target.name}.lock"
    with disk_errors(doing, target.parent):
        if target.exists():
            yield None
            return
        with locked(lock, progress, does):
            if target.exists():
                yield None
                return
            work = target.parent / f".{target.name}.partial"  # of a process that was killed, or none
            shutil.rmtree(work, ignore_errors=True)
            work.mkdir()
            work.chmod(0o755)
            try:
                yield work
                work.rename(target)
            finally:
                shutil.rmtree(work, ignore_errors=True)
