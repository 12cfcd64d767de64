"""The client of a task with a runner of the track: it runs a coroutine once per turn, on a client library.

The service time is from the first byte of the turn's first request to the last byte of its last reply, as far as the
library shows them.
"""

from __future__ import annotations

import asyncio
from typing import Any

from esbench.features.python.custom_runners import RunnerTurns
from esbench.load.client import Route
from esbench.load.coroutine_client import CoroutineClient
from esbench.load.hosts import HostChoice
from esbench.load.hot import clock_ns
from esbench.load.messages import Target
from esbench.measure.verdict import Verdict
from esbench.requests.exchange import RequestFailed

_CLOSE_S = 1.0


class PythonClient(CoroutineClient):
    """One client slot of a task with a runner of the track."""

    def __init__(self, slot: int, route: Route, turns: RunnerTurns, target: Target) -> None:
        super().__init__(slot, route)
        self.draw = turns.draw
        self.turns = turns
        self._target = target
        self._clients: dict[str, Any] = {}
        self._warmup = False
        self._received_ns = 0
        self._closing: set[asyncio.Task[None]] = set()

    @property
    def received_ns(self) -> int:
        return self._received_ns

    async def connect(self) -> None:
        """Check that the client's host can be reached, and open the library's connections, one to each cluster."""
        from esbench.features.python.runner_client import RunnerClient

        await super().connect()
        self.link.close()
        for name, target in self._target.clusters.items():
            is_own = name == self.turns.cluster
            if not is_own and not self.turns.is_for_all_clusters:
                continue
            hosts = _own_first(self._route.hosts, self.slot) if is_own else target.hosts
            version = ".".join(map(str, target.dialect.version))
            client = RunnerClient.connect(hosts, target.options, self._route.timeout_s, version)
            self._clients[name] = client
            await client.open()

    def close(self) -> None:
        if self._task is not None and self._task is not _current_task():
            self._task.cancel()
        clients, self._clients = self._clients, {}
        for client in clients.values():
            closing = asyncio.get_running_loop().create_task(_close(client))
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def turn(self, due_ns: int, warmup: bool) -> None:
        from esbench.features.python.runner_client import RequestTiming, begin_turn

        self._warmup = warmup
        begun_ns = clock_ns()
        timing = RequestTiming(first_sent=self._first_sent, replied=self._replied)
        begin_turn(timing)
        try:
            verdict = await self.turns.run(self._clients, self.drawn)
        except RequestFailed as failure:
            verdict = Verdict(0, failure.kind, failure.detail)
        except asyncio.CancelledError:
            verdict = self.given_up
            timing.last_received_ns = 0
        except Exception as error:  # noqa: BLE001 - it ends the race, and the turn all the same
            asyncio.get_running_loop().call_exception_handler({"message": "a runner failed", "exception": error})
            verdict = Verdict(0, "cancelled", "its runner failed")
        if verdict.error is not None:
            status, body = (verdict.evidence.status, verdict.evidence.body) if verdict.evidence else (None, "")
            verdict = self._route.failures.explain(verdict, timing.request.encode, status, body.encode())
        self._received_ns = max(self._received_ns, timing.last_received_ns)
        received_ns = timing.last_received_ns or clock_ns()
        sent_ns = timing.first_sent_ns
        if not sent_ns:
            sent_ns = begun_ns
            self._first_sent(begun_ns)
        self.loop.recorder.completed(due_ns, self.free_ns, sent_ns, received_ns, warmup, verdict)
        if verdict.error is not None:
            self.loop.failed(verdict)
        self.free_ns = received_ns  # what its runner did after its last reply is the driver's lag, not client wait

    def _first_sent(self, sent_ns: int) -> None:
        self.loop.recorder.sent(sent_ns, self._warmup)

    def _replied(self, status: int) -> None:
        self.loop.recorder.exchanged(self.link, status, clock_ns(), self._warmup)


def _own_first(hosts: HostChoice, slot: int) -> list[Any]:
    own = hosts.choose(slot)
    return [own, *(host for host in hosts.all if host != own)]


def _current_task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


async def _close(es: Any) -> None:
    try:
        async with asyncio.timeout(_CLOSE_S):
            await es.close()
    except TimeoutError:
        pass  # the process ends soon; nothing is lost
