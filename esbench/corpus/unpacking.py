"""The process that unpacks document files and writes the bulks of some clients to its standard output.

Its job (see `stream.BulkStream`) has `files`, one after the other, `bulk_size`, `clients` and `slots`: of all bulks,
number n is for client slot n modulo `clients`, and those of `slots` are written, each as a HEADER and its lines; after
the last one comes a HEADER of no documents. The process of slot 0 writes the offset index and the metadata of a file to
the cache when it has read it to its end for the first time.
"""

from __future__ import annotations

import struct
import sys
from array import array
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from typing import BinaryIO

from esbench.corpus.cache import Metadata, write_metadata
from esbench.corpus.child_process import serve
from esbench.corpus.locate import SourceFile
from esbench.corpus.prepared import GROUP, PreparedDocuments
from esbench.corpus.source_file import check_count, pieces_with_actions
from esbench.errors import CorpusError
from esbench.model import Documents

HEADER = struct.Struct("=III")  # number of the file, documents, bytes


def bulks(documents: PreparedDocuments, count: int, bulk_size: int, leaves_index: bool) -> Iterator[tuple[bytes, int]]:
    """Yield the bulks of a file that is streamed, (lines, document count), of its first `count` documents.

    Raises CorpusError if the file does not hold the number of documents that it should, or is damaged. leaves_index: a
    file that was read to its end leaves offset index and metadata in the cache, unless they are known.
    """
    streamed, expected, where = documents.streamed, documents.document_count, documents.where
    assert streamed is not None
    is_whole = count == expected
    part = Documents(
        expected,
        uncompressed_bytes=streamed.uncompressed_bytes,
        includes_action_and_meta_data=documents.has_own_actions,
    )
    source = SourceFile(streamed.path, None if is_whole else count)
    offsets = array("Q", [0])
    pieces: list[bytes] = []
    size_bytes = begun = done = 0
    for text, done in pieces_with_actions(source, part, action=documents.action, where=where, cut=bulk_size):
        if done > count:
            raise CorpusError(
                f"{streamed.path} holds more than {expected:,} documents",
                where=where,
                hint='correct "document-count", or download the file again',
            )
        size_bytes += len(text)
        if done % GROUP == 0 or done == count:
            offsets.append(size_bytes)
        pieces.append(text)
        if done % bulk_size == 0 or done == count:
            yield b"".join(pieces), done - begun
            pieces, begun = [], done
    if done < count:
        check_count(SourceFile(streamed.path), part, done, where)
    if is_whole and leaves_index and not documents.size_bytes:
        metadata = Metadata(count, size_bytes, documents.digest, streamed.size_bytes, streamed.mtime_ns)
        with suppress(CorpusError):  # if the disk is full, a later race determines them again
            write_metadata(documents.path, offsets, metadata, where)


def write(
    out: BinaryIO,
    *,
    files: Sequence[tuple[PreparedDocuments, int]],
    bulk_size: int,
    clients: int,
    slots: Collection[int],
) -> None:
    """Write the bulks of the job's slots, each after its HEADER, and the HEADER that ends the stream.

    files: each with the number of its documents to send; slots: those of the `clients` whose bulks are written. Raises
    CorpusError as `bulks`.
    """
    number = 0
    for place, (documents, count) in enumerate(files):
        for lines, documents_in in bulks(documents, count, bulk_size, leaves_index=0 in slots):
            if number % clients in slots:
                out.write(HEADER.pack(place, documents_in, len(lines)))
                out.write(lines)
                out.flush()
            number += 1
    out.write(HEADER.pack(0, 0, 0))


if __name__ == "__main__":
    sys.exit(serve(write))
