"""Loading of a track: Jinja -> YAML or JSON -> structure -> model.

It reads files of the track's folder only; corpora are prepared elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.errors import UsageError, did_you_mean
from esbench.model import Challenge, Corpus, DataStream, Documents, Index, Track
from esbench.track import features, schema, testmode
from esbench.track.bodies import build_index, build_templates
from esbench.track.document import Node, parse
from esbench.track.faults import Faults
from esbench.track.params import refuse_unknown
from esbench.track.python_part import PythonPart, has_plugins, python_files
from esbench.track.rendering import RenderContext, TrackRenderer
from esbench.track.selection import for_serverless
from esbench.track.source import JSON_SUFFIXES, YAML_SUFFIXES
from esbench.track.tasks import TaskBuilder, build_variables, refuse_typos

if TYPE_CHECKING:
    from esbench.operations import OperationTypes

_FILES = ("track.yml", "track.yaml", "track.json")


def load_track(
    path: Path,
    context: RenderContext,
    operation_types: OperationTypes,
    *,
    test_mode: bool = False,
    faults: Faults | None = None,
    python: PythonPart | None = None,
) -> Track:
    """Render, check and build the track of a file (or of the folder that holds it).

    Raises a TrackError with file:line for any fault in it, a UsageError for an unknown track parameter. `python` is its
    Python part; without it, nothing that depends on that is judged. Where `faults` are gathered, it raises only a fault
    that hides all the rest, and the track lacks what could not be built.
    """
    faults = faults or Faults()
    path = track_file(path, "the track")
    name = track_name(path)
    for fault in python.tolerated if python is not None else ():
        with faults.leniently():
            raise fault
    renderer = TrackRenderer(path.parent, context)
    node = parse(renderer.render(path.name))
    schema.validate(node, faults)
    faults.need_shape(node, below=tuple(node.value) if isinstance(node.value, Mapping) else ())
    refuse_typos(node, "track", faults)
    indices = faults.each(lambda index: _index(index, renderer, faults), node.find("indices") or ())
    streams = _by_name(node, "data-streams", "data stream", faults).values()
    data_streams = faults.each(lambda stream: DataStream(stream.value["name"]), streams)
    with faults.apart():
        if indices and data_streams:
            node["data-streams"].fail('a track cannot have both "indices" and "data-streams"', "keep one of them")
    templates = build_templates(node, renderer, faults)
    with faults.apart():
        refuse_unknown(context.params, renderer.parameters(), name)

    corpus_names = [str(corpus.get("name")) for corpus in node.find("corpora") or ()]
    known_corpora = None if python is not None and python.track_processors else corpus_names
    builder = TaskBuilder(
        operations=_by_name(node, "operations", "operation", faults),
        operation_types=operation_types,
        variables=build_variables(node, faults, known_corpora),
        meta=node.get("meta", {}),
        params=node.get("parameters") or {},
        faults=faults,
        python=python,
        lacks_code=python is None and has_plugins(path.parent),
        corpora=corpus_names,
        known_corpora=known_corpora,
    )
    faults.each(builder.operation, builder.operations.values())
    challenges = _challenges(node, builder)
    if context.build_flavor == "serverless":
        challenges = tuple(for_serverless(challenge) for challenge in challenges)
    builder.refuse_unknown_types()
    corpora = faults.each(
        lambda corpus: _corpus(corpus, indices or data_streams, faults),
        _by_name(node, "corpora", "corpus", faults).values(),
    )
    if test_mode:
        corpora = tuple(testmode.shrink_corpus(corpus) for corpus in corpora)
        challenges = tuple(
            testmode.shrink_challenge(challenge, _units_per_request(challenge, operation_types))
            for challenge in challenges
        )
    return Track(
        name=name,
        path=path,
        description=node.get("description", ""),
        digest=renderer.digest(python_files(path.parent)),
        challenges=challenges,
        indices=indices,
        corpora=corpora,
        variables=builder.variables,
        params=dict(context.params),
        requires=_requires(node, (*(index.body for index in indices), *features.bodies_of(templates)), faults),
        data_streams=data_streams,
        templates=templates,
        dependencies=tuple(node.get("dependencies", ())),
        meta=builder.meta,
        warnings=tuple(map(str, faults.tolerated)),
    )


def file_in(folder: Path) -> Path | None:
    """Return the track file of a folder; None if it holds none."""
    return next((folder / name for name in _FILES if (folder / name).is_file()), None)


def track_name(file: Path) -> str:
    """Return the name of a track: that of its folder, or of its file where that is not called track."""
    return file.parent.resolve().name if file.stem == "track" else file.stem


def track_file(path: Path, where: str) -> Path:
    """Return the track file that a path names: itself, or the one in a folder. Raises UsageError if it names none."""
    path = path.expanduser()
    if path.is_dir():
        found = file_in(path)
        if found is None:
            raise UsageError(f'the folder "{path}" holds no track', where=where, hint=f"looked for {', '.join(_FILES)}")
        return found
    if not path.exists():
        raise UsageError(f'"{path}" does not exist', where=where, hint="it names a track's folder or its track file")
    if path.suffix not in JSON_SUFFIXES + YAML_SUFFIXES:
        raise UsageError(f'"{path}" is no track file', where=where, hint="a track is YAML or JSON")
    return path


def challenge_nodes(track: Node) -> list[Node]:
    """Return the challenges of a track; a track with only a `schedule` is itself the one challenge.

    A track without any, or with two of the keys, is a TrackError.
    """
    given = [key for key in ("challenges", "challenge", "schedule") if key in track]
    if len(given) != 1:
        what = f'a track cannot have both "{given[0]}" and "{given[1]}"' if given else "the track has no challenge"
        (track[given[1]] if given else track).fail(what, 'a track has one of "challenges", "challenge", "schedule"')
    if given[0] == "challenges":
        return list(track["challenges"])
    return [track["challenge"] if given[0] == "challenge" else track]


def _challenges(track: Node, builder: TaskBuilder) -> tuple[Challenge, ...]:
    faults = builder.faults
    nodes = challenge_nodes(track)
    if nodes[0] is track:
        unnamed = Node({"name": "default", "schedule": track.value["schedule"]}, (), track.rendered)
        return (replace(builder.challenge(unnamed), default=True),)
    names: list[str] = []
    for node in nodes:
        with faults.apart():
            if (name := str(node.get("name"))) in names:
                node.fail(f'two challenges are named "{name}"')
            names.append(name)
    challenges = faults.each(builder.challenge, nodes, below=("schedule",))
    if len(nodes) == 1:
        return tuple(replace(challenge, default=True) for challenge in challenges)
    defaults = [node for node in nodes if node.get("default")]
    if len(defaults) != 1:
        with faults.apart():
            what = "more than one challenge is the default" if defaults else "no challenge is the default"
            (defaults or nodes)[-1].fail(what, f'write "default": true in one of {", ".join(names)}')
    return challenges


def _index(node: Node, renderer: TrackRenderer, faults: Faults) -> Index:
    """Return an index of the track; one whose body has a fault is returned without body."""
    with faults.apart():
        return build_index(node, renderer)
    return Index(node.value["name"])


def _by_name(track: Node, key: str, what: str, faults: Faults) -> dict[str, Node]:
    found: dict[str, Node] = {}
    for node in track.find(key) or ():
        name = str(node.get("name"))
        with faults.apart():
            if name in found:
                node.fail(f'the {what} "{name}" is defined twice')
            found[name] = node
    return found


_Targets = tuple[Index, ...] | tuple[DataStream, ...]


def _corpus(node: Node, targets: _Targets, faults: Faults) -> Corpus:
    refuse_typos(node, "corpus", faults)
    parts = faults.every(lambda part: _documents(part, node, targets, faults), node["documents"])
    return Corpus(node.value["name"], parts, node.get("meta", {}))


def _documents(node: Node, corpus: Node, targets: _Targets, faults: Faults) -> Documents:
    refuse_typos(node, "documents", faults)

    def key(name: str) -> Any:
        return node.get(name, corpus.get(name))

    if ("source-file" in node or "source-url" in node) == ("generate" in node):
        node.fail(f'{node.label} needs either "source-file" or "generate"', "beside a file, a generator is a stand-in")
    generate, stand_in = node.find("generate"), node.find("stand-in")
    for generator in filter(None, (generate, stand_in)):
        for role in ("id", "routing"):
            name = generator.get(role)
            if name is not None and name not in generator.value["fields"]:
                generator[role].fail(
                    f'"{role}" names no field of the documents: "{name}"',
                    did_you_mean(name, generator.value["fields"]),
                )
    if generate is not None and stand_in is not None:
        stand_in.fail("generated documents need no stand-in", "it is for the documents of a source-file")
    count = node.find("document-count")
    if (generate is not None or stand_in is not None) and count is None:
        node.fail(f'{node.label} needs "document-count"', "how many documents to generate")
    has_action_lines = bool(key("includes-action-and-meta-data"))
    target_index, target_data_stream = key("target-index"), key("target-data-stream")
    for name, wrong in (("target-index", DataStream), ("target-data-stream", Index)):
        if key(name) is not None and targets and isinstance(targets[0], wrong):
            kind = "data streams" if wrong is DataStream else "indices"
            other = "target-data-stream" if wrong is DataStream else "target-index"
            place = node if node.find(name) is not None else corpus
            place[name].fail(f'"{name}" does not fit a track of {kind}', f'say "{other}"')
    if target_index is None and target_data_stream is None and not has_action_lines:
        are_streams = any(isinstance(target, DataStream) for target in targets)
        if len(targets) != 1:
            names = ", ".join(target.name for target in targets)
            what, kind = ("target-data-stream", "data streams") if are_streams else ("target-index", "indices")
            node.fail(f'{node.label} needs "{what}"', f"the track's {kind}: {names or 'none'}")
        target_index, target_data_stream = (None, targets[0].name) if are_streams else (targets[0].name, None)
    return Documents(
        document_count=None if count is None else int(count.value),
        source_file=node.get("source-file"),
        generate=None if generate is None else generate.value,
        base_url=key("base-url"),
        source_url=node.get("source-url"),
        sha256=node.get("sha256"),
        compressed_bytes=node.get("compressed-bytes"),
        uncompressed_bytes=node.get("uncompressed-bytes"),
        includes_action_and_meta_data=has_action_lines,
        target_index=target_index,
        target_data_stream=target_data_stream,
        target_type=key("target-type"),
        meta={**corpus.get("meta", {}), **node.get("meta", {})},
        synthetic=generate is not None and node.get("synthetic", False),
        stand_in=None if stand_in is None else stand_in.value,
    )


def _requires(track: Node, bodies: Iterable[Mapping[str, Any]], faults: Faults) -> tuple[str, ...]:
    """Return the features that the track declares, and those that the bodies of its indices and templates need."""

    def known(feature: Node) -> str:
        if feature.value not in features.FEATURES:
            feature.fail(f'unknown feature "{feature.value}"', did_you_mean(feature.value, features.FEATURES))
        return str(feature.value)

    found = set(faults.each(known, track.find("requires") or ()))
    for body in bodies:
        found |= features.of_index_body(body)
    return tuple(sorted(found))


def _units_per_request(challenge: Challenge, operation_types: OperationTypes) -> dict[str, float]:
    return {
        task.name: operation_types.of(task.operation).units_per_request(task.operation.params)
        for task in challenge.tasks
    }
