"""The common parts of administrative operation types: fixed requests, conditions on replies, background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from esbench.cluster.dialect import Dialect, Feature
from esbench.measure.verdict import GOOD, Verdict
from esbench.model import Templates
from esbench.operations.base import OperationType, TaskContext
from esbench.operations.feature_checks import not_supported
from esbench.operations.parameters import SECONDS, Parameter, flag
from esbench.operations.replies import reason_of
from esbench.operations.scripts import Retrying, ask
from esbench.operations.traits import ADMINISTRATIVE, Traits
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program, ScriptProgram
from esbench.requests.script import Script, Session
from esbench.requests.templates import plain
from esbench.units import parse_duration

QUERY = Parameter("query string parameters", (dict,))
BODY = Parameter("the request's body", (dict,), required=True)
ONLY_IF_EXISTS = Parameter("what is missing already is no failure", (bool,), True)
POLLING = {
    "mode": Parameter("blocking, or polling of the task", default="blocking", choices=("blocking", "polling")),
    "poll-period": Parameter("seconds between polls", SECONDS, 10, duration=True),
}
CONDITION = Parameter('what must hold: {"path": "a.b", "expected-value": 0}', (dict,), keys=("path", "expected-value"))
Run = Callable[[Session], Coroutine[Any, Any, Verdict]]  # one iteration


@dataclass(frozen=True, eq=False)
class AdministrativeType(OperationType):
    """An administrative operation type as a table row; its script is retried by the operation's retry parameters.

    `prepare` makes the script, before the clock starts. `refuse` raises TrackError for a fault that the checks of
    single parameters do not find; `idle` returns the reason why the operation would do nothing with these parameters
    and the track's templates, "" if it does something.
    """

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

    def idleness(self, params: Mapping[str, Any], templates: Templates) -> str:
        return self.idle(params, templates)

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        self.refuse(params, where)

    def compile(self, context: TaskContext) -> Program:
        script: Script = Prepared(self.prepare(context))
        if self.feature is not None:
            context.dialect.require(self.feature, context.where)
            script = _Needing(script, self.feature, context.dialect)
        return ScriptProgram(Retrying(script, context.params), context.params)


@dataclass(frozen=True)
class Prepared:
    """A script that runs a function."""

    run: Run


@dataclass(frozen=True)
class _Needing:
    """A script whose error names the missing feature if the server does not know its requests."""

    script: Script
    feature: Feature
    dialect: Dialect

    async def run(self, session: Session) -> Verdict:
        try:
            return await self.script.run(session)
        except RequestFailed as failure:
            if told := not_supported(self.feature, self.dialect, failure.kind, failure.detail):
                raise RequestFailed(told.error or "", told.example) from None
            raise


@dataclass(frozen=True)
class Call:
    """A fixed request. `accept`: statuses that are no failure; `empties`: the index that is empty afterwards."""

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
    """Return a function that sends requests one after the other; a reply with `"acknowledged":false` is a failure."""

    async def run(session: Session) -> Verdict:
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
    takes `request-params`, a DELETE also `only-if-exists`; `query` returns further query string parameters.
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


def if_exists(params: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the statuses that `only-if-exists` accepts: (404,), or () if it is false."""
    return (404,) if flag(params.get("only-if-exists"), True) else ()


@dataclass(frozen=True)
class Condition:
    """An expected value at a dotted path of a reply; compared as text, as in Rally."""

    path: str
    expected: Any

    @classmethod
    def of(cls, params: Mapping[str, Any], where: str) -> Condition | None:
        """Return the `condition` of an operation, None if it has none; raises TrackError for an invalid one."""
        given = params.get("condition")
        if given is None:
            return None
        CONDITION.check("condition", given, where)  # a parameter source may have made it
        return cls(str(given["path"]), given["expected-value"])

    def verdict(self, reply: Any, missing: Any = None) -> Verdict:
        """Judge a decoded reply: good if the value is as expected; `missing` replaces an absent value."""
        value = at(reply, *self.path.split("."))
        value = missing if value is None else value
        if str(value) == str(self.expected):
            return GOOD
        return Verdict(0, "condition not met", f"{self.path} is {value}, not {self.expected}")


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


def seconds(params: Mapping[str, Any], name: str, default: float) -> float:
    """Return a duration parameter in seconds; `default` if it is not given."""
    value = params.get(name)
    return default if value is None else parse_duration(value)


async def concrete_indices(session: Session, pattern: str) -> list[str]:
    """Return the names of the indices, open or closed, that match a pattern, without backing indices of data streams.

    They serve to delete by name: from 8.0 on, deleting by a pattern needs a cluster-wide setting.
    """
    path = f"/{segment(pattern)}/_settings/index.uuid"  # the least that can be asked of an index
    reply = await ask(session, "GET", path, params={"expand_wildcards": "open,closed"}, accept=(404,))
    found = reply.json() if reply.status != 404 else {}
    return sorted(name for name in found if not name.startswith(".ds-"))


async def delete_matching(session: Session, pattern: str, ledger: Ledger, query: Mapping[str, Any]) -> None:
    """Delete the indices that match a pattern, one by one."""
    for name in await concrete_indices(session, pattern):
        await ask(session, "DELETE", f"/{segment(name)}", params=query, accept=(404,))
        ledger.empty(name)


async def finished_task(session: Session, task: str, poll_s: float, what: str) -> dict[str, Any]:
    """Poll a background task every `poll_s` until it has completed, and return its response.

    Raises RequestFailed, which names it as `what`, if the task failed.
    """
    while not (status := (await ask(session, "GET", f"/_tasks/{task}")).json()).get("completed"):
        await asyncio.sleep(poll_s)
    if error := status.get("error"):
        raise RequestFailed(f"{what} failed", reason_of(error))
    response = status.get("response")
    return response if isinstance(response, dict) else {}
