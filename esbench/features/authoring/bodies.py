"""Bodies of indices and templates for a track, without the settings that tie an index to its cluster.

What is left out is listed in notes. Pure: no request, no file.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.cluster.marks import without_mark
from esbench.errors import UsageError
from esbench.features.authoring.targets import ExtractedTarget

# Elasticsearch's own marks on an index.
_EPHEMERAL = (
    "creation_date",
    "creation_date_string",
    "history",
    "provided_name",
    "resize",
    "routing.allocation.include._tier_preference",
    "routing.allocation.initial_recovery",
    "shrink",
    "split",
    "time_series.end_time",
    "time_series.start_time",
    "uuid",
    "verified_before_close",
    "version",
)
# What refers to something of the cluster that a track does not bring along, and why it must not stay.
_TIES = {
    "blocks": "blocks: the race must be able to write",
    "default_pipeline": "ingest pipeline: the documents are what it made of them",
    "final_pipeline": "ingest pipeline: the documents are what it made of them",
    "frozen": "freezing: the race must be able to write",
    "lifecycle": "index lifecycle: it would roll over or delete what the race wrote",
    "opendistro.index_state_management": "index state management: it would roll over or delete what the race wrote",
    "plugins.index_state_management": "index state management: it would roll over or delete what the race wrote",
    "remote_store": "remote store: it is the cluster's",
    "routing.allocation": "allocation rules: they name nodes of the cluster",
    "search.throttled": "freezing: the race must be able to write",
    "store.snapshot": "searchable snapshot: the index becomes an ordinary one",
    "store.type": "type of the store: it is the cluster's",
}


@dataclass(frozen=True)
class BodyParameter:
    """A value in a body that a track parameter of this name can replace."""

    name: str
    default: object


@dataclass(frozen=True)
class Body:
    """A body to create an index or template with, and `notes` on what was left out of it.

    Values at any depth of `content` may be BodyParameters; `body_text` writes them.
    """

    content: Mapping[str, Any]
    notes: tuple[str, ...] = ()


def index_body(target: ExtractedTarget) -> Body:
    """Return settings, mappings and aliases of an index without what ties it to its cluster; notes say what went.

    Shards and replicas become parameters. Raises UsageError for several mapping types or a disabled `_source`.
    """
    settings, notes = kept_settings(target.settings)
    mappings, more = kept_mappings(target.name, target.mappings, target.is_typed)
    notes += more
    settings["index"] |= _sizes(target.settings["index"])
    content: dict[str, Any] = {"settings": settings, "mappings": mappings}
    if target.aliases:
        content["aliases"] = dict(target.aliases)
    return Body(content, _named(target.name, notes))


def stream_template(target: ExtractedTarget, template: Mapping[str, Any], components: Mapping[str, str]) -> Body:
    """Return a composable template for one data stream, made of its present one, `template`.

    `components`: names of component templates in the track by their present names; others are left out. Its priority is
    above that of the original, in case both are in one cluster. Raises UsageError as `index_body`.
    """
    kept_mappings(target.name, target.mappings, target.is_typed)  # refuses what cannot be read
    inner, notes = _kept_template(template.get("template") or {})
    index = inner.setdefault("settings", {}).setdefault("index", {})
    index |= _sizes(target.settings["index"])
    content: dict[str, Any] = {
        "index_patterns": [target.name],
        "priority": max(int(template.get("priority") or 0), 500) + 1,
        "data_stream": _kept_stream(template.get("data_stream", {})),
        "composed_of": [components[name] for name in template.get("composed_of", ()) if name in components],
        "template": inner,
    }
    if index.get("mode") == "time_series" or target.settings["index"].get("mode") == "time_series":
        notes.append("start and end of its times: it takes only documents of now unless its template says others")
    return Body(content, _named(target.name, notes))


def _kept_stream(stream: Mapping[str, Any]) -> dict[str, Any]:
    """Return a template's options of its data streams, without the default time field, which Elasticsearch refuses."""
    kept = {key: stream[key] for key in ("allow_custom_routing", "hidden", "timestamp_field") if key in stream}
    if kept.get("timestamp_field") == {"name": "@timestamp"}:
        del kept["timestamp_field"]
    return kept


