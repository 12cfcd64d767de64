"""Document files where a track's own code reads them: unpacked, a document in each line, no action lines.

Processors that make corpora of others read these before the race. They are what was prepared for bulks: found,
downloaded, checked, cut short in test mode or generated as any other document file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esbench.corpus.download import download
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import CorpusError, TrackError
from esbench.model import Corpus, Track
from esbench.rally_python.plain_documents import plain_file
from esbench.rally_python.view import Documents
from esbench.rally_python.view import Track as View


@dataclass(frozen=True)
class DocumentSets:
    """The document files of a track and of its view; `prepare` makes those of a corpus ready, `read` are these."""

    track: Track
    view: View
    prepare: Callable[[Corpus], tuple[PreparedDocuments, ...]]
    read: list[PreparedDocuments]

    def place(self, documents: Documents, folder: Path) -> None:
        """Link to a document file below `folder`; `documents` then says how many it holds.

        Its name is that of `document_file`, relative; a file that is there already stays. Raises CorpusError where the
        file cannot be had or placed.
        """
        corpus = self._corpus_of(documents)
        (prepared,) = self.prepare(corpus)
        self.read.append(prepared)
        if documents.document_file is None:
            documents.document_file = f"{corpus.name}.json"
        target = folder / documents.document_file
        try:
            if target.is_symlink() or not target.exists():  # a file that is no link was not put there by a race
                target.parent.mkdir(parents=True, exist_ok=True)
                target.unlink(missing_ok=True)
                target.symlink_to(plain_file(prepared))
        except OSError as error:
            raise CorpusError(
                f"cannot write {target}: {error.strerror or error}",
                where=f'corpus "{corpus.name}"',
                hint="free some space, or set ESBENCH_HOME to another disk",
            ) from error
        documents.number_of_documents = prepared.document_count

    def download(self, base_url: str, target_path: str, size_in_bytes: int | None = None) -> None:
        """Fetch a file that lies beside document files, of the target's name at `base_url`, unless it is there."""
        target = Path(target_path)
        download(f"{base_url.rstrip('/')}/{target.name}", target, where="", size_bytes=size_in_bytes)

    def _corpus_of(self, documents: Documents) -> Corpus:
        """The corpus, with this one of its files."""
        for corpus, seen in zip(self.track.corpora, self.view.corpora, strict=True):
            for part, seen_part in zip(corpus.documents, seen.documents, strict=True):
                if seen_part is documents:
                    return Corpus(corpus.name, (part,), corpus.meta)
        raise TrackError(
            "DocumentSetPreparator was given documents that are not the track's",
            hint="give it those of track.corpora",
        )
