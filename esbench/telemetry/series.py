"""Samples of figures over time, and their aggregates over a time span, as a record has them. Pure: no clock, no I/O."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

KB_PER_BYTE = 1 / 1024  # as vmstat counts
_LEAST_COVERED_RATIO = 1 / 3  # two readings a second apart say enough of three seconds
_LEAST_BETWEEN_S = 0.2  # counters of the operating system grow by 0.01 s


@dataclass
class SeriesOf:
    """Readings of one subject and group: `times_s` of the race's clock, a list of values for each gauge and counter.

    Counters are continued across restarts, so that they never fall. A value is None where it was not read.
    """

    times_s: list[float] = field(default_factory=list)
    gauges: dict[str, list[float | None]] = field(default_factory=dict)
    counters: dict[str, list[float | None]] = field(default_factory=dict)

    def add(self, time_s: float, gauges: Mapping[str, float | None], counters: Mapping[str, float | None]) -> None:
        """Append a reading; missing values, also those of a new name before this reading, are filled with None."""
        before = len(self.times_s)
        self.times_s.append(time_s)
        for kept, given in ((self.gauges, gauges), (self.counters, counters)):
            for name in given:
                kept.setdefault(name, [None] * before)
            for name, values in kept.items():
                values.append(given.get(name))

    def values(self, gauge: str, start_s: float, end_s: float) -> list[float]:
        """Return the values of a gauge read in a span, both ends included."""
        return [value for time_s, value in self._points(self.gauges, gauge) if start_s <= time_s <= end_s]

    def mean(self, gauge: str, start_s: float, end_s: float) -> float | None:
        """Return the mean of a gauge's values read in a span; None without values."""
        values = self.values(gauge, start_s, end_s)
        return sum(values) / len(values) if values else None

    def peak(self, gauge: str, start_s: float, end_s: float) -> float | None:
        """Return the largest of a gauge's values read in a span; None without values."""
        return max(self.values(gauge, start_s, end_s), default=None)

    def last(self, gauge: str, end_s: float) -> float | None:
        """Return the last value of a gauge up to `end_s`, else the first one after it; None without values."""
        known = self._points(self.gauges, gauge)
        until = [value for time_s, value in known if time_s <= end_s]
        return until[-1] if until else known[0][1] if known else None

    def rate(self, counter: str, start_s: float, end_s: float) -> float | None:
        """Return a counter's gain per second of a span, linear between its readings.

        For the part of the span that readings cover; None if that is less than a third of it.
        """
        points = self._points(self.counters, counter)
        if len(points) < 2 or end_s <= start_s:
            return None
        first, last = max(start_s, points[0][0]), min(end_s, points[-1][0])
        if last - first < _LEAST_COVERED_RATIO * (end_s - start_s) or last <= first:
            return None
        return (_at(points, last) - _at(points, first)) / (last - first)

    def gained(self, counter: str, start_s: float, end_s: float) -> float | None:
        """Return a counter's gain in a span: `rate` times its length; None if `rate` is None."""
        rate = self.rate(counter, start_s, end_s)
        return None if rate is None else rate * (end_s - start_s)

    def peak_rate(self, counter: str, start_s: float, end_s: float) -> float | None:
        """Return a counter's largest gain per second between two consecutive readings of which a part lies in the span.

        Readings at most 0.2 s apart are skipped. None without such readings.
        """
        gains = self._gains(counter, start_s, end_s)
        return max((gain / (until_s - from_s) for (from_s, until_s), gain in gains.items()), default=None)

    def share(self, part: str, whole: str, start_s: float, end_s: float) -> float | None:
        """Return the ratio of two counters' gains in a span; None if one is unknown or `whole` gained nothing."""
        gained, total = self.rate(part, start_s, end_s), self.rate(whole, start_s, end_s)
        return gained / total if gained is not None and total else None

    def peak_share(self, part: str, whole: str, start_s: float, end_s: float) -> float | None:
        """Return the largest ratio of two counters' gains between two consecutive readings, as `peak_rate` takes them.

        The counters must have been read together. None without such readings, or if `whole` gained nothing in each.
        """
        totals = self._gains(whole, start_s, end_s)
        shares = (gain / totals[span] for span, gain in self._gains(part, start_s, end_s).items() if totals.get(span))
        return max(shares, default=None)

    def _gains(self, counter: str, start_s: float, end_s: float) -> dict[tuple[float, float], float]:
        """Return the counter's gain between each two consecutive readings (their times) that `peak_rate` takes."""
        return {
            (earlier_s, time_s): value - earlier
            for (earlier_s, earlier), (time_s, value) in pairwise(self._points(self.counters, counter))
            if time_s - earlier_s > _LEAST_BETWEEN_S and start_s < time_s and earlier_s < end_s
        }

    def inside(self, start_s: float, end_s: float) -> SeriesOf:
        """Return only the readings in a span, both ends included: readings before and after it have no influence."""
        first, end = bisect_left(self.times_s, start_s), bisect_right(self.times_s, end_s)
        return SeriesOf(
            self.times_s[first:end],
            {name: values[first:end] for name, values in self.gauges.items()},
            {name: values[first:end] for name, values in self.counters.items()},
        )

    def forget_before(self, time_s: float) -> None:
        """Drop the readings before the last one that is earlier than `time_s`."""
        keep = max(0, bisect_left(self.times_s, time_s) - 1)
        del self.times_s[:keep]
        for kept in (self.gauges, self.counters):
            for values in kept.values():
                del values[:keep]

    def _points(self, figures: Mapping[str, list[float | None]], name: str) -> list[tuple[float, float]]:
        values = figures.get(name, [])
        return [(time_s, value) for time_s, value in zip(self.times_s, values, strict=False) if value is not None]


