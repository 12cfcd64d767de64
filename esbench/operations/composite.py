"""Composite operations: several requests as one operation, in sequence or in concurrent streams.

Each request has its own row; the operation's service time spans all of them. Adjacent streams run at the same time;
the elements after them wait for all of these.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.errors import EsbenchError, TrackError, did_you_mean
from esbench.measure.verdict import GOOD, Verdict
from esbench.model import Operation
from esbench.operations.assertions import asserted
from esbench.operations.base import REQUEST, OperationType, TaskContext
from esbench.operations.drawn import VariableScript, as_drawn, insist
from esbench.operations.parameters import Parameter, whole
from esbench.operations.points_in_time import OPEN_POINT_IN_TIME, SUBMIT_ASYNC_SEARCH
from esbench.operations.turns import WEIGHT, Turns, weight_of
from esbench.requests.exchange import RequestFailed, Script, ScriptSession
from esbench.requests.programs import Program
from esbench.tables import Registry
from esbench.units import parse_duration

# Parameters that name an earlier request, and that request's type.
_REFERENCES = {
    "with-point-in-time-from": OPEN_POINT_IN_TIME.name,
    "retrieve-results-for": SUBMIT_ASYNC_SEARCH.name,
    "delete-results-for": SUBMIT_ASYNC_SEARCH.name,
}


class Composite(OperationType):
    name = "composite"
    traits = replace(REQUEST, load=None, reads=None)
    doc = "Several requests as one operation, each with its own row; streams run at the same time."
    parameters = {
        "requests": Parameter(
            'operations, each with "operation-type" and "name", and {"stream": [...]} of the same; any with a "weight"',
            (list,),
            required=True,
        ),
        "max-connections": Parameter(
            "how many requests of a client may run at once; all that can by default", (int,), least=1
        ),
    }

    def __init__(self, types: Registry[OperationType]) -> None:
        """`types`: those that its requests may be of; more may be added to them later."""
        self._types = types

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        for element, names in _each_with_names(params["requests"]):
            self._check_elements([element], names, where, may_have_weight=True)

    def tolerated(self, params: Mapping[str, Any]) -> Iterator[TrackError]:
        yield from super().tolerated(params)
        yield from self._tolerated(params["requests"])

    def check_part(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)  # its requests were checked with those around it
        if params.get("max-connections") is not None:
            raise TrackError('"max-connections" belongs to the outermost composite', where=where)

    def features(self, params: Mapping[str, Any]) -> Iterator[Feature]:
        for element in params.get("requests") or params.get("stream") or ():
            kind = self if "stream" in element else self._types.get(element["operation-type"])
            yield from kind.features(element)

    def reads(self, params: Mapping[str, Any]) -> bool:
        return self._all_read(params["requests"])

    def connections(self, params: Mapping[str, Any]) -> int:
        return min(_width(_widest(params["requests"])), whole(params.get("max-connections")) or 1 << 30)

    def compile(self, context: TaskContext) -> Program:
        return _CompositeProgram(context, self._types, self.connections(context.params))

    def _check_elements(
        self, elements: Sequence[Any], names: dict[str, str], where: str, *, may_have_weight: bool = False
    ) -> None:
        """Raise TrackError for an element that is not a valid request or stream of requests.

        `names`: the types of the requests before, by name; those of the elements are added.
        """
        allowed = [name for name in self._types if self._types.get(name).traits.in_composite]
        for element in elements:
            if not isinstance(element, Mapping) or ("stream" in element) == ("operation-type" in element):
                what = f'a request needs an "operation-type", or is a {{"stream": [...]}}, not {str(element)[:100]}'
                raise TrackError(what, where=where)
            if weight_of(element, "a request", where) is not None and not may_have_weight:
                what = '"weight" belongs to the requests and streams of the outermost composite'
                raise TrackError(what, where=where, hint="a stream with a weight may hold several requests")
            if "stream" in element:
                if not isinstance(element["stream"], list):
                    raise TrackError('a "stream" must be a list of requests', where=where)
                self._check_elements(element["stream"], names, where)
                continue
            kind = element["operation-type"]
            if kind not in allowed:
                raise TrackError(
                    f'a composite cannot contain "{kind}"', where=where, hint=did_you_mean(str(kind), allowed)
                )
            name = _name_of(element)
            try:
                _check_request(element, names)
                self._types.get(kind).check_part(element, "")
            except EsbenchError as error:
                raise TrackError(f'request "{name}": {error.what}', where=where, hint=error.hint) from None
            names[name] = kind
            if kind == Composite.name:
                self._check_elements(element["requests"], names, where)

    def _all_read(self, elements: Sequence[Mapping[str, Any]]) -> bool:
        """True if each request of a composite that was checked is known to change no document."""
        return all(
            self._all_read(element["stream"])
            if "stream" in element
            else self._types.get(element["operation-type"]).reads(element)
            for element in elements
        )

    def _tolerated(self, elements: Sequence[Mapping[str, Any]]) -> Iterator[TrackError]:
        """Yield the tolerated faults of requests that were checked."""
        for element in elements:
            if "stream" in element:
                yield from self._tolerated(element["stream"])
            else:
                for fault in self._types.get(element["operation-type"]).tolerated(element):
                    yield TrackError(f'request "{_name_of(element)}": {fault.what}', hint=fault.hint)


def _each_with_names(elements: Sequence[Any]) -> Iterator[tuple[Any, dict[str, str]]]:
    """Yield each element with the types of the requests before it by name, to which its own are to be added.

    Those of an element with a weight are not before any other: a turn may be without them.
    """
    names: dict[str, str] = {}
    for element in elements:
        yield element, dict(names) if isinstance(element, Mapping) and element.get(WEIGHT) is not None else names


def _flat(elements: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """Yield the elements of a composite, and in place of a composite among them its own."""
    for element in elements:
        if element.get("operation-type") == Composite.name:
            yield from _flat(element["requests"])
        else:
            yield element


def _width(elements: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of requests that can run at the same time, at least 1."""
    groups = groupby(_flat(elements), lambda element: "stream" in element)
    widths = (sum(_width(each["stream"]) for each in group) for is_of_streams, group in groups if is_of_streams)
    return max(widths, default=1)


