"""Writing of the documents of indices to packed files, several slices at the same time."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import hashlib
import heapq
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

import zstandard

from esbench.cluster.client import Cluster, ClusterInfo
from esbench.corpus.locate import sample_name
from esbench.errors import ClusterError, CorpusError
from esbench.features.authoring.pages import Extent, Slices, SourceHit, open_slices, spare
from esbench.track.testmode import DOCUMENTS

_NEWS_S = 0.5
_GZIP_LEVEL = 6
_ZSTD_LEVEL = 3  # orders: 230 MB/s on one core; level 9 saves a seventh of the size at 40 MB/s


@dataclass(frozen=True)
class Lines:
    """The form of documents in a file: with action lines (`action` is index or create) if ids or routing are kept."""

    index: str
    action: str = ""
    keeps_ids: bool = False
    keeps_routing: bool = False

    @property
    def have_actions(self) -> bool:
        return self.keeps_ids or self.keeps_routing

    def of(self, hit: SourceHit) -> bytes:
        """Return the lines of a document, each with its line feed: an action line if there are any, and the document.

        Line breaks between its values become spaces; those in strings are escaped anyway. Raises ClusterError for a
        document without `_source`, or with a routing value that is not to be kept.
        """
        document = bytes(hit.source)
        if not document:
            raise ClusterError("the server does not give its _source", where=f"{self.index}, document {hit.id}")
        if b"\n" in document or b"\r" in document:
            document = document.replace(b"\r", b" ").replace(b"\n", b" ")
        if hit.routing is not None and not self.keeps_routing:
            raise ClusterError("documents with a routing value came while they were read", where=self.index)
        if not self.have_actions:
            return document + b"\n"
        meta = {"_index": self.index}
        if self.keeps_ids:
            meta["_id"] = hit.id
        if hit.routing is not None:
            meta["routing"] = hit.routing
        return (
            json.dumps({self.action: meta}, ensure_ascii=False, separators=(",", ":")).encode()
            + b"\n"
            + document
            + b"\n"
        )


@dataclass(frozen=True)
class DocumentsFile:
    """A document file that was written: its name, number of documents, and sizes."""

    name: str
    documents: int
    compressed_bytes: int
    uncompressed_bytes: int


def _create_packed(path: Path) -> IO[bytes]:
    """Create a file that is packed by its suffix (.bz2, .gz, .zst). Packing releases the interpreter's lock."""
    match path.suffix:
        case ".bz2":
            return cast(IO[bytes], bz2.open(path, "wb"))
        case ".gz":
            return cast(IO[bytes], gzip.open(path, "wb", compresslevel=_GZIP_LEVEL))
        case ".zst":
            return cast(IO[bytes], zstandard.open(path, "wb", cctx=zstandard.ZstdCompressor(level=_ZSTD_LEVEL)))
    raise ValueError(f"{path} ends in no known way to pack")


class Writer:
    """Writes documents to a packed file; the first ones also to the file of test mode.

    Safe to use from several threads. Raises CorpusError if it cannot write, ValueError for a file without one of the
    endings .bz2, .gz and .zst.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._first: list[bytes] = []
        self._bytes = 0
        self.documents = 0
        with self._writing():
            self._file = _create_packed(path)

    def add(self, documents: Sequence[bytes]) -> None:
        """Write lines of documents, each with its action line if it has any."""
        with self._lock, self._writing():
            self.documents += len(documents)
            self._first += documents[: DOCUMENTS - len(self._first)]
            text = b"".join(documents)
            self._bytes += len(text)
            self._file.write(text)

    def close(self) -> None:
        with self._lock, self._writing():
            self._file.close()

    def finish(self) -> DocumentsFile:
        """Write the end of the file, and the file of test mode if that has fewer documents. Returns the file."""
        self.close()
        with self._writing():
            if self.documents > DOCUMENTS:
                with _create_packed(self._path.with_name(sample_name(self._path.name))) as out:
                    out.write(b"".join(self._first))
            return DocumentsFile(self._path.name, self.documents, self._path.stat().st_size, self._bytes)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise CorpusError(f"cannot write {self._path.name}: {error.strerror or error}") from error


@dataclass(frozen=True)
class Extraction:
    """An extent to read, the form of its documents, and the file to write."""

    extent: Extent
    lines: Lines
    path: Path


class _Sample:
    """Chooses `count` of the documents that were found for it, those with the lowest hashes of their ids.

    So their order changes nothing. Only documents near the limit are held in memory.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._certain_below = (count - spare(count)) / (count + spare(count))
        self._held: list[tuple[float, bytes]] = []

    def certain(self, documents: Iterable[tuple[str, bytes]]) -> list[bytes]:
        """Return the lines of those documents, (id, lines), that are chosen whatever else comes; hold the others."""
        ranked = [(_rank(id_), lines) for id_, lines in documents]
        self._held += [each for each in ranked if each[0] >= self._certain_below]
        return [lines for rank, lines in ranked if rank < self._certain_below]

    def rest(self, written: int) -> list[bytes]:
        """Return the lines of the documents that complete the sample; `written`: the number of the certain ones."""
        return [lines for _, lines in heapq.nsmallest(self._count - written, self._held)]


