"""A server that answers with bytes as they are given to it, right or wrong, and remembers what reached it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader

CLOSE, RESET, SILENCE = "close", "reset", "silence"
Action = bytes | str | float  # bytes to send; what to do to the connection; seconds to wait


@dataclass
class Request:
    """A request that arrived whole. `connection` counts from 0."""

    connection: int
    head: bytes
    body_bytes: int
    tail: bytes

    @property
    def line(self) -> str:
        return self.head.partition(b" HTTP/1.1\r\n")[0].decode()


Answer = Callable[[int, Request], Sequence[Action]]  # the number of the request, from 0
AnswerHead = Callable[[bytes], Sequence[Action]]


def reply(body: bytes | str = b"{}", status: str = "200 OK", *headers: str) -> bytes:
    """A good reply with a Content-Length."""
    content = body.encode() if isinstance(body, str) else body
    lines = "".join(f"{line}\r\n" for line in headers)
    return f"HTTP/1.1 {status}\r\n{lines}Content-Length: {len(content)}\r\n\r\n".encode() + content


class RawServer:
    """A server on a free port: one thread for each connection, one answer for each request.

    `answer_head` answers before the body has been read, as long as it has something to say.
    """

    def __init__(self, answer: Answer, answer_head: AnswerHead | None = None) -> None:
        self.requests: list[Request] = []
        self._answer = answer
        self._answer_head = answer_head
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._accepted: list[socket.socket] = []
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def connections(self) -> int:
        return len(self._accepted)

    def stop(self) -> None:
        self._stopping.set()
        for sock in (self._listener, *self._accepted):
            with suppress(OSError):  # closed already
                sock.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return  # the test is over
            self._accepted.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection, len(self._accepted) - 1))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with connection, connection.makefile("rb") as reader, suppress(OSError):  # the client may have gone
            while head := _read_head(reader):
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
        elif action == RESET:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return action not in (CLOSE, RESET, SILENCE)


@contextmanager
def raw_server(answer: Answer, answer_head: AnswerHead | None = None) -> Iterator[RawServer]:
    server = RawServer(answer, answer_head)
    try:
        yield server
    finally:
        server.stop()


def _read_head(reader: BufferedReader) -> bytes:
    """The next request up to its body; empty at the end of the connection."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        line = reader.readline()
        if not line:
            return b""
        head += line
    return head


def _read_body(reader: BufferedReader, connection: int, head: bytes) -> Request | None:
    """The whole request; None when the connection ended in the middle of it."""
    lengths = (line.partition(b":")[2] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
    left = length = int(next(lengths, 0))
    tail = b""
    while left:
        piece = reader.read(min(left, 1 << 20))
        if not piece:
            return None
        left -= len(piece)
        tail = (tail + piece)[-200:]
    return Request(connection, head, length, tail)
