"""What a connection makes of the bytes that it gets."""

from __future__ import annotations

import asyncio
import gzip
from dataclasses import dataclass, field
from typing import Any

import pytest

from esbench.load.hot import Inbox, clock_ns
from esbench.load.transport import Connection, TlsConnection


@dataclass
class Hearer:
    """An owner that keeps what it heard; when it has its reply, it sends the next request on the same connection."""

    replies: list[tuple[int, bytes]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)
    received_ns: list[int] = field(default_factory=list)
    handled_ns: list[int] = field(default_factory=list)
    goes_on: Connection | None = None

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        self.replies.append((status, body))
        self.received_ns.append(received_ns)
        self.handled_ns.append(clock_ns())
        if self.goes_on is not None and self.goes_on.usable:
            self.goes_on.in_flight = True

    def on_failure(self, kind: str, detail: str) -> None:
        self.failures.append((kind, detail))

    def on_idle_loss(self) -> None:
        self.failures.append(("idle", ""))


class Wire:
    """A transport that remembers whether it was dropped."""

    aborted = False

    def get_extra_info(self, name: str) -> object:
        return "tls" if name == "sslcontext" else None

    def abort(self) -> None:
        self.aborted = True


def opened(owner: Hearer, inbox: Inbox) -> tuple[Connection, Wire]:
    """A connection with a request in flight."""
    wire = Wire()
    connection = Connection(owner, inbox)
    connection.connection_made(wire)  # type: ignore[arg-type]
    connection.in_flight = True
    return connection, wire


def heard(*pieces: bytes, goes_on: bool = False) -> Hearer:
    """What the owner of a connection with a request in flight hears when these pieces arrive."""
    owner, inbox = Hearer(), Inbox()
    connection, _ = opened(owner, inbox)
    owner.goes_on = connection if goes_on else None
    for piece in pieces:
        connection.data_received(piece)
        inbox.handle()
    return owner


