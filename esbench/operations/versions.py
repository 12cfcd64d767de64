"""Parts of operations that not every version knows: request parameters, keys of searches, aggregations, queries.

Before a race, a part that the server lacks is left out if the operation does the same without it, and else the
operation is refused. The versions are those of the servers' API specifications.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from esbench.cluster.dialect import Dialect, Feature
from esbench.errors import LackedFeatureError
from esbench.model import Challenge, Task
from esbench.operations.base import kind_of

# Where a part stands: in `request-params`, among the operation's own, in the body of a search.
_REQUEST, _OWN, _KEY, _AGGREGATION, _QUERY = "request parameter", "parameter", "search key", "aggregation", "query"
ANY = ("",)  # in place of values: each of them
_Version = tuple[int, int] | None


@dataclass(frozen=True)
class VersionedPart:
    """A part of an operation, and the first versions that know it (see Feature).

    `same`: values, as text, with which the operation does the same on a server that does not know it; `types`: the
    operation types that it is about, all for (). `in_all`: False if nodes that esbench starts may leave it out.
    """

    place: str
    name: str
    elasticsearch: _Version
    opensearch: _Version = None
    same: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    gone: int | None = None
    gone_opensearch: int | None = None
    in_all: bool = True
    feature: Feature = field(init=False)

    def __post_init__(self) -> None:
        name = f'{self.place} "{self.name}"'
        node = None if self.in_all else f"{self.name}-{self.place}"
        feature = Feature(name, self.elasticsearch, self.opensearch, node, self.gone, self.gone_opensearch)
        object.__setattr__(self, "feature", feature)

    def may_be_left_out(self, value: object) -> bool:
        """True if the operation does the same without it on a server that does not know it."""
        return self.same == ANY or str(value).lower() in self.same


_SEARCHES = ("search", "paginated-search", "scroll-search", "composite-agg", "submit-async-search")
ASKS = (*_SEARCHES, "msearch")
_OF_MAPPINGS = ("create-index", "create-index-template")
PARTS = (
    VersionedPart(_REQUEST, "allow_partial_search_results", (6, 3), (1, 0), ANY, ASKS),
    VersionedPart(_REQUEST, "batched_reduce_size", (5, 4), (1, 0), ANY, ASKS),
    VersionedPart(_REQUEST, "cancel_after_time_interval", None, (1, 1), ANY, ASKS),
    VersionedPart(_REQUEST, "ccs_minimize_roundtrips", (7, 0), (1, 0), ANY, ASKS),
    VersionedPart(_REQUEST, "cluster_manager_timeout", None, (2, 0), ANY),
    VersionedPart(_REQUEST, "force_synthetic_source", (8, 4), None, (), ASKS),
    VersionedPart(_REQUEST, "if_version", (7, 16), None, (), ("put-pipeline",)),
    VersionedPart(_REQUEST, "ignore_throttled", (6, 6), (1, 0), ANY),
    VersionedPart(_REQUEST, "include_named_queries_score", (8, 8), (2, 12), (), ASKS),
    VersionedPart(_REQUEST, "include_source_on_error", (8, 18), None, ANY, ("bulk",)),
    VersionedPart(_REQUEST, "include_type_name", (6, 7), (1, 0), ANY, _OF_MAPPINGS, gone=8, gone_opensearch=2),
    VersionedPart(_REQUEST, "list_executed_pipelines", (8, 12), None, ("false",), ("bulk",)),
    VersionedPart(_REQUEST, "max_concurrent_shard_requests", (5, 6), (1, 0), ANY, ASKS),
    VersionedPart(_REQUEST, "max_docs", (7, 3), (1, 0), (), ("reindex",)),
    VersionedPart(_REQUEST, "phase_took", None, (2, 12), ("false",), ASKS),
    VersionedPart(_REQUEST, "pre_filter_shard_size", (5, 6), (1, 0), ANY, ASKS),
    VersionedPart(_REQUEST, "primary_only", None, (2, 13), ("false",), ("force-merge",)),
    VersionedPart(_REQUEST, "require_alias", (7, 10), (1, 0), ("false",), ("bulk",)),
    VersionedPart(_REQUEST, "require_data_stream", (8, 13), None, ("false",), ("bulk",)),
    VersionedPart(_REQUEST, "rest_total_hits_as_int", (6, 7), (1, 0), ANY, ASKS),
    VersionedPart(_REQUEST, "search_pipeline", None, (2, 7), (), ASKS),
    VersionedPart(_REQUEST, "track_total_hits", (6, 0), (1, 0), ("true",), _SEARCHES),
    VersionedPart(_REQUEST, "wait_for_completion", (8, 1), (2, 7), ("true",), ("force-merge",)),
    VersionedPart(_REQUEST, "wait_for_no_initializing_shards", (6, 2), (1, 0), ("false",), ("cluster-health",)),
    VersionedPart(_OWN, "defer-validation", (7, 4), None, ANY, ("create-transform",)),
    VersionedPart(_OWN, "force", (7, 4), None, ANY, ("delete-transform",)),
    VersionedPart(_OWN, "force", (7, 5), None, ANY, ("stop-transform", "wait-for-transform")),
    VersionedPart(_OWN, "index_filter", (7, 9), (1, 0), (), ("field-caps",)),
    VersionedPart(_OWN, "sampling-method", (9, 3), None, ("aggregate",), ("downsample",)),
    VersionedPart(_OWN, "wait-for-checkpoint", (7, 6), None, ANY, ("stop-transform", "wait-for-transform")),
    VersionedPart(_KEY, "derived", None, (2, 15)),
    VersionedPart(_KEY, "fields", (7, 10), (1, 0)),
    VersionedPart(_KEY, "knn", (8, 4)),
    VersionedPart(_KEY, "pit", (7, 10), (2, 4)),
    VersionedPart(_KEY, "rank", (8, 8)),
    VersionedPart(_KEY, "retriever", (8, 14)),
    VersionedPart(_KEY, "runtime_mappings", (7, 11)),
    VersionedPart(_KEY, "search_pipeline", None, (2, 7)),
    VersionedPart(_KEY, "seq_no_primary_term", (6, 7), (1, 0), ("false",)),
    VersionedPart(_KEY, "sub_searches", (8, 9)),
    VersionedPart(_KEY, "track_total_hits", (6, 0), (1, 0), ("true",)),
    VersionedPart(_AGGREGATION, "boxplot", (7, 7), in_all=False),
    VersionedPart(_AGGREGATION, "categorize_text", (7, 16), in_all=False),
    VersionedPart(_AGGREGATION, "composite", (6, 1), (1, 0)),
    VersionedPart(_AGGREGATION, "cumulative_cardinality", (7, 4), in_all=False),
    VersionedPart(_AGGREGATION, "date_histogram.calendar_interval", (7, 2), (1, 0)),
    VersionedPart(_AGGREGATION, "date_histogram.fixed_interval", (7, 2), (1, 0)),
    VersionedPart(_AGGREGATION, "date_histogram.interval", (5, 0), (1, 0), gone=8),
    VersionedPart(_AGGREGATION, "frequent_item_sets", (8, 7), in_all=False),
    VersionedPart(_AGGREGATION, "geo_line", (7, 11), in_all=False),
    VersionedPart(_AGGREGATION, "geotile_grid", (7, 0), (1, 0)),
    VersionedPart(_AGGREGATION, "median_absolute_deviation", (6, 6), (1, 0)),
    VersionedPart(_AGGREGATION, "moving_avg", (5, 0), (1, 0), gone=8),
    VersionedPart(_AGGREGATION, "moving_fn", (6, 4), (1, 0), in_all=False),
    VersionedPart(_AGGREGATION, "multi_terms", (7, 12), (2, 1), in_all=False),
    VersionedPart(_AGGREGATION, "random_sampler", (8, 2)),
    VersionedPart(_AGGREGATION, "rare_terms", (7, 3), (1, 0)),
    VersionedPart(_AGGREGATION, "rate", (7, 10), in_all=False),
    VersionedPart(_AGGREGATION, "significant_text", (6, 0), (1, 0)),
    VersionedPart(_AGGREGATION, "string_stats", (7, 6), in_all=False),
    VersionedPart(_AGGREGATION, "t_test", (7, 8), in_all=False),
    VersionedPart(_AGGREGATION, "top_metrics", (7, 7), in_all=False),
    VersionedPart(_AGGREGATION, "variable_width_histogram", (7, 9), (1, 0)),
    VersionedPart(_AGGREGATION, "weighted_avg", (6, 4), (1, 0)),
    VersionedPart(_QUERY, "distance_feature", (7, 2), (1, 0)),
    VersionedPart(_QUERY, "intervals", (7, 0), (1, 0)),
    VersionedPart(_QUERY, "knn", (8, 12), (1, 0), in_all=False),
    VersionedPart(_QUERY, "match_bool_prefix", (7, 2), (1, 0)),
    VersionedPart(_QUERY, "pinned", (7, 4), in_all=False),
    VersionedPart(_QUERY, "script_score", (7, 0), (1, 0)),
    VersionedPart(_QUERY, "semantic", (8, 15), in_all=False),
    VersionedPart(_QUERY, "sparse_vector", (8, 15)),
    VersionedPart(_QUERY, "terms_set", (6, 1), (1, 0)),
    VersionedPart(_QUERY, "text_expansion", (8, 8)),
)
_COMPOUND = frozenset(
    (
        *("bool", "boosting", "constant_score", "dis_max", "function_score", "has_child", "has_parent", "hybrid"),
        *("nested", "pinned", "script_score"),
    )
)
_QUERIES_BELOW = ("must", "filter", "should", "must_not", "query", "queries", "positive", "negative", "organic")


def for_versions(challenge: Challenge, dialects: Mapping[str, Dialect]) -> tuple[Challenge, tuple[str, ...]]:
    """Return the challenge without what its clusters do not know and its operations do not need, and what that is.

    `dialects`: by the names of the clusters. Raises LackedFeatureError for a task that its cluster cannot run.
    """
    refused = [(task.name, error) for task in challenge.tasks for error in refusals(task, dialects[task.cluster])]
    if names := list(dict.fromkeys(name for name, _ in refused)):
        raise _of_all(refused[0][1], names)
    told: list[str] = []

    def fitted(task: Task) -> Task:
        dialect = dialects[task.cluster]
        told.extend(left_out(task, dialect))
        if task.operation.python:
            return task
        params = _without(task.operation.type, task.operation.params, dialect)
        return replace(task, operation=replace(task.operation, params=params))

    steps = tuple(replace(step, tasks=tuple(map(fitted, step.tasks))) for step in challenge.steps)
    return replace(challenge, steps=steps), tuple(told)


def _of_all(first: LackedFeatureError, tasks: Sequence[str]) -> LackedFeatureError:
    """Return the error of the first of several tasks that cannot be run, with a hint about all of them."""
    if len(tasks) == 1:
        return first
    hint = first.hint.partition(";")[0]
    hint += f"; {len(tasks)} tasks cannot be raced there: --exclude-tasks={','.join(tasks)}"
    return LackedFeatureError(first.what, where=first.where, hint=hint)


def refusals(task: Task, dialect: Dialect) -> Iterator[LackedFeatureError]:
    """Yield an error for each thing that a task needs and a server of this version does not know."""
    kind = kind_of(task.operation)
    lacked = [feature for feature in kind.features(task.operation.params) if not dialect.has(feature)]
    lacked += [part.feature for part, value in _lacked(task, dialect) if not part.may_be_left_out(value)]
    for feature in dict.fromkeys(lacked):
        yield dialect.lacks(feature, f'task "{task.name}"')


def left_out(task: Task, dialect: Dialect) -> Iterator[str]:
    """Yield a sentence for each part of a task that is left out, since a server of this version does not know it."""
    for part in dict.fromkeys(part for part, value in _lacked(task, dialect) if part.may_be_left_out(value)):
        what = f"the {part.feature.name} is left out: {dialect.server} does not know it"
        yield f'task "{task.name}": {what} ({part.feature.versions})'


def parts_of_nodes(task: Task) -> Iterator[VersionedPart]:
    """Yield the parts of a task that not every node that esbench starts has, whatever its version."""
    if not task.operation.python:
        for kind, params in _requests(task.operation.type, task.operation.params):
            yield from (part for part, _ in _parts(kind, params) if part.feature.node)


def _lacked(task: Task, dialect: Dialect) -> Iterator[tuple[VersionedPart, object]]:
    """Yield the parts of a task that a server does not know, with their values; those of Python code are not known."""
    if not task.operation.python:
        for kind, params in _requests(task.operation.type, task.operation.params):
            for part, value in _parts(kind, params):
                if not dialect.has(part.feature):
                    yield part, value


def _requests(kind: str, params: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the type and the parameters of an operation, and of each request in it."""
    yield kind, params
    for inner in (*(params.get("requests") or ()), *(params.get("stream") or ())):
        if isinstance(inner, Mapping):
            yield from _requests(str(inner.get("operation-type")), inner)


