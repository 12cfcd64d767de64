"""The files of a workload, and where each goes in the track: those of common parts beside it become the track's own."""

from __future__ import annotations

import os.path
import re
import shutil
from collections.abc import Iterator
from glob import glob, has_magic
from pathlib import Path, PurePosixPath

from esbench.errors import UsageError

WORKLOAD, TRACK = "workload", "track"
WORKLOAD_FILE, TRACK_FILE = f"{WORKLOAD}.json", f"{TRACK}.json"
_LEFT_BEHIND = re.compile(r"\.git|\.svn|\.hg|__pycache__|.*\.pyc|\.DS_Store")


class WorkloadFiles:
    """The folder of a workload. Paths of files in the track are relative to its folder.

    `root` is resolved. Files of folders beside it are common parts; nothing further outside is read.
    """

    def __init__(self, folder: Path) -> None:
        folder = folder.parent if folder.name == WORKLOAD_FILE else folder
        if not (folder / WORKLOAD_FILE).is_file():
            raise UsageError(f"there is no {WORKLOAD_FILE}", where=str(folder), hint=_hint(folder))
        self.root = folder.resolve()

    def own(self) -> Iterator[Path]:
        """Yield all files of the workload, but those of version control and of Python's compiler; sorted."""
        return filter(self.may_read, self._found())

    def outside(self) -> Iterator[Path]:
        """Yield the links of the workload to files that it may not read."""
        return (path for path in self._found() if not self.may_read(path))

    def _found(self) -> Iterator[Path]:
        for parent, folders, names in os.walk(self.root):
            folders[:] = sorted(name for name in folders if not _LEFT_BEHIND.fullmatch(name))
            yield from (Path(parent, name) for name in sorted(names) if not _LEFT_BEHIND.fullmatch(name))

    def may_read(self, path: Path) -> bool:
        """True for a path of the workload, or of a folder beside it that is not hidden, with all links followed."""
        path, around = path.resolve(), self.root.parent
        is_beside = path.is_relative_to(around) and not any(p.startswith(".") for p in path.relative_to(around).parts)
        return is_beside or path.is_relative_to(self.root)

    def matching(self, folder: Path, pattern: str) -> list[Path]:
        """Return the files that a pattern, seen from a folder, matches, sorted."""
        names = sorted(glob(pattern, root_dir=folder)) if has_magic(pattern) else [pattern]  # noqa: PTH207
        return [path for name in names if (path := Path(os.path.normpath(folder / name))).is_file()]

    def place(self, path: Path) -> PurePosixPath:
        """Return where a file or folder of the workload, or one beside it, goes in the track."""
        path = Path(os.path.normpath(path))
        if path.is_relative_to(self.root):
            return self._own_place(PurePosixPath(path.relative_to(self.root).as_posix()))
        shared = PurePosixPath(path.relative_to(self.root.parent).as_posix())
        first = shared.parts[0] if shared.parts else ""
        is_taken = first in (TRACK_FILE, f"{TRACK}.py", TRACK) or (self.root / first).exists()
        return PurePosixPath(f"shared_{first}", *shared.parts[1:]) if is_taken else shared

    def name(self, path: Path) -> str:
        """Return the name of a file as its notes say it: relative to the workload's folder."""
        return PurePosixPath(os.path.relpath(path, self.root)).as_posix()

    def _own_place(self, path: PurePosixPath) -> PurePosixPath:
        """Return the place of the workload's own file: it is a track's by its name, as is the Python beside it."""
        names = {WORKLOAD_FILE: TRACK_FILE, f"{WORKLOAD}.py": f"{TRACK}.py"}
        if len(path.parts) == 1:
            path = PurePosixPath(names.get(path.name, path.name))
        is_package = path.parts[:1] == (WORKLOAD,) and (self.root / WORKLOAD / "__init__.py").is_file()
        return PurePosixPath(TRACK, *path.parts[1:]) if is_package else path


def new_folder(out: Path, workload: WorkloadFiles) -> None:
    """Make the folder of a track. Raises UsageError if it holds anything, or is one of the workload's own."""
    if out.resolve().is_relative_to(workload.root):
        raise UsageError("the track would stand in the workload", where=str(out), hint="name a folder outside of it")
    try:
        out.mkdir(parents=True, exist_ok=True)
        if any(out.iterdir()):
            raise UsageError("the folder is not empty", where=str(out), hint="name a new one")
    except OSError as error:
        raise UsageError(f"the folder cannot be made: {error.strerror}", where=str(out)) from None


def copy(path: Path, target: Path) -> None:
    """Copy a file as it is, with its mode, into a folder that is made."""
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, target)
    shutil.copymode(path, target)


def _hint(folder: Path) -> str:
    found = sorted(path.parent.name for path in folder.glob(f"*/{WORKLOAD_FILE}")) if folder.is_dir() else []
    return f"it has workloads in {', '.join(found)}: convert one of them" if found else "name the folder of a workload"
