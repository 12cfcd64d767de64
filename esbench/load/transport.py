"""One keep-alive HTTP/1.1 connection: bytes out, a reply in, one timestamp each. Parsing is llhttp's.

One request is in flight at a time. The connection knows nothing of tasks, retries or what a reply means.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import ssl
import time
import zlib
from collections.abc import Sequence
from typing import Protocol, cast

import httptools

from esbench.client_options import ClientOptions, Host

_GZIP = 0x1F  # the first byte of gzip data
_NOT_GZIP = (OSError, EOFError, zlib.error)
_SHOWN = 1_000  # bytes of what is not understood
clock_ns = time.perf_counter_ns  # CLOCK_MONOTONIC on Linux: one clock for all processes of a host


class Owner(Protocol):
    """Who is told what became of the request."""

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None: ...
    def on_failure(self, kind: str, detail: str) -> None: ...
    def on_idle_loss(self) -> None: ...


class Connection(asyncio.BaseProtocol):
    """A connection of one client. `sent_ns` is the first byte of the request, `deadline_ns` when it times out."""

    __slots__ = (
        "_body",
        "_data_ns",
        "_fd",
        "_owner",
        "_parser",
        "_transport",
        "deadline_ns",
        "in_flight",
        "on_body",
        "sent_ns",
        "usable",
    )

    def __init__(self, owner: Owner) -> None:
        self._owner = owner
        self._transport: asyncio.Transport | None = None
        self._fd = -1
        self._body: list[bytes] = []
        self.on_body = self._body.append  # a callback of the parser
        self._parser = httptools.HttpResponseParser(self)
        self._data_ns = 0
        self.usable = False
        self.in_flight = False
        self.sent_ns = 0
        self.deadline_ns = 0

    def send(self, pieces: Sequence[bytes | bytearray | memoryview], timeout_ns: int) -> bool:
        """Write one request; its reply or failure comes to the owner.

        False when the connection turns out to be lost, so that nothing was sent: the owner hears no more of it.
        """
        self.sent_ns = sent_ns = clock_ns()
        self.deadline_ns = sent_ns + timeout_ns
        self.in_flight = True
        # Written to the socket itself: uvloop writes at the end of its turn only, after all that it does until then.
        try:
            if self._fd < 0:
                self._write_later(pieces, 0)
            elif len(pieces) == 1:
                (request,) = pieces
                written = os.write(self._fd, request)
                if written < len(request):
                    self._write_later(pieces, written)
            else:
                written = os.writev(self._fd, pieces)
                if written < sum(map(len, pieces)):
                    self._write_later(pieces, written)
        except BlockingIOError:
            self._write_later(pieces, 0)
        except OSError:
            self.close()
            return False
        return True

    def _write_later(self, pieces: Sequence[bytes | bytearray | memoryview], written: int) -> None:
        """Have the transport write what lies beyond the first `written` bytes, and all further requests."""
        assert self._transport is not None
        self._fd = -1
        if written:
            rest = []
            for piece in pieces:
                if written < len(piece):
                    rest.append(memoryview(piece)[written:])
                written = max(0, written - len(piece))
            pieces = rest
        self._transport.writelines(pieces)

    def fail(self, kind: str, detail: str) -> None:
        """Give up on the request in flight, and on the connection with it."""
        self.in_flight = False
        self.close()
        self._owner.on_failure(kind, detail)

    def retire(self) -> None:
        """Take no further request; what is in flight is still answered."""
        self.usable = False

    def drop_if_unsent(self) -> None:
        """Drop the connection when not all of the request is written: who refused it need not read the rest of it."""
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.close()

    def close(self) -> None:
        """Drop the connection without a word to the owner."""
        self.in_flight = self.usable = False
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self.usable = True
        if transport.get_extra_info("sslcontext") is None:
            self._fd = transport.get_extra_info("socket").fileno()

    def data_received(self, data: bytes | memoryview) -> None:
        self._data_ns = clock_ns()
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            cause = error.__context__
            if cause is not None and not isinstance(cause, httptools.HttpParserError):
                raise cause from None  # raised by a callback: ours, not the server's
            if self.in_flight:
                self.fail("bad response", f"not HTTP/1.1: {error}: {bytes(data[:_SHOWN])!r}")
            else:
                self.close()
                self._owner.on_idle_loss()

    def eof_received(self) -> None:
        """The server will send no more: a connection that is idle must not be used in the time until it is lost."""
        if not self.in_flight and self._transport is not None:
            self.close()
            self._owner.on_idle_loss()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is None:
            return  # closed by us
        self._transport = None
        self.usable = False
        if not self.in_flight:
            self._owner.on_idle_loss()
            return
        self.in_flight = False
        if exc is not None:
            self._owner.on_failure("connection lost", str(exc) or type(exc).__name__)
        elif (body := self._body_that_ends_here()) is not None:
            self._owner.on_reply(self._parser.get_status_code(), body, self._data_ns)
        else:
            self._owner.on_failure("connection lost", "the server closed it before its reply was complete")

    def _body_that_ends_here(self) -> bytes | None:
        """The body of a reply that lasts as long as its connection, if it is whole.

        Whether it has another length is not known any more. But half of a JSON text is none.
        """
        if not self._body or self._parser.should_keep_alive():
            return None
        body = b"".join(self._body)
        try:
            body = gzip.decompress(body) if body[0] == _GZIP else body
            json.loads(body)
        except (*_NOT_GZIP, ValueError, RecursionError):
            return None
        return body

    # httptools callbacks

    def on_message_complete(self) -> None:
        pieces = self._body
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        status = self._parser.get_status_code()
        if status < 200:
            return  # an interim reply
        if not self.in_flight:
            self.close()  # nobody has asked: the next request must not take what follows for its reply
            self._owner.on_idle_loss()
            return
        # Told by its first byte, which no JSON has: to look at headers costs a call for each of them.
        if body and body[0] == _GZIP:
            try:
                body = gzip.decompress(body)
            except _NOT_GZIP as error:
                self.fail("bad response", f"not gzip: {error}: {body[:_SHOWN]!r}")
                return
        self.in_flight = False
        if not self._parser.should_keep_alive():
            self.close()
        self._owner.on_reply(status, body, self._data_ns)


class TlsConnection(Connection, asyncio.BufferedProtocol):
    """A connection over TLS: decrypted into one buffer, where uvloop would map 256 KiB anew for each read (13 us).

    It must be no asyncio.Protocol, or uvloop does not ask it for the buffer.
    """

    __slots__ = ()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _DECRYPTED

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(_DECRYPTED[:nbytes])


_DECRYPTED = memoryview(bytearray(1 << 16))  # of all connections: what is in it is taken before another one reads


async def connect(owner: Owner, host: Host, tls: ssl.SSLContext | None, timeout_s: float) -> Connection:
    """An open connection to a host; OSError (TLS errors are among them) or TimeoutError when there is none."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        _, connection = await loop.create_connection(
            lambda: TlsConnection(owner) if tls else Connection(owner),
            host.address or host.host,
            host.port,
            ssl=tls,
            server_hostname=host.host if tls else None,
        )
    return connection


def header_lines(host: Host, options: ClientOptions) -> bytes:
    """The header lines that every request on a connection carries, with their line ends."""
    headers = [("Host", str(host)), ("Accept", "application/json"), *options.headers()]
    if options.http_compress:
        headers.append(("Accept-Encoding", "gzip"))
    return b"".join(f"{key}: {value}\r\n".encode("latin-1") for key, value in headers)
