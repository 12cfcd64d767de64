"""A simulated client that runs a script: a coroutine that decides from replies what to do next.

It is the script's session, too. A script that sends several requests at once has a lane for each: a session with its
own connection. The loop decides when requests are due, as with every client.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote, urlencode

from esbench.load.client import NS, Client, Route
from esbench.load.hosts import OneHost
from esbench.load.hot import clock_ns
from esbench.load.transport import WithHeaders
from esbench.measure.verdict import Verdict
from esbench.requests.exchange import (
    Body,
    Concurrent,
    Exhausted,
    HttpScript,
    Reply,
    RequestBytes,
    RequestFailed,
    Script,
    ScriptSession,
)
from esbench.requests.templates import GZIP_HEADER, closes, compressed, is_encoded, json_text, without_headers

_Evidence = tuple[bytes, int | None, bytes]  # a request; status and body of its reply


@dataclass(slots=True)
class _Part:
    """A named part of a turn: from the first byte of its first request to the last byte of its last one."""

    name: str
    timeout_s: float | None
    sent_ns: int = 0
    received_ns: int = 0


@dataclass(slots=True)
class _Turn:
    """The state of one run of a client's script, shared by its lanes; `evidence` is of the first part that failed."""

    warmup: bool = False
    first_sent_ns: int = 0
    last_received_ns: int = 0
    evidence: _Evidence | None = None
    notes: dict[str, str] = field(default_factory=dict)


class ScriptLane(Client):
    """A session: one connection, one request at a time, within the turn that its client runs."""

    def __init__(self, slot: int, route: Route, client: ScriptClient | None = None) -> None:
        super().__init__(slot, route)
        self._client = client
        self._turn = _Turn()
        self._reply: asyncio.Future[Reply] | None = None
        self._request: Body = b""
        self.answer: Reply | None = None
        self.own_headers: Mapping[str, str] = {}
        self._parts: list[_Part] = []
        self.connected = False  # once: a connection that was lost is renewed by the next request

    async def connect(self) -> None:
        await super().connect()
        self.connected = True

    def take(self, turn: _Turn) -> None:
        """Begin a turn; the last request and reply are forgotten."""
        self._turn = turn
        self._request, self.answer = b"", None
        self._parts.clear()

    @property
    def evidence(self) -> _Evidence:
        """The last request, and status and body of its reply, if it had one."""
        answer = self.answer
        return bytes(self._request), answer.status if answer else None, answer.body if answer else b""

    # Session

    @property
    def notes(self) -> dict[str, str]:
        return self._turn.notes

    @property
    def lanes(self) -> Sequence[ScriptSession]:
        return (self,)

    @contextmanager
    def part(self, name: str, timeout_s: float | None = None) -> Iterator[None]:
        """Count the requests inside under a name, prefixed with that of the part around it.

        Without `timeout_s`, they have the timeout of the part around it.
        """
        around = self._parts[-1] if self._parts else None
        full_name = f"{around.name}/{name}" if around else name
        part = _Part(full_name, timeout_s or (around.timeout_s if around else None))
        self._parts.append(part)
        try:
            yield
        except RequestFailed as failure:
            self._turn.evidence = self._turn.evidence or self.evidence
            self._record(part, failure.kind)
            raise
        else:
            self._record(part)
        finally:
            self._parts.pop()

    async def pause(self, duration_s: float) -> None:
        """Wait as a part of the turn; a pause has no row in the results."""
        if not self._turn.first_sent_ns:
            self._owner.first_sent(clock_ns())
        await asyncio.sleep(duration_s)
        self._turn.last_received_ns = max(self._turn.last_received_ns, clock_ns())

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """Send one request and wait for its reply, whatever its status. Raises RequestFailed if none arrives.

        `path` is percent-encoded already; `params` are appended as its query. `body` is bytes, or a value to send as
        JSON; it is compressed where the client's route says so. `headers` win over `own_headers`, and both over the
        client's headers of the same name.
        """
        headers = {**self.own_headers, **(headers or {})}
        return await self.send((self._compose(method, path, params, body, headers),))

    async def send(self, request: RequestBytes) -> Reply:
        """Send a rendered request and wait for its reply, whatever its status. Raises RequestFailed if none arrives."""
        timeout_s = self._parts[-1].timeout_s if self._parts else None
        timeout_ns = int(timeout_s * NS) if timeout_s else self.timeout_ns
        self._request, self.answer = request[0], None
        self._reply = asyncio.get_running_loop().create_future()
        signed = self._route.access.signed(request)
        self.closes, self.is_head = closes(signed[0]), signed[0][:5] == b"HEAD "
        self.link.say_next(is_last=self.closes, is_head=self.is_head)
        if self.link.usable and self.link.send(signed, timeout_ns):
            self._began(self.link.sent_ns)
        else:
            self._began(clock_ns())
            try:
                await self._send_anew(lambda: signed, timeout_ns)
            except RequestFailed:
                self._ended(clock_ns())
                raise
        try:
            return await self._reply
        except asyncio.CancelledError:
            self.link.close()  # or its reply would be taken for that of the next request
            raise

    def _began(self, sent_ns: int) -> None:
        if not self._turn.first_sent_ns:
            self._owner.first_sent(sent_ns)
        for part in self._parts:
            part.sent_ns = part.sent_ns or sent_ns

    def _ended(self, received_ns: int) -> None:
        self._turn.last_received_ns = max(self._turn.last_received_ns, received_ns)
        for part in self._parts:
            part.received_ns = received_ns

    def _record(self, part: _Part, error: str | None = None) -> None:
        if part.sent_ns:
            self._owner.loop.recorder.part(part.name, part.sent_ns, part.received_ns, self._turn.warmup, error)

    def _count_exchange(self, status: int, at_ns: int) -> None:
        self._owner.loop.recorder.exchanged(self.link, status, at_ns, self._turn.warmup)

    @property
    def _owner(self) -> ScriptClient:
        assert self._client is not None
        return self._client

    def _compose(
        self, method: str, path: str, params: Mapping[str, Any] | None, body: Any, headers: Mapping[str, str]
    ) -> bytes:
        query = f"?{urlencode({key: _text(value) for key, value in params.items()}, quote_via=quote)}" if params else ""
        lines = [f"{method} {path}{query} HTTP/1.1\r\n".encode(), without_headers(self._route.headers, headers)]
        lines += [f"{name}: {value}\r\n".encode(errors="surrogateescape") for name, value in headers.items()]
        data = b""
        if body is not None:
            data = body if isinstance(body, bytes) else json_text(body).encode()
            if "content-type" not in {name.lower() for name in headers}:
                lines.append(b"Content-Type: application/json\r\n")
        if data and self._route.compress and not is_encoded(headers):
            data = compressed(data)
            lines.append(GZIP_HEADER)
        if data or method in ("POST", "PUT"):
            lines.append(b"Content-Length: %d\r\n" % len(data))
        return b"".join([*lines, b"\r\n", data])

    # Client

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        self._ended(received_ns)
        self._count_exchange(status, received_ns)
        headers = self.link.headers if isinstance(self.link, WithHeaders) else {}
        self.answer = reply = Reply(status, body, headers)
        if self._reply is not None and not self._reply.done():
            self._reply.set_result(reply)

    def on_failure(self, kind: str, detail: str) -> None:
        failed_ns = clock_ns()
        self._ended(failed_ns)
        self._count_exchange(0, failed_ns)
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(RequestFailed(kind, detail))


