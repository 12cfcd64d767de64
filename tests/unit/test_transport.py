"""What a connection makes of the bytes that it gets."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field

import pytest

from esbench.load.transport import Connection


@dataclass
class Hearer:
    """An owner that remembers what it was told."""

    replies: list[tuple[int, bytes]] = field(default_factory=list)
    failures: list[tuple[str, str]] = field(default_factory=list)

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        self.replies.append((status, body))

    def on_failure(self, kind: str, detail: str) -> None:
        self.failures.append((kind, detail))

    def on_idle_loss(self) -> None:
        self.failures.append(("idle", ""))


def heard(*pieces: bytes) -> Hearer:
    """What the owner of a connection with a request in flight hears when these pieces arrive."""
    owner = Hearer()
    connection = Connection(owner)
    connection.in_flight = True
    for piece in pieces:
        connection.data_received(piece)
    return owner


def reply(body: bytes, status: str = "200 OK") -> bytes:
    return f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body


def test_a_reply_may_come_byte_by_byte() -> None:
    whole = reply(b'{"found":true}')
    assert heard(*(whole[i : i + 1] for i in range(len(whole)))).replies == [(200, b'{"found":true}')]


def test_a_chunked_reply_is_put_together() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert heard(head + b"3\r\nabc\r\n", b"2\r\nde\r\n0\r\n\r\n").replies == [(200, b"abcde")]


def test_an_interim_reply_is_not_the_reply() -> None:
    assert heard(b"HTTP/1.1 100 Continue\r\n\r\n", reply(b"{}", "404 Not Found")).replies == [(404, b"{}")]


def test_a_compressed_reply_is_told_by_its_first_bytes() -> None:
    assert heard(reply(gzip.compress(b"{}" * 1000))).replies == [(200, b"{}" * 1000)]


@pytest.mark.parametrize("damage", [slice(0, 40), slice(0, -12)])
def test_a_damaged_compressed_reply_is_a_bad_response(damage: slice) -> None:
    packed = gzip.compress(bytes(range(256)) * 10)
    owner = heard(reply(packed[damage]))
    assert owner.replies == []
    assert [kind for kind, _ in owner.failures] == ["bad response"]
    assert "gzip" in owner.failures[0][1]


def test_what_is_not_http_is_a_bad_response() -> None:
    assert [kind for kind, _ in heard(b"SSH-2.0-OpenSSH\r\n").failures] == ["bad response"]


def test_a_reply_that_nobody_waits_for_is_none() -> None:
    owner = heard(reply(b"{}"), reply(b"[]"))
    assert owner.replies == [(200, b"{}")]
    assert owner.failures == [("idle", "")]


class Wire:
    """A transport that remembers whether it was dropped."""

    aborted = False

    def get_extra_info(self, name: str) -> object:
        return "tls" if name == "sslcontext" else None

    def abort(self) -> None:
        self.aborted = True


def ended(*pieces: bytes, in_flight: bool = True) -> tuple[Hearer, Wire, Connection]:
    """What the owner hears when these pieces arrive and the server then closes the connection."""
    owner, wire = Hearer(), Wire()
    connection = Connection(owner)
    connection.connection_made(wire)  # type: ignore[arg-type]
    connection.in_flight = in_flight
    for piece in pieces:
        connection.data_received(piece)
    connection.eof_received()
    connection.connection_lost(None)
    return owner, wire, connection


def test_a_change_of_protocol_is_a_bad_response() -> None:
    owner = heard(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
    assert [kind for kind, _ in owner.failures] == ["bad response"]
    assert "h2c" in owner.failures[0][1]


@pytest.mark.parametrize("head", [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"])
@pytest.mark.parametrize("packed", [False, True])
def test_a_reply_may_end_with_its_connection(head: bytes, packed: bool) -> None:
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
        b"HTTP/1.1 200 OK\r\n\r\n",
        b'HTTP/1.1 200 OK\r\n\r\n{"found":true,',
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"found":true}',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\ne\r\n{"found":true}\r\n',
        b'HTTP/1.1 200 OK\r\nContent-Length: 99\r\nConnection: close\r\n\r\n{"found":true,',
        b"HTTP/1.1 200 OK\r\n\r\n" + gzip.compress(b"{}" * 1000, mtime=0)[:-1],
        b"HTTP/1.1 100 Continue\r\n\r\n",
    ],
)
def test_half_a_reply_is_none(cut: bytes) -> None:
    owner, _, _ = ended(cut)
    assert owner.replies == []
    assert [kind for kind, _ in owner.failures] == ["connection lost"]


def test_a_connection_that_is_closed_while_idle_is_not_used_again_from_that_moment() -> None:
    """The end is heard some callbacks before the loss: a request sent in between would be lost."""
    owner, wire = Hearer(), Wire()
    connection = Connection(owner)
    connection.connection_made(wire)  # type: ignore[arg-type]
    assert connection.usable
    connection.eof_received()
    assert not connection.usable
    assert wire.aborted
    connection.connection_lost(None)
    assert owner.failures == [("idle", "")]


def test_what_is_said_to_nobody_ends_a_connection() -> None:
    """A proxy's 408 before it closes an idle connection: the next request must not take it for its reply."""
    owner, wire, connection = ended(reply(b"{}", "408 Request Timeout"), in_flight=False)
    assert (owner.replies, owner.failures) == ([], [("idle", "")])
    assert wire.aborted
    assert not connection.usable
