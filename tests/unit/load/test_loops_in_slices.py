"""Loops of a side that has slices: what happens at the end of one, and what counts in own time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from held_clients import GAP_NS, HeldLoop, counted, pass_time, second_side, until

from esbench.load.hot import clock_ns
from esbench.load.loops import NS, ClosedLoop, Length, OpenLoop
from esbench.measure.histogram import percentiles_ns
from esbench.measure.slices import SlicedTime

MS = NS // 1000


class Open(HeldLoop):
    """An open loop that ends with its first slice, or by `end_s`; an arrival is due each 10 ms."""

    def __init__(self, clients: int, arrivals: int, time: SlicedTime, end_s: int = 1) -> None:
        super().__init__(clients, time=time)
        self.loop = OpenLoop(
            self.clients,
            self.recorder,
            Length(time.begin_ns, time.until_ns(end_s * NS)),
            ended=self.end,
            failed=lambda verdict: None,
            arrivals=iter(range(0, arrivals * 10 * MS, 10 * MS)),
        )


@pytest.mark.parametrize(("clients", "waiting"), [(1, 1), (3, 1), (3, 3)])
async def test_a_reply_after_the_end_and_before_its_alarm_lets_the_line_be_sent(clients: int, waiting: int) -> None:
    time = second_side(800 * MS)
    of = Open(clients, clients + waiting, time)
    of.loop.start(of.start_ns)
    await until(lambda: of.loop.backlog == waiting)
    pass_time(time.until_ns(NS))
    of.answer_all()
    assert len(of.sent) == clients + waiting
    of.answer_all()
    assert (of.loop.unsent, of.loop.backlog, of.ends) == (0, 0, 1)
    of.loop.close()


@pytest.mark.parametrize(("clients", "waiting"), [(1, 2), (3, 4)])
async def test_of_a_longer_line_nothing_is_sent_after_the_end(clients: int, waiting: int) -> None:
    time = second_side(800 * MS)
    of = Open(clients, clients + waiting, time)
    of.loop.start(of.start_ns)
    await until(lambda: of.loop.backlog == waiting)
    pass_time(time.until_ns(NS))
    of.answer_all()
    assert (len(of.sent), of.loop.unsent, of.ends) == (clients, waiting, 1)
    of.loop.close()


@pytest.mark.parametrize("clients", [1, 8])
async def test_arrivals_that_the_driver_sees_in_the_next_slice_are_late_by_own_time_only(clients: int) -> None:
    """Six are due at the end of the first slice: a driver that stands still sees them one own second later."""
    time = second_side(930 * MS)
    of = HeldLoop(clients, time=time)
    arrivals = iter(range(940 * MS, 1000 * MS, 10 * MS))
    length = Length(time.begin_ns, time.until_ns(100 * NS))
    loop = OpenLoop(of.clients, of.recorder, length, ended=of.end, failed=lambda verdict: None, arrivals=arrivals)
    pass_time(time.at_ns(1500 * MS))
    loop.start(of.start_ns)
    await until(lambda: len(of.sent) + loop.backlog == 6)
    while len(of.sent) < 6:
        of.answer_all()
    of.answer_all()
    found = counted(of.recorder)
    assert found.requests == 6
    lags_ns = percentiles_ns(found.schedule_lag, (1.0, 100.0))
    assert 480 * MS < lags_ns[1.0] < lags_ns[100.0] < 900 * MS  # the other side's slice takes a second more
    loop.close()


async def test_a_line_that_waits_for_the_next_slice_is_sent_in_it_though_the_loop_was_stopped() -> None:
    """Also where the alarm is early, as the event loop's timers may be."""
    time = second_side(800 * MS)
    of = Open(1, 2, time, end_s=100)
    of.loop.start(of.start_ns)
    await until(lambda: of.loop.backlog == 1)
    pass_time(time.until_ns(NS))
    of.answer_all()
    of.loop.stop()
    assert (len(of.sent), of.ends) == (1, 0)
    of.loop._dispatch()
    await until(lambda: len(of.sent) == 2)
    assert of.clients[0].sent_ns >= time.at_ns(NS)
    of.answer_all()
    assert (of.loop.unsent, of.ends) == (0, 1)
    of.loop.close()


async def test_clients_join_a_closed_loop_in_own_time() -> None:
    """One and a bit into the ramp-up is in the second slice: after the gap."""
    time = replace(second_side(800 * MS), settle_ns=100 * MS)
    of = HeldLoop(2, time=time)
    length = Length(end_ns=time.until_ns(4 * NS))
    loop = ClosedLoop(of.clients, of.recorder, length, ended=of.end, failed=lambda verdict: None, stagger_s=1.02)
    loop.start(of.start_ns)
    await until(lambda: len(of.sent) == 2)
    assert clock_ns() > time.at_ns(NS) >= time.until_ns(NS) + GAP_NS
    assert time.own_ns(of.clients[1].sent_ns) / NS == pytest.approx(1.02, abs=0.2)
    loop.close()
