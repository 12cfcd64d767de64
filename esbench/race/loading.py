"""Loading of a track with its Python part, which is imported only if a track has one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from esbench.errors import UsageError
from esbench.events.progress import Progress
from esbench.model import Track
from esbench.operations import OperationTypes, builtin_operations
from esbench.race.own_code import LoadedCode, OwnCode
from esbench.tables import PYTHON, load
from esbench.track.document import DocumentNode
from esbench.track.faults import Faults
from esbench.track.loader import load_track, read_track, track_file
from esbench.track.python_part import PythonPart, python_entry, python_files
from esbench.track.rendering import RenderContext


@dataclass(frozen=True)
class LoadedTrack:
    """A track as in its files, its rendered file, the types of its operations, and its Python part if it has one."""

    track: Track
    document: DocumentNode
    types: OperationTypes
    code: LoadedCode | None = None

    def processed(self, challenge: str) -> tuple[Track, OwnCode | None]:
        """Return the track after its own code, for a race of `challenge`, and that code (None if it has none)."""
        return (self.track, None) if self.code is None else self.code.processed(self.track, challenge)

    def processed_alone(self, challenge: str) -> tuple[Track, OwnCode | None]:
        """Return the same, with the Python part imported once more: its processors saw no other challenge."""
        again = None if self.code is None else self.code.imported_again(self.track)
        return replace(self, code=again).processed(challenge)


def load_with_python(
    path: Path,
    context: RenderContext,
    home: Path,
    *,
    test_mode: bool = False,
    faults: Faults | None = None,
    install_dependencies: bool = False,
    no_python: bool = False,
    progress: Progress | None = None,
    raced: str | None = None,
) -> LoadedTrack:
    """Load a track and its Python part, whose dependencies are below `home`, or installed there.

    Code that is met for the first time is named on the screen. Raises a TrackError with file:line for a fault of the
    track (DependencyError if dependencies are missing and not to be installed), a UsageError for an unknown track
    parameter, and for a track with a Python part if `no_python`. If `faults` was made with `gather`, it raises only a
    fault that hides all others, and the track lacks the parts that could not be built. `raced` as in `load_track`.
    """
    faults = faults or Faults()
    path, types = track_file(path, "the track"), builtin_operations()
    own: LoadedCode | None = None
    part: PythonPart | None = None
    document = read_track(path, context)
    progress = progress or Progress()
    if code := python_files(path.parent):
        if no_python:
            entry = str(python_entry(path.parent))
            raise UsageError("the track runs its own Python", where=entry, hint="--no-python refuses it")
        own = load(PYTHON["track"])(
            path.parent, code, document.find("dependencies"), types, home, faults, progress, install_dependencies
        )
        types, part = own.types, own.part
    track = load_track(document, types, test_mode=test_mode, faults=faults, code=code, python=part, raced=raced)
    return LoadedTrack(track, document, types, own)
