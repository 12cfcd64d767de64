"""The agent of a load host, without Dask: how long it keeps its workers, and that it waits for none of them."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from itertools import pairwise
from multiprocessing.reduction import ForkingPickler
from pathlib import Path

import pytest

from esbench.features.hosts.agent import Agent, News
from esbench.load.messages import Stop
from esbench.load.outbox import LENGTH


def test_workers_that_start_late_are_kept(esbench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between an agent and its workers come the facts, agents and workers of all other hosts."""
    monkeypatch.setattr("esbench.features.hosts.agent.ALONE_S", 0.2)

    async def start_late() -> News:
        agent = Agent("late")
        await asyncio.sleep(0.3)
        await agent.start(1, 7)
        try:
            await asyncio.sleep(0.1)  # in which it sees whether it is alone
            await agent.kill(7)
            return await agent.take()
        finally:
            await agent.close()

    assert list(asyncio.run(start_late()).ended) == [7]


async def longest_stop_s(ticks: list[float]) -> None:
    while True:
        ticks.append(time.monotonic())
        await asyncio.sleep(0.02)


def test_a_worker_that_does_not_read_stops_no_agent(esbench_home: Path) -> None:
    """A stopped worker and more bytes than its socket holds; what it has not read arrives when it goes on."""

    async def ticks_of() -> tuple[list[float], News]:
        agent, ticks = Agent("slow"), list[float]()
        pids = await agent.start(2, 0)
        try:
            greeted = 0
            while greeted < 2:
                greeted += len((await agent.take()).frames)
            os.kill(pids[0], signal.SIGSTOP)
            ticking = asyncio.create_task(longest_stop_s(ticks))
            await asyncio.sleep(0.1)
            leave = bytes(ForkingPickler.dumps(Stop(leave=True)))
            await agent.put([(0, bytes(ForkingPickler.dumps(Stop(tasks=("x" * 3_000_000,))))), (0, leave), (1, leave)])
            news = await ended(agent, 1)
            await asyncio.sleep(0.5)
            os.kill(pids[0], signal.SIGCONT)
            news = await ended(agent, 0)
            ticking.cancel()
            return ticks, news
        finally:
            await agent.close()

    async def ended(agent: Agent, number: int) -> News:
        while True:
            news = await agent.take()
            if number in news.ended:
                return news

    ticks, news = asyncio.run(asyncio.wait_for(ticks_of(), 60))
    assert news.ended == {0: "exit status 0"}
    assert max(after - before for before, after in pairwise(ticks)) < 1


def test_half_a_message_of_a_worker_stops_no_agent(esbench_home: Path) -> None:
    async def take_twice() -> tuple[News, News]:
        agent = Agent("half")
        reader = asyncio.StreamReader()
        worker = IdleWorker()
        reading = asyncio.create_task(agent._read(worker, reader))  # type: ignore[arg-type]
        whole = b"m" * 1_000_000
        frame = LENGTH.pack(len(whole)) + whole
        reader.feed_data(frame + frame[:500_000])
        first = await agent.take()
        reader.feed_data(frame[500_000:])
        reader.feed_eof()
        await reading
        return first, await agent.take()

    first, second = asyncio.run(take_twice())
    assert (
        [len(content) for _, content in first.frames] == [1_000_000] == [len(content) for _, content in second.frames]
    )
    assert (first.ended, second.ended) == ({}, {3: "exit status 7"})


class IdleWorker:
    number = 3

    def ended(self, within_s: float) -> str:
        return "exit status 7"