def _parts(kind: str, params: Mapping[str, Any]) -> Iterator[tuple[VersionedPart, object]]:
    """Yield the parts in the parameters of a request that are in the table, with their values."""
    for place, given in ((_REQUEST, params.get("request-params")), (_OWN, params)):
        yield from _named(place, kind, given)
    if kind not in ASKS:
        return
    body = params.get("body")
    for each in body[1::2] if kind == "msearch" and isinstance(body, list) else [body]:
        search = _decoded(each)
        yield from _named(_KEY, kind, search)
        for place, names in ((_AGGREGATION, _aggregations(search)), (_QUERY, _queries(search))):
            for name in names:
                yield from _named(place, kind, {name: None})


def _named(place: str, kind: str, given: object) -> Iterator[tuple[VersionedPart, object]]:
    """Yield the parts of a place whose names are keys of a mapping, with the values there."""
    for name, value in given.items() if isinstance(given, Mapping) else ():
        for part in _BY_NAME.get((place, name), ()):
            if not part.types or kind in part.types:
                yield part, value


_BY_NAME: dict[tuple[str, str], list[VersionedPart]] = {}
for _part in PARTS:
    _BY_NAME.setdefault((_part.place, _part.name), []).append(_part)


def _decoded(body: object) -> Mapping[str, Any]:
    """Return the body of a search; empty if its text is no JSON object, as with variables or in a language."""
    if isinstance(body, str):
        with suppress(ValueError, RecursionError):
            body = json.loads(body)
    return body if isinstance(body, Mapping) else {}


