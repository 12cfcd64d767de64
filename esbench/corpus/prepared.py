"""Prepared document files: action line and document in turn, with the offsets of every 64th document.

Workers import this: no numpy, and nothing here writes.
"""

from __future__ import annotations

import json
import math
import mmap
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Any

from esbench.errors import TrackError, did_you_mean

GROUP = 64  # documents between two entries of the offset index
_SAMPLED_GROUPS = 16


@dataclass(frozen=True)
class Streamed:
    """A source file that is unpacked while its documents are sent, with its size and modification time."""

    path: Path
    size_bytes: int
    mtime_ns: int
    uncompressed_bytes: int | None = None


@dataclass(frozen=True)
class PreparedDocuments:
    """A document file that is ready to be sent, as described to workers.

    path holds `document_count` times an action line and a document, each ended by a line feed. digest: sha256 (hex) of
    the source file or of the generator's spec. has_own_actions: the action lines came with the source file. synthetic:
    made from the mapping, in place of a document file. streamed: there is no file at `path`; its offsets exist, and
    `size_bytes` is not 0, if an earlier race has read it.
    """

    corpus: str
    path: Path
    document_count: int
    size_bytes: int
    digest: str
    action: str = "index"  # or "create", for data streams
    generate: Mapping[str, Any] | None = None
    target_index: str | None = None
    target_data_stream: str | None = None
    target_type: str | None = None
    has_own_actions: bool = False
    streamed: Streamed | None = None
    synthetic: bool = False
    further: tuple[PreparedDocuments, ...] = ()  # the corpus' other files, where single documents are drawn of all

    @property
    def offsets_path(self) -> Path:
        """The offset index: one u64 of the machine's byte order for each GROUP documents, and the file's length."""
        return self.path.with_suffix(".offsets")

    @property
    def key(self) -> str:
        """The file's name in the ledger of a race: corpus folder, digest and name, the same on every host."""
        return "/".join(self.path.parts[-3:])

    @property
    def files(self) -> tuple[PreparedDocuments, ...]:
        """This file and its `further` ones: all from which single documents are drawn."""
        return (self, *self.further)

    @property
    def count_of_all(self) -> int:
        """The number of documents in `files`."""
        return sum(part.document_count for part in self.files)

    @property
    def id_field(self) -> str | None:
        """The generated field that is the document id; None without one, and for files that are not generated."""
        return None if self.generate is None else self.generate.get("id")

    @property
    def routing_field(self) -> str | None:
        """The generated field that is the routing value; None without one, and for files that are not generated."""
        return None if self.generate is None else self.generate.get("routing")

    def moved(self, place_of: Callable[[Path], Path]) -> PreparedDocuments:
        """Return the same documents on another host, where `place_of` says that their files are."""
        streamed = None if self.streamed is None else replace(self.streamed, path=place_of(self.streamed.path))
        further = tuple(part.moved(place_of) for part in self.further)
        return replace(self, path=place_of(self.path), streamed=streamed, further=further)

    @property
    def file(self) -> Path:
        """The path of the prepared file; raises TrackError if the documents are streamed and there is no such file."""
        if self.streamed is not None:
            raise TrackError(
                f"{self.streamed.path} is not unpacked, and something reads it that is not a bulk",
                where=self.where,
                hint="race with --corpus-cache=unpack",
            )
        return self.path

    @property
    def where(self) -> str:
        """The start of error messages about these documents."""
        return f'corpus "{self.corpus}"'


def documents_of(documents: Sequence[PreparedDocuments], corpus: str | None, where: str) -> PreparedDocuments:
    """Return the documents of a corpus (None: the only one): its first file with the others as `further`.

    Raises TrackError for an unknown corpus, for None unless there is exactly one corpus, and for a corpus with several
    parts of which any is generated.
    """
    known = sorted({part.corpus for part in documents})
    if corpus is None and len(known) != 1:
        raise TrackError('a "corpus" must be named', where=where, hint=did_you_mean("", known))
    name = known[0] if corpus is None else corpus
    found = [part for part in documents if part.corpus == name]
    if not found:
        raise TrackError(f'unknown corpus "{name}"', where=where, hint=did_you_mean(name, known))
    if len(found) > 1 and any(part.generate is not None for part in found):
        raise TrackError(
            f'corpus "{name}" has {len(found)} parts, and single documents can only be made by one generator',
            where=where,
            hint="give each generated part its own corpus",
        )
    return replace(found[0], further=tuple(found[1:]))


