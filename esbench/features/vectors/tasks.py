"""The tasks of a race that search vectors: data, queries and exact neighbours are made; operations get their files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from esbench.errors import TrackError
from esbench.features.vectors.operations import (
    BulkVectorDataSet,
    KnnSearch,
    VectorSearch,
    as_knn_search,
    bulk_size,
    data_of,
    metric_of,
)
from esbench.model import Challenge, Corpus, Documents, Step, Task
from esbench.operations import builtin_operations
from esbench.operations.base import default_index, kind_of
from esbench.operations.parameters import whole
from esbench.operations.search import Search
from esbench.race.hook import Hook
from esbench.race.options import RaceOptions
from esbench.requests.recordings import track_file
from esbench.track.testmode import DOCUMENTS

if TYPE_CHECKING:
    from esbench.features.vectors.data import VectorData
    from esbench.race.track import RacedTrack

_SCORE = "score"


class VectorTasks(Hook):
    """The hook of a race that searches vectors: operations with `data` get files of queries and judgements, and bulks
    of data sets become bulks of prepared documents. Its warnings say why the recall of some tasks is not known, and
    what is odd about the vectors."""

    def __init__(self, options: RaceOptions) -> None:
        self._options = options
        self._known: dict[str, VectorData] = {}
        self._told: list[str] = []

    @property
    def warnings(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(dict.fromkeys(self._told))

    def tasks(self, challenge: Challenge, raced: RacedTrack) -> Challenge:
        """Return the challenge with the files of its vectors. TrackError or CorpusError if they cannot be made."""
        if not any(map(_has_data, challenge.tasks)):
            return challenge
        return replace(challenge, steps=tuple(self._step(step, raced) for step in challenge.steps))

    def _step(self, step: Step, raced: RacedTrack) -> Step:
        writers = [task.name for task in step.tasks if not kind_of(task.operation).reads(task.operation.params)]
        return replace(step, tasks=tuple(self._task(task, writers, raced) for task in step.tasks))

    def _task(self, task: Task, writers: list[str], raced: RacedTrack) -> Task:
        if not _has_data(task):
            return task
        kind = kind_of(task.operation)
        if isinstance(kind, BulkVectorDataSet):
            return self._bulk(task, raced)
        params = dict(task.operation.params)
        if isinstance(kind, VectorSearch):
            params = as_knn_search(params)
        data = self._data(task, raced)
        field, k, filter_ = _knn_of(params, f'task "{task.name}"')
        metric = str(params.get("metric") or metric_of(params, field, raced.track.indices))
        from esbench.features.vectors.data import Neighbours

        sought = Neighbours(k, metric, json.dumps(filter_, sort_keys=True) if filter_ else "")
        self._told += data.faults(metric)
        params["queries"] = track_file(data.queries())
        params["judgements"] = track_file(data.judgements(sought))
        params.setdefault(_SCORE, f"recall@{k}")
        if writers:
            del params[_SCORE]
            self._told.append(
                f"{task.name}: its recall is unknown: {writers[0]} writes at the same time, and which documents a "
                "search could see is not known"
            )
        return replace(task, operation=replace(task.operation, params=params))

    def _bulk(self, task: Task, raced: RacedTrack) -> Task:
        """Return the task as a bulk of a corpus, which the track gets, too."""
        params, where = task.operation.params, f'task "{task.name}"'
        data = self._data(task, raced)
        index = default_index(params, raced.track.indices, where)
        name = f"vectors-{data.folder.name}-{params['field']}"
        path = data.documents(str(params["field"]))
        part = Documents(data.count, source_file=str(path), includes_action_and_meta_data=True, target_index=index)
        if name not in {corpus.name for corpus in raced.track.corpora}:
            raced.track = replace(raced.track, corpora=(*raced.track.corpora, Corpus(name, (part,))))
        kept = {key: params[key] for key in ("refresh", "request-params") if params.get(key) is not None}
        bulk = replace(
            task.operation,
            type="bulk",
            kind=builtin_operations().get("bulk"),
            params={"corpora": [name], "bulk-size": bulk_size(params), "data": data_of(params), **kept},
        )
        return replace(task, operation=bulk)

    def _data(self, task: Task, raced: RacedTrack) -> VectorData:
        from esbench.features.vectors.data import VectorData

        spec = data_of(task.operation.params)
        where = f'task "{task.name}"'
        if not isinstance(spec, Mapping):
            raise TrackError(f'"data" must be an object, not {spec!r}', where=where)
        key = json.dumps(spec, sort_keys=True, default=str)
        if key not in self._known:
            most = DOCUMENTS if self._options.test_mode else None
            self._known[key] = VectorData(spec, raced.track.path.parent, self._options.home, where, most)
        return self._known[key]


def _has_data(task: Task) -> bool:
    kind, params = task.operation.kind, task.operation.params
    return isinstance(kind, KnnSearch | BulkVectorDataSet | Search) and data_of(params) is not None


def _knn_of(params: Mapping[str, Any], where: str) -> tuple[str, int, Mapping[str, Any] | None]:
    """Return field, k and filter of a search for neighbours: its own parameters, or those of the `knn` in its body."""
    if params.get("field") is not None:
        return str(params["field"]), whole(params.get("k")) or 10, params.get("filter")
    for knn in _knns(params.get("body")):
        if knn.get("field") is not None:
            return str(knn["field"]), whole(knn.get("k")) or 10, knn.get("filter")
    raise TrackError('a search with "data" needs a "knn" in its body', where=where, hint="or score it by judgements")


def _knns(body: Any) -> Iterator[Mapping[str, Any]]:
    """Yield what the body of a search says of neighbours, in Elasticsearch's form."""
    if not isinstance(body, Mapping):
        return
    found = body.get("knn")
    yield from (each for each in (found if isinstance(found, list) else [found]) if isinstance(each, Mapping))
    inner = (body.get("query") or {}).get("knn") if isinstance(body.get("query"), Mapping) else None
    if isinstance(inner, Mapping) and "field" in inner:
        yield inner
    elif isinstance(inner, Mapping):
        yield from ({"field": field, **of} for field, of in inner.items() if isinstance(of, Mapping))
