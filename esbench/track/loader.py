"""Loading of a track: Jinja -> YAML or JSON -> structure -> model.

It reads files of the track's folder only; corpora are prepared elsewhere.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.errors import UsageError, did_you_mean
from esbench.errors.user_paths import user_path
from esbench.model import Challenge, Corpus, DataStream, Documents, Index, Template, Templates, Track, leaves_folder
from esbench.track import features, schema, testmode
from esbench.track.document import DocumentNode, parse
from esbench.track.faults import Faults
from esbench.track.python_part import PythonPart
from esbench.track.rendering import RenderContext, Rendered, TrackRenderer
from esbench.track.selection import for_serverless
from esbench.track.source import JSON_SUFFIXES, OUTSIDE, TRACK_FILES, YAML_SUFFIXES, file_in
from esbench.track.tasks import TaskBuilder, build_variables, refuse_typos

if TYPE_CHECKING:
    from esbench.operations import OperationTypes


def read_track(path: Path, context: RenderContext) -> DocumentNode:
    """Render and parse a track file.

    Raises a TrackError with file:line, or UsageError if a template refuses a track parameter (`fail`).
    """
    return parse(TrackRenderer(path.parent, context).render(path.name))


def load_track(
    node: DocumentNode,
    operation_types: OperationTypes,
    *,
    test_mode: bool = False,
    faults: Faults | None = None,
    code: Sequence[Path] = (),
    python: PythonPart | None = None,
) -> Track:
    """Check and build the track of a file that was read.

    Raises a TrackError with file:line for any fault in it, a UsageError for an unknown track parameter. `code` are the
    files of its Python part, `python` is that part; without it, nothing that depends on that is judged. Where `faults`
    are gathered, it raises only a fault that hides all the rest, and the track lacks what could not be built.
    """
    faults = faults or Faults()
    renderer = node.rendered.renderer
    path, params = renderer.files.root / node.rendered.name, renderer.context.params
    name = track_name(path)
    for fault in python.tolerated if python is not None else ():
        with faults.leniently():
            raise fault
    schema.validate(node, faults)
    faults.need_shape(node, below=tuple(node.value) if isinstance(node.value, Mapping) else ())
    refuse_typos(node, "track", faults)
    indices = faults.each(lambda index: _index(index, faults), node.find("indices") or ())
    streams = _by_name(node, "data-streams", "data stream", faults).values()
    data_streams = faults.each(lambda stream: DataStream(stream.value["name"]), streams)
    with faults.apart():
        if indices and data_streams:
            node["data-streams"].fail('a track cannot have both "indices" and "data-streams"', "keep one of them")
    templates = _templates(node, faults)
    with faults.apart():
        refuse_unknown(params, renderer.parameters(), name)

    makes_corpora = python is not None and bool(python.track_processors)
    known_corpora = None if makes_corpora else [str(corpus.get("name")) for corpus in node.find("corpora") or ()]
    builder = TaskBuilder(
        operations=_by_name(node, "operations", "operation", faults),
        operation_types=operation_types,
        variables=build_variables(node, faults, known_corpora),
        meta=node.get("meta", {}),
        params=node.get("parameters") or {},
        faults=faults,
        python=python,
        lacks_code=python is None and bool(code),
        known_corpora=known_corpora,
    )
    faults.each(builder.operation, builder.operations.values())
    challenges = _challenges(node, builder)
    if renderer.context.build_flavor == "serverless":
        of = renderer.context.distribution
        challenges = tuple(for_serverless(challenge, operation_types, of) for challenge in challenges)
    builder.refuse_unknown_types()
    corpora = faults.each(
        lambda corpus: _corpus(corpus, indices or data_streams, faults),
        _by_name(node, "corpora", "corpus", faults).values(),
    )
    if test_mode:
        corpora = tuple(testmode.shrink_corpus(corpus) for corpus in corpora)
        challenges = tuple(testmode.shrink_challenge(challenge, operation_types) for challenge in challenges)
    return Track(
        name=name,
        path=path,
        description=node.get("description", ""),
        digest=renderer.digest(code),
        challenges=challenges,
        indices=indices,
        corpora=corpora,
        variables=builder.variables,
        params=dict(params),
        requires=_requires(node, features.bodies_of(indices, templates), faults),
        data_streams=data_streams,
        templates=templates,
        dependencies=tuple(node.get("dependencies", ())),
        meta=builder.meta,
        warnings=tuple(map(str, faults.tolerated)),
    )


def track_name(file: Path) -> str:
    """Return the name of a track: that of its folder, or of its file where that is not called track."""
    return file.parent.resolve().name if file.stem == "track" else file.stem


def track_file(path: Path, where: str) -> Path:
    """Return the track file that a path names: itself, or the one in a folder. Raises UsageError if it names none.

    `where` is the command line option that errors name.
    """
    path = user_path(path, where)
    if path.is_dir():
        found = file_in(path)
        if found is None:
            raise UsageError(
                f'the folder "{path}" holds no track', where=where, hint=f"looked for {', '.join(TRACK_FILES)}"
            )
        return found
    if not path.exists():
        raise UsageError(f'"{path}" does not exist', where=where, hint="it names a track's folder or its track file")
    if path.suffix not in JSON_SUFFIXES + YAML_SUFFIXES:
        raise UsageError(f'"{path}" is not a track file', where=where, hint="a track is YAML or JSON")
    return path


def challenge_nodes(track: DocumentNode) -> list[DocumentNode]:
    """Return the challenges of a track; a track with only a `schedule` is itself the one challenge.

    A track without any, or with two of the keys, is a TrackError.
    """
    given = [key for key in ("challenges", "challenge", "schedule") if key in track]
    if len(given) != 1:
        what = f'a track cannot have both "{given[0]}" and "{given[1]}"' if given else "the track has no challenge"
        hint = 'a track has one of "challenges", "challenge", "schedule"'
        if "test_procedures" in track:  # of OpenSearch Benchmark
            hint = 'rename "test_procedures" to "challenges"'
        (track[given[1]] if given else track).fail(what, hint)
    if given[0] == "challenges":
        return list(track["challenges"])
    return [track["challenge"] if given[0] == "challenge" else track]


def _challenges(track: DocumentNode, builder: TaskBuilder) -> tuple[Challenge, ...]:
    faults = builder.faults
    nodes = challenge_nodes(track)
    if nodes[0] is track:
        unnamed = DocumentNode({"name": "default", "schedule": track.value["schedule"]}, (), track.rendered)
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


def refuse_unknown(given: Iterable[str], known: Collection[str], track: str) -> None:
    """Raise a UsageError naming each given track parameter that the track never asks for."""
    unknown = sorted(set(given) - set(known))
    if not unknown:
        return
    names = ", ".join(f'"{name}"' for name in unknown)
    plural = "s" if len(unknown) > 1 else ""
    raise UsageError(
        f'track "{track}" has no parameter{plural} {names}',
        where="--track-params",
        hint=did_you_mean(unknown[0], known),
    )


def _index(node: DocumentNode, faults: Faults) -> Index:
    """Return an index of the track; without a body, or if that has a fault, it has the server's defaults."""
    body, table = node.find("body"), node.find("table")
    with faults.apart():
        content = {} if body is None else _content(body, "an index body").value
        return Index(node.value["name"], content, None if table is None else _file(table).text)
    return Index(node.value["name"])


