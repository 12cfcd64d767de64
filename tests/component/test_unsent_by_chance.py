"""Chance leaves no arrival of a healthy task unsent, however its window happens to end.

An arrival stands in line at the end of one in 16 such tasks, but more of them than there are clients in one of 1,200
only (in one of 180 with exponential service times; by simulation). The seeds were chosen among
many for windows that end with a line, of up to two, six times: they test the rule, and say nothing of its rate.
"""

from __future__ import annotations

import asyncio

import pytest
from held_clients import HeldClient

from esbench.load.hot import clock_ns
from esbench.load.loops import NS, Length, OpenLoop
from esbench.load.recorder import Recorder
from esbench.measure.schedule import arrivals
from esbench.measure.slices import WholeTime
from esbench.model import Schedule
from esbench.units import Rate

pytestmark = pytest.mark.alone

CLIENTS = 4
PER_S = 200  # with 10 ms for each request, the clients are busy half of the time
SERVICE_S = 0.01
SEEDS = range(2280, 2340)
AT_A_TIME = 10


class PromptClient(HeldClient):
    """A client whose requests all take the same time."""

    def begin(self, due_ns: int, warmup: bool) -> None:
        super().begin(due_ns, warmup)
        asyncio.get_running_loop().call_later(SERVICE_S, self.answer)


async def unsent(seed: int) -> int:
    """How many arrivals a task of half a second leaves."""
    start_ns = clock_ns() + NS // 1000
    end_ns = start_ns + NS // 2 + seed % AT_A_TIME * NS // 100
    ended = asyncio.Event()
    loop = OpenLoop(
        [PromptClient(slot, start_ns) for slot in range(CLIENTS)],
        Recorder(WholeTime(start_ns), is_open=True),
        Length(start_ns, end_ns),
        ended=ended.set,
        failed=lambda verdict: None,
        arrivals=arrivals(
            Schedule(kind="poisson", rate=Rate(PER_S, "ops")), seed=seed, clients=CLIENTS, slots=tuple(range(CLIENTS))
        ),
    )
    loop.start(start_ns)
    await asyncio.wait_for(ended.wait(), 60)
    loop.close()
    return loop.unsent


async def test_none_of_sixty_healthy_tasks_has_unsent_arrivals() -> None:
    found: list[int] = []
    for first in range(0, len(SEEDS), AT_A_TIME):
        found += await asyncio.gather(*(unsent(seed) for seed in SEEDS[first : first + AT_A_TIME]))
    assert found == [0] * len(SEEDS)
