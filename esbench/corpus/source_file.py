"""Reading of document files, of a track or downloaded: unpacking, counting, adding action lines."""

from __future__ import annotations

import hashlib
import json
from array import array
from codecs import BOM_UTF8
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

from esbench.corpus.archives import Damaged, open_documents
from esbench.corpus.locate import SourceFile
from esbench.corpus.prepared import GROUP
from esbench.errors import CorpusError
from esbench.errors.json_faults import json_fault
from esbench.errors.short import beginning
from esbench.model import Documents

_ACTIONS = ("index", "create", "update", "delete")
_OF_AN_ACTION = {"_index", "_id", "_type", "routing", "_routing", "pipeline", "op_type", "dynamic_templates"}


def sha256_of(path: Path, where: str) -> str:
    """Return the sha256 (hex) of a file's bytes; raises CorpusError if it cannot be read."""
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
) -> tuple[int, array[int]]:
    """Write the documents of a file, each after its action line.

    Returns the number of documents, and the offsets of each GROUP of documents and of the file's end. `progress` is
    called with the number of documents written so far. Raises CorpusError as `pieces_with_actions`.
    """
    count, offsets = 0, array("Q", [0])
    for text, count in pieces_with_actions(source, part, action=action, where=where):
        out.write(text)
        offsets.append(offsets[-1] + len(text))
        progress(count)
    return count, offsets


def pieces_with_actions(
    source: SourceFile, part: Documents, *, action: str, where: str, cut: int = GROUP
) -> Iterator[tuple[bytes, int]]:
    """Yield the documents of a file in pieces: (their lines, each document after its action line; documents so far).

    Action lines are those of the file if `part` says that it has them, else `{ACTION:{}}`. A piece ends at every
    multiple of GROUP and of `cut` documents. Raises CorpusError for a damaged archive, for lines that are no JSON
    objects, and at the end if counts or sizes differ from those in the track.
    """
    line = b'{"%b":{}}\n' % action.encode()
    lines_each = 2 if part.includes_action_and_meta_data else 1
    lines_read = size = 0
    wanted = None if source.first is None else source.first * lines_each
    stated_bytes = part.uncompressed_bytes if source.first is None else None
    try:
        with open_documents(source.path, where) as file:
            unread = file if wanted is None else islice(file, wanted)
            while lines := list(islice(unread, lines_each * _to_next_end(lines_read // lines_each, cut))):
                if not lines[-1].endswith(b"\n"):
                    lines[-1] += b"\n"
                    size -= 1  # the line feed is not in the file
                if not all(text[:1] == b"{" and text[-2:] == b"}\n" for text in lines):
                    _refuse_what_is_no_object(lines, lines_read, source.path, where)
                if not lines_read:
                    _look_at_first(lines[0], lines_each == 2, source.path, where)
                size += sum(map(len, lines))
                lines_read += len(lines)
                if stated_bytes is not None and size > stated_bytes:  # the rest may have no end
                    raise _of_another_size(source.path, f"more than {stated_bytes:,} bytes unpacked", where)
                text = b"".join(lines) if lines_each == 2 else line + line.join(lines)
                yield text, lines_read // lines_each
    except Damaged as error:
        place = f", beyond its line {lines_read:,} (byte {size:,}, unpacked)"
        raise Damaged(error.what + place, where=where, hint=error.hint) from error
    count, rest = divmod(lines_read, lines_each)
    if rest:
        raise CorpusError(f"{source.path} ends with an action line that has no document", where=where)
    check_count(source, part, count, where)
    if stated_bytes not in {None, size}:
        raise _of_another_size(source.path, f"{size:,} bytes unpacked, not {stated_bytes:,}", where)


def _of_another_size(path: Path, what: str, where: str) -> CorpusError:
    return CorpusError(
        f"{path} has {what}", where=where, hint='correct "uncompressed-bytes", or download the file again'
    )


def _refuse_what_is_no_object(lines: list[bytes], before: int, path: Path, where: str) -> None:
    """Raise CorpusError for the first line that does not begin and end as a JSON object; `before`: earlier lines."""
    for number, line in enumerate(lines, before + 1):
        text = line.strip()
        if text[:1] == b"{" and text[-1:] == b"}":
            continue
        what = f"is not a JSON object: {_shown(text)}" if text else "is blank"
        hint = "a document file has one JSON object a line"
        if number == 1 and text[:1] == b"[":
            hint += ": jq -c '.[]' makes that of an array"
        if number == 1 and text.startswith(BOM_UTF8):
            what, hint = "begins with a byte order mark", "sed '1s/^\\xEF\\xBB\\xBF//' removes it"
        raise CorpusError(f"line {number:,} of {path} {what}", where=where, hint=hint)


def _look_at_first(line: bytes, is_action: bool, path: Path, where: str) -> None:
    """Raise CorpusError if the first line is not JSON, or an action line although the track declares none."""
    try:
        first = json.loads(line)
    except RecursionError:
        raise CorpusError(f"line 1 of {path} has too many levels", where=where) from None
    except ValueError:
        fault = json_fault(line)
        what = f"line 1 of {path} is not JSON: {fault.what} (column {fault.column + 1})"
        raise CorpusError(what, where=where, hint="a document file has one JSON object a line") from None
    name, inner = next(iter(first.items()), ("", None))
    if (
        not is_action
        and len(first) == 1
        and name in _ACTIONS
        and isinstance(inner, dict)
        and set(inner) <= _OF_AN_ACTION
    ):
        raise CorpusError(
            f"line 1 of {path} is an action line: {_shown(line)}",
            where=where,
            hint='say "includes-action-and-meta-data": true',
        )


def _shown(line: bytes) -> str:
    """Return the beginning of a line, at most 60 characters, for messages."""
    return beginning(line.strip().decode("utf-8", "replace"), 60)


def _to_next_end(done: int, cut: int) -> int:
    """Return the number of documents in the piece that begins after `done` documents."""
    return min(GROUP - done % GROUP, cut - done % cut)


def check_count(source: SourceFile, part: Documents, count: int, where: str) -> None:
    """Raise CorpusError if a file has no documents, or not the count that the track states; a sample may have fewer."""
    if source.first is None and part.document_count not in {None, count}:
        raise CorpusError(
            f"{source.path} holds {count:,} documents, not {part.document_count:,}",
            where=where,
            hint='correct "document-count", or download the file again',
        )
    if not count:
        raise CorpusError(f"{source.path} holds no documents", where=where, hint="download the file again")
