"""Loading of a track with its Python part, which is imported only if a track has one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from esbench.model import Track
from esbench.operations import OperationTypes
from esbench.track.faults import Faults
from esbench.track.loader import load_track, track_file
from esbench.track.python_part import has_plugins
from esbench.track.rendering import RenderContext

if TYPE_CHECKING:
    from esbench.rally_python.loading import Plugins
    from esbench.rally_python.track_processors import OwnCode


@dataclass(frozen=True)
class LoadedTrack:
    """A track as in its files, the types of its operations, and its Python part if it has one."""

    track: Track
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
    types: OperationTypes,
    home: Path,
    *,
    test_mode: bool = False,
    faults: Faults | None = None,
    install_dependencies: bool = False,
    say: Callable[[str], None] = lambda text: None,
) -> LoadedTrack:
    """Load a track and its Python part, whose dependencies are below `home`, or installed there.

    Raises a TrackError with file:line for a fault of the track, a UsageError for an unknown track parameter. If
    `faults` are gathered, it raises only a fault that hides all others, and the track lacks the parts that could not be
    built.
    """
    faults = faults or Faults()
    path, plugins = track_file(path, "the track"), None
    if has_plugins(path.parent):
        from esbench.rally_python.dependencies import Libraries, libraries_folder
        from esbench.rally_python.loading import plugins_of
        from esbench.rally_python.operations import TrackOperationTypes

        with faults.apart():
            plugins = plugins_of(path, context, Libraries(libraries_folder(home), install_dependencies, say))
        types = TrackOperationTypes(types)
    track = load_track(path, context, types, test_mode=test_mode, faults=faults, python=plugins)
    return LoadedTrack(track, types, plugins)
