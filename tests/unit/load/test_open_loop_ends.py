"""The end of an open loop's window: a short line is still sent, a long one is unsent.

The windows lie in the past, so that all arrivals are due at once and nothing depends on the time that a test takes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from held_clients import HeldLoop, counted, until

from esbench.load.loops import NS, Length, OpenLoop

GAP_NS = NS // 100
HOUR = 3_600


class Loop(HeldLoop):
    """An open loop that began 10 s ago, with arrivals in gaps of 10 ms and a window of `end_s`."""

    def __init__(
        self,
        clients: int,
        arrivals: int,
        *,
        end_s: int = 1,
        gap_ns: int = GAP_NS,
        warmup_end_ns: int = 0,
        warmup_requests: int = 0,
        **keys: Any,
    ) -> None:
        super().__init__(clients, **keys)
        self.loop = OpenLoop(
            self.clients,
            self.recorder,
            Length(self.start_ns + warmup_end_ns, self.start_ns + end_s * NS, warmup_requests=warmup_requests),
            ended=self.end,
            failed=lambda verdict: None,
            arrivals=iter(range(0, arrivals * gap_ns, gap_ns)),
        )


@asynccontextmanager
async def after_its_window(clients: int, arrivals: int, **keys: Any) -> AsyncIterator[Loop]:
    """A loop whose arrivals are all sent or in line, with its end behind it, and no request answered yet."""
    of = Loop(clients, arrivals, **keys)
    of.loop.start(of.start_ns)
    await until(lambda: of.loop._stopping)
    try:
        yield of
    finally:
        of.loop.close()


@pytest.mark.parametrize("waiting", [0, 1, 3, 4])
async def test_a_line_of_at_most_an_arrival_for_each_client_is_sent(waiting: int) -> None:
    async with after_its_window(4, 4 + waiting) as of:
        assert (len(of.sent), of.loop.backlog, of.ends) == (4, waiting, 0)
        of.answer_all()
        assert len(of.sent) == 4 + waiting
        of.answer_all()
        assert not any(client.in_flight for client in of.clients)
        assert (of.loop.unsent, of.loop.backlog, of.ends) == (0, 0, 1)
        tally = counted(of.recorder)
        assert (tally.due, tally.sent, tally.requests) == (4 + waiting,) * 3


@pytest.mark.parametrize("waiting", [5, 90])
async def test_of_a_longer_line_nothing_is_sent(waiting: int) -> None:
    async with after_its_window(4, 4 + waiting) as of:
        assert (of.loop.unsent, of.loop.backlog) == (waiting, waiting)
        of.answer_all()
        assert (len(of.sent), of.ends) == (4, 1)
        tally = counted(of.recorder)
        assert (tally.due, tally.sent, tally.requests) == (4 + waiting, 4, 4)


async def test_a_client_that_is_fast_may_send_the_whole_line() -> None:
    async with after_its_window(4, 8) as of:
        for _ in range(5):
            of.clients[2].answer()
        assert len(of.clients[2].sent) == 5
        of.answer_all()
        assert (of.loop.unsent, of.ends) == (0, 1)


async def test_the_line_is_sent_in_its_order() -> None:
    async with after_its_window(2, 4) as of:
        of.clients[1].answer()
        of.clients[0].answer()
        assert of.clients[1].sent[-1][0] == pytest.approx(0.02)
        assert of.clients[0].sent[-1][0] == pytest.approx(0.03)


# clients without a next request


async def test_clients_with_a_request_send_for_those_without_one() -> None:
    async with after_its_window(4, 8, supply=1) as of:
        of.clients[3]._supply = 10
        of.answer_all()
        while of.clients[3].in_flight:
            of.clients[3].answer()
        assert len(of.clients[3].sent) == 5
        assert (of.loop.unsent, of.ends) == (0, 1)


async def test_what_the_corpora_do_not_hold_is_not_missed() -> None:
    async with after_its_window(4, 8, supply=1) as of:
        of.answer_all()
        assert (len(of.sent), of.loop.unsent, of.loop.backlog, of.ends) == (4, 0, 0, 1)


async def test_the_loop_goes_on_when_the_first_clients_have_nothing_to_send() -> None:
    of = Loop(4, 5)
    for client in of.clients[:3]:
        client._supply = 0
    of.clients[3]._supply = 2
    of.loop.start(of.start_ns)
    await until(lambda: of.sent)
    of.clients[3].answer()
    of.clients[3].answer()
    assert (len(of.sent), of.loop.unsent, of.ends) == (2, 0, 1)
    of.loop.close()


async def test_a_line_waits_for_clients_that_wait_for_documents() -> None:
    async with after_its_window(2, 4, ready=1) as of:
        of.answer_all()
        assert (len(of.sent), of.loop.backlog, of.ends) == (2, 2, 0)
        for client in of.clients:
            client.make_ready()
        assert (len(of.sent), of.ends) == (4, 0)
        of.answer_all()
        assert (of.loop.unsent, of.ends) == (0, 1)


async def test_a_client_that_gets_its_documents_after_the_line_was_sent_changes_nothing() -> None:
    async with after_its_window(2, 3) as of:
        of.clients[1]._ready = 0
        of.clients[1].answer()
        of.clients[0].answer()
        of.clients[0].answer()
        assert (len(of.sent), of.ends) == (3, 1)
        of.clients[1].make_ready()
        assert (len(of.sent), of.loop.unsent, of.ends) == (3, 0, 1)


# stopped before the line is sent


async def test_a_line_that_is_given_up_is_unsent() -> None:
    async with after_its_window(4, 8) as of:
        of.clients[0].answer()
        of.loop.give_up("cancelled", "the race was stopped")
        assert (len(of.sent), of.loop.unsent, of.loop.backlog, of.ends) == (5, 3, 3, 1)
        tally = counted(of.recorder)
        assert (tally.due, tally.requests, tally.errors.counts) == (8, 5, {"cancelled": 4})


async def test_to_give_up_does_not_wait_for_documents() -> None:
    async with after_its_window(2, 4, ready=1) as of:
        of.answer_all()
        of.loop.give_up("cancelled", "the race was stopped")
        assert (of.loop.unsent, of.ends) == (2, 1)
        of.clients[0].make_ready()
        assert (len(of.sent), of.ends) == (2, 1)


@pytest.mark.parametrize(("arrivals", "unsent"), [(4, 0), (5, 3)])
async def test_a_loop_that_another_task_ends_treats_its_line_alike(arrivals: int, unsent: int) -> None:
    of = Loop(2, arrivals, end_s=HOUR)
    of.loop.start(of.start_ns)
    await until(lambda: of.loop._arrived_all)
    of.loop.stop()
    of.answer_all()
    of.answer_all()
    assert (len(of.sent), of.loop.unsent, of.ends) == (arrivals - unsent, unsent, 1)
    of.loop.close()


# warmup


@pytest.mark.parametrize(
    "length", [{"warmup_requests": 6}, {"warmup_end_ns": 6 * GAP_NS}], ids=["by number", "by time"]
)
@pytest.mark.parametrize(("arrivals", "unsent"), [(8, 0), (9, 3), (20, 14)])
async def test_unsent_are_arrivals_of_the_measurement(length: dict[str, int], arrivals: int, unsent: int) -> None:
    async with after_its_window(4, arrivals, **length) as of:
        assert of.loop.unsent == unsent
        of.answer_all()
        of.answer_all()
        assert [warmup for _, warmup in of.sent] == [number < 6 for number in range(4 if unsent else arrivals)]
        assert of.ends == 1


@pytest.mark.parametrize(
    "length", [{"warmup_requests": 6}, {"warmup_end_ns": 6 * GAP_NS}], ids=["by number", "by time"]
)
async def test_what_was_given_up_in_the_warmup_is_not_unsent(length: dict[str, int]) -> None:
    async with after_its_window(4, 8, **length) as of:
        of.clients[0].answer()
        of.loop.give_up("cancelled", "the race was stopped")
        assert (of.loop.unsent, of.loop.backlog) == (2, 3)


# rates beyond counting


async def test_the_event_loop_turns_while_more_arrivals_are_due_than_can_be_counted() -> None:
    """Ten million are; a loop that is stopped meanwhile is over at once."""
    of = Loop(1, 10_000_000, gap_ns=99)
    of.loop.start(of.start_ns)
    turns = 0

    def turn() -> bool:
        nonlocal turns
        turns += 1
        return turns == 20

    await until(turn)
    backlog = of.loop.backlog
    assert 0 < backlog < 1_000_000, "it came back before all were counted"
    of.loop.stop()
    assert (of.loop.unsent, of.loop.backlog) == (backlog, backlog)
    of.answer_all()
    assert of.ends == 1
    of.loop.close()


# a stall of the driver


async def test_an_arrival_that_the_driver_saw_late_is_its_lag() -> None:
    """A hundred arrivals were due 9 to 10 s before the dispatcher looks; four clients answer them in no time."""
    async with after_its_window(4, 100) as of:
        tally = counted(of.recorder)
        assert tally.waited == 0, "not for the cluster"

    of = Loop(4, 100, end_s=HOUR)
    of.loop.start(of.start_ns)
    await until(lambda: of.loop._arrived_all)
    while any(client.in_flight for client in of.clients):
        of.answer_all()
    of.loop.close()
    tally = counted(of.recorder)
    assert (tally.requests, tally.waited) == (100, 0)
    assert tally.driver_lag.min_ns >= 9 * NS
    assert tally.client_wait.max_ns < 9 * NS
    assert tally.schedule_lag.max_ns >= 10 * NS
    assert tally.driver_lag.count == tally.client_wait.count == tally.schedule_lag.count == 100
