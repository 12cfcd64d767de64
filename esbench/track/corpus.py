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
from esbench.track.download import DownloadProgress, no_progress
from esbench.track.generate.spec import plain_spec, spec_digest
from esbench.track.generated_file import write_generated
from esbench.track.prepared import GROUP, PreparedDocuments
from esbench.track.source_file import check_count, sha256_of, write_with_actions
from esbench.track.supply import Origin, SourceFile, Supply, source_name

__all__ = ["Origin", "PreparedDocuments", "Progress", "prepare"]

Progress = Callable[[str, int, int | None], None]  # what is done, documents done, documents in all where known


@dataclass(frozen=True)
class _Metadata:
    """What is known of a prepared file; `source_*` is of the file that it was made from, if any."""

    documents: int
    size_bytes: int
    digest: str
    source_size_bytes: int = 0
    source_mtime_ns: int = 0


def prepare(
    corpora: Iterable[Corpus],
    *,
    cache: Path,
    track_dir: Path,
    origin: Origin = Origin(),  # noqa: B008 - frozen
    progress: Progress = lambda what, done, total: None,
    downloading: DownloadProgress = no_progress,
) -> tuple[PreparedDocuments, ...]:
    """Prepare every document file of the corpora, in their order.

    cache: the folder of prepared corpora; files are looked for beside the track and in the cache's folder of the
    corpus' name, and downloaded to that. Raises CorpusError, or TrackError for a generator that means nothing.
    """

    def prepared(corpus: str, part: Documents) -> PreparedDocuments:
        if part.generate is not None:
            return _prepare_generated(corpus, part, cache, progress)
        folder = corpus_folder(cache, corpus)
        source = Supply(track_dir, folder, origin, _where(corpus), downloading).obtain(part)
        return _prepare_source(corpus, part, source, folder, progress)

    return tuple(prepared(corpus.name, part) for corpus in corpora for part in corpus.documents)


def _prepare_generated(corpus: str, part: Documents, cache: Path, progress: Progress) -> PreparedDocuments:
    assert part.generate is not None
    assert part.document_count is not None
    where, action = _where(corpus), _action(part)
    digest = spec_digest(part.generate)
    path = corpus_folder(cache, corpus) / digest[:16] / f"{part.document_count}-{action}.bulk"
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
    corpus: str, part: Documents, source: SourceFile, folder: Path, progress: Progress
) -> PreparedDocuments:
    where, action, file = _where(corpus), _action(part), source.path
    stat = file.stat()
    is_named = source.first is None and file.name == Path(source_name(part)).name
    if is_named and part.compressed_bytes not in {None, stat.st_size}:
        raise CorpusError(
            f"{file} has {stat.st_size:,} bytes, not {part.compressed_bytes:,}",
            where=where,
            hint='correct "compressed-bytes", or delete the file and get it anew',
        )
    origin = f"{file.resolve()} {action} {part.includes_action_and_meta_data}"
    if source.first is not None:
        origin += f" {source.first}"
    path = folder / hashlib.sha256(origin.encode()).hexdigest()[:16] / f"{file.name}.bulk"
    metadata = _read_metadata(path)
    if metadata is None:
        digest = sha256_of(file, where)
        _check_sum(file, part if is_named else None, digest, where)
        with _writing(path, where) as out:
            written = write_with_actions(
                out,
                source,
                part,
                action=action,
                where=where,
                progress=_of(progress, f"preparing {file.name}", source.first or part.document_count),
            )
        metadata = _Metadata(written.documents, written.offsets[-1], digest, stat.st_size, stat.st_mtime_ns)
        _finish(path, written.offsets, metadata, where)
    elif (metadata.source_size_bytes, metadata.source_mtime_ns) != (stat.st_size, stat.st_mtime_ns):
        digest = sha256_of(file, where)
        if digest != metadata.digest:
            raise CorpusError(
                f"{file} changed since earlier races (sha256 {metadata.digest[:12]} then, {digest[:12]} now)",
                where=where,
                hint=f"put the old file back, or delete {path.parent} to race the new one",
            )
    _check_sum(file, part if is_named else None, metadata.digest, where)
    check_count(source, part, metadata.documents, where)
    return _prepared(corpus, part, path, metadata)


def _check_sum(file: Path, part: Documents | None, digest: str, where: str) -> None:
    if part is not None and part.sha256 is not None and part.sha256.lower() != digest:
        raise CorpusError(
            f"{file} has sha256 {digest}, not {part.sha256}",
            where=where,
            hint='correct "sha256", or delete the file and get it anew',
        )


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
        synthetic=part.synthetic,
        target_index=part.target_index,
        target_data_stream=part.target_data_stream,
        target_type=part.target_type,
        has_own_actions=part.includes_action_and_meta_data,
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


def _of(progress: Progress, what: str, total: int | None) -> Callable[[int], None]:
    return lambda done: progress(what, done, total)


def _action(part: Documents) -> str:
    return "create" if part.target_data_stream else "index"


def _where(corpus: str) -> str:
    return f'corpus "{corpus}"'


def corpus_folder(cache: Path, corpus: str) -> Path:
    """Where the files of a corpus are kept in the cache."""
    return cache / re.sub(r"[^\w.-]", "_", corpus)
