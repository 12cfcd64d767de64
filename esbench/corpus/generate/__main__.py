"""The process that writes generated documents to its standard output, until done or the reader closes the pipe.

Its job is one JSON object on standard input: `spec`, `where`, and
- mode "blocks": of the documents 0..documents-1, in blocks of `block`, the blocks `first_block`,
  first_block + `block_step` ...: each a frame (see `write_blocks`) of bulk lines with that `action`;
- mode "feed": `first`, `step`: lines of id, tab, routing, tab, JSON of documents first, first + step ...
An invalid spec is reported as `child_process.serve` reports errors.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, BinaryIO

from esbench.corpus.child_process import serve
from esbench.corpus.generate.generator import Generator


def write_blocks(generator: Generator, job: dict[str, Any], out: BinaryIO) -> None:
    """Write the blocks of a job, each as a frame: the byte lengths of its groups, then their lines.

    The lengths are block / group numbers (u32), 0 for groups beyond the last document.
    """
    count, block, group = job["documents"], job["block"], job["group"]
    for first in range(job["first_block"] * block, count, job["block_step"] * block):
        groups = generator.bulk_groups(first, min(block, count - first), group, job["action"])
        lengths = [len(lines) for lines in groups] + [0] * (block // group - len(groups))
        out.write(array("I", lengths).tobytes() + b"".join(groups))


def write_feed(generator: Generator, job: dict[str, Any], out: BinaryIO) -> None:
    """Write the lines of a feed without end; the first block is small, so that the reader can start at once."""
    position, count = job["first"], 256
    while True:
        out.write(generator.keyed_lines(position, count, job["step"]))
        position += count * job["step"]
        count = 4096  # the fastest count: the columns of 4,096 documents fit a CPU cache


def write(job: dict[str, Any], out: BinaryIO) -> None:
    """Write the documents of a job, in its mode."""
    generator = Generator(job["spec"], job["where"])
    {"blocks": write_blocks, "feed": write_feed}[job["mode"]](generator, job, out)


if __name__ == "__main__":
    sys.exit(serve(write))
