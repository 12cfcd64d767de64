"""The way of a connection through a proxy: a tunnel to its host (CONNECT, RFC 9110, 9.3.6)."""

from __future__ import annotations

import asyncio
import re
import ssl

from esbench.cluster.options import Host
from esbench.cluster.proxy import Proxy

_MOST_BYTES = 1 << 16  # of the proxy's answer
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})(?: ([^\r\n]*))?\r\n")


async def tunnel(proxy: Proxy, host: Host, tls: ssl.SSLContext | None) -> asyncio.Transport:
    """Open a tunnel through a proxy to a host; its transport still has the protocol that opened it.

    `tls` is for a proxy that is reached by TLS where the host is too. Raises OSError if the proxy refuses.
    """
    loop = asyncio.get_running_loop()
    opening = _Opening(proxy, host)
    own_tls = (tls or ssl.create_default_context()) if proxy.scheme == "https" else None
    transport, _ = await loop.create_connection(lambda: opening, proxy.host, proxy.port, ssl=own_tls)
    try:
        await opening.opened
    except BaseException:
        transport.abort()
        raise
    return transport


class _Opening(asyncio.Protocol):
    """The exchange with a proxy that opens a tunnel; `opened` is done when it is open, or was refused."""

    def __init__(self, proxy: Proxy, host: Host) -> None:
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._proxy, self._host = proxy, host
        self._answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport) or hasattr(transport, "write")
        transport.write(self._proxy.connect_request(str(self._host)))

    def data_received(self, data: bytes) -> None:
        self._answer += data
        status = _STATUS.match(self._answer)
        if status is not None and not status[1].startswith(b"2"):
            said = b" ".join(filter(None, status.groups())).decode("latin-1")
            self._fail(f"the proxy {self._proxy} refuses a tunnel to {self._host}: {said}")
        elif b"\r\n\r\n" in self._answer and not self.opened.done():
            if status is None:
                self._fail(f"the proxy {self._proxy} does not answer as one: {self._answer[:100]!r}")
            else:
                self.opened.set_result(None)
        elif len(self._answer) > _MOST_BYTES:
            self._fail(f"the answer of the proxy {self._proxy} has no end")

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(f"the proxy {self._proxy} closed the connection before a tunnel to {self._host} was open")

    def _fail(self, what: str) -> None:
        if not self.opened.done():
            self.opened.set_exception(ConnectionError(what))
