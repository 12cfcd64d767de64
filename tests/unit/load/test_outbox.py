"""Messages that wait for their reader."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection

import pytest

from esbench.load.messages import Stop
from esbench.load.outbox import Outbox

LONG = 1_000_000  # characters: several times what a socket holds


@contextmanager
def pipe(most_bytes: int = 64 << 20) -> Iterator[tuple[Outbox, Connection]]:
    ours, theirs = socket.socketpair()
    with ours, Connection(theirs.detach()) as reader:
        yield Outbox(ours, most_bytes), reader


def named(name: str) -> Stop:
    return Stop(tasks=(name,))


def test_messages_arrive_at_once_where_there_is_room() -> None:
    with pipe() as (outbox, reader):
        for name in "abc":
            outbox.send(named(name))
        assert [reader.recv() for _ in range(3)] == [named(name) for name in "abc"]


def test_messages_wait_for_a_reader_that_does_not_read_and_arrive_in_order() -> None:
    with pipe() as (outbox, reader):
        sent = [named(str(number) * LONG) for number in range(5)]
        for message in sent:
            outbox.send(message)  # returns, though not even the first one fits
        received: list[object] = []
        thread = threading.Thread(target=lambda: received.extend(reader.recv() for _ in sent))
        thread.start()
        while thread.is_alive():
            outbox.flush()
            thread.join(0.001)
        assert received == sent


def test_what_waits_is_limited() -> None:
    """A message more waits for the reader."""
    with pipe(most_bytes=3 * LONG) as (outbox, reader):
        sent = [named(str(number) * LONG) for number in range(4)]
        received: list[object] = []
        thread = threading.Thread(target=lambda: received.extend(reader.recv() for _ in sent))
        for message in sent[:2]:
            outbox.send(message)
        thread.start()
        for message in sent[2:]:
            outbox.send(message)
        while thread.is_alive():
            outbox.flush()
            thread.join(0.001)
        assert received == sent


def test_a_reader_that_is_gone_is_an_error() -> None:
    with pipe() as (outbox, reader):
        reader.close()
        with pytest.raises(OSError, match="pipe"):
            outbox.send(Stop())
