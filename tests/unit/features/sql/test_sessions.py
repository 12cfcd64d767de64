"""The statements that a connection to a SQL server keeps prepared."""

from __future__ import annotations

from typing import Any

import pytest

from esbench.features.sql.client import SqlSession, most_prepared
from esbench.features.sql.connection import library
from esbench.requests.exchange import RequestFailed


class Server:
    """A connection that counts what it prepares and closes, of a server that keeps `most` statements in all."""

    def __init__(self, most: int = 1 << 20) -> None:
        self.prepared: list[str] = []
        self.open: set[str] = set()
        self._most = most

    async def prepare(self, text: str) -> Statement:
        if len(self.open) == self._most:
            raise library().errors.OperationalError(1461, "Can't create more than max_prepared_stmt_count statements")
        self.prepared.append(text)
        self.open.add(text)
        return Statement(self, text)


class Statement:
    def __init__(self, server: Server, text: str) -> None:
        self._server = server
        self._text = text

    async def execute(self, args: tuple[Any, ...]) -> str:
        assert self._text in self._server.open
        if args == ("too large",):
            raise ValueError("int parameter out of 64-bit range")
        return self._text

    async def close(self) -> None:
        self._server.open.remove(self._text)


async def test_documents_of_many_shapes_are_prepared_once() -> None:
    server = Server()
    session = SqlSession(server, most_prepared(8))
    for number in range(2_000):
        assert await session.execute(f"INSERT {number % 500}") == f"INSERT {number % 500}"
    assert (len(server.prepared), session.closed) == (500, 0)


async def test_the_statement_that_was_not_used_for_longest_is_closed() -> None:
    server = Server()
    session = SqlSession(server, 3)
    for text in ("a", "b", "a", "c", "a", "d", "a"):
        await session.execute(text)
    assert server.prepared == ["a", "b", "c", "d"]
    assert server.open == {"a", "c", "d"}
    assert session.closed == 1


async def test_a_server_that_takes_no_further_statement_gets_one_in_the_place_of_another() -> None:
    server = Server(most=2)
    session = SqlSession(server)
    for text in ("a", "b", "c"):
        await session.execute(text)
    assert server.open == {"b", "c"}
    assert session.closed == 1
    with pytest.raises(library().errors.OperationalError):  # it has none to close
        await SqlSession(server).execute("d")


async def test_a_value_that_cannot_be_sent_fails_its_request_alone() -> None:
    session = SqlSession(Server())
    with pytest.raises(RequestFailed) as failure:
        await session.execute("INSERT", ("too large",))
    assert (failure.value.kind, failure.value.detail) == (
        "SQL library error",
        "ValueError: int parameter out of 64-bit range",
    )
    assert await session.execute("INSERT", (1,)) == "INSERT"


def test_all_connections_of_a_task_fit_into_a_servers_limit() -> None:
    for clients in (1, 8, 16, 17, 64, 500):
        assert 20 <= most_prepared(clients) <= 1_000
        assert clients * most_prepared(clients) <= 16_382
