"""Operations that the Python part of a track runs, or whose parameters it draws.

A registered runner runs as a coroutine once per iteration. A parameter source of an operation type composes each
request when it is drawn, before it is due, with the code of that type. Both are slower than what is compiled.
"""

from __future__ import annotations

import asyncio
import inspect
import math
import random
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from numbers import Real
from typing import Any

from esbench.errors import EsbenchError, TrackError
from esbench.model import Operation
from esbench.operations.base import (
    ClientProgram,
    Concurrent,
    Details,
    Exchange,
    Exhausted,
    OperationType,
    Program,
    RequestBytes,
    RequestFailed,
    Script,
    Session,
    TaskContext,
    TrackCode,
    Verdict,
)
from esbench.operations.indices import ASSERTION_FAILED
from esbench.operations.parameters import flag
from esbench.operations.programs import common_headers
from esbench.operations.python_runners import bulk_body, bulk_path, bulk_query, of_task
from esbench.operations.replies import judge_bulk
from esbench.registry import Registry
from esbench.track.plugins import ParamSource, code_error, place_of
from esbench.track.plugins_esrally import RallyError, RallyTaskAssertionError
from esbench.track.plugins_sources import BulkIndexParamSource
from esbench.units import Rate

RUNNER, SOURCE = "runner", "source"
_MEANT = ("weight", "unit", "success", "success-count", "error-type", "error-description", "http-status")


def operation_type(operation: Operation, registry: Registry[OperationType]) -> OperationType:
    """What runs an operation: its type, or the Python part of its track."""
    if operation.python == RUNNER:
        return PythonRunner(operation.type)
    kind = registry.get(operation.type)
    return DrawnParameters(kind) if operation.python == SOURCE else kind


class PythonRunner(OperationType):
    """An operation whose runner is registered by the track."""

    doc = "Runs a runner that the track registers."

    def __init__(self, name: str) -> None:
        self.name = name

    def check_rate(self, rate: Rate, params: Mapping[str, Any], where: str) -> None:
        if rate.unit != "ops":
            raise TrackError(
                f"the target rate is in {rate.unit}/s, and what the runner counts is not known before it runs",
                where=where,
                hint="say ops/s",
            )

    def compile(self, context: TaskContext) -> Program:
        runner = _code(context).plugins.runners.get(self.name, context.where)
        return RunnerProgram(context, runner)  # type: ignore[return-value] # workers have a client for its turns


class DrawnParameters(OperationType):
    """An operation type whose parameters come from a parameter source of the track."""

    def __init__(self, kind: OperationType) -> None:
        self.kind = kind
        self.name, self.doc, self.unit, self.admin = kind.name, kind.doc, kind.unit, kind.admin
        self.parameters = kind.parameters  # type: ignore[misc]
        self.feature = kind.feature  # type: ignore[misc]

    def check(self, params: Mapping[str, Any], where: str) -> None:
        """Each request's parameters are checked when they are drawn."""

    def unit_of(self, params: Mapping[str, Any]) -> str:
        return self.kind.unit_of(params)

    def units_per_request(self, params: Mapping[str, Any]) -> float:
        try:
            return self.kind.units_per_request(params)
        except KeyError:
            return 1.0

    def check_rate(self, rate: Rate, params: Mapping[str, Any], where: str) -> None:
        self.kind.check_rate(rate, params, where)
        if rate.unit not in ("ops", "MB"):
            try:
                self.kind.units_per_request(params)
            except KeyError as missing:
                raise TrackError(
                    f"the target rate is in {rate.unit}/s, and the operation does not say {missing.args[0]}",
                    where=where,
                    hint="say ops/s, or give it beside the param-source",
                ) from None

    def compile(self, context: TaskContext) -> Program:
        return DrawnProgram(context, self.kind)


def _code(context: TaskContext) -> TrackCode:
    if context.code is None:
        raise TrackError("the Python part of the track is not loaded", where=context.where)
    return context.code


def _source(context: TaskContext) -> ParamSource | None:
    """The task's parameter source; None where the operation's own parameters are used."""
    params, code = context.params, _code(context)
    name, kind = params.get("param-source"), context.task.operation.type
    if name is None and kind == "bulk":
        return code.plugins.make_source(kind, BulkIndexParamSource, code.view, params, context.where)
    if name is None:
        return None
    random.seed(f"{context.seed}/{context.task.name}/{context.stripe}")  # what sources draw is repeatable
    given = {"name": context.task.operation.name, "operation-type": kind, **params}
    return code.plugins.new_source(str(name), code.view, given, context.where)


