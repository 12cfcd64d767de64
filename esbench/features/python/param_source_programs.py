"""Programs of operations whose parameters a source of the track draws.

Each request is compiled by its operation type when it is drawn, before it is due.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from esbench.errors import TrackError
from esbench.features.python.loading import NamedSource
from esbench.features.python.runners import bulk_body, bulk_path, of_task
from esbench.features.python.task_sources import PythonContext, SourcedProgram
from esbench.measure.verdict import Verdict
from esbench.operations.base import OperationType
from esbench.operations.bulk_program import bulk_head
from esbench.operations.parameters import flag
from esbench.operations.replies import judge_bulk
from esbench.requests.exchange import (
    ClientProgram,
    Concurrent,
    Exchange,
    Exhausted,
    RequestBytes,
    Script,
    ScriptSession,
)
from esbench.requests.programs import Program
from esbench.requests.templates import closes
from esbench.track.python_part import is_bulk


class ParamSourceProgram(SourcedProgram):
    """The program of an operation that is compiled again for each draw of a parameter source."""

    def __init__(self, context: PythonContext, kind: OperationType) -> None:
        super().__init__(context)
        self._kind = kind
        self._clients: list[_Drawing] = []

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
        self, context: PythonContext, kind: OperationType, source: NamedSource, slot: int, headers: bytes
    ) -> None:
        self._context, self._kind = context, kind
        self._slot, self._headers = slot, headers
        self.source = source
        self._program: Program | None = None
        self._ahead: list[ClientProgram | Script | None] = []

    def peek(self) -> ClientProgram | Script | None:
        """Make the first program, which `next` returns again; None if the source has no parameters at all."""
        self._ahead = [self._make()]
        return self._ahead[0]

    def next(self) -> ClientProgram | Script:
        compiled = self._ahead.pop() if self._ahead else self._make()
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
        self._kind.check(params, where)
        self._program = self._kind.compile(self._context.alone(operation, self._slot))
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

    async def run(self, session: ScriptSession) -> Verdict:
        assert self._script is not None
        return await self._script.run(session)


class DrawnClientProgram:
    """A client program with drawn parameters; its requests are rendered when they are drawn."""

    def __init__(self, drawing: _Drawing, first: ClientProgram) -> None:
        self._drawing = drawing
        self.exchanges = tuple(_drawn_exchange(exchange, number) for number, exchange in enumerate(first.exchanges))

    def draw(self) -> list[tuple[RequestBytes, Exchange, Any]]:
        program = self._drawing.next()
        if isinstance(program, Script) or len(program.exchanges) != len(self.exchanges):
            raise TrackError("the param-source changed what kind of request it draws")
        drawn = program.draw()
        return [(exchange.render(drawn), exchange, drawn) for exchange in program.exchanges]


def _drawn_exchange(first: Exchange, number: int) -> Exchange:
    """Return the exchange of that number, whose request was rendered when it was drawn; `first` is that of a draw."""

    def render(drawn: Sequence[tuple[RequestBytes, Exchange, Any]]) -> RequestBytes:
        return drawn[number][0]

    def judge(status: int, body: bytes, drawn: Sequence[tuple[RequestBytes, Exchange, Any]]) -> Verdict:
        _, exchange, of_exchange = drawn[number]
        return exchange.judge(status, body, of_exchange)

    return replace(first, render=render, judge=judge)


class _GivenBulk:
    """A bulk whose body the parameter source made: `body`, `bulk-size`, and `index` if action lines name no index."""

    def __init__(self, params: Mapping[str, Any], headers: bytes, where: str, context: PythonContext) -> None:
        try:
            size = int(params["bulk-size"])
        except (KeyError, TypeError, ValueError):
            raise TrackError('a bulk with a "body" needs "bulk-size"', where=where, hint="its documents") from None
        body = bulk_body(params["body"])
        head = bulk_head(bulk_path(params), params, headers) + b"%d\r\n\r\n" % len(body)
        index = params.get("index")
        comes_again = params.get("conflicts") is not None or flag(params.get("looped"))

        def judge(status: int, reply: bytes, drawn: object) -> Verdict:
            verdict = judge_bulk(status, reply, size)
            if index:
                made = reply.count(b'"result":"created"') if comes_again else int(verdict.units)
                context.ledger.acknowledge(str(index), made)
            return verdict

        self.exchanges = (Exchange("", lambda drawn: (head, body), judge, closes(head)),)

    def draw(self) -> None:
        return None
