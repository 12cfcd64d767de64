"""The base classes of tracks' parameter sources: those of Rally's `esrally.track.params`."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any, Self

from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.features.python.view import DocumentsView, TrackView


class ParamSource:
    """A parameter source that always returns the operation's unchanged parameters; subclasses override `params`."""

    infinite = True

    def __init__(self, track: TrackView, params: dict[str, Any], **kwargs: Any) -> None:
        self.track = track
        self._params = params
        self.kwargs = kwargs

    def partition(self, partition_index: int, total_partitions: int) -> Self:
        return self

    def params(self) -> Mapping[str, Any]:
        return self._params

    @property
    def percent_completed(self) -> float | None:
        return None


class IndexIdConflict(Enum):
    """The kinds of id conflicts in Rally, for tracks that import the name; only NoConflicts is supported."""

    NoConflicts = 0
    SequentialConflicts = 1
    RandomConflicts = 2


class Slice:
    """Lines of a file source: `number_of_lines` from `offset` on; an iterator over lists of up to `bulk_size` lines.

    `source_class` is called with file name and mode, as FileSource. Call `open` before iterating.
    """

    def __init__(self, source_class: Any, offset: int, number_of_lines: int) -> None:
        self.source_class = source_class
        self.offset = offset
        self.number_of_lines = number_of_lines
        self.current_line = 0
        self.bulk_size = 0
        self.source: Any = None

    def open(self, file_name: str, mode: str, bulk_size: int) -> Self:
        self.bulk_size = bulk_size
        self.source = self.source_class(file_name, mode).open()
        for _ in range(self.offset):
            self.source.readline()
        return self

    def close(self) -> None:
        self.source.close()
        self.source = None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> list[bytes]:
        left = self.number_of_lines - self.current_line
        if left <= 0:
            raise StopIteration
        lines: list[bytes] = self.source.readlines(min(self.bulk_size, left))
        if not lines:
            raise StopIteration
        self.current_line += len(lines)
        return lines


class BulkIndexParamSource(ParamSource):
    """A parameter source of bulks of the track's corpora, as the operation type `bulk` sends them.

    `partition` returns the source of one client's part. `params` returns the operation's parameters with `body` (bytes:
    action lines and documents), `bulk-size` (documents in it), `index` and `unit`, and raises StopIteration at the end
    unless `looped`. Raises TrackError without "bulk-size".
    """

    infinite = False

    def __init__(self, track: TrackView, params: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(track, params, **kwargs)
        self.looped = str(params.get("looped", False)).lower() == "true"
        if self.looped:
            self.infinite = True
        if "bulk-size" not in params:
            raise TrackError('BulkIndexParamSource needs "bulk-size"')
        self.bulk_size = int(params["bulk-size"])
        self.ingest_percentage = float(params.get("ingest-percentage", 100))
        named = params.get("corpora")
        names = [named] if isinstance(named, str) else named
        self.corpora = [corpus for corpus in track.corpora if not names or corpus.name in names]
        self._total = self._sent = 0
        self._bulks: Iterator[dict[str, Any]] | None = None
        self._part = (0, 1)
        self._seed = random.getrandbits(64)  # repeatable, as all that sources draw

    def partition(self, partition_index: int, total_partitions: int) -> Self:
        made = type(self)(self.track, self._params, **self.kwargs)
        made._part = (partition_index, total_partitions)
        made._seed = self._seed
        return made

    def params(self) -> Mapping[str, Any]:
        if self._bulks is None:
            self._bulks = self._make()
        bulk = next(self._bulks)
        self._sent += bulk["bulk-size"]
        return bulk

    @property
    def percent_completed(self) -> float:
        return self._sent / self._total if self._total and not self.looped else 0.0

    def _make(self) -> Iterator[dict[str, Any]]:
        from esbench.corpus.bulk_source import BulkSource, ConflictingBulks, conflicts_of, partition

        number, total = self._part
        shares: list[tuple[DocumentsView, PreparedDocuments, int, int]] = []
        for part in (part for corpus in self.corpora for part in corpus.documents):
            if part.prepared is None:
                raise TrackError("the documents of BulkIndexParamSource are not there", hint="name them in corpora")
            sent = math.ceil(part.prepared.document_count * self.ingest_percentage / 100)
            first, last = partition(sent, total, number)
            if last > first:
                shares.append((part, part.prepared, first, last))
        self._total = sum(last - first for *_, first, last in shares)
        conflicts = conflicts_of(self._params, [prepared for _, prepared, *_ in shares], "BulkIndexParamSource")
        while shares:
            for part, prepared, first, last in shares:
                source = BulkSource(prepared, first, last, self.bulk_size)
                bulks: BulkSource | ConflictingBulks = source
                if conflicts is not None:
                    seed = f"{self._seed}/{number}/{prepared.path.name}"
                    bulks = ConflictingBulks(source, first, last - first, conflicts, seed)
                for body, documents in bulks:
                    yield {
                        **self._params,
                        "index": part.target_index or part.target_data_stream,
                        "action-metadata-present": True,
                        "body": bytes(body),
                        "bulk-size": documents,
                        "unit": "docs",
                    }
            if not self.looped:
                return


def bounds(
    total_docs: int,
    start_client_index: int,
    end_client_index: int,
    num_clients: int,
    includes_action_and_meta_data: bool,
) -> tuple[int, int, int]:
    """Return (first line, documents, lines) of a file's part for clients `start_client_index` to `end_client_index`.

    Clients and lines count from 0; the last client is included.
    """
    first = round(total_docs / num_clients * start_client_index)
    documents = round(total_docs / num_clients * (end_client_index + 1)) - first
    lines = 2 if includes_action_and_meta_data else 1
    return first * lines, documents, documents * lines


def chain(*iterables: Any) -> Iterator[Any]:
    """Yield the elements of iterables in sequence; each is a context manager, entered before its first element."""
    for iterable in iterables:
        with iterable:
            yield from iterable


class CreateComponentTemplateParamSource(ParamSource):
    """A parameter source of component templates: the operation's (`template`, `body`) or the track's.

    Its parameter `templates` is a list of (name, body); `template` alone selects one of the track, if there is one.
    """

    def __init__(self, track: TrackView, params: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(track, params, **kwargs)
        self.request_params = params.get("request-params", {})
        if "template" in params and "body" in params:
            self.template_definitions = [(params["template"], params["body"])]
        else:
            wanted = params.get("template")
            self.template_definitions = [
                (template.name, template.content)
                for template in self._of_the_track(track)
                if wanted in (None, template.name)
            ]

    def _of_the_track(self, track: TrackView) -> list[Any]:
        return list(track.component_templates)

    def params(self) -> Mapping[str, Any]:
        return {**self._params, "templates": self.template_definitions, "request-params": self.request_params}


class CreateComposableTemplateParamSource(CreateComponentTemplateParamSource):
    """A parameter source of composable templates (`templates`): the operation's or the track's."""

    def _of_the_track(self, track: TrackView) -> list[Any]:
        return list(track.composable_templates)
