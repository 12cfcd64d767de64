"""The operation type run-until: a request that is repeated until a value of its reply meets a criterion."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from esbench.errors import TrackError, did_you_mean
from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import QUERY, AdministrativeType, Run, at, query_of, seconds
from esbench.operations.base import TaskContext
from esbench.operations.parameters import SECONDS, Parameter
from esbench.operations.scripts import ask
from esbench.operations.traits import MEASURED
from esbench.requests.exchange import RequestFailed
from esbench.requests.script import Session

_STEP = re.compile(r"\.?([^.\[\]]+)|\[(\d+)\]")
_OPERATORS = ("gte", "lte", "eq", "neq", "exists", "not_exists")
_NEEDS_NO_VALUE = ("exists", "not_exists")


@dataclass(frozen=True)
class Criterion:
    """A criterion for a value: an operator and its operand. A value that cannot be compared does not meet it."""

    operator: str
    value: Any = None

    def holds(self, found: Any) -> bool:
        """True if a value (None: missing) meets the criterion."""
        match self.operator:
            case "exists":
                return found is not None
            case "not_exists":
                return found is None
            case "eq":
                return bool(found == self.value)
            case "neq":
                return found is not None and bool(found != self.value)
        if not isinstance(found, int | float) or not isinstance(self.value, int | float):
            return False
        return found >= self.value if self.operator == "gte" else found <= self.value


def _criterion(given: Mapping[str, Any], where: str) -> Criterion:
    operator = given.get("operator")
    if operator not in _OPERATORS:
        hint = did_you_mean(str(operator), _OPERATORS)
        raise TrackError(f'"criterion" has no operator "{operator}"', where=where, hint=hint)
    if operator not in _NEEDS_NO_VALUE and "value" not in given:
        raise TrackError(f'"criterion" with "{operator}" needs a "value"', where=where)
    if operator in ("gte", "lte") and (isinstance(given["value"], bool) or not isinstance(given["value"], int | float)):
        raise TrackError(f'"criterion" with "{operator}" needs a number, not {given["value"]!r}', where=where)
    return Criterion(operator, given.get("value"))


def _steps(path: str, where: str) -> tuple[str | int, ...]:
    """Return the keys and positions of a path like $.a.b[0]; raises TrackError for an invalid one."""
    text = path.removeprefix("$")
    found = list(_STEP.finditer(text))
    if not found or "".join(match[0] for match in found) != text:
        raise TrackError(f'"json-path" cannot be "{path}"', where=where, hint="say a.b[0].c")
    return tuple(match[1] if match[2] is None else int(match[2]) for match in found)


def _refuse(params: Mapping[str, Any], where: str) -> None:
    _steps(params["json-path"], where)
    _criterion(params["criterion"], where)
    if not params["path"].startswith("/"):
        raise TrackError(f'"path" must begin with "/", not "{params["path"]}"', where=where)


def _run_until(context: TaskContext) -> Run:
    params = context.params
    method, query, body = str(params.get("method") or "GET").upper(), query_of(params), params.get("body")
    body = body.encode() if isinstance(body, str) else body
    steps = _steps(params["json-path"], context.where)
    criterion = _criterion(params["criterion"], context.where)
    wait_s = seconds(params, "retry-wait-interval", 60.0)

    async def run(session: Session) -> Verdict:
        while True:
            reply = await ask(session, method, params["path"], params=query, body=body)
            try:
                decoded = json.loads(reply.body or b"null")
            except (ValueError, RecursionError):
                text = reply.body[:1000].decode("utf-8", "replace")
                raise RequestFailed("bad response", f"not JSON: {text}") from None
            if criterion.holds(at(decoded, *steps)):
                return GOOD
            await asyncio.sleep(wait_s)

    return run


RUN_UNTIL = AdministrativeType(
    "run-until",
    "Repeat a request until a value of its reply is as it must be.",
    {
        "method": Parameter("the HTTP method", default="GET"),
        "path": Parameter("the path, beginning with /", required=True),
        "body": Parameter("the request's body", (dict, str, list)),
        "request-params": QUERY,
        "json-path": Parameter("where the value is: a.b[0].c, also with $. before it", required=True),
        "criterion": Parameter(
            f'{{"operator": "gte", "value": 5}}; operators: {", ".join(_OPERATORS)}', (dict,), required=True
        ),
        "retry-wait-interval": Parameter("seconds between two requests", SECONDS, 60, duration=True),
    },
    _run_until,
    traits=MEASURED,
    refuse=_refuse,
)
