"""Indices and templates of a track: their bodies stand in it, or in files beside it that are rendered on their own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from esbench.errors import did_you_mean
from esbench.model import Index, Template, Templates
from esbench.track.document import Node, parse
from esbench.track.rendering import TrackRenderer


def build_index(node: Node, renderer: TrackRenderer) -> Index:
    """An index of the track; one without a body has the server's settings and mappings."""
    body = node.find("body")
    return Index(node.value["name"], {} if body is None else _content(body, renderer, "an index body").value)


def build_templates(track: Node, renderer: TrackRenderer) -> Templates:
    """The track's templates of all three kinds. Two of one kind and name are a TrackError."""
    kinds = ("templates", "composable-templates", "component-templates")
    return Templates(*(tuple(_templates(track.find(key) or (), renderer)) for key in kinds))


def bodies_of(templates: Templates) -> Iterator[Mapping[str, Any]]:
    """What the templates say of indices: their settings, mappings and aliases."""
    yield from (template.body for template in templates.legacy)
    for template in (*templates.composable, *templates.component):
        yield template.body.get("template") or {}


def _templates(nodes: Node | tuple[()], renderer: TrackRenderer) -> Iterator[Template]:
    names: set[str] = set()
    for node in nodes:
        name = node.value["name"]
        if name in names:
            node.fail(f'the template "{name}" is defined twice')
        names.add(name)
        body = _content(node["template"], renderer, "a template")
        path = node.find("template-path")
        for key in str(path.value).split(".") if path else ():
            if not isinstance(body.value.get(key), Mapping):
                where = f' of "{node.value["template"]}"' if isinstance(node.value["template"], str) else ""
                assert path is not None
                path.fail(f'"{path.value}" leads to no mapping{where}', did_you_mean(key, body.value))
            body = body[key]
        yield Template(name, body.value, node.get("index-pattern"), node.get("delete-matching-indices", True))


def _content(node: Node, renderer: TrackRenderer, what: str) -> Node:
    """What stands at a place itself, or in the file that it names."""
    if not isinstance(node.value, str):
        return node
    if not (renderer.files.root / node.value).is_file():
        node.fail(f'there is no file "{node.value}" beside the track')
    content = parse(renderer.render(node.value))
    if not isinstance(content.value, Mapping):
        content.fail(f"{what} must be a mapping")
    return content
