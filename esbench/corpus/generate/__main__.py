"""The process that writes generated documents to its standard output, until done or its reader is gone.

Its job is one JSON object on standard input: `spec`, `where`, and
- mode "blocks": of the documents 0..documents-1, in blocks of `block`, the blocks `first_block`,
  first_block + `block_step` ...: each a frame (see `write_blocks`) of bulk lines with that `action`;
- mode "feed": `first`, `step`: lines of id, tab, routing, tab, JSON of documents first, first + step ...
A spec that means nothing is told as `child.serve` tells errors.
"""

from __future__ import annotations

import sys
from array import array
from typing import Any, BinaryIO

from esbench.corpus.child_process import serve
from esbench.corpus.generate.generator import Generator


def write_blocks(generator: Generator, job: dict[str, Any], out: BinaryIO) -> None:
    """Frames: the bytes of each `group` of documents (u32 each, block / group of them), then their lines."""
    count, block, group = job["documents"], job["block"], job["group"]
    for first in range(job["first_block"] * block, count, job["block_step"] * block):
        groups = generator.bulk_groups(first, min(block, count - first), group, job["action"])
        lengths = [len(lines) for lines in groups] + [0] * (block // group - len(groups))
        out.write(array("I", lengths).tobytes() + b"".join(groups))


def write_feed(generator: Generator, job: dict[str, Any], out: BinaryIO) -> None:
    """Lines without end; the first block is small, so that the reader can start at once."""
    position, count = job["first"], 256
    while True:
        out.write(generator.keyed_lines(position, count, job["step"]))
        position += count * job["step"]
        count = 4096  # so many are made fastest: their columns fit a cache


def write(job: dict[str, Any], out: BinaryIO) -> None:
    generator = Generator(job["spec"], job["where"])
    {"blocks": write_blocks, "feed": write_feed}[job["mode"]](generator, job, out)


if __name__ == "__main__":
    sys.exit(serve(write))
