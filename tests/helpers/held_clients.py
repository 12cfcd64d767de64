"""Clients without sockets, whose requests are answered when the test says so."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from esbench.load.client import Client
from esbench.load.hot import clock_ns
from esbench.load.loops import NS
from esbench.load.recorder import Recorder
from esbench.measure.slices import SlicedTime, WholeTime
from esbench.measure.tally import Tally
from esbench.measure.verdict import GOOD, Verdict
from esbench.requests.exchange import Exhausted, NotReady

GAP_NS = NS // 10  # after each slice of `second_side`


class HeldClient(Client):
    """A client that keeps what it sent: when it was due, in seconds since `start_ns`, and its phase.

    `supply` is the number of its requests; after `ready` of them the next one is made by `make_ready` only.
    """

    def __init__(self, slot: int, start_ns: int, *, supply: int = 1 << 30, ready: int = 1 << 30) -> None:
        self.slot = slot
        self.free_ns = 0
        self.draw = self._draw
        self.sent: list[tuple[float, bool]] = []
        self.in_flight = False
        self._start_ns = start_ns
        self._supply = supply
        self._ready = ready
        self._call_back: Callable[[], None]
        self._begun = (0, 0, False)

    def begin(self, due_ns: int, warmup: bool) -> None:
        assert not self.in_flight
        self.in_flight = True
        self._begun = (due_ns, clock_ns(), warmup)
        self.sent.append(((due_ns - self._start_ns) / NS, warmup))
        self.loop.recorder.sent(self._begun[1], warmup)

    @property
    def sent_ns(self) -> int:
        """The time at which the last request was sent."""
        return self._begun[1]

    def answer(self, verdict: Verdict = GOOD) -> None:
        """End the request in flight."""
        self.in_flight = False
        due_ns, sent_ns, warmup = self._begun
        received_ns = clock_ns()
        self.loop.recorder.completed(due_ns, self.free_ns, sent_ns, received_ns, warmup, verdict)
        self.free_ns = received_ns
        self.loop.freed(self)

    def make_ready(self) -> None:
        """Make the request that the client waits for, and all further ones."""
        self._ready = self._supply
        self._call_back()

    def give_up(self, kind: str, detail: str) -> None:
        if self.in_flight:
            self.answer(Verdict(0, kind, detail))

    def close(self) -> None:
        pass

    def _draw(self) -> None:
        if not self._supply:
            raise Exhausted
        if not self._ready:
            raise NotReady(self._wait)
        self._supply -= 1
        self._ready -= 1

    def _wait(self, call_back: Callable[[], None]) -> None:
        self._call_back = call_back


class HeldLoop:
    """The clients and the recorder of a loop that began 10 s ago, or with its `time`; `ends` counts how often it ended.

    Subclasses make the loop itself, which calls `end`.
    """

    def __init__(self, clients: int, *, time: WholeTime | None = None, **keys: Any) -> None:
        time = time or WholeTime(clock_ns() - 10 * NS)
        self.start_ns = time.begin_ns
        self.clients = [HeldClient(slot, self.start_ns, **keys) for slot in range(clients)]
        self.recorder = Recorder(time, is_open=True)
        self.ends = 0

    def end(self) -> None:
        self.ends += 1

    @property
    def sent(self) -> list[tuple[float, bool]]:
        return sorted(request for client in self.clients for request in client.sent)

    def answer_all(self) -> None:
        """Answer what is in flight, and nothing that is sent then."""
        for client in [client for client in self.clients if client.in_flight]:
            client.answer()


def second_side(own_ns: int) -> SlicedTime:
    """Return the time of a side that is at an own time of its first slice, which the next one follows after the gap."""
    first = SlicedTime(0, NS, GAP_NS, 0, sides=2, side=0, seed=1)
    second = replace(first, side=1 - first.side_at(0))
    return replace(second, start_ns=clock_ns() - second.begin_ns - own_ns)


def pass_time(until_ns: int) -> None:
    """Block the event loop until a time."""
    while clock_ns() < until_ns:
        pass


async def until(happened: Callable[[], object]) -> None:
    """Let the event loop turn until something has happened."""
    async with asyncio.timeout(10):
        while not happened():
            await asyncio.sleep(0.001)


def counted(recorder: Recorder) -> Tally:
    """All that was counted of the measurement."""
    tally = Tally()
    for second in recorder.closed_seconds(clock_ns() + 3_600 * NS):
        if not second.warmup:
            tally.merge(second.tally)
    return tally
