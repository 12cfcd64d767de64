"""The line of arrivals that wait for a free client."""

from __future__ import annotations

import sys
from collections import deque
from random import Random

import pytest

from esbench.load.loops import Line
from esbench.measure.histogram import Counts

MS = 1_000_000


def line(*due_ms: int) -> Line:
    made = Line()
    for due in due_ms:
        made.append(due * MS, due * MS)
    return made


def test_arrivals_are_taken_in_order() -> None:
    waiting = line(1, 2, 5, 9)
    assert [waiting.take()[0] // MS for _ in range(waiting.length)] == [1, 2, 5, 9]
    assert waiting.length == 0
    waiting.append(11 * MS, 11 * MS)
    assert (waiting.length, waiting.take()[0]) == (1, 11 * MS)


@pytest.mark.parametrize(("late_ns", "kept"), [(0, False), (MS, False), (MS + 1, True), (500 * MS, True)])
def test_when_an_arrival_was_seen_is_kept_if_that_was_late(late_ns: int, kept: bool) -> None:
    waiting = Line()
    waiting.append(7, 7 + late_ns)
    assert waiting.take() == (7, 7 + late_ns if kept else 7)


def test_runs_that_were_seen_late_end_where_the_driver_is_in_time_again() -> None:
    waiting = Line()
    seen = {10: 10, 20: 500, 30: 500, 40: 500, 510: 510, 520: 900, 530: 900, 905: 905, 910: 1000}
    for due, at in seen.items():
        waiting.append(due * MS, at * MS)
    assert [waiting.take() for _ in seen] == [(due * MS, at * MS) for due, at in seen.items()]


def test_runs_that_follow_one_another_stay_apart() -> None:
    waiting = Line()
    for due, at in ((10, 500), (20, 500), (30, 501), (40, 501)):
        waiting.append(due * MS, at * MS)
    assert [waiting.take()[1] // MS for _ in range(4)] == [500, 500, 501, 501]


@pytest.mark.parametrize(
    ("since_ms", "skip", "waited_ms"),
    [
        (0, 0, [20, 30, 40]),
        (20, 0, [20, 30, 40]),
        (21, 0, [20, 30]),
        (40, 0, [20]),
        (41, 0, []),
        (0, 1, [20, 30]),
        (0, 3, []),
        (31, 1, [20]),
        (0, 2, [20]),
    ],
)
def test_the_wait_of_those_that_still_wait(since_ms: int, skip: int, waited_ms: list[int]) -> None:
    waiting = line(10, 20, 30, 40)
    waiting.take()
    waited = waiting.waited(60 * MS, since_ms * MS, skip)
    assert (waited.count, waited.total_ns) == (len(waited_ms), sum(waited_ms) * MS)
    if waited_ms:
        assert (waited.min_ns, waited.max_ns) == (waited_ms[0] * MS, waited_ms[-1] * MS)


def test_the_waits_of_a_long_line_are_as_counted_one_by_one() -> None:
    random, one_by_one, due_ns = Random(2), Counts(), 0
    waiting = Line()
    for _ in range(20_000):
        due_ns += random.randrange(MS)
        waiting.append(due_ns, due_ns)
        one_by_one.add(11_000 * MS - due_ns)
    waited = waiting.waited(11_000 * MS, 0, 0)
    for of in ("buckets", "total_ns", "min_ns", "max_ns"):
        assert getattr(waited, of) == getattr(one_by_one, of)


def test_a_long_line_is_as_a_queue_would_be() -> None:
    """Taken ones are forgotten 65,536 at a time, in the middle of runs as anywhere."""
    random = Random(1)
    waiting, queue = Line(), deque[tuple[int, int]]()
    due_ns = 0
    for number in range(400_000):
        due_ns += random.randrange(2 * MS)
        seen_ns = due_ns + (300 * MS - due_ns % (300 * MS) if number // 50_000 % 2 else 0)
        waiting.append(due_ns, seen_ns)
        queue.append((due_ns, seen_ns if seen_ns - due_ns > MS else due_ns))
        for _ in range(random.choice((0, 0, 1, 2))):
            if queue:
                assert waiting.take() == queue.popleft()
        assert waiting.length == len(queue)
    assert waiting.waited(due_ns, 0, 0).count == len(queue)
    assert [waiting.take() for _ in range(waiting.length)] == list(queue)


def size_bytes(waiting: Line) -> int:
    late = waiting._seen_late
    return sys.getsizeof(waiting._due_ns) + sys.getsizeof(late) + 100 * len(late)  # a tuple and its numbers


def test_a_million_arrivals_take_ten_bytes_each() -> None:
    """With a driver that stands still for half a second in each second."""
    waiting = Line()
    for number in range(1_000_000):
        seen_ms = (number // 500 + 1) * 500 if number // 500 % 2 else number
        waiting.append(number * MS, seen_ms * MS)
    assert waiting.length == 1_000_000
    assert size_bytes(waiting) <= 10_000_000


def test_what_was_taken_takes_no_memory() -> None:
    waiting = Line()
    for number in range(300_000):
        waiting.append(number * MS, (number + 2) * MS)
        if number >= 100:
            waiting.take()
    assert waiting.length == 100
    assert size_bytes(waiting) < 1_500_000
