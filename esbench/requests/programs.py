"""Programs of operations: requests with slots, one or a sequence that shares a draw; and scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any, Protocol

from esbench.measure.verdict import Verdict
from esbench.requests.context import RequestContext
from esbench.requests.exchange import ClientProgram, Exchange, RequestBytes, Run, Script, ScriptSession
from esbench.requests.templates import Draw, Layout, RequestTemplate, own_headers
from esbench.requests.variables import ValueSource, ends, keep_positions, make_sources

Judge = Callable[[int, bytes, Any], Verdict]


class Program(Protocol):
    """An operation compiled for the client slots of one worker."""

    @property
    def finite(self) -> bool:
        """True if its clients end by themselves (Exhausted)."""
        ...

    @property
    def feed_waits(self) -> int:
        """The number of times that a request had to wait for its documents to be made or unpacked."""
        ...

    def client(self, slot: int, headers: bytes) -> ClientProgram | Script:
        """Return the program of one client slot; `headers` are the header lines of its connection."""
        ...

    def close(self) -> None:
        """Release all resources, and enter into the ledger what was written."""
        ...


@dataclass(frozen=True)
class Request:
    """One request of an operation before it is bound to a connection; `judge` and `name` are those of its Exchange."""

    template: RequestTemplate
    judge: Judge
    name: str = ""


class TemplateProgram:
    """A program of one or several templates that share a draw. `given`: sources of the operation, by variable name."""

    def __init__(
        self, context: RequestContext, requests: Sequence[Request], given: Mapping[str, ValueSource] | None = None
    ) -> None:
        self._requests = requests
        self._context = context
        self._ledger = context.ledger
        self._layout = Layout(slot for request in requests for slot in request.template.slots)
        given = given or {}
        drawn = {name: places for name, places in self._layout.fields.items() if name not in given}
        self._by_name = {**make_sources(drawn, context), **given}
        self._sources = [self._by_name[name] for name in self._layout.variables]

    @property
    def finite(self) -> bool:
        return any(map(ends, self._by_name.values()))

    @property
    def feed_waits(self) -> int:
        return 0  # templates wait for nothing

    def client(self, slot: int, headers: bytes) -> ClientProgram | Script:
        return self.exchanging(headers)

    def exchanging(self, headers: bytes) -> ClientProgram:
        """Return the client program that draws and sends the requests, with these header lines of a connection."""
        program = TemplateClientProgram(
            self._sources,
            [
                Exchange(
                    request.name,
                    request.template.bind(self._layout, headers, self._context.compress),
                    request.judge,
                    request.template.closes,
                    request.template.method == "HEAD",
                )
                for request in self._requests
            ],
        )
        if self._context.compress and not any(source.at_send for source in self._sources):
            return RenderedAhead(program)
        return program

    def close(self) -> None:
        keep_positions(self._by_name.values(), self._ledger)


class TemplateClientProgram:
    """The program of one client slot: draws values ahead; those that depend on the time, only at the send."""

    def __init__(self, sources: Sequence[ValueSource], exchanges: Sequence[Exchange]) -> None:
        late = [(number, source) for number, source in enumerate(sources) if source.at_send]
        self.exchanges = exchanges if not late else [_with_late_draws(exchanges[0], late), *exchanges[1:]]
        draws: list[Callable[[], Sequence[bytes]]] = [_not_yet if source.at_send else source.draw for source in sources]
        if late:
            self.draw: Callable[[], Draw] = lambda: [draw() for draw in draws]
        elif draws:  # zip makes a tuple of one draw of each, without a Python frame
            self.draw = zip(*(iter(draw, None) for draw in draws), strict=False).__next__
        else:
            self.draw = _not_yet


class RenderedAhead:
    """A program whose requests are rendered when they are drawn, so that compressing a body delays no request."""

    def __init__(self, program: ClientProgram) -> None:
        self._program = program
        self.exchanges = [
            replace(exchange, render=itemgetter(number)) for number, exchange in enumerate(program.exchanges)
        ]

    def draw(self) -> list[RequestBytes]:
        drawn = self._program.draw()
        return [exchange.render(drawn) for exchange in self._program.exchanges]


def _not_yet() -> tuple[()]:
    return ()


def _with_late_draws(exchange: Exchange, late: Sequence[tuple[int, ValueSource]]) -> Exchange:
    def render(drawn: list[Sequence[bytes]]) -> RequestBytes:
        for number, source in late:
            drawn[number] = source.draw()
        return exchange.render(drawn)

    return replace(exchange, render=render)


class ScriptProgram:
    """The program of an administrative operation: the same script for every client."""

    finite = False
    feed_waits = 0

    def __init__(self, run: Run, params: Mapping[str, Any]) -> None:
        self._script = _Running(run, common_headers(params))

    def client(self, slot: int, headers: bytes) -> Script:
        return self._script

    def close(self) -> None:
        """Do nothing: no resources are held."""


@dataclass(frozen=True)
class _Running:
    """A script that runs a function; its requests carry the operation's own headers."""

    function: Run
    headers: Mapping[str, str]

    async def run(self, session: ScriptSession) -> Verdict:
        session.own_headers = self.headers
        try:
            return await self.function(session)
        finally:
            session.own_headers = {}


def template_of(
    context: RequestContext,
    method: str,
    path: str,
    *,
    query: Mapping[str, Any] | None = None,
    headers: Mapping[str, str] | None = None,
    body: Any = None,
) -> RequestTemplate:
    """Return the template of a request of the task's operation, with the headers that its parameters add.

    `headers` replace those of the same name. Raises TrackError as `RequestTemplate.of`.
    """
    headers = {**common_headers(context.task.operation.params), **(headers or {})}
    return RequestTemplate.of(method, path, query=query, headers=headers, body=body, where=context.where)


def common_headers(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that an operation's own parameters add (`headers` and `opaque-id`)."""
    headers = own_headers({str(name): str(value) for name, value in (params.get("headers") or {}).items()})
    if opaque_id := params.get("opaque-id"):
        headers["X-Opaque-Id"] = str(opaque_id)
    return headers
