"""Features that a node must have for a track, read from its index bodies and operations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from esbench.model import Challenge, Index, Templates, Track
from esbench.operations import OperationTypes

LANGUAGE_ANALYZERS = "language-analyzers"
PERCOLATOR = "percolator"
PAINLESS = "painless"
EXPRESSIONS = "expressions"
FEATURES = (EXPRESSIONS, LANGUAGE_ANALYZERS, PAINLESS, PERCOLATOR)

# The analyzers and stemmers of the module analysis-common; standard, keyword, simple ... are always there.
_ADDED = frozenset(
    """
    arabic armenian basque bengali brazilian bulgarian catalan cjk czech danish dutch english estonian finnish french
    galician german greek hindi hungarian indonesian irish italian latvian lithuanian norwegian persian portuguese
    romanian russian serbian sorani spanish swedish thai turkish snowball fingerprint pattern
    stemmer porter_stem kstem minimal_english
    """.split()  # noqa: SIM905
)
_MAPPERS = "field-mappers"
_OF_FIELDS = {
    "percolator": PERCOLATOR,
    "join": "parent-join",
    "geo_shape": "geo-shapes",
    "match_only_text": _MAPPERS,
    "rank_feature": _MAPPERS,
    "rank_features": _MAPPERS,
    "scaled_float": _MAPPERS,
    "search_as_you_type": _MAPPERS,
    "token_count": _MAPPERS,
}
_OF_LANGUAGES = {"painless": PAINLESS, "expression": EXPRESSIONS}
_ANALYZERS = ("analyzer", "search_analyzer", "search_quote_analyzer", "tokenizer", "filter")


def features_needed(track: Track, challenge: Challenge, operations: OperationTypes) -> tuple[str, ...]:
    """Return the features that a challenge needs, sorted: the track's, and those of the challenge's operations.

    The track's are the ones that it declares and the ones that its index bodies and templates need; an operation's are
    those of its type and of the scripts in its parameters.
    """
    found = set(track.requires)
    for task in challenge.tasks:
        found |= operations.of(task.operation).traits.node_features
        found |= _of_scripts(task.operation.params)
    return tuple(sorted(found))


def nodes_needed(track: Track, challenge: Challenge, operations: OperationTypes) -> int:
    """Return the number of data nodes that a challenge needs: if it waits for green, one for each copy of a shard.

    The copies are those of the index or template with the most replicas. Without such a wait, one node.
    """
    waits = any(
        operations.of(task.operation).traits.waits_for_status
        and str((task.operation.params.get("request-params") or {}).get("wait_for_status")).lower() == "green"
        for task in challenge.tasks
    )
    return 1 + max(map(_replicas, bodies_of(track.indices, track.templates)), default=0) if waits else 1


def bodies_of(indices: Iterable[Index], templates: Templates) -> Iterator[Mapping[str, Any]]:
    """Yield the bodies of indices and those in templates: their settings, mappings and aliases."""
    yield from (index.body for index in indices)
    yield from (template.body for template in templates.legacy)
    for template in (*templates.composable, *templates.component):
        yield template.body.get("template") or {}


def finds_thai_words(track: Track) -> bool:
    """Return whether an index body or template of a track names the analyzer or the tokenizer for Thai."""
    keys = (each for body in bodies_of(track.indices, track.templates) for each in _items(body))
    return any(key in _ANALYZERS and "thai" in _types(value) for key, value in keys)


def _replicas(body: Mapping[str, Any]) -> int:
    """Return the number of replicas in an index body, whose settings may be nested or dotted; 0 where it names none."""
    settings = body.get("settings") or {}
    inner = settings.get("index")
    found = settings.get("number_of_replicas", settings.get("index.number_of_replicas"))
    if found is None and isinstance(inner, Mapping):
        found = inner.get("number_of_replicas")
    return int(str(found)) if str(found).isdigit() else 0


def of_index_body(body: Mapping[str, Any]) -> set[str]:
    """Return the features that an index with this body needs."""
    found = set()
    for key, value in _items(body):
        if key == "type" and isinstance(value, str) and value in _OF_FIELDS:
            found.add(_OF_FIELDS[value])
        if key in _ANALYZERS and not _ADDED.isdisjoint(_types(value)):
            found.add(LANGUAGE_ANALYZERS)
    return found | _of_scripts(body)


def _types(value: object) -> set[str]:
    """Return the types in an `analyzer` or `filter`: one name, several, or definitions that each have a type."""
    if isinstance(value, Mapping):
        named = [made.get("type") for made in value.values() if isinstance(made, Mapping)]
    else:
        named = value if isinstance(value, list) else [value]
    return {name for name in named if isinstance(name, str)}


def _of_scripts(value: object) -> set[str]:
    """Return the features that the scripts of a body need, by their language; scripts that name none are painless."""
    languages = {_language(script) for key, script in _items(value) if key == "script"}
    return {feature for language, feature in _OF_LANGUAGES.items() if language in languages}


def _language(script: object) -> object:
    if isinstance(script, Mapping):
        return script.get("lang", PAINLESS) if "source" in script or "inline" in script else None
    return PAINLESS if isinstance(script, str) else None


def _items(value: object) -> Iterator[tuple[str, Any]]:
    """Yield every key and value at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key, inner
            yield from _items(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _items(inner)
