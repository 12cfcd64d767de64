"""The common parts of administrative operation types: fixed requests, conditions on replies, background tasks."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote

from esbench.cluster.dialect import Dialect, Feature
from esbench.errors import TrackError, did_you_mean
from esbench.measure.verdict import CONNECTION_ERRORS, GOOD, Verdict
from esbench.model import Index, Template, Templates, Track
from esbench.operations.base import ADMINISTRATIVE, OperationType, TaskContext, Traits
from esbench.operations.parameters import SECONDS, Parameter, flag, seconds, whole
from esbench.operations.replies import http_failure, not_supported, reason_of
from esbench.requests.exchange import Reply, RequestFailed, Run, ScriptSession
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program, ScriptProgram
from esbench.requests.templates import plain

Declared = TypeVar("Declared", Index, Template)
QUERY = Parameter("query string parameters", (dict,))
BODY = Parameter("the request's body", (dict,), required=True)
ONLY_IF_EXISTS = Parameter("what is missing already is not a failure", (bool,), True)
POLLING = {
    "mode": Parameter("blocking, or polling of the task", default="blocking", choices=("blocking", "polling")),
    "poll-period": Parameter("seconds between polls", SECONDS, 10, duration=True),
}
CONDITION = Parameter('what must hold: {"path": "a.b", "expected-value": 0}', (dict,), keys=("path", "expected-value"))


@dataclass(frozen=True, eq=False)
class AdministrativeType(OperationType):
    """An administrative operation type as a table row; its script is retried by the operation's retry parameters.

    `prepare` makes the script, before the clock starts. `refuse`, given parameters and place, raises TrackError for a
    fault that the checks of single parameters do not find; `idle` returns the reason why the operation would do nothing
    with these parameters and the track's templates, "" if it does something. `deleted` returns the targets that it
    deletes.
    """

    draws = False  # its script sends what the track says
    name: str
    doc: str
    parameters: Mapping[str, Parameter] = field()  # not the empty one of the base
    prepare: Callable[[TaskContext], Run]
    unit: str = "ops"
    traits: Traits = ADMINISTRATIVE
    feature: Feature | None = None
    asks_index: bool = False
    refuse: Callable[[Mapping[str, Any], str], object] = lambda params, where: None
    idle: Callable[[Mapping[str, Any], Templates], str] = lambda params, templates: ""
    deleted: Callable[[Mapping[str, Any], Track], Iterable[str]] = lambda params, track: ()

    def deleted_by(self, params: Mapping[str, Any], track: Track) -> tuple[str, ...]:
        return tuple(self.deleted(params, track))

    def idleness(self, params: Mapping[str, Any], templates: Templates) -> str:
        return self.idle(params, templates)

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        self.refuse(params, where)

    def units_per_request(self, params: Mapping[str, Any]) -> float | None:
        return 1.0 if self.unit == "ops" else None  # a reindex has as many documents as it finds

    def compile(self, context: TaskContext) -> Program:
        run = self.prepare(context)
        if self.feature is not None:
            context.dialect.require(self.feature, context.where)
            run = _needing(self.feature, context.dialect, run)
        return ScriptProgram(_retrying(run, context.params), context.params)


def _needing(feature: Feature, dialect: Dialect, run: Run) -> Run:
    """Return `run` with errors that name the missing feature if the server does not know its requests."""

    async def needing(session: ScriptSession) -> Verdict:
        try:
            return await run(session)
        except RequestFailed as failure:
            if told := not_supported(feature, dialect, failure.kind, failure.detail):
                raise RequestFailed(told.error or "", told.example) from None
            raise

    return needing


_NO_REPLY = ("timeout", *CONNECTION_ERRORS)
_OVERLOADED = tuple(f"HTTP {status}" for status in (408, 429, 502, 503, 504))


def _retrying(run: Run, params: Mapping[str, Any]) -> Run:
    """Return `run` with retries after failures; the parameters and their meaning are Rally's.

    `retry-until-success`: any number of tries; `retries`: the number of further tries. A verdict with an error is
    retried with `retry-on-error` or `retry-until-success`. A failed request that may succeed next time (a timeout, no
    connection, an overloaded server) is retried with `retry-on-timeout`; one that the server refused only with
    `retry-on-error`.
    """
    until_success = flag(params.get("retry-until-success"))
    tries = math.inf if until_success else 1 + (whole(params.get("retries")) or 0)
    on_timeout, on_refusal = flag(params.get("retry-on-timeout"), True), flag(params.get("retry-on-error"))
    wait_s = seconds(params, "retry-wait-period", 0.5)

    def is_retried(failure: RequestFailed) -> bool:
        if failure.kind in _NO_REPLY or failure.kind.startswith(_OVERLOADED):
            return on_timeout
        return on_refusal and failure.kind.startswith("HTTP ")

    async def retrying(session: ScriptSession) -> Verdict:
        tried = 0
        while True:
            tried += 1
            try:
                verdict = await run(session)
            except RequestFailed as failure:
                if tried >= tries or not is_retried(failure):
                    raise
            else:
                if tried >= tries or verdict.error is None or not (until_success or on_refusal):
                    return verdict
            await asyncio.sleep(wait_s)

    return retrying


def running(run: Callable[[TaskContext, ScriptSession], Coroutine[Any, Any, Verdict]]) -> Callable[[TaskContext], Run]:
    """Return a `prepare` function for a script that needs no preparation."""
    return lambda context: partial(run, context)


async def ask(
    session: ScriptSession,
    method: str,
    path: str,
    *,
    params: Mapping[str, Any] | None = None,
    body: Any = None,
    accept: tuple[int, ...] = (),
) -> Reply:
    """Send a request and return its reply; raises RequestFailed if its status is neither 2xx nor in `accept`."""
    reply = await session.request(method, path, params=params, body=body)
    if not 200 <= reply.status < 300 and reply.status not in accept:
        failure = http_failure(reply.status, reply.body)
        raise RequestFailed(failure.error or f"HTTP {reply.status}", failure.example)
    return reply


@dataclass(frozen=True)
class Call:
    """A fixed request; `query` are its query string parameters, `body` is sent as JSON.

    `accept`: statuses besides 2xx that are no failure; `empties`: the index that is empty afterwards, "" for no index.
    """

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    accept: tuple[int, ...] = ()
    empties: str = ""


def in_turn(calls: Callable[[TaskContext], Iterable[Call]]) -> Callable[[TaskContext], Run]:
    """Return a `prepare` function for fixed requests that are sent one after the other; each counts as a unit."""
    return lambda context: sending(tuple(calls(context)), context.ledger)


def sending(calls: tuple[Call, ...], ledger: Ledger) -> Run:
    """Return a function that sends requests one after the other, up to the first failure; each is a unit.

    A reply with `"acknowledged":false` is a failure; another status than 2xx and `accept` raises RequestFailed. Indices
    that are empty afterwards are entered in the ledger.
    """

    async def run(session: ScriptSession) -> Verdict:
        for call in calls:
            reply = await ask(session, call.method, call.path, params=call.query, body=call.body, accept=call.accept)
            if b'"acknowledged":false' in reply.body:
                return Verdict(0, "not acknowledged", f"{call.method} {call.path}: not all nodes have answered in time")
            if call.empties:
                ledger.empty(call.empties)
        return Verdict(len(calls))

    return run


def request(
    name: str,
    doc: str,
    line: str,
    parameters: Mapping[str, Parameter],
    *,
    query: Callable[[TaskContext], Mapping[str, Any]] = lambda context: {},
    body: Callable[[Mapping[str, Any]], Any] = lambda params: params.get("body"),
    traits: Traits = ADMINISTRATIVE,
    feature: Feature | None = None,
) -> AdministrativeType:
    """Return the operation type of a single request.

    `line` is its method and path, "PUT /_ilm/policy/{policy-name}", with parameters by name and {dialect.ml}. Each type
    takes `request-params`, a DELETE also `only-if-exists`; `query` returns further query string parameters, which
    `request-params` override, and `body` the request's body from the operation's parameters.
    """
    method, path = line.split()
    deletes = method == "DELETE"

    def calls(context: TaskContext) -> Iterable[Call]:
        params = context.params
        names = {name: segment(params[name]) for name in parameters if f"{{{name}}}" in path}
        filled = path.format_map({**names, "dialect": context.dialect})
        accept = if_exists(params) if deletes else ()
        yield Call(method, filled, query_of(params, **query(context)), body(params), accept)

    further = {"only-if-exists": ONLY_IF_EXISTS} if deletes else {}
    parameters = {**parameters, **further, "request-params": QUERY}
    return AdministrativeType(name, doc, parameters, in_turn(calls), traits=traits, feature=feature)


def named(
    declared: tuple[Declared, ...], wanted: str | Sequence[str] | None, kind: str, where: str
) -> tuple[Declared, ...]:
    """Return the declared indices or templates of these names, all for None, in the order of `wanted`.

    Raises TrackError for an unknown name; `kind` is the word for one of them in its message.
    """
    if wanted is None:
        return declared
    known = {each.name: each for each in declared}
    names = [wanted] if isinstance(wanted, str) else wanted
    for name in names:
        if name not in known:
            raise TrackError(f'the track has no {kind} "{name}"', where=where, hint=did_you_mean(name, known))
    return tuple(known[name] for name in names)


def if_exists(params: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the statuses that `only-if-exists` accepts: (404,), also if it is not given, or () if it is false."""
    return (404,) if flag(params.get("only-if-exists"), True) else ()


