"""Operations that wait: for the health of the cluster, for a value in a reply, for a while."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from esbench.cluster.replies import parse_json
from esbench.errors import TrackError, did_you_mean
from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import QUERY, AdministrativeType, ask, at, query_of, running, segment
from esbench.operations.base import ADMINISTRATIVE, MEASURED_ONCE, OF_THE_CLUSTER, TaskContext
from esbench.operations.parameters import SECONDS, Parameter, flag, seconds
from esbench.requests.exchange import RequestFailed, Run, ScriptSession

_STATUSES = ("red", "yellow", "green")
_AT_WORK = (
    "initializing_shards",
    "relocating_shards",
    "delayed_unassigned_shards",
    "number_of_pending_tasks",
    "number_of_in_flight_fetch",
)
_PATIENCE_S = 20.0  # the longest time without progress on shards to assign
UNHEALTHY = "cluster not healthy"


def _health(context: TaskContext) -> Run:
    index = context.params.get("index")
    return Health(f"/_cluster/health/{segment(index)}" if index else "/_cluster/health", query_of(context.params)).run


class Health:
    """The script of cluster-health: one request per run, judged against the wanted status.

    `params` are its query string parameters: `wait_for_status` (red by default), `wait_for_no_relocating_shards` ...;
    `clock` returns seconds. Raises RequestFailed after 20 s, over all runs, in which shards were unassigned, or there
    were none, and nothing was being done.
    """

    def __init__(self, path: str, params: Mapping[str, Any], clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._params = params
        self._clock = clock
        self._idle_since_s: float | None = None

    async def run(self, session: ScriptSession) -> Verdict:
        asked_s = self._clock()
        health = (await ask(session, "GET", self._path, params=self._params, accept=(408,))).json()
        if health["status"] not in _STATUSES:
            raise RequestFailed("bad response", f"not a cluster's status: {health['status']}")
        wanted = str(self._params.get("wait_for_status", "red")).lower()
        relocating = health.get("relocating_shards", 0)
        ok = _STATUSES.index(health["status"]) >= (_STATUSES.index(wanted) if wanted in _STATUSES else 0)
        if ok and not (flag(self._params.get("wait_for_no_relocating_shards")) and relocating):
            return Verdict()
        unassigned = health.get("unassigned_shards", 0)
        state = f"the cluster is {health['status']} (wanted: {wanted}), {unassigned} shards are unassigned"
        is_empty = "active_shards" in health and not health["active_shards"]
        if (unassigned or is_empty) and not any(health.get(key) for key in _AT_WORK):
            self._idle_since_s = asked_s if self._idle_since_s is None else self._idle_since_s
            if self._clock() - self._idle_since_s >= _PATIENCE_S:
                nodes = health.get("number_of_data_nodes")
                raise RequestFailed(
                    UNHEALTHY,
                    f"{state}, none is being assigned, and there are {nodes} data nodes: a replica needs a "
                    "node of its own"
                    if unassigned
                    else f"{state}, and none is there: no index is named so, or none could be created",
                )
        else:
            self._idle_since_s = None
        return Verdict(0, UNHEALTHY, f"{state}, {relocating} relocating")


@running
async def _sleep(context: TaskContext, session: ScriptSession) -> Verdict:
    await session.pause(seconds(context.params, "duration", 0.0))
    return GOOD


_STEP = re.compile(r"\.?([^.\[\]]+)|\[([0-9]{1,18})\]")
# Operators of a criterion: whether a value (None: missing) meets it; one that cannot be compared does not.
OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "gte": lambda found, wanted: _are_numbers(found, wanted) and found >= wanted,
    "lte": lambda found, wanted: _are_numbers(found, wanted) and found <= wanted,
    "eq": lambda found, wanted: bool(found == wanted),
    "neq": lambda found, wanted: found is not None and bool(found != wanted),
    "exists": lambda found, wanted: found is not None,
    "not_exists": lambda found, wanted: found is None,
}


def _are_numbers(*values: Any) -> bool:
    return all(isinstance(value, int | float) for value in values)


def _check_criterion(given: Mapping[str, Any], where: str) -> None:
    operator = given.get("operator")
    if str(operator) not in OPERATORS:
        hint = did_you_mean(str(operator), OPERATORS)
        raise TrackError(f'"criterion" has no operator "{operator}"', where=where, hint=hint)
    if operator not in ("exists", "not_exists") and "value" not in given:
        raise TrackError(f'"criterion" with "{operator}" needs a "value"', where=where)
    if operator in ("gte", "lte") and (isinstance(given["value"], bool) or not isinstance(given["value"], int | float)):
        raise TrackError(f'"criterion" with "{operator}" needs a number, not {given["value"]!r}', where=where)


def _steps(path: str, where: str) -> tuple[str | int, ...]:
    """Return the keys and positions of a path like $.a.b[0]; raises TrackError for an invalid one."""
    text = path.removeprefix("$")
    found = list(_STEP.finditer(text))
    if not found or "".join(match[0] for match in found) != text:
        raise TrackError(f'"json-path" cannot be "{path}"', where=where, hint="say a.b[0].c")
    return tuple(match[1] if match[2] is None else int(match[2]) for match in found)


def _refuse(params: Mapping[str, Any], where: str) -> None:
    _steps(params["json-path"], where)
    _check_criterion(params["criterion"], where)
    if not params["path"].startswith("/"):
        raise TrackError(f'"path" must begin with "/", not "{params["path"]}"', where=where)


@running
async def _run_until(context: TaskContext, session: ScriptSession) -> Verdict:
    params = context.params
    method, query, body = str(params.get("method") or "GET").upper(), query_of(params), params.get("body")
    body = body.encode() if isinstance(body, str) else body
    steps, criterion = _steps(params["json-path"], context.where), params["criterion"]
    while True:
        reply = await ask(session, method, params["path"], params=query, body=body)
        try:
            decoded = parse_json(reply.body or b"null")
        except ValueError:
            text = reply.body[:1000].decode("utf-8", "replace")
            raise RequestFailed("bad response", f"not JSON: {text}") from None
        if OPERATORS[criterion["operator"]](at(decoded, *steps), criterion.get("value")):
            return GOOD
        await asyncio.sleep(seconds(params, "retry-wait-interval", 60.0))


TYPES = (
    AdministrativeType(
        "cluster-health",
        "Wait until the cluster is as healthy as the request asks.",
        {
            "index": Parameter("only these indices", (str, list)),
            "request-params": Parameter("wait_for_status, wait_for_no_relocating_shards, timeout ...", (dict,)),
        },
        _health,
        traits=replace(OF_THE_CLUSTER, waits_for_status=True),
    ),
    AdministrativeType(
        "sleep",
        "Do nothing for a while.",
        {"duration": Parameter("seconds", SECONDS, required=True, duration=True)},
        _sleep,
        traits=replace(ADMINISTRATIVE, in_composite=True),
    ),
    AdministrativeType(
        "run-until",
        "Repeat a request until a value of its reply is as it must be.",
        {
            "method": Parameter("the HTTP method", default="GET"),
            "path": Parameter("the path, beginning with /", required=True),
            "body": Parameter("the request's body", (dict, str, list)),
            "request-params": QUERY,
            "json-path": Parameter("where the value is: a.b[0].c, also with $. before it", required=True),
            "criterion": Parameter(
                f'{{"operator": "gte", "value": 5}}; operators: {", ".join(OPERATORS)}', (dict,), required=True
            ),
            "retry-wait-interval": Parameter("seconds between two requests", SECONDS, 60, duration=True),
        },
        _run_until,
        traits=MEASURED_ONCE,
        refuse=_refuse,
    ),
)
