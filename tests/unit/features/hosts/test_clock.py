"""Clocks of load hosts: offsets from round trips, and times between two readings."""

from __future__ import annotations

import pytest

from esbench.features.hosts.clock import ClockReading, HostClock

MS = 1_000_000


def test_a_reading_is_right_to_half_of_its_round_trip() -> None:
    """The host is 500 ms ahead; the way there takes 3 ms, and the way back 1 ms."""
    reading = ClockReading(100 * MS, 603 * MS, 104 * MS)
    assert reading.offset_ns == 501 * MS
    assert reading.bound_ns == 2 * MS
    assert abs(reading.offset_ns - 500 * MS) <= reading.bound_ns


def test_the_shortest_round_trip_counts() -> None:
    clock = HostClock()
    clock.compare(
        [
            ClockReading(0, 509 * MS, 10 * MS),
            ClockReading(20 * MS, 521 * MS, 22 * MS),
            ClockReading(30 * MS, 0, 90 * MS),
        ]
    )
    assert clock.theirs_ns(0) == 500 * MS
    assert clock.bound_ms() == 1.0


def clock_that_gains() -> HostClock:
    """A clock 500 ms ahead at 1 s, and 600 ms ahead at 2 s; both readings take no time."""
    clock = HostClock()
    clock.compare([ClockReading(1000 * MS, 1500 * MS, 1000 * MS)])
    clock.compare([ClockReading(2000 * MS, 2600 * MS, 2000 * MS)])
    return clock


@pytest.mark.parametrize(("ours_ms", "theirs_ms"), [(0, 500), (1000, 1500), (1500, 2050), (2000, 2600), (5000, 5600)])
def test_between_readings_the_offset_is_linear_and_beyond_them_it_stays(ours_ms: int, theirs_ms: int) -> None:
    clock = clock_that_gains()
    assert clock.theirs_ns(ours_ms * MS) == theirs_ms * MS
    assert clock.ours_ns(theirs_ms * MS) == pytest.approx(ours_ms * MS, abs=1)


def test_the_bound_is_that_of_the_worst_reading() -> None:
    clock = clock_that_gains()
    clock.compare([ClockReading(3000 * MS, 3600 * MS, 3006 * MS)])
    assert clock.bound_ms() == 3.0


def test_readings_may_be_added_in_any_order() -> None:
    clock = clock_that_gains()
    clock.compare([ClockReading(1500 * MS, 2000 * MS, 1500 * MS)])
    assert clock.theirs_ns(1500 * MS) == 2000 * MS
    assert clock.theirs_ns(1750 * MS) == 2300 * MS


def test_a_clock_behind_ours() -> None:
    clock = HostClock()
    clock.compare([ClockReading(1000 * MS, 500 * MS, 1000 * MS)])
    assert clock.ours_ns(clock.theirs_ns(77)) == 77
    assert clock.theirs_ns(700 * MS) == 200 * MS
