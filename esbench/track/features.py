"""What a node must be able to do for a track, read from its index bodies and operations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from esbench.model import Challenge, Track

LANGUAGE_ANALYZERS = "language-analyzers"
PERCOLATOR = "percolator"
PAINLESS = "painless"
FEATURES = (LANGUAGE_ANALYZERS, PAINLESS, PERCOLATOR)

# The analyzers of Elasticsearch's module analysis-common; standard, keyword, simple, stop ... are always there.
_LANGUAGES = frozenset(
    """arabic armenian basque bengali brazilian bulgarian catalan cjk czech danish dutch english estonian finnish
    french galician german greek hindi hungarian indonesian irish italian latvian lithuanian norwegian persian
    portuguese romanian russian serbian sorani spanish swedish thai turkish snowball fingerprint pattern""".split()
)
_FILTERS = frozenset("stemmer snowball porter_stem kstem minimal_english".split())
_ANALYZERS = frozenset({"analyzer", "search_analyzer", "search_quote_analyzer"})


def features_needed(track: Track, challenge: Challenge) -> tuple[str, ...]:
    """The features that one challenge needs: what the track requires, and painless for its operations' scripts."""
    scripts = any(_has_script(task.operation.params) for task in challenge.tasks)
    return tuple(sorted({*track.requires, *([PAINLESS] if scripts else [])}))


def of_index_body(body: Mapping[str, Any]) -> set[str]:
    """The features that an index with this body needs."""
    found = set()
    for key, value in _items(body):
        if key == "type" and value == "percolator":
            found.add(PERCOLATOR)
        elif (key in _ANALYZERS and _is_language(value)) or (key == "filter" and _has_stemmer(value)):
            found.add(LANGUAGE_ANALYZERS)
        elif key == "analyzer" and isinstance(value, Mapping):  # settings.analysis.analyzer: definitions by name
            if any(_is_language(made.get("type")) for made in value.values() if isinstance(made, Mapping)):
                found.add(LANGUAGE_ANALYZERS)
    if _has_script(body):
        found.add(PAINLESS)
    return found


def _is_language(value: object) -> bool:
    return isinstance(value, str) and value in _LANGUAGES


def _has_stemmer(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(made.get("type") in _FILTERS for made in value.values() if isinstance(made, Mapping))
    names = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return any(name in _FILTERS for name in names if isinstance(name, str))


def _has_script(value: object) -> bool:
    """Whether a body holds a script in painless, the language of scripts that name none."""
    for key, script in _items(value):
        if key == "script" and isinstance(script, str):
            return True
        if key == "script" and isinstance(script, Mapping) and ("source" in script or "inline" in script):
            if script.get("lang", PAINLESS) == PAINLESS:
                return True
    return False


def _items(value: object) -> Iterator[tuple[str, Any]]:
    """Every key and value at any depth."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield key, inner
            yield from _items(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _items(inner)
