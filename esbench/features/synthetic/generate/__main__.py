"""The process that writes generated documents to its standard output, until done or the reader closes the pipe.

Its job (see `write`) has `spec`, `where`, and
- mode "blocks": of the documents 0..count-1, in blocks of `block`, the blocks `first_block`,
  first_block + `block_step` ...: each a frame (see `write_blocks`) of bulk lines with that `action`;
- mode "feed": `first`, `step`: lines of id, tab, routing, tab, JSON of documents first, first + step ...
An invalid spec is reported as `child_process.serve` reports errors.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Mapping
from typing import Any, BinaryIO

from esbench.corpus.child_process import serve
from esbench.features.synthetic.generate.generator import Generator


def write_blocks(
    out: BinaryIO,
    generator: Generator,
    *,
    count: int,
    block: int,
    group: int,
    first_block: int,
    block_step: int,
    action: str,
) -> None:
    """Write blocks, each as a frame: the byte lengths of its groups, then their lines.

    The lengths are block / group numbers (u32), 0 for groups beyond the last document.
    """
    for first in range(first_block * block, count, block_step * block):
        groups = generator.bulk_groups(first, min(block, count - first), group, action)
        lengths = [len(lines) for lines in groups] + [0] * (block // group - len(groups))
        out.write(array("I", lengths).tobytes() + b"".join(groups))


def write_feed(out: BinaryIO, generator: Generator, *, first: int, step: int) -> None:
    """Write the lines of a feed without end; the first block is small, so that the reader can start at once."""
    count = 256
    while True:
        out.write(generator.keyed_lines(first, count, step))
        first += count * step
        count = 4096  # the fastest count: the columns of 4,096 documents fit a CPU cache


def write(out: BinaryIO, *, mode: str, spec: Mapping[str, Any], where: str, **job: Any) -> None:
    """Write the documents of a job: by `write_blocks` in the mode "blocks", else by `write_feed`.

    `job` has the other arguments of that function. Raises TrackError for an invalid spec.
    """
    (write_blocks if mode == "blocks" else write_feed)(out, Generator(spec, where), **job)


if __name__ == "__main__":
    sys.exit(serve(write))
