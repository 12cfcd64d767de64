"""Loops that a scheduler of the track's own paces: what is due is sent or counted, up to the end of the window.

The windows lie in the past, so that all arrivals are due at once and nothing depends on the time that a test takes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Any

import pytest
from held_clients import HeldLoop, counted, pass_time, second_side, until

from esbench.features.python.scheduled_loop import ScheduledLoop
from esbench.load.hot import clock_ns
from esbench.load.loops import NS, Length

HOUR = 3_600
MS = NS // 1000


class Times:
    """A scheduler whose requests are due at multiples of a gap, or at what `due` makes of their numbers."""

    def __init__(self, gap_s: float = 0.01, due: Callable[[int], float] | None = None) -> None:
        self._due = due or (lambda number: number * gap_s)
        self.asked = 0

    def next(self, now_s: float) -> float:
        self.asked += 1
        return self._due(self.asked - 1)

    def before_request(self, now_s: float) -> None:
        pass

    def after_request(self, now_s: float, weight: float, unit: str, result: object) -> None:
        pass


class Loop(HeldLoop):
    """A loop that began 10 s ago, each client with a scheduler of its own."""

    def __init__(
        self,
        *schedulers: Times,
        end_s: int | None = 1,
        requests: int | None = None,
        warmup_end_ns: int = 0,
        warmup_requests: int = 0,
        **keys: Any,
    ) -> None:
        super().__init__(len(schedulers), **keys)
        end_ns = None if end_s is None else self.recorder.time.until_ns(end_s * NS)
        self.loop = ScheduledLoop(
            self.clients,
            self.recorder,
            Length(self.start_ns + warmup_end_ns, end_ns, requests, warmup_requests),
            ended=self.end,
            failed=lambda verdict: None,
            schedulers=dict(zip(self.clients, schedulers, strict=True)),  # type: ignore[arg-type]
        )


@asynccontextmanager
async def after_its_window(*schedulers: Times, **keys: Any) -> AsyncIterator[Loop]:
    """A loop with its end behind it, in which each client has sent what was due first."""
    while True:
        of = Loop(*deepcopy(schedulers), **keys)
        begun_ns = clock_ns()
        of.loop.start(of.start_ns)
        if clock_ns() - begun_ns < NS // 1000:
            break  # else the end, a millisecond after it, may come before the first requests
        of.loop.close()
    await until(lambda: of.loop._stopping)
    try:
        yield of
    finally:
        of.loop.close()


async def test_arrivals_that_are_never_sent_are_due_and_unsent() -> None:
    async with after_its_window(Times(), Times()) as of:
        assert len(of.sent) == 2
        of.answer_all()
        assert (len(of.sent), of.ends) == (2, 1)
        tally = counted(of.recorder)
        assert (tally.due, tally.sent, tally.requests, of.loop.unsent) == (200, 2, 2, 198)
        assert tally.waited == 198, "each was due before its client was free"


async def test_a_line_of_one_is_sent() -> None:
    async with after_its_window(Times(0.5), Times(0.5)) as of:
        of.answer_all()
        assert (len(of.sent), of.ends) == (4, 0)
        of.answer_all()
        assert (of.loop.unsent, of.ends) == (0, 1)
        assert counted(of.recorder).due == 4


async def test_what_is_due_at_the_end_or_later_does_not_exist() -> None:
    async with after_its_window(Times(1), Times(30)) as of:
        of.answer_all()
        assert (len(of.sent), of.loop.unsent, of.ends) == (2, 0, 1)
        assert counted(of.recorder).due == 2


@pytest.mark.parametrize(("due_s", "sent", "unsent"), [((5, 50), 1, 0), ((5, 6, 50), 0, 2), ((50,), 0, 0)])
async def test_an_end_that_comes_before_the_timer_of_what_is_due_overlooks_nothing(
    due_s: tuple[float, ...], sent: int, unsent: int
) -> None:
    of = Loop(Times(due=due_s.__getitem__), end_s=HOUR)
    of.loop.start(of.start_ns)
    of.loop.stop()
    assert (len(of.sent), of.loop.unsent) == (sent, unsent)
    of.answer_all()
    assert (counted(of.recorder).due, of.ends) == (sent + unsent, 1)
    of.loop.close()


@pytest.mark.parametrize("due", [lambda number: 0.5, lambda number: 0.9 - number / 100], ids=["still", "backwards"])
async def test_a_scheduler_that_does_not_advance_ends(due: Callable[[int], float]) -> None:
    async with after_its_window(Times(due=due)) as of:
        for _ in range(5):
            of.answer_all()
        assert len(of.sent) == 2
        assert (of.loop.unsent, of.ends) == (0, 1)


async def test_counting_is_bounded() -> None:
    """A scheduler whose steps are a nanosecond has a thousand million arrivals in its second."""
    steps = Times(1e-9)
    async with after_its_window(steps) as of:
        of.answer_all()
        assert of.ends == 1
        assert 1_000_000 <= of.loop.unsent <= 1_000_001
        assert steps.asked < 1_000_010


async def test_at_once_is_never_late() -> None:
    """A scheduler that returns 0 is a closed loop: nothing is due once the window is over."""

    class AtOnce(Times):
        def next(self, now_s: float) -> float:
            return now_s

    async with after_its_window(AtOnce()) as of:
        assert (of.sent, of.loop.unsent, of.ends) == ([], 0, 1)


# numbers


async def test_a_loop_of_numbers_sends_all_of_them() -> None:
    of = Loop(Times(), Times(), end_s=None, requests=7)
    of.loop.start(of.start_ns)
    while not of.ends:
        await until(lambda: of.ends or any(client.in_flight for client in of.clients))
        of.answer_all()
    assert (len(of.sent), of.loop.unsent) == (7, 0)
    of.loop.close()


async def test_a_loop_of_numbers_that_another_task_ends_has_no_more_arrivals_than_its_number() -> None:
    of = Loop(Times(), Times(), end_s=None, requests=7)
    of.loop.start(of.start_ns)
    await until(lambda: len(of.sent) == 2)
    of.loop.stop()
    of.answer_all()
    tally = counted(of.recorder)
    assert (tally.due, tally.sent, of.loop.unsent, of.ends) == (7, 2, 5, 1)
    of.loop.close()


# phases


@pytest.mark.parametrize("phase", [{"warmup_requests": 60}, {"warmup_end_ns": 6 * NS // 10}], ids=["number", "time"])
async def test_unsent_are_arrivals_of_the_measurement(phase: dict[str, int]) -> None:
    async with after_its_window(Times(), **phase) as of:
        of.answer_all()
        assert (counted(of.recorder).due, of.loop.unsent) == (40, 40)


# clients without a next request


async def test_what_the_corpora_do_not_hold_is_not_missed() -> None:
    async with after_its_window(Times(), Times(), supply=1) as of:
        of.answer_all()
        assert (len(of.sent), of.loop.unsent, of.ends) == (2, 0, 1)


# given up


async def test_what_is_given_up_is_unsent() -> None:
    async with after_its_window(Times(), Times(0.5), Times(5)) as of:
        of.loop.give_up("cancelled", "the race was stopped")
        assert (len(of.sent), of.loop.unsent, of.ends) == (3, 99 + 1, 1)
        tally = counted(of.recorder)
        assert (tally.due, tally.requests, tally.errors.counts) == (103, 3, {"cancelled": 3})


# slices


@pytest.mark.parametrize("end_s", [1, 2], ids=["at the end", "in the next slice"])
async def test_a_busy_client_is_what_an_arrival_waits_for_over_the_end_of_a_slice(end_s: int) -> None:
    """It is due 50 ms before the end, and its client is freed after that: 50 ms of own time, not of the driver."""
    time = second_side(800 * MS)
    of = Loop(Times(due=(0, 0.95, 50).__getitem__), end_s=end_s, time=time)
    of.loop.start(of.start_ns)
    await until(lambda: of.sent)
    pass_time(time.until_ns(NS) + 5 * MS)
    of.answer_all()
    await until(lambda: len(of.sent) == 2)
    of.answer_all()
    late = counted(of.recorder)
    assert (late.requests, late.latency.clamped, late.schedule_lag.clamped) == (2, 0, 0)
    assert late.latency.min_ns >= 50 * MS
    assert late.client_wait.max_ns == pytest.approx(50 * MS, abs=MS)
    assert late.schedule_lag.min_ns >= 50 * MS
    of.loop.close()


async def test_a_client_that_was_free_in_time_is_not_what_an_arrival_waits_for_over_the_end_of_a_slice() -> None:
    """The driver looks 50 ms after it was due, which is after the end of the slice."""
    time = second_side(800 * MS)
    of = Loop(Times(due=(0.95, 50).__getitem__), end_s=2, time=time)
    of.loop.start(of.start_ns)
    pass_time(time.until_ns(NS) + 5 * MS)
    await until(lambda: of.sent)
    of.answer_all()
    late = counted(of.recorder)
    assert (late.requests, late.waited, late.client_wait.max_ns) == (1, 0, 0)
    assert late.driver_lag.max_ns >= 50 * MS
    of.loop.close()
