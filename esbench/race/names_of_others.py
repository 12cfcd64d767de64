"""Names of indices that are not the race's own, where another side has its indices on the same node."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

from esbench.errors import RaceError
from esbench.model import Challenge, Corpus, Template, Track
from esbench.record.index_prefix import INDEX_PREFIX, has_prefix

_NAMING = (
    *("index", "indices", "data-stream", "data-streams", "source-index", "target-index"),
    *("template", "index-pattern", "pipeline", "policy-name", "policies"),
    *("snapshot", "transform-id", "job-id", "datafeed-id"),
)
_NAMED_BY_ID = ("put-pipeline", "delete-pipeline")
_NESTED = ("requests", "stream", "request-params")  # requests of a composite; query string parameters
_OF_ALL = ("index-stats", "field-caps")  # unless they name an index
_OF_ALL_OF_THE_TRACK = ("refresh", "force-merge")  # of the cluster, where the track has none
_PATHS_OF_ALL = (
    *("_all", "_search", "_count", "_refresh", "_flush", "_forcemerge", "_update_by_query", "_delete_by_query"),
    *("_stats", "_settings", "_mapping", "_field_caps", "_cache"),
)
_NAMED_IN_PATH = re.compile(
    r"_(?:data_stream|template|index_template|component_template|ingest/pipeline|ilm/policy|enrich/policy|transform"
    r"|snapshot/[^/]+|ml/(?:anomaly_detectors|datafeeds)|cluster/health)/(?!_(?!all))([^/]+)"
)
_NOT_NAMED = "_none"  # a pipeline


def refuse_names_of_others(track: Track, challenge: Challenge, targets: Iterable[str], prefix: str) -> None:
    """Raise a RaceError for a name or pattern without the prefix: it would also match the other side's indices.

    `targets` are names of indices that the race is known to use. Names that Python of the track makes are not known.
    """
    templates = (*track.templates.legacy, *track.templates.composable, *track.templates.component)
    documents = [part for corpus in track.corpora for part in corpus.documents]
    _refuse([*targets, *(name for template in templates for name in _of_template(template))], prefix, "the track")
    _refuse([name for part in documents for name in (part.target_index, part.target_data_stream)], prefix, "a corpus")
    for corpus in track.corpora:
        _refuse_action_lines(corpus)
    of_all = _OF_ALL if track.indices or track.data_streams else (*_OF_ALL, *_OF_ALL_OF_THE_TRACK)
    for task in challenge.tasks:
        if not task.operation.python:
            names = _of_request(task.operation.type, task.operation.params, of_all)
            _refuse(names, prefix, f'task "{task.name}"')


def _refuse_action_lines(corpus: Corpus) -> None:
    for part in corpus.documents:
        if part.includes_action_and_meta_data and not (part.target_index or part.target_data_stream):
            raise RaceError(
                "only the action lines of its documents name their index, and another side uses the same node",
                where=f'corpus "{corpus.name}"',
                hint='give it a "target-index" if they name none; --turns and --own-nodes need none',
            )


def _refuse(names: Iterable[object], prefix: str, where: str) -> None:
    for name in (part for each in names for part in _parts(each)):
        if not has_prefix(name.removeprefix("-"), (prefix,)):  # a, -b: a without b
            raise RaceError(
                f'"{name}" does not begin with the {INDEX_PREFIX} "{prefix}", and another side uses the same node',
                where=where,
                hint=f'put {{{{ {INDEX_PREFIX} | default("") }}}} in front of each name; --turns and --own-nodes need '
                "none",
            )


def _parts(names: object) -> Iterator[str]:
    """Yield the names in a name, a text with commas, a list of these, named parts, or a mapping by name.

    A value that names nothing has none.
    """
    if isinstance(names, str):
        yield from (name for name in names.split(",") if name not in ("", _NOT_NAMED))
    elif isinstance(names, list | tuple | Mapping):
        for each in names:
            yield from _parts(each.get("name") if isinstance(each, Mapping) else each)


def _of_template(template: Template) -> Iterator[object]:
    yield from (template.name, template.index_pattern, template.body.get("index_patterns"))
    if isinstance(pattern := template.body.get("template"), str):  # the pattern, in the words of 5.x
        yield pattern


def _of_request(kind: object, params: Mapping[str, Any], of_all: Collection[str]) -> Iterator[object]:
    """Yield the names that a request of a type uses, and those of the requests in it; `of_all`: types that use all
    indices unless they name one."""
    yield from (params.get(key) for key in _NAMING)
    if kind in _NAMED_BY_ID:
        yield params.get("id")
    if kind in of_all and not params.get("index"):
        yield "_all"
    yield from _of_path(str(params.get("path") or "/"))
    yield from _of_copy(params.get("body"))
    for key in _NESTED:
        nested = params.get(key) or ()
        for element in (nested,) if isinstance(nested, Mapping) else nested:
            if isinstance(element, Mapping):
                yield from _of_request(element.get("operation-type"), element, of_all)


def _of_copy(body: object) -> Iterator[object]:
    """Yield the indices between which a reindex or a transform copies; the source may be on another cluster."""
    ends = [body.get("source"), body.get("dest")] if isinstance(body, Mapping) else []
    yield from (end.get("index") for end in ends if isinstance(end, Mapping) and "remote" not in end)


def _of_path(path: str) -> Iterator[str]:
    """Yield the names in a path, `_all` if it means all indices; other paths are of the whole cluster."""
    path = path.partition("?")[0].strip("/")
    first, _, rest = path.partition("/")
    if not first.startswith("_"):
        yield first
    elif first in _PATHS_OF_ALL and not rest.startswith("scroll"):
        yield "_all"
    elif named := _NAMED_IN_PATH.match(path):
        yield named[1]