def _parts(source: ParamSource, context: TaskContext) -> dict[int, ParamSource]:
    """The parts of this worker's client slots, all of them made before the first draw.

    A source may give them one object, which by then knows whose data it has to draw.
    """
    return {slot: source.partition(slot, context.task.clients) for slot in context.slots}


class RunnerProgram:
    """A runner of the track's own, for the client slots of one worker, which share the runner as they do in Rally."""

    feed_waits = 0

    def __init__(self, context: TaskContext, runner: Any) -> None:
        self._context = context
        self._runner = runner
        source = _source(context)
        self._parts = _parts(source, context) if source else {}
        self.unit: str | None = None
        _hear_of_unawaited()

    @property
    def finite(self) -> bool:
        ends = getattr(self._runner, "completed", None) is not None
        return ends or any(not part.infinite for part in self._parts.values())

    @property
    def sources(self) -> dict[int, Any]:
        """The track's own, by client slot."""
        return {slot: part.source for slot, part in self._parts.items()}

    def client(self, slot: int, headers: bytes) -> RunnerTurns:
        return RunnerTurns(self._context, self._runner, self._parts.get(slot), self._count_in)

    def _count_in(self, unit: str) -> None:
        if self.unit is None:
            self.unit = unit
        elif unit != self.unit:
            raise TrackError(
                f'runner "{self._context.task.operation.type}" counts {self.unit}, and now {unit}',
                where=self._context.where,
                hint="a runner has one unit for a task",
            )

    def close(self) -> None:
        """Nothing is held."""


class RunnerTurns:
    """What one client does with a runner: draw parameters, run it, judge what it returned."""

    def __init__(
        self, context: TaskContext, runner: Any, source: ParamSource | None, count_in: Callable[[str], None]
    ) -> None:
        self._context = context
        self._runner = runner
        self._source = source
        self._count_in = count_in
        self._name = context.task.operation.type
        self.result: Mapping[str, Any] = {}  # further keys of what it returned last
        self.counted: tuple[float, str] = (0, "ops")  # weight and unit of it

    def draw(self) -> dict[str, Any]:
        """The parameters of the next turn; Exhausted when the source or the runner is done."""
        if getattr(self._runner, "completed", None):
            raise Exhausted
        if self._source is None:
            return dict(self._context.params)
        params = self._source.params()
        if params is None:
            raise Exhausted
        return params

    async def run(self, es: Any, params: dict[str, Any]) -> Verdict:
        """Run it once. Requests that failed are a verdict; any other error of its code is a TrackCodeError."""
        from esbench.runner_client import failure

        of_task(self._context)
        unawaited: list[str] = []
        _UNAWAITED.set(unawaited)
        given = {"default": es} if getattr(self._runner, "multi_cluster", False) else es
        try:
            if hasattr(self._runner, "__aenter__"):
                async with self._runner:
                    returned = await self._runner(given, params)
            else:
                returned = await self._runner(given, params)
        except RallyTaskAssertionError as error:
            return Verdict(0, ASSERTION_FAILED, str(error))
        except (EsbenchError, RequestFailed) as error:
            if isinstance(error, EsbenchError) and not error.where:
                raise type(error)(error.what, where=self._where, hint=error.hint) from error
            raise
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise  # the race's end, not the runner's own doing
            raise self._code_error(error) from error
        except (Exception, SystemExit) as error:
            if (verdict := failure(error)) is not None:
                return verdict
            if isinstance(error, RallyError):
                raise TrackError(f'runner "{self._name}": {error}', where=self._where) from error
            raise self._code_error(error) from error
        if unawaited:
            what = f'runner "{self._name}" calls {unawaited[0]}() and does not await it'
            raise TrackError(what, where=self._where, hint="say: await ...")
        verdict, unit, self.result = judge_result(returned, f'runner "{self._name}"', self._where)
        self.counted = (self.result.get("weight", verdict.units), unit)
        self._count_in(unit)
        if verdict.error is None and (numbers := returned_numbers(self.result)):
            return replace(verdict, details=Details(returned=numbers))
        return verdict

    @property
    def _where(self) -> str:
        place = place_of(self._runner)
        return f"{place}: {self._context.where}" if place else self._context.where

    def _code_error(self, error: BaseException) -> TrackError:
        folder = _code(self._context).plugins.folder
        return code_error(error, folder, f'runner "{self._name}"', self._context.where, place_of(self._runner))


_UNAWAITED: ContextVar[list[str]] = ContextVar("esbench_unawaited")


def _hear_of_unawaited() -> None:
    """Let a turn know which coroutines its runner made and nobody awaited: Python says so in a warning only."""
    if getattr(warnings.showwarning, "func", None) is not _hear:
        warnings.showwarning = partial(_hear, warnings.showwarning)


