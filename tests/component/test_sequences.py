"""Sequences whose connection ends between their requests: each request is counted under its name, with all its time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from raw_server import CLOSE, Action, RawServer, Request

from esbench.cluster.options import Access, ClientOptions, Host
from esbench.load.client import Route, TemplateClient
from esbench.load.hosts import Hosts
from esbench.load.hot import clock_ns
from esbench.load.loops import ClosedLoop, Length
from esbench.load.recorder import Recorder
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Tally
from esbench.measure.verdict import Verdict
from esbench.operations.replies import judge_plain
from esbench.requests.exchange import Exchange

MS = 1_000_000
CONNECT_S = 0.2
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
LAST_REPLY = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}"


class Times(Recorder):
    """A recorder that keeps when requests, and their parts, were sent and received."""

    def __init__(self, time: WholeTime) -> None:
        super().__init__(time, is_open=False)
        self.wholes: list[tuple[int, int]] = []
        self.parts: list[tuple[str, int, int, str | None]] = []

    def completed(
        self, due_ns: int, free_ns: int, sent_ns: int, received_ns: int, warmup: bool, verdict: Verdict
    ) -> None:
        self.wholes.append((sent_ns, received_ns))
        super().completed(due_ns, free_ns, sent_ns, received_ns, warmup, verdict)

    def part(self, name: str, sent_ns: int, received_ns: int, warmup: bool, error: str | None = None) -> None:
        self.parts.append((name, sent_ns, received_ns, error))
        super().part(name, sent_ns, received_ns, warmup, error)


class SlowToConnect(TemplateClient):
    """A client whose connections take a while, but for the first one."""

    pause_s = 0.0

    async def connect(self) -> None:
        await asyncio.sleep(self.pause_s)
        self.pause_s = CONNECT_S
        await super().connect()


async def run(replies: list[bytes], accepts: int) -> tuple[Times, Tally]:
    """Send one sequence of a write and a read to a server that is gone once `accepts` connections were made."""

    def answer(number: int, request: Request) -> Sequence[Action]:
        return [replies[number], CLOSE] if replies[number] is LAST_REPLY else [replies[number]]

    with RawServer(answer, accepts=accepts) as server:
        return await measured(Host("127.0.0.1", server.port))


async def measured(host: Host) -> tuple[Times, Tally]:
    hosts = Hosts((host,), ClientOptions(), lost=lambda: None, back=lambda: None)
    exchanges = tuple(
        Exchange(name, lambda drawn: (b"GET / HTTP/1.1\r\nHost: test\r\n\r\n",), judge_plain)
        for name in ("write", "read")
    )
    program = SimpleNamespace(exchanges=exchanges, draw=lambda: None)
    client = SlowToConnect(0, Route(hosts, Access(), b"", 5), program)  # type: ignore[arg-type]
    await client.connect()
    ended, start_ns = asyncio.Event(), clock_ns()
    times = Times(WholeTime(start_ns))
    loop = ClosedLoop([client], times, Length(requests=1), ended=ended.set, failed=lambda verdict: None)
    loop.start(start_ns)
    await asyncio.wait_for(ended.wait(), 60)
    loop.close()
    hosts.close()
    tally = Tally()
    for second in times.closed_seconds(clock_ns() + 9_000 * MS):
        tally.merge(second.tally)
    return times, tally


@pytest.mark.parametrize("first", [REPLY, LAST_REPLY], ids=["same connection", "new connection"])
async def test_the_parts_of_a_sequence_add_up(first: bytes) -> None:
    times, tally = await run([first, REPLY], accepts=5)
    (write, read), (whole,) = times.parts, times.wholes
    assert (write[0], read[0], tally.errors.total) == ("write", "read", 0)
    assert write[1] == whole[0]
    assert read[2] == whole[1]
    assert 0 <= read[1] - write[2] < CONNECT_S * 1000 * MS / 2, "to connect again is part of the read"


async def test_a_part_that_cannot_connect_is_counted() -> None:
    times, tally = await run([LAST_REPLY], accepts=1)
    assert {name: (part.requests, part.errors) for name, part in tally.parts.items()} == {
        "write": (1, 0),
        "read": (1, 1),
    }
    assert (tally.requests, tally.errors.counts) == (1, {"connection refused": 1})
    assert times.parts[1][3] == "connection refused"
    assert times.parts[1][2] - times.parts[1][1] >= CONNECT_S * 1000 * MS / 2
