"""Track processors and validators: code of a track that changes, prepares or refuses it before the race."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from copy import copy
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import EsbenchError, TrackError
from esbench.features.python.document_sets import DocumentSets
from esbench.features.python.esrally import RallyError
from esbench.features.python.loading import Plugins, place_of
from esbench.features.python.view import DocumentsView, PreparedPart, TrackView, view_of
from esbench.features.python.view_to_model import with_changes
from esbench.load.messages import PackedView
from esbench.model import Challenge, Corpus, Track
from esbench.record.private import private_folder
from esbench.track.faults import Faults
from esbench.track.python_part import is_bulk
from esbench.track.tasks import TaskBuilder

if TYPE_CHECKING:
    from esbench.operations import OperationTypes

_SAMPLES = 50  # requests of a parameter source
_AFTER_LOAD, _PREPARE = "on_after_load_track", "on_prepare_track"
_TOOLS = ("downloader", "decompressor")  # what a processor declares in order to be given it


@dataclass(frozen=True)
class PythonCode:
    """The Python part of the raced track, with its view of the track, in which `challenge` is selected."""

    plugins: Plugins
    view: TrackView
    challenge: str
    types: OperationTypes
    params: Mapping[str, Any] = field(default_factory=dict)  # of the track, as given

    def after_load(self, track: Track) -> Track:
        """Run the processors' on_after_load_track and return the changed track; they see the challenge as selected.

        Raises TrackError if their code fails, or for an invalid change.
        """
        for processor in self.plugins.track_processors:
            if (look := getattr(processor, _AFTER_LOAD, None)) is not None:
                with self._code_of(processor, _AFTER_LOAD):
                    look(self.view)
            track = self._changed(track, processor, _AFTER_LOAD)
        return track

    def validate(self) -> None:
        """Call the challenge's validator, if there is one; raises TrackError with the faults it returns or raises.

        It gets the track parameters that were given. It also raises TrackError if the validator's code fails, or
        returns anything but text, a list or nothing.
        """
        validator = self.plugins.validators.get(self.challenge)
        if validator is None:
            return
        what, where = f'the validator of challenge "{self.challenge}"', _line_of(self.plugins, validator)
        with self.plugins.running(what, where):
            try:
                wrong = validator(dict(self.params))
            except RallyError as error:
                wrong = str(error)
        found = [wrong] if isinstance(wrong, str) else wrong or ()
        if not isinstance(found, list | tuple | set):
            raise TrackError(
                f"{what} returned {wrong!r}", where=where, hint="it returns what is wrong: text, a list of it"
            )
        if found:
            raise TrackError(f'challenge "{self.challenge}": {"; ".join(map(str, found))}', where=where)

    def prepare(
        self,
        track: Track,
        data_root: Path,
        documents: Callable[[Corpus], tuple[PreparedDocuments, ...]],
        say: Callable[[str], None] = lambda _: None,
    ) -> tuple[Track, tuple[Corpus, ...]]:
        """Run the processors' on_prepare_track; returns (track with the corpora that they made, these corpora).

        data_root: the folder for their files, those of a corpus NAME in NAME/. documents: prepares the files of a
        corpus that a processor reads. say: shows a message. Raises TrackError if their code fails, or changes tasks.
        """
        read: list[PreparedDocuments] = []
        for processor in self.plugins.track_processors:
            if (find_work := getattr(processor, _PREPARE, None)) is None:
                continue
            sets = DocumentSets(track, self.view, documents, read)
            for tool in _TOOLS:
                if hasattr(processor, tool):
                    setattr(processor, tool, sets)
            private_folder(data_root.parent)
            with self._code_of(processor, _PREPARE):
                works = list(find_work(self.view, str(data_root)) or ())
            for number, work in enumerate(works):
                if not (isinstance(work, tuple) and len(work) == 2 and callable(work[0]) and isinstance(work[1], dict)):
                    raise TrackError(
                        f"{_PREPARE}() of {type(processor).__name__} returned {work!r}",
                        where=_place(self.plugins, processor, _PREPARE),
                        hint="it returns a list of (function, {parameters})",
                    )
                function, params = work
                say(f"{_label(processor)} prepares the track: {number + 1} of {len(works)}")
                with self._code_of(processor, _PREPARE):
                    function(**params)
            _find_files(self.view, data_root)
            prepared = self._changed(track, processor, _PREPARE)
            if [challenge.steps for challenge in prepared.challenges] != [
                challenge.steps for challenge in track.challenges
            ]:
                raise TrackError(
                    f"{_label(processor)} changes tasks when they are in place already",
                    where=_place(self.plugins, processor, _PREPARE),
                    hint=f"change them in {_AFTER_LOAD}()",
                )
            track = prepared
        return track, tuple(_made(track, data_root, any(part.synthetic for part in read)))

    def corpora_of_sources(self, challenge: Challenge) -> set[str]:
        """Return the names of the corpora that a challenge's parameter sources read, from their attribute `corpora`.

        It makes the sources; raises TrackError if one cannot be made.
        """
        found: set[str] = set()
        for task in challenge.tasks:
            if task.operation.python and (made := self.plugins.source_of(task, self.view)) is not None:
                found |= {corpus.name for corpus in getattr(made.source, "corpora", ()) if hasattr(corpus, "name")}
        return found

    def requests_of_sources(self, challenge: Challenge) -> list[Mapping[str, Any]]:
        """Return samples of the parameters that a challenge's sources draw: the first 50 of each, as for one client.

        They are the same each time. A source that fails is left out, since there are no documents yet; in the race its
        failure is reported by its name.
        """
        found: list[Mapping[str, Any]] = []
        state = random.getstate()
        for task in challenge.tasks:
            if task.operation.python and not is_bulk(task.operation.type):
                random.seed(task.name)
                with suppress(EsbenchError):
                    if (source := self.plugins.source_of(task, self.view)) is not None:
                        found += islice(iter(source.partition(0, 1).params, None), _SAMPLES)
        random.setstate(state)
        return found

    def packed(self, documents: Sequence[PreparedDocuments]) -> PackedView:
        """Return the view of the track for workers, pickled, with the paths of the prepared document files."""
        return packed(self.view, documents, self.challenge, self.plugins.libraries)

    def _changed(self, track: Track, processor: Any, method: str) -> Track:
        """Return the track with a processor's changes; errors name the place of the processor's method."""
        builder = TaskBuilder(
            operation_types=self.types,
            variables=track.variables,
            faults=Faults(),
            python=self.plugins,
        )
        try:
            return with_changes(track, self.view, builder)
        except EsbenchError as error:
            where = _place(self.plugins, processor, method)
            raise TrackError(f"{_label(processor)}: {error.what}", where=where, hint=error.hint) from None

    def _code_of(self, processor: Any, method: str) -> AbstractContextManager[None]:
        return self.plugins.running(_label(processor), _place(self.plugins, processor, method))


def own_code_of(track: Track, plugins: Plugins, challenge: str, types: OperationTypes) -> tuple[Track, PythonCode]:
    """Return (track as changed by its processors, its own code with `challenge` selected).

    `challenge` is a name. Raises TrackError as `PythonCode.after_load`.
    """
    view = view_of(track)
    for each in view.challenges:
        each.selected = each.name == challenge
    own = PythonCode(plugins, view, challenge, types, track.params)
    return own.after_load(track), own


def packed(
    view: TrackView, documents: Sequence[PreparedDocuments], challenge: str, libraries: Path | None = None
) -> PackedView:
    """Return the view for workers, pickled: with the prepared document files, and the tasks of this challenge only.

    Raises TrackError if the track's code made it unpicklable.
    """
    left = list(documents)
    corpora = []
    for corpus in view.corpora:
        parts = []
        for part in corpus.documents:
            found = next((p for p in left if p.corpus == corpus.name), None)
            if found is not None:
                left.remove(found)
                part = _in_place(part, found)
            parts.append(part)
        corpora.append(replace(corpus, documents=parts))
    challenges = [
        replace(each, selected=True) if each.name == challenge else replace(each, selected=False, schedule=[])
        for each in view.challenges
    ]
    try:
        content = pickle.dumps(replace(view, corpora=corpora, challenges=challenges))
    except Exception as error:  # pickle raises what it likes
        raise TrackError(
            f"what its own code made of the track cannot be sent to the load workers: {error}",
            where=view.root,
            hint="keep functions, files and locks out of it",
        ) from error
    return PackedView(Path(view.root), libraries, content)


def _in_place(part: DocumentsView, prepared: PreparedDocuments) -> DocumentsView:
    """Return a part of a corpus with its prepared documents; a class of the track gets the prepared file itself.

    A file that a processor of the track wrote is read at its absolute path.
    """
    is_in_place = part.document_file is not None and Path(part.document_file).is_absolute()
    if type(part) is DocumentsView and not is_in_place:
        ready: DocumentsView = PreparedPart(**{each.name: getattr(part, each.name) for each in fields(part)})
        ready.includes_action_and_meta_data = prepared.has_own_actions
    else:
        ready = copy(part)
        if not is_in_place:
            ready.document_file, ready.includes_action_and_meta_data = str(prepared.path), True
    ready.number_of_documents, ready.prepared = prepared.document_count, prepared
    return ready


def _made(track: Track, data_root: Path, synthetic: bool) -> Iterator[Corpus]:
    """Yield the corpora whose files processors have written below `data_root`; `synthetic` marks their documents."""
    for corpus in track.corpora:
        if any(part.source_file and Path(part.source_file).is_relative_to(data_root) for part in corpus.documents):
            yield replace(corpus, documents=tuple(replace(part, synthetic=synthetic) for part in corpus.documents))


def _find_files(view: TrackView, data_root: Path) -> None:
    """Set the absolute paths of the document files that were written below `data_root`."""
    for corpus in view.corpora:
        for part in corpus.documents:
            if part.document_file is not None and (file := data_root / corpus.name / part.document_file).is_file():
                part.document_file = str(file)


def _label(processor: Any) -> str:
    return f"track processor {type(processor).__name__}"


def _place(plugins: Plugins, processor: Any, method: str) -> str:
    return _line_of(plugins, getattr(processor, method, processor))


def _line_of(plugins: Plugins, function: Any) -> str:
    """Return file:line of a function of the track; the track's folder if unknown."""
    return place_of(function) or str(plugins.folder)
