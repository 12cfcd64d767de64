"""The document files that a challenge needs: listed by the track, generated in their place, or made by its own code."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from esbench.corpus.origin import CorpusCache, Origin
from esbench.corpus.prepared import PreparedDocuments
from esbench.events.progress import Job, Progress
from esbench.model import Challenge, Corpus, Track
from esbench.race.own_code import OwnCode
from esbench.tables import GENERATED, load
from esbench.track.selection import corpora_needed, measured_before, read_out_of_order

if TYPE_CHECKING:  # they are imported for a track that has documents
    from esbench.corpus.preparation import Streaming
    from esbench.corpus.sizes import DiskNeed


@dataclass(frozen=True)
class DocumentFiles:
    """Preparation of document files: their folders, their origin, and how they are made.

    With `synthetic_documents`, that number of generated documents takes the place of each corpus's files.
    """

    home: Path
    origin: Origin
    corpus_cache: CorpusCache
    synthetic_documents: int | None
    test_mode: bool
    progress: Progress

    def prepare(self, track: Track, challenge: Challenge, code: OwnCode | None) -> tuple[PreparedDocuments, ...]:
        """Prepare every document file that the challenge needs; those that processors make come last.

        `code` is the track's own Python code, None if it has none.
        """
        made, root = tuple[Corpus, ...](), self.home / "cache" / "made" / self._kind()
        if code is not None:
            track, made = code.prepare(
                track,
                root,
                lambda corpus: self._ready(self._or_synthetic((corpus,), track, challenge, code, raw=True), track),
                self.progress.say,
            )
        wanted = {corpus.name for corpus in corpora_needed(track, challenge)}
        unordered = read_out_of_order(track, challenge)
        if code is not None and track.corpora:
            read = code.corpora_of_sources(challenge)
            wanted |= read
            unordered |= dict.fromkeys(read, "the track's own code")
        wanted -= {corpus.name for corpus in made}
        corpora = tuple(corpus for corpus in track.corpora if corpus.name in wanted)
        if not (corpora or made):
            return ()
        from esbench.corpus.preparation import Streaming

        streaming = Streaming(self.corpus_cache, unordered, measured_before(track, challenge))
        listed = self._ready(self._or_synthetic(corpora, track, challenge, code), track, streaming)
        return (*listed, *(self._ready(made, track, cache=fresh_cache(made, root)) if made else ()))

    def check_sizes(self, track: Track, challenge: Challenge) -> tuple[DiskNeed, ...]:
        """Return the disk that documents which the track lists will take; those that its own code makes are not known.

        Raises a TrackError or CorpusError if the documents cannot be generated, or have no room.
        """
        wanted = {corpus.name for corpus in corpora_needed(track, challenge)}
        corpora = tuple(corpus for corpus in track.corpora if corpus.name in wanted)
        if not corpora:
            return ()
        from esbench.corpus.preparation import Streaming
        from esbench.corpus.sizes import check_sizes

        unordered = read_out_of_order(track, challenge)
        streaming = Streaming(self.corpus_cache, unordered, measured_before(track, challenge))
        return check_sizes(
            self._or_synthetic(corpora, track, challenge, None),
            cache=self.home / "cache" / "corpora",
            track_dir=track.path.parent,
            origin=self.origin,
            streaming=streaming,
        )

    def _or_synthetic(
        self, corpora: tuple[Corpus, ...], track: Track, challenge: Challenge, code: OwnCode | None, raw: bool = False
    ) -> tuple[Corpus, ...]:
        """Return the corpora, or generated documents in their place."""
        if self.synthetic_documents is None or not corpora:
            return corpora
        requests: list[Mapping[str, Any]] = []
        if code is not None:
            requests = code.requests_of_sources(challenge)
        generated: tuple[Corpus, ...] = load(GENERATED["corpora"])(
            track, challenge, corpora, self.synthetic_documents, requests, raw=raw
        )
        return generated

    def _ready(
        self,
        corpora: tuple[Corpus, ...],
        track: Track,
        streaming: Streaming | None = None,
        cache: Path | None = None,
    ) -> tuple[PreparedDocuments, ...]:
        from esbench.corpus.preparation import Streaming, prepare

        with CorpusJobs(self.progress) as jobs:
            return prepare(
                corpora,
                cache=cache or self.home / "cache" / "corpora",
                track_dir=track.path.parent,
                origin=self.origin,
                streaming=streaming or Streaming("unpack"),
                progress=jobs.reach,
                downloading=jobs.download,
            )

    def _kind(self) -> str:
        """Return the folder name for what processors make; other documents make other data, in another folder."""
        kinds = ["test-mode"] if self.test_mode else []
        if self.synthetic_documents is not None:
            kinds.append(f"synthetic-{self.synthetic_documents}")
        return "-".join(kinds) or "full"


def fresh_cache(made: tuple[Corpus, ...], data_root: Path) -> Path:
    """Return the cache for corpora that processors have made, after removing what was prepared from outdated files."""
    from esbench.corpus.preparation import corpus_folder

    cache = data_root / "prepared"
    for corpus in made:
        folder = corpus_folder(cache, corpus.name)
        written_ns = [Path(part.source_file).stat().st_mtime_ns for part in corpus.documents if part.source_file]
        if folder.exists() and folder.stat().st_mtime_ns < max(written_ns):
            shutil.rmtree(folder)
    return cache


class CorpusJobs:
    """The jobs of preparing document files, one after the other: a job ends when the next one begins."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._open = ExitStack()
        self._job: Job | None = None
        self._what = ""

    def __enter__(self) -> CorpusJobs:
        return self

    def __exit__(self, *exc: object) -> None:
        self._open.close()

    def reach(self, what: str, done: int, total: int | None) -> None:
        """Set the number of documents done of the job `what`; a new `what` ends the job before and begins the next one.

        `total` is None if a file gives it only at its end.
        """
        if self._job is None or self._what != what:
            self._open.close()
            self._what = what
            self._job = self._open.enter_context(self._progress.job(what, total, "documents"))
        self._job.reach(done)

    @contextmanager
    def download(self, name: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """Begin the job of downloading a document file of `total_bytes` (0: unknown); yield its advance function."""
        self._open.close()
        self._job = None
        with self._progress.job(f"downloading {name}", total_bytes, "bytes") as job:
            yield job.advance
