"""One keep-alive HTTP/1.1 connection: bytes out, a reply in, one timestamp each. Parsing is llhttp's.

One request is in flight at a time. Replies that arrive together are all stamped before the first of them is handled, so
that none is charged for the handling of another. The connection knows nothing of tasks, retries or the meaning of a
reply.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from typing import Protocol, cast

import httptools

from esbench.cluster.bounded import NOT_GZIP, TooLong, unpacked
from esbench.cluster.options import Access, ClientOptions, Host
from esbench.errors.reasons import reason_of
from esbench.load.hot import Inbox, Link
from esbench.load.tunnel import tunnel
from esbench.requests.exchange import Reply, RequestBytes, RequestFailed

_GZIP = b"\x1f"  # the first byte of gzip data
_MOST_BYTES = 256 << 20  # of a reply's body; it holds a connection's memory until it is judged
_MOST_HEAD_BYTES = 1 << 20  # of heads whose end is not read yet, each read from a socket being at most 256 KiB
_SHOWN = 1_000  # bytes of what is not understood
_FINAL_HEAD = re.compile(
    rb"(?:^|\r\n\r\n)HTTP/1\.(\d) ([2-9]\d\d).*?\r\n\r\n", re.DOTALL
)  # not that of an interim reply (1xx)
_HAS_LENGTH = re.compile(rb"\r\n(?:content-length|transfer-encoding):", re.IGNORECASE)


class Owner(Protocol):
    """The owner of a connection, called with the outcome of each request.

    `on_reply` gets a complete reply, its body unpacked, and when its last data was read; `on_failure` a kind of failure
    (`Verdict.error`) and its detail. `on_idle_loss` is called when the connection is lost without a request in flight.
    """

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None: ...
    def on_failure(self, kind: str, detail: str) -> None: ...
    def on_idle_loss(self) -> None: ...


class Connection(Link, asyncio.BaseProtocol):
    """A connection of one owner: the callbacks of the event loop and of the parser."""

    __slots__ = (
        "_body",
        "_count",
        "_has_no_body",
        "_head",
        "_is_last",
        "_keep_alive",
        "_parser",
        "_socket_fd",
        "_status",
        "_surplus",
        "_transport",
        "on_body",
    )

    def __init__(self, owner: Owner, inbox: Inbox) -> None:
        super().__init__(owner, inbox)
        self._transport: asyncio.Transport | None = None
        self._socket_fd = -1  # where the socket may be written to
        self._parser: httptools.HttpResponseParser
        self._body: list[bytes] = []
        self.on_body = self._body.append  # a callback of the parser
        self._head = b""  # of a reply that is not complete yet
        self._count = 0  # bytes read of it
        self._status = 0  # of a complete reply
        self._is_last = self._has_no_body = False
        self._keep_alive = True
        self._surplus = False

    def write_later(self, pieces: RequestBytes, written: int) -> bool:
        assert self._transport is not None
        if self._transport.is_closing() and not written:
            self.close()
            return False
        if self.fd < 0 <= self._socket_fd and not self._transport.get_write_buffer_size():
            self.fd = self._socket_fd  # what had to wait before is written
            return self.send(pieces, self.deadline_ns - self.sent_ns)
        self.fd = -1
        self.bytes_sent = sum(map(len, pieces))
        rest = []
        for piece in pieces:
            if written < len(piece):
                rest.append(memoryview(piece)[written:])
            written = max(0, written - len(piece))
        self._transport.writelines(rest)
        return True

    def fail(self, kind: str, detail: str) -> None:
        """Fail the request in flight, and close the connection."""
        self.in_flight = False
        self.close()
        self.owner.on_failure(kind, detail)

    def say_next(self, *, is_last: bool, is_head: bool) -> None:
        """Say of the request that is sent next whether it says to be the connection's last one (RFC 9112, 9.6), and
        whether it is a HEAD, whose reply has the length of a body that does not follow (RFC 9110, 9.3.2)."""
        self._is_last, self._has_no_body = is_last, is_head
        self.partial = self.partial or is_last or is_head  # so that also a whole reply is parsed here

    def retire(self) -> None:
        """Take no further request; the one in flight is still answered."""
        self.usable = False

    def drop_if_unsent(self) -> None:
        """Close the connection if the request is not written completely: a server that refused it need not read on."""
        if self._transport is not None and self._transport.get_write_buffer_size():
            self.close()

    def close(self) -> None:
        """Close the connection at once; the owner is not called."""
        self.in_flight = self.usable = False
        if self._transport is not None:
            transport, self._transport = self._transport, None
            transport.abort()

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is none by inheritance
        self._parser = httptools.HttpResponseParser(self)
        self.usable = True
        if transport.get_extra_info("sslcontext") is None:
            self.fd = self._socket_fd = transport.get_extra_info("socket").fileno()

    def eof_received(self) -> None:
        """Stop using the connection before it is lost: the server will send no more."""
        self.usable = False
        if not self.in_flight and self._transport is not None:
            self.close()
            self.owner.on_idle_loss()

    def connection_lost(self, exc: Exception | None) -> None:
        was_open, self._transport = self._transport is not None, None
        self.usable = False
        if was_open:
            self._lost(exc)
        del self._parser  # it refers to the connection, and garbage is not collected while tasks run

    def _lost(self, exc: Exception | None) -> None:
        if not self.in_flight:
            self.owner.on_idle_loss()
            return
        self.in_flight = False
        if exc is not None:
            self.owner.on_failure("connection lost", reason_of(exc))
        elif (body := self._body_that_ends_here()) is not None:
            self.owner.on_reply(self._parser.get_status_code(), body, self.received_ns)
        else:
            self.owner.on_failure("connection lost", "the server closed it before its reply was complete")

    def _body_that_ends_here(self) -> bytes | None:
        """Return the body of a reply without a length: it ends with its connection (RFC 9112, 6.3).

        None if the reply has a length, or if its gzip or JSON is cut.
        """
        head = _FINAL_HEAD.search(self._head)
        if head is None or _HAS_LENGTH.search(head[0]):
            return None
        body = b"".join(self._body)
        try:
            body = unpacked(body, _MOST_BYTES) if body[:1] == _GZIP else body
            if body[:1] in (b"{", b"["):
                json.loads(body)
        except (*NOT_GZIP, ValueError, RecursionError):
            return None
        return body

    # Replies

    def parse(self, data: bytes, read_ns: int) -> None:
        if self._transport is None:
            return  # closed since
        if self.in_flight and read_ns < self.sent_ns:
            self.fail("bad response", f"read before its request was sent: {data[:_SHOWN]!r}")
            return
        self.partial = True
        if self._has_no_body and self.in_flight:
            self._parse_head(data)
            return
        error = ""
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as raised:
            cause = raised.__context__
            if cause is not None and not isinstance(cause, httptools.HttpParserError):
                raise cause from None  # raised by a callback: ours, not the server's
            error = str(raised)
        if not self.in_flight:
            self.close()  # an answer to no request: the next one must not take what follows for its reply
            self.owner.on_idle_loss()
        elif self._surplus or (error and self._status):
            self.fail("bad response", f"more bytes than its length says: {data[-_SHOWN:]!r}")
        elif error:
            self.fail("bad response", f"not HTTP/1.1: {error}: {data[:_SHOWN]!r}")
        elif self._status:
            self._replied()
        else:
            self._read_on(data)

    def _parse_head(self, data: bytes) -> None:
        """Handle data of a reply to HEAD, which is its head alone."""
        self._head += data
        head = _FINAL_HEAD.search(self._head)
        if not self._head.startswith(b"HTTP/1."[: len(self._head)]):
            self.fail("bad response", f"not HTTP/1.1: {self._head[:_SHOWN]!r}")
        elif head is None:
            if len(self._head) > _MOST_HEAD_BYTES:
                self.fail("bad response", f"not HTTP/1.1: its head has no end: {self._head[:_SHOWN]!r}")
        elif head.end() < len(self._head):
            self.fail("bad response", f"more bytes than the head of a reply to HEAD: {self._head[-_SHOWN:]!r}")
        else:
            lines = head[0].strip().split(b"\r\n")[1:]
            fields = {
                name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)
            }
            self._keep_alive = head[1] != b"0" and fields.get(b"connection", b"").lower() != b"close"
            self.keep_headers(lines)
            self._status = int(head[2])
            self._replied()

    def keep_headers(self, lines: list[bytes]) -> None:
        """Do nothing with the header lines of a reply."""

    def _read_on(self, data: bytes) -> None:
        """Wait for more of a reply, unless it has become too long; its head is kept for a reply without a length."""
        self._count += len(data)
        if self._count > _MOST_BYTES:
            self.fail("bad response", str(TooLong(_MOST_BYTES)))
        elif not self._body and self._count > _MOST_HEAD_BYTES:
            self.fail("bad response", f"not HTTP/1.1: its head has no end: {self._head[:_SHOWN]!r}")
        elif not _FINAL_HEAD.search(self._head):
            self._head += data

    def on_message_begin(self) -> None:
        """Note that a reply begins; a second one is surplus. A callback of the parser."""
        self._surplus = self._status != 0

    def on_message_complete(self) -> None:
        """Note the end of a reply, but not of an interim one (1xx). A callback of the parser."""
        status = self._parser.get_status_code()
        if status >= 200:
            self._status = status
            self._keep_alive = self._parser.should_keep_alive()

    def _replied(self) -> None:
        self.partial = False
        status, self._status = self._status, 0
        pieces = self._body
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        if self._head:
            self._head = b""
            self._count = 0
        # Known by its first byte, which no JSON has: to look at headers costs a call for each of them.
        if body[:1] == _GZIP:
            try:
                body = unpacked(body, _MOST_BYTES)
            except TooLong as error:
                self.fail("bad response", str(error))
                return
            except NOT_GZIP:
                self.fail("bad response", f"not gzip: {body[:_SHOWN]!r}")
                return
        self.in_flight = False
        if self._is_last or not self._keep_alive:
            self.close()
        self.owner.on_reply(status, body, self.received_ns)


class TlsConnection(Connection, asyncio.BufferedProtocol):
    """A connection over TLS, decrypted into one shared buffer: uvloop would map 256 KiB again for each read (13 us).

    It must be no asyncio.Protocol, or uvloop does not ask it for the buffer.
    """

    __slots__ = ()

    def get_buffer(self, sizehint: int) -> memoryview:
        return _DECRYPTED

    def buffer_updated(self, nbytes: int) -> None:
        self.data_received(bytes(_DECRYPTED[:nbytes]))


class WithHeaders(Connection):
    """A connection that keeps the headers of its last reply, by name as they were sent: a call for each of them."""

    __slots__ = ("headers",)

    def __init__(self, owner: Owner, inbox: Inbox) -> None:
        super().__init__(owner, inbox)
        self.headers: dict[str, str] = {}
        self.partial = True  # so that also a whole reply is parsed here

    def _replied(self) -> None:
        super()._replied()
        self.partial = True

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self.headers = {}

    def keep_headers(self, lines: list[bytes]) -> None:
        self.headers = {}
        for name, _, value in (line.partition(b":") for line in lines):
            self.on_header(name.strip(), value.strip())

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header. A callback of the parser."""
        self.headers[name.decode("latin-1")] = value.decode("latin-1")


