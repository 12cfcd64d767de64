"""When an iteration of a track's own runner begins and ends, and whose time the rest is."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from held_clients import counted

from esbench.cluster.options import Access
from esbench.features.python.client import PythonClient
from esbench.features.python.runner_client import RunnerClient
from esbench.load.client import Route
from esbench.load.hot import clock_ns
from esbench.load.loops import NS, Length, OpenLoop
from esbench.load.recorder import Recorder
from esbench.measure.slices import WholeTime
from esbench.measure.verdict import GOOD, Verdict
from esbench.requests.exchange import Exhausted

AFTERWARDS_S = 0.3


class Turns:
    """A runner whose request is answered at once, and that goes on in Python for a while."""

    result: Mapping[str, Any] = {}
    counted: tuple[float, str] = (1, "ops")

    def __init__(self, count: int) -> None:
        self._left = count

    def draw(self) -> dict[str, Any]:
        if not self._left:
            raise Exhausted
        self._left -= 1
        return {}

    async def run(self, es: Any, params: dict[str, Any]) -> Verdict:
        RunnerClient.on_request_start()
        RunnerClient.on_request_end()
        await asyncio.sleep(AFTERWARDS_S)
        return GOOD


async def test_what_a_runner_does_after_its_last_reply_is_lag_of_the_next_arrival() -> None:
    hosts = SimpleNamespace(home=lambda slot: None)
    client = PythonClient(0, Route(hosts, Access(), b"", 5), Turns(3), None)  # type: ignore[arg-type]
    start_ns = clock_ns()
    recorder, ended = Recorder(WholeTime(start_ns), is_open=True), asyncio.Event()
    # the second arrival is due while the first iteration goes on, the third while the second one does
    loop = OpenLoop(
        [client],
        recorder,
        Length(requests=3),
        ended=ended.set,
        failed=lambda verdict: None,
        arrivals=iter([0, NS // 100, NS // 50]),
    )
    loop.start(start_ns)
    await asyncio.wait_for(ended.wait(), 60)
    tally = counted(recorder)
    assert tally.requests == 3
    assert tally.driver_lag.max_ns > 0.9 * AFTERWARDS_S * NS
    assert tally.client_wait.max_ns < tally.driver_lag.max_ns
    assert tally.service_time.max_ns < AFTERWARDS_S * NS