def _hear(show: Callable[..., None], message: Warning | str, *arguments: Any, **keywords: Any) -> None:
    match = re.match("coroutine '(.+)' was never awaited", str(message))
    made = _UNAWAITED.get(None)
    if match is not None and made is not None:
        made.append(match[1])
    else:
        show(message, *arguments, **keywords)


def judge_result(returned: Any, what: str, where: str) -> tuple[Verdict, str, Mapping[str, Any]]:
    """What a runner returned as a verdict, its unit and its further keys; TrackError for what means nothing.

    None and true are one operation, false one that failed, a number so many, (weight, unit) so many of these; a dict
    has weight (1), unit (ops), success (true), error-type, error-description, http-status. A reply of
    elasticsearch-py is one operation.
    """
    body = getattr(returned, "body", None)
    if returned is False:
        return Verdict(0, "failed", "it returned False"), "ops", {}
    if returned is None or returned is True or (body is not None and hasattr(returned, "meta")):
        return Verdict(1), "ops", {}
    if isinstance(returned, tuple) and len(returned) == 2:
        weight, unit = returned
        return Verdict(_weight(weight, what, where)), _unit(unit, what, where), {}
    if isinstance(returned, Real):  # numpy's numbers are no int
        return Verdict(_weight(returned, what, where)), "ops", {}
    if inspect.iscoroutine(returned):
        returned.close()
        raise TrackError(
            f"{what} returned {returned.__qualname__}() unawaited", where=where, hint="say: return await ..."
        )
    if not isinstance(returned, Mapping):
        raise _nonsense(returned, what, where)
    weight, unit = _weight(returned.get("weight", 1), what, where), _unit(returned.get("unit", "ops"), what, where)
    success = returned.get("success", True)
    if success not in (True, False):
        raise _nonsense(returned, what, where, '"success" must be true or false')
    if success:
        return Verdict(weight), unit, returned
    done = returned.get("success-count", 0)
    kind = str(returned.get("error-type") or "failed")
    if (status := returned.get("http-status")) is not None:
        kind = f"HTTP {status} {kind}"
    return Verdict(_weight(done, what, where), kind, str(returned.get("error-description", ""))), unit, returned


def returned_numbers(result: Mapping[str, Any]) -> dict[str, float]:
    """What a runner returned under names of its own, as far as it is finite numbers: a recall, a relevance."""
    return {
        str(name): float(value)
        for name, value in result.items()
        if name not in _MEANT and isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)
    }


def _weight(value: Any, what: str, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value) or value < 0:
        raise _nonsense(value, what, where, "the weight must be a number, not below zero")
    return value if isinstance(value, int) else float(value)


def _unit(value: Any, what: str, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise _nonsense(value, what, where, "the unit must be text")
    return value


def _nonsense(value: object, what: str, where: str, why: str = "") -> TrackError:
    text = repr(value)
    shown = text if len(text) <= 80 else f"{text[:77]}..."
    return TrackError(
        f"{what} returned {type(value).__name__} {shown}" + (f": {why}" if why else ""),
        where=where,
        hint="it returns nothing, true, a number, (weight, unit), or a dict with weight, unit and success",
    )


class DrawnProgram:
    """An operation type, compiled anew for each draw of a parameter source."""

    feed_waits = 0

    def __init__(self, context: TaskContext, kind: OperationType) -> None:
        self._context = context
        self._kind = kind
        source = _source(context)
        assert source is not None
        self._parts = _parts(source, context)
        self._clients: list[_Drawing] = []

    @property
    def finite(self) -> bool:
        return any(not part.infinite for part in self._parts.values())

    @property
    def sources(self) -> dict[int, Any]:
        """The track's own, by client slot."""
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
    """Draws parameters and compiles them: one program at a time."""

    def __init__(
        self, context: TaskContext, kind: OperationType, source: ParamSource, slot: int, headers: bytes
    ) -> None:
        self._context, self._kind = context, kind
        self._slot, self._headers = slot, headers
        self.source = source
        self._program: Program | None = None
        self._first: ClientProgram | Script | None = None
        self._peeked = False

    def peek(self) -> ClientProgram | Script | None:
        """The first one, which `next` gives again; None when there is none at all."""
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
        if self._kind.name == "bulk" and "body" in params:
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
    """Scripts of drawn parameters: the one that was drawn last runs next."""

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
    """Requests of drawn parameters, rendered when they are drawn."""

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
    """A bulk whose body the parameter source made: `body`, `bulk-size`, and `index` where action lines name none."""

    def __init__(self, params: Mapping[str, Any], headers: bytes, where: str, context: TaskContext) -> None:
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
