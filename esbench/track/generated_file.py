"""Writes the document file of a generated corpus: child processes make blocks, this one puts them in order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from array import array
from collections.abc import Callable, Mapping
from typing import IO, Any, BinaryIO

from esbench.errors import CorpusError, EsbenchError, TrackError
from esbench.track.generate.spec import plain_spec
from esbench.track.prepared import GROUP

BLOCK = 32 * GROUP  # documents that a child makes at once
_WORTH_A_PROCESS = 50_000  # documents; starting one takes 0.2 s


def start_generator(job: Mapping[str, Any], spec: Mapping[str, Any], where: str) -> subprocess.Popen[bytes]:
    """Start a child that writes generated documents to its standard output (see generate/__main__)."""
    child = subprocess.Popen(
        [sys.executable, "-m", "esbench.track.generate"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    try:
        child.stdin.write(json.dumps({**job, "spec": plain_spec(spec), "where": where}).encode())
        child.stdin.close()
    except BrokenPipeError:
        pass  # it ended already: whoever reads its output finds out why
    return child


def end_generator(child: subprocess.Popen[bytes]) -> None:
    """End a child, wherever it is, and close its pipes."""
    child.kill()
    with child:
        pass


def generator_failure(child: subprocess.Popen[bytes], where: str) -> EsbenchError:
    """Why a child ended before its output was complete."""
    assert child.stderr is not None
    text = child.stderr.read().decode(errors="replace").strip()
    status = child.wait()
    try:
        what, place, hint = json.loads(text)
    except ValueError:
        reason = text.splitlines()[-1] if text else f"exit status {status}"
        return CorpusError(f"the generator process ended: {reason}", where=where)
    return TrackError(what, where=place, hint=hint)


def write_generated(
    out: BinaryIO,
    spec: Mapping[str, Any],
    document_count: int,
    *,
    action: str,
    where: str,
    progress: Callable[[int], None],
) -> array[int]:
    """Write all documents with their action lines; gives the offset of each GROUP and the length.

    `progress` is told how many documents are written. Raises TrackError for a spec that means nothing.
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
            end_generator(child)
    return offsets


def _read(child: subprocess.Popen[bytes], pipe: IO[bytes], count: int, where: str) -> bytes:
    data = pipe.read(count)
    if len(data) < count:
        raise generator_failure(child, where)
    return data
