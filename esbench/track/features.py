"""Features that a node must have for a track, read from its index bodies and operations."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from esbench.cluster.dialect import Dialect
from esbench.cluster.field_types import feature_of, misspelt
from esbench.errors import LackedFeatureError, TrackError
from esbench.model import Challenge, Index, Need, Templates, Track
from esbench.numbers import whole_of
from esbench.operations.base import kind_of
from esbench.operations.versions import left_out, parts_of_nodes, refusals
from esbench.track.document import DocumentNode

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
_OF_LANGUAGES = {"painless": PAINLESS, "expression": EXPRESSIONS}
_FIELDS_BELOW = ("properties", "fields")
_NOWHERE = "no distribution of esbench list distributions has it: race a cluster that does, --target-hosts"
_ANALYZERS = ("analyzer", "search_analyzer", "search_quote_analyzer", "tokenizer", "filter")


def needs_of(track: Track, challenge: Challenge) -> dict[str, Need]:
    """Return what a challenge needs of a node, by feature, sorted: the track's needs, and those of its operations.

    The track's are the features that it declares and those of its index bodies and templates; an operation's are those
    of its type and of the scripts in its parameters.
    """
    found = {need.feature: need for need in track.needs}
    for task in challenge.tasks:
        kind = kind_of(task.operation)
        of_type = {*kind.traits.node_features, *((kind.feature.node,) if kind.feature and kind.feature.node else ())}
        for feature in of_type:
            what = f'the operation type "{kind.name}" of the task "{task.name}"'
            found.setdefault(feature, Need(feature, what, str(track.path)))
        for part in parts_of_nodes(task):
            name = str(part.feature.node)
            found.setdefault(name, Need(name, f'the {part.feature.name} of the task "{task.name}"', str(track.path)))
        for feature in _of_scripts(task.operation.params):
            found.setdefault(feature, Need(feature, f'a script of the task "{task.name}"', str(track.path)))
    return dict(sorted(found.items()))


def lacked(missing: Sequence[Need], node: str, able: Sequence[str]) -> LackedFeatureError:
    """Return the error for a node that lacks at least one feature; `able` are the nodes that have all."""
    first, *others = missing
    what = f"{node} does not have {first.feature}, for {first.what}"
    if others:
        what += f"; nor {', '.join(f'{need.feature} ({need.where}: {need.what})' for need in others)}"
    hint = f"--distribution={able[-1]}; all that have it: {', '.join(able)}" if able else _NOWHERE
    error = LackedFeatureError(what, where=first.where, hint=hint)
    error.able = able
    return error


def unknown_to(challenge: Challenge, distribution: str, version: str) -> tuple[list[LackedFeatureError], list[str]]:
    """Return an error for each thing that tasks need and a server does not know, and what is left out, as sentences."""
    server = Dialect.of(distribution, version)
    refused = [error for task in challenge.tasks for error in refusals(task, server)]
    return refused, [said for task in challenge.tasks for said in left_out(task, server)]


def nodes_needed(track: Track, challenge: Challenge) -> int:
    """Return the number of data nodes that a challenge needs: if it waits for green, one for each copy of a shard.

    The copies are those of the index or template with the most replicas. Without such a wait, one node.
    """
    waits = any(
        kind_of(task.operation).traits.waits_for_status
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
    return whole_of(str(found)) or 0


def needs_of_body(body: DocumentNode, known: Collection[str] = ()) -> Iterator[Need]:
    """Yield what a node must have for an index or template with this body, a need for each feature but `known` ones."""
    found: dict[str, tuple[str, DocumentNode]] = {}
    for node, key in _members(body):
        value = node.value
        if key == "type" and isinstance(value, str) and (feature := feature_of(value)) is not None:
            found.setdefault(feature, (f'the type "{value}" of the field "{_field(node)}"', node))
        if key in _ANALYZERS and (added := sorted(_ADDED & _types(value))):
            found.setdefault(LANGUAGE_ANALYZERS, (f'the {key} "{added[0]}"', node))
        if key == "script" and (language := _OF_LANGUAGES.get(str(_language(value)))) is not None:
            found.setdefault(language, ("a script", node))
    for feature, (what, node) in found.items():
        if feature not in known:
            yield Need(feature, what, node.where)  # to find a line is slow


def misspelt_types(body: DocumentNode) -> Iterator[TrackError]:
    """Yield an error for each field of a body whose type is no server's, and nearly one of them."""
    for node, key in _members(body):
        if key == "type" and isinstance(node.value, str) and _is_of_field(node) and (hint := misspelt(node.value)):
            what = f'the field "{_field(node)}" has the type "{node.value}", which no server knows'
            yield TrackError(what, where=node.where, hint=hint)


def _members(node: DocumentNode) -> Iterator[tuple[DocumentNode, str]]:
    """Yield every member of a mapping at any depth, with its key."""
    if isinstance(node.value, Mapping):
        for key in node.value:
            yield node[key], key
            yield from _members(node[key])
    elif isinstance(node.value, list):
        for inner in node:
            yield from _members(inner)


def _is_of_field(node: DocumentNode) -> bool:
    """True for the `type` of a field: `properties.NAME.type`, `fields.NAME.type`."""
    return len(node.path) > 2 and node.path[-3] in _FIELDS_BELOW


def _field(node: DocumentNode) -> str:
    """Return the name of a field as queries say it, of its `type`; the whole path of another one."""
    pairs = zip(node.path, node.path[1:], strict=False)
    return ".".join(str(name) for around, name in pairs if around in _FIELDS_BELOW) or node.label


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
