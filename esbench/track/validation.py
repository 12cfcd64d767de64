"""Everything that is wrong with a track and can be seen in its files. Nothing is downloaded, installed or started."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from esbench.errors import CorpusError, EsbenchError
from esbench.model import Track
from esbench.registry import Registry
from esbench.track.corpus import corpus_folder
from esbench.track.dependencies import DependencyError, Libraries, libraries_folder
from esbench.track.faults import Faults
from esbench.track.loader import load_track
from esbench.track.rendering import RenderContext
from esbench.track.supply import Origin, Supply

if TYPE_CHECKING:
    from esbench.operations.base import OperationType


@dataclass(frozen=True)
class Findings:
    """What is wrong with a track, and what is not on this machine; `track` lacks what is wrong, None: all of it."""

    problems: tuple[EsbenchError, ...]
    warnings: tuple[EsbenchError, ...]
    track: Track | None


def check_track(track: Path, context: RenderContext, operation_types: Registry[OperationType], home: Path) -> Findings:
    """Everything that is wrong with a track and can be seen in its files; `home` has document files and libraries."""
    faults = Faults(gather=True)
    loaded: Track | None = None
    warnings: list[EsbenchError] = []
    with faults.apart():
        libraries = Libraries(libraries_folder(home))
        loaded = load_track(track, context, operation_types, faults=faults, libraries=libraries)
        warnings += _missing_documents(loaded, home / "cache" / "corpora")
    missing = [fault for fault in faults.found if isinstance(fault, DependencyError)]
    problems = tuple(fault for fault in faults.found if fault not in missing)
    return Findings(problems, (*missing, *warnings), loaded)


def _missing_documents(track: Track, cache: Path) -> Iterator[EsbenchError]:
    """The document files of a track that are neither beside it nor in the cache."""
    for corpus in track.corpora:
        where = f'{track.path}: corpus "{corpus.name}"'
        supply = Supply(track.path.parent, corpus_folder(cache, corpus.name), Origin(offline=True), where)
        for part in corpus.documents:
            if part.generate is not None:
                continue
            try:
                supply.obtain(part)
            except CorpusError as error:
                can_be_had = part.base_url is not None or part.source_url is not None
                hint = "a race downloads it" if can_be_had else f"put it into {track.path.parent}"
                yield CorpusError(error.what, where=error.where, hint=hint)
