"""The Python part of a track: its files, and what loading the track must know of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from esbench.errors import TrackError
from esbench.model import Operation
from esbench.registry import Registry

FILE_READER = "file-reader"


def is_bulk(operation_type: str) -> bool:
    """Return True for the operation type that Rally's `file-reader` feeds: its parameters have a `body` of lines."""
    return operation_type == "bulk"


class PythonPart(Protocol):
    """The Python part of a track: everything it has registered, by name, and its `tolerated` faults."""

    @property
    def runners(self) -> Registry[Any]: ...

    @property
    def param_sources(self) -> Registry[Any]: ...

    @property
    def schedulers(self) -> Registry[Any]: ...

    @property
    def track_processors(self) -> Sequence[Any]: ...

    @property
    def tolerated(self) -> Sequence[TrackError]: ...

    def sends_corpora(self, operation: Operation) -> bool:
        """Return True for an operation of a runner whose parameter source sends the documents of corpora."""
        ...


def python_entry(folder: Path) -> Path | None:
    """Return the file with which the Python part of a track begins, track.py or track/__init__.py; None without one."""
    for path in (folder / "track.py", folder / "track" / "__init__.py"):
        if path.is_file():
            return path
    return None


def has_plugins(folder: Path) -> bool:
    """Return True if a track's folder has a Python part."""
    return python_entry(folder) is not None


def python_files(folder: Path) -> tuple[Path, ...]:
    """Return the Python files of a track with a Python part, sorted; hidden folders and caches are left out."""
    if not has_plugins(folder):
        return ()
    found = (path for path in folder.rglob("*.py") if path.is_file())
    return tuple(
        sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))
    )
