"""The null server: connections, a listener, its script, its counts and its control path (/__null/...)."""

from __future__ import annotations

import asyncio
import base64
import gzip
import os
import socket
import ssl
import struct
import time
import zlib
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from pathlib import Path
from typing import cast

import httptools
import msgspec

from esbench.errors import UsageError
from esbench.measure.cpu_time import run_delay_ns
from esbench.measure.precise_timer import Alarm
from esbench.null_server.aws import SIGNED, UNSIGNED, Domain
from esbench.null_server.cluster import NullCluster
from esbench.null_server.indices import Answer, error_body
from esbench.null_server.log import LogLine, ReceivedCounts, RequestLog
from esbench.null_server.rules import Plan, Rules
from esbench.null_server.script import Outage, ScriptedReply, ServerScript, parse_script
from esbench.null_server.versions import parse_version
from esbench.null_server.wire import Head, Outgoing, Wire, head_of, scripted

_CONTROL = "/__null/"
_S = 1_000_000_000
_RESET_AFTER_NS = 2_000_000  # what was written before has left by then
_HEAD_BYTES = 2048
_NOT_REPEATED = {b"x-opaque-id", b"content-length", b"transfer-encoding"}  # headers
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class NullExchange:
    """A request whose reply waits until it is due, or until earlier replies have been written."""

    connection: NullConnection
    method: str
    target: str
    head: Head
    received_ns: int
    status: int
    outgoing: Outgoing
    delay_ns: int
    due: bool

    def become_due(self) -> None:
        self.due = True
        self.connection.advance()


class NullConnection(asyncio.Protocol):
    """The protocol of a connection: parses requests and hands them to the server.

    Clients repeat their header lines: lines that were seen before are looked up, not parsed again. That makes this
    server cheaper than the clients that it is there to measure.
    """

    def __init__(self, server: NullServerState) -> None:
        self._server = server
        self._heads = server.known_heads
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._fd = -1  # not to be written to directly
        self._pending: deque[NullExchange] = deque()
        self._in_message = False
        self._messages = 0
        self._url = b""
        self._headers: dict[bytes, bytes] = {}
        self._body: list[bytes] = []
        self.counted = False

    # asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if transport.get_extra_info("sslcontext") is None:
            self._fd = transport.get_extra_info("socket").fileno()
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._fd = -1
        self._parser = None
        self._server.connections.discard(self)
        for exchange in self._pending:
            self._server.log_exchange(exchange, None)
        self._pending.clear()

    def data_received(self, data: bytes) -> None:
        now_ns = time.monotonic_ns()
        self._server.timer.fire(now_ns)
        if not self._in_message and len(data) < _HEAD_BYTES:  # a longer one carries a body
            end = data.find(b"\r\n")
            head = self._heads.get(data[end:])
            if head is not None and data[end - 8 : end] == b"HTTP/1.1":
                method, _, target = data[: end - 9].partition(b" ")
                self._received(method.decode("latin-1"), target.decode("latin-1"), head, b"", now_ns)
                return
        self._parse(data)

    def _parse(self, data: bytes) -> None:
        parser = self._parser
        if parser is None:
            return
        fresh, before = not self._in_message, self._messages
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade):
            self._server.malformed += 1
            self._refuse()
            return
        if fresh and self._messages == before + 1 and not self._in_message and len(data) < _HEAD_BYTES:
            self._remember(data)

    def _remember(self, data: bytes) -> None:
        """Keep the header lines of a request without a body that arrived alone and in one piece."""
        names = self._headers
        if self._server.domain or names.keys() & _NOT_REPEATED:
            return
        lines = data[data.find(b"\r\n") :]
        if lines.endswith(b"\r\n\r\n") and lines.count(b"\r\n\r\n") == 1 and len(self._heads) < 1024:
            self._heads[lines] = head_of(names, keep_alive=b"close" not in names.get(b"connection", b"").lower())

    # httptools

    def on_message_begin(self) -> None:
        self._in_message = True
        self._url = b""
        self._headers = {}
        self._body = []

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.lower()] = value

    def on_headers_complete(self) -> None:
        if self._headers.get(b"expect", b"").lower() == b"100-continue" and self._transport:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        now_ns = time.monotonic_ns()
        self._in_message = False
        self._messages += 1
        parser = self._parser
        if parser is None:
            return
        head = head_of(self._headers, keep_alive=parser.should_keep_alive())
        method = parser.get_method().decode()
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if (domain := self._server.domain) is not None:
            is_signed = domain.has_signed(method, self._url.decode("latin-1"), self._headers, body)
            head = replace(head, authorization=SIGNED if is_signed else b"")
        if head.gzip_body:
            try:
                body = gzip.decompress(body)
            except (OSError, EOFError, zlib.error):
                self._server.malformed += 1
                self._refuse()
                return
        self._received(method, self._url.decode("latin-1"), head, body, now_ns)

    # requests and replies

    def _received(self, method: str, target: str, head: Head, body: bytes, now_ns: int) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        server = self._server
        answer, plan = server.handle(self, method, target, head, body, now_ns)
        is_simple = plan is None and not self._pending and head.is_plain and method != "HEAD"
        if is_simple and not server.is_logged(target):
            self._write(server.wire.plain(*answer))
            return
        outgoing = server.wire.outgoing(answer, method, head, plan)
        delay_ns = plan.due_ns - now_ns if plan else 0
        exchange = NullExchange(self, method, target, head, now_ns, answer[0], outgoing, delay_ns, delay_ns == 0)
        self._pending.append(exchange)
        if exchange.due:
            self.advance()
        elif plan:
            server.timer.at(plan.due_ns, exchange.become_due)

    def advance(self) -> None:
        """Write the replies that are due, in the order of the requests."""
        pending = self._pending
        while pending and pending[0].due and self._transport is not None:
            exchange = pending[0]
            outgoing = exchange.outgoing
            if outgoing.pieces:
                self._write(outgoing.pieces.popleft())
                if outgoing.pieces:
                    exchange.due = False
                    self._server.timer.at(time.monotonic_ns() + outgoing.pause_ns, exchange.become_due)
                    return
            if outgoing.ending == "silence":
                return  # for ever: later requests of this connection wait behind it
            if outgoing.ending == "reset":
                self._server.timer.at(time.monotonic_ns() + _RESET_AFTER_NS, self.reset)
                return
            pending.popleft()
            self._server.log_exchange(exchange, time.monotonic_ns() if outgoing.is_answer else None)
            if outgoing.ending == "close":
                self._fd = -1
                self._transport.close()
                return

    def _write(self, data: bytes) -> None:
        """Write to the socket directly, and through the transport what does not fit.

        uvloop writes at the end of its turn only: of many replies that are due at once, all would leave after the last
        one was made, and the log would be early.
        """
        assert self._transport is not None
        if self._fd >= 0:
            try:
                written = os.write(self._fd, data)
            except OSError:  # full, or lost: that is the transport's to find out
                written = 0
            if written == len(data):
                return
            self._fd = -1
            data = data[written:]
        self._transport.write(data)

    def reset(self) -> None:
        """End the connection with an RST."""
        if self._transport is None:
            return
        self._fd = -1
        raw = self._transport.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
        self._transport.abort()

    def _refuse(self) -> None:
        """Answer input that is not HTTP as Netty does, and close the connection."""
        if self._transport is not None:
            self._fd = -1
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
            self._transport.close()


