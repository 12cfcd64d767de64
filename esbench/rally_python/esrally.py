"""The modules under `esrally` that tracks import, with what tracks use of them and nothing else.

They are made of esbench's own classes; `plugins.importable` puts them in place while a track's code is loaded.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from types import ModuleType
from typing import Any, BinaryIO, Self

from esbench.corpus.download import download as fetch
from esbench.errors import TrackError
from esbench.rally_python import parameter_sources as sources
from esbench.rally_python import view
from esbench.rally_python.document_sets import DocumentSets


class RallyError(Exception):
    """What a track raises to end the race with a message of its own."""

    def __init__(self, message: str = "", cause: BaseException | None = None) -> None:
        super().__init__(message, cause)
        self.message = message
        self.cause = cause

    def __str__(self) -> str:
        return str(self.message)


class RallyAssertionError(RallyError):
    """Something that must hold does not."""


class RallyTaskAssertionError(RallyAssertionError):
    """An assertion of a task does not hold."""


class ConfigError(RallyError): ...


class DataError(RallyError): ...


class InvalidSyntax(RallyError): ...  # noqa: N818 - Rally's name


class NotFound(RallyError): ...  # noqa: N818 - Rally's name


class SystemSetupError(RallyError): ...


class TrackConfigError(RallyError): ...


class TrackSyntaxError(RallyError): ...


class TrackProcessor:
    """Looks at a track after it was loaded, and prepares what it needs before the race; subclasses override."""

    def on_after_load_track(self, track: view.Track) -> None:
        """Change the track."""

    def on_prepare_track(self, track: view.Track, data_root_dir: str) -> list[Any]:
        """Functions with their parameters, `[(function, {...}), ...]`, to be called before the race."""
        return []


class DefaultTrackPreparator(TrackProcessor):
    """Document files are prepared by esbench itself."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__()


class DocumentSetPreparator:
    """Puts document files where a processor wants to read them; `downloader` is what the processor was given."""

    def __init__(self, track_name: str, downloader: Any, decompressor: Any = None) -> None:
        if not isinstance(downloader, DocumentSets):
            raise TrackError(
                "DocumentSetPreparator was given another downloader than its track processor has",
                hint="give the processor an attribute downloader: it is set before on_prepare_track()",
            )
        self._sets = downloader

    def prepare_document_set(self, document_set: view.Documents, data_root: str) -> None:
        """Unpack the file below that folder, under the name of its `document_file`: a document in each line."""
        self._sets.place(document_set, Path(data_root))

    def prepare_bundled_document_set(self, document_set: view.Documents, data_root: str) -> bool:
        """Never: where a file comes from is found out by `prepare_document_set`."""
        return False


class FileSource:
    """Lines of a file as bytes."""

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
    """Lines of a file that is mapped into memory."""

    def open(self) -> Self:
        with Path(self.file_name).open("rb") as file:
            self.f = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self


def download(
    url: str, local_path: str, expected_size_in_bytes: int | None = None, progress_indicator: object = None
) -> None:
    """Fetch a file as a corpus is fetched: whole, or not at all under its name."""
    fetch(url, Path(local_path), where="", size_bytes=expected_size_in_bytes)


def rally_confdir() -> str:
    """Rally's own folder, `~/.rally`, or below `RALLY_HOME`."""
    return str(Path(os.environ.get("RALLY_HOME") or "~").expanduser() / ".rally")


def modules() -> dict[str, ModuleType]:
    """The modules by their full names, each new; what is asked of them beyond their content is an AttributeError."""
    from esbench.rally_python import runners

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
        view.DataStream,
        view.DocumentCorpus,
        view.Documents,
        view.Index,
        view.IndexTemplate,
        view.Track,
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
