"""The steps of `esbench create-track`: find the indices, read their documents, write a track that races them.

It reads a cluster and writes one folder, which gets its name when it is complete. It knows nothing of races.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from esbench.cluster.client import FIRST_ANSWER_S, Cluster, index_path
from esbench.cluster.options import ClientOptions, Host
from esbench.cluster.replies import known_form
from esbench.errors import EsbenchError, UsageError, did_you_mean
from esbench.errors.user_paths import user_path
from esbench.events.progress import Progress
from esbench.features.authoring.bodies import Body, component_template, has_join, index_body, stream_template
from esbench.features.authoring.documents import Extraction, Extractor, Lines
from esbench.features.authoring.files import Contents, TargetFiles, body_text, readme_text, template_name, track_text
from esbench.features.authoring.pages import Extent
from esbench.features.authoring.targets import ExtractedTarget, find_data_streams, find_indices
from esbench.race.interrupts import Interrupts
from esbench.units import format_bytes

_NAME = re.compile(r"\w[\w.-]*", re.ASCII)
_IDS = "ids: the server makes new ones (--keep-ids keeps them)"


@dataclass(frozen=True)
class CreateTrackOptions:
    """The source and the form of a track to create: either `indices` or `data_streams` (names and patterns).

    `documents`: the number to read from each, None for all; `documents_of`: that of those with a name or pattern.
    `page_size`: documents per request; `readers`: threads that read. `packing`: zst, gz or bz2. The folder is `name`
    below `output_path`.
    """

    name: str
    output_path: Path
    hosts: tuple[Host, ...]
    client_options: ClientOptions = field(default_factory=ClientOptions)
    indices: tuple[str, ...] = ()
    data_streams: tuple[str, ...] = ()
    documents: int | None = None
    documents_of: Mapping[str, int | None] = field(default_factory=dict)
    keep_ids: bool = False
    page_size: int = 1000
    readers: int = 4
    packing: str = "zst"

    def wanted(self, name: str) -> int | None:
        """Return the number of documents to read of an index or data stream: by the first pattern that fits."""
        fitting = (number for pattern, number in self.documents_of.items() if fnmatchcase(name, pattern))
        return next(fitting, self.documents)


def run(options: CreateTrackOptions, progress: Progress) -> tuple[Path, Contents]:
    """Connect to the options' hosts and call `create_track`. Ctrl-C and SIGTERM end it."""
    with Interrupts(), Cluster([host.url for host in options.hosts], options.client_options) as cluster:
        return create_track(cluster, options, progress)


def create_track(cluster: Cluster, options: CreateTrackOptions, progress: Progress) -> tuple[Path, Contents]:
    """Create the track's folder; return it and its contents. Nothing is left of it after a failure or Ctrl-C.

    Raises UsageError for names that match nothing, targets without any document and a folder that exists, ClusterError,
    CorpusError or another EsbenchError for what cannot be read or written.
    """
    folder = _new_folder(options)
    info = cluster.info(timeout_s=FIRST_ANSWER_S)
    if options.data_streams:
        targets = find_data_streams(cluster, info, options.data_streams)
        bodies, components = _bodies_of_streams(cluster, options.name, targets)
    else:
        targets = find_indices(cluster, info, options.indices)
        bodies, components = {_body_file(target): index_body(target) for target in targets}, {}
    for pattern in options.documents_of:
        if not any(fnmatchcase(target.name, pattern) for target in targets):
            hint = did_you_mean(pattern, (target.name for target in targets))
            raise UsageError(f'no index "{pattern}" is read', where="--documents", hint=hint)
    if not any(target.documents for target in targets):
        names = ", ".join(target.name for target in targets)
        raise UsageError("there are no documents to make a track of", where=names)
    with _complete_or_nothing(folder) as partial:
        extractions = [_extraction(target, options, partial) for target in targets]
        read = [extraction for extraction in extractions if extraction.extent.documents]
        for extraction in read:
            progress.say(_announcement(extraction.extent))
        wanted = sum(extraction.extent.wanted for extraction in read)
        with progress.job("reading", wanted, "documents", announce=False) as job:
            extractor = Extractor(cluster, info, page_size=options.page_size, readers=options.readers, news=job.reach)
            files = {file.name: file for file in extractor.run(read)}
        notes = [note for body in bodies.values() for note in body.notes]
        if any(not extraction.lines.keeps_ids for extraction in extractions):
            notes.append(_IDS)
        contents = Contents(
            options.name,
            f"{'OpenSearch' if info.distribution == 'opensearch' else 'Elasticsearch'} {info.version}",
            [
                TargetFiles(
                    target.name, _body_file(target), files.get(extraction.path.name), extraction.lines.have_actions
                )
                for target, extraction in zip(targets, extractions, strict=True)
            ],
            are_data_streams=bool(options.data_streams),
            total=sum(target.documents for target in targets),
            is_sample=any(extraction.extent.sample is not None for extraction in extractions),
            components=components,
            notes=notes,
        )
        _write(partial, bodies, contents)
    return folder, contents