def _aggregations(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of the aggregations in a body, and their parameters as TYPE.PARAMETER."""
    groups: list[Any] = [body.get("aggs"), body.get("aggregations")]
    for group in groups:  # it grows while it is walked
        for aggregation in group.values() if isinstance(group, Mapping) else ():
            for kind, params in aggregation.items() if isinstance(aggregation, Mapping) else ():
                if kind in ("aggs", "aggregations"):
                    groups.append(params)
                elif isinstance(params, Mapping):
                    yield kind
                    yield from (f"{kind}.{name}" for name in params)
                    if kind == "composite" and isinstance(sources := params.get("sources"), list):
                        groups += sources


def _queries(body: Mapping[str, Any]) -> Iterator[str]:
    """Yield the types of the queries in a body."""
    waiting: list[Any] = [body.get("query"), body.get("post_filter")]
    for query in waiting:
        if isinstance(query, list):
            waiting += query
        for kind, params in query.items() if isinstance(query, Mapping) else ():
            yield kind
            if isinstance(params, Mapping) and kind in _COMPOUND:
                waiting += [params.get(name) for name in _QUERIES_BELOW]


def _without(kind: str, params: Mapping[str, Any], dialect: Dialect) -> Mapping[str, Any]:
    """Return the parameters of an operation, and of the requests in it, without the parts that a server lacks."""

    def kept(place: str, given: Mapping[str, Any]) -> Mapping[str, Any]:
        gone = {part.name for part, _ in _named(place, kind, given) if not dialect.has(part.feature)}
        return {name: value for name, value in given.items() if name not in gone} if gone else given

    def kept_of_search(body: Any) -> Any:
        search = _decoded(body)
        return body if (rest := kept(_KEY, search)) is search else rest

    fitted = dict(kept(_OWN, params))
    if isinstance(query := fitted.get("request-params"), Mapping):
        fitted["request-params"] = kept(_REQUEST, query)
    if kind in ASKS and (body := fitted.get("body")):
        fitted["body"] = list(map(kept_of_search, body)) if isinstance(body, list) else kept_of_search(body)
    for name in ("requests", "stream"):
        if isinstance(inner := fitted.get(name), list):
            fitted[name] = [
                _without(str(each.get("operation-type")), each, dialect) if isinstance(each, Mapping) else each
                for each in inner
            ]
    return fitted
