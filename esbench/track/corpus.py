"""Makes sure that every document file is there before a clock starts, with action lines and offsets.

A prepared file lies in the cache as `NAME.bulk`, beside `NAME.offsets` and `NAME.json` (its metadata, written
last: without it the file does not count). Each appears under its name only when it is complete, so
two races may prepare the same corpus at once.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import BinaryIO

from esbench.errors import CorpusError
from esbench.model import Corpus, Documents
from esbench.track.generate.spec import plain_spec, spec_digest
from esbench.track.generated_file import write_generated
from esbench.track.prepared import GROUP, PreparedDocuments
from esbench.track.source_file import find_source, sha256_of, write_with_actions

__all__ = ["PreparedDocuments", "Progress", "prepare"]

Progress = Callable[[str, int, int], None]  # what is done, documents done, documents in all


@dataclass(frozen=True)
class _Metadata:
    """What is known of a prepared file; `source_*` is of the file that it was made from, if any."""

    documents: int
    size_bytes: int
    digest: str
    source_size_bytes: int = 0
    source_mtime_ns: int = 0


def prepare(
    corpora: Iterable[Corpus], *, cache: Path, track_dir: Path, progress: Progress = lambda what, done, total: None
) -> tuple[PreparedDocuments, ...]:
    """Prepare every document file of the corpora, in their order.

    cache: the folder of prepared corpora; downloaded files are looked for in its folder of the corpus' name,
    and beside the track. Raises CorpusError, or TrackError for a generator that means nothing.
    """
    return tuple(
        _prepare_generated(corpus.name, part, cache, progress)
        if part.generate is not None
        else _prepare_source(corpus.name, part, cache, track_dir, progress)
        for corpus in corpora
        for part in corpus.documents
    )


def _prepare_generated(corpus: str, part: Documents, cache: Path, progress: Progress) -> PreparedDocuments:
    assert part.generate is not None
    where, action = _where(corpus), _action(part)
    digest = spec_digest(part.generate)
    path = cache / _file_name(corpus) / digest[:16] / f"{part.document_count}-{action}.bulk"
    metadata = _read_metadata(path)
    if metadata is None:
        spec = plain_spec(part.generate)
        with _writing(path, where) as out:
            offsets = write_generated(
                out,
                spec,
                part.document_count,
                action=action,
                where=where,
                progress=_of(progress, f"generating {corpus}", part.document_count),
            )
        metadata = _Metadata(part.document_count, offsets[-1], digest)
        _finish(path, offsets, metadata, where)
    return _prepared(corpus, part, path, metadata)


def _prepare_source(
    corpus: str, part: Documents, cache: Path, track_dir: Path, progress: Progress
) -> PreparedDocuments:
    where, action = _where(corpus), _action(part)
    folder = cache / _file_name(corpus)
    source = find_source(part, [track_dir, folder], where)
    stat = source.stat()
    if source.name == part.source_file and part.compressed_bytes not in {None, stat.st_size}:
        raise CorpusError(
            f"{source} has {stat.st_size:,} bytes, not {part.compressed_bytes:,}",
            where=where,
            hint='correct "compressed-bytes", or get the file anew',
        )
    origin = f"{source.resolve()} {action} {part.includes_action_and_meta_data}"
    path = folder / hashlib.sha256(origin.encode()).hexdigest()[:16] / f"{source.name}.bulk"
    metadata = _read_metadata(path)
    if metadata is None:
        digest = sha256_of(source, where)
        with _writing(path, where) as out:
            offsets = write_with_actions(
                out,
                source,
                part,
                action=action,
                where=where,
                progress=_of(progress, f"preparing {source.name}", part.document_count),
            )
        metadata = _Metadata(part.document_count, offsets[-1], digest, stat.st_size, stat.st_mtime_ns)
        _finish(path, offsets, metadata, where)
    elif (metadata.source_size_bytes, metadata.source_mtime_ns) != (stat.st_size, stat.st_mtime_ns):
        digest = sha256_of(source, where)
        if digest != metadata.digest:
            raise CorpusError(
                f"{source} changed since earlier races (sha256 {metadata.digest[:12]} then, {digest[:12]} now)",
                where=where,
                hint=f"put the old file back, or delete {path.parent} to race the new one",
            )
    if metadata.documents != part.document_count:
        raise CorpusError(
            f"{source} holds {metadata.documents:,} documents, not {part.document_count:,}",
            where=where,
            hint='correct "document-count"',
        )
    return _prepared(corpus, part, path, metadata)


def _prepared(corpus: str, part: Documents, path: Path, metadata: _Metadata) -> PreparedDocuments:
    return PreparedDocuments(
        corpus=corpus,
        path=path,
        offsets_path=path.with_suffix(".offsets"),
        document_count=metadata.documents,
        size_bytes=metadata.size_bytes,
        digest=metadata.digest,
        action=_action(part),
        generate=None if part.generate is None else plain_spec(part.generate),
        target_index=part.target_index,
        target_data_stream=part.target_data_stream,
    )


def _read_metadata(path: Path) -> _Metadata | None:
    """What is known of a prepared file; None where it is not there, or not complete."""
    try:
        metadata = _Metadata(**json.loads(path.with_suffix(".json").read_text()))
        entries = -(-metadata.documents // GROUP) + 1
        sizes = path.stat().st_size, path.with_suffix(".offsets").stat().st_size
    except (OSError, ValueError, TypeError):
        return None
    return metadata if sizes == (metadata.size_bytes, 8 * entries) else None


def _finish(path: Path, offsets: array[int], metadata: _Metadata, where: str) -> None:
    with _writing(path.with_suffix(".offsets"), where) as out:
        offsets.tofile(out)
    with _writing(path.with_suffix(".json"), where) as out:
        out.write(json.dumps(asdict(metadata)).encode())


@contextmanager
def _writing(path: Path, where: str) -> Iterator[BinaryIO]:
    """A file that gets its name when it is complete and vanishes when it is not."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with partial.open("wb") as out:
                yield out
            partial.replace(path)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise CorpusError(
            f"cannot write {path}: {error.strerror or error}",
            where=where,
            hint="free some space, or set ESBENCH_HOME to another disk",
        ) from error


def _of(progress: Progress, what: str, total: int) -> Callable[[int], None]:
    return lambda done: progress(what, done, total)


def _action(part: Documents) -> str:
    return "create" if part.target_data_stream else "index"


def _where(corpus: str) -> str:
    return f'corpus "{corpus}"'


def _file_name(corpus: str) -> str:
    return re.sub(r"[^\w.-]", "_", corpus)
