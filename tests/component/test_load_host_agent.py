"""The agent of a load host, without Dask: how long it keeps its workers."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from esbench.hosts.agent import Agent, News


def test_workers_that_start_late_are_kept(esbench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between an agent and its workers come the facts, agents and workers of all other hosts."""
    monkeypatch.setattr("esbench.hosts.agent.ALONE_S", 0.2)

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