class TlsWithHeaders(WithHeaders, TlsConnection):
    """A connection over TLS that keeps the headers of its last reply."""

    __slots__ = ()


_DECRYPTED = memoryview(bytearray(1 << 16))  # of all connections: what is in it is taken before another one reads


async def connect(
    owner: Owner,
    inbox: Inbox,
    host: Host,
    access: Access,
    timeout_s: float,
    *,
    with_headers: bool = False,
) -> Connection:
    """Open a connection to a host, by TLS and through a proxy as `access` says; one `with_headers` keeps those of
    replies.

    Raises OSError (TLS errors are among them) or TimeoutError if that fails.
    """
    tls = access.tls
    secured = tls is not None or (access.proxy is not None and access.proxy.scheme == "https")
    kind = (TlsWithHeaders if secured else WithHeaders) if with_headers else TlsConnection if secured else Connection
    loop, name = asyncio.get_running_loop(), host.host if tls else None
    async with asyncio.timeout(timeout_s):
        if access.proxy is None:
            _, connection = await loop.create_connection(
                lambda: kind(owner, inbox), host.address or host.host, host.port, ssl=tls, server_hostname=name
            )
            return connection
        connection, through = kind(owner, inbox), await tunnel(access.proxy, host, tls)
        through.set_protocol(connection)
        secured_transport = await loop.start_tls(through, connection, tls, server_hostname=name) if tls else through
        if secured_transport is None:
            raise ConnectionError(f"the proxy {access.proxy} closed the tunnel to {host}")
        connection.connection_made(secured_transport)
    return connection


