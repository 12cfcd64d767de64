"""The client of a task on a SQL server: one connection, and statements on it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.cluster.options import ClientOptions
from esbench.errors.reasons import reason_of
from esbench.features.sql.connection import OF_LIBRARY, connect, failure_of, is_lost, library
from esbench.load import open_files
from esbench.load.client import Route
from esbench.load.coroutine_client import CoroutineClient
from esbench.load.hot import NEVER_NS, clock_ns
from esbench.measure.verdict import TIMEOUT, Verdict
from esbench.requests.exchange import RequestFailed

_RECONNECT_PAUSE_S = 0.1  # doubled up to 1 s
_MOST_OF_A_SERVER = 16_000  # prepared statements of all connections: 16,382 by default (max_prepared_stmt_count)
_MOST_PREPARED, _FEWEST_PREPARED = 1_000, 20  # of a connection: each costs the server some kilobytes
_SERVER_IS_FULL = 1461  # ER_MAX_PREPARED_STMT_COUNT_REACHED


def most_prepared(clients: int) -> int:
    """Return how many statements each connection of a task keeps prepared, so that all fit into a server's limit."""
    return max(_FEWEST_PREPARED, min(_MOST_PREPARED, _MOST_OF_A_SERVER // clients))


class SqlSession:
    """A connection with the statements that it has prepared; `last` is the text of the last one, for examples.

    It keeps at most `most` of them, those that were used last; `closed` is how many it has closed for others.
    """

    def __init__(self, connection: Any, most: int = _MOST_PREPARED) -> None:
        self._connection = connection
        self._most = most
        self._prepared: dict[str, Any] = {}  # the one that was used last at the end
        self.closed = 0
        self.last = ""

    async def execute(self, text: str, args: tuple[Any, ...] = ()) -> Any:
        """Execute a prepared statement, which is prepared on its first use; return asyncmy's result, all rows read.

        Raises asyncmy's errors, and RequestFailed for values that it cannot send.
        """
        self.last = text
        try:
            statement = self._prepared.pop(text, None)
            if statement is None:
                statement = await self._prepare(text)
            self._prepared[text] = statement
            return await statement.execute(args)
        except OF_LIBRARY as error:
            raise RequestFailed(*failure_of(error)) from error

    async def _prepare(self, text: str) -> Any:
        if len(self._prepared) >= self._most:
            await self._close_oldest()
        try:
            return await self._connection.prepare(text)
        except library().errors.MySQLError as error:
            if error.args[:1] != (_SERVER_IS_FULL,) or not self._prepared:
                raise
        await self._close_oldest()
        return await self._connection.prepare(text)

    async def _close_oldest(self) -> None:
        self.closed += 1
        await self._prepared.pop(next(iter(self._prepared))).close()

    async def query(self, text: bytes | str, shown: str) -> int:
        """Send a statement as text; return how many rows it has changed. `shown` stands for it in examples.

        Raises as `execute` does.
        """
        self.last = shown
        try:
            return int(await self._connection.query(text))
        except OF_LIBRARY as error:
            raise RequestFailed(*failure_of(error)) from error

    def close(self) -> None:
        self._connection.close()


@dataclass(frozen=True)
class SqlTurns:
    """The work of a client slot: `draw` returns what the next request needs, `run` sends it and judges its result.

    `run` raises asyncmy's errors and RequestFailed. `most_prepared`: of statements on its connection.
    """

    draw: Callable[[], Any]
    run: Callable[[SqlSession, Any], Awaitable[Verdict]]
    most_prepared: int = _MOST_PREPARED


class SqlClient(CoroutineClient):
    """One client slot. Its service time is from before a request's first statement to behind its last row."""

    def __init__(
        self, slot: int, route: Route, turns: SqlTurns, params: Mapping[str, Any], options: ClientOptions
    ) -> None:
        super().__init__(slot, route)
        self.draw = turns.draw
        self._run_turn = turns.run
        self._most_prepared = turns.most_prepared
        self._options = options
        self._session: SqlSession | None = None
        self._errors = library().errors
        self._received_ns = 0
        self._deadline_ns = NEVER_NS
        self._pause_s = _RECONNECT_PAUSE_S

    @property
    def received_ns(self) -> int:
        return self._received_ns

    async def connect(self) -> None:
        route = self._route
        self._drop()
        async with route.hosts.connecting:
            self._host = host = route.hosts.choose(self.slot)
            try:
                self._session = SqlSession(await connect(host, self._options, route.access.tls), self._most_prepared)
            except (OSError, TimeoutError) as error:
                if open_files.are_exhausted(error):
                    raise open_files.exhausted() from error
                route.hosts.lose(host, reason_of(error))
                raise RequestFailed("connection refused", f"{host.label}: {reason_of(error)}") from error
            except self._errors.MySQLError as error:  # the server is there, and refuses: too many connections, say
                kind, text = failure_of(error)
                raise RequestFailed(kind, f"{host.label}: {text}") from error

    def sweep(self, now_ns: int) -> None:
        if now_ns >= self._deadline_ns:
            self.give_up(TIMEOUT, f"no reply from {self._host.label} within {self._route.timeout_s:g} s")

    def close(self) -> None:
        super().close()
        self._drop()

    def _drop(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()

    async def turn(self, due_ns: int, warmup: bool) -> None:
        sent_ns = clock_ns()
        self._deadline_ns = sent_ns + self.timeout_ns
        self.meter.sent(sent_ns, warmup)
        verdict = await self._verdict()
        received_ns, self._deadline_ns = clock_ns(), NEVER_NS
        if verdict.error is None:
            self.meter.good(due_ns, self.free_ns, sent_ns, received_ns, warmup, verdict, self.link, 0)
            self._received_ns = self.free_ns = received_ns
            self._pause_s = _RECONNECT_PAUSE_S
            return
        statement = self._session.last if self._session else ""
        if verdict is self.given_up or verdict.error == "connection lost":
            self._drop()
        verdict = self._route.failures.explain(verdict, statement.encode)
        self.loop.recorder.completed(due_ns, self.free_ns, sent_ns, received_ns, warmup, verdict)
        self.loop.failed(verdict)
        self.free_ns = received_ns
        if self._session is None:
            await self._pause()

    async def _pause(self) -> None:
        """Wait, so that a server without connections is not hammered, longer each time until it has one again."""
        try:
            await asyncio.sleep(self._pause_s)
        except asyncio.CancelledError:
            pass  # the race is over
        self._pause_s = min(1.0, self._pause_s * 2)
        self.free_ns = clock_ns()

    async def _verdict(self) -> Verdict:
        try:
            if self._session is None:
                await self.connect()
            assert self._session is not None
            return await self._run_turn(self._session, self.drawn)
        except RequestFailed as failure:
            return Verdict(0, failure.kind, failure.detail)
        except asyncio.CancelledError:
            return self.given_up
        except (self._errors.MySQLError, OSError, EOFError) as error:
            kind, text = failure_of(error)
            if is_lost(error):
                text = f"{self._host.label}: {text}"
            return Verdict(0, kind, text)
