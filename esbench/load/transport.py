"""One keep-alive HTTP/1.1 connection: bytes out, a reply in, one timestamp each. Parsing is llhttp's.

One request is in flight at a time. The connection knows nothing of tasks, retries or what a reply means.
"""

from __future__ import annotations

import asyncio
import gzip
import ssl
import time
import zlib
from collections.abc import Sequence
from typing import Protocol, cast

import httptools

from esbench.client_options import ClientOptions, Host

_GZIP_MAGIC = b"\x1f\x8b"
clock_ns = time.perf_counter_ns  # CLOCK_MONOTONIC on Linux: one clock for all processes of a host


class Owner(Protocol):
    """Who is told what became of the request."""

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None: ...
    def on_failure(self, kind: str, detail: str) -> None: ...
    def on_idle_loss(self) -> None: ...


class Connection(asyncio.Protocol):
    """A connection of one client. `sent_ns` is the first byte of the request, `deadline_ns` when it times out."""

    __slots__ = (
        "_body",
        "_data_ns",
        "_owner",
        "_parser",
        "_transport",
        "deadline_ns",
        "in_flight",
        "sent_ns",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._body: list[bytes] = []
        self._data_ns = 0
        self.in_flight = False
        self.sent_ns = 0
        self.deadline_ns = 0

    def send(self, pieces: Sequence[bytes | bytearray | memoryview], timeout_ns: int) -> None:
        """Write one request; its reply or failure comes to the owner."""
        assert self._transport is not None
        self.in_flight = True
        self.sent_ns = sent_ns = clock_ns()
        self.deadline_ns = sent_ns + timeout_ns
        if len(pieces) == 1:
            self._transport.write(pieces[0])
        else:
            self._transport.writelines(pieces)

    def fail(self, kind: str, detail: str) -> None:
        """Give up on the request in flight, and on the connection with it."""
        self.in_flight = False
        self.close()
        self._owner.on_failure(kind, detail)

    def close(self) -> None:
        """Drop the connection without a word to the owner."""
        self.in_flight = False
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()

    @property
    def usable(self) -> bool:
        return self._transport is not None

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance

    def data_received(self, data: bytes) -> None:
        self._data_ns = clock_ns()
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            cause = error.__context__
            if cause is not None and not isinstance(cause, httptools.HttpParserError):
                raise cause from None  # raised by a callback: ours, not the server's
            if self.in_flight:
                self.fail("bad response", f"not HTTP/1.1: {error}: {data[:80]!r}")
            else:
                self.close()
                self._owner.on_idle_loss()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return  # closed by us
        self._transport = None
        if self.in_flight:
            self.in_flight = False
            self._owner.on_failure("connection lost", str(exc) if exc else "the server closed it before its reply")
        else:
            self._owner.on_idle_loss()

    # httptools callbacks

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        pieces, self._body = self._body, []
        status = self._parser.get_status_code()
        if status < 200 or not self.in_flight:
            return  # an interim reply, or given up on already
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        # Told by its first bytes, which no JSON has: to look at headers costs a call for each of them.
        if body[:2] == _GZIP_MAGIC:
            try:
                body = gzip.decompress(body)
            except (OSError, EOFError, zlib.error) as error:
                self.fail("bad response", f"not gzip: {error}: {body[:80]!r}")
                return
        self.in_flight = False
        if not self._parser.should_keep_alive():
            self.close()
        self._owner.on_reply(status, body, self._data_ns)


async def connect(owner: Owner, host: Host, tls: ssl.SSLContext | None, timeout_s: float) -> Connection:
    """An open connection to a host; OSError (TLS errors are among them) or TimeoutError when there is none."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        _, connection = await loop.create_connection(
            lambda: Connection(owner), host.host, host.port, ssl=tls, server_hostname=host.host if tls else None
        )
    return connection


def header_lines(host: Host, options: ClientOptions) -> bytes:
    """The header lines that every request on a connection carries, with their line ends."""
    headers = [("Host", str(host)), ("Accept", "application/json"), *options.headers()]
    if options.http_compress:
        headers.append(("Accept-Encoding", "gzip"))
    return b"".join(f"{key}: {value}\r\n".encode("latin-1") for key, value in headers)
