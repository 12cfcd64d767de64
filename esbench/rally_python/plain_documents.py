"""Prepared document files without the action lines that esbench wrote, for a track's own code, as in Rally.

A file is made on first use: most tracks with code need none.
"""

from __future__ import annotations

import os
from itertools import islice
from pathlib import Path

from esbench.corpus.prepared import PreparedDocuments

_BUFFER_BYTES = 1 << 20


def plain_file(documents: PreparedDocuments) -> Path:
    """Return a file with one document per line, made on first use.

    If the action lines came with the track, that is the prepared file itself. Raises TrackError for documents that are
    unpacked while they are sent, for which there is no file.
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
