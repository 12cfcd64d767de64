"""The text of a track's files: JSON, since Rally reads no other, with the parameters that Rally's tracks have."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esbench.features.authoring.bodies import BodyParameter
from esbench.features.authoring.documents import DocumentsFile
from esbench.units import format_bytes

BULK_SIZE = 5000
_MOST_BULK_BYTES = 10 << 20
_TEMPLATE_TAG = re.compile(r"\{(?=[{%#])")
_HOLE = re.compile(r'"\\u0000(\w+) (.*?)\\u0000"')


@dataclass(frozen=True)
class TargetFiles:
    """An index or data stream of the track: the file of its body or template, and its documents (None if empty).

    `has_actions`: each document has an action line before it.
    """

    name: str
    body: str
    documents: DocumentsFile | None
    has_actions: bool = False


@dataclass(frozen=True)
class Contents:
    """The contents of a track; `components` maps names of component templates to files.

    `origin` is the server that it was made from, `total` the number of documents there, `notes` list what was left out.
    """

    name: str
    origin: str
    parts: Sequence[TargetFiles]
    are_data_streams: bool
    total: int
    is_sample: bool = False
    components: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()

    @property
    def files(self) -> list[DocumentsFile]:
        return [part.documents for part in self.parts if part.documents is not None]

    @property
    def documents(self) -> int:
        return sum(file.documents for file in self.files)

    @property
    def uncompressed_bytes(self) -> int:
        return sum(file.uncompressed_bytes for file in self.files)


def body_text(content: Mapping[str, Any]) -> str:
    """Return a body as a template, with parameters in place of their values and other Jinja syntax escaped."""
    return f"{_jinja(json.dumps(content, indent=2, ensure_ascii=False, default=_hole))}\n"


def track_text(contents: Contents) -> str:
    """Return the text of track.json."""
    sections: dict[str, Any] = {
        "version": 2,
        "description": f"{contents.documents:,} documents read from {contents.origin}",
    }
    if contents.are_data_streams:
        sections["data-streams"] = [{"name": part.name} for part in contents.parts]
        sections["composable-templates"] = [
            {
                "name": template_name(contents.name, part.name),
                "index-pattern": part.name,
                "delete-matching-indices": False,
                "template": part.body,
            }
            for part in contents.parts
        ]
        if contents.components:
            components = contents.components.items()
            sections["component-templates"] = [{"name": name, "template": file} for name, file in components]
    else:
        sections["indices"] = [{"name": part.name, "body": part.body} for part in contents.parts]
    sections["corpora"] = [_corpus(part, contents.are_data_streams) for part in contents.parts if part.documents]
    texts = {key: _rows(value) if isinstance(value, list) else _line(value) for key, value in sections.items()}
    texts["challenge"] = _challenge(contents)
    return "{\n" + ",\n".join(f'  "{key}": {text}' for key, text in texts.items()) + "\n}\n"


def template_name(track: str, part: str) -> str:
    """Return the name of a template: the track's name in front keeps it apart from a cluster's own templates.

    So deleting it takes no other template away.
    """
    return f"{track}-{part}"


def _corpus(part: TargetFiles, is_data_stream: bool) -> dict[str, Any]:
    file = part.documents
    assert file is not None
    documents: dict[str, Any] = {
        "source-file": file.name,
        "document-count": file.documents,
        "compressed-bytes": file.compressed_bytes,
        "uncompressed-bytes": file.uncompressed_bytes,
    }
    if part.has_actions:
        documents["includes-action-and-meta-data"] = True
    target = "target-data-stream" if is_data_stream else "target-index"
    return {"name": part.name, target: part.name, "documents": [documents]}


def _challenge(contents: Contents) -> str:
    names = ",".join(part.name for part in contents.parts)
    into = "data-stream" if contents.are_data_streams else "index"
    health = {
        "operation-type": "cluster-health",
        "index": names,
        "request-params": {
            "wait_for_status": BodyParameter("cluster_health", "yellow"),
            "wait_for_no_relocating_shards": "true",
        },
        "retry-until-success": True,
    }
    bulk = {
        "operation-type": "bulk",
        "bulk-size": BodyParameter("bulk_size", _bulk_size(contents)),
        "ingest-percentage": BodyParameter("ingest_percentage", 100),
    }
    search = {"name": "match-all", "operation-type": "search", into: names, "body": {"query": {"match_all": {}}}}
    tasks: list[dict[str, Any]] = [
        *({"operation": {"operation-type": kind, **keys}} for kind, keys in _set_up(contents)),
        {"operation": health},
        {"operation": bulk, "clients": BodyParameter("bulk_indexing_clients", 8)},
        {"operation": {"operation-type": "refresh", "index": names}},
        {"operation": search, "warmup-iterations": 100, "iterations": 100},
    ]
    rows = ",\n      ".join(map(_line, tasks))
    return f'{{\n    "name": "index-and-search",\n    "schedule": [\n      {rows}\n    ]\n  }}'


def _set_up(contents: Contents) -> list[tuple[str, dict[str, Any]]]:
    """Return operation types and parameters of the tasks that delete and create the indices or data streams."""
    if not contents.are_data_streams:
        settings = BodyParameter("index_settings", {})
        return [("delete-index", {}), ("create-index", {"settings": settings})]
    component = ["component-template"] if contents.components else []
    deleted = ["data-stream", "composable-template", *component]
    created = [*component, "composable-template", "data-stream"]
    return [*((f"delete-{kind}", {}) for kind in deleted), *((f"create-{kind}", {}) for kind in created)]


def _bulk_size(contents: Contents) -> int:
    """Return Rally's bulk size, or a smaller one if documents are so large that a server would refuse the request."""
    fitting = _MOST_BULK_BYTES * contents.documents // max(1, contents.uncompressed_bytes)
    return next((size for size in (BULK_SIZE, 2000, 1000, 500, 200, 100, 50, 20, 10, 5, 2) if size <= fitting), 1)


