"""The base classes of tracks' runners: Rally's `Runner`, `BulkIndex`, `PutSettings`, `runner_for`.

They send through the runner's `es`, and judge replies with the same code as the operation types.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Self

from esbench.errors import EsbenchError, TrackError, did_you_mean
from esbench.measure.verdict import Verdict
from esbench.model import Operation
from esbench.operations.bulk_program import bulk_query
from esbench.operations.replies import judge_bulk
from esbench.requests.exchange import Reply, RequestBytes, RequestFailed, Script, ScriptSession
from esbench.requests.templates import json_text
from esbench.track.python_part import is_bulk
from esbench.units import parse_duration

if TYPE_CHECKING:
    from esbench.features.python.task_sources import PythonContext

_CONTEXT: ContextVar[PythonContext] = ContextVar("esbench_task")
_COMMON = ("request-timeout", "headers", "opaque-id")


def of_task(context: PythonContext) -> None:
    """Set the task's context for the runners that `runner_for` returns, in the current asyncio task."""
    _CONTEXT.set(context)


class Runner:
    """The base class of runners: a logger, and helpers for the parameters that control how a request is sent."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.logger = logging.getLogger(type(self).__module__)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> bool:
        return False

    def _default_kw_params(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return keyword arguments for the client's methods from the parameters that concern the request."""
        names = {"index": "index", "body": "body", "request-params": "params", "headers": "headers"}
        given = {there: params[here] for here, there in names.items() if params.get(here) is not None}
        return {**given, **_transport(params)}

    def _transport_request_params(
        self, params: Mapping[str, Any]
    ) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any], dict[str, str]]:
        """Return (the operation's own parameters, query string parameters, options of the client, headers)."""
        own = {key: value for key, value in params.items() if key not in (*_COMMON, "request-params")}
        query = {
            str(key): str(value).lower() if isinstance(value, bool) else value
            for key, value in (params.get("request-params") or {}).items()
        }
        headers = {str(name): str(value) for name, value in (params.get("headers") or {}).items()}
        return own, query, _transport(params), headers


def _transport(params: Mapping[str, Any]) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if params.get("request-timeout") is not None:
        options["request_timeout"] = parse_duration(params["request-timeout"])
    if params.get("opaque-id") is not None:
        options["opaque_id"] = str(params["opaque-id"])
    return options


class BulkIndex(Runner):
    """A runner that sends a bulk: `body` (lines, or a list of them) of `bulk-size` documents, into `index` if given.

    It returns a dict as `outcome` does, with `index` and the statistics; a rejected document is no success. Raises
    RequestFailed if the status is not 2xx or the body no JSON object, TrackError for a missing parameter.
    """

    async def __call__(self, es: Any, params: Mapping[str, Any]) -> dict[str, Any]:
        size, unit = int(mandatory(params, "bulk-size", self)), params.get("unit", "docs")
        client = es.options(**_transport(params)) if _transport(params) else es
        reply = await EsSession(client).request(
            "POST",
            bulk_path(params),
            params=bulk_query(params),
            body=bulk_body(mandatory(params, "body", self)),
            headers={"content-type": "application/x-ndjson", **(params.get("headers") or {})},
        )
        verdict = judge_bulk(reply.status, reply.body, size)
        if verdict.error is not None and not 200 <= reply.status < 300:
            raise RequestFailed(verdict.error, verdict.example)
        response = reply.json()
        detailed = params.get("detailed-results")
        stats = self.detailed_stats(params, response) if detailed else self.simple_stats(size, unit, response)
        return {**outcome(verdict, unit), "index": params.get("index"), **stats, "weight": verdict.units}

    def simple_stats(self, bulk_size: int, unit: str, response: Mapping[str, Any]) -> dict[str, Any]:
        """Return the statistics that need no look at single documents: `took`, the server's time in ms."""
        return {"took": response.get("took")}

    def detailed_stats(self, params: Mapping[str, Any], response: Mapping[str, Any]) -> dict[str, Any]:
        """Return `took` (ms), and `ops`: by action ("index"), `item-count` and the counts of results.

        Results are "created", "updated" ..., and "error" for a document without one.
        """
        ops: dict[str, dict[str, int]] = {}
        for item in response["items"]:
            for action, result in item.items():
                counts = ops.setdefault(action, {"item-count": 0})
                counts["item-count"] += 1
                said = result.get("result", "error")
                counts[said] = counts.get(said, 0) + 1
        return {"took": response.get("took"), "ops": ops}

    def __repr__(self) -> str:
        return "bulk-index"


class PutSettings(Runner):
    """A runner that sends PUT _cluster/settings with `body`."""

    async def __call__(self, es: Any, params: Mapping[str, Any]) -> None:
        await es.perform_request(method="PUT", path="/_cluster/settings", body=mandatory(params, "body", self))

    def __repr__(self) -> str:
        return "put-settings"


