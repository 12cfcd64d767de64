"""Histograms of durations up to 24 h, in ns, and HdrHistograms of them: exact to 0.1 %, or to 512 ns below 1.05 ms.

`Counts` has the same buckets as HdrHistogram (github.com/HdrHistogram: sub-buckets of 2,048, unit 2^9 ns), in a
sparse dict: counting costs a tenth of `HdrHistogram.record_value`. Pure: no I/O, no event loop. The only module that
imports the hdrhistogram library, which workers never load.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Mapping
from functools import cache
from operator import mul
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hdrh.histogram import HdrHistogram

LOWEST_NS = 1_000
HIGHEST_NS = 24 * 3600 * 1_000_000_000
DIGITS = 3
_UNIT_BITS = 9  # 2^9 = 512 ns is the power of two at or below LOWEST_NS
_HALF_BITS = 10  # half of the 2,048 sub-buckets that HdrHistogram takes for 3 digits
_OUTER = struct.Struct(">ii")  # of HdrHistogram V2: cookie, length; then, compressed, _HEAD and the counts
_HEAD = struct.Struct(">iiiiqqd")  # cookie, length, offset, digits, lowest, highest, ratio
_COOKIES = 0x1C849314, 0x1C849313  # of the outer and the inner part
_LAST_SHIFT = 56  # of a number's ninth byte, which has eight bits
_MOST_BYTES = 1 << 20  # unpacked: a count of each of 30,000 buckets has nine bytes at most
_LINEAR_NS = 1 << (_UNIT_BITS + _HALF_BITS + 1)  # below, buckets are one unit wide


class Counts:
    """A sparse log-linear histogram with exact sum, minimum and maximum (ns).

    Values outside 0..24 h are clamped, and counted in `clamped`.
    """

    __slots__ = ("buckets", "clamped", "max_ns", "min_ns", "total_ns")

    def __init__(self) -> None:
        self.buckets: dict[int, int] = {}
        self.total_ns = 0
        self.min_ns = HIGHEST_NS
        self.max_ns = 0
        self.clamped = 0

    def add(self, ns: int) -> None:
        """Count one duration."""
        if 0 <= ns < _LINEAR_NS:
            index = ns >> _UNIT_BITS
        else:
            if not 0 <= ns <= HIGHEST_NS:
                self.clamped += 1
                ns = 0 if ns < 0 else HIGHEST_NS
            shift = max(0, ns.bit_length() - (_UNIT_BITS + _HALF_BITS + 1))
            index = (shift << _HALF_BITS) + (ns >> (shift + _UNIT_BITS))
        try:
            self.buckets[index] += 1
        except KeyError:
            self.buckets[index] = 1
        self.total_ns += ns
        if ns < self.min_ns:
            self.min_ns = ns
        if ns > self.max_ns:
            self.max_ns = ns

    def add_zeros(self, times: int) -> None:
        """Count `times` durations of 0 ns."""
        if times:
            self.buckets[0] = self.buckets.get(0, 0) + times
            self.min_ns = 0

    def merge(self, other: Counts) -> None:
        """Add the counts of another histogram."""
        self.absorb(other.buckets, other.total_ns, other.min_ns, other.max_ns, other.clamped)

    def absorb(self, buckets: Mapping[int, int], total_ns: int, min_ns: int, max_ns: int, clamped: int) -> None:
        """Add counts by bucket, with their exact sum, minimum and maximum (ns)."""
        mine = self.buckets
        for index, count in buckets.items():
            mine[index] = mine.get(index, 0) + count
        self.total_ns += total_ns
        self.min_ns = min(self.min_ns, min_ns)
        self.max_ns = max(self.max_ns, max_ns)
        self.clamped += clamped

    @property
    def count(self) -> int:
        """The number of durations counted."""
        return sum(self.buckets.values())

    @property
    def mean_ns(self) -> float:
        """The exact mean (ns). Raises ZeroDivisionError if nothing was counted."""
        return self.total_ns / self.count


def index_of(ns: int) -> int:
    """Return the index of the bucket in which a duration is counted."""
    counts = Counts()
    counts.add(ns)
    (index,) = counts.buckets
    return index


def lowest_equivalent_ns(index: int) -> int:
    """Return the smallest duration that is counted in a bucket."""
    shift = max(0, (index >> _HALF_BITS) - 1)
    return (index - (shift << _HALF_BITS)) << (shift + _UNIT_BITS)


@cache
def _all_lowest_ns() -> tuple[int, ...]:
    """Return `lowest_equivalent_ns` of every bucket, cached: for thousands of histograms a third of the time."""
    return tuple(map(lowest_equivalent_ns, range(index_of(HIGHEST_NS) + 1)))


def _hdr_histogram(counts: Counts) -> HdrHistogram:
    from hdrh.histogram import HdrHistogram

    histogram = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for index, count in counts.buckets.items():
        histogram.record_value(lowest_equivalent_ns(index), count)
    return histogram


def encode(counts: Counts) -> str:
    """Return the counts as HdrHistogram V2, compressed, in base64: readable by every HdrHistogram library."""
    histogram = _hdr_histogram(counts)
    encoded: bytes = histogram.encode()
    histogram.encoder.histogram = None  # they refer to each other: 0.2 MB that only a full collection would find
    return encoded.decode("ascii")


def _unpacked(encoded: bytes) -> bytes:
    """Return the counts of an encoded histogram, packed as `_buckets` reads them.

    Raises ValueError for one that counts other durations, or would be unpacked to more than `encode` packs.
    """
    cookie, length = _OUTER.unpack_from(encoded)
    unpacking = zlib.decompressobj()
    content = unpacking.decompress(encoded[_OUTER.size :], _MOST_BYTES)
    if not unpacking.eof or unpacking.unused_data or length != len(encoded) - _OUTER.size:
        raise ValueError("it is cut off, or too long")
    inner_cookie, inner_length, _, *durations = _HEAD.unpack_from(content)[:6]
    if (cookie, inner_cookie) != _COOKIES or inner_length != len(content) - _HEAD.size:
        raise ValueError("another format")
    if durations != [DIGITS, LOWEST_NS, HIGHEST_NS]:
        raise ValueError("another range")
    return content[_HEAD.size :]


def _buckets(packed: bytes) -> dict[int, int]:
    """Return the counts by bucket, in ascending order.

    They are packed as ZigZag LEB128 (HdrHistogram: ZigZagEncoding.java), nine bytes at most; a negative number -n
    stands for n empty buckets. The library's decoder fills an array of 30,000 buckets; a second uses a hundred.
    """
    buckets: dict[int, int] = {}
    index = value = shift = 0
    for number in packed:
        if number > 127 or shift:
            value |= (number if shift == _LAST_SHIFT else number & 127) << shift
            if number > 127 and shift < _LAST_SHIFT:
                shift += 7
                continue
            number, value, shift = value, 0, 0
        if number & 1:
            index += (number >> 1) + 1
        else:
            if number:
                buckets[index] = number >> 1
            index += 1
    if shift or index > len(_all_lowest_ns()):
        raise ValueError("it is cut off, or has more buckets than there are")
    return buckets


def decode(text: str) -> Counts:
    """Return the counts of an encoded histogram; sum, minimum and maximum are those of the buckets, not exact.

    Raises ValueError if the text is not an HdrHistogram of `encode`.
    """
    try:
        buckets = _buckets(_unpacked(base64.b64decode(text)))
    except (ValueError, struct.error, zlib.error) as error:
        raise ValueError("is not a HdrHistogram") from error
    counts = Counts()
    counts.buckets = buckets
    if buckets:
        lowest_ns = _all_lowest_ns()
        counts.total_ns = sum(map(mul, map(lowest_ns.__getitem__, buckets), buckets.values()))
        counts.min_ns, counts.max_ns = lowest_ns[next(iter(buckets))], lowest_ns[next(reversed(buckets))]
    return counts


def percentiles_ns(counts: Counts, ranks: tuple[float, ...], beyond: int = 0) -> dict[float, float]:
    """Return durations (ns) at percentiles (0-100) by rank: upper ends of buckets, within the exact min and max.

    The p-th percentile is the smallest duration that at least p percent of the samples do not exceed (nearest rank).
    `beyond` further samples rank as longer than all that were counted (unsent, timed out): a percentile that falls
    among them is `inf`, so all are if nothing was counted. Empty if there are no samples of either kind.
    """
    good = counts.count
    total = good + beyond
    if total == 0:
        return {}
    result = dict.fromkeys(ranks, math.inf)
    buckets = iter(sorted(counts.buckets))  # sorting pairs would take four times as long
    index, reached = 0, 0
    for rank in sorted(ranks):
        wanted = max(1, math.ceil(rank * total / 100 - 1e-6))  # 99.9 % of 1,000 is 999, not 999.0000000001
        if wanted > good:
            break
        while reached < wanted:
            index = next(buckets)
            reached += counts.buckets[index]
        is_zero = index == 0 == counts.min_ns  # a server's own time is in whole ms: 0 is no half of a bucket
        highest_equivalent_ns = 0 if is_zero else lowest_equivalent_ns(index + 1) - 1
        result[rank] = float(max(counts.min_ns, min(highest_equivalent_ns, counts.max_ns)))
    return result


def at_least_ns(counts: Counts, ranks: tuple[float, ...], beyond: Counts) -> dict[float, float]:
    """Return lower bounds (ns), by rank, of those percentiles that fall among `beyond`, as exact as percentiles are.

    `beyond` are durations of which only a minimum is known; they rank as longer than all that were counted.
    """
    together = Counts()
    together.merge(counts)
    together.merge(beyond)
    known = percentiles_ns(counts, ranks, beyond.count)
    return {rank: ns for rank, ns in percentiles_ns(together, ranks).items() if known[rank] == math.inf}


_NOTHING = Counts()


def distribution_ms(counts: Counts, ranks: tuple[float, ...], beyond: Counts = _NOTHING) -> dict[str, float] | None:
    """Return mean, min, max and percentiles in ms, by name; None when nothing was counted.

    `beyond` holds requests that took longer than was measured. A figure that falls among them, as the maximum does, is
    inf; its name with `_at_least` has what is known.
    """
    if not counts.buckets and not beyond.buckets:
        return None
    figures = {"mean": counts.mean_ns, "min": float(counts.min_ns)} if counts.buckets else {}
    figures["max"] = math.inf if beyond.buckets else float(counts.max_ns)
    figures |= {f"p{rank:g}": value for rank, value in percentiles_ns(counts, ranks, beyond.count).items()}
    if beyond.buckets:
        figures["max_at_least"] = float(max(counts.max_ns, beyond.max_ns))
        figures |= {f"p{rank:g}_at_least": value for rank, value in at_least_ns(counts, ranks, beyond).items()}
    return {name: value / 1e6 for name, value in figures.items()}


def supported(ranks: tuple[float, ...], samples: int) -> tuple[float, ...]:
    """Return the percentiles that `samples` suffice for: p90 from 36, p99 from 368, p99.9 from 3,688; up to p50 always.

    A percentile p needs 3.69 / (1 - p) samples: with fewer, its 95 % interval has no upper end inside the sample
    (the chance that no sample lies beyond p is p^n; p^n < 2.5 % from n = ln 0.025 / ln p = 3.69 / (1 - p)).
    """
    return tuple(rank for rank in ranks if rank <= 50 or samples >= _needed(rank))


def _needed(rank: float) -> int:
    return math.ceil(math.log(0.025) / math.log(rank / 100))