def reply(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


async def test_a_reply_may_come_byte_by_byte() -> None:
    whole = reply(b'{"found":true}')
    assert heard(*(whole[i : i + 1] for i in range(len(whole)))).replies == [(200, b'{"found":true}')]


async def test_a_chunked_reply_is_put_together() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert heard(head + b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n").replies == [(200, b"abcde")]


async def test_an_interim_reply_is_not_the_reply() -> None:
    assert heard(b"HTTP/1.1 100 Continue\r\n\r\n", reply(b"{}", "404 Not Found")).replies == [(404, b"{}")]


async def test_a_compressed_reply_is_told_by_its_first_bytes() -> None:
    assert heard(reply(gzip.compress(b"{}" * 1000))).replies == [(200, b"{}" * 1000)]


@pytest.mark.parametrize("damage", [slice(0, 40), slice(0, -12)])
async def test_a_damaged_compressed_reply_is_a_bad_response(damage: slice) -> None:
    packed = gzip.compress(bytes(range(256)) * 10)
    owner = heard(reply(packed[damage]))
    assert owner.replies == []
    assert [kind for kind, _ in owner.failures] == ["bad response"]
    assert "gzip" in owner.failures[0][1]


async def test_what_is_not_http_is_a_bad_response() -> None:
    assert [kind for kind, _ in heard(b"SSH-2.0-OpenSSH\r\n").failures] == ["bad response"]


async def test_a_reply_that_nobody_waits_for_is_none() -> None:
    owner = heard(reply(b"{}"), reply(b"[]"))
    assert owner.replies == [(200, b"{}")]
    assert owner.failures == [("idle", "")]


def ended(*pieces: bytes, in_flight: bool = True) -> tuple[Hearer, Wire, Connection]:
    """What the owner hears when these pieces arrive and the server then closes the connection."""
    owner, inbox = Hearer(), Inbox()
    connection, wire = opened(owner, inbox)
    connection.in_flight = in_flight
    for piece in pieces:
        connection.data_received(piece)
        inbox.handle()
    connection.eof_received()
    connection.connection_lost(None)
    return owner, wire, connection


async def test_a_change_of_protocol_is_a_bad_response() -> None:
    owner = heard(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert [kind for kind, _ in owner.failures] == ["bad response"]
    assert "h2c" in owner.failures[0][1]


CLOSES = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/plain\r\n\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"])
@pytest.mark.parametrize("packed", [False, True])
async def test_a_reply_may_end_with_its_connection(head: bytes, packed: bool) -> None:
    body = b'{"found":true,"x":"' + b"y" * 1000 + b'"}'
    sent = gzip.compress(body) if packed else body
    for pieces in ([head + sent], [head, sent], [head + sent[:300], sent[300:]]):
        owner, _, connection = ended(*pieces)
        assert (owner.replies, owner.failures) == ([(200, body)], [])
        assert not connection.usable


@pytest.mark.parametrize(
    "cut",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"found":true,',
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"found":true}',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ne\r\n{"found":true}\r\n',
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{"found":true,',
        b"HTTP/1.1 200 OK\r\n\r\n" + gzip.compress(b"{}" * 1000, mtime=0)[:-1],
        b"HTTP/1.1 100 Continue\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{"found":true}',
        b"HTTP/1.1 200 OK\r\ncontent-length: 99\r\nConnection: close\r\n\r\ngreen open",
        b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\ngreen open",
        b"HTTP/1.0 200 OK\r\nContent-Length: 99\r\n\r\n",
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\ngreen open",
    ],
)
async def test_half_a_reply_is_none(cut: bytes) -> None:
    for pieces in ([cut], [cut[i : i + 1] for i in range(len(cut))], cut.splitlines(keepends=True)):
        owner, _, _ = ended(*pieces)
        assert owner.replies == []
        assert [kind for kind, _ in owner.failures] == ["connection lost"]


@pytest.mark.parametrize("body", [b"", b"green open orders\n", b"[1", b"{}\n{}\n"])
@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\n\r\n", CLOSES, EARLY + CLOSES])
async def test_text_may_end_with_its_connection_where_no_length_is_said(head: bytes, body: bytes) -> None:
    is_whole = not body.startswith((b"[", b"{"))  # a JSON text says itself where it ends
    for pieces in ([head + body], [head, body], [(head + body)[i : i + 1] for i in range(len(head + body))]):
        owner, _, _ = ended(*pieces)
        assert owner.replies == ([(200, body)] if is_whole else [])
        assert [kind for kind, _ in owner.failures] == ([] if is_whole else ["connection lost"])


async def test_a_connection_that_is_closed_while_idle_is_not_used_again_from_that_moment() -> None:
    """The end is heard some callbacks before the loss: a request sent in between would be lost."""
    owner = Hearer()
    connection, wire = opened(owner, Inbox())
    connection.in_flight = False
    assert connection.usable
    connection.eof_received()
    assert not connection.usable
    assert wire.aborted
    connection.connection_lost(None)
    assert owner.failures == [("idle", "")]


async def test_what_is_said_to_nobody_ends_a_connection() -> None:
    """A proxy's 408 before it closes an idle connection: the next request must not take it for its reply."""
    owner, wire, connection = ended(reply(b"{}", "408 Request Timeout"), in_flight=False)
    assert (owner.replies, owner.failures) == ([], [("idle", "")])
    assert wire.aborted
    assert not connection.usable


# replies that no request asked for


@pytest.mark.parametrize(
    "surplus",
    [
        reply(b"[]"),
        reply(b"[]") * 3,
        reply(b"[]")[:-1],
        reply(b"[]")[:20],
        b"garbage",
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
async def test_what_follows_a_reply_at_once_is_blamed_on_its_request(surplus: bytes) -> None:
    """The next request, which is sent as soon as a reply was handled, must take none of it for its own."""
    owner = heard(reply(b"{}") + surplus, goes_on=True)
    assert owner.replies == []
    ((kind, detail),) = owner.failures
    assert (kind, detail[:10]) == ("bad response", "more bytes")


@pytest.mark.parametrize("late", [reply(b"[]"), reply(b"[]")[:20], b"garbage"])
async def test_what_comes_after_a_reply_ends_the_connection(late: bytes) -> None:
    """Another request may be in flight by then, which must not be taken for answered."""
    owner = heard(reply(b"{}"), late)
    assert owner.replies == [(200, b"{}")]
    assert owner.failures == [("idle", "")]


async def test_a_connection_that_the_server_has_half_closed_takes_no_further_request() -> None:
    """The end may be read before the reply in front of it is handled."""
    inbox = Inbox()
    owner = Hearer()
    connection, wire = opened(owner, inbox)
    owner.goes_on = connection
    connection.data_received(reply(b"{}"))
    connection.eof_received()
    assert not wire.aborted
    inbox.handle()
    assert owner.replies == [(200, b"{}")]
    assert not connection.usable
    assert not connection.in_flight


# stamped before they are handled


@pytest.mark.parametrize("kind", [Connection, TlsConnection])
async def test_replies_that_arrive_together_are_stamped_before_one_is_handled(kind: type[Connection]) -> None:
    inbox, owners = Inbox(), [Hearer() for _ in range(5)]
    for owner in owners:
        connection = kind(owner, inbox)
        connection.connection_made(Wire())  # type: ignore[arg-type]
        connection.in_flight = True
        connection.data_received(reply(b"{}"))
    assert not any(owner.replies for owner in owners)
    inbox.handle()
    assert [owner.replies for owner in owners] == [[(200, b"{}")]] * 5
    stamps = [at_ns for owner in owners for at_ns in owner.received_ns]
    assert stamps == sorted(stamps)
    assert stamps[-1] < owners[0].handled_ns[0], "the last one is not charged for the handling of the first one"


async def test_a_reply_in_pieces_is_stamped_with_its_last_one() -> None:
    inbox, owner = Inbox(), Hearer()
    connection, _ = opened(owner, inbox)
    connection.data_received(reply(b"{}")[:9])
    between_ns = clock_ns()
    connection.data_received(reply(b"{}")[9:])
    read_ns = clock_ns()
    inbox.handle()
    assert between_ns <= owner.received_ns[0] <= read_ns


async def test_what_one_reply_does_to_another_connection_is_heeded() -> None:
    """Its reply was read, but it was closed before that was handled: a timeout, say."""
    inbox, first, second = Inbox(), Hearer(), Hearer()
    connections = [opened(owner, inbox)[0] for owner in (first, second)]
    for connection in connections:
        connection.data_received(reply(b"{}"))
    connections[1].fail("timeout", "")
    inbox.handle()
    assert (first.replies, second.replies, second.failures) == ([(200, b"{}")], [], [("timeout", "")])


async def test_an_error_in_handling_a_reply_loses_no_other_one() -> None:
    class Broken(Hearer):
        def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
            raise ValueError("a fault in the program")

    inbox = Inbox()
    owners = [Hearer(), Broken(), Hearer(), Broken(), Hearer()]
    seen: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: seen.append(context["exception"]))
    connections = [opened(owner, inbox)[0] for owner in owners]
    for connection in connections:
        connection.data_received(reply(b"{}"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert [len(owner.replies) for owner in owners] == [1, 0, 1, 0, 1]
    assert [str(error) for error in seen] == ["a fault in the program"] * 2
    connections[0].in_flight = True
    connections[0].data_received(reply(b"[]"))
    await asyncio.sleep(0)
    assert owners[0].replies == [(200, b"{}"), (200, b"[]")]
