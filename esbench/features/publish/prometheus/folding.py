"""Counted durations as cumulative `le` buckets of Prometheus.

Pure. Knows neither metric names nor scrapers.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import accumulate

from esbench.errors import UsageError
from esbench.measure.histogram import HIGHEST_NS, LOWEST_NS, index_of
from esbench.units import parse_duration

NS = 1_000_000_000
# In milliseconds. The first are those of a published benchmark at fixed rates; lags of a driver are far smaller.
DEFAULT_BOUNDS = "1,2,3,4,5,10,30,50,70,100,200,300,500,1000"
LAG_BOUNDS = "50us,100us,200us,500us,1,2,5,10,50,100,1000"
_MOST_BOUNDS = 100


class Bounds:
    """Upper bounds of `le` buckets in ns, ascending, and their labels in seconds with "+Inf" as the last one."""

    def __init__(self, bounds_ns: Sequence[int]) -> None:
        self.bounds_ns = tuple(bounds_ns)
        self.labels = (*(repr(ns / NS) for ns in bounds_ns), "+Inf")
        self._limits = [index_of(ns + 1) for ns in bounds_ns]

    def cumulative(self, buckets: Mapping[int, int]) -> list[int]:
        """Return how many durations lie at or under each bound, and the total; `buckets` (index -> count) are a
        `Counts`'s.

        A bucket (0.5 us or 0.1 % wide) that contains a bound is counted above that bound: counts are never overstated.
        """
        counts = [0] * len(self.labels)
        for index, count in buckets.items():
            counts[bisect_right(self._limits, index)] += count
        return list(accumulate(counts))


def parse_bounds(text: str, where: str) -> Bounds:
    """Parse bounds from `1,2,5,10`: milliseconds, or with a unit (`500us,1s`). They are sorted, equal ones become one.

    Raises UsageError, which begins with `where`, for anything else, for no bound or more than a hundred, and beyond 1
    us to 24 hours.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    durations_s = [parse_duration(f"{part}ms" if part[-1].isdigit() else part, where) for part in parts]
    bounds_ns = sorted({round(duration_s * NS) for duration_s in durations_s})
    if not bounds_ns:
        raise UsageError("there are no bounds in the list", where=where, hint="give some, e.g. 1,5,10,50,100, in ms")
    if bounds_ns[0] < LOWEST_NS or bounds_ns[-1] >= HIGHEST_NS:
        raise UsageError(f'"{text}" goes beyond what is measured: 1 us to 24 hours', where=where)
    if len(bounds_ns) > _MOST_BOUNDS:
        raise UsageError(f"{len(bounds_ns)} bounds are more than {_MOST_BOUNDS}", where=where)
    return Bounds(bounds_ns)