class OneReply:
    """The owner of a connection with one request; `reply` becomes its reply, or raises RequestFailed."""

    def __init__(self) -> None:
        self.reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        if not self.reply.done():
            self.reply.set_result(Reply(status, body))

    def on_failure(self, kind: str, detail: str) -> None:
        if not self.reply.done():
            self.reply.set_exception(RequestFailed(kind, detail))

    def on_idle_loss(self) -> None:
        self.on_failure("connection lost", "the server closed it")


async def ask(host: Host, access: Access, request: RequestBytes, timeout_s: float) -> Reply:
    """Send one request on a new connection, and return its reply. Raises RequestFailed if none arrives."""
    question = OneReply()
    try:
        connection = await connect(question, Inbox(), host, access, timeout_s, with_headers=True)
    except (OSError, TimeoutError) as error:
        raise RequestFailed("connection refused", f"{host.label}: {reason_of(error)}") from error
    try:
        async with asyncio.timeout(timeout_s):
            connection.say_next(is_last=True, is_head=request[0][:5] == b"HEAD ")
            if not connection.send(access.signed(request), 0):
                question.on_idle_loss()
            reply = await question.reply
            assert isinstance(connection, WithHeaders)
            return replace(reply, headers=connection.headers)
    except TimeoutError as error:
        raise RequestFailed("timeout", f"no reply from {host.label} within {timeout_s:g} s") from error
    finally:
        connection.close()


def header_lines(host: Host, options: ClientOptions) -> bytes:
    """Return the header lines that every request on a connection carries, with their line ends."""
    headers = [("Host", host.authority), ("Accept", "application/json"), *options.headers()]
    if options.http_compress:
        headers.append(("Accept-Encoding", "gzip"))
    if not options.keep_alive:
        headers.append(("Connection", "close"))
    return b"".join(f"{key}: {value}\r\n".encode("latin-1") for key, value in headers)
