"""The time of a task: all of it, or the slices that are its own while other sides are raced in between. Pure.

A task counts in its own time, which stands still outside of its slices: its seconds, its arrivals, its length. All
times are ns. `at_ns` is of the wall clock that all processes of a host share (`clock_ns`); `own_ns` is since the task's
begin.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NamedTuple

NS = 1_000_000_000
_NEVER_NS = 1 << 62
_TICK_AFTER_NS = 2_000_000  # a second is over, until it is reported
_TICK_BEFORE_NS = 5_000_000  # a slice, so that what was used outside of it is not counted in it


class TimeSlice(NamedTuple):
    """A slice of the wall clock; before `settled_ns`, nothing in it is measured."""

    begin_ns: int
    settled_ns: int
    end_ns: int


@dataclass(frozen=True)
class WholeTime:
    """The time of a task that is raced alone: all of it, from `start_ns` on."""

    start_ns: int

    @property
    def begin_ns(self) -> int:
        """The time at which the task begins."""
        return self.at_ns(0)

    @property
    def stretch(self) -> float:
        """The seconds of the wall clock that an own second takes in the mean."""
        return 1.0

    def own_ns(self, at_ns: int) -> int:
        """Return the own time at a time of the wall clock."""
        return at_ns - self.start_ns

    def at_ns(self, own_ns: int) -> int:
        """Return the time of the wall clock from which on it is `own_ns`."""
        return self.start_ns + own_ns

    def until_ns(self, own_ns: int) -> int:
        """Return the time of the wall clock at which `own_ns` is over: the end of a slice, not the next one's begin."""
        return self.at_ns(own_ns)

    def second_of(self, at_ns: int) -> int:
        """Return the own second in which a reply at a time is counted; after a slice, the last one of it."""
        return (at_ns - self.start_ns) // NS

    def slice_second_ns(self, at_ns: int) -> int | None:
        """Return the begin of the own second at a time on the wall clock; None outside of slices."""
        return None

    def slice_at(self, at_ns: int) -> TimeSlice:
        """Return the slice at a time, or else the next one; without slices it never ends."""
        return TimeSlice(self.start_ns, self.start_ns, _NEVER_NS)

    def settles(self, own_ns: int) -> bool:
        """True at the beginning of a slice, which is not measured."""
        return False

    def is_beside(self, at_ns: int) -> bool:
        """True at a time at which another side has its slice."""
        return False

    def next_tick_ns(self, at_ns: int) -> int:
        """Return the time of the wall clock at which seconds and the use of resources are reported next."""
        return at_ns + NS - (at_ns - self.start_ns) % NS + _TICK_AFTER_NS

    def begun_later(self, at_ns: int) -> WholeTime:
        """Return the time of a task of the same step that begins at a time or, if there are slices, with the next."""
        return WholeTime(at_ns)

    def measured_s(self, begin_s: float, end_s: float) -> float:
        """Return how much of the interval [begin_s, end_s] on this side's clock is measured, in seconds."""
        return max(0.0, end_s - begin_s)


