"""Whether a figure moved while it was measured: a line through ten equal sections of the measurement.

Pure, and without numpy: it runs beside the load. What a change means is for `checks` to say.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

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


class Medians:
    """Durations over time, for the median of each section.

    They are kept in at most 64 blocks of equally many seconds, of which each two become one when they are full:
    memory does not grow with the length of a task.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._block_s = 1
        self._blocks: list[Counts] = []

    def add(self, second: int, counts: Counts) -> None:
        """Take a second's durations; seconds come in order, and may be missing."""
        if self._first is None:
            self._first = second
        while (block := (second - self._first) // self._block_s) >= _MOST_BLOCKS:
            self._join()
        while len(self._blocks) <= block:
            self._blocks.append(Counts())
        self._blocks[block].merge(counts)

    def _join(self) -> None:
        for left, right in zip(self._blocks[::2], self._blocks[1::2], strict=False):
            left.merge(right)
        del self._blocks[1::2]
        self._block_s *= 2

    def of_sections(self, end: int) -> list[float | None] | None:
        """The median (ns) in each of ten equal sections (to one block) before second `end`; None under ten blocks.

        A section without durations has None. What is left of a block before `end` is left out.
        """
        whole = 0 if self._first is None else (end - self._first) // self._block_s
        if whole < SECTIONS:
            return None
        blocks = self._blocks[:whole] + [Counts()] * (whole - len(self._blocks))
        medians: list[float | None] = []
        for places in _sections(whole):
            counts = Counts()
            for place in places:
                counts.merge(blocks[place])
            medians.append(percentiles_ns(counts, (50.0,)).get(50.0))
        return medians