def _templates(track: DocumentNode, faults: Faults) -> Templates:
    """Return the templates of all three kinds. Two of one kind with the same name are a fault (TrackError)."""

    def built(key: str, definition: str, *, is_composable: bool = True) -> tuple[Template, ...]:
        nodes = _by_name(track, key, "template", faults).values()
        return faults.each(lambda node: _template(node, definition, is_composable, faults), nodes)

    return Templates(
        legacy=built("templates", "index_template", is_composable=False),
        composable=built("composable-templates", "index_template"),
        component=built("component-templates", "component_template"),
    )


def _template(node: DocumentNode, definition: str, is_composable: bool, faults: Faults) -> Template:
    refuse_typos(node, definition, faults)
    body = _content(node["template"], "a template")
    path = node.find("template-path")
    if path is not None:
        for key in str(path.value).split("."):
            if not isinstance(body.value.get(key), Mapping):
                path.fail(f'"{path.value}" leads to no mapping of the template', did_you_mean(key, body.value))
            body = body[key]
    if is_composable and not isinstance(body.value.get("template") or {}, Mapping):
        hint = 'patterns stand in "index_patterns"; a template of the older form belongs below "templates"'
        body["template"].fail('"template" must be a mapping of settings, mappings and aliases', hint)
    return Template(
        node.value["name"], body.value, node.get("index-pattern"), node.get("delete-matching-indices", True)
    )


def _content(node: DocumentNode, what: str) -> DocumentNode:
    """Return the content of a place: the mapping that stands there, or that of the file which it names."""
    if not isinstance(node.value, str):
        return node
    content = parse(_file(node))
    if not isinstance(content.value, Mapping):
        content.fail(f"{what} must be a mapping")
    return content


def _file(node: DocumentNode) -> Rendered:
    """Return the file of the track that a place names, rendered."""
    renderer = node.rendered.renderer
    if not renderer.files.may_read(node.value):
        node.fail(f'"{node.value}" {OUTSIDE}', "copy the file into the track")
    if not (renderer.files.root / node.value).is_file():
        node.fail(f'there is no file "{node.value}" beside the track', renderer.files.like(node.value))
    return renderer.render(node.value)


def _by_name(track: DocumentNode, key: str, what: str, faults: Faults) -> dict[str, DocumentNode]:
    found: dict[str, DocumentNode] = {}
    for node in track.find(key) or ():
        name = str(node.get("name"))
        with faults.apart():
            if name in found:
                node.fail(f'the {what} "{name}" is defined twice')
            found[name] = node
    return found


_Targets = tuple[Index, ...] | tuple[DataStream, ...]


def _corpus(node: DocumentNode, targets: _Targets, faults: Faults) -> Corpus:
    refuse_typos(node, "corpus", faults)
    parts = faults.every(lambda part: _documents(part, node, targets, faults), node["documents"])
    return Corpus(node.value["name"], parts, node.get("meta", {}))


def _documents(node: DocumentNode, corpus: DocumentNode, targets: _Targets, faults: Faults) -> Documents:
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
    if leaves_folder(node.get("source-file") or ""):
        what = f'"{node["source-file"].value}" is outside of the folder of the track'
        node["source-file"].fail(what, "the name of a document file is relative to it, and has no ..")
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


def _requires(track: DocumentNode, bodies: Iterable[Mapping[str, Any]], faults: Faults) -> tuple[str, ...]:
    """Return the features that the track declares, and those that the bodies of its indices and templates need."""

    def known(feature: DocumentNode) -> str:
        if feature.value not in features.FEATURES:
            feature.fail(f'unknown feature "{feature.value}"', did_you_mean(feature.value, features.FEATURES))
        return str(feature.value)

    found = set(faults.each(known, track.find("requires") or ()))
    for body in bodies:
        found |= features.of_index_body(body)
    return tuple(sorted(found))
