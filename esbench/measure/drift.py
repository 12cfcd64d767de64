"""Detection of drift, a change of a figure during its measurement: a line through ten equal sections of it.

Pure, and without numpy: it runs beside the load. `checks` decides what a change means.
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
    """Return the rise of a least-squares line through ten equal sections, from the first's start to the last's end.

    In the unit of the values; None if the rise may be chance (p >= 0.01). Worked: 0, 1 ... 9 rise by 10.
    Raises ValueError unless there are ten values.
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
    """Return the change as a ratio, from a line through the logarithms: 0.1 is a rise by 10 %.

    None if it may be chance, or if a section is empty or zero.
    """
    logs = [math.log(value) for value in values if value]
    log_change = change(logs) if len(logs) == SECTIONS else None
    return None if log_change is None else math.expm1(log_change)


def section_means(values: Sequence[float]) -> list[float]:
    """Return the mean of each of ten equal sections (to one value) of at least ten consecutive values."""
    return [math.fsum(values[place] for place in places) / len(places) for places in _sections(len(values))]


def _sections(count: int) -> list[range]:
    """Divide the positions 0 to `count` - 1, at least ten, into ten ranges whose lengths differ by one at most."""
    edges = [round(number * count / SECTIONS) for number in range(SECTIONS + 1)]
    return [range(begin, end) for begin, end in itertools.pairwise(edges)]


@dataclass(frozen=True, slots=True)
class _Packed:
    """Counts in compact form: 12 bytes per bucket, where a dict takes about 100."""

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
    """Durations over time, for the median of each of ten sections.

    They are kept in at most 64 blocks of equally many seconds; when all are full, each two become one: memory does not
    grow with the length of a task.
    """

    def __init__(self) -> None:
        self._first: int | None = None
        self._block_s = 1
        self._blocks: list[_Packed] = []  # all but the last one
        self._last = Counts()

    def add(self, second: int, counts: Counts) -> None:
        """Add the durations of one second; seconds come in ascending order, and may be missing."""
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
        """Return the median (ns) of each of ten equal sections (to one block) before second `end`.

        None with fewer than ten complete blocks. A section without durations has None. An incomplete block before `end`
        is left out.
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
