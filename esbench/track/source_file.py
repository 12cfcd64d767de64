"""Document files that a track brings along or that were downloaded: unpacked, counted, given action lines."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from esbench.errors import CorpusError
from esbench.model import Documents
from esbench.track.archives import Damaged, open_documents
from esbench.track.prepared import GROUP
from esbench.track.supply import SourceFile


@dataclass(frozen=True)
class Written:
    """How many documents were written, and the offsets of each GROUP of them and the length."""

    documents: int
    offsets: array[int]


def sha256_of(path: Path, where: str) -> str:
    """sha256 (hex) of a file's bytes; raises CorpusError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CorpusError(f"cannot read {path}: {error.strerror}", where=where) from error


def write_with_actions(
    out: BinaryIO,
    source: SourceFile,
    part: Documents,
    *,
    action: str,
    where: str,
    progress: Callable[[int], None],
) -> Written:
    """Write the documents of a file, each after its action line.

    `progress` is told how many documents are written. Raises CorpusError as `pieces_with_actions`.
    """
    count, offsets = 0, array("Q", [0])
    for text, count in pieces_with_actions(source, part, action=action, where=where):
        out.write(text)
        offsets.append(offsets[-1] + len(text))
        progress(count)
    return Written(count, offsets)


def pieces_with_actions(
    source: SourceFile, part: Documents, *, action: str, where: str, cut: int = GROUP
) -> Iterator[tuple[bytes, int]]:
    """The documents of a file, each after its action line: (those of a piece, documents up to its end).

    A piece ends at each GROUP of documents and after each `cut` of them. Raises CorpusError where counts or sizes
    are not what the track says, for blank lines, and for a damaged archive, at the end or where it is found.
    """
    line = b'{"%b":{}}\n' % action.encode()
    lines_each = 2 if part.includes_action_and_meta_data else 1
    lines_read = size = 0
    wanted = None if source.first is None else source.first * lines_each
    try:
        with open_documents(source.path, where) as file:
            unread = file if wanted is None else islice(file, wanted)
            while lines := list(islice(unread, lines_each * _to_next_end(lines_read // lines_each, cut))):
                if not lines[-1].endswith(b"\n"):
                    lines[-1] += b"\n"
                if b"\n" in lines or b"\r\n" in lines:
                    raise CorpusError(
                        f"a blank line between line {lines_read + 1} and {lines_read + len(lines)} of {source.path}",
                        where=where,
                    )
                size += sum(map(len, lines))
                lines_read += len(lines)
                text = b"".join(lines) if lines_each == 2 else line + line.join(lines)
                yield text, lines_read // lines_each
    except Damaged as error:
        place = f", beyond its line {lines_read:,} (byte {size:,}, unpacked)"
        raise Damaged(error.what + place, where=where, hint=error.hint) from error
    count, rest = divmod(lines_read, lines_each)
    if rest:
        raise CorpusError(f"{source.path} ends with an action line that has no document", where=where)
    check_count(source, part, count, where)
    if source.first is None and part.uncompressed_bytes not in {None, size}:
        raise CorpusError(
            f"{source.path} has {size:,} bytes unpacked, not {part.uncompressed_bytes:,}",
            where=where,
            hint='correct "uncompressed-bytes", or get the file anew',
        )


def _to_next_end(done: int, cut: int) -> int:
    """How many documents a piece has that begins after `done` of them."""
    return min(GROUP - done % GROUP, cut - done % cut)


def check_count(source: SourceFile, part: Documents, count: int, where: str) -> None:
    """Raise CorpusError where a file has no documents, or not as many as the track says; a sample may have fewer."""
    if source.first is None and part.document_count not in {None, count}:
        raise CorpusError(
            f"{source.path} holds {count:,} documents, not {part.document_count:,}",
            where=where,
            hint='correct "document-count", or get the file anew',
        )
    if not count:
        raise CorpusError(f"{source.path} holds no documents", where=where, hint="get the file anew")