def _new_folder(options: CreateTrackOptions) -> Path:
    """Return the folder to create. UsageError if it exists or cannot be created."""
    if not _NAME.fullmatch(options.name):
        hint = "letters, digits, dots, - and _"
        raise UsageError(f'"{options.name}" is not the name of a folder', where="--track", hint=hint)
    parent = user_path(options.output_path, "--output-path").absolute()
    folder = parent / options.name
    if folder.exists():
        raise UsageError(f"{folder} is there already", where="--output-path", hint="delete it, or use another --track")
    nearest = next(path for path in (parent, *parent.parents) if path.exists())
    if not nearest.is_dir():
        raise UsageError(f"{nearest} is a file", where="--output-path", hint="name a folder")
    if not os.access(nearest, os.W_OK):
        raise UsageError(f"{nearest} cannot be written to", where="--output-path")
    return folder


@contextmanager
def _complete_or_nothing(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `folder` if the block ends well and removed if it does not."""
    partial = None
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", suffix=".partial", dir=folder.parent))
        yield partial
        umask = os.umask(0)
        os.umask(umask)
        partial.chmod(0o777 & ~umask)  # a temporary folder is its maker's alone
        partial.rename(folder)
    except OSError as error:
        raise EsbenchError(f"cannot be written: {error.strerror or error}", where=str(folder)) from error
    finally:
        if partial is not None:
            shutil.rmtree(partial, ignore_errors=True)


def _body_file(target: ExtractedTarget) -> str:
    return f"{'templates' if target.is_data_stream else 'indices'}/{target.name}.json"


def _bodies_of_streams(
    cluster: Cluster, track: str, targets: Sequence[ExtractedTarget]
) -> tuple[dict[str, Body], dict[str, str]]:
    """Return a composable template for each data stream, and the component templates that they consist of.

    As (bodies by file, files of the component templates by their names in the track).
    """
    templates = {name: _index_template(cluster, name) for name in {target.template for target in targets}}
    used = sorted({name for template in templates.values() for name in template.get("composed_of", ())})
    found = {name: body for name in used if (body := _component_template(cluster, name)) is not None}
    renamed = {name: template_name(track, name) for name in found}
    bodies = {f"components/{name}.json": component_template(name, body) for name, body in found.items()}
    for target in targets:
        bodies[_body_file(target)] = stream_template(target, templates[target.template], renamed)
    return bodies, {renamed[name]: f"components/{name}.json" for name in found}


@known_form("/_index_template")
def _index_template(cluster: Cluster, name: str) -> Mapping[str, Any]:
    (found,) = cluster.request("GET", f"/_index_template{index_path([name])}")["index_templates"]
    template: Mapping[str, Any] = found["index_template"]
    return template


@known_form("/_component_template")
def _component_template(cluster: Cluster, name: str) -> Mapping[str, Any] | None:
    """Return a component template, or None if it is missing: index templates may name missing ones."""
    reply = cluster.request("GET", f"/_component_template{index_path([name])}", ignore=(404,))
    found = reply.get("component_templates")
    template: Mapping[str, Any] | None = found[0]["component_template"] if found else None
    return template


def _extraction(target: ExtractedTarget, options: CreateTrackOptions, folder: Path) -> Extraction:
    """Return what to read of a target. Ids are kept on request, and if documents refer to each other by id."""
    wanted = options.wanted(target.name)
    sample = wanted if wanted is not None and wanted < target.documents else None
    lines = Lines(
        target.name,
        action="create" if target.is_data_stream else "index",
        keeps_ids=options.keep_ids or has_join(target.mappings),
        keeps_routing=target.is_routed,
    )
    extent = Extent(target.name, target.documents, target.shards, sample)
    return Extraction(extent, lines, folder / f"{target.name}-documents.json.{options.packing}")


def _announcement(extent: Extent) -> str:
    sample = "" if extent.sample is None else f"{extent.sample:,} of "
    return f"reading {extent.name}: {sample}{extent.documents:,} documents"


def _write(folder: Path, bodies: Mapping[str, Body], contents: Contents) -> None:
    texts = {name: body_text(body.content) for name, body in bodies.items()}
    texts |= {"README.md": readme_text(contents), "track.json": track_text(contents)}
    for name, text in texts.items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def result_lines(folder: Path, contents: Contents) -> list[str]:
    """Return the lines to print at the end: what was created, what was left out, and how to race it."""
    kind = "data stream" if contents.are_data_streams else "index"
    many = {"index": "indices", "data stream": "data streams"}[kind]
    count = len(contents.parts)
    packed = sum(file.compressed_bytes for file in contents.files)
    return [
        f"{folder}: {count} {kind if count == 1 else many}, {contents.documents:,} documents,"
        f" {format_bytes(contents.uncompressed_bytes)} ({format_bytes(packed)} packed)",
        *(f"left behind: {note}" for note in contents.notes),
        f"race it: esbench race --track-path={folder}",
    ]
