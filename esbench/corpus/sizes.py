"""The size of documents before they are prepared: whether they can be generated, and whether the disk has room."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from esbench.corpus.cache import is_complete, read_metadata
from esbench.corpus.download import Unobtainable
from esbench.corpus.locate import Supply, source_name
from esbench.corpus.origin import Origin
from esbench.corpus.preparation import (
    Streaming,
    corpus_folder,
    generated_path,
    source_path,
    unpacked_bytes,
)
from esbench.corpus.spec import plain_spec
from esbench.errors import FREE_SPACE, CorpusError, TrackError
from esbench.model import Corpus, Documents
from esbench.tables import GENERATED, load
from esbench.units import format_bytes

_SAMPLE = 128  # generated documents, of the first and of the last ones
_PACKED = (".bz2", ".gz", ".zip", ".zst", ".tgz")


@dataclass(frozen=True)
class DiskNeed:
    """The bytes that the documents of a corpus will take on the disk of the cache, as far as the track states them."""

    corpus: str
    documents: int
    size_bytes: int


def check_sizes(
    corpora: Iterable[Corpus], *, cache: Path, track_dir: Path, origin: Origin, streaming: Streaming
) -> tuple[DiskNeed, ...]:
    """Return what preparing the corpora will take: nothing for what is prepared already.

    Nothing is written or downloaded. Raises TrackError if more documents are asked for than can be generated,
    CorpusError if the disk has no room for all of them.
    """
    needs = [_need(corpus, cache, track_dir, origin, streaming) for corpus in corpora]
    needs = [need for need in needs if need.size_bytes]
    folder = next(path for path in (cache, *cache.parents) if path.is_dir())
    total, free = sum(need.size_bytes for need in needs), shutil.disk_usage(folder).free
    if total > free:
        raise CorpusError(
            f"the documents need about {format_bytes(total)} of disk, and {folder} has {format_bytes(free)}",
            where=", ".join(f'corpus "{need.corpus}" ({need.documents:,} documents)' for need in needs),
            hint=f"ask for fewer documents, or {FREE_SPACE}",
        )
    return tuple(needs)


def _need(corpus: Corpus, cache: Path, track_dir: Path, origin: Origin, streaming: Streaming) -> DiskNeed:
    where, folder, size_bytes = f'corpus "{corpus.name}"', corpus_folder(cache, corpus.name), 0
    for part in corpus.documents:
        if part.generate is not None:
            size_bytes += _generated_bytes(part, folder, where)
        else:
            supply = Supply(track_dir, folder, replace(origin, offline=True), where)
            size_bytes += _file_bytes(corpus.name, part, supply, folder, streaming, origin)
    return DiskNeed(corpus.name, sum(part.document_count or 0 for part in corpus.documents), size_bytes)


def _generated_bytes(part: Documents, folder: Path, where: str) -> int:
    """Return the bytes of documents that are generated, by a sample of them; 0 if they are in the cache."""
    assert part.generate is not None
    count = part.document_count or 0
    path = generated_path(part, folder)
    metadata = read_metadata(path)
    if metadata is not None and is_complete(path, metadata):
        return 0
    generator = load(GENERATED["generator"])(plain_spec(part.generate), where)
    if generator.size is not None and count > generator.size:
        what = f"{count:,} documents are asked for, and only {generator.size:,} different ones can be generated"
        raise TrackError(what, where=where, hint="ask for fewer; a permuted field may have a longer pattern")
    sampled = min(count, _SAMPLE)
    firsts = {0, max(0, min(count, generator.size or 1 << 53) - sampled)}
    samples = [len(data) for first in firsts for data in generator.bulk_groups(first, sampled, _SAMPLE)]
    return count * sum(samples) // max(1, sampled * len(samples))


def _file_bytes(
    corpus: str, part: Documents, supply: Supply, folder: Path, streaming: Streaming, origin: Origin
) -> int:
    """Return the bytes that a document file will take, downloaded and unpacked: of those that the track states."""
    if part.sample is not None:
        return 0  # the beginning of a file, whose size is not known
    downloaded = 0
    try:
        source = supply.obtain(part)
    except Unobtainable:
        if part.stand_in is not None and origin.offline:
            return _generated_bytes(replace(part, generate=part.stand_in), folder, f'corpus "{corpus}"')
        name = source_name(part)
        stated = part.compressed_bytes if name.endswith(_PACKED) else part.uncompressed_bytes
        partial = folder / f"{name}.partial"
        downloaded = max(0, (stated or 0) - (partial.stat().st_size if partial.is_file() else 0))
        metadata = None
    else:
        path = source_path(part, source, folder)
        metadata = read_metadata(path)
        if metadata is not None and is_complete(path, metadata):
            return 0
    may_be_streamed = streaming.mode != "unpack" and not streaming.obstacle(corpus, part, known=metadata is not None)
    return downloaded + (0 if may_be_streamed else unpacked_bytes(part))