def _rank(id_: str) -> float:
    """Return a number from 0 to 1 that looks random, always the same for an id."""
    return int.from_bytes(hashlib.blake2b(id_.encode(), digest_size=8).digest(), "big") / (1 << 64)


class _Job:
    """A running extraction; `left` is the number of slices that have not been read yet."""

    def __init__(self, extraction: Extraction, open_: Callable[[], Slices]) -> None:
        sample = extraction.extent.sample
        self._sample = None if sample is None else _Sample(sample)
        self._lines = extraction.lines
        self.writer = Writer(extraction.path)
        try:
            self.slices = open_()
        except BaseException:
            self.writer.close()
            raise
        self.left = self.slices.count

    def add(self, page: Sequence[SourceHit]) -> None:
        """Write the documents of a page, of a sample those that are certainly part of it."""
        lines = [self._lines.of(hit) for hit in page]
        if self._sample is not None:
            lines = self._sample.certain(zip([hit.id for hit in page], lines, strict=True))
        self.writer.add(lines)

    def finish(self) -> DocumentsFile:
        self.slices.close()
        if self._sample is not None:
            self.writer.add(self._sample.rest(self.writer.documents))
        return self.writer.finish()

    def give_up(self) -> None:
        self.slices.close()
        with contextlib.suppress(CorpusError):
            self.writer.close()


class Extractor:
    """Reads documents with `readers` threads, `page_size` per request.

    `news` is called, about twice per second, with the number of documents written so far in all files.
    """

    def __init__(
        self, cluster: Cluster, info: ClusterInfo, *, page_size: int, readers: int, news: Callable[[int], None]
    ) -> None:
        self._cluster = cluster
        self._info = info
        self._page_size = page_size
        self._readers = readers
        self._news = news
        self._stopped = threading.Event()
        self._reading: dict[Future[None], _Job] = {}
        self._jobs: list[_Job] = []
        self._files: list[DocumentsFile] = []

    def run(self, extractions: Iterable[Extraction]) -> tuple[DocumentsFile, ...]:
        """Write the files and return them in the order in which they were finished.

        An interrupt ends it after the pages that are being read. Raises the first error; files that were begun remain.
        """
        try:
            with ThreadPoolExecutor(self._readers) as pool:
                try:
                    for extraction in extractions:
                        self._begin(extraction, pool)
                    self._collect(0)
                finally:
                    self._stopped.set()
        finally:
            for job in self._jobs:
                job.give_up()
        return tuple(self._files)

    def _begin(self, extraction: Extraction, pool: ThreadPoolExecutor) -> None:
        """Open an extraction, but only when a reader is free: what a server keeps open for it expires after a while."""
        self._collect(self._readers - 1)
        extent, readers = extraction.extent, self._readers
        job = _Job(extraction, lambda: open_slices(self._cluster, self._info, extent, self._page_size, readers))
        self._jobs.append(job)
        for number in range(job.slices.count):
            self._collect(self._readers - 1)
            self._reading[pool.submit(self._read, job, number)] = job

    def _read(self, job: _Job, number: int) -> None:
        with contextlib.closing(job.slices.pages(number)) as pages:
            for page in pages:
                if self._stopped.is_set():
                    return
                job.add(page)

    def _collect(self, most: int) -> None:
        """Wait until at most `most` slices are being read."""
        while len(self._reading) > most:
            done, _ = wait(self._reading, timeout=_NEWS_S, return_when=FIRST_COMPLETED)
            for future in done:
                job = self._reading.pop(future)
                future.result()
                job.left -= 1
                if not job.left:
                    self._jobs.remove(job)
                    self._files.append(job.finish())
            written = sum(file.documents for file in self._files) + sum(job.writer.documents for job in self._jobs)
            self._news(written)
