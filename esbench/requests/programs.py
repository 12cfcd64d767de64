"""Programs of operations: requests with slots, one or a sequence that shares a draw; and scripts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, Protocol

from esbench.measure.verdict import Verdict
from esbench.requests.context import RequestContext
from esbench.requests.exchange import ClientProgram, Exchange, RequestBytes
from esbench.requests.script import Reply, Script, Session
from esbench.requests.templates import Draw, Layout, RequestTemplate
from esbench.requests.variables import SequenceSource, Source, SourceContext, make_sources

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
    """One request of an operation before it is bound to a connection."""

    template: RequestTemplate
    judge: Judge
    name: str = ""


class TemplateProgram:
    """A program of one or several templates that share a draw. `given`: sources of the operation, by variable name."""

    finite = False

    def __init__(
        self, context: RequestContext, requests: Sequence[Request], given: Mapping[str, Source] | None = None
    ) -> None:
        self._requests = requests
        self._context = context
        self._ledger = context.ledger
        self._layout = Layout(slot for request in requests for slot in request.template.slots)
        given = given or {}
        declared = {name: places for name, places in self._layout.fields.items() if name not in given}
        variables = {variable.name: variable for variable in (*context.variables, *context.task.operation.variables)}
        sources = dict(
            zip(
                declared,
                make_sources(declared, list(variables.values()), source_context(context), context.where),
                strict=True,
            )
        )
        self._sources = [sources[name] if name in sources else given[name] for name in self._layout.variables]

    @property
    def feed_waits(self) -> int:
        """Always 0: templates wait for nothing."""
        return 0

    def client(self, slot: int, headers: bytes) -> ClientProgram:
        program = TemplateClientProgram(
            self._sources,
            [
                Exchange(
                    request.name, request.template.bind(self._layout, headers, self._context.compress), request.judge
                )
                for request in self._requests
            ],
        )
        if self._context.compress and not any(source.at_send for source in self._sources):
            return RenderedAhead(program)
        return program

    def close(self) -> None:
        for name, source in zip(self._layout.variables, self._sources, strict=True):
            if isinstance(source, SequenceSource):
                self._ledger.advance(name, source.next_value)


class TemplateClientProgram:
    """The program of one client slot: draws values ahead; those that depend on the time, only at the send."""

    def __init__(self, sources: Sequence[Source], exchanges: Sequence[Exchange]) -> None:
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
            Exchange(exchange.name, itemgetter(number), exchange.judge)
            for number, exchange in enumerate(program.exchanges)
        ]

    def draw(self) -> list[RequestBytes]:
        drawn = self._program.draw()
        return [exchange.render(drawn) for exchange in self._program.exchanges]


def _not_yet() -> tuple[()]:
    return ()


def _with_late_draws(exchange: Exchange, late: Sequence[tuple[int, Source]]) -> Exchange:
    def render(drawn: list[Sequence[bytes]]) -> RequestBytes:
        for number, source in late:
            drawn[number] = source.draw()
        return exchange.render(drawn)

    return Exchange(exchange.name, render, exchange.judge)


class ScriptProgram:
    """The program of an administrative operation: the same script for every client."""

    finite = False
    feed_waits = 0

    def __init__(self, script: Script, params: Mapping[str, Any]) -> None:
        headers = common_headers(params)
        self._script = _WithHeaders(script, headers) if headers else script

    def client(self, slot: int, headers: bytes) -> Script:
        return self._script

    def close(self) -> None:
        """Do nothing: no resources are held."""


@dataclass(frozen=True)
class _WithHeaders:
    """A script whose requests carry the operation's own headers."""

    script: Script
    headers: Mapping[str, str]

    async def run(self, session: Session) -> Verdict:
        return await self.script.run(_HeaderSession(session, self.headers))


@dataclass(frozen=True)
class _HeaderSession:
    session: Session
    headers: Mapping[str, str]

    @property
    def notes(self) -> dict[str, str]:
        return self.session.notes

    @property
    def answer(self) -> Reply | None:
        return self.session.answer

    @answer.setter
    def answer(self, answer: Reply | None) -> None:
        self.session.answer = answer

    @property
    def lanes(self) -> Sequence[Session]:
        return tuple(_HeaderSession(lane, self.headers) for lane in self.session.lanes)

    def part(self, name: str, timeout_s: float | None = None) -> AbstractContextManager[None]:
        return self.session.part(name, timeout_s)

    async def pause(self, duration_s: float) -> None:
        await self.session.pause(duration_s)

    async def send(self, request: RequestBytes, timeout_s: float | None = None) -> Reply:
        return await self.session.send(request, timeout_s)

    async def request(self, method: str, path: str, **keys: Any) -> Reply:
        headers = {**self.headers, **(keys.pop("headers", None) or {})}
        return await self.session.request(method, path, headers=headers, **keys)


def source_context(context: RequestContext) -> SourceContext:
    return SourceContext(
        seed=context.seed,
        race_id=context.race_id,
        task=context.task.name,
        stripe=context.stripe,
        stripes=context.stripes,
        next_values=context.before.next_values,
        documents=context.documents,
        loaded=context.before.loaded_counts(),
    )


def common_headers(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers that an operation's own parameters add (`headers` and `opaque-id`)."""
    headers = {str(name): str(value) for name, value in (params.get("headers") or {}).items()}
    if opaque_id := params.get("opaque-id"):
        headers["X-Opaque-Id"] = str(opaque_id)
    return headers