class BuiltinRunner(Runner):
    """An operation type as a runner: it compiles and judges as usual, and sends through `es`.

    It returns a dict as `outcome` does.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    async def __call__(self, es: Any, params: Mapping[str, Any]) -> dict[str, Any]:
        if is_bulk(self.name) and "body" in params:
            return await BulkIndex()(es, params)
        context = _context()
        kind = context.code.operations.get(self.name, context.where)
        kind.check(params, context.where)
        program = kind.compile(context.alone(Operation(self.name, self.name, params, kind=kind), slot=0))
        try:
            verdict = await _run(program.client(0, b""), EsSession(es))
        finally:
            program.close()
        return outcome(verdict, kind.unit_of(params))

    def __repr__(self) -> str:
        return self.name


async def _run(compiled: Any, session: EsSession) -> Verdict:
    if isinstance(compiled, Script):
        return await compiled.run(session)
    drawn = compiled.draw()
    verdict = Verdict()
    for exchange in compiled.exchanges:
        reply = await session.send(exchange.render(drawn))
        verdict = exchange.judge(reply.status, reply.body, drawn)
        if verdict.error is not None:
            break
    return verdict


def runner_for(operation_type: Any) -> Any:
    """Return the track's runner of that name, or the operation type as a runner; else raises TrackError.

    It can be called only while a runner runs; at other times, it raises TrackError.
    """
    name = str(getattr(operation_type, "value", operation_type))
    context = _context()
    runners, operations = context.code.plugins.runners, context.code.operations
    if name in runners:
        return runners.get(name)
    if name in operations:
        return BuiltinRunner(name)
    raise TrackError(
        f'runner_for("{name}"): there is no such runner',
        where=context.where,
        hint=did_you_mean(name, {*runners, *operations}),
    )


def unwrap(runner: Any) -> Any:
    """Return the runner itself: esbench does not wrap runners."""
    return runner


def mandatory(params: Mapping[str, Any], key: str, op: object) -> Any:
    """Return a mandatory parameter; raises TrackError, naming `op`, if it is missing."""
    try:
        return params[key]
    except KeyError:
        what = f'the parameter "{key}" of {op} is missing'
        raise TrackError(what, hint="the operation or its param-source gives it") from None


def bulk_path(params: Mapping[str, Any]) -> str:
    """Return the path of a bulk request; raises TrackError if neither `index` nor action lines name an index.

    With `index` it can be called only while a runner or parameter source is in use, after `of_task`; else TrackError.
    """
    index = params.get("index")
    if index:
        return _context().dialect.bulk_path(str(index))
    if not params.get("action-metadata-present", True):
        raise TrackError('a bulk without action lines needs "index"')
    return "/_bulk"


def bulk_body(body: Any) -> bytes:
    """Return a bulk's lines as bytes, with a final line feed.

    body: text, bytes, or a list of lines, each text, bytes or an object.
    """
    if isinstance(body, list | tuple):
        body = b"\n".join(_line(line) for line in body)
    data: bytes = body.encode() if isinstance(body, str) else bytes(body)
    return data if data.endswith(b"\n") else data + b"\n"


def _line(line: Any) -> bytes:
    if isinstance(line, bytes):
        return line.rstrip(b"\n")
    return (line.rstrip("\n") if isinstance(line, str) else json_text(line)).encode()


def outcome(verdict: Verdict, unit: str) -> dict[str, Any]:
    """Return a verdict as the dict that a runner returns: `weight`, `unit` and `success`.

    A failure also has `success-count` (equal to the weight), `error-type` and `error-description`.
    """
    result: dict[str, Any] = {"weight": verdict.units, "unit": unit, "success": verdict.error is None}
    if verdict.error is not None:
        result |= {"success-count": verdict.units, "error-type": verdict.error}
        result |= {"error-description": verdict.example}
    return result


def _context() -> PythonContext:
    try:
        return _CONTEXT.get()
    except LookupError:
        raise TrackError("built-in runners can be used while a runner runs only") from None


class EsSession:
    """The session of an operation that sends through `es`: one lane, one request at a time."""

    def __init__(self, es: Any) -> None:
        self._es = es
        self.notes: dict[str, str] = {}
        self.answer: Reply | None = None
        self.own_headers: Mapping[str, str] = {}

    @property
    def lanes(self) -> Sequence[ScriptSession]:
        return (self,)

    @contextmanager
    def part(self, name: str, timeout_s: float | None = None) -> Iterator[None]:
        yield

    async def pause(self, duration_s: float) -> None:
        self._es.on_request_start()
        await asyncio.sleep(duration_s)
        self._es.on_request_end()

    async def send(self, request: RequestBytes) -> Reply:
        head, _, body = b"".join(request).partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, _ = first.split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        headers.pop("content-length", None)
        return await self.request(method, target, body=body or None, headers=headers)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        from esbench.features.python.runner_client import failure

        headers = {**self.own_headers, **(headers or {})} or None
        try:
            async with self._es.new_request_context():
                self._es.return_raw_response()
                reply = await self._es.perform_request(method, path, params=params, body=body, headers=headers)
        except EsbenchError:
            raise
        except Exception as error:
            verdict = failure(error)
            if verdict is None:
                raise
            if verdict.evidence is None or verdict.evidence.status is None:
                raise RequestFailed(verdict.error or "", verdict.example) from error
            self.answer = Reply(verdict.evidence.status, verdict.evidence.body.encode())
        else:
            data = reply.body.read() if hasattr(reply.body, "read") else b""
            self.answer = Reply(reply.meta.status, data)
        return self.answer