def component_template(name: str, template: Mapping[str, Any]) -> Body:
    """Return a component template without what ties it to its cluster; `name` is for the notes on what was left out."""
    inner, notes = _kept_template(template.get("template") or {})
    return Body({"template": inner}, _named(f"component template {name}", notes))


def _kept_template(template: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    inner = copy.deepcopy(dict(template))
    notes: list[str] = []
    if "settings" in inner:
        inner["settings"], notes = kept_settings(inner["settings"])
    if inner.pop("lifecycle", None):
        notes.append("data stream lifecycle: it would delete what the race wrote")
    inner.pop("data_stream_options", None)
    return inner, notes


def kept_settings(settings: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Return nested settings as `{"index": ...}` without the cluster's own, and notes on removed ones.

    Notes are on settings that a user had set, not on Elasticsearch's own marks.
    """
    index = copy.deepcopy(dict(settings.get("index", {})))
    for path in _EPHEMERAL:
        _remove(index, path.split("."))
    if index.get("replication") == {"type": "DOCUMENT"}:  # OpenSearch's default, which no other server knows
        del index["replication"]
    notes = [reason for path, reason in _TIES.items() if _remove(index, path.split("."))]
    if any(key.endswith("_path") for key in _keys(index.get("analysis", {}))):
        notes.append("files that its analysis reads: every node that is raced needs them")
    return {"index": index}, list(dict.fromkeys(notes))


def _keys(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys at any depth."""
    for key, inner in settings.items():
        yield key
        if isinstance(inner, Mapping):
            yield from _keys(inner)


def _remove(settings: dict[str, Any], path: Sequence[str]) -> bool:
    """Remove a setting, and parents that become empty. True if it was there."""
    inner = settings.get(path[0])
    if inner is None:
        return False
    if len(path) > 1:
        if not isinstance(inner, dict) or not _remove(inner, path[1:]):
            return False
        if inner:
            return True
    del settings[path[0]]
    return True


def _sizes(index: Mapping[str, Any]) -> dict[str, BodyParameter]:
    names = ("number_of_shards", "number_of_replicas")
    return {name: BodyParameter(name, int(index.get(name, 1))) for name in names}


def kept_mappings(index: str, mappings: Mapping[str, Any], is_typed: bool) -> tuple[dict[str, Any], list[str]]:
    """Return a mapping without its type, which 5.x and 6.x have, and notes on what it loses.

    `is_typed`: the mapping stands below the name of its type. Raises UsageError, which names `index`, if documents
    cannot be read from it: several types, or `_source` disabled.
    """
    notes = []
    types = [name for name in mappings if name != "_default_"] if is_typed else []
    if len(types) > 1:
        what = f"its documents have {len(types)} types: {', '.join(sorted(types))}"
        raise UsageError(what, where=index, hint="copy those of each type into its own index, by _reindex")
    if types and types[0] not in ("doc", "_doc"):
        notes.append(f'the name of its type, "{types[0]}": esbench writes its own where a version has types')
    if is_typed:
        mappings = mappings[types[0]] if types else {}
    source = mappings.get("_source", {})
    if str(source.get("enabled")).lower() == "false":
        raise UsageError("its documents are not kept: _source is disabled", where=index, hint="leave it out")
    if source.get("includes") or source.get("excludes"):
        notes.append("the fields that its _source leaves out: they are kept nowhere")
    return copy.deepcopy(without_mark(mappings)), notes


def has_join(mappings: Mapping[str, Any]) -> bool:
    """True if a mapping, with or without a type, has a join field: parents and children refer to each other by id."""
    return mappings.get("type") == "join" or any(
        has_join(inner) for inner in mappings.values() if isinstance(inner, Mapping)
    )


def _named(name: str, notes: Iterable[str]) -> tuple[str, ...]:
    return tuple(f"{name}: {note}" for note in notes)
