"""Snapshot operations: repositories, creating and restoring snapshots, waiting until either is done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import (
    BODY,
    QUERY,
    AdministrativeType,
    Run,
    at,
    count_at,
    query_of,
    request,
    seconds,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import SECONDS, Parameter, flag
from esbench.operations.replies import judge_shards
from esbench.operations.scripts import ask
from esbench.operations.traits import MEASURED
from esbench.requests.exchange import RequestFailed
from esbench.requests.script import Session

_BETWEEN = "completion-recheck-wait-period"
_UNDER_WAY = ("INIT", "STARTED", "IN_PROGRESS")


def _path(params: Mapping[str, Any]) -> str:
    return f"/_snapshot/{segment(params['repository'])}/{segment(params['snapshot'])}"


def _snapshot(method: str, ending: str = "") -> Callable[[TaskContext], Run]:
    """Return the `prepare` function of a request on a snapshot.

    If the request waited for completion, the snapshot must have succeeded.
    """

    def prepare(context: TaskContext) -> Run:
        params = context.params
        path = f"{_path(params)}{ending}"
        query = query_of(params, wait_for_completion=flag(params.get("wait-for-completion")))

        async def run(session: Session) -> Verdict:
            reply = (await ask(session, method, path, params=query, body=params.get("body"))).json()
            state = at(reply, "snapshot", "state")
            if state not in (None, "SUCCESS", *_UNDER_WAY):
                return Verdict(0, "snapshot failed", f"the snapshot is {state}: {at(reply, 'snapshot', 'failures')}")
            return judge_shards({"_shards": at(reply, "snapshot", "shards")})

        return run

    return prepare


def _wait_until_taken(context: TaskContext) -> Run:
    path, between_s = f"{_path(context.params)}/_status", seconds(context.params, _BETWEEN, 1.0)

    async def run(session: Session) -> Verdict:
        while True:
            reply = (await ask(session, "GET", path, params={"ignore_unavailable": "true"})).json()
            snapshot = at(reply["snapshots"], 0)  # nothing, as long as the repository does not know it
            state = at(snapshot, "state")
            if state == "SUCCESS":  # `total` is there from 6.4 on
                size = count_at(snapshot, "stats", "total", "size_in_bytes")
                return Verdict(size or count_at(snapshot, "stats", "total_size_in_bytes"))
            if state is not None and state not in _UNDER_WAY:
                return Verdict(0, "snapshot failed", f"the snapshot is {state}")
            await asyncio.sleep(between_s)

    return run


def _wait_for_current(context: TaskContext) -> Run:
    params = context.params
    path, between_s = f"/_snapshot/{segment(params['repository'])}/_current", seconds(params, _BETWEEN, 1.0)

    async def run(session: Session) -> Verdict:
        while (await ask(session, "GET", path, params=query_of(params))).json()["snapshots"]:
            await asyncio.sleep(between_s)
        return GOOD

    return run


def _wait_for_recovery(context: TaskContext) -> Run:
    path, between_s = f"/{segment(context.params['index'])}/_recovery", seconds(context.params, _BETWEEN, 1.0)

    async def run(session: Session) -> Verdict:
        while True:
            shards = list(_shards((await ask(session, "GET", path)).json()))
            if shards and all(at(shard, "stage") == "DONE" for shard in shards):
                return Verdict(sum(count_at(shard, "index", "size", "recovered_in_bytes") for shard in shards))
            await asyncio.sleep(between_s)

    return run


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

TYPES = (
    request(
        "create-snapshot-repository",
        "Register a snapshot repository.",
        "PUT /_snapshot/{repository}",
        {**_REPOSITORY, "body": BODY},
    ),
    request(
        "delete-snapshot-repository",
        "Forget a snapshot repository; its files stay.",
        "DELETE /_snapshot/{repository}",
        _REPOSITORY,
    ),
    AdministrativeType("create-snapshot", "Take a snapshot.", _REQUEST, _snapshot("PUT")),
    AdministrativeType(
        "restore-snapshot",
        "Restore a snapshot, or the indices of it that the body names.",
        _REQUEST,
        _snapshot("POST", "/_restore"),
    ),
    AdministrativeType(
        "wait-for-snapshot-create",
        "Wait until a snapshot is taken; its bytes are the units.",
        {**_SNAPSHOT, **_RECHECK},
        _wait_until_taken,
        unit="bytes",
        traits=MEASURED,
    ),
    AdministrativeType(
        "wait-for-current-snapshots-create",
        "Wait until no snapshot of a repository is being taken.",
        {**_REPOSITORY, **_RECHECK, "request-params": QUERY},
        _wait_for_current,
        traits=MEASURED,
    ),
    AdministrativeType(
        "wait-for-recovery",
        "Wait until the shards of indices are recovered, say from a snapshot; their bytes are the units.",
        {"index": Parameter("the index or indices", (str, list), required=True), **_RECHECK},
        _wait_for_recovery,
        unit="bytes",
        traits=MEASURED,
    ),
)