def _rows(rows: Iterable[Mapping[str, Any]]) -> str:
    return "[\n    " + ",\n    ".join(map(_line, rows)) + "\n  ]"


def _line(value: Any) -> str:
    return _jinja(json.dumps(value, ensure_ascii=False, default=_hole))


def _hole(value: object) -> str:
    if not isinstance(value, BodyParameter):
        raise TypeError(f"{value!r} is not JSON")
    return f"\0{value.name} {json.dumps(value.default)}\0"


def _jinja(text: str) -> str:
    """Return JSON as a template that renders to it: the opening of a Jinja tag is written as a JSON escape."""
    text = _TEMPLATE_TAG.sub(r"\\u007b", text)
    return _HOLE.sub(lambda hole: _expression(hole[1], json.loads(f'"{hole[2]}"')), text)


def _expression(name: str, default: str) -> str:
    return f"{{{{ {name} | default({default}) | tojson }}}}"


def readme_text(contents: Contents) -> str:
    """Return the text of README.md."""
    kind, kinds = ("data stream", "data streams") if contents.are_data_streams else ("index", "indices")
    files = [(part, part.documents) for part in contents.parts]
    rows = [
        f"| {part.name} | {file.documents:,} | {format_bytes(file.uncompressed_bytes)} | {file.name} |"
        if file
        else f"| {part.name} | 0 | | |"
        for part, file in files
    ]
    share = f", a random sample of {contents.total:,}" if contents.is_sample else ""
    lines = [
        f"# {contents.name}",
        "",
        f"{contents.documents:,} documents{share}, read from {contents.origin} by `esbench create-track`.",
        "",
        f"| {kind} | documents | size | file |",
        "|---|---|---|---|",
        *rows,
        "",
        "```",
        f"esbench race --track-path=./{contents.name}",
        f"esrally race --track-path=./{contents.name} --pipeline=benchmark-only --target-hosts=HOST:9200",
        "```",
        "",
        f"**Do not race it against the cluster that it was read from:** its first task deletes the {kinds} of these"
        " names.",
        "",
        "Parameters (`--track-params`): `number_of_shards` and `number_of_replicas` (as they were), `bulk_size`"
        f" ({_bulk_size(contents)}), `bulk_indexing_clients` (8), `ingest_percentage` (100), `cluster_health` (yellow:"
        " `green` waits for replicas, too)" + ("." if contents.are_data_streams else ", `index_settings` ({})."),
    ]
    if contents.notes:
        lines += ["", "What was left behind:", "", *(f"- {note}" for note in contents.notes)]
    return "\n".join(lines) + "\n"
