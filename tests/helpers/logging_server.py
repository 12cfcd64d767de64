"""A server that answers every request at once with the same reply, and remembers when it came."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Self

FOUND = b'{"took":3,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{"total":{"value":7}}}'


class LoggingServer:
    """A context manager; `log` has (clock_ns, request line) of each request, in the order in which they came.

    `answer` returns the body for a request line.
    """

    def __init__(self, answer: Callable[[bytes], bytes] = lambda line: FOUND) -> None:
        self.log: list[tuple[int, str]] = []
        self.answer = answer
        self.connections: set[asyncio.Transport] = set()
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _serve(self) -> None:
        server = self._loop.run_until_complete(self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0))
        self.url = "http://{}:{}".format(*server.sockets[0].getsockname())
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for _ in range(2):  # connections that were being accepted are made meanwhile
            for transport in tuple(self.connections):
                transport.abort()
            self._loop.run_until_complete(asyncio.sleep(0.05))


class _Connection(asyncio.Protocol):
    def __init__(self, server: LoggingServer) -> None:
        self._server = server
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._server.connections.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        at_ns = time.perf_counter_ns()
        self._held += data
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            head = self._held[:end]
            place = head.lower().find(b"content-length: ")
            length = int(head[place + 16 :].split(b"\r\n")[0]) if place >= 0 else 0
            if len(self._held) < end + 4 + length:
                return
            self._held = self._held[end + 4 + length :]
            line = head.partition(b" HTTP/")[0]
            self._server.log.append((at_ns, line.decode()))
            body = self._server.answer(line)
            start = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
            self._transport.write(start % len(body) + body)
