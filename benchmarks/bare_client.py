"""What Python can do at best: a protocol on uvloop that sends one prepared request again and again and parses replies.

    python benchmarks/bare_client.py PORT CLIENTS SECONDS [BODY-FILE]

GETs a document, or posts the body of the file as a bulk. It draws, checks and records nothing.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from pathlib import Path

import httptools
import uvloop


class BareClient(asyncio.Protocol):
    """One connection that repeats its request as soon as the reply is complete."""

    def __init__(self, request: list[bytes]) -> None:
        self._request = request
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._send()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body = body

    def on_message_complete(self) -> None:
        if self._parser.get_status_code() == 200:
            self._send()

    def _send(self) -> None:
        if len(self._request) == 1:
            self._transport.write(self._request[0])  # type: ignore[attr-defined]
        else:
            self._transport.writelines(self._request)  # type: ignore[attr-defined]


async def main(port: int, clients: int, seconds: float, body: bytes | None) -> None:
    host = b"Host: 127.0.0.1:%d\r\nAccept: application/json\r\n" % port
    request = [b"GET /orders/_doc/42 HTTP/1.1\r\n%b\r\n" % host]
    if body is not None:
        head = b"POST /orders/_bulk HTTP/1.1\r\n%bContent-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n"
        request = [head % (host, len(body)), body]
    loop = asyncio.get_running_loop()
    for _ in range(clients):
        await loop.create_connection(lambda: BareClient(request), "127.0.0.1", port)
    gc.freeze()
    gc.disable()
    await asyncio.sleep(seconds)


if __name__ == "__main__":
    file = sys.argv[4:]
    uvloop.run(
        main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), Path(file[0]).read_bytes() if file else None)
    )