class ScriptClient(ScriptLane):
    """A client that runs a script once per turn, and is its first lane. Its service time spans all lanes' requests."""

    def __init__(self, slot: int, route: Route, script: Script) -> None:
        lanes = script.connections if isinstance(script, Concurrent) else 1
        routes = [route] * lanes
        if isinstance(script, HttpScript):
            routes = [replace(route, hosts=OneHost(route.hosts, position)) for position in script.hosts] or routes
        super().__init__(slot, routes[0], self)
        self._http = script if isinstance(script, HttpScript) else None
        self.draw = self._http.advance if self._http else lambda: None  # a script decides while it runs
        self._script = script
        self._further = tuple(ScriptLane(slot, own, self) for own in routes[1:])
        for lane in (self, *self._further):
            lane.reads_headers = isinstance(script, HttpScript) and script.reads_headers

    @property
    def lanes(self) -> Sequence[ScriptSession]:
        return (self, *self._further)

    async def connect(self) -> None:
        await super().connect()
        for lane in self._further:
            if not lane.connected:
                await lane.connect()

    def return_home(self) -> None:
        super().return_home()
        for lane in self._further:
            lane.return_home()

    def sweep(self, now_ns: int) -> None:
        super().sweep(now_ns)
        for lane in self._further:
            lane.sweep(now_ns)

    def close(self) -> None:
        super().close()
        for lane in self._further:
            lane.close()

    def begin(self, due_ns: int, warmup: bool) -> None:
        self._spawn(self._run(due_ns, warmup))

    def give_up(self, kind: str, detail: str) -> None:
        super().give_up(kind, detail)
        for lane in self._further:
            lane.give_up(kind, detail)
        if self._task is not None:
            self._task.cancel()

    async def _run(self, due_ns: int, warmup: bool) -> None:
        turn = _Turn(warmup)
        for lane in (self, *self._further):
            lane.take(turn)
        begun_ns = clock_ns()
        try:
            verdict = await self._script.run(self)
        except RequestFailed as failure:
            verdict = Verdict(0, failure.kind, failure.detail, details=failure.details)
        except Exhausted as reason:  # no value is left for the next request, and there is no further turn
            self.loop.not_drawn(self, reason)
            return
        except asyncio.CancelledError:
            verdict = Verdict(0, "cancelled", "the race was stopped")
            turn.last_received_ns = 0
        if verdict.error is not None:
            request, status, body = turn.evidence or self.evidence
            verdict = self._route.failures.explain(verdict, lambda: request, status, body)
        received_ns = turn.last_received_ns or clock_ns()
        if not turn.first_sent_ns:
            self.first_sent(begun_ns)
        self.loop.recorder.completed(due_ns, self.free_ns, turn.first_sent_ns, received_ns, warmup, verdict)
        if verdict.error is not None:
            self.loop.failed(verdict)
        self.free_ns = received_ns
        if self._http is not None and (rest_s := self._http.rest_s):
            self.loop.rests(self, received_ns + int(rest_s * NS))
        else:
            self.loop.freed(self)

    def first_sent(self, sent_ns: int) -> None:
        """Count the turn as sent, at its first byte."""
        self._turn.first_sent_ns = sent_ns
        self.loop.recorder.sent(sent_ns, self._turn.warmup)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
