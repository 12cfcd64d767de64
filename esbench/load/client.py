"""A simulated client: one connection, one request in flight. It sends when its loop says so and reports back.

A `TemplateClient` runs compiled exchanges by callbacks, since it is the hot path; a `ScriptClient` (script_client.py)
runs operations that decide from replies what to do next. Neither knows when requests are due, nor counts anything
itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from esbench.cluster.options import Access
from esbench.errors.reasons import reason_of
from esbench.load import open_files
from esbench.load.failures import Failures
from esbench.load.hosts import CONNECT_TIMEOUT_S, HostChoice
from esbench.load.hot import NEVER_NS, Inbox, Lane, Meter, clock_ns
from esbench.load.recorder import Recorder
from esbench.load.transport import Connection, connect
from esbench.measure.verdict import TIMEOUT, Verdict
from esbench.requests.exchange import ClientProgram, Exchange, RequestBytes, RequestFailed
from esbench.requests.templates import closes

NS = 1_000_000_000
_RECONNECT_PAUSE_S = 0.1  # doubled up to 1 s, so that a dead server is not hammered


class Loop(Protocol):
    """The loop of a client: decides when the client sends, and is called back when its request is over.

    `freed` is called when a request is over, good or failed, or `rests` if a pause follows until a time; `not_drawn`
    instead, when the client's next request could not be drawn, with what `draw` raised.
    """

    recorder: Recorder

    def failed(self, verdict: Verdict, /) -> None:
        """Take note of a failed request; `freed` follows."""

    def freed(self, client: Client) -> None: ...
    def rests(self, client: Client, until_ns: int) -> None: ...
    def not_drawn(self, client: Client, reason: Exception) -> None: ...


@dataclass(frozen=True)
class Route:
    """The way from a client to its cluster. `headers` are the header lines of each of its requests, to any host.

    `timeout_s` is the time limit of one request. `failures` keeps the examples of all
    clients of its task; with `compress`, bodies that scripts send are sent as gzip. `inbox` is where the connections of
    all clients of the process put what they read.
    """

    hosts: HostChoice
    access: Access
    headers: bytes
    timeout_s: float
    failures: Failures = field(default_factory=Failures)
    compress: bool = False
    inbox: Inbox = field(default_factory=Inbox)


class Client:
    """The base of both kinds of client: one connection, which is renewed when it was lost."""

    def __init__(self, slot: int, route: Route) -> None:
        self.slot = slot
        self.free_ns = 0
        self.loop: Loop
        self.meter: Meter  # of its loop
        self.draw: Callable[[], Any]  # the next request; raises Exhausted when there is none left
        self.drawn: Any = None
        self._route = route
        self._host = route.hosts.home(slot)
        self.timeout_ns = min(int(route.timeout_s * NS), NEVER_NS)
        self.link = Connection(self, route.inbox)  # closed; `connect` opens another one
        self.reads_headers = False  # of replies
        self.closes = closes(route.headers)  # whether the next request is the last one of its connection
        self.is_head = False  # whether the next request is a HEAD
        self._task: asyncio.Task[None] | None = None

    @property
    def received_ns(self) -> int:
        """The time of the last data from a host, as far as the current connection knows, in ns; 0 before any."""
        return self.link.received_ns

    async def connect(self) -> None:
        """Open a connection to the client's host, or to another one while that is lost.

        Raises RequestFailed if it cannot be opened, RaceError if no further file can be.
        """
        route = self._route
        self.link.close()
        async with route.hosts.connecting:
            self._host = host = route.hosts.choose(self.slot)
            try:
                self.link = await connect(
                    self, route.inbox, host, route.access, CONNECT_TIMEOUT_S, with_headers=self.reads_headers
                )
            except (OSError, TimeoutError) as error:
                if open_files.are_exhausted(error):
                    raise open_files.exhausted() from error
                reason = reason_of(error)
                route.hosts.lose(host, reason)
                raise RequestFailed("connection refused", f"{host.label}: {reason}") from error
        self.link.say_next(is_last=self.closes, is_head=self.is_head)

    def return_home(self) -> None:
        """Use the client's own host again from its next request on, if it is back and another one is in use."""
        if self._host != self._route.hosts.choose(self.slot):
            self.link.retire()

    def sweep(self, now_ns: int) -> None:
        """Fail the request in flight, as a timeout, if its time limit has passed at `now_ns` (of `clock_ns`)."""
        connection = self.link
        if connection.in_flight and now_ns >= connection.deadline_ns:
            allowed_s = (connection.deadline_ns - connection.sent_ns) / NS
            connection.fail(TIMEOUT, f"no reply from {self._host.label} within {allowed_s:g} s")

    def give_up(self, kind: str, detail: str) -> None:
        """Fail the request in flight now, if there is one, with this kind of failure (`Verdict.error`) and detail."""
        if self.link.in_flight:
            self.link.fail(kind, detail)

    def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self.link.close()

    def begin(self, due_ns: int, warmup: bool) -> None:
        """Send the request in `drawn`; the loop's `freed` is called when it is over.

        `due_ns` is its due time (of `clock_ns`), 0 in a closed loop. With `warmup`, it is counted in the warmup.
        """
        raise NotImplementedError

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        raise NotImplementedError

    def on_failure(self, kind: str, detail: str) -> None:
        raise NotImplementedError

    def on_idle_loss(self) -> None:
        """Do nothing: the next request opens a new connection."""

    async def _send_anew(self, render: Callable[[], RequestBytes], timeout_ns: int) -> None:
        """Send a request on a new connection. Raises RequestFailed if it cannot be opened or is closed at once."""
        await self.connect()
        if not (self.link.usable and self.link.send(render(), timeout_ns)):
            reason = "closed the connection as soon as it was open"
            self._route.hosts.lose(self._host, reason)
            raise RequestFailed("connection lost", f"{self._host.label} {reason}")
        self.return_home()  # which may have been back while this connection was opened

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        self._task = asyncio.get_running_loop().create_task(work)
        self._task.add_done_callback(_raise_unexpected)


