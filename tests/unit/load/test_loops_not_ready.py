"""Clients whose next request is not made yet: nothing is lost, and that they wait is not the server's time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from esbench.load.client import Client
from esbench.load.hot import clock_ns
from esbench.load.loops import ClosedLoop, Length, OpenLoop, TaskLoop
from esbench.load.recorder import Recorder
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import GOOD
from esbench.requests.exchange import Exhausted, NotReady

MS = 1_000_000
WAIT_MS = 20


class Supply:
    """Numbers for clients to draw; every third one is there only after a while."""

    def __init__(self, count: int) -> None:
        self._numbers: Iterator[int] = iter(range(count))
        self._waited: set[int] = set()
        self._next: int | None = next(self._numbers, None)
        self.waits = 0

    def draw(self) -> int:
        number = self._next
        if number is None:
            raise Exhausted
        if number % 3 == 2 and number not in self._waited:
            self._waited.add(number)
            self.waits += 1
            raise NotReady(self._call_back)
        self._next = next(self._numbers, None)
        return number

    def _call_back(self, who: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(WAIT_MS / 1000, who)


class InstantClient(Client):
    """A client whose requests are answered in the next turn of the event loop."""

    def __init__(self, slot: int, supply: Supply, sent: list[int]) -> None:
        self.slot = slot
        self.draw = supply.draw
        self._sent = sent

    def begin(self, due_ns: int, warmup: bool) -> None:
        sent_ns = clock_ns()
        self._sent.append(self.drawn)
        asyncio.get_running_loop().call_soon(self._answered, due_ns, sent_ns, warmup)

    def _answered(self, due_ns: int, sent_ns: int, warmup: bool) -> None:
        self.loop.recorder.completed(due_ns, self.free_ns, sent_ns, clock_ns(), warmup, GOOD)
        self.free_ns = clock_ns()
        self.loop.freed(self)

    def close(self) -> None:
        pass


def run(make: Callable[..., TaskLoop], *, is_open: bool, clients: int, count: int) -> tuple[list[int], Any, Supply]:
    supply, sent = Supply(count), list[int]()

    async def until_it_ends() -> Any:
        ended = asyncio.Event()
        start_ns = clock_ns()
        recorder = Recorder(WholeTime(start_ns), is_open=is_open, window_ns=None, within_ns=())
        made = [InstantClient(slot, supply, sent) for slot in range(clients)]
        loop = make(made, recorder, Length(), ended=ended.set, failed=lambda verdict: None)
        loop.start(start_ns)
        await asyncio.wait_for(ended.wait(), 60)
        loop.close()
        return list(recorder.closed_seconds(clock_ns() + 5_000 * MS))

    return sent, asyncio.run(until_it_ends()), supply


@pytest.mark.parametrize("clients", [1, 4])
@pytest.mark.parametrize("is_open", [False, True])
def test_every_request_is_sent_once(clients: int, is_open: bool) -> None:
    def make(*arguments: Any, **keys: Any) -> TaskLoop:
        if is_open:
            return OpenLoop(*arguments, **keys, arrivals=iter(range(0, 10_000 * MS, MS)))
        return ClosedLoop(*arguments, **keys)

    sent, seconds, supply = run(make, is_open=is_open, clients=clients, count=20)
    assert sorted(sent) == list(range(20))
    assert supply.waits == 6
    service_ns = max(second.tally.service_time.max_ns for second in seconds)
    assert service_ns < WAIT_MS * MS, "the wait is not the server's"
    if is_open and clients == 1:
        assert max(second.tally.driver_lag.max_ns for second in seconds) > (WAIT_MS - 5) * MS
