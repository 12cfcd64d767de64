"""Rendered templates of a track, and the track parameters that it has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from esbench.errors import EsbenchError, TrackError, UsageError
from esbench.model import Challenge, Track
from esbench.operations.base import kind_of
from esbench.race.loading import load_with_python
from esbench.track.document import DocumentNode, parse
from esbench.track.loader import refuse_unknown, track_name
from esbench.track.rendering import RenderContext, TrackRenderer
from esbench.track.selection import choose_challenge
from esbench.track.source import JSON_SUFFIXES, SourceFiles

_VERSION = re.compile(r"(?:(?P<product>elasticsearch|opensearch)-)?v?(?P<version>\d+(?:\.\d+)*\S*)", re.IGNORECASE)
_BODIES = {
    "indices": ("body", "table"),
    "templates": ("template",),
    "composable-templates": ("template",),
    "component-templates": ("template",),
}


@dataclass(frozen=True)
class Rendering:
    """The rendered text of a file, JSON indented; `problem` is the error if the text cannot be parsed."""

    text: str
    problem: EsbenchError | None = None


@dataclass(frozen=True)
class Description:
    """A track and its challenges as they would be raced, after the track's own code.

    The track is as that code changes it for the default challenge, else for the first one described. `parameters`: the
    names of the track parameters that its templates ask for.
    """

    track: Track
    challenges: tuple[Challenge, ...]
    parameters: frozenset[str]

    def warnings(self, home: Path) -> tuple[str, ...]:
        """Return what is odd about the data of its tasks, each once, and why data cannot be read."""
        found: dict[str, None] = {}
        for operation in (task.operation for challenge in self.challenges for task in challenge.tasks):
            try:
                found |= dict.fromkeys(kind_of(operation).warnings(operation.params, self.track, home))
            except EsbenchError as error:
                found[str(error)] = None
        return tuple(found)


def product_and_version(distribution: str) -> tuple[str, str]:
    """Return (product, version) that a text names: "7.10.2", "opensearch-2.19.6". UsageError if it names none.

    The product is "elasticsearch", also if the text has only a version, or "opensearch".
    """
    match = _VERSION.fullmatch(distribution.strip())
    if match is None:
        hint = "say 7.10.2, elasticsearch-8.19.4 or opensearch-2.19.6"
        raise UsageError(f'"{distribution}" names no version', where="--distribution", hint=hint)
    return (match["product"] or "elasticsearch").lower(), match["version"]


def render(track: Path, context: RenderContext, file: str | None = None) -> Rendering:
    """Render the track file, or another file below its folder.

    Raises TrackError if a template fails, UsageError for a missing file or a track parameter that the track does not
    have. A text that cannot be parsed raises nothing: the error is its `problem`, and parameters are not checked.
    """
    if file is not None and not (track.parent / file).is_file():
        hint = SourceFiles(track.parent).like(file)
        raise UsageError(f'there is no file "{file}" in {track.parent}', where="--file", hint=hint)
    rendered = TrackRenderer(track.parent, context).render(file or track.name)
    try:
        node = parse(rendered)
    except TrackError as problem:
        return Rendering(rendered.text, problem)
    refuse_unknown(context.params, _parameters(track, context), track_name(track))
    is_json = rendered.name.endswith(JSON_SUFFIXES)
    return Rendering(json.dumps(node.value, indent=2, ensure_ascii=False) if is_json else rendered.text)


def describe(
    track: Path,
    context: RenderContext,
    home: Path,
    challenge: str | None = None,
    *,
    no_python: bool = False,
) -> Description:
    """Return a track and its challenges, or one of them, after its processors; prepare and start nothing.

    `home` has the libraries of its Python part. Raises an EsbenchError for anything that would keep it from being
    raced.
    """
    loaded = load_with_python(track, context, home, no_python=no_python)
    named = loaded.track.challenges if challenge is None else (choose_challenge(loaded.track, challenge),)
    raced = [loaded.processed_alone(each.name)[0] for each in named]  # each as if it were the one that is raced
    chosen = tuple(choose_challenge(own, each.name) for own, each in zip(raced, named, strict=True))
    described = next((own for own, each in zip(raced, chosen, strict=True) if each.default), raced[0])
    return Description(described, chosen, loaded.document.rendered.renderer.parameters())


def _parameters(track: Path, context: RenderContext) -> frozenset[str]:
    """Return the names of the track parameters that a track, its index bodies and its templates use."""
    renderer = TrackRenderer(track.parent, context)
    for body in _body_files(parse(renderer.render(track.name))):
        if (track.parent / body).is_file():
            renderer.render(body)
    return renderer.parameters()


def _body_files(track: DocumentNode) -> Iterator[str]:
    """Yield the files that a track names as bodies. Its structure may be wrong."""
    for key, names in _BODIES.items():
        elements = track.get(key)
        for element in elements if isinstance(elements, list) else ():
            bodies = map(element.get, names) if isinstance(element, dict) else ()
            yield from (body for body in bodies if isinstance(body, str))
