"""The throughput of a closed loop in slices. Pure.

All clients begin a slice together and end it with a request in flight. Requests counted in a part of the slice, divided
by its length, are thereby off by up to one for each client. Instead, each completed request counts as if it had been
done evenly over the cycle of a client before it, and that again evenly: in a triangle of two cycles around it. Of these
the part counts that lies in the measured part of the slice, without one cycle at each end (docs/verdicts.md).

What is in flight at the end of a slice is not counted: a server that shares its cores serves it faster, since no
further request follows. Before, no server knows that the slice ends.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from operator import mul

from esbench.measure.histogram import Counts, lowest_equivalent_ns, percentiles_ns
from esbench.measure.slices import NS, SlicedTime

PART_NS = 2_000_000  # the resolution in which times of completion are kept
_PARTS = NS // PART_NS  # of a second
_SHORTEST_S = 0.001  # cycles
_LONGEST = 0.4  # cycles, of the measured part of a slice
_SHARE = 0.05  # of a slice that a window may begin after its begin, and in an open loop end before its end


def whole_slices(window_s: tuple[float, float], length_s: float, *, after_warmup: bool, is_open: bool) -> range:
    """Return the numbers of the slices that lie in a task's window, in own seconds.

    Unless it lies `after_warmup`, it begins with the first slice, though the first request is not measured. The clients
    of a closed loop end each slice with a request in flight, so a window that ends before it lacks some.
    """
    start_s, end_s = window_s
    first = math.ceil(start_s / length_s - _SHARE) if after_warmup else 0
    return range(first, max(first, math.floor(end_s / length_s + (_SHARE if is_open else 1e-6))))


@lru_cache(maxsize=256)
def weights(length_s: float, settle_s: float, cycle_s: float) -> tuple[float, ...]:
    """Return what a request counts that is completed in each part (2 ms) of a slice, in requests/s.

    `settle_s` at the slice's beginning is not measured; `cycle_s`: the time from one request of a client to its next.
    Above 0.4 of the measured part it is taken as that, and rates are wrong.
    """
    measured_s = length_s - settle_s
    cycle_s = min(max(cycle_s, _SHORTEST_S), _LONGEST * measured_s)
    begin_s, end_s = settle_s + cycle_s, length_s - cycle_s
    # The convolution of [begin, end) with two boxes of a cycle each is a sum of parabolas, one from each of these times
    # on: this is its integral.
    parabolas = [(begin_s + shift * cycle_s, sign) for shift, sign in ((-1, 1), (0, -2), (1, 1))]
    parabolas += [(end_s + shift * cycle_s, -sign) for shift, sign in ((-1, 1), (0, -2), (1, 1))]

    def integral(at_s: float) -> float:
        return sum(sign * max(0.0, at_s - from_s) ** 3 for from_s, sign in parabolas) / 6

    parts = round(length_s * _PARTS)
    integrals = [integral(number / _PARTS) for number in range(parts + 1)]
    scale = cycle_s**2 * (end_s - begin_s) / _PARTS
    return tuple((after - before) / scale for before, after in pairwise(integrals))


def cycle_s(service_time: Counts, think_time_s: float) -> float:
    """Return the time from one request of a client to its next, at the median, in s."""
    return percentiles_ns(service_time, (50.0,)).get(50.0, 0.0) / NS + think_time_s


class Completions:
    """The times at which requests of a task were completed in its slices, by own second, and what they did.

    They are kept to 2 ms: 2 KB a second.
    """

    def __init__(self, time: SlicedTime) -> None:
        self._length_s = time.length_ns // NS
        self._settle_s = time.settle_ns / NS
        self._parts: dict[int, array[int]] = {}
        self._requests: dict[int, int] = {}
        self._units: dict[int, float] = {}

    def add(self, second: int, completed_at: Counts, requests: int, units: float) -> None:
        """Add counts of an own second: when in it requests were completed (ns since its begin), all of them, and what
        they did. Those that were completed after the slice are in `requests` only."""
        parts = self._parts.setdefault(second, array("I", bytes(_PARTS * array("I").itemsize)))
        for part, count in by_part(completed_at).items():
            parts[part] += count
        self._requests[second] = self._requests.get(second, 0) + requests
        self._units[second] = self._units.get(second, 0.0) + units

    def rate(self, slices: range, cycle_s: float) -> float | None:
        """Return the units per second over some slices; None if nothing was completed in them.

        `cycle_s` is the time from one request of a client to its next, at the median.
        """
        seconds = range(slices.start * self._length_s, slices.stop * self._length_s)
        requests = sum(self._requests.get(second, 0) for second in seconds)
        if not requests:
            return None
        of_parts = weights(float(self._length_s), self._settle_s, cycle_s)
        of_second = [of_parts[place * _PARTS : (place + 1) * _PARTS] for place in range(self._length_s)]
        weighed = sum(
            sum(map(mul, self._parts[second], of_second[second % self._length_s]))
            for second in seconds
            if second in self._parts
        )
        units = sum(self._units.get(second, 0.0) for second in seconds)
        return weighed / len(slices) * units / requests

    def measured_rate(self, second: int) -> float:
        """Return the units per second of the measured part of an own second."""
        parts, requests = self._parts.get(second), self._requests.get(second, 0)
        settling = round(self._settle_s * _PARTS) if second % self._length_s == 0 else 0
        if parts is None or not requests:
            return 0.0
        return sum(parts[settling:]) * _PARTS / (_PARTS - settling) * self._units[second] / requests


def by_part(completed_at: Counts) -> Mapping[int, int]:
    """Return how many requests were completed in each part of a second."""
    found: dict[int, int] = {}
    for bucket, count in completed_at.buckets.items():
        part = (lowest_equivalent_ns(bucket) + PART_NS // 2) // PART_NS  # a bucket begins below what it holds
        found[part] = found.get(part, 0) + count
    return found
