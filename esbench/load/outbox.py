"""The sending end of a worker's pipe: messages wait here while the coordinator does not read, and the load goes on."""

from __future__ import annotations

import socket
import struct
from collections import deque
from multiprocessing.reduction import ForkingPickler

from esbench.load.messages import Message

LENGTH = struct.Struct("!i")  # before each message, as multiprocessing.connection.Connection reads it
_MOST_BYTES = 64 << 20  # a quarter of an hour of ticks of many tasks


class Outbox:
    """A queue of messages to the coordinator: sends in order, without waiting until `most_bytes` are unread."""

    def __init__(self, sock: socket.socket, most_bytes: int = _MOST_BYTES) -> None:
        self._socket = sock
        self._most_bytes = most_bytes
        self._unsent: deque[memoryview] = deque()
        self._bytes = 0

    def send(self, message: Message) -> None:
        """Send a message, or keep it for `flush`. Raises OSError if the reader is gone."""
        pickled = ForkingPickler.dumps(message)
        frame = memoryview(LENGTH.pack(len(pickled)) + pickled)
        self._unsent.append(frame)
        self._bytes += len(frame)
        self.flush()

    def flush(self) -> None:
        """Send as much as the reader has room for; while more than `most_bytes` are unread, wait for the reader.

        Raises OSError if the reader is gone.
        """
        while self._unsent:
            frame = self._unsent[0]
            try:
                sent = self._socket.send(frame, 0 if self._bytes > self._most_bytes else socket.MSG_DONTWAIT)
            except BlockingIOError:
                return
            self._bytes -= sent
            if sent < len(frame):
                self._unsent[0] = frame[sent:]
            else:
                self._unsent.popleft()
