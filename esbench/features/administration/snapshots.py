"""Snapshot operations: repositories, creating and restoring snapshots, waiting until either is done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import (
    BODY,
    QUERY,
    AdministrativeType,
    ask,
    at,
    count_at,
    query_of,
    request,
    running,
    segment,
)
from esbench.operations.base import MEASURED_ONCE, OF_THE_CLUSTER, ON_NO_SERVERLESS, TaskContext
from esbench.operations.parameters import SECONDS, Parameter, flag, seconds
from esbench.operations.replies import judge_shards
from esbench.requests.exchange import RequestFailed, ScriptSession

_BETWEEN = "completion-recheck-wait-period"
_UNDER_WAY = ("INIT", "STARTED", "IN_PROGRESS")


def _path(params: Mapping[str, Any]) -> str:
    return f"/_snapshot/{segment(params['repository'])}/{segment(params['snapshot'])}"


async def _snapshot(line: str, context: TaskContext, session: ScriptSession) -> Verdict:
    """Send a request on a snapshot: its method, and the end of its path.

    If the request waited for completion, the snapshot must have succeeded.
    """
    method, _, ending = line.partition(" ")
    params = context.params
    query = query_of(params, wait_for_completion=flag(params.get("wait-for-completion")))
    reply = (await ask(session, method, f"{_path(params)}{ending}", params=query, body=params.get("body"))).json()
    state = at(reply, "snapshot", "state")
    if state not in (None, "SUCCESS", *_UNDER_WAY):
        return Verdict(0, "snapshot failed", f"the snapshot is {state}: {at(reply, 'snapshot', 'failures')}")
    return judge_shards({"_shards": at(reply, "snapshot", "shards")})


async def _pause(context: TaskContext) -> None:
    await asyncio.sleep(seconds(context.params, _BETWEEN, 1.0))


@running
async def _wait_until_taken(context: TaskContext, session: ScriptSession) -> Verdict:
    path = f"{_path(context.params)}/_status"
    while True:
        reply = (await ask(session, "GET", path, params={"ignore_unavailable": "true"})).json()
        snapshot = at(reply["snapshots"], 0)  # nothing, as long as the repository does not know it
        state = at(snapshot, "state")
        if state == "SUCCESS":  # `total` is there from 6.4 on
            size = count_at(snapshot, "stats", "total", "size_in_bytes")
            return Verdict(size or count_at(snapshot, "stats", "total_size_in_bytes"))
        if state is not None and state not in _UNDER_WAY:
            return Verdict(0, "snapshot failed", f"the snapshot is {state}")
        await _pause(context)


@running
async def _wait_for_current(context: TaskContext, session: ScriptSession) -> Verdict:
    params = context.params
    path = f"/_snapshot/{segment(params['repository'])}/_current"
    while (await ask(session, "GET", path, params=query_of(params))).json()["snapshots"]:
        await _pause(context)
    return GOOD


@running
async def _wait_for_recovery(context: TaskContext, session: ScriptSession) -> Verdict:
    path = f"/{segment(context.params['index'])}/_recovery"
    while True:
        shards = list(_shards((await ask(session, "GET", path)).json()))
        if shards and all(at(shard, "stage") == "DONE" for shard in shards):
            return Verdict(sum(count_at(shard, "index", "size", "recovered_in_bytes") for shard in shards))
        await _pause(context)


def _shards(recovery: Mapping[str, Any]) -> Iterator[Any]:
    for index, facts in recovery.items():
        shards = at(facts, "shards")
        if not isinstance(shards, list):
            raise RequestFailed("bad response", f'no shards of "{index}" in its recovery')
        yield from shards


_REPOSITORY = {"repository": Parameter("the repository's name", required=True)}
_SNAPSHOT = {**_REPOSITORY, "snapshot": Parameter("the snapshot's name", required=True)}
_REQUEST = {
    **_SNAPSHOT,
    "body": Parameter("the request's body", (dict,)),
    "wait-for-completion": Parameter("whether the reply comes when it is done", (bool,), False),
    "request-params": QUERY,
}
_RECHECK = {_BETWEEN: Parameter("seconds between two looks", SECONDS, 1, duration=True)}
_WAITS = replace(MEASURED_ONCE, not_on_serverless=ON_NO_SERVERLESS)

TYPES = (
    request(
        "create-snapshot-repository",
        "Register a snapshot repository.",
        "PUT /_snapshot/{repository}",
        {**_REPOSITORY, "body": BODY},
        traits=OF_THE_CLUSTER,
    ),
    request(
        "delete-snapshot-repository",
        "Forget a snapshot repository; its files stay.",
        "DELETE /_snapshot/{repository}",
        _REPOSITORY,
        traits=OF_THE_CLUSTER,
    ),
    AdministrativeType(
        "create-snapshot", "Take a snapshot.", _REQUEST, running(partial(_snapshot, "PUT")), traits=OF_THE_CLUSTER
    ),
    AdministrativeType(
        "restore-snapshot",
        "Restore a snapshot, or the indices of it that the body names.",
        _REQUEST,
        running(partial(_snapshot, "POST /_restore")),
        traits=OF_THE_CLUSTER,
    ),
    AdministrativeType(
        "wait-for-snapshot-create",
        "Wait until a snapshot is taken; its bytes are the units.",
        {**_SNAPSHOT, **_RECHECK},
        _wait_until_taken,
        unit="bytes",
        traits=_WAITS,
    ),
    AdministrativeType(
        "wait-for-current-snapshots-create",
        "Wait until no snapshot of a repository is being taken.",
        {**_REPOSITORY, **_RECHECK, "request-params": QUERY},
        _wait_for_current,
        traits=_WAITS,
    ),
    AdministrativeType(
        "wait-for-recovery",
        "Wait until the shards of indices are recovered, say from a snapshot; their bytes are the units.",
        {"index": Parameter("the index or indices", (str, list), required=True), **_RECHECK},
        _wait_for_recovery,
        unit="bytes",
        traits=_WAITS,
    ),
)
