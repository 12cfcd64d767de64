"""The clock of a load host, read from this host: offsets with their bounds, and times between them. Pure.

A reading is a round trip: `sent_ns` and `received_ns` on our clock, `theirs_ns` on the host's in between. The host's
clock is ahead of ours by theirs - (sent + received) / 2, give or take half of the round trip; the shortest round trip
of several knows it best (Cristian, Probabilistic clock synchronization, Distributed Computing 3, 1989).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

_MS = 1_000_000


@dataclass(frozen=True)
class ClockReading:
    """One round trip to a host's clock; times in ns."""

    sent_ns: int
    theirs_ns: int
    received_ns: int

    @property
    def offset_ns(self) -> int:
        """The time by which the host's clock is ahead of ours."""
        return self.theirs_ns - (self.sent_ns + self.received_ns) // 2

    @property
    def bound_ns(self) -> int:
        """The most by which the offset is wrong: half of the round trip, which may have been all one way."""
        return -(-(self.received_ns - self.sent_ns) // 2)


class HostClock:
    """A host's clock over a race: offsets are linear between readings, and stay as they are beyond them."""

    def __init__(self) -> None:
        self._readings: list[ClockReading] = []

    def compare(self, readings: Iterable[ClockReading]) -> None:
        """Add the best of some readings, which were taken one after the other."""
        insort(self._readings, min(readings, key=lambda reading: reading.bound_ns), key=lambda known: known.sent_ns)

    def bound_ms(self) -> float:
        """Return the bound of the error of a time of the host on our clock, in ms: that of the worst reading so far."""
        return max((reading.bound_ns for reading in self._readings), default=0) / _MS

    def theirs_ns(self, ours_ns: int) -> int:
        """Return the host's time at a time of ours."""
        return ours_ns + self._offset_ns(ours_ns, [reading.sent_ns for reading in self._readings])

    def ours_ns(self, theirs_ns: int) -> int:
        """Return our time at a time of the host."""
        return theirs_ns - self._offset_ns(theirs_ns, [reading.theirs_ns for reading in self._readings])

    def _offset_ns(self, at_ns: int, known_ns: Sequence[int]) -> int:
        place = bisect_right(known_ns, at_ns)
        if place in (0, len(known_ns)):
            return self._readings[max(0, place - 1)].offset_ns
        before, after = self._readings[place - 1], self._readings[place]
        part = (at_ns - known_ns[place - 1]) / (known_ns[place] - known_ns[place - 1])
        return before.offset_ns + round(part * (after.offset_ns - before.offset_ns))
