"""Whether a figure moved while it was measured: a line through ten equal sections of the measurement.

Pure, and without numpy: it runs beside the load. What a change means is for `checks` to say.
"""

from __future__ import annotations

import itertools
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from esbench.measure.histogram import Counts, percentiles_ns

SECTIONS = 10
_T = 3.355  # Student's t, 8 degrees of freedom, two-sided 1 % (NIST/SEMATECH e-Handbook, 1.3.6.7.2)
_MOST_BLOCKS = 64


def change(values: Sequence[float]) -> float | None:
    """How far a least-squares line through ten equal sections rises from the first one's start to the last one's end.

    In the unit of the values; None where the rise may be chance (p >= 0.01). Worked: 0, 1 ... 9 rise by 10.
    """
    if len(values) != SECTIONS:
        raise ValueError(f"{SECTIONS} sections are needed, not {len(values)}")
    offsets = [(number + 0.5) / SECTIONS - 0.5 for number in range(SECTIONS)]  # from the middle; the whole is 1 long
    mean = math.fsum(values) / SECTIONS
    spread = math.fsum(x * x for x in offsets)
    slope = math.fsum(x * (y - mean) for x, y in zip(offsets, values, strict=True)) / spread
    residual = math.fsum((y - mean - slope * x) ** 2 for x, y in zip(offsets, values, strict=True))
    standard_error = math.sqrt(residual / (SECTIONS - 2) / spread)
    return slope if abs(slope) > _T * standard_error else None


def relative_change(values: Sequence[float | None]) -> float | None:
    """The same as a ratio, of a line through the logarithms: 0.1 is a rise by 10 %. None, too, where a section is
    empty or zero."""
    logs = [math.log(value) for value in values if value]
    log_change = change(logs) if len(logs) == SECTIONS else None
    return None if log_change is None else math.expm1(log_change)


def section_means(values: Sequence[float]) -> list[float]:
    """The mean in each of ten equal sections (to one place) of at least ten values that were taken in turn."""
    return [math.fsum(values[place] for place in places) / len(places) for places in _sections(len(values))]


def _sections(count: int) -> list[range]:
    """`count` places, at least ten, cut into ten ranges that differ by one at most."""
    edges = [round(number * count / SECTIONS) for number in range(SECTIONS + 1)]
    return [range(begin, end) for begin, end in itertools.pairwise(edges)]


@dataclass(frozen=True, slots=True)
class _Packed:
    """Counts at rest: 12 bytes a bucket, where a dict takes about 100."""

    indices: array[int]
    amounts: array[int]
    total_ns: int
    min_ns: int
    max_ns: int
    clamped: int

    @classmethod
    def of(cls, counts: Counts) -> _Packed:
        indices, amounts = array("I", counts.buckets), array("Q", counts.buckets.values())
        return cls(indices, amounts, counts.total_ns, counts.min_ns, counts.max_ns, counts.clamped)

    def add_to(self, counts: Counts) -> None:
        buckets = dict(zip(self.indices, self.amounts, strict=True))
        counts.absorb(buckets, self.total_ns, self.min_ns, self.max_ns, self.clamped)


class Medians:
    """Durations over time, for the median of each section.

    They are kept in at most 64 blocks of equally many seconds, of which each two become one when they are full:
    memory does not grow with the length of a task.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._block_s = 1
        self._blocks: list[_Packed] = []  # all but the last one
        self._last = Counts()

    def add(self, second: int, counts: Counts) -> None:
        """Take a second's durations; seconds come in order, and may be missing."""
        if self._first is None:
            self._first = second
        while (block := (second - self._first) // self._block_s) >= _MOST_BLOCKS:
            self._join()
        while len(self._blocks) < block:
            self._blocks.append(_Packed.of(self._last))
            self._last = Counts()
        self._last.merge(counts)

    def _join(self) -> None:
        blocks = [*self._blocks, _Packed.of(self._last)]
        joined = [_merged(blocks[place : place + 2]) for place in range(0, len(blocks), 2)]
        self._last = joined.pop()
        self._blocks = list(map(_Packed.of, joined))
        self._block_s *= 2

    def of_sections(self, end: int) -> list[float | None] | None:
        """The median (ns) in each of ten equal sections (to one block) before second `end`; None under ten blocks.

        A section without durations has None. What is left of a block before `end` is left out.
        """
        whole = 0 if self._first is None else (end - self._first) // self._block_s
        if whole < SECTIONS:
            return None
        blocks = [*self._blocks, _Packed.of(self._last)][:whole]
        sections = (_merged(blocks[places.start : places.stop]) for places in _sections(whole))
        return [percentiles_ns(section, (50.0,)).get(50.0) for section in sections]


def _merged(blocks: Sequence[_Packed]) -> Counts:
    counts = Counts()
    for block in blocks:
        block.add_to(counts)
    return counts