class Continued:
    """Counters continued across restarts: what a restarted process counts is added to the previous value.

    `from_zero`: groups whose counters are read once they are no longer 0; a later reading may be the first to have one.
    """

    def __init__(self, from_zero: frozenset[str] = frozenset()) -> None:
        self._from_zero = from_zero
        self._seen: set[tuple[str, str]] = set()
        self._last: dict[tuple[str, str, str], float] = {}
        self._before: dict[tuple[str, str, str], float] = {}

    def of(self, of: str, group: str, counters: Mapping[str, float | None]) -> dict[str, float | None]:
        """Return the counters of one subject and group relative to their first reading here: 0 then, and never falling.

        A value below the previous one means a restart. None stays None.
        """
        is_from_zero = group in self._from_zero and (of, group) in self._seen
        self._seen.add((of, group))
        return {name: self._value((of, group, name), value, is_from_zero) for name, value in counters.items()}

    def _value(self, key: tuple[str, str, str], value: float | None, is_from_zero: bool) -> float | None:
        if value is None:
            return None
        last = self._last.get(key)
        if last is None:
            self._before[key] = 0 if is_from_zero else -value
        elif value < last:
            self._before[key] += last
        self._last[key] = value
        return self._before[key] + value


def _at(points: list[tuple[float, float]], time_s: float) -> float:
    position = bisect_left(points, (time_s,))
    if position < len(points) and points[position][0] == time_s:
        return points[position][1]
    (earlier_s, earlier), (later_s, later) = points[position - 1], points[position]
    return earlier + (later - earlier) * (time_s - earlier_s) / (later_s - earlier_s)


def rounded(value: float | None, factor: float = 1.0) -> float | None:
    """Return a figure times `factor`, to one decimal; None stays None."""
    return None if value is None else round(value * factor, 1)


def whole(value: float | None) -> int | None:
    """Return a figure rounded to an integer; None stays None."""
    return None if value is None else round(value)


def known(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the figures that are neither None nor empty mappings, of mappings within them, too."""
    found = {name: known(value) if isinstance(value, dict) else value for name, value in figures.items()}
    return {name: value for name, value in found.items() if value is not None and value != {}}
