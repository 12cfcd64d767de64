"""What administrative operation types share: requests known beforehand, conditions on replies, background tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

from esbench.cluster.dialect import Dialect, Feature
from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.base import OperationType, TaskContext
from esbench.operations.needs import not_supported
from esbench.operations.parameters import Parameter, flag
from esbench.operations.replies import reason_of
from esbench.operations.scripts import Retrying, ask
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program, ScriptProgram
from esbench.requests.script import Script, Session
from esbench.requests.templates import plain
from esbench.units import parse_duration

QUERY = Parameter("query string parameters", (dict,))
BODY = Parameter("the request's body", (dict,), required=True)
ONLY_IF_EXISTS = Parameter("what is missing already is no failure", (bool,), True)
CONDITION = Parameter('what must hold: {"path": "a.b", "expected-value": 0}', (dict,), keys=("path", "expected-value"))


class AdministrativeType(OperationType):
    """An operation type that is a script, tried again as its retry parameters say."""

    def script(self, context: TaskContext) -> Script:
        raise NotImplementedError

    def compile(self, context: TaskContext) -> Program:
        script = self.script(context)
        if self.feature is not None:
            context.dialect.require(self.feature, context.where)
            script = _Needing(script, self.feature, context.dialect)
        return ScriptProgram(Retrying(script, context.params), context.params)


@dataclass(frozen=True)
class Call:
    """A request known beforehand. `accept`: statuses that are no failure; `empties`: what has no documents then."""

    method: str
    path: str
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None
    accept: tuple[int, ...] = ()
    empties: str = ""


def if_exists(params: Mapping[str, Any]) -> tuple[int, ...]:
    """The statuses that are no failure by ONLY_IF_EXISTS."""
    return (404,) if flag(params.get("only-if-exists"), True) else ()


class RequestType(AdministrativeType):
    """An operation type whose requests are known beforehand: each is a unit."""

    def calls(self, context: TaskContext) -> Iterable[Call]:
        raise NotImplementedError

    def script(self, context: TaskContext) -> Script:
        return Calls(tuple(self.calls(context)), context.ledger)


@dataclass(frozen=True)
class Calls:
    """Sends its requests one after the other; a reply that says `"acknowledged":false` is a failure."""

    calls: tuple[Call, ...]
    ledger: Ledger

    async def run(self, session: Session) -> Verdict:
        for call in self.calls:
            reply = await ask(session, call.method, call.path, params=call.query, body=call.body, accept=call.accept)
            if b'"acknowledged":false' in reply.body:
                return Verdict(0, "not acknowledged", f"{call.method} {call.path}: not all nodes have answered in time")
            if call.empties:
                self.ledger.empty(call.empties)
        return Verdict(len(self.calls))


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
