"""A server that answers with bytes as they are given to it, right or wrong, and remembers what reached it."""

from __future__ import annotations

import json
import socket
import ssl
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from http.client import HTTPMessage, parse_headers
from io import BufferedReader, BytesIO
from typing import Any, Self

CLOSE, RESET, SILENCE, READ = "close", "reset", "silence", "read"
Action = bytes | str | float  # bytes to send; what to do to the connection; seconds to wait
_KEPT_BYTES = 4 << 20

Reply = tuple[int, Any]  # status; JSON, or text
INFO = {
    "name": "n1",
    "cluster_name": "tiny",
    "cluster_uuid": "u1",
    "version": {"number": "8.19.4", "build_hash": "abc", "build_flavor": "default"},
}
GREEN: dict[str, Reply] = {"GET /": (200, INFO), "GET /_cluster/health": (200, {"status": "green"})}


@dataclass
class Request:
    """A request that arrived whole. `connection` counts from 0; of a long body only the last 4 MB are kept."""

    connection: int
    head: bytes
    body_bytes: int
    body: bytes

    @property
    def line(self) -> str:
        return self.head.partition(b" HTTP/1.1\r\n")[0].decode()

    @property
    def method(self) -> str:
        return self.line.partition(" ")[0]

    @property
    def target(self) -> str:
        return self.line.partition(" ")[2]

    @property
    def headers(self) -> HTTPMessage:
        """The header fields, found by their names in any case."""
        return parse_headers(BytesIO(self.head.partition(b"\r\n")[2]))


Answer = Callable[[int, Request], Sequence[Action]]  # the number of the request, from 0
AnswerHead = Callable[[bytes], Sequence[Action]]
Greet = Callable[[int], Sequence[Action]]  # the number of the connection, from 0


def reply(body: bytes | str = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    """A good reply with a Content-Length."""
    content = body.encode() if isinstance(body, str) else body
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(content)}\r\n\r\n".encode() + content


class RawServer:
    """A server on a free port: one thread for each connection, one answer for each request.

    `greet` acts on a connection before a request is read; `answer_head` answers before the body has been read, as long
    as it has something to say. After `accepts` connections nobody listens any more.
    """

    def __init__(
        self,
        answer: Answer = lambda number, request: [reply()],
        answer_head: AnswerHead | None = None,
        greet: Greet | None = None,
        accepts: int | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self._answer_head = answer_head
        self._greet = greet
        self._accepts = accepts
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._accepted: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def connections(self) -> int:
        return len(self._accepted)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for sock in (self._listener, *self._accepted):
            with suppress(OSError):  # closed already
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while self.connections != self._accepts:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the test is over
            if self._tls:  # shaken hands in the thread of the connection
                connection = self._tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
            self._accepted.append(connection)
            if self.connections == self._accepts:
                self._listener.close()
            thread = threading.Thread(target=self._serve, args=(connection, len(self._accepted) - 1))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as reader, suppress(OSError):  # the client may have gone
            if isinstance(connection, ssl.SSLSocket):
                connection.do_handshake()
            greeting = self._greet(number) if self._greet else ()
            if not all(self._do(action, connection) for action in greeting):
                return
            while head := _read_head(reader):
                if b" HTTP/1.1\r\n" not in head:
                    connection.sendall(reply("", "400 Bad Request"))
                    return
                early = self._answer_head(head) if self._answer_head else ()
                if not all(self._do(action, connection) for action in early):
                    return
                if (request := _read_body(reader, number, head)) is None:
                    return
                with self._lock:
                    self.requests.append(request)
                    count = len(self.requests) - 1
                if not all(self._do(action, connection) for action in self._answer(count, request)):
                    return

    def _do(self, action: Action, connection: socket.socket) -> bool:
        """Whether the connection goes on after an action."""
        if isinstance(action, bytes):
            connection.sendall(action)
        elif isinstance(action, float):
            self._stopping.wait(action)
        elif action == SILENCE:
            self._stopping.wait()
        elif action == READ:
            connection.recv(1 << 16)
        elif action == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return action not in (CLOSE, RESET, SILENCE)


def serve(replies: Mapping[str, Reply], tls: ssl.SSLContext | None = None) -> RawServer:
    """A server with fixed replies to `METHOD /path`, whatever the query string; anything else is a 404."""

    def answer(number: int, request: Request) -> Sequence[Action]:
        path = request.target.partition("?")[0]
        status, body = replies.get(f"{request.method} {path}", (404, {"error": f"no {path}"}))
        kind, text = ("text/html", body) if isinstance(body, str) else ("application/json", json.dumps(body))
        return [reply(text, f"{status} {HTTPStatus(status).phrase}", f"Content-Type: {kind}")]

    return RawServer(answer, tls=tls)


def _read_head(reader: BufferedReader) -> bytes:
    """The next request up to its body, or a line that is none; empty at the end of the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        if not line:
            return b""
        head += line
        if b" HTTP/1.1\r\n" not in head:
            break
    return head


def _read_body(reader: BufferedReader, connection: int, head: bytes) -> Request | None:
    """The whole request; None when the connection ended in the middle of it."""
    lengths = (line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    left = length = int(next(lengths, 0))
    body = b""
    while left:
        piece = reader.read(min(left, 1 << 20))
        if not piece:
            return None
        left -= len(piece)
        body = (body + piece)[-_KEPT_BYTES:]
    return Request(connection, head, length, body)
