"""The process that unpacks document files and writes the bulks of some clients to its standard output.

Its job (see `stream.BulkStream`) has `files`, one after the other, `bulk_size`, `clients` and `slots`: of all bulks,
number n is for client slot n modulo `clients`, and those of `slots` are written, each as a HEADER and its lines; after
the last one comes a HEADER of no documents. For a file that was read to its end the offset index and the metadata are
written to the cache, if the job asks for it.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO

from esbench.corpus.cache import Metadata, write_metadata
from esbench.corpus.child_process import serve
from esbench.corpus.locate import SourceFile
from esbench.corpus.prepared import GROUP
from esbench.corpus.source_file import check_count, pieces_with_actions
from esbench.errors import CorpusError
from esbench.model import Documents

HEADER = struct.Struct("=III")  # number of the file, documents, bytes


def bulks(file: Mapping[str, Any], bulk_size: int) -> Iterator[tuple[bytes, int]]:
    """Yield the bulks of a file, (lines, document count), of its first `count` documents.

    Raises CorpusError if the file does not hold `document_count` documents, or is damaged. A file that was read to its
    end leaves offset index and metadata in the cache if `file["index"]` is a path.
    """
    path, count, expected = Path(file["path"]), file["count"], file["document_count"]
    is_whole = count == expected
    part = Documents(
        expected,
        uncompressed_bytes=file["uncompressed_bytes"],
        includes_action_and_meta_data=file["has_own_actions"],
    )
    source = SourceFile(path, None if is_whole else count)
    offsets = array("Q", [0])
    pieces: list[bytes] = []
    size_bytes = begun = done = 0
    for text, done in pieces_with_actions(source, part, action=file["action"], where=file["where"], cut=bulk_size):
        if done > count:
            raise CorpusError(
                f"{path} holds more than {expected:,} documents",
                where=file["where"],
                hint='correct "document-count", or get the file anew',
            )
        size_bytes += len(text)
        if done % GROUP == 0 or done == count:
            offsets.append(size_bytes)
        pieces.append(text)
        if done % bulk_size == 0 or done == count:
            yield b"".join(pieces), done - begun
            pieces, begun = [], done
    if done < count:
        check_count(SourceFile(path), part, done, file["where"])
    if is_whole and file["index"] is not None:
        metadata = Metadata(count, size_bytes, file["digest"], file["size_bytes"], file["mtime_ns"])
        with suppress(CorpusError):  # if the disk is full, a later race determines them again
            write_metadata(Path(file["index"]), offsets, metadata, file["where"])


def write(job: dict[str, Any], out: BinaryIO) -> None:
    """Write the bulks of the job's slots, each after its HEADER, and the HEADER that ends the stream."""
    slots, clients, number = frozenset(job["slots"]), job["clients"], 0
    for place, file in enumerate(job["files"]):
        for lines, documents in bulks(file, job["bulk_size"]):
            if number % clients in slots:
                out.write(HEADER.pack(place, documents, len(lines)))
                out.write(lines)
                out.flush()
            number += 1
    out.write(HEADER.pack(0, 0, 0))


if __name__ == "__main__":
    sys.exit(serve(write))
