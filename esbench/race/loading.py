"""Loading of a track with its Python part, which is imported only if a track has one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esbench.errors import UsageError
from esbench.events.progress import Progress
from esbench.model import Track
from esbench.operations import OperationTypes, builtin_operations
from esbench.track.document import DocumentNode
from esbench.track.faults import Faults
from esbench.track.loader import load_track, read_track, track_file
from esbench.track.python_part import python_entry, python_files
from esbench.track.rendering import RenderContext

if TYPE_CHECKING:
    from esbench.rally_python.loading import Plugins
    from esbench.rally_python.track_processors import OwnCode


@dataclass(frozen=True)
class LoadedTrack:
    """A track as in its files, its rendered file, the types of its operations, and its Python part if it has one."""

    track: Track
    document: DocumentNode
    types: OperationTypes
    plugins: Plugins | None = None

    def processed(self, challenge: str) -> tuple[Track, OwnCode | None]:
        """Return the track after its own code, for a race of `challenge`, and that code (None if it has none)."""
        if self.plugins is None:
            return self.track, None
        from esbench.rally_python.track_processors import own_code_of

        return own_code_of(self.track, self.plugins, challenge, self.types)

    def processed_alone(self, challenge: str) -> tuple[Track, OwnCode | None]:
        """Return the same, with the Python part imported once more: its processors saw no other challenge."""
        if self.plugins is None:
            return self.track, None
        from esbench.rally_python.loading import load_plugins

        return replace(self, plugins=load_plugins(self.track.path.parent)).processed(challenge)


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
    path, types, plugins = track_file(path, "the track"), builtin_operations(), None
    document = read_track(path, context)
    progress = progress or Progress()
    if code := python_files(path.parent):
        if no_python:
            entry = str(python_entry(path.parent))
            raise UsageError("the track runs its own Python", where=entry, hint="--no-python refuses it")
        from esbench.rally_python.dependencies import Libraries, libraries_folder
        from esbench.rally_python.loading import load_plugins, name_new_code
        from esbench.rally_python.operations import TrackOperationTypes

        name_new_code(path.parent, code, home, progress.insist)
        with faults.apart():
            libraries = Libraries(libraries_folder(home), install_dependencies, progress.say)
            libraries.provide(document.find("dependencies"))
            plugins = load_plugins(path.parent, libraries.folder)
        types = TrackOperationTypes(types)
    track = load_track(document, types, test_mode=test_mode, faults=faults, code=code, python=plugins, raced=raced)
    return LoadedTrack(track, document, types, plugins)