class DocumentFile:
    """A prepared file, mapped into memory; it is unmapped when no slice of it is referenced any more.

    Raises TrackError for documents that are streamed.
    """

    def __init__(self, documents: PreparedDocuments) -> None:
        self.document_count = documents.document_count
        self.map = _map(documents.file)
        self.view = memoryview(self.map)
        self._offsets = memoryview(_map(documents.offsets_path)).cast("Q")

    def offset(self, document: int) -> int:
        """Return the offset in bytes of a document's action line; for document_count, the file's length.

        Raises ValueError unless 0 <= document <= document_count.
        """
        if not 0 <= document <= self.document_count:
            raise ValueError(f"document {document} of {self.document_count}")
        group, within = divmod(document, GROUP)
        start = self._offsets[group]
        if not within:
            return start
        lines = self._group_bytes(group)
        behind = min(GROUP, self.document_count - group * GROUP) - within
        if within <= behind:
            return start + len(lines) - len(lines.split(b"\n", 2 * within)[-1])
        return start + len(lines[:-1].rsplit(b"\n", 2 * behind)[0]) + 1

    def group(self, number: int) -> list[bytes]:
        """Return the lines of group `number` (from 0), action line and document in turn, without line ends."""
        return self._group_bytes(number).split(b"\n")[:-1]

    def _group_bytes(self, number: int) -> bytes:
        last = min(number + 1, len(self._offsets) - 1)
        return self.map[self._offsets[number] : self._offsets[last]]


class FileDocuments:
    """The documents of all files of a corpus, by their number across these files.

    Raises TrackError for documents that are streamed.
    """

    def __init__(self, documents: PreparedDocuments) -> None:
        self._files = [DocumentFile(part) for part in documents.files]
        self._ends = list(accumulate(file.document_count for file in self._files))
        self._group = (-1, -1)
        self._lines: list[bytes] = []

    def __len__(self) -> int:
        return self._ends[-1]

    def document(self, number: int) -> tuple[Any, Any, bytes]:
        """Return (id, routing value, JSON) of a document; None for an id or a routing value that it does not have.

        Numbers are 0 to len - 1: IndexError beyond. Documents of the same GROUP are fastest one after another.
        """
        place = bisect_right(self._ends, number)
        file = self._files[place]
        group, within = divmod(number - (self._ends[place] - file.document_count), GROUP)
        if (place, group) != self._group:
            self._group, self._lines = (place, group), file.group(group)
        action, body = self._lines[2 * within : 2 * within + 2]
        if len(action) <= len(b'{"create":{}}'):
            return None, None, body
        (keys,) = json.loads(action).values()
        return keys.get("_id"), keys.get("routing", keys.get("_routing")), body


def size_of_first(documents: PreparedDocuments, count: int) -> float:
    """Return the bytes of the first `count` documents with their action lines.

    For a streamed file an estimate from the offset index of an earlier race: within a GROUP each document counts as the
    group's mean.
    """
    if documents.streamed is None:
        return DocumentFile(documents).offset(count)
    offsets = memoryview(_map(documents.offsets_path)).cast("Q")
    group, within = divmod(count, GROUP)
    if not within:
        return offsets[group]
    in_group = min(GROUP, documents.document_count - group * GROUP)
    return offsets[group] + (offsets[group + 1] - offsets[group]) * within / in_group


def mean_document_bytes(documents: PreparedDocuments) -> float:
    """Return the mean size of a document's JSON in bytes, from up to 1,024 documents spread over each file.

    Raises TrackError for documents that are streamed.
    """
    sizes = [_mean_bytes(part) * part.document_count for part in documents.files]
    return sum(sizes) / documents.count_of_all


def _mean_bytes(documents: PreparedDocuments) -> float:
    file = DocumentFile(documents)
    groups = math.ceil(documents.document_count / GROUP)
    sampled = sorted({groups * part // _SAMPLED_GROUPS for part in range(_SAMPLED_GROUPS)})
    sizes = [len(line) for number in sampled for line in file.group(number)[1::2]]
    return sum(sizes) / len(sizes)


def _map(path: Path) -> mmap.mmap:
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
