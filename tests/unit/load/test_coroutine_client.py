"""A client of a library: what has to be given up, and why."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from esbench.cluster.options import Access, ClientOptions, Host
from esbench.load.client import Route
from esbench.load.coroutine_client import CoroutineClient
from esbench.load.failures import Failures
from esbench.load.hosts import Hosts
from esbench.load.hot import Inbox
from esbench.measure.verdict import TIMEOUT
from esbench.record.secrets import Redactor


class Waiting(CoroutineClient):
    """A client whose requests end when they are given up; `ended` has why."""

    def __init__(self, route: Route) -> None:
        super().__init__(0, route)
        self.ended: list[str | None] = []

    async def turn(self, due_ns: int, warmup: bool) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.ended.append(self.given_up.error)


def test_a_request_that_is_cancelled_after_a_timed_out_one_is_no_timeout() -> None:
    async def given_up() -> list[str | None]:
        hosts = Hosts([Host("127.0.0.1")], ClientOptions(), lost=lambda: None, back=lambda: None)
        client = Waiting(Route(hosts, Access(), b"", 60.0, Failures(Redactor(())), False, Inbox()))
        begun = [True, True]

        def freed(_: object) -> None:
            if begun.pop() and begun:
                client.begin(0, False)

        client.loop = SimpleNamespace(freed=freed)  # type: ignore[assignment]
        client.begin(0, False)
        await asyncio.sleep(0)
        client.give_up(TIMEOUT, "no reply")
        for _ in range(3):
            await asyncio.sleep(0)
        client.close()
        for _ in range(3):
            await asyncio.sleep(0)
        return client.ended

    assert asyncio.run(given_up()) == [TIMEOUT, "cancelled"]
