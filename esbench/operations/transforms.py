"""Transforms: create, start, stop and delete them, look at them, and wait until they have done their work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.cluster.dialect import Dialect, Feature
from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import (
    BODY,
    CONDITION,
    ONLY_IF_EXISTS,
    QUERY,
    AdministrativeType,
    Call,
    Condition,
    RequestType,
    at,
    count_at,
    if_exists,
    query_of,
    seconds,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import SECONDS, Parameter, flag
from esbench.operations.scripts import ask
from esbench.operations.traits import ADMINISTRATIVE
from esbench.requests.exchange import RequestFailed
from esbench.requests.script import Script, Session

TRANSFORMS = Feature("transforms", (7, 2))
_ID = Parameter("the transform's id", required=True)
_FORCE = Parameter("whatever its state is", (bool,), False)
_TIMEOUT = Parameter("how long the server waits for it", (str,))


class _TransformType(RequestType):
    feature = TRANSFORMS


def _path(context: TaskContext, ending: str = "") -> str:
    return f"{_root(context.dialect)}/{segment(context.params['transform-id'])}{ending}"


def _root(dialect: Dialect) -> str:
    """Where transforms live: up to 7.4 they were called data frame transforms."""
    return "/_data_frame/transforms" if dialect.version < (7, 5) else "/_transform"


class CreateTransform(_TransformType):
    name = "create-transform"
    traits = ADMINISTRATIVE
    doc = "Create a transform."
    parameters = {
        "transform-id": _ID,
        "body": BODY,
        "defer-validation": Parameter("check it when it starts", (bool,), False),
        "request-params": QUERY,
    }

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        defer = True if flag(params.get("defer-validation")) else None  # which 7.2 and 7.3 do not know
        yield Call("PUT", _path(context), query_of(params, defer_validation=defer), params["body"])


class StartTransform(_TransformType):
    name = "start-transform"
    traits = ADMINISTRATIVE
    doc = "Start a transform."
    parameters = {"transform-id": _ID, "timeout": _TIMEOUT, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        yield Call("POST", _path(context, "/_start"), query_of(params, timeout=params.get("timeout")))


class StopTransform(_TransformType):
    name = "stop-transform"
    traits = ADMINISTRATIVE
    doc = "Stop a transform."
    parameters = {
        "transform-id": _ID,
        "force": _FORCE,
        "timeout": _TIMEOUT,
        "wait-for-completion": Parameter("until it has stopped", (bool,), True),
        "wait-for-checkpoint": Parameter("let it finish its checkpoint first", (bool,), False),
        "request-params": QUERY,
    }

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        query = _stop_query(
            context.dialect,
            params,
            checkpoint=flag(params.get("wait-for-checkpoint")),
            completion=flag(params.get("wait-for-completion"), True),
        )
        yield Call("POST", _path(context, "/_stop"), query)


def _stop_query(dialect: Dialect, params: Mapping[str, Any], *, checkpoint: bool, completion: bool) -> dict[str, Any]:
    return query_of(
        params,
        force=flag(params.get("force")) if dialect.version >= (7, 5) else None,
        timeout=params.get("timeout"),
        wait_for_completion=completion,
        wait_for_checkpoint=checkpoint if dialect.version >= (7, 6) else None,
    )


class DeleteTransform(_TransformType):
    name = "delete-transform"
    traits = ADMINISTRATIVE
    doc = "Delete a transform; the index that it wrote stays."
    parameters = {"transform-id": _ID, "force": _FORCE, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        accept = if_exists(params)
        force = True if flag(params.get("force")) else None  # which comes with 7.4
        yield Call("DELETE", _path(context), query_of(params, force=force), accept=accept)


class TransformStats(AdministrativeType):
    name = "transform-stats"
    traits = ADMINISTRATIVE
    doc = "The statistics of a transform, optionally until a value of them is as expected."
    feature = TRANSFORMS
    parameters = {"transform-id": _ID, "condition": CONDITION}

    def script(self, context: TaskContext) -> Script:
        return _Stats(_path(context, "/_stats"), Condition.of(context.params, context.where))


@dataclass(frozen=True)
class _Stats:
    path: str
    condition: Condition | None

    async def run(self, session: Session) -> Verdict:
        stats = await _stats_of(session, self.path)
        return GOOD if self.condition is None else self.condition.verdict(stats)


async def _stats_of(session: Session, path: str) -> dict[str, Any]:
    """The statistics of the one transform of a path."""
    found = at((await ask(session, "GET", path)).json(), "transforms", 0)
    if not isinstance(found, dict):
        raise RequestFailed("bad response", f"no transform in the reply to GET {path}")
    return found


class WaitForTransform(AdministrativeType):
    name = "wait-for-transform"
    traits = ADMINISTRATIVE
    doc = "Let a transform finish its checkpoint and wait until it has stopped; the documents it read are the units."
    unit = "docs"
    feature = TRANSFORMS
    parameters = {
        "transform-id": _ID,
        "force": _FORCE,
        "timeout": _TIMEOUT,
        "wait-for-completion": Parameter("until it has stopped", (bool,), True),
        "wait-for-checkpoint": Parameter("let it finish its checkpoint first", (bool,), True),
        "transform-timeout": Parameter("seconds until it counts as failed", SECONDS, 3600, duration=True),
        "poll-interval": Parameter("seconds between two looks", SECONDS, 0.5, duration=True),
        "request-params": QUERY,
    }

    def script(self, context: TaskContext) -> Script:
        params = context.params
        return Finished(
            path=_path(context),
            # to wait for it in the request itself would hold that for as long as it takes
            query=_stop_query(
                context.dialect, params, checkpoint=flag(params.get("wait-for-checkpoint"), True), completion=False
            ),
            wait=flag(params.get("wait-for-completion"), True),
            timeout_s=seconds(params, "transform-timeout", 3600.0),
            poll_s=seconds(params, "poll-interval", 0.5),
        )


@dataclass(frozen=True)
class Finished:
    """Asks a transform to stop at the end of its checkpoint and looks at it until it has, for so long."""

    path: str
    query: Mapping[str, Any]
    wait: bool
    timeout_s: float
    poll_s: float
    clock: Callable[[], float] = time.monotonic

    async def run(self, session: Session) -> Verdict:
        begun_s = self.clock()
        await ask(session, "POST", f"{self.path}/_stop", params=self.query)
        while True:
            stats = await _stats_of(session, f"{self.path}/_stats")
            state = at(stats, "state", "task_state") or stats.get("state")  # a mapping up to 7.4
            if state == "failed":
                return Verdict(0, "transform failed", str(stats.get("reason") or "it does not say why"))
            if state == "stopped" or not self.wait:
                return Verdict(count_at(stats, "stats", "documents_processed"))
            if self.clock() - begun_s >= self.timeout_s:
                return Verdict(0, "transform not finished", f"it is {state} after {self.timeout_s:g} s")
            await asyncio.sleep(self.poll_s)
