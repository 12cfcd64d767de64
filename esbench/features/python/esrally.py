"""The modules under `esrally` that tracks import, with only the names that tracks use.

They consist of esbench's classes; `loading.importable` provides them while a track's code is loaded.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Self

from esbench.corpus.download import download as fetch
from esbench.errors import TrackError
from esbench.errors.user_paths import user_path
from esbench.features.python import parameter_sources as sources
from esbench.features.python import runners, view
from esbench.features.python.document_sets import DocumentSets


class RallyError(Exception):
    """The error that a track raises to end the race with its message."""

    def __init__(self, message: str = "", cause: BaseException | None = None) -> None:
        super().__init__(message, cause)
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        return str(self.message)


class RallyAssertionError(RallyError):
    """Error: a condition that must hold does not."""


class RallyTaskAssertionError(RallyAssertionError):
    """Error: an assertion of a task does not hold."""


class ConfigError(RallyError): ...


class DataError(RallyError): ...


class InvalidSyntax(RallyError): ...  # noqa: N818 - Rally's name


class NotFound(RallyError): ...  # noqa: N818 - Rally's name


class SystemSetupError(RallyError): ...


class TrackConfigError(RallyError): ...


class TrackSyntaxError(RallyError): ...


class TrackProcessor:
    """Base of track processors: subclasses change a track after it was loaded, or prepare files before the race."""

    def on_after_load_track(self, track: view.TrackView) -> None:
        """Change the track; the default does nothing."""

    def on_prepare_track(self, track: view.TrackView, data_root_dir: str) -> list[Any]:
        """Return functions with their parameters, `[(function, {...}), ...]`, to be called before the race.

        `data_root_dir`: the folder for the files that they write, those of a corpus NAME in NAME/.
        """
        return []


class DefaultTrackPreparator(TrackProcessor):
    """A track processor that does nothing: esbench itself prepares document files."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


class DocumentSetPreparator:
    """Placing of document files for a processor to read; `downloader` is the one that the processor was given."""

    def __init__(self, track_name: str, downloader: Any, decompressor: Any = None) -> None:
        if not isinstance(downloader, DocumentSets):
            raise TrackError(
                "DocumentSetPreparator was given another downloader than its track processor has",
                hint="give the processor an attribute downloader: it is set before on_prepare_track()",
            )
        self._sets = downloader

    def prepare_document_set(self, document_set: view.DocumentsView, data_root: str) -> None:
        """Place the unpacked file below `data_root`, by the name in its `document_file`: one document per line."""
        self._sets.place(document_set, Path(data_root))

    def prepare_bundled_document_set(self, document_set: view.DocumentsView, data_root: str) -> bool:
        """Return False: `prepare_document_set` finds a file wherever it comes from."""
        return False


class FileSource:
    """A file read as lines of bytes, once it is open; `mode` and `encoding` have no effect."""

    def __init__(self, file_name: str, mode: str, encoding: str = "utf-8") -> None:
        self.file_name = file_name

    def open(self) -> Self:
        self.f: BinaryIO | mmap.mmap = Path(self.file_name).open("rb")  # noqa: SIM115 - closed by close()
        return self

    def seek(self, offset: int) -> None:
        self.f.seek(offset)

    def read(self) -> bytes:
        return self.f.read()

    def readline(self) -> bytes:
        return self.f.readline()

    def readlines(self, num_lines: int) -> list[bytes]:
        lines = []
        for _ in range(num_lines):
            line = self.f.readline()
            if not line:
                break
            lines.append(line)
        return lines

    def close(self) -> None:
        self.f.close()

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()


class MmapSource(FileSource):
    """A file mapped into memory, read as lines of bytes."""

    def open(self) -> Self:
        if not Path(self.file_name).stat().st_size:
            return super().open()  # nothing to map, which mmap refuses
        with Path(self.file_name).open("rb") as file:
            self.f = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self


def download(
    url: str, local_path: str, expected_size_in_bytes: int | None = None, progress_indicator: object = None
) -> None:
    """Download a file, unless it exists: it gets its name only when it is whole. `progress_indicator` has no effect.

    `expected_size_in_bytes`: the size that it must have. Raises CorpusError.
    """
    fetch(url, Path(local_path), where="", size_bytes=expected_size_in_bytes)


def rally_confdir() -> str:
    """Return Rally's folder: `.rally` in `RALLY_HOME`, or in the home folder."""
    return str(user_path(os.environ.get("RALLY_HOME") or "~", "RALLY_HOME") / ".rally")


def modules() -> dict[str, ModuleType]:
    """Return new modules by their full names; access to a name that they lack is an AttributeError."""
    exceptions = _module("exceptions", *_kinds(RallyError))
    io = _module(
        "utils.io",
        FileSource,
        MmapSource,
        ensure_dir=lambda directory, mode=0o777: Path(directory).mkdir(mode, parents=True, exist_ok=True),
        basename=os.path.basename,
        dirname=os.path.dirname,
    )
    params = _module(
        "track.params",
        sources.ParamSource,
        sources.BulkIndexParamSource,
        sources.IndexIdConflict,
        sources.Slice,
        sources.bounds,
        sources.chain,
        sources.CreateComponentTemplateParamSource,
        sources.CreateComposableTemplateParamSource,
        exceptions=exceptions,  # for "from esrally.track.params import *"
        io=io,
    )
    loader = _module("track.loader", TrackProcessor, DefaultTrackPreparator, DocumentSetPreparator)
    track = _module(
        "track",
        view.ComponentTemplate,
        view.DocumentCorpus,
        view.IndexTemplate,
        DataStream=view.DataStreamView,
        Documents=view.DocumentsView,
        Index=view.IndexView,
        Track=view.TrackView,
        exceptions=exceptions,
        params=params,
        loader=loader,
    )
    runner = _module(
        "driver.runner",
        runners.Runner,
        runners.BulkIndex,
        runners.PutSettings,
        runners.runner_for,
        runners.unwrap,
        runners.mandatory,
    )
    driver = _module("driver", runner=runner)
    net = _module("utils.net", download, download_http=download)
    utils = _module("utils", io=io, net=net)
    paths = _module("paths", rally_confdir)
    root = _module("", exceptions=exceptions, track=track, driver=driver, utils=utils, paths=paths)
    every = (root, exceptions, paths, track, params, loader, driver, runner, utils, io, net)
    return {module.__name__: module for module in every}


def _kinds(kind: type[Exception]) -> list[type[Exception]]:
    return [kind, *(inner for sub in kind.__subclasses__() if sub.__module__ == __name__ for inner in _kinds(sub))]


def _module(name: str, *content: Any, **named: Any) -> ModuleType:
    module = ModuleType(f"esrally.{name}" if name else "esrally", "What tracks use of Rally, provided by esbench.")
    if any(isinstance(value, ModuleType) for value in named.values()) or not name:
        module.__path__ = []  # a package, so that "import esrally.track.params" finds its parts
    for thing in content:
        setattr(module, thing.__name__, thing)
    for key, value in named.items():
        setattr(module, key, value)
    return module
