"""The view of a track for its own Python code: the data classes of Rally's `esrally.track`, mutable and picklable.

`view_of` makes them from the model; `view_to_model` applies the changes of track processors to the model. `origin` is
the object of the model that a part of the view was made from; copies of the part keep it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from esbench import model
from esbench.corpus.archives import ending_of
from esbench.corpus.cache import writing
from esbench.corpus.prepared import PreparedDocuments
from esbench.units import PERCENT, Rate

SOURCE_FORMAT_BULK = "bulk"


@dataclass
class IndexView:
    """An index of the track; `body` may be None."""

    name: str
    body: Any = None
    types: Sequence[str] = ()

    def matches(self, pattern: str | None) -> bool:
        return pattern in (None, "_all", self.name)

    def __str__(self) -> str:
        return self.name


@dataclass
class DataStreamView:
    name: str

    def matches(self, pattern: str | None) -> bool:
        return pattern in (None, "_all", self.name)


@dataclass
class IndexTemplate:
    name: str
    pattern: str
    content: Any
    delete_matching_indices: bool = True


@dataclass
class ComponentTemplate:
    name: str
    content: Any


@dataclass
class DocumentsView:
    """One document file of a corpus.

    `document_file` is its name without archive ending, and its path once the corpus is prepared. Tracks derive classes
    from it; attributes that these define as read-only properties are not assigned.
    """

    SOURCE_FORMAT_BULK = SOURCE_FORMAT_BULK

    source_format: str
    document_file: str | None = None
    document_archive: str | None = None
    base_url: str | None = None
    source_url: str | None = None
    includes_action_and_meta_data: bool = False
    number_of_documents: int = 0
    compressed_size_in_bytes: int | None = None
    uncompressed_size_in_bytes: int | None = None
    target_index: str | None = None
    target_data_stream: str | None = None
    target_type: str | None = None
    meta_data: dict[str, Any] = field(default_factory=dict)
    prepared: PreparedDocuments | None = field(default=None, repr=False, compare=False)
    origin: model.Documents | None = field(default=None, repr=False, compare=False)

    def __setattr__(self, name: str, value: Any) -> None:
        own = getattr(type(self), name, None)
        if not (isinstance(own, property) and own.fset is None):
            super().__setattr__(name, value)

    @property
    def source_file(self) -> str | None:
        """The file that the track names: the archive, unless `document_file` is another file."""
        archive, file = self.document_archive, self.document_file
        return archive if archive and file in (None, plain_name(archive)) else file

    @property
    def is_bulk(self) -> bool:
        return self.source_format == SOURCE_FORMAT_BULK

    @property
    def number_of_lines(self) -> int:
        return self.number_of_documents * (2 if self.includes_action_and_meta_data else 1)

    def has_compressed_corpus(self) -> bool:
        return self.document_archive is not None

    def has_uncompressed_corpus(self) -> bool:
        return self.document_file is not None


class PreparedPart(DocumentsView):
    """Prepared documents: `document_file` is the track's file, unpacked, and is made on first access."""

    @property
    def document_file(self) -> str | None:
        return None if self.prepared is None else str(plain_file(self.prepared))

    @document_file.setter
    def document_file(self, file: str | None) -> None:
        """Ignore the value: the path follows from the prepared documents."""


def plain_file(documents: PreparedDocuments) -> Path:
    """Return a file with one document per line, without the action lines that esbench wrote, made on first use.

    If the action lines came with the track, that is the prepared file itself. Raises TrackError for documents that are
    unpacked while they are sent, for which there is no file.
    """
    if documents.has_own_actions:
        return documents.file
    plain = documents.file.with_suffix(".documents")
    if not plain.exists():
        with documents.file.open("rb") as lines, writing(plain, documents.where) as out:
            out.writelines(islice(lines, 1, None, 2))
    return plain


