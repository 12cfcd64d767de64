"""Prepared document files without the action lines that esbench wrote: what a track's own code reads, as in Rally.

One is made when somebody asks for it: most tracks with code never do.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from esbench.corpus.prepared import PreparedDocuments

_BUFFER_BYTES = 1 << 20


def plain_file(documents: PreparedDocuments) -> Path:
    """The file with a document a line; the prepared one where its action lines are the track's own.

    Raises TrackError for documents that are unpacked while they are sent: there is no file.
    """
    if documents.has_own_actions:
        return documents.file
    plain = documents.file.with_suffix(".documents")
    if not plain.exists():
        written = plain.with_name(f"{plain.name}.{os.getpid()}")  # other workers may be at it, too
        with documents.file.open("rb") as lines, written.open("wb", _BUFFER_BYTES) as out:
            out.writelines(islice(lines, 1, None, 2))
        written.replace(plain)
    return plain
