"""Indices and templates of a track: their bodies stand in it, or in files beside it that are rendered separately."""

from __future__ import annotations

from collections.abc import Mapping

from esbench.errors import did_you_mean
from esbench.model import Index, Template, Templates
from esbench.track.document import Node, parse
from esbench.track.faults import Faults
from esbench.track.rendering import TrackRenderer
from esbench.track.tasks import refuse_typos


def build_index(node: Node, renderer: TrackRenderer) -> Index:
    """Return an index of the track; one without a body has the server's default settings and mappings."""
    body = node.find("body")
    return Index(node.value["name"], {} if body is None else _content(body, renderer, "an index body").value)


def build_templates(track: Node, renderer: TrackRenderer, faults: Faults) -> Templates:
    """Return the track's templates of all three kinds. Two of one kind with the same name are a fault (TrackError)."""

    def built(key: str, definition: str) -> tuple[Template, ...]:
        nodes = list(track.find(key) or ())
        for position, node in enumerate(nodes):
            with faults.apart():
                if (name := node.get("name")) in [other.get("name") for other in nodes[:position]]:
                    node.fail(f'the template "{name}" is defined twice')
        return faults.each(lambda node: _template(node, definition, renderer, faults), nodes)

    return Templates(
        legacy=built("templates", "index_template"),
        composable=built("composable-templates", "index_template"),
        component=built("component-templates", "component_template"),
    )


def _template(node: Node, definition: str, renderer: TrackRenderer, faults: Faults) -> Template:
    refuse_typos(node, definition, faults)
    body = _content(node["template"], renderer, "a template")
    path = node.find("template-path")
    if path is not None:
        for key in str(path.value).split("."):
            if not isinstance(body.value.get(key), Mapping):
                path.fail(f'"{path.value}" leads to no mapping of the template', did_you_mean(key, body.value))
            body = body[key]
    return Template(
        node.value["name"], body.value, node.get("index-pattern"), node.get("delete-matching-indices", True)
    )


def _content(node: Node, renderer: TrackRenderer, what: str) -> Node:
    """Return the content of a place: the mapping that stands there, or that of the file which it names."""
    if not isinstance(node.value, str):
        return node
    if not (renderer.files.root / node.value).is_file():
        node.fail(f'there is no file "{node.value}" beside the track', renderer.files.like(node.value))
    content = parse(renderer.render(node.value))
    if not isinstance(content.value, Mapping):
        content.fail(f"{what} must be a mapping")
    return content
