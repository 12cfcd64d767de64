"""Counted durations as Prometheus' two kinds of histograms: cumulative `le` buckets, and native (exponential) ones.

Pure. Knows neither metric names nor scrapers.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate

from esbench.errors import UsageError
from esbench.measure.histogram import HIGHEST_NS, LOWEST_NS, index_of, lowest_equivalent_ns
from esbench.units import parse_duration

NS = 1_000_000_000
# In milliseconds. The first are those of a published benchmark at fixed rates; lags of a driver are far smaller.
DEFAULT_BOUNDS = "1,2,3,4,5,10,30,50,70,100,200,300,500,1000"
LAG_BOUNDS = "50us,100us,200us,500us,1,2,5,10,50,100,1000"
# Native buckets end at powers of 2^(2^-5): each is 2.2 % wide, and 13 octaves (0.1 ms to 0.8 s) are 416 of them.
NATIVE_SCHEMA = 5
_PER_OCTAVE = 1 << NATIVE_SCHEMA
_MOST_BOUNDS = 100


class Bounds:
    """Upper bounds of `le` buckets in ns, ascending, and their labels in seconds with "+Inf" as the last one."""

    def __init__(self, bounds_ns: Sequence[int]) -> None:
        self.bounds_ns = tuple(bounds_ns)
        self.labels = (*(repr(ns / NS) for ns in bounds_ns), "+Inf")
        self._limits = [index_of(ns + 1) for ns in bounds_ns]

    def cumulative(self, buckets: Mapping[int, int]) -> list[int]:
        """Return how many durations of `Counts.buckets` lie at or under each bound, and the total.

        A bucket (0.5 us or 0.1 % wide) that contains a bound is counted above that bound: counts are never overstated.
        """
        counts = [0] * len(self.labels)
        for index, count in buckets.items():
            counts[bisect_right(self._limits, index)] += count
        return list(accumulate(counts))


def parse_bounds(text: str, where: str) -> Bounds:
    """Parse bounds from `1,2,5,10`: milliseconds, or with a unit (`500us,1s`). UsageError for anything else."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    durations_s = [parse_duration(f"{part}ms" if part[-1].isdigit() else part, where) for part in parts]
    bounds_ns = sorted({round(duration_s * NS) for duration_s in durations_s})
    if not bounds_ns:
        raise UsageError("there are no bounds", where=where, hint="say 1,5,10,50,100 (milliseconds)")
    if bounds_ns[0] < LOWEST_NS or bounds_ns[-1] >= HIGHEST_NS:
        raise UsageError(f'"{text}" goes beyond what is measured: 1 us to 24 hours', where=where)
    if len(bounds_ns) > _MOST_BOUNDS:
        raise UsageError(f"{len(bounds_ns)} bounds are more than {_MOST_BOUNDS}", where=where)
    return Bounds(bounds_ns)


@dataclass(frozen=True)
class Native:
    """A native histogram's positive buckets.

    `spans`: (offset, length) of each run of buckets; `deltas`: the count of each bucket less that of the one before it.
    Bucket i reaches from 2^((i - 1) 2^-schema) to 2^(i 2^-schema) seconds.
    """

    spans: tuple[tuple[int, int], ...]
    deltas: tuple[int, ...]


def native(buckets: Mapping[int, int]) -> Native:
    """Convert `Counts.buckets` to exponential buckets; each bucket is placed by the middle of its range."""
    counts: dict[int, int] = {}
    for index, count in buckets.items():
        place = _place(index)
        counts[place] = counts.get(place, 0) + count
    spans: list[tuple[int, int]] = []
    deltas: list[int] = []
    end = before = 0
    for place, count in sorted(counts.items()):
        if spans and place == end:
            spans[-1] = (spans[-1][0], spans[-1][1] + 1)
        else:
            spans.append((place - end, 1))
        deltas.append(count - before)
        end, before = place + 1, count
    return Native(tuple(spans), tuple(deltas))


@cache
def _place(index: int) -> int:
    """Return the exponential bucket that holds the middle of a bucket of `Counts`."""
    middle_s = (lowest_equivalent_ns(index) + lowest_equivalent_ns(index + 1)) / 2 / NS
    return math.ceil(math.log2(middle_s) * _PER_OCTAVE)