def _raise_unexpected(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        task.get_loop().call_exception_handler({"message": "a client failed", "exception": error})


def _signed(exchange: Exchange, access: Access) -> Exchange:
    """Return an exchange whose requests are signed if those of the race are."""
    if access.signer is None:
        return exchange
    signed, render = access.signed, exchange.render
    return replace(exchange, render=lambda drawn: signed(render(drawn)))


class TemplateClient(Lane, Client):
    """A client that runs the exchanges of a compiled operation, one after the other, on its connection."""

    link: Connection
    loop: Loop

    def __init__(self, slot: int, route: Route, program: ClientProgram) -> None:
        Client.__init__(self, slot, route)
        self._exchanges = exchanges = [_signed(exchange, route.access) for exchange in program.exchanges]
        self._exchange = exchanges[0]
        self._closes_all = self.closes
        self.closes = self.closes or exchanges[0].closes
        self.is_head = exchanges[0].is_head
        self.is_plain = len(exchanges) == 1 and not exchanges[0].name
        self.render, self.judge = self._exchange.render, self._exchange.judge
        self.draw = program.draw
        self._position = 0
        self._part_sent_ns = 0
        self._pausing = False
        self._pause_s = _RECONNECT_PAUSE_S

    def begin_slowly(self) -> None:
        self._turn_to(0)
        if self.link.usable and self.link.send(self.render(self.drawn), self.timeout_ns):
            self.sent_ns = self.link.sent_ns
        else:
            self.sent_ns = clock_ns()  # to connect first is the host's doing: service time, not driver lag
            self._spawn(self._reconnect_and_send())
        self._part_sent_ns = self.sent_ns
        self.meter.sent(self.sent_ns, self.warmup)

    def _turn_to(self, position: int) -> None:
        """Make the exchange at `position` of the sequence the current one."""
        if position != self._position:
            self._position, self._exchange = position, self._exchanges[position]
            self.render, self.judge = self._exchange.render, self._exchange.judge
            self.closes, self.is_head = self._closes_all or self._exchange.closes, self._exchange.is_head
            self.link.say_next(is_last=self.closes, is_head=self.is_head)

    def give_up(self, kind: str, detail: str) -> None:
        Client.give_up(self, kind, detail)
        if self._task is not None and not self._task.done():  # connecting, or pausing after it failed
            self._task.cancel()
            if not self._pausing:
                self._count_failure(clock_ns(), Verdict(0, kind, detail))
            self._free()

    def on_verdict(self, status: int, body: bytes, received_ns: int, verdict: Verdict) -> None:
        if verdict.error is not None:
            self.link.drop_if_unsent()
            if verdict.again_after_s is None:
                self._fail(received_ns, verdict, status, body)
            else:
                self.loop.recorder.tried(received_ns, self.warmup, verdict)
                self._spawn(self._try_again(verdict.again_after_s))
            return
        if not self.is_plain and self._goes_on(received_ns):
            return
        self.loop.recorder.completed(self.due_ns, self.free_ns, self.sent_ns, received_ns, self.warmup, verdict)
        self.free_ns = received_ns
        self.loop.freed(self)

    def on_failure(self, kind: str, detail: str) -> None:
        failed_ns = clock_ns()
        self.meter.exchanged(self.link, 0, failed_ns, self.warmup)
        self._fail(failed_ns, Verdict(0, kind, detail))

    def _fail(self, at_ns: int, verdict: Verdict, status: int | None = None, body: bytes = b"") -> None:
        self._count_failure(at_ns, verdict, status, body)
        self.free_ns = at_ns
        self.loop.freed(self)

    def _goes_on(self, received_ns: int) -> bool:
        """Count one exchange of a sequence under its name and send the next one; False after the last one."""
        self._record_part(received_ns)
        if self._position + 1 == len(self._exchanges):
            return False
        self._turn_to(self._position + 1)
        if self.link.usable and self.link.send(self.render(self.drawn), self.timeout_ns):
            self._part_sent_ns = self.link.sent_ns
        else:
            self._part_sent_ns = clock_ns()
            self._spawn(self._reconnect_and_send())
        return True

    def _record_part(self, at_ns: int, error: str | None = None) -> None:
        self.loop.recorder.part(self._exchange.name, self._part_sent_ns, at_ns, self.warmup, error)

    def _count_failure(self, at_ns: int, verdict: Verdict, status: int | None = None, body: bytes = b"") -> None:
        """Count the request, and with it the rest of a sequence, as failed."""
        if not self.is_plain:
            self._record_part(at_ns, verdict.error)
        verdict = self._route.failures.explain(verdict, self._request, status, body)
        self.loop.recorder.completed(self.due_ns, self.free_ns, self.sent_ns, at_ns, self.warmup, verdict)
        self.loop.failed(verdict)

    def _request(self) -> bytes:
        """Return the head of the request, rendered once more: values that depend on the time may be later in it."""
        return bytes(self.render(self.drawn)[0])

    def _free(self) -> None:
        self._pausing = False
        self.free_ns = clock_ns()
        self.loop.freed(self)

    async def _try_again(self, after_s: float) -> None:
        """Send what is left of the request after a pause; its service time goes on."""
        await asyncio.sleep(after_s)
        connection = self.link
        if not (connection.usable and connection.send(self.render(self.drawn), self.timeout_ns)):
            await self._reconnect_and_send()

    async def _reconnect_and_send(self) -> None:
        try:
            await self._send_anew(lambda: self.render(self.drawn), self.timeout_ns)
        except RequestFailed as failure:
            self._count_failure(clock_ns(), Verdict(0, failure.kind, failure.detail))
            if self._route.hosts.none_left:
                self._pausing = True
                await asyncio.sleep(self._pause_s)
                self._pause_s = min(1.0, self._pause_s * 2)
            self._free()
        else:
            self._pause_s = _RECONNECT_PAUSE_S