@dataclass
class DocumentCorpus:
    name: str
    documents: list[DocumentsView] = field(default_factory=list)
    meta_data: dict[str, Any] = field(default_factory=dict)

    def number_of_documents(self, source_format: str = SOURCE_FORMAT_BULK) -> int:
        return sum(part.number_of_documents for part in self.documents if part.source_format == source_format)

    def filter(
        self,
        source_format: str | None = None,
        target_indices: Sequence[str] | None = None,
        target_data_streams: Sequence[str] | None = None,
    ) -> DocumentCorpus:
        """Return the corpus with only the files of that format and those targets; None or no targets means all."""
        kept = [
            part
            for part in self.documents
            if source_format in (None, part.source_format)
            and (not target_indices or part.target_index in target_indices)
            and (not target_data_streams or part.target_data_stream in target_data_streams)
        ]
        return DocumentCorpus(self.name, kept, self.meta_data)


@dataclass
class OperationView:
    name: str
    type: str
    params: dict[str, Any]
    param_source: str | None = None
    meta_data: dict[str, Any] = field(default_factory=dict)
    origin: model.Operation | None = field(default=None, repr=False, compare=False)


@dataclass
class TaskView:
    """A task; `params` holds its own keys and those that schedulers read.

    Periods are in seconds; `target_throughput` is a number in the rate's own unit, text of one in percent ("70%"), None
    without a target.
    """

    name: str
    operation: OperationView
    params: dict[str, Any]
    clients: int = 1
    tags: list[str] = field(default_factory=list)
    schedule: str | None = None
    warmup_iterations: int | None = None
    iterations: int | None = None
    warmup_time_period: float | None = None
    time_period: float | None = None
    ramp_up_time_period: float | None = None
    target_throughput: Any = None
    meta_data: dict[str, Any] = field(default_factory=dict)
    origin: model.Task | None = field(default=None, repr=False, compare=False)

    def __iter__(self) -> Iterator[TaskView]:
        yield self


@dataclass
class Parallel:
    """Tasks that run at the same time."""

    tasks: list[TaskView]
    clients: int | None = None

    @property
    def name(self) -> str:
        return ",".join(task.name for task in self.tasks)

    def __iter__(self) -> Iterator[TaskView]:
        return iter(self.tasks)


@dataclass
class ChallengeView:
    name: str
    schedule: list[TaskView | Parallel]
    parameters: dict[str, Any] = field(default_factory=dict)
    description: str = ""
    default: bool = False
    selected: bool = False
    meta_data: dict[str, Any] = field(default_factory=dict)


@dataclass
class TrackView:
    name: str
    root: str
    description: str = ""
    meta_data: dict[str, Any] = field(default_factory=dict)
    challenges: list[ChallengeView] = field(default_factory=list)
    indices: list[IndexView] = field(default_factory=list)
    data_streams: list[DataStreamView] = field(default_factory=list)
    templates: list[IndexTemplate] = field(default_factory=list)
    composable_templates: list[IndexTemplate] = field(default_factory=list)
    component_templates: list[ComponentTemplate] = field(default_factory=list)
    corpora: list[DocumentCorpus] = field(default_factory=list)
    has_plugins: bool = True

    def moved(self, place_of: Callable[[Path], Path]) -> TrackView:
        """Return the track as it is on another host, where `place_of` says that its files are."""
        corpora = []
        for corpus in self.corpora:
            parts = [copy(part) for part in corpus.documents]
            for part in parts:
                file = part.document_file if type(part) is not PreparedPart else None
                if file is not None and Path(file).is_absolute():
                    part.document_file = str(place_of(Path(file)))
                part.prepared = None if part.prepared is None else part.prepared.moved(place_of)
            corpora.append(replace(corpus, documents=parts))
        return replace(self, root=str(place_of(Path(self.root))), corpora=corpora)

    @property
    def default_challenge(self) -> ChallengeView | None:
        return next((challenge for challenge in self.challenges if challenge.default), None)

    @property
    def selected_challenge(self) -> ChallengeView | None:
        return next((challenge for challenge in self.challenges if challenge.selected), None)

    @property
    def selected_challenge_or_default(self) -> ChallengeView | None:
        return self.selected_challenge or self.default_challenge

    def index_names(self) -> list[str]:
        return [index.name for index in self.indices]

    def data_stream_names(self) -> list[str]:
        return [stream.name for stream in self.data_streams]


