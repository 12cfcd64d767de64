"""What administrative operation types share: requests known beforehand, conditions on replies, background tasks."""

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
from esbench.operations.needs import not_supported
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
    """A row: an operation type that runs what it prepares, tried again as its retry parameters say.

    `prepare` runs before the clock starts. `refuse` raises TrackError for a fault that the check of each parameter
    leaves; `idle` returns why it does nothing with these parameters and the track's templates, "" when it does.
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
    """The script of a function."""

    run: Run


@dataclass(frozen=True)
class _Needing:
    """A script that says which feature is missing when the server does not know its requests."""

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
    """A request known beforehand. `accept`: statuses that are no failure; `empties`: what has no documents then."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    accept: tuple[int, ...] = ()
    empties: str = ""


def in_turn(calls: Callable[[TaskContext], Iterable[Call]]) -> Callable[[TaskContext], Run]:
    """Prepare requests known beforehand, which are sent one after the other; each is a unit."""
    return lambda context: sending(tuple(calls(context)), context.ledger)


def sending(calls: tuple[Call, ...], ledger: Ledger) -> Run:
    """Send requests one after the other; a reply that says `"acknowledged":false` is a failure."""

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
    """The row of one request: its `line` is "PUT /_ilm/policy/{policy-name}", with parameters by name and {dialect.ml}.

    Each takes `request-params`, a DELETE `only-if-exists`; `query` are further parameters of the query string.
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
    """The statuses that are no failure by ONLY_IF_EXISTS."""
    return (404,) if flag(params.get("only-if-exists"), True) else ()


@dataclass(frozen=True)
class Condition:
    """A value of a reply, by its dotted path, that must be as expected; compared as text, as Rally does."""

    path: str
    expected: Any

    @classmethod
    def of(cls, params: Mapping[str, Any], where: str) -> Condition | None:
        """The `condition` of an operation, if it has one; what is wrong with it is a TrackError."""
        given = params.get("condition")
        if given is None:
            return None
        CONDITION.check("condition", given, where)  # a parameter source may have made it
        return cls(str(given["path"]), given["expected-value"])

    def verdict(self, reply: Any, missing: Any = None) -> Verdict:
        """Whether it holds for a decoded reply; `missing` is the value where the reply has none."""
        value = at(reply, *self.path.split("."))
        value = missing if value is None else value
        if str(value) == str(self.expected):
            return GOOD
        return Verdict(0, "condition not met", f"{self.path} is {value}, not {self.expected}")


def at(value: Any, *path: str | int) -> Any:
    """What a decoded reply holds at a path; None when there is nothing, whatever it is instead."""
    for key in path:
        if isinstance(key, str):
            value = value.get(key) if isinstance(value, dict) else None
        else:
            value = value[key] if isinstance(value, list) and key < len(value) else None
    return value


def count_at(value: Any, *path: str | int) -> int:
    """A number that a decoded reply holds at a path; 0 when there is none."""
    found = at(value, *path)
    return found if isinstance(found, int) else 0


def segment(name: object) -> str:
    """A name, or several, as one segment of a path; patterns stay patterns."""
    return quote(plain(name), safe="*,")


def query_of(params: Mapping[str, Any], **own: object) -> dict[str, Any]:
    """The `request-params`, after those of the operation's own that are given."""
    return {**{key: value for key, value in own.items() if value is not None}, **(params.get("request-params") or {})}


def seconds(params: Mapping[str, Any], name: str, default: float) -> float:
    """A duration among the parameters."""
    value = params.get(name)
    return default if value is None else parse_duration(value)


async def concrete_indices(session: Session, pattern: str) -> list[str]:
    """The indices that a pattern means, without those behind data streams; none when nothing matches.

    To name them spares a cluster-wide setting: from 8.0 on, nothing is deleted by a pattern.
    """
    path = f"/{segment(pattern)}/_settings/index.uuid"  # the least that can be asked of an index
    reply = await ask(session, "GET", path, params={"expand_wildcards": "open,closed"}, accept=(404,))
    found = reply.json() if reply.status != 404 else {}
    return sorted(name for name in found if not name.startswith(".ds-"))


async def delete_matching(session: Session, pattern: str, ledger: Ledger, query: Mapping[str, Any]) -> None:
    """Delete the indices that a pattern means."""
    for name in await concrete_indices(session, pattern):
        await ask(session, "DELETE", f"/{segment(name)}", params=query, accept=(404,))
        ledger.empty(name)


async def finished_task(session: Session, task: str, poll_s: float, what: str) -> dict[str, Any]:
    """The response of a task that was started in the background, once it has completed; RequestFailed if it failed."""
    while not (status := (await ask(session, "GET", f"/_tasks/{task}")).json()).get("completed"):
        await asyncio.sleep(poll_s)
    if error := status.get("error"):
        raise RequestFailed(f"{what} failed", reason_of(error))
    response = status.get("response")
    return response if isinstance(response, dict) else {}