class Timer:
    """Callbacks at absolute times of CLOCK_MONOTONIC, accurate to tens of microseconds: a heap behind one alarm."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._armed_ns = 0  # 0: not armed
        self._alarm = Alarm(loop, self._wake)

    def at(self, due_ns: int, callback: Callable[[], None]) -> None:
        """Call back at `due_ns`, after earlier calls of this method with the same time."""
        self._sequence += 1
        heappush(self._heap, (due_ns, self._sequence, callback))
        if not self._armed_ns or due_ns < self._armed_ns:
            self._arm(due_ns)

    def fire(self, now_ns: int) -> None:
        """Run the callbacks that are due.

        Also called between requests, so that a burst of requests delays none of them.
        """
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            heappop(heap)[2]()

    def close(self) -> None:
        self._heap.clear()
        self._alarm.close()

    def _arm(self, due_ns: int) -> None:
        self._armed_ns = due_ns
        self._alarm.set(due_ns)

    def _wake(self) -> None:
        self._armed_ns = 0
        self.fire(time.monotonic_ns())
        if self._heap and not self._armed_ns:
            self._arm(self._heap[0][0])


class NullServerState:
    """All state of one null server; `NullConnection` objects call it.

    It is made inside of a running event loop. Without `log` it keeps no log, without `tls` it speaks plain HTTP.
    """

    def __init__(self, script: ServerScript, *, log: Path | None = None, tls: ssl.SSLContext | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self.timer = Timer(self._loop)
        self.known_heads: dict[bytes, Head] = {}
        self.connections: set[NullConnection] = set()
        self.malformed = 0
        self._log = RequestLog(log) if log else None
        self._tls = tls
        self._address: tuple[str, int] = ("127.0.0.1", 0)
        self._listener: asyncio.AbstractServer | None = None
        self._opening: asyncio.Task[int] | None = None
        self._cluster_key: tuple[str, bool, bool] | None = None
        self.set_script(script)

    # life

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port; 0 asks for a free one. Raises OSError if it cannot."""
        self._address = (host, port)
        self._address = (host, await self._listen())
        return self._address[1]

    async def stop(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self.connections):
            connection.reset()
        await asyncio.sleep(0.01)  # connections log what they still owe
        self.timer.close()
        if self._log:
            self._log.close()

    async def _listen(self) -> int:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(self._address)
        port = int(listening.getsockname()[1])
        self._listener = await self._loop.create_server(
            lambda: NullConnection(self), sock=listening, backlog=4096, ssl=self._tls
        )
        return port

    # script

    def set_script(self, script: ServerScript) -> None:
        """Set a script: start its clock, reset counts and log.

        Indices and documents stay, unless the script has another version, `store` or `bulk_items`.
        """
        version = parse_version(script.version)
        key = (script.version, script.store, script.bulk_items)
        if key != self._cluster_key:
            self._cluster = NullCluster(version, store=script.store, bulk_items=script.bulk_items)
            self._cluster_key = key
            self.wire = Wire(version)
        self._script = script
        self._start_ns = time.monotonic_ns()
        self._rules = Rules(script, self._start_ns)
        self.domain = Domain(script.aws) if script.aws else None
        self._credentials = {_basic(name, password) for name, password in script.users.items()}
        self._credentials |= {token.encode("latin-1") for token in script.tokens}
        self._credentials |= {SIGNED} if self.domain else set()
        self._by_class: Counter[str] = Counter()
        self._per_second: Counter[int] = Counter()
        self._connections_seen = 0
        self.malformed = 0
        self._cluster.documents = 0
        for connection in self.connections:
            connection.counted = False
        if self._log:
            self._log.clear()
        for outage in script.refuse:
            self._plan_outage(outage)

    def _plan_outage(self, outage: Outage) -> None:
        script = self._script

        def begin() -> None:
            if self._script is script and self._listener is not None:
                self._listener.close()
                self._listener = None
                for connection in list(self.connections) if outage.cut else ():
                    connection.reset()

        def end() -> None:
            if self._listener is None and (self._opening is None or self._opening.done()):
                self._opening = self._loop.create_task(self._listen())
                self._opening.add_done_callback(asyncio.Task.result)  # stderr shows that a port is taken

        self.timer.at(self._start_ns + round(outage.at_s * _S), begin)
        self.timer.at(self._start_ns + round((outage.at_s + outage.for_s) * _S), end)

    # requests

    def handle(
        self, connection: NullConnection, method: str, target: str, head: Head, body: bytes, now_ns: int
    ) -> tuple[Answer, Plan | None]:
        """Return the answer, and its plan if a rule matches.

        The request is counted and carried out, unless a rule replies in its place. Control requests are answered, not
        counted; so are those with wrong credentials, by a 401. `target` is path and query, `now_ns` (CLOCK_MONOTONIC)
        when it was complete.
        """
        path, _, query = target.partition("?")
        if path.startswith(_CONTROL):
            return self._control(method, path.removeprefix(_CONTROL), body), None
        if not connection.counted:
            connection.counted = True
            self._connections_seen += 1
        if self._credentials and head.authorization not in self._credentials:
            return scripted(UNSIGNED if self.domain else ScriptedReply(status=401)), None
        request = self._cluster.route(method, path, query, body)
        self._by_class[request.label] += 1
        self._per_second[(now_ns - self._start_ns) // _S] += 1
        plan = self._rules.plan(method, target, now_ns) if self._rules else None
        if plan is not None and plan.reply is not None:
            return scripted(plan.reply), plan
        if plan is not None:
            request.refuse_item = plan.refuse_item
        return self._cluster.answer(request), plan

    def is_logged(self, target: str) -> bool:
        """True if a request belongs in the log: all but control requests, if a log is kept."""
        return self._log is not None and not target.startswith(_CONTROL)

    def log_exchange(self, exchange: NullExchange, answered_ns: int | None) -> None:
        if self._log is not None and self.is_logged(exchange.target):
            opaque_id = exchange.head.opaque_id.decode("latin-1")
            facts = (exchange.method, exchange.target, opaque_id, exchange.status, exchange.delay_ns / 1e6)
            self._log.write(LogLine(exchange.received_ns, answered_ns, *facts))

    # control

    def _control(self, method: str, name: str, body: bytes) -> Answer:  # noqa: PLR0911 - one for each request
        match method, name:
            case "GET", "counts":
                return 200, msgspec.json.encode(self._counts())
            case "GET", "log":
                if self._log is None:
                    return _refusal(404, "this server keeps no log: start it with --log FILE")
                return 200, self._log.read()
            case "POST", "reset":
                self.set_script(self._script)
                return 200, b"{}"
            case "GET", "script":
                return 200, msgspec.json.encode(self._script)
            case "PUT", "script":
                try:
                    self.set_script(parse_script(msgspec.json.decode(body or b"{}")))
                except (UsageError, msgspec.DecodeError) as error:
                    return _refusal(400, str(error))
                return 200, b"{}"
        known = "GET counts, GET log, GET script, PUT script, POST reset"
        return _refusal(404, f"no control request {method} {name}; known: {known}")

    def _counts(self) -> ReceivedCounts:
        seconds = range(max(self._per_second, default=-1) + 1)
        return ReceivedCounts(
            requests=self._by_class.total(),
            documents=self._cluster.documents,
            connections=self._connections_seen,
            malformed=self.malformed,
            by_class=dict(self._by_class),
            per_second=[self._per_second[second] for second in seconds],
            busy_s=time.process_time() + run_delay_ns() / _S,
        )


def _refusal(status: int, reason: str) -> Answer:
    return status, error_body(status, "null_server_exception", reason)


def _basic(name: str, password: str) -> bytes:
    return b"Basic " + base64.b64encode(f"{name}:{password}".encode())
