"""The Python part of a track: its files, and what loading the track must know of it."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from esbench.errors import TrackError
from esbench.model import Operation
from esbench.tables import Registry

FILE_READER = "file-reader"


def is_bulk(operation_type: str) -> bool:
    """Return True for the operation type that Rally's `file-reader` feeds: its parameters have a `body` of lines."""
    return operation_type == "bulk"


@dataclass(kw_only=True)
class PythonPart:
    """The objects that the Python part of a track has registered, unchanged.

    They are by name, `runners` by operation type, `validators` by the name of the challenge. `bulk_sources` are the
    names of the param-sources that send the documents of corpora; `tolerated` are faults that matter only if a task
    uses the object.
    """

    param_sources: Registry[Any] = field(default_factory=lambda: Registry("param-source", TrackError))
    bulk_sources: set[str] = field(default_factory=set)
    runners: Registry[Any] = field(default_factory=lambda: Registry("runner", TrackError))
    schedulers: Registry[Any] = field(default_factory=lambda: Registry("schedule", TrackError))
    track_processors: list[Any] = field(default_factory=list)
    validators: dict[str, Callable[[Any], Any]] = field(default_factory=dict)
    tolerated: list[TrackError] = field(default_factory=list)

    def sends_corpora(self, operation: Operation) -> bool:
        """Return True if the parameter source of a runner's operation sends the documents of corpora.

        Without a `param-source`, True for the type bulk. That a runner carries out the operation is not checked.
        """
        name = operation.params.get("param-source")
        return is_bulk(operation.type) if name is None else name in self.bulk_sources


def python_entry(folder: Path) -> Path | None:
    """Return the file with which the Python part of a track begins, track.py or track/__init__.py; None without one."""
    for path in (folder / "track.py", folder / "track" / "__init__.py"):
        if path.is_file():
            return path
    return None


def python_files(folder: Path) -> tuple[Path, ...]:
    """Return the Python files of a track with a Python part, sorted; hidden folders and caches are left out.

    Also those of the modules and packages beside its folder that its code imports.
    """
    if python_entry(folder) is None:
        return ()
    found: set[Path] = set()
    todo = {folder}
    while todo:
        place = todo.pop()
        files = {place} if place.is_file() else {path for path in place.rglob("*.py") if _is_code(path, place)}
        todo.update(*(_imported(file, folder.parent) for file in files - found))
        found |= files
    return tuple(sorted(found))


def _is_code(path: Path, folder: Path) -> bool:
    return path.is_file() and not any(part.startswith(".") for part in path.relative_to(folder).parts)


def _imported(file: Path, folder: Path) -> set[Path]:
    """Return the packages and modules in `folder` that a file imports; none of a file that is not valid Python."""
    try:
        nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):
        return set()
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module and not node.level}
    places = {folder / name.partition(".")[0] for name in names}
    return {found for place in places for found in (place, place.with_suffix(".py")) if found.exists()}
