"""Replies of servers within bounds of bytes, packed and unpacked, and of time; whatever the server sends.

urllib3 and http.client bound neither the length nor the time of a reply: a timeout is of each read of the socket.
"""

from __future__ import annotations

import gzip
import http.client
import io
import time
import zlib
from socket import socket
from typing import Any

from esbench.units import format_bytes

MOST_BYTES = 100 << 20  # what Elasticsearch takes of a request, http.max_content_length
PACE_BYTES = 1 << 16
NOT_GZIP = (OSError, EOFError, zlib.error)


class TooLong(OSError):  # noqa: N818 - what the reply is
    """Error: a reply that is longer than it may be."""

    def __init__(self, most_bytes: int) -> None:
        super().__init__(f"the reply is longer than {format_bytes(most_bytes)}")


def unpacked(data: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return gzip data (RFC 1952) unpacked; raises TooLong, or one of NOT_GZIP."""
    member = zlib.decompressobj(wbits=31)
    body = member.decompress(data, most_bytes + 1)
    if len(body) <= most_bytes and (not member.eof or member.unused_data):  # cut, or of several members
        with gzip.open(io.BytesIO(data)) as file:
            body = file.read(most_bytes + 1)
    if len(body) > most_bytes:
        raise TooLong(most_bytes)
    return body


class _Wire(io.RawIOBase):
    """The bytes of one reply from a socket: at most MOST_BYTES, within the socket's timeout in all.

    After `set_pace` both limits start again each time that number of bytes was read.
    """

    def __init__(self, raw: Any, sock: socket) -> None:
        self._raw = raw
        self._sock = sock
        self._limit_s = sock.gettimeout()
        self._pace_bytes: int | None = None
        self._begin()

    def set_pace(self, pace_bytes: int) -> None:
        self._pace_bytes = pace_bytes
        self._begin()

    def _begin(self) -> None:
        self._count = 0
        self._deadline_s = None if self._limit_s is None else time.monotonic() + self._limit_s

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if self._deadline_s is not None:
            left_s = self._deadline_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError
            self._sock.settimeout(left_s)
        count: int | None = self._raw.readinto(buffer)
        self._count += count or 0
        if self._pace_bytes is not None and self._count >= self._pace_bytes:
            self._begin()
        elif self._count > MOST_BYTES:
            raise TooLong(MOST_BYTES)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Reader(io.BufferedReader):
    def read(self, size: int | None = -1, /) -> bytes:
        if size is not None and size > MOST_BYTES:  # a Content-Length, or the length of a chunk: room is made for it
            raise TooLong(MOST_BYTES)
        return super().read(size)


class BoundedReply(http.client.HTTPResponse):
    """A reply of at most MOST_BYTES, which arrives whole within the timeout."""

    def __init__(self, sock: socket, *args: Any, **keys: Any) -> None:
        super().__init__(sock, *args, **keys)
        self.wire = _Wire(self.fp.detach(), sock)
        self.fp = _Reader(self.wire)


class PacedReply(BoundedReply):
    """A reply that may hold a file of any length, of which each timeout brings PACE_BYTES; others are bounded."""

    def begin(self) -> None:
        super().begin()
        if self.status in (200, 206):
            self.wire.set_pace(PACE_BYTES)


def bounded(connection: type[Any], reply: type[BoundedReply]) -> type[Any]:
    """Return a connection class of urllib3 that reads its replies in that way."""
    return type(f"Bounded{connection.__name__}", (connection,), {"response_class": reply})
