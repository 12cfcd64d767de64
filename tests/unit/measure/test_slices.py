"""The time of a side in slices: a bijection with its own time, that no two sides share."""

from __future__ import annotations

from dataclasses import replace

import pytest

from esbench.measure.slices import NS, SlicedTime, WholeTime

MS = 1_000_000


def sides(count: int = 2, length_s: int = 1, seed: int = 7) -> list[SlicedTime]:
    return [SlicedTime(1000 * NS + 17, length_s * NS, 50 * MS, 100 * MS, count, side, seed) for side in range(count)]


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("length_s", [1, 2, 5])
def test_every_own_time_lies_in_a_slice_of_its_side(count: int, length_s: int) -> None:
    for time in sides(count, length_s):
        for own_ns in range(0, 60 * NS, 333 * MS):
            at_ns = time.at_ns(own_ns)
            assert time.own_ns(at_ns) == own_ns
            assert time.side_at(at_ns) == time.side
            assert not time.is_beside(at_ns)
            begin_ns, _, end_ns = time.slice_at(at_ns)
            assert begin_ns <= at_ns < end_ns
            assert all(other.is_beside(at_ns) for other in sides(count, length_s) if other.side != time.side)


@pytest.mark.parametrize("gap_ms", [0, 50, 500])
def test_an_own_second_takes_those_of_the_other_sides_and_their_gaps(gap_ms: int) -> None:
    time = replace(sides(3, length_s=2)[1], gap_ns=gap_ms * MS)
    took_ns = time.at_ns(600 * NS) - time.at_ns(0)
    assert took_ns / (600 * NS) == pytest.approx(time.stretch, rel=0.01)
    assert WholeTime(0).stretch == 1


@pytest.mark.parametrize("count", [2, 3])
def test_slices_of_all_sides_fill_the_clock_and_a_block_goes_back_the_way_it_came(count: int) -> None:
    times = sides(count)
    slots = [times[0].side_at(times[0].start_ns + slot * times[0].period_ns) for slot in range(2 * count * 50)]
    blocks = [slots[begin : begin + 2 * count] for begin in range(0, len(slots), 2 * count)]
    assert all(block == block[::-1] and sorted(block[:count]) == list(range(count)) for block in blocks)
    assert len({tuple(block) for block in blocks}) > 1  # drawn anew, so that no wave keeps time with them


def test_own_time_stands_still_in_gaps_and_in_the_slices_of_others() -> None:
    for time in sides():
        for at_ns in range(time.start_ns, time.start_ns + 30 * NS, 10 * MS):
            begin_ns, _, end_ns = time.slice_at(at_ns)
            runs = begin_ns <= at_ns and at_ns + 10 * MS <= end_ns
            before_ns, after_ns = time.own_ns(at_ns), time.own_ns(at_ns + 10 * MS)
            assert after_ns - before_ns == 10 * MS if runs else 0 <= after_ns - before_ns < 10 * MS
            if at_ns + 10 * MS <= begin_ns:
                assert after_ns == before_ns


def test_a_late_reply_is_counted_in_the_last_second_of_its_slice() -> None:
    time = sides(length_s=2)[1]
    for number in range(6):
        end_ns = time.until_ns((number + 1) * 2 * NS)
        assert end_ns == time.at_ns(number * 2 * NS) + 2 * NS
        assert (
            time.second_of(end_ns - 1) == time.second_of(end_ns) == time.second_of(end_ns + 49 * MS) == 2 * number + 1
        )
        assert time.own_ns(end_ns + 20 * MS) == (number + 1) * 2 * NS


def test_ticks_lie_before_and_after_each_slice() -> None:
    time = sides()[0]
    at_ns, ticks = time.start_ns, []
    while at_ns < time.start_ns + 20 * NS:
        at_ns = time.next_tick_ns(at_ns)
        ticks.append(at_ns)
    for number in range(4):
        begin_ns, end_ns = time.at_ns(number * NS), time.until_ns((number + 1) * NS)
        assert not any(begin_ns < tick < end_ns for tick in ticks)
        assert end_ns + 2 * MS in ticks
        assert begin_ns - 5 * MS in ticks or begin_ns - 5 * MS <= time.start_ns
    assert sorted(set(ticks)) == ticks


@pytest.mark.parametrize("count", [2, 3, 4])
def test_ticks_go_on_while_other_sides_have_their_slices(count: int) -> None:
    """A worker without a tick for seconds is taken for dead; those beside a slice count for nothing."""
    for time in sides(count, length_s=4):
        at_ns = time.start_ns
        while at_ns < time.start_ns + 120 * NS:
            before_ns, at_ns = at_ns, time.next_tick_ns(at_ns)
            assert before_ns < at_ns < before_ns + NS + 10 * MS
            begin_ns, _, _ = time.slice_at(at_ns)
            if before_ns + 10 * MS < at_ns < begin_ns and before_ns > time.begin_ns:
                assert time.own_ns(at_ns) % time.length_ns == 0
                assert time.second_of(at_ns) == time.second_of(before_ns) == time.own_ns(at_ns) // NS - 1


def test_the_beginning_of_a_slice_is_not_measured() -> None:
    time = sides(length_s=2)[0]
    assert time.settles(0) and time.settles(99 * MS) and not time.settles(100 * MS) and time.settles(2 * NS)
    assert time.measured_s(0, 4) == pytest.approx(3.8)
    assert time.measured_s(1, 2.05) == pytest.approx(1.0)
    assert time.measured_s(3, 2) == 0


def test_a_task_that_begins_later_begins_with_a_slice() -> None:
    for time in sides():
        at_ns = time.start_ns + 5 * NS + 123
        later = time.begun_later(at_ns)
        assert later.begin_ns > at_ns and later.own_ns(later.begin_ns) == 0
        assert later.begin_ns == time.slice_at(later.begin_ns)[0]
        assert later.begun_later(later.begin_ns + 7 * NS).skipped > later.skipped
        assert replace(later, skipped=0) == time


def test_a_lone_task_has_all_the_time() -> None:
    time = WholeTime(1000)
    assert (time.begin_ns, time.own_ns(1500), time.at_ns(500), time.until_ns(500)) == (1000, 500, 1500, 1500)
    assert time.slice_at(NS) == (1000, 1000, 1 << 62) and not time.is_beside(5) and not time.settles(0)
    assert time.next_tick_ns(1000 + NS // 2) == 1000 + NS + 2 * MS
    assert time.begun_later(99) == WholeTime(99)
