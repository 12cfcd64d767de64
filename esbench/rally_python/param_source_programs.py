"""Programs of operations whose parameters a source of the track draws.

Each request is compiled by its operation type when it is drawn, before it is due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from esbench.errors import TrackError
from esbench.measure.verdict import Verdict
from esbench.operations.base import OperationType
from esbench.operations.parameters import flag
from esbench.operations.replies import judge_bulk
from esbench.rally_python.loading import ParamSource
from esbench.rally_python.runners import bulk_body, bulk_path, bulk_query, of_task
from esbench.rally_python.task_sources import PythonContext, parts_of, source_of
from esbench.requests.exchange import ClientProgram, Exchange, Exhausted, RequestBytes
from esbench.requests.programs import Program, common_headers
from esbench.requests.script import Concurrent, Script, Session
from esbench.track.python_part import is_bulk


class DrawnProgram:
    """The program of an operation that is compiled again for each draw of a parameter source."""

    feed_waits = 0

    def __init__(self, context: PythonContext, kind: OperationType) -> None:
        self._context = context
        self._kind = kind
        source = source_of(context)
        assert source is not None
        self._parts = parts_of(source, context)
        self._clients: list[_Drawing] = []

    @property
    def finite(self) -> bool:
        return any(not part.infinite for part in self._parts.values())

    @property
    def sources(self) -> dict[int, Any]:
        """The track's parameter sources, by client slot."""
        return {slot: part.source for slot, part in self._parts.items()}

    def client(self, slot: int, headers: bytes) -> ClientProgram | Script:
        drawing = _Drawing(self._context, self._kind, self._parts[slot], slot, headers)
        self._clients.append(drawing)
        first = drawing.peek()
        if first is None or isinstance(first, Script):
            return DrawnScript(drawing, first)
        return DrawnClientProgram(drawing, first)

    def close(self) -> None:
        for drawing in self._clients:
            drawing.close()


class _Drawing:
    """The draws of one client: parameters are drawn and compiled, one program at a time."""

    def __init__(
        self, context: PythonContext, kind: OperationType, source: ParamSource, slot: int, headers: bytes
    ) -> None:
        self._context, self._kind = context, kind
        self._slot, self._headers = slot, headers
        self.source = source
        self._program: Program | None = None
        self._first: ClientProgram | Script | None = None
        self._peeked = False

    def peek(self) -> ClientProgram | Script | None:
        """Make the first program, which `next` returns again; None if the source has no parameters at all."""
        self._first, self._peeked = self._make(), True
        return self._first

    def next(self) -> ClientProgram | Script:
        if self._peeked:
            self._peeked = False
            compiled = self._first
        else:
            compiled = self._make()
        if compiled is None:
            raise Exhausted
        return compiled

    def _make(self) -> ClientProgram | Script | None:
        params = self.source.params()
        if params is None:
            return None
        self.close()
        where = self._context.where
        if is_bulk(self._kind.name) and "body" in params:
            of_task(self._context)
            return _GivenBulk(params, self._headers, where, self._context)
        operation = replace(self._context.task.operation, params=params)
        own = replace(
            self._context, task=replace(self._context.task, operation=operation, clients=1), slots=(self._slot,)
        )
        self._kind.check(params, where)
        self._program = self._kind.compile(own)
        return self._program.client(self._slot, self._headers)

    def close(self) -> None:
        if self._program is not None:
            self._program.close()
            self._program = None


class DrawnScript:
    """A script with drawn parameters: each run executes the script that was drawn last."""

    def __init__(self, drawing: _Drawing, first: Script | None) -> None:
        self._drawing = drawing
        self._script: Script | None = None
        self.connections = first.connections if isinstance(first, Concurrent) else 1

    def draw(self) -> None:
        drawn = self._drawing.next()
        assert isinstance(drawn, Script)
        self._script = drawn

    async def run(self, session: Session) -> Verdict:
        assert self._script is not None
        return await self._script.run(session)


class DrawnClientProgram:
    """A client program with drawn parameters; its requests are rendered when they are drawn."""

    def __init__(self, drawing: _Drawing, first: ClientProgram) -> None:
        self._drawing = drawing
        self.exchanges = tuple(
            Exchange(exchange.name, _Rendered(number), _Judged(number))
            for number, exchange in enumerate(first.exchanges)
        )

    def draw(self) -> list[tuple[RequestBytes, Exchange, Any]]:
        program = self._drawing.next()
        if isinstance(program, Script) or len(program.exchanges) != len(self.exchanges):
            raise TrackError("the param-source changed what kind of request it draws")
        drawn = program.draw()
        return [(exchange.render(drawn), exchange, drawn) for exchange in program.exchanges]


class _Rendered:
    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, drawn: Sequence[tuple[RequestBytes, Exchange, Any]]) -> RequestBytes:
        return drawn[self._number][0]


class _Judged:
    def __init__(self, number: int) -> None:
        self._number = number

    def __call__(self, status: int, body: bytes, drawn: Sequence[tuple[RequestBytes, Exchange, Any]]) -> Verdict:
        _, exchange, of_exchange = drawn[self._number]
        return exchange.judge(status, body, of_exchange)


class _GivenBulk:
    """A bulk whose body the parameter source made: `body`, `bulk-size`, and `index` if action lines name no index."""

    def __init__(self, params: Mapping[str, Any], headers: bytes, where: str, context: PythonContext) -> None:
        from urllib.parse import urlencode

        try:
            size = int(params["bulk-size"])
        except (KeyError, TypeError, ValueError):
            raise TrackError('a bulk with a "body" needs "bulk-size"', where=where, hint="its documents") from None
        body = bulk_body(params["body"])
        query = bulk_query(params)
        path = bulk_path(params) + (f"?{urlencode(query)}" if query else "")
        own = "".join(f"{name}: {value}\r\n" for name, value in common_headers(params).items())
        head = (
            f"POST {path} HTTP/1.1\r\n".encode()
            + headers
            + own.encode("latin-1")
            + b"Content-Type: application/x-ndjson\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        index = params.get("index")
        comes_again = params.get("conflicts") is not None or flag(params.get("looped"))

        def judge(status: int, reply: bytes, drawn: object) -> Verdict:
            verdict = judge_bulk(status, reply, size)
            if index:
                made = reply.count(b'"result":"created"') if comes_again else int(verdict.units)
                context.ledger.acknowledge(str(index), made)
            return verdict

        self.exchanges = (Exchange("", lambda drawn: (head, body), judge),)

    def draw(self) -> None:
        return None
