"""One client connection of a null server: requests in, replies out in the order of the requests."""

from __future__ import annotations

import asyncio
import gzip
import os
import socket
import struct
import time
import zlib
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import httptools

from esbench.null_server.wire import Head, Outgoing

if TYPE_CHECKING:
    from esbench.null_server.server import Server

_RESET_AFTER_NS = 2_000_000  # what was written before has left by then
_HEAD_BYTES = 2048
_NO_LINGER = struct.pack("ii", 1, 0)


@dataclass(slots=True, eq=False)
class Exchange:
    """A request whose reply waits until it is due, or until earlier replies have been written."""

    connection: Connection
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


class Connection(asyncio.Protocol):
    """The protocol of a connection: parses requests and hands them to the server.

    Clients repeat their header lines: lines that were seen before are looked up, not parsed again. That makes this
    server cheaper than the clients that it is there to measure.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._heads = server.known_heads
        self._parser: httptools.HttpRequestParser | None = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._fd = -1  # not to be written to directly
        self._pending: deque[Exchange] = deque()
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
        if b"x-opaque-id" in names or b"content-length" in names or b"transfer-encoding" in names:
            return
        lines = data[data.find(b"\r\n") :]
        if lines.endswith(b"\r\n\r\n") and lines.count(b"\r\n\r\n") == 1 and len(self._heads) < 1024:
            self._heads[lines] = _head(names, keep_alive=b"close" not in names.get(b"connection", b"").lower())

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
        head = _head(self._headers, keep_alive=parser.should_keep_alive())
        body = self._body[0] if len(self._body) == 1 else b"".join(self._body)
        if head.gzip_body:
            try:
                body = gzip.decompress(body)
            except (OSError, EOFError, zlib.error):
                self._server.malformed += 1
                self._refuse()
                return
        self._received(parser.get_method().decode(), self._url.decode("latin-1"), head, body, now_ns)

    # requests and replies

    def _received(self, method: str, target: str, head: Head, body: bytes, now_ns: int) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        server = self._server
        answer, plan, is_logged = server.handle(self, method, target, head, body, now_ns)
        if plan is None and not self._pending and not is_logged and head.is_plain and method != "HEAD":
            self._write(server.wire.plain(*answer))
            return
        outgoing = server.wire.outgoing(answer, method, head, plan)
        delay_ns = plan.due_ns - now_ns if plan else 0
        exchange = Exchange(self, method, target, head, now_ns, answer[0], outgoing, delay_ns, delay_ns == 0)
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


def _head(headers: dict[bytes, bytes], *, keep_alive: bool) -> Head:
    opaque_id = headers.get(b"x-opaque-id", b"")
    accepts_gzip = b"gzip" in headers.get(b"accept-encoding", b"")
    return Head(
        keep_alive=keep_alive,
        opaque_id=opaque_id,
        accepts_gzip=accepts_gzip,
        gzip_body=b"gzip" in headers.get(b"content-encoding", b""),
        is_plain=keep_alive and not opaque_id and not accepts_gzip,
        authorization=headers.get(b"authorization", b""),
    )