def view_of(track: model.Track) -> TrackView:
    """Return the view of a track for its own code; values that this code may change are copies."""
    return TrackView(
        name=track.name,
        root=str(track.path.parent),
        description=track.description,
        meta_data=dict(track.meta),
        challenges=[challenge_view(challenge) for challenge in track.challenges],
        indices=[IndexView(index.name, copied(index.body)) for index in track.indices],
        data_streams=[DataStreamView(stream.name) for stream in track.data_streams],
        templates=[_template(template) for template in track.templates.legacy],
        composable_templates=[_template(template) for template in track.templates.composable],
        component_templates=[ComponentTemplate(each.name, copied(each.body)) for each in track.templates.component],
        corpora=[corpus_view(corpus) for corpus in track.corpora],
    )


def plain_name(file: str) -> str:
    """Return the name of a document file without its archive ending."""
    return file.removesuffix(ending_of(file))


def task_view(task: model.Task) -> TaskView:
    schedule = task.schedule
    rate = schedule.rate
    return TaskView(
        name=task.name,
        operation=operation_view(task.operation),
        params={
            **task.params,
            **({"target-throughput": shown_rate(rate)} if rate else {}),
            **({"clients": task.clients} if task.clients > 1 else {}),
        },
        clients=task.clients,
        tags=list(task.tags),
        schedule=schedule.kind,
        warmup_iterations=task.warmup_iterations,
        iterations=task.iterations,
        warmup_time_period=task.warmup_time_s,
        time_period=task.time_period_s,
        ramp_up_time_period=schedule.ramp_up_s or None,
        target_throughput=None if rate is None else shown_rate(rate),
        meta_data=dict(task.meta),
        origin=task,
    )


def shown_rate(rate: Rate) -> float | str:
    """Return a rate as code of a track reads it: a number in its unit, or text in percent ("70%")."""
    return f"{rate.value:.12g}%" if rate.unit == PERCENT else rate.value


def operation_view(operation: model.Operation) -> OperationView:
    return OperationView(
        operation.name,
        operation.type,
        copied(operation.params),
        operation.params.get("param-source"),
        dict(operation.meta),
        operation,
    )


def challenge_view(challenge: model.Challenge) -> ChallengeView:
    schedule: list[TaskView | Parallel] = []
    for step in challenge.steps:
        tasks = [task_view(task) for task in step.tasks]
        schedule.append(tasks[0] if len(tasks) == 1 else Parallel(tasks, step.clients))
    return ChallengeView(
        challenge.name,
        schedule,
        parameters=copied(challenge.params),
        description=challenge.description,
        default=challenge.default,
        meta_data=dict(challenge.meta),
    )


def _template(template: model.Template) -> IndexTemplate:
    pattern, delete = template.index_pattern or "", template.delete_matching_indices
    return IndexTemplate(template.name, pattern, copied(template.body), delete)


def corpus_view(corpus: model.Corpus) -> DocumentCorpus:
    parts = [documents_view(part) for part in corpus.documents]
    return DocumentCorpus(corpus.name, parts, dict(corpus.meta))


def documents_view(part: model.Documents) -> DocumentsView:
    file = part.source_file
    return DocumentsView(
        SOURCE_FORMAT_BULK,
        document_file=None if file is None else plain_name(file),
        document_archive=file if file is not None and ending_of(file) else None,
        base_url=part.base_url,
        source_url=part.source_url,
        includes_action_and_meta_data=part.includes_action_and_meta_data,
        number_of_documents=part.document_count or 0,
        compressed_size_in_bytes=part.compressed_bytes,
        uncompressed_size_in_bytes=part.uncompressed_bytes,
        target_index=part.target_index,
        target_data_stream=part.target_data_stream,
        target_type=part.target_type,
        meta_data=dict(part.meta),
        origin=part,
    )


def copied(value: Any) -> Any:
    """Return a deep copy of mappings and lists, as dict and list."""
    if isinstance(value, Mapping):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [copied(inner) for inner in value]
    return value
