"""Samples of figures over time, and their aggregates over a time span, as a record has them. Pure: no clock, no I/O."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import inf
from typing import Any, Literal, Protocol

import msgspec

KB_PER_BYTE = 1 / 1024  # as vmstat counts
_LEAST_COVERED_RATIO = 1 / 3  # two readings a second apart say enough of three seconds
_LEAST_BETWEEN_S = 0.2  # counters of the operating system grow by 0.01 s
_MOST_IN_MEMORY = 512  # readings of a series
_Kind = Literal["gauges", "counters"]
_Point = tuple[float, float]  # time in s, value


class Overflow(Protocol):
    """A place outside of memory for what a series of many readings does not need before its task ends."""

    def append(self, content: bytes) -> int:
        """Keep content; returns its offset. Raises OSError if there is no room."""

    def read(self, offset: int, length: int) -> bytes:
        """Return what was kept at an offset. Raises OSError."""


@dataclass(frozen=True, slots=True)
class _Block:
    """Readings between two times, both ends included, that lie in the overflow."""

    first_s: float
    last_s: float
    offset: int
    length: int


class _Readings(msgspec.Struct, array_like=True, gc=False):
    """A block as it is kept: a column is decoded if somebody asks for it."""

    times_s: list[float]
    gauges: dict[str, msgspec.Raw]
    counters: dict[str, msgspec.Raw]


@dataclass
class SeriesOf:
    """Readings of one subject and group: `times_s` of the race's clock, a list of values for each gauge and counter.

    Counters are continued across restarts, so that they never fall. A value is None where it was not read. With an
    `overflow` these are the latest readings alone, at most 512: earlier ones lie there, in `blocks`, and whatever is
    asked for a span is of both.
    """

    times_s: list[float] = field(default_factory=list)
    gauges: dict[str, list[float | None]] = field(default_factory=dict)
    counters: dict[str, list[float | None]] = field(default_factory=dict)
    overflow: Overflow | None = field(default=None, compare=False)
    blocks: tuple[_Block, ...] = ()
    _inside_s: tuple[float, float] = field(default=(-inf, inf), compare=False)

    def add(self, time_s: float, gauges: Mapping[str, float | None], counters: Mapping[str, float | None]) -> None:
        """Append a reading; missing values, also those of a new name before this reading, are filled with None.

        Raises OSError if there is no room for earlier ones in the overflow; they stay in memory, and it was appended.
        """
        before = len(self.times_s)
        self.times_s.append(time_s)
        for kept, given in ((self.gauges, gauges), (self.counters, counters)):
            for name in given:
                kept.setdefault(name, [None] * before)
            for name, values in kept.items():
                values.append(given.get(name))
        if self.overflow is not None and before >= _MOST_IN_MEMORY:
            self._move_to(self.overflow)

    def _move_to(self, overflow: Overflow) -> None:
        """Move all readings except the last one to the overflow."""
        columns = [{name: values[:-1] for name, values in kept.items()} for kept in (self.gauges, self.counters)]
        content = msgspec.msgpack.encode((self.times_s[:-1], *columns))
        block = _Block(self.times_s[0], self.times_s[-2], overflow.append(content), len(content))
        self.blocks += (block,)
        self._drop(len(self.times_s) - 1)

    def values(self, gauge: str, start_s: float, end_s: float) -> list[float]:
        """Return the values of a gauge read in a span, both ends included."""
        parts = self._parts("gauges", gauge, start_s, end_s)
        return [value for points in parts for time_s, value in points if start_s <= time_s <= end_s]

    def mean(self, gauge: str, start_s: float, end_s: float) -> float | None:
        """Return the mean of a gauge's values read in a span; None without values."""
        values = self.values(gauge, start_s, end_s)
        return sum(values) / len(values) if values else None

    def peak(self, gauge: str, start_s: float, end_s: float) -> float | None:
        """Return the largest of a gauge's values read in a span; None without values."""
        return max(self.values(gauge, start_s, end_s), default=None)

    def last(self, gauge: str, end_s: float) -> float | None:
        """Return the last value of a gauge up to `end_s`, else the first one after it; None without values."""
        found = self._latest("gauges", gauge, end_s) or self._earliest("gauges", gauge, end_s)
        return None if found is None else found[1]

    def rate(self, counter: str, start_s: float, end_s: float) -> float | None:
        """Return a counter's gain per second of a span, linear between its readings.

        For the part of the span that readings cover; None if that is less than a third of it.
        """
        earliest, latest = self._earliest("counters", counter, -inf), self._latest("counters", counter, inf)
        if earliest is None or latest is None or end_s <= start_s:
            return None
        first, last = max(start_s, earliest[0]), min(end_s, latest[0])
        if last - first < _LEAST_COVERED_RATIO * (end_s - start_s) or last <= first:
            return None
        return (self._at(counter, last) - self._at(counter, first)) / (last - first)

    def gained(self, counter: str, start_s: float, end_s: float) -> float | None:
        """Return a counter's gain in a span: `rate` times its length; None if `rate` is None."""
        rate = self.rate(counter, start_s, end_s)
        return None if rate is None else rate * (end_s - start_s)

    def peak_rate(self, counter: str, start_s: float, end_s: float) -> float | None:
        """Return a counter's largest gain per second between two consecutive readings of which a part lies in the span.

        Readings at most 0.2 s apart are skipped. None without such readings.
        """
        gains = self._gains(counter, start_s, end_s)
        return max((gain / (until_s - from_s) for from_s, until_s, gain in gains), default=None)

    def share(self, part: str, whole: str, start_s: float, end_s: float) -> float | None:
        """Return the ratio of two counters' gains in a span; None if one is unknown or `whole` gained nothing."""
        gained, total = self.rate(part, start_s, end_s), self.rate(whole, start_s, end_s)
        return gained / total if gained is not None and total else None

    def peak_share(self, part: str, whole: str, start_s: float, end_s: float) -> float | None:
        """Return the largest ratio of two counters' gains between two consecutive readings, as `peak_rate` takes them.

        The counters must have been read together. None without such readings, or if `whole` gained nothing in each.
        """
        totals = {(from_s, until_s): gain for from_s, until_s, gain in self._gains(whole, start_s, end_s)}
        shares = (
            gain / total
            for from_s, until_s, gain in self._gains(part, start_s, end_s)
            if (total := totals.get((from_s, until_s)))
        )
        return max(shares, default=None)

    def _gains(self, counter: str, start_s: float, end_s: float) -> Iterator[tuple[float, float, float]]:
        """Yield the counter's gain between each two consecutive readings that `peak_rate` takes, after their times."""
        before = self._latest("counters", counter, start_s)
        after = self._earliest("counters", counter, end_s)
        from_s = start_s if before is None else before[0]
        until_s = end_s if after is None else after[0]
        for (earlier_s, earlier), (time_s, value) in pairwise(
            point
            for points in self._parts("counters", counter, from_s, until_s)
            for point in points
            if from_s <= point[0] <= until_s
        ):
            if time_s - earlier_s > _LEAST_BETWEEN_S and start_s < time_s and earlier_s < end_s:
                yield earlier_s, time_s, value - earlier

    def inside(self, start_s: float, end_s: float) -> SeriesOf:
        """Return only the readings in a span, both ends included: readings before and after it have no influence."""
        first, end = bisect_left(self.times_s, start_s), bisect_right(self.times_s, end_s)
        return SeriesOf(
            self.times_s[first:end],
            {name: values[first:end] for name, values in self.gauges.items()},
            {name: values[first:end] for name, values in self.counters.items()},
            self.overflow,
            tuple(block for block in self.blocks if block.first_s <= end_s and block.last_s >= start_s),
            (max(start_s, self._inside_s[0]), min(end_s, self._inside_s[1])),
        )

    def forget_before(self, time_s: float) -> None:
        """Drop the readings before the last one that is earlier than `time_s`; nothing is left in the overflow.

        Raises OSError if the overflow cannot be read.
        """
        blocks, self.blocks = self.blocks, ()
        if not self.times_s or self.times_s[0] >= time_s:
            earlier = max((number for number, block in enumerate(blocks) if block.first_s < time_s), default=0)
            for block in reversed(blocks[earlier:]):
                self._take_back(block)
        self._drop(max(0, bisect_left(self.times_s, time_s) - 1))

    def _take_back(self, block: _Block) -> None:
        """Put the readings of a block before those in memory."""
        read, later = self._read(block), len(self.times_s)
        self.times_s[:0] = read.times_s
        for kept, columns in ((self.gauges, read.gauges), (self.counters, read.counters)):
            for name in kept.keys() | columns.keys():
                earlier = _column(columns[name]) if name in columns else [None] * len(read.times_s)
                kept[name] = [*earlier, *kept.get(name, [None] * later)]

    def _drop(self, readings: int) -> None:
        """Drop the first readings of those in memory."""
        del self.times_s[:readings]
        for kept in (self.gauges, self.counters):
            for values in kept.values():
                del values[:readings]

    def _read(self, block: _Block) -> _Readings:
        assert self.overflow is not None
        return _BLOCKS.decode(self.overflow.read(block.offset, block.length))

    def _at(self, counter: str, time_s: float) -> float:
        """Return a counter's value at a time between its first and its last reading."""
        later = self._earliest("counters", counter, time_s)
        earlier = self._latest("counters", counter, time_s)
        assert earlier is not None and later is not None
        if later[0] == time_s:
            return later[1]
        return earlier[1] + (later[1] - earlier[1]) * (time_s - earlier[0]) / (later[0] - earlier[0])

    def _latest(self, kind: _Kind, name: str, time_s: float) -> _Point | None:
        """Return the last known value until a time, with its own."""
        parts = self._parts(kind, name, -inf, time_s, backwards=True)
        return next((point for points in parts for point in reversed(points) if point[0] <= time_s), None)

    def _earliest(self, kind: _Kind, name: str, time_s: float) -> _Point | None:
        """Return the first known value from a time on, with its own."""
        parts = self._parts(kind, name, time_s, inf)
        return next((point for points in parts for point in points if point[0] >= time_s), None)

    def _parts(
        self, kind: _Kind, name: str, start_s: float, end_s: float, *, backwards: bool = False
    ) -> Iterator[list[_Point]]:
        """Yield the known values of a figure, a block at a time, of blocks that reach into a span."""
        start_s, end_s = max(start_s, self._inside_s[0]), min(end_s, self._inside_s[1])
        blocks = [block for block in self.blocks if block.first_s <= end_s and block.last_s >= start_s]
        if backwards:
            yield self._known(self.times_s, getattr(self, kind).get(name, ()))
        for block in reversed(blocks) if backwards else blocks:
            read = self._read(block)
            if (column := getattr(read, kind).get(name)) is not None:
                yield self._known(read.times_s, _column(column))
        if not backwards:
            yield self._known(self.times_s, getattr(self, kind).get(name, ()))

    def _known(self, times_s: Sequence[float], values: Sequence[float | None]) -> list[_Point]:
        start_s, end_s = self._inside_s
        return [
            (time_s, value)
            for time_s, value in zip(times_s, values, strict=False)
            if value is not None and start_s <= time_s <= end_s
        ]


_BLOCKS = msgspec.msgpack.Decoder(_Readings)


def _column(raw: msgspec.Raw) -> list[float | None]:
    values: list[float | None] = msgspec.msgpack.decode(raw)
    return values


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