@dataclass(frozen=True)
class SlicedTime(WholeTime):
    """The time of one of several sides that are raced at once: from `start_ns` on they take turns, a slice each.

    A slice has whole seconds. After each, requests in flight are awaited for `gap_ns`; the first `settle_ns` of it are
    not measured. `side` is its number among `sides`. The sides go in blocks: a permutation, which is drawn from the
    seed for each block, and its reverse. The task begins after `skipped` slices of its side.
    """

    length_ns: int
    gap_ns: int
    settle_ns: int
    sides: int
    side: int
    seed: int
    skipped: int = 0

    @property
    def period_ns(self) -> int:
        """The time from the begin of any side's slice to that of the next one."""
        return self.length_ns + self.gap_ns

    @property
    def stretch(self) -> float:
        return self.sides * self.period_ns / self.length_ns

    def own_ns(self, at_ns: int) -> int:
        number, inside_ns = self._last_begun(at_ns)
        return max(0, number * self.length_ns + inside_ns)

    def at_ns(self, own_ns: int) -> int:
        number, inside_ns = divmod(own_ns, self.length_ns)
        return self._begin_ns(number) + inside_ns

    def until_ns(self, own_ns: int) -> int:
        return self.at_ns(own_ns - 1) + 1

    def second_of(self, at_ns: int) -> int:
        number, inside_ns = self._last_begun(at_ns)
        return max(0, number * self.length_ns + min(inside_ns, self.length_ns - 1)) // NS

    def slice_second_ns(self, at_ns: int) -> int | None:
        number, inside_ns = self._last_begun(at_ns)
        return at_ns - inside_ns % NS if number >= 0 and inside_ns < self.length_ns else None

    def slice_at(self, at_ns: int) -> TimeSlice:
        number, inside_ns = self._last_begun(at_ns)
        begin_ns = self._begin_ns(max(0, number + (inside_ns == self.length_ns)))
        return TimeSlice(begin_ns, begin_ns + self.settle_ns, begin_ns + self.length_ns)

    def settles(self, own_ns: int) -> bool:
        return own_ns % self.length_ns < self.settle_ns

    def is_beside(self, at_ns: int) -> bool:
        return self.side_at(at_ns) != self.side and (at_ns - self.start_ns) % self.period_ns < self.length_ns

    def side_at(self, at_ns: int) -> int:
        """Return the number of the side whose slice, with the gap after it, lies at a time."""
        block, place = divmod((at_ns - self.start_ns) // self.period_ns, 2 * self.sides)
        return _turns(self.seed, self.sides, block)[place]

    def next_tick_ns(self, at_ns: int) -> int:
        begin_ns, _, end_ns = self.slice_at(at_ns)
        if at_ns < begin_ns - _TICK_BEFORE_NS:
            return min(begin_ns - _TICK_BEFORE_NS, at_ns + NS)  # each second, so that a worker is not taken for dead
        inside_ns = max(0, at_ns - begin_ns)
        return min(end_ns, begin_ns + inside_ns + NS - inside_ns % NS) + _TICK_AFTER_NS

    def begun_later(self, at_ns: int) -> SlicedTime:
        number, _ = self._last_begun(at_ns)
        return replace(self, skipped=self.skipped + number + 1)

    def measured_s(self, begin_s: float, end_s: float) -> float:
        return max(0, self._measured_ns(round(end_s * NS)) - self._measured_ns(round(begin_s * NS))) / NS

    def _measured_ns(self, own_ns: int) -> int:
        slices, inside_ns = divmod(max(0, own_ns), self.length_ns)
        return slices * (self.length_ns - self.settle_ns) + max(0, inside_ns - self.settle_ns)

    def _last_begun(self, at_ns: int) -> tuple[int, int]:
        """Return the number of the last own slice that has begun at a time, and the time in it, at most its length.

        A number below 0 is of a slice before the task's begin.
        """
        slot, inside_ns = divmod(at_ns - self.start_ns, self.period_ns)
        block, place = divmod(slot, 2 * self.sides)
        turns = _turns(self.seed, self.sides, block)
        number = 2 * block + turns[: place + 1].count(self.side) - 1 - self.skipped
        return number, min(inside_ns, self.length_ns) if turns[place] == self.side else self.length_ns

    def _begin_ns(self, number: int) -> int:
        """Return the begin of an own slice on the wall clock."""
        block, second = divmod(number + self.skipped, 2)
        first = _turns(self.seed, self.sides, block).index(self.side)
        slot = block * 2 * self.sides + (2 * self.sides - 1 - first if second else first)
        return self.start_ns + slot * self.period_ns


@lru_cache(maxsize=64)
def _turns(seed: int, sides: int, block: int) -> tuple[int, ...]:
    """Return the sides of a block in their order."""
    order = list(range(sides))
    random.Random(f"slices of {seed}, block {block}").shuffle(order)  # an order, no secret  # nosec B311
    return (*order, *reversed(order))
