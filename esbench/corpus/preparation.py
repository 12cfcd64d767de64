"""Preparation of document files: each is complete, with action lines and offsets, before a clock starts.

Files appear in the cache only when they are complete (cache.py), so two races may prepare the same corpus at once.
A file that only bulks read, from its beginning to its end, may instead be unpacked while it is sent (stream.py).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from esbench.corpus.cache import Metadata, check_reserve, is_complete, read_metadata, write_metadata, writing
from esbench.corpus.child_process import Child
from esbench.corpus.download import DownloadProgress, Unobtainable, no_progress
from esbench.corpus.locate import SourceFile, Supply, source_name
from esbench.corpus.origin import CorpusCache, Origin
from esbench.corpus.prepared import GROUP, PreparedDocuments, Streamed
from esbench.corpus.source_file import check_count, sha256_of, write_with_actions
from esbench.corpus.spec import plain_spec, spec_digest
from esbench.errors import FREE_SPACE, CorpusError, TrackError
from esbench.model import Corpus, Documents
from esbench.record.private import private_folder
from esbench.tables import GENERATING, require
from esbench.units import format_bytes

__all__ = ["CorpusCache", "Origin", "PreparedDocuments", "Progress", "Streaming", "prepare"]

Progress = Callable[[str, int, int | None], None]  # what is done, documents done, documents in all where known

BLOCK = 32 * GROUP  # documents that a generator makes at once
_WORTH_A_PROCESS = 50_000  # documents; starting one takes 0.2 s


@dataclass(frozen=True)
class Streaming:
    """The choice of document files that are unpacked as a stream during the load, not before it.

    mode: "unpack" (none), "stream" (all that can be), "auto" (those that the disk has no room for). `unordered`:
    corpora that are not only read from beginning to end, each with the name of that reader. `sized`: corpora whose
    documents' sizes must be known beforehand, each with the name of what needs them.
    """

    mode: CorpusCache = "auto"
    unordered: Mapping[str, str] = field(default_factory=dict)
    sized: Mapping[str, str] = field(default_factory=dict)

    def obstacle(self, corpus: str, part: Documents, known: bool) -> str:
        """Return the reason why a file of that corpus must be unpacked; "" if it need not be.

        known: an earlier race has read the file.
        """
        if corpus in self.unordered:
            return f"{self.unordered[corpus]} does not read it in order"
        if corpus in self.sized and not known:
            return f"{self.sized[corpus]} needs the sizes of its documents"
        return "" if known or part.document_count is not None else 'it has no "document-count"'


def prepare(
    corpora: Iterable[Corpus],
    *,
    cache: Path,
    track_dir: Path,
    origin: Origin = Origin(),  # noqa: B008 - frozen
    streaming: Streaming = Streaming("unpack"),
    progress: Progress = lambda what, done, total: None,
    downloading: DownloadProgress = no_progress,
) -> tuple[PreparedDocuments, ...]:
    """Prepare every document file of the corpora, in their order.

    cache: the folder of prepared corpora; files are searched beside the track and in the cache's folder of the corpus,
    and downloaded to the latter. A missing file with a stand-in is generated. progress: called with what is done,
    documents done and documents in all (None: unknown). Raises CorpusError, or TrackError for an invalid generator
    spec.
    """

    def prepared(corpus: str, part: Documents) -> PreparedDocuments:
        if part.generate is not None:
            return _prepare_generated(corpus, part, cache, progress)
        folder = corpus_folder(cache, corpus)
        try:
            source = Supply(track_dir, folder, origin, _where(corpus), downloading).obtain(part)
        except Unobtainable as error:
            if part.stand_in is None:
                raise
            generated = replace(part, generate=part.stand_in, synthetic=True)
            progress(f"{error.what}: esbench uses generated documents instead", 0, part.document_count)
            return _prepare_generated(corpus, generated, cache, progress)
        return _prepare_source(corpus, part, source, folder, streaming, progress)

    return tuple(prepared(corpus.name, part) for corpus in corpora for part in corpus.documents)


def made_again(documents: PreparedDocuments, cache: Path) -> None:
    """Generate documents that another host has generated, unless they are in the cache.

    Raises a CorpusError or TrackError if they cannot be.
    """
    data_stream = documents.target_data_stream
    part = Documents(documents.document_count, generate=documents.generate, target_data_stream=data_stream)
    _prepare_generated(documents.corpus, part, cache, lambda what, done, total: None)


def _prepare_generated(corpus: str, part: Documents, cache: Path, progress: Progress) -> PreparedDocuments:
    assert part.generate is not None
    assert part.document_count is not None
    where, action, count = _where(corpus), _action(part), part.document_count
    digest = spec_digest(part.generate)
    path = generated_path(part, corpus_folder(cache, corpus))
    metadata = read_metadata(path)
    if metadata is None or not is_complete(path, metadata):
        with writing(path, where) as out:
            offsets = _write_generated(
                out,
                plain_spec(part.generate),
                count,
                action=action,
                where=where,
                progress=lambda done: progress(f"generating {corpus}", done, count),
            )
        metadata = Metadata(count, offsets[-1], digest)
        write_metadata(path, offsets, metadata, where)
    return _prepared(corpus, part, path, metadata)


def generated_path(part: Documents, folder: Path) -> Path:
    """Return where documents that are generated are kept, in the folder of their corpus."""
    assert part.generate is not None
    return folder / spec_digest(part.generate)[:16] / f"{part.document_count}-{_action(part)}.bulk"


def source_path(part: Documents, source: SourceFile, folder: Path) -> Path:
    """Return where the prepared documents of a file are kept, in the folder of their corpus."""
    origin = f"{source.path.resolve()} {_action(part)} {part.includes_action_and_meta_data}"
    if source.first is not None:
        origin += f" {source.first}"
    return folder / hashlib.sha256(origin.encode()).hexdigest()[:16] / f"{source.path.name}.bulk"


def _write_generated(
    out: BinaryIO,
    spec: Mapping[str, Any],
    document_count: int,
    *,
    action: str,
    where: str,
    progress: Callable[[int], None],
) -> array[int]:
    """Write all documents with their action lines; returns the offset of each GROUP of documents and the file's length.

    `progress` is called with the number of documents written so far. Raises TrackError for an invalid spec.
    """
    require(GENERATING)
    processes = max(1, min(os.cpu_count() or 1, document_count // _WORTH_A_PROCESS))
    job = {"mode": "blocks", "spec": spec, "where": where, "count": document_count, "action": action}
    job |= {"block": BLOCK, "group": GROUP}
    children = []
    offsets = array("Q", [0])
    try:
        for number in range(processes):
            mine = {**job, "first_block": number, "block_step": processes}
            children.append(Child(GENERATING, mine, TrackError, where))
        for block, first in enumerate(range(0, document_count, BLOCK)):
            child = children[block % processes]
            lengths = array("I", _read(child, 4 * (BLOCK // GROUP)))
            out.write(_read(child, sum(lengths)))
            for length in lengths:
                if length:
                    offsets.append(offsets[-1] + length)
            progress(min(first + BLOCK, document_count))
    finally:
        for child in children:
            child.close()
    return offsets


def _read(child: Child, count: int) -> bytes:
    data = child.output.read(count)
    if len(data) < count:
        raise child.failure()
    return data


def _prepare_source(
    corpus: str, part: Documents, source: SourceFile, folder: Path, streaming: Streaming, progress: Progress
) -> PreparedDocuments:
    where, action, file = _where(corpus), _action(part), source.path
    stat = file.stat()
    is_named = source.first is None and file.name == Path(source_name(part)).name
    if is_named and part.compressed_bytes not in {None, stat.st_size}:
        raise CorpusError(
            f"{file} has {stat.st_size:,} bytes, not {part.compressed_bytes:,}",
            where=where,
            hint='correct "compressed-bytes", or delete the file and download it again',
        )
    path = source_path(part, source, folder)
    metadata = read_metadata(path)
    if metadata is None or (metadata.source_size_bytes, metadata.source_mtime_ns) != (stat.st_size, stat.st_mtime_ns):
        digest = sha256_of(file, where)
        if metadata is not None and digest != metadata.digest:
            raise CorpusError(
                f"{file} changed since earlier races (sha256 {metadata.digest[:12]} then, {digest[:12]} now)",
                where=where,
                hint=f"put the old file back, or delete {path.parent} to race the new one",
            )
    else:
        digest = metadata.digest
    if is_named and part.sha256 is not None and part.sha256.lower() != digest:
        raise CorpusError(
            f"{file} has sha256 {digest}, not {part.sha256}",
            where=where,
            hint='correct "sha256", or delete the file and download it again',
        )
    if metadata is not None:
        check_count(source, part, metadata.documents, where)
    if metadata is None or not is_complete(path, metadata):
        is_streamed, why = _is_streamed(corpus, part, source, metadata, folder, streaming)
        if is_streamed:
            known = metadata or Metadata(part.document_count or 0, 0, digest)
            progress(f"reading {file.name} as a stream{why}", 0, known.documents)
            streamed = Streamed(file, stat.st_size, stat.st_mtime_ns, part.uncompressed_bytes)
            return _prepared(corpus, part, path, known, streamed)
        wanted = source.first or part.document_count

        def advance(done: int) -> None:
            if part.uncompressed_bytes is None:
                check_reserve(file.name, path.parent, where)
            progress(f"preparing {file.name}{why}", done, wanted)

        with writing(path, where) as out:
            count, offsets = write_with_actions(
                out,
                source,
                part,
                action=action,
                where=where,
                progress=advance,
            )
        metadata = Metadata(count, offsets[-1], digest, stat.st_size, stat.st_mtime_ns)
        write_metadata(path, offsets, metadata, where)
    return _prepared(corpus, part, path, metadata)


def _is_streamed(
    corpus: str, part: Documents, source: SourceFile, metadata: Metadata | None, folder: Path, streaming: Streaming
) -> tuple[bool, str]:
    """Return (whether a file that is not unpacked yet is read as a stream, the reason to show).

    Raises CorpusError if it must be unpacked and the disk has no room for it.
    """
    if source.first is not None:
        return False, ""  # the beginning of a file is unpacked at once
    obstacle = streaming.obstacle(corpus, part, known=metadata is not None)
    if streaming.mode == "stream":
        return not obstacle, f", not as a stream: {obstacle}" if obstacle else ""
    private_folder(folder)
    needed_bytes = unpacked_bytes(part) if metadata is None else metadata.size_bytes
    free_bytes = shutil.disk_usage(folder).free
    if needed_bytes <= free_bytes:
        return False, ""
    room = f"unpacked it has {format_bytes(needed_bytes)}, and {folder} has room for {format_bytes(free_bytes)}"
    if streaming.mode == "auto" and not obstacle:
        return True, f" ({room})"
    otherwise = f"it cannot be read as a stream: {obstacle}" if obstacle else "or race with --corpus-cache=stream"
    raise CorpusError(
        f"{source.path} cannot be unpacked: {room}",
        where=_where(corpus),
        hint=f"{FREE_SPACE}; {otherwise}",
    )


def unpacked_bytes(part: Documents) -> int:
    """Return the bytes that a file takes unpacked, with action lines, from the sizes in the track; 0 if not stated."""
    if part.uncompressed_bytes is None:
        return 0
    action_bytes = 0 if part.includes_action_and_meta_data else len(f'{{"{_action(part)}":{{}}}}\n')
    return part.uncompressed_bytes + action_bytes * (part.document_count or 0)


def _prepared(
    corpus: str, part: Documents, path: Path, metadata: Metadata, streamed: Streamed | None = None
) -> PreparedDocuments:
    return PreparedDocuments(
        corpus=corpus,
        path=path,
        document_count=metadata.documents,
        size_bytes=metadata.size_bytes,
        digest=metadata.digest,
        action=_action(part),
        generate=None if part.generate is None else plain_spec(part.generate),
        synthetic=part.synthetic,
        target_index=part.target_index,
        target_data_stream=part.target_data_stream,
        target_type=part.target_type,
        has_own_actions=part.includes_action_and_meta_data,
        streamed=streamed,
    )


def _action(part: Documents) -> str:
    return "create" if part.target_data_stream else "index"


def _where(corpus: str) -> str:
    return f'corpus "{corpus}"'


def corpus_folder(cache: Path, corpus: str) -> Path:
    """Return the folder of the cache that holds the files of a corpus."""
    return cache / re.sub(r"^\.|[^\w.-]", "_", corpus)
