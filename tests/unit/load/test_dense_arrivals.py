"""Arrivals share wake-ups of the process: dense ones wait up to 50 us for one; none is sent before it is due."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from held_clients import HeldLoop, counted, pass_time

from esbench.load.hot import clock_ns
from esbench.load.loops import NS, Length, OpenLoop
from esbench.measure.slices import WholeTime

US = 1_000


@dataclass(frozen=True)
class SlowTime(WholeTime):
    """A time of which a microsecond lasts a second, so that nothing depends on the time that a test takes."""

    def own_ns(self, at_ns: int) -> int:
        return (at_ns - self.start_ns) * US // NS

    def at_ns(self, own_ns: int) -> int:
        return self.start_ns + own_ns * NS // US


class KeptAlarm:
    """An alarm that never rings; `at_ns` is what it was set to last."""

    def __init__(self) -> None:
        self.at_ns = 0

    def set(self, at_ns: int) -> None:
        self.at_ns = at_ns

    def close(self) -> None:
        pass


class Loop(HeldLoop):
    def __init__(self, clients: int, time: WholeTime, arrivals: Sequence[int]) -> None:
        super().__init__(clients, time=time)
        self.alarm = KeptAlarm()
        self.loop = OpenLoop(
            *(self.clients, self.recorder, Length()),
            ended=self.end,
            failed=lambda verdict: None,
            arrivals=iter(arrivals),
        )


@asynccontextmanager
async def begun(clients: int, time: WholeTime, *arrivals: int) -> AsyncIterator[Loop]:
    """A loop that has sent what was due, and whose alarm does not ring from then on."""
    of = Loop(clients, time, arrivals)
    of.loop.start(of.start_ns)
    assert of.loop._alarm is not None
    of.loop._alarm.close()
    of.loop._alarm = of.alarm  # type: ignore[assignment]
    of.loop._dispatch()
    try:
        yield of
    finally:
        of.loop.close()


@pytest.mark.parametrize(("gap_us", "waits_us"), [(10, 50), (200, 50), (201, 0), (5_000, 0)])
async def test_an_arrival_close_to_the_one_before_it_waits_for_another_wake_up(gap_us: int, waits_us: int) -> None:
    time = SlowTime(clock_ns() - NS)
    async with begun(2, time, 0, gap_us * US) as of:
        assert len(of.sent) == 1
        assert of.alarm.at_ns == time.at_ns(gap_us * US) + waits_us * US


async def test_arrivals_that_are_due_by_then_are_sent_in_one_wake_up() -> None:
    async with begun(4, WholeTime(clock_ns() - NS), 0, 100 * US, 120 * US, 140 * US, 3_600 * NS) as of:
        assert len(of.sent) == 4
        assert of.alarm.at_ns == of.start_ns + 3_600 * NS


async def test_a_reply_sends_the_arrivals_that_are_due_by_then_in_their_order() -> None:
    due_ns = NS + NS // 100
    async with begun(3, WholeTime(clock_ns() - NS), 0, due_ns, due_ns + 1, 3_600 * NS) as of:
        pass_time(of.start_ns + due_ns + 2)  # the event loop does not turn
        assert len(of.sent) == 1
        of.clients[0].answer()
        assert [sent for client in of.clients for sent in client.sent] == [
            (0.0, False),
            (due_ns / NS, False),
            ((due_ns + 1) / NS, False),
        ]
        assert of.alarm.at_ns == of.start_ns + 3_600 * NS


@pytest.mark.parametrize("gap_us", [10, 5_000])
async def test_a_reply_sends_nothing_before_it_is_due(gap_us: int) -> None:
    async with begun(2, SlowTime(clock_ns() - NS), 0, gap_us * US) as of:
        of.clients[0].answer()
        assert len(of.sent) == 1


async def test_an_arrival_that_found_no_free_client_has_waited_even_if_it_is_sent_at_the_next_reply() -> None:
    for _ in range(50):  # where other programs take the CPU, the arrival is seen late: then it waits for the driver
        async with begun(1, WholeTime(clock_ns() - NS), 0, NS + NS // 500) as of:
            pass_time(of.start_ns + NS + NS // 500)
            of.clients[0].answer()
            assert len(of.sent) == 2
            on_time = of.clients[0].sent_ns - of.start_ns - NS - NS // 500 < NS // 2_000
            of.clients[0].answer()
            tally = counted(of.recorder)
            assert tally.client_wait.max_ns > 0
        if on_time:
            assert (tally.due, tally.waited) == (2, 1)
            return
    pytest.skip("the CPU was never free for half a millisecond")


async def test_a_long_queue_leaves_new_arrivals_to_the_alarm() -> None:
    """So that after a stall replies are read in between."""
    gap_ns = 10 * US
    async with begun(2, WholeTime(clock_ns() - NS), *range(0, NS, gap_ns)) as of:
        queued = of.loop.backlog
        of.answer_all()
        of.answer_all()
        assert (len(of.sent), of.loop.backlog) == (6, queued - 4)