def condition_met(params: Mapping[str, Any], reply: Any, missing: Any = None) -> Verdict:
    """Judge a decoded reply by the `condition` of an operation: the value at its dotted `path` is its `expected-value`.

    Without a condition it is good; else the failure is of the kind "condition not met". Values are compared as text, as
    in Rally; `missing` replaces an absent one.
    """
    if (condition := params.get("condition")) is None:
        return GOOD
    path, expected = str(condition["path"]), condition["expected-value"]
    value = at(reply, *path.split("."))
    value = missing if value is None else value
    if str(value) == str(expected):
        return GOOD
    return Verdict(0, "condition not met", f"{path} is {value}, not {expected}")


def at(value: Any, *path: str | int) -> Any:
    """Return the value at a path of keys and positions in a decoded reply; None if the path does not exist."""
    for key in path:
        if isinstance(key, str):
            value = value.get(key) if isinstance(value, dict) else None
        else:
            value = value[key] if isinstance(value, list) and key < len(value) else None
    return value


def count_at(value: Any, *path: str | int) -> int:
    """Return the whole number at a path in a decoded reply; 0 if there is no such number."""
    found = at(value, *path)
    return found if isinstance(found, int) else 0


def segment(name: object) -> str:
    """Return a name, or several, as one URL path segment; `*` and `,` are not escaped, so patterns remain patterns."""
    return quote(plain(name), safe="*,")


