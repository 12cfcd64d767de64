"""Loading of a track: Jinja -> YAML or JSON -> structure -> model.

It reads files of the track's folder only; corpora are prepared elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.errors import UsageError, did_you_mean
from esbench.errors.user_paths import user_path
from esbench.model import (
    Challenge,
    Corpus,
    DataStream,
    Documents,
    Index,
    Need,
    Template,
    Templates,
    Track,
    leaves_folder,
)
from esbench.track import document, features, schema
from esbench.track.document import DocumentNode, parse
from esbench.track.faults import Faults
from esbench.track.python_part import PythonPart
from esbench.track.rendering import RenderContext, Rendered, TrackRenderer
from esbench.track.selection import corpora_of, for_serverless
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
    raced: str | None = None,
) -> Track:
    """Check and build the track of a file that was read.

    Raises a TrackError with file:line for any fault in it, a UsageError for an unknown track parameter. `code` are the
    files of its Python part, `python` is that part; without it, nothing that depends on that is judged. Where `faults`
    are gathered, it raises only a fault that hides all the rest, and the track lacks what could not be built. `raced`
    names the challenge of a race ("": the default one): faults outside of it are tolerated, and what has them left out.
    """
    faults = faults or Faults()
    renderer = node.rendered.renderer
    path, params = renderer.files.root / node.rendered.name, renderer.context.params
    name = track_name(path)
    for fault in python.tolerated if python is not None else ():
        with faults.leniently():
            raise fault
    schema.validate(node, faults, aside=() if raced is None else _not_raced(node, raced))
    faults.need_shape(node, below=tuple(node.value) if isinstance(node.value, Mapping) else ())
    refuse_typos(node, "track", faults)
    bodies: list[DocumentNode] = []
    declared = _by_name(node, "indices", "index", faults).values()
    indices = faults.each(lambda index: _index(index, faults, bodies), declared)
    streams = _by_name(node, "data-streams", "data stream", faults).values()
    data_streams = faults.each(lambda stream: DataStream(stream.value["name"]), streams)
    with faults.apart():
        if indices and data_streams:
            node["data-streams"].fail('a track cannot have both "indices" and "data-streams"', "keep one of them")
    templates = _templates(node, faults, bodies)
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
    with nullcontext() if raced is None else builder.not_raced():
        faults.each(builder.operation, builder.operations.values())
    challenges = _challenges(node, builder, raced)
    if renderer.context.build_flavor == "serverless":
        of = renderer.context.distribution
        challenges = tuple(for_serverless(challenge, of) for challenge in challenges)
    builder.refuse_unknown_types()
    corpora = _corpora(node, indices or data_streams, faults, _needs_corpora(builder, challenges, raced))
    if test_mode:
        from esbench.track import testmode

        corpora = tuple(testmode.shrink_corpus(corpus) for corpus in corpora)
        challenges = tuple(testmode.shrink_challenge(challenge) for challenge in challenges)
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
        needs=_needs(node, bodies, faults),
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
            hint = f"looked for {', '.join(TRACK_FILES)}"
            if (path / "workload.json").exists():  # of OpenSearch Benchmark
                hint = "it is a workload: esbench convert-workload DIR OUT makes a track of it"
            raise UsageError(f'the folder "{path}" holds no track', where=where, hint=hint)
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
            hint = "esbench convert-workload DIR OUT makes a track of a workload"
        (track[given[1]] if given else track).fail(what, hint)
    if given[0] == "challenges":
        return list(track["challenges"])
    return [track["challenge"] if given[0] == "challenge" else track]


def _not_raced(track: DocumentNode, raced: str) -> list[document.Path]:
    """Return the paths of a track's operations, corpora and other challenges than the one that is raced.

    An operation or corpus that this challenge uses is raced all the same: its faults are raised when it is met there.
    """
    parts = [node.path for key in ("operations", "corpora") for node in _elements(track, key)]
    challenges = list(_elements(track, "challenges"))
    return parts + [node.path for node in challenges if not _is_raced(node, challenges, raced)]


def _elements(track: DocumentNode, key: str) -> Iterable[DocumentNode]:
    node = track.find(key)
    return () if node is None or not isinstance(node.value, list) else node


def _is_raced(challenge: DocumentNode, challenges: Sequence[DocumentNode], raced: str | None) -> bool:
    if raced is None or len(challenges) == 1:
        return True
    return challenge.get("name") == raced if raced else bool(challenge.get("default"))


def _challenges(track: DocumentNode, builder: TaskBuilder, raced: str | None) -> tuple[Challenge, ...]:
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
    challenges: tuple[Challenge, ...] = ()
    for node in nodes:
        if _is_raced(node, nodes, raced):
            challenges += faults.each(builder.challenge, [node], below=("schedule",))
        else:
            with builder.not_raced() as found:
                built = faults.each(builder.challenge, [node], below=("schedule",))
            challenges += () if found else built
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


def _index(node: DocumentNode, faults: Faults, bodies: list[DocumentNode]) -> Index:
    """Return an index of the track, and add its body to `bodies`.

    Without a body, or if that has a fault, it has the server's defaults.
    """
    body, table = node.find("body"), node.find("table")
    types = node.get("types")
    for key, parts in (("documents", [node.value]), ("types", types if isinstance(types, list) else [])):
        with faults.apart():
            if any(isinstance(part, Mapping) and "documents" in part for part in parts):
                hint = 'write them as a corpus with a "target-index" below "corpora"'
                node[key].fail('documents below "indices" have an old format of Rally, and would not be sent', hint)
    with faults.apart():
        content = {}
        if body is not None:
            bodies.append(_content(body, "an index body"))
            content = bodies[-1].value
        return Index(node.value["name"], content, None if table is None else _file(table).text)
    return Index(node.value["name"])


def _templates(track: DocumentNode, faults: Faults, bodies: list[DocumentNode]) -> Templates:
    """Return the templates of all three kinds, and add their bodies to `bodies`.

    Two of one kind with the same name are a fault (TrackError).
    """

    def built(key: str, definition: str, *, is_composable: bool = True) -> tuple[Template, ...]:
        nodes = _by_name(track, key, "template", faults).values()
        return faults.each(lambda node: _template(node, definition, is_composable, faults, bodies), nodes)

    return Templates(
        legacy=built("templates", "index_template", is_composable=False),
        composable=built("composable-templates", "index_template"),
        component=built("component-templates", "component_template"),
    )


def _template(
    node: DocumentNode, definition: str, is_composable: bool, faults: Faults, bodies: list[DocumentNode]
) -> Template:
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
    bodies.append(body)
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
        node.fail(f'there is no file "{node.value}" in the folder of the track', renderer.files.like(node.value))
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


def _needs_corpora(builder: TaskBuilder, challenges: Sequence[Challenge], raced: str | None) -> Callable[[str], bool]:
    """Return a function that is True for the names of corpora that a race needs; a race of all challenges needs each.

    Code of the track may read any of them.
    """
    chosen = [each for each in challenges if (each.name == raced if raced else each.default)]
    if raced is None or len(chosen) != 1 or (builder.python is not None and builder.python.track_processors):
        return lambda name: True
    tasks, variables = chosen[0].tasks, builder.variables
    if any(task.operation.python for task in tasks):
        return lambda name: True
    return lambda name: any(name in corpora_of(task, (name,), variables) for task in tasks)


def _corpora(
    track: DocumentNode, targets: _Targets, faults: Faults, is_needed: Callable[[str], bool]
) -> tuple[Corpus, ...]:
    found: tuple[Corpus, ...] = ()
    for name, node in _by_name(track, "corpora", "corpus", faults).items():
        with nullcontext() if is_needed(name) else faults.aside():
            found += faults.each(lambda corpus: _corpus(corpus, targets, faults), [node])
    return found


def _corpus(node: DocumentNode, targets: _Targets, faults: Faults) -> Corpus:
    refuse_typos(node, "corpus", faults)
    parts = faults.every(lambda part: _documents(part, node, targets, faults), node["documents"])
    return Corpus(node.value["name"], parts, node.get("meta", {}))


def _documents(node: DocumentNode, corpus: DocumentNode, targets: _Targets, faults: Faults) -> Documents:
    refuse_typos(node, "documents", faults)

    def key(name: str) -> Any:
        return node.get(name, corpus.get(name))

    if ("source-file" in node or "source-url" in node) == ("generate" in node):
        node.fail(
            f'{node.label} needs either "source-file" or "generate"', 'with a file, write the generator as "stand-in"'
        )
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


def _needs(track: DocumentNode, bodies: Sequence[DocumentNode], faults: Faults) -> tuple[Need, ...]:
    """Return the needs that a track declares, and those of its data streams and bodies: one for each feature."""

    def known(feature: DocumentNode) -> Need:
        if feature.value not in features.FEATURES:
            feature.fail(f'unknown feature "{feature.value}"', did_you_mean(feature.value, features.FEATURES))
        return Need(str(feature.value), "the track, which requires it", feature.where)

    found = {need.feature: need for need in faults.each(known, track.find("requires") or ())}
    if track.get("data-streams"):
        found["data-streams"] = Need("data-streams", "the track's data streams", track["data-streams"].where)
    for body in bodies:
        found |= {need.feature: need for need in features.needs_of_body(body, found)}
        for error in features.misspelt_types(body):
            with faults.leniently():
                raise error
    return tuple(found.values())
