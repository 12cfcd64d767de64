"""Code of a track: imported with what it needs, as a race sees it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from esbench.events.progress import Progress
from esbench.features.python.dependencies import Libraries, libraries_folder
from esbench.features.python.loading import Plugins, load_plugins, name_new_code
from esbench.features.python.operations import TrackOperationTypes
from esbench.features.python.track_processors import PythonCode, own_code_of
from esbench.model import Track
from esbench.operations import OperationTypes
from esbench.track.document import DocumentNode
from esbench.track.faults import Faults


@dataclass(frozen=True)
class ImportedCode:
    """The imported code of a track (race.own_code.LoadedCode). Without `part` it could not be imported."""

    part: Plugins | None
    types: OperationTypes

    def processed(self, track: Track, challenge: str) -> tuple[Track, PythonCode | None]:
        return (track, None) if self.part is None else own_code_of(track, self.part, challenge, self.types)

    def imported_again(self, track: Track) -> ImportedCode:
        return self if self.part is None else ImportedCode(load_plugins(track.path.parent), self.types)


def import_code(
    folder: Path,
    files: tuple[Path, ...],
    dependencies: DocumentNode | None,
    types: OperationTypes,
    home: Path,
    faults: Faults,
    progress: Progress,
    install_dependencies: bool,
) -> ImportedCode:
    """Import the Python files of a track in `folder`; its dependencies are below `home`, or installed there.

    Code that is met for the first time is named on the screen. Raises TrackError for code that cannot be imported, and
    DependencyError for dependencies that are missing and not to be installed; `faults` may gather both.
    """
    part = None
    name_new_code(folder, files, home, progress.insist)
    with faults.apart():
        libraries = Libraries(libraries_folder(home), install_dependencies, progress.say)
        libraries.provide(dependencies)
        part = load_plugins(folder, libraries.folder)
    return ImportedCode(part, TrackOperationTypes(types))
