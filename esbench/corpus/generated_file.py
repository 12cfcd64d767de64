"""Writing of the document file of a generated corpus: child processes make blocks, the parent writes them in order."""

from __future__ import annotations

import os
import subprocess
from array import array
from collections.abc import Callable, Mapping
from typing import IO, Any, BinaryIO

from esbench.corpus.child_process import child_failure, end_child, start_child
from esbench.corpus.generate.spec import plain_spec
from esbench.corpus.prepared import GROUP
from esbench.errors import TrackError

BLOCK = 32 * GROUP  # documents that a child makes at once
_WORTH_A_PROCESS = 50_000  # documents; starting one takes 0.2 s


def start_generator(job: Mapping[str, Any], spec: Mapping[str, Any], where: str) -> subprocess.Popen[bytes]:
    """Start a child that writes generated documents to its standard output (see generate/__main__)."""
    return start_child("esbench.corpus.generate", {**job, "spec": plain_spec(spec), "where": where})


def write_generated(
    out: BinaryIO,
    spec: Mapping[str, Any],
    document_count: int,
    *,
    action: str,
    where: str,
    progress: Callable[[int], None],
) -> array[int]:
    """Write all documents with their action lines; returns the offset of each GROUP of documents and the file's length.

    `progress` is called with the number of documents written so far. Raises TrackError for an invalid spec.
    """
    processes = max(1, min(os.cpu_count() or 1, document_count // _WORTH_A_PROCESS))
    job = {"mode": "blocks", "documents": document_count, "block": BLOCK, "group": GROUP, "action": action}
    children = []
    offsets = array("Q", [0])
    try:
        for number in range(processes):
            mine = {**job, "first_block": number, "block_step": processes}
            children.append(start_generator(mine, spec, where))
        for block, first in enumerate(range(0, document_count, BLOCK)):
            child = children[block % processes]
            assert child.stdout is not None
            lengths = array("I", _read(child, child.stdout, 4 * (BLOCK // GROUP), where))
            out.write(_read(child, child.stdout, sum(lengths), where))
            for length in lengths:
                if length:
                    offsets.append(offsets[-1] + length)
            progress(min(first + BLOCK, document_count))
    finally:
        for child in children:
            end_child(child)
    return offsets


def _read(child: subprocess.Popen[bytes], pipe: IO[bytes], count: int, where: str) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise child_failure(child, TrackError, where)
    return data