def query_of(params: Mapping[str, Any], **own: object) -> dict[str, Any]:
    """Return the query string parameters: those in `own` that are not None, overridden by `request-params`."""
    return {**{key: value for key, value in own.items() if value is not None}, **(params.get("request-params") or {})}


async def concrete_indices(session: ScriptSession, pattern: str) -> list[str]:
    """Return the sorted names of the indices, open or closed, that match a pattern, without those of data streams.

    They serve to delete by name: from 8.0 on, deleting by a pattern needs a cluster-wide setting. Empty without a
    match.
    """
    path = f"/{segment(pattern)}/_settings/index.uuid"  # the least that can be asked of an index
    reply = await ask(session, "GET", path, params={"expand_wildcards": "open,closed"}, accept=(404,))
    found = reply.json() if reply.status != 404 else {}
    return sorted(name for name in found if not name.startswith(".ds-"))


async def delete_matching(session: ScriptSession, pattern: str, ledger: Ledger, query: Mapping[str, Any]) -> None:
    """Delete the indices that match a pattern, one by one, and enter them in the ledger as empty.

    A missing one is ignored. `query`: the query string parameters of each DELETE. Raises RequestFailed if one is
    refused.
    """
    for name in await concrete_indices(session, pattern):
        await ask(session, "DELETE", f"/{segment(name)}", params=query, accept=(404,))
        ledger.empty(name)


async def finished_task(session: ScriptSession, task: str, params: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Poll a background task every `poll-period` (10 s) until it has completed, and return its response.

    `task` is its id. The response is empty if the reply has no object there. Raises RequestFailed, which names it as
    `what`, if the task failed. There is no time limit.
    """
    while not (status := (await ask(session, "GET", f"/_tasks/{task}")).json()).get("completed"):
        await asyncio.sleep(seconds(params, "poll-period", 10.0))
    if error := status.get("error"):
        raise RequestFailed(f"{what} failed", reason_of(error))
    response = status.get("response")
    return response if isinstance(response, dict) else {}
