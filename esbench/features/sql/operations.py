"""Operation types on a SQL server: a program for each that has one there. Types and their traits are the same.

search, get: the operation's `sql`; index: an INSERT of a row; bulk: one of many rows; create-index: the `table` of the
index; delete-index: DROP TABLE; assert-count: COUNT; force-merge: ANALYZE TABLE. refresh and cluster-health do nothing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from esbench.errors import TrackError
from esbench.features.sql.client import SqlSession, SqlTurns, most_prepared
from esbench.features.sql.statements import Values, counting, quoted_name
from esbench.features.sql.tuples import END, RowDocuments, columns_of, parameter
from esbench.measure.verdict import GOOD, Verdict
from esbench.model import SQL, Task, Track
from esbench.operations.base import TaskContext
from esbench.operations.bulk_program import BulkProgram, Piece
from esbench.operations.documents import FreshDocuments, corpus_of
from esbench.operations.indices import judge_count, to_create, to_delete
from esbench.operations.parameters import flag
from esbench.requests.programs import Program
from esbench.requests.sql_text import Statement, statements_in
from esbench.requests.templates import Encoding

Run = Callable[[SqlSession, Any], Awaitable[Verdict]]


class SqlProgram:
    """A program whose clients all draw and run alike."""

    finite = False

    def __init__(
        self,
        run: Run,
        draw: Callable[[], Any] = lambda: None,
        *,
        close: Callable[[], None] = lambda: None,
        most_prepared: int | None = None,
        notes: Callable[[], tuple[str, ...]] = tuple,
    ) -> None:
        self._turns = SqlTurns(draw, run) if most_prepared is None else SqlTurns(draw, run, most_prepared)
        self._notes = notes
        self.close = close

    @property
    def notes(self) -> tuple[str, ...]:
        """Sentences about what makes its figures differ from what they seem to be."""
        return self._notes()

    @property
    def feed_waits(self) -> int:
        return 0

    def client(self, slot: int, headers: bytes) -> Any:
        """Return the SqlTurns of a client slot."""
        return self._turns


def _selecting(context: TaskContext) -> SqlProgram:
    return _asking(context, must_find=False)


def _getting(context: TaskContext) -> SqlProgram:
    return _asking(context, must_find=flag(context.params.get("expect-found"), True))


def _asking(context: TaskContext, *, must_find: bool) -> SqlProgram:
    statement = Statement.of(context.params[SQL], context.where)
    values = Values(statement, context)
    not_found = Verdict(0, "not found", "the statement gave no row")

    async def run(session: SqlSession, args: tuple[Any, ...]) -> Verdict:
        result = await session.execute(statement.text, args)
        return not_found if must_find and not result.rows else GOOD

    return SqlProgram(run, values.draw, close=values.close)


def _inserting(context: TaskContext) -> SqlProgram:
    """Insert new documents of a corpus, each in one transaction; a statement for each set of fields that they have."""
    index, documents = context.default_index(), corpus_of(context.params, context.documents, context.where)
    fresh = FreshDocuments(context, documents, [("body", Encoding.RAW)])
    inserted = closed = 0
    most = most_prepared(context.task.clients)

    def draw() -> tuple[str, tuple[Any, ...]]:
        document = json.loads(fresh.draw()[0])
        statement = f"{_insert_into(index, tuple(document))} ({','.join('?' * len(document))})"
        try:
            return statement, tuple(map(parameter, document.values()))
        except ValueError as error:
            raise TrackError(f"a document has {error}: {str(document)[:100]}", where=context.where) from None

    async def run(session: SqlSession, drawn: tuple[str, tuple[Any, ...]]) -> Verdict:
        nonlocal inserted, closed
        closed_before = session.closed
        try:
            await session.execute(*drawn)
        finally:
            closed += session.closed - closed_before
        inserted += 1
        return GOOD

    def notes() -> tuple[str, ...]:
        if not closed:
            return ()
        text = f"{context.where}: its documents have more than {most} different sets of fields: statements were closed"
        return (f"{text} and prepared again within the time of inserts",)

    def close() -> None:
        context.ledger.acknowledge(index, inserted)
        fresh.close(context.ledger)

    return SqlProgram(run, draw, close=close, most_prepared=most, notes=notes)


def _insert_into(table: str, columns: Sequence[str]) -> str:
    return f"INSERT INTO {quoted_name(table)} ({','.join(map(quoted_name, columns))}) VALUES"


class _Bulk(BulkProgram):
    """Bulks of rows: each is one INSERT."""

    def __init__(self, context: TaskContext) -> None:
        self._columns = {each.key: columns_of(each) for each in context.documents}
        super().__init__(replace(context, documents=tuple(map(RowDocuments.of, context.documents))))

    def client(self, slot: int, headers: bytes) -> Any:
        """Return the SqlTurns of a client slot."""
        draw = super().client(slot, headers).draw
        return SqlTurns(lambda: self._insert(draw()), self._run)

    def _insert(self, piece: Piece) -> tuple[Piece, str, bytes]:
        """Return a bulk with the head of its statement, and the statement."""
        assert piece.part is not None
        assert piece.target.index is not None
        head = _insert_into(piece.target.index, self._columns[piece.part.file])
        return piece, head, b"%b %b" % (head.encode(), bytes(piece.lines[:-END]))

    async def _run(self, session: SqlSession, drawn: tuple[Piece, str, bytes]) -> Verdict:
        piece, head, statement = drawn
        assert piece.part is not None
        piece.part.end = max(piece.part.end, piece.end)
        inserted = await session.query(statement, f"{head} (...)")
        self.acknowledged[piece.target.index or ""] += inserted
        return Verdict(inserted)


def _creating(context: TaskContext) -> SqlProgram:
    indices = to_create(context)
    statements = [statement for index in indices for statement in statements_in(index.table or "")]
    return _running(statements, lambda: _empty(context, [index.name for index in indices]))


def _deleting(context: TaskContext) -> SqlProgram:
    names = to_delete(context.params, context.indices)
    return _running([f"DROP TABLE IF EXISTS {quoted_name(name)}" for name in names], lambda: _empty(context, names))


def _empty(context: TaskContext, names: Sequence[str]) -> None:
    for name in names:
        context.ledger.empty(name)


def _analyzing(context: TaskContext) -> SqlProgram:
    return _running([f"ANALYZE TABLE {quoted_name(index.name)}" for index in context.indices])


def _running(statements: Sequence[str], done: Callable[[], None] = lambda: None) -> SqlProgram:
    """Return a program that sends statements in order; `done` is called when all have succeeded."""

    async def run(session: SqlSession, _: object) -> Verdict:
        for statement in statements:
            await session.execute(statement)  # prepared: one that holds several is an error
        done()
        return GOOD

    return SqlProgram(run)


def _counting(context: TaskContext) -> SqlProgram:
    statement, judge = counting(context.default_index()), judge_count(context)

    async def run(session: SqlSession, _: object) -> Verdict:
        return judge(int((await session.execute(statement)).rows[0][0]))

    return SqlProgram(run)


def _doing_nothing(context: TaskContext) -> SqlProgram:
    async def run(session: SqlSession, _: object) -> Verdict:
        await asyncio.sleep(0)
        return GOOD

    return SqlProgram(run)


def _no_statement(params: Mapping[str, Any], track: Track) -> str:
    return "" if isinstance(params.get(SQL), str) else 'needs "sql": "SELECT ...", in addition to its request'


def _no_table(params: Mapping[str, Any], track: Track) -> str:
    lacking = [index.name for index in track.indices if index.table is None]
    return f'creates "{lacking[0]}", whose index has no "table": a file with CREATE TABLE' if lacking else ""


def _pattern(params: Mapping[str, Any], track: Track) -> str:
    patterns = [name for name in to_delete(params, track.indices) if set(name) & set("*?")]
    return f'deletes the pattern "{patterns[0]}", and tables are dropped by their names' if patterns else ""


def _body(params: Mapping[str, Any], track: Track) -> str:
    return 'writes a "body", and a SQL server gets documents of a corpus' if params.get("body") is not None else ""


def _conflicts(params: Mapping[str, Any], track: Track) -> str:
    return 'has "conflicts", and rows of a SQL server are new ones' if params.get("conflicts") is not None else ""


@dataclass(frozen=True)
class _SqlType:
    """An operation type on a SQL server. `refuse` returns why nothing can be sent for its parameters, "" otherwise."""

    compile: Callable[[TaskContext], Program]
    refuse: Callable[[Mapping[str, Any], Track], str] = lambda params, track: ""


_TYPES: Mapping[str, _SqlType] = {
    "search": _SqlType(_selecting, _no_statement),
    "get": _SqlType(_getting, _no_statement),
    "index": _SqlType(_inserting, _body),
    "bulk": _SqlType(_Bulk, _conflicts),
    "create-index": _SqlType(_creating, _no_table),
    "delete-index": _SqlType(_deleting, _pattern),
    "refresh": _SqlType(_doing_nothing),
    "force-merge": _SqlType(_analyzing),
    "cluster-health": _SqlType(_doing_nothing),
    "assert-count": _SqlType(_counting),
}


def program_of(context: TaskContext) -> Program:
    """Return the program of an operation on a SQL server, of a task that `require_sql` has let pass."""
    return _TYPES[context.task.operation.type].compile(context)


def require_sql(task: Task, track: Track) -> None:
    """Raise a TrackError for a task that nothing can be sent for to a SQL server."""
    operation = task.operation
    known = None if operation.python else _TYPES.get(operation.type)
    why = f"({operation.type}) has no SQL" if known is None else known.refuse(operation.params, track)
    if why:
        hint = "docs/sql.md says what a track gives; --exclude-tasks leaves the task out"
        raise TrackError(f'task "{task.name}" {why}', hint=hint)