def _widest(elements: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the elements of the turn that needs the most connections: of adjacent weighted ones, one."""
    widest: list[Mapping[str, Any]] = []
    for is_drawn, group in groupby(elements, lambda element: element.get(WEIGHT) is not None):
        members = list(group)
        widest += [max(members, key=lambda each: ("stream" in each, _width([each])))] if is_drawn else members
    return widest


def _check_request(element: Mapping[str, Any], names: Mapping[str, str]) -> None:
    for key, kind in _REFERENCES.items():
        wanted = element.get(key) or ()
        known = [name for name, its_kind in names.items() if its_kind == kind]
        for name in [wanted] if isinstance(wanted, str) else wanted:
            if name not in known:
                raise TrackError(f'no {kind} named "{name}" comes before', hint=did_you_mean(str(name), known))


def _name_of(element: Mapping[str, Any]) -> str:
    return str(element.get("name") or element["operation-type"])


@dataclass(frozen=True)
class _Request:
    """A request of a composite; `number` is its position among all requests of the composite, from 0."""

    name: str
    number: int
    assertions: Sequence[Mapping[str, Any]]
    timeout_s: float | None


@dataclass(frozen=True)
class _Stream:
    elements: _Elements


_Elements = tuple[_Request | _Stream, ...]


class _CompositeProgram:
    """The program of a composite: the programs of all its requests, each with its own resources and ledger entries."""

    def __init__(self, context: TaskContext, types: Registry[OperationType], connections: int) -> None:
        self._types = types
        self._context = context
        self._programs: list[Program] = []
        self._requests: Sequence[Mapping[str, Any]] = context.params["requests"]
        self._elements = [tuple(self._compiled([element])) for element in self._requests]
        self._connections = connections

    def _compiled(self, elements: Sequence[Mapping[str, Any]]) -> Iterator[_Request | _Stream]:
        task = self._context.task
        for element in _flat(elements):
            if "stream" in element:
                yield _Stream(tuple(self._compiled(element["stream"])))
            else:
                name, kind = _name_of(element), element["operation-type"]
                type_of = self._types.get(kind)
                operation = Operation(name, kind, element, variables=task.operation.variables, kind=type_of)
                part = replace(self._context, task=replace(task, operation=operation), composite=task.operation.name)
                self._programs.append(type_of.compile(part))
                timeout = element.get("request-timeout")
                timeout_s = None if timeout is None else parse_duration(timeout)
                yield _Request(name, len(self._programs) - 1, element.get("assertions") or (), timeout_s)

    @property
    def finite(self) -> bool:
        return any(program.finite for program in self._programs)

    @property
    def feed_waits(self) -> int:
        return sum(program.feed_waits for program in self._programs)

    def client(self, slot: int, headers: bytes) -> Script:
        scripts = [as_drawn(program.client(slot, headers)) for program in self._programs]
        turns = Turns(self._requests, self._context.random(f"turns of client {slot}"))
        return _CompositeScript(self._elements, turns, scripts, self._connections)

    def close(self) -> None:
        for program in self._programs:
            program.close()


def _groups(elements: _Elements) -> Iterator[tuple[list[_Stream], list[_Request]]]:
    """Yield groups of adjacent streams and of adjacent requests: (streams, requests), one of which is empty."""
    for _, group in groupby(elements, type):
        members = list(group)
        yield [m for m in members if isinstance(m, _Stream)], [m for m in members if isinstance(m, _Request)]


class _CompositeScript(VariableScript):
    """The script of one client of a composite; up to `connections` requests run at once.

    `elements`: what each element of the composite stands for. A turn draws for all of them, also for those that its
    `turns` leave out: so a variable has one value in it.
    """

    def __init__(
        self, elements: Sequence[_Elements], turns: Turns, scripts: Sequence[VariableScript], connections: int
    ) -> None:
        self.connections = connections
        self._elements = elements
        self._turns = turns
        self._scripts = scripts

    def draw(self) -> list[Any]:
        return [script.draw() for script in self._scripts]

    async def play(self, session: ScriptSession, drawn: list[Any]) -> Verdict:
        elements = tuple(element for place in self._turns.next() for element in self._elements[place])
        await _Turn(session.lanes, self._scripts, drawn).run(elements)
        return GOOD


class _Turn:
    """One run of a composite: each request takes a lane (a connection) while it runs, and waits if all are in use.

    A failed request ends its stream; the streams beside it run to their end, so that no request is interrupted.
    """

    def __init__(self, lanes: Sequence[ScriptSession], scripts: Sequence[VariableScript], drawn: Sequence[Any]) -> None:
        self._scripts = scripts
        self._drawn = drawn
        self._failures: list[RequestFailed] = []
        self._free: asyncio.LifoQueue[ScriptSession] = asyncio.LifoQueue()
        for lane in reversed(lanes):
            self._free.put_nowait(lane)

    async def run(self, elements: _Elements) -> None:
        """Run all elements; if requests failed, raise the first RequestFailed."""
        for streams, requests in _groups(elements):
            results = await asyncio.gather(*(self.run(stream.elements) for stream in streams), return_exceptions=True)
            for result in results:
                if isinstance(result, BaseException):
                    raise self._failures[0] if isinstance(result, RequestFailed) else result
            for request in requests:
                await self._request(request)

    async def _request(self, request: _Request) -> None:
        lane = await self._free.get()
        try:
            with lane.part(request.name, request.timeout_s):
                verdict = await self._scripts[request.number].play(lane, self._drawn[request.number])
                insist(asserted(verdict, lane.answer, request.assertions))
        except RequestFailed as failure:
            self._failures.append(failure)
            raise
        finally:
            self._free.put_nowait(lane)
