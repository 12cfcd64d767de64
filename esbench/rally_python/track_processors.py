"""What a track's own code does to it before the race: processors change and prepare it, validators refuse it."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.corpus.preparation import corpus_folder
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import EsbenchError, TrackError
from esbench.measure.schedule import rates
from esbench.model import Challenge, Corpus, Task, Track
from esbench.rally_python import view as plugins_view
from esbench.rally_python.document_sets import DocumentSets
from esbench.rally_python.loading import Plugins, importable, own_code, place_of
from esbench.rally_python.parameter_sources import is_bulk
from esbench.rally_python.view_to_model import Names, with_changes
from esbench.registry import Registry

if TYPE_CHECKING:
    from esbench.operations.base import OperationType

_SAMPLES = 50  # requests of a parameter source
_AFTER_LOAD, _PREPARE = "on_after_load_track", "on_prepare_track"
_TOOLS = ("downloader", "decompressor")  # what a processor declares in order to be given it


def after_load(
    track: Track, plugins: Plugins, challenge: str, operations: Registry[OperationType]
) -> tuple[Track, plugins_view.Track]:
    """The track as its processors leave it, and their view of it, in which `challenge` is selected."""
    view = plugins_view.view_of(track)
    for each in view.challenges:
        each.selected = each.name == challenge
    for processor in plugins.track_processors:
        if (look := getattr(processor, _AFTER_LOAD, None)) is not None:
            with _code_of(plugins, processor, _AFTER_LOAD):
                look(view)
        track = _changed(track, view, plugins, operations, processor, _AFTER_LOAD)
    return track, view


def prepare(
    track: Track,
    view: plugins_view.Track,
    plugins: Plugins,
    data_root: Path,
    operations: Registry[OperationType],
    documents: Callable[[Corpus], tuple[PreparedDocuments, ...]],
    say: Callable[[str], None] = lambda _: None,
) -> tuple[Track, tuple[Corpus, ...]]:
    """Let the processors prepare what they need; the track with the corpora that they made, and these.

    data_root: the folder for what they make: a corpus NAME in NAME/. documents: makes a corpus' files ready for those
    that read them.
    """
    read: list[PreparedDocuments] = []
    for processor in plugins.track_processors:
        if (find_work := getattr(processor, _PREPARE, None)) is None:
            continue
        sets = DocumentSets(track, view, documents, read)
        for tool in _TOOLS:
            if hasattr(processor, tool):
                setattr(processor, tool, sets)
        with _code_of(plugins, processor, _PREPARE):
            works = list(find_work(view, str(data_root)) or ())
        for number, work in enumerate(works):
            if not (isinstance(work, tuple) and len(work) == 2 and callable(work[0]) and isinstance(work[1], dict)):
                raise TrackError(
                    f"{_PREPARE}() of {type(processor).__name__} returned {work!r}",
                    where=_place(plugins, processor, _PREPARE),
                    hint="it returns a list of (function, {parameters})",
                )
            function, params = work
            say(f"{_label(processor)} prepares the track: {number + 1} of {len(works)}")
            with _code_of(plugins, processor, _PREPARE):
                function(**params)
        _find_files(view, data_root)
        prepared = _changed(track, view, plugins, operations, processor, _PREPARE)
        if [challenge.steps for challenge in prepared.challenges] != [
            challenge.steps for challenge in track.challenges
        ]:
            raise TrackError(
                f"{_label(processor)} changes tasks when they are in place already",
                where=_place(plugins, processor, _PREPARE),
                hint=f"change them in {_AFTER_LOAD}()",
            )
        track = prepared
    return track, tuple(_made(track, data_root, any(part.synthetic for part in read)))


def _made(track: Track, data_root: Path, synthetic: bool) -> Iterator[Corpus]:
    """The corpora whose files processors have written, perhaps of synthetic documents."""
    for corpus in track.corpora:
        if any(part.source_file and Path(part.source_file).is_relative_to(data_root) for part in corpus.documents):
            yield replace(corpus, documents=tuple(replace(part, synthetic=synthetic) for part in corpus.documents))


def fresh_cache(made: tuple[Corpus, ...], data_root: Path) -> Path:
    """The cache for the corpora that processors have made, without what was prepared of files that are no more."""
    cache = data_root / "prepared"
    for corpus in made:
        folder = corpus_folder(cache, corpus.name)
        written_ns = [Path(part.source_file).stat().st_mtime_ns for part in corpus.documents if part.source_file]
        if folder.exists() and folder.stat().st_mtime_ns < max(written_ns):
            shutil.rmtree(folder)
    return cache


def _find_files(view: plugins_view.Track, data_root: Path) -> None:
    """Give the document files that were written below `data_root` their absolute paths."""
    for corpus in view.corpora:
        for part in corpus.documents:
            if part.document_file is not None and (file := data_root / corpus.name / part.document_file).is_file():
                part.document_file = str(file)


def corpora_of_sources(challenge: Challenge, view: plugins_view.Track, plugins: Plugins) -> set[str]:
    """The names of the corpora that parameter sources of a challenge read: those in their attribute `corpora`."""
    found: set[str] = set()
    for task in challenge.tasks:
        if task.operation.python and (made := plugins.source_of(task, view)) is not None:
            found |= {corpus.name for corpus in getattr(made.source, "corpora", ()) if hasattr(corpus, "name")}
    return found


def requests_of_sources(challenge: Challenge, view: plugins_view.Track, plugins: Plugins) -> list[Mapping[str, Any]]:
    """What parameter sources of a challenge ask for: the first requests of each, as one client of one draws them.

    The same each time. A source that fails here is left out, since there are no documents yet: in the race it fails
    by its name.
    """
    found: list[Mapping[str, Any]] = []
    state = random.getstate()
    for task in challenge.tasks:
        if task.operation.python and not is_bulk(task.operation.type):
            random.seed(task.name)
            with suppress(EsbenchError):
                if (source := plugins.source_of(task, view)) is not None:
                    found += islice(iter(source.partition(0, 1).params, None), _SAMPLES)
    random.setstate(state)
    return found


def validate(view: plugins_view.Track, plugins: Plugins, challenge: str) -> None:
    """Ask the validator of a challenge, if there is one: what it returns is what is wrong."""
    validator = plugins.validators.get(challenge)
    if validator is None:
        return
    what, where = f'the validator of challenge "{challenge}"', _line_of(plugins, validator)
    with importable(plugins.folder), own_code(plugins.folder, what, where):
        wrong = validator(view)
    found = [wrong] if isinstance(wrong, str) else wrong or ()
    if not isinstance(found, list | tuple | set):
        raise TrackError(f"{what} returned {wrong!r}", where=where, hint="it returns what is wrong: text, a list of it")
    if found:
        raise TrackError(f'challenge "{challenge}": {"; ".join(map(str, found))}', where=where)


def _changed(
    track: Track,
    view: plugins_view.Track,
    plugins: Plugins,
    operations: Registry[OperationType],
    processor: Any,
    method: str,
) -> Track:
    """The track with what a processor changed; its errors stand at the processor's method."""
    names = Names(
        frozenset(operations),
        frozenset(plugins.runners),
        frozenset(plugins.param_sources),
        frozenset(plugins.schedulers),
    )
    try:
        changed = with_changes(track, view, names)
        before = {id(task) for challenge in track.challenges for task in challenge.tasks}
        for task in (task for challenge in changed.challenges for task in challenge.tasks):
            if id(task) not in before:
                _check(task, operations)
    except EsbenchError as error:
        where = _place(plugins, processor, method)
        raise TrackError(f"{_label(processor)}: {error.what}", where=where, hint=error.hint) from None
    return changed


def _check(task: Task, operations: Registry[OperationType]) -> None:
    """A TrackError when what the track's own code made of a task is none that its operation type can do."""
    from esbench.rally_python.operations import operation_type

    kind, params = operation_type(task.operation, operations), task.operation.params
    try:
        kind.check(params, "")
        for rate in rates(task.schedule):
            kind.check_rate(rate, params, "")
    except EsbenchError as error:
        raise TrackError(f'task "{task.name}": {error.what}', hint=error.hint) from None


@contextmanager
def _code_of(plugins: Plugins, processor: Any, method: str) -> Iterator[None]:
    where = _place(plugins, processor, method)
    with importable(plugins.folder), own_code(plugins.folder, _label(processor), where):
        yield


def _label(processor: Any) -> str:
    return f"track processor {type(processor).__name__}"


def _place(plugins: Plugins, processor: Any, method: str) -> str:
    return _line_of(plugins, getattr(processor, method, processor))


def _line_of(plugins: Plugins, function: Any) -> str:
    """file:line of a function of the track's own; its folder where that cannot be told."""
    return place_of(function) or str(plugins.folder)
