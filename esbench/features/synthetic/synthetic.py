"""Synthetic corpora for tracks whose document files cannot be obtained: generator specs from the indices' mappings.

The documents fit the mapping, and hold the fields, terms and times that the challenge's requests name, so that these
have hits. Frequencies of values and lengths of texts are invented: figures are not those of the real corpus.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any

from esbench.features.synthetic.mapped_fields import FieldSpecs
from esbench.features.synthetic.query_values import prefixes, sought_in
from esbench.model import Challenge, Corpus, Documents, Template, Track

MOST_FIELDS = 60  # of a document, besides those that requests name: large mappings hold fields of many kinds
TIMESTAMP = "@timestamp"
ADDED_BY_PROCESSORS = "rally"  # the object in which processors of Rally's tracks note sizes
_UNMAPPED = {
    TIMESTAMP: {"type": "date"},
    "message": {"type": "text"},
    "name": {"type": "keyword"},
    "value": {"type": "long"},
}
_WORD = re.compile(r"[\w@][\w@.-]*")


def synthetic_corpora(
    track: Track,
    challenge: Challenge,
    corpora: Sequence[Corpus],
    documents: int,
    requests: Sequence[Mapping[str, Any]] = (),
    *,
    raw: bool = False,
) -> tuple[Corpus, ...]:
    """Return the corpora with generators in place of document files, at most `documents` documents each.

    No corpus gets larger than the original; parts that are generated already stay as they are. `requests`: parameters
    of operations in addition to those in the challenge. `raw`: these are inputs of a track processor, which adds
    timestamps and fields itself.
    """
    maker = _Maker(track, challenge, requests, raw)
    return tuple(replace(corpus, documents=tuple(maker.parts(corpus, documents))) for corpus in corpora)


def synthetic_counts(corpus: Corpus, documents: int) -> Iterator[int]:
    """Yield the number of documents of each part of a corpus with generators in place of its document files.

    `documents` are divided as the original document counts, in equal shares if any of these is unknown. No part gets
    larger, and one that is generated already stays as it is.
    """
    counts = [part.document_count for part in corpus.documents]
    total = sum(count or 0 for count in counts)
    for part, count in zip(corpus.documents, counts, strict=True):
        if part.generate is not None:
            yield count or 0
            continue
        share = 1 / len(counts) if None in counts else (count or 0) / total
        wanted = max(1, round(documents * share))
        yield min(wanted, part.sample or wanted, count or wanted)


class _Maker:
    def __init__(self, track: Track, challenge: Challenge, requests: Sequence[Mapping[str, Any]], raw: bool) -> None:
        self._track = track
        self._raw = raw
        self._requests = [*({**task.operation.params, **task.params} for task in challenge.tasks), *requests]
        self._words = frozenset(_WORD.findall(json.dumps(self._requests, default=str)))

    def parts(self, corpus: Corpus, documents: int) -> Iterator[Documents]:
        """Yield the corpus' parts with generators in place of document files."""
        for part, count in zip(corpus.documents, synthetic_counts(corpus, documents), strict=True):
            yield part if part.generate is not None else self._part(part, count)

    def _part(self, part: Documents, count: int) -> Documents:
        name = part.target_data_stream or part.target_index or next(iter(self._track.targets), None)
        is_stream = bool(part.target_data_stream) or name in {stream.name for stream in self._track.data_streams}
        name = None if name is None else name.replace("*", "")  # documents go to one of those that a pattern means
        mapping = _mapping_of(self._track, name)
        return Documents(
            document_count=count,
            generate=part.stand_in or {"fields": self._fields(mapping, count, is_stream)},
            target_index=None if is_stream else name,
            target_data_stream=name if is_stream else None,
            target_type=part.target_type,
            meta=part.meta,
            synthetic=True,
        )

    def _fields(self, mapping: Mapping[str, Any], count: int, is_stream: bool) -> dict[str, Any]:
        properties = dict(mapping) or dict(_UNMAPPED)
        if is_stream:
            properties = {TIMESTAMP: {"type": "date"}, **properties}
        if self._raw:
            properties = {name: mapping for name, mapping in properties.items() if name != ADDED_BY_PROCESSORS}
        leaves = dict(_leaves(properties))
        named = {path for word in self._words for path in prefixes(word) if path in leaves}
        rest = [path for path in leaves if path not in named][:MOST_FIELDS]
        specs = FieldSpecs(properties, sought_in(self._requests, leaves))
        fields = specs.of_properties(properties, {*named, *rest})
        if is_stream and not self._raw and (times := specs.rising_time(TIMESTAMP, properties[TIMESTAMP], count)):
            fields[TIMESTAMP] = times
        return fields or {"value": {"type": "sequence"}}


def _mapping_of(track: Track, name: str | None) -> Mapping[str, Any]:
    """Return the `properties` of an index or data stream: from its mappings, else from the templates that match it."""
    for index in track.indices:
        if index.name == name and index.body.get("mappings"):
            return _properties(index.body["mappings"])
    found: dict[str, Any] = {}
    composable = [template for template in track.templates.composable if _matches(template, name)]
    if composable:
        best = max(composable, key=lambda template: template.body.get("priority") or 0)
        components = {template.name: template for template in track.templates.component}
        for part in best.body.get("composed_of") or ():
            if part in components:
                found = _merged(found, _properties((components[part].body.get("template") or {}).get("mappings")))
        return _merged(found, _properties((best.body.get("template") or {}).get("mappings")))
    for template in sorted(track.templates.legacy, key=lambda template: template.body.get("order") or 0):
        if _matches(template, name):
            found = _merged(found, _properties(template.body.get("mappings")))
    return found


def _matches(template: Template, name: str | None) -> bool:
    patterns = template.body.get("index_patterns") or template.body.get("template") or template.index_pattern or ()
    patterns = [patterns] if isinstance(patterns, str) else patterns
    return name is not None and any(fnmatchcase(name, str(pattern)) for pattern in patterns)


def _properties(mappings: Any) -> Mapping[str, Any]:
    """Return the `properties` of mappings, with or without a type; {} if they have none."""
    if not isinstance(mappings, Mapping):
        return {}
    if "properties" in mappings:
        return mappings["properties"] or {}
    typed = [value for value in mappings.values() if isinstance(value, Mapping) and "properties" in value]
    return typed[0]["properties"] if len(typed) == 1 else {}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(old, Mapping) and isinstance(value, Mapping)
        merged[key] = _merged(old, value) if both else value  # type: ignore[arg-type]
    return merged


def _leaves(properties: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield (dotted path, mapping) of every field that is not an object."""
    for name, mapping in properties.items():
        path = f"{above}{name}"
        if not isinstance(mapping, Mapping):
            continue
        if "properties" in mapping:
            yield from _leaves(mapping["properties"] or {}, f"{path}.")
        elif mapping.get("type", "object") not in {"object", "nested"}:
            yield path, mapping
