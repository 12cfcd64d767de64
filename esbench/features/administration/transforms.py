"""Transform operations: create, start, stop, delete, statistics, and waiting until a transform has finished."""

from __future__ import annotations

import asyncio
import time
from functools import partial
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.measure.verdict import Verdict
from esbench.operations.administrative import (
    BODY,
    CONDITION,
    QUERY,
    AdministrativeType,
    ask,
    at,
    condition_met,
    count_at,
    query_of,
    request,
    running,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import SECONDS, Parameter, flag, seconds
from esbench.requests.exchange import RequestFailed, ScriptSession

TRANSFORMS = Feature("transforms", (7, 2), node="transforms")


def _path(context: TaskContext) -> str:
    return f"{context.dialect.transforms}/{segment(context.params['transform-id'])}"


def _stop_query(context: TaskContext, checkpoint: bool = False) -> dict[str, Any]:
    """Return the query string of a stop request; `checkpoint`: the default of `wait-for-checkpoint`."""
    params, version = context.params, context.dialect.version
    return {
        "force": flag(params.get("force")) if version >= (7, 5) else None,
        "timeout": params.get("timeout"),
        "wait_for_completion": flag(params.get("wait-for-completion"), True),
        "wait_for_checkpoint": flag(params.get("wait-for-checkpoint"), checkpoint) if version >= (7, 6) else None,
    }


@running
async def _stats(context: TaskContext, session: ScriptSession) -> Verdict:
    return condition_met(context.params, await _stats_of(context, session))


async def _stats_of(context: TaskContext, session: ScriptSession) -> dict[str, Any]:
    """Return the statistics of the transform; raises RequestFailed if the reply has none."""
    path = f"{_path(context)}/_stats"
    found = at((await ask(session, "GET", path)).json(), "transforms", 0)
    if not isinstance(found, dict):
        raise RequestFailed("bad response", f"no transform in the reply to GET {path}")
    return found


@running
async def _wait(context: TaskContext, session: ScriptSession) -> Verdict:
    """Ask a transform to stop, and poll it until it has stopped; fails after `transform-timeout`.

    By default the transform finishes its checkpoint first. With `wait-for-completion` false it is polled once.
    """
    params = context.params
    begun_s, timeout_s = time.monotonic(), seconds(params, "transform-timeout", 3600.0)
    # to wait for it in the request itself would hold that for as long as it takes
    query = query_of(params, **{**_stop_query(context, checkpoint=True), "wait_for_completion": False})
    await ask(session, "POST", f"{_path(context)}/_stop", params=query)
    while True:
        stats = await _stats_of(context, session)
        state = at(stats, "state", "task_state") or stats.get("state")  # a mapping up to 7.4
        if state == "failed":
            return Verdict(0, "transform failed", str(stats.get("reason") or "it does not say why"))
        if state == "stopped" or not flag(params.get("wait-for-completion"), True):
            return Verdict(count_at(stats, "stats", "documents_processed"))
        if time.monotonic() - begun_s >= timeout_s:
            return Verdict(0, "transform not finished", f"it is {state} after {timeout_s:g} s")
        await asyncio.sleep(seconds(params, "poll-interval", 0.5))


_ID = {"transform-id": Parameter("the transform's id", required=True)}
_FORCE = {"force": Parameter("whatever its state is", (bool,), False)}
_TIMEOUT = {"timeout": Parameter("how long the server waits for it", (str,))}
_COMPLETION = {"wait-for-completion": Parameter("until it has stopped", (bool,), True)}
_CHECKPOINT = "let it finish its checkpoint first"
_PATH = "{dialect.transforms}/{transform-id}"
_transform = partial(request, feature=TRANSFORMS)

TYPES = (
    _transform(
        "create-transform",
        "Create a transform.",
        f"PUT {_PATH}",
        {**_ID, "body": BODY, "defer-validation": Parameter("check it when it starts", (bool,), False)},
        # 7.2 and 7.3 do not know it
        query=lambda context: {"defer_validation": flag(context.params.get("defer-validation")) or None},
    ),
    _transform(
        "start-transform",
        "Start a transform.",
        f"POST {_PATH}/_start",
        {**_ID, **_TIMEOUT},
        query=lambda context: {"timeout": context.params.get("timeout")},
    ),
    _transform(
        "stop-transform",
        "Stop a transform.",
        f"POST {_PATH}/_stop",
        {**_ID, **_FORCE, **_TIMEOUT, **_COMPLETION, "wait-for-checkpoint": Parameter(_CHECKPOINT, (bool,), False)},
        query=_stop_query,
    ),
    _transform(
        "delete-transform",
        "Delete a transform; the index that it wrote stays.",
        f"DELETE {_PATH}",
        {**_ID, **_FORCE},
        query=lambda context: {"force": flag(context.params.get("force")) or None},  # which comes with 7.4
    ),
    AdministrativeType(
        "transform-stats",
        "The statistics of a transform, optionally until a value of them is as expected.",
        {**_ID, "condition": CONDITION},
        _stats,
        feature=TRANSFORMS,
    ),
    AdministrativeType(
        "wait-for-transform",
        "Let a transform finish its checkpoint and wait until it has stopped; the documents it read are the units.",
        {
            **_ID,
            **_FORCE,
            **_TIMEOUT,
            **_COMPLETION,
            "wait-for-checkpoint": Parameter(_CHECKPOINT, (bool,), True),
            "transform-timeout": Parameter("seconds until it counts as failed", SECONDS, 3600, duration=True),
            "poll-interval": Parameter("seconds between two looks", SECONDS, 0.5, duration=True),
            "request-params": QUERY,
        },
        _wait,
        unit="docs",
        feature=TRANSFORMS,
    ),
)
