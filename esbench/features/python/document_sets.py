"""Document files for a track's own code: unpacked, one document per line, without action lines.

Track processors that make corpora from other ones read them before the race. They are the files prepared for bulks:
found, downloaded, checked, cut short in test mode or generated as any other document file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esbench.corpus.cache import write_errors
from esbench.corpus.download import download
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.features.python.view import DocumentsView, TrackView, plain_file
from esbench.model import Corpus, Track


@dataclass(frozen=True)
class DocumentSets:
    """The document files of a track and of its view.

    `prepare` prepares the files of a corpus; those that were placed are appended to `read`.
    """

    track: Track
    view: TrackView
    prepare: Callable[[Corpus], tuple[PreparedDocuments, ...]]
    read: list[PreparedDocuments]

    def place(self, documents: DocumentsView, folder: Path) -> None:
        """Prepare a document file, link to it below `folder`, and set its document count in `documents`.

        The link has the relative path `document_file`; an existing file is kept unless it is a link. Raises
        CorpusError if the file cannot be obtained or placed.
        """
        corpus = self._corpus_of(documents)
        (prepared,) = self.prepare(corpus)
        self.read.append(prepared)
        if documents.document_file is None:
            documents.document_file = f"{corpus.name}.json"
        target = folder / documents.document_file
        with write_errors(target, prepared.where):
            if target.is_symlink() or not target.exists():  # a file that is no link was not put there by a race
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                target.symlink_to(plain_file(prepared))
        documents.number_of_documents = prepared.document_count

    def download(self, base_url: str, target_path: str, size_in_bytes: int | None = None) -> None:
        """Download a file beside document files: `base_url`/NAME to `target_path`, .../NAME, unless that exists.

        `size_in_bytes`: the size that it must have. Raises CorpusError.
        """
        target = Path(target_path)
        download(f"{base_url.rstrip('/')}/{target.name}", target, where="", size_bytes=size_in_bytes)

    def _corpus_of(self, documents: DocumentsView) -> Corpus:
        """Return the corpus of a document file, with this file only; raises TrackError if the track lacks it."""
        for corpus, seen in zip(self.track.corpora, self.view.corpora, strict=True):
            for part, seen_part in zip(corpus.documents, seen.documents, strict=True):
                if seen_part is documents:
                    return Corpus(corpus.name, (part,), corpus.meta)
        raise TrackError(
            "DocumentSetPreparator was given documents that are not the track's",
            hint="give it those of track.corpora",
        )
