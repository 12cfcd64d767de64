"""Snapshots: their repositories, taking and restoring them, and waiting until either is done."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from esbench.measure.verdict import GOOD, Verdict
from esbench.operations.administrative import (
    BODY,
    ONLY_IF_EXISTS,
    QUERY,
    AdministrativeType,
    Call,
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
from esbench.operations.replies import judge_shards
from esbench.operations.scripts import ask
from esbench.operations.traits import ADMINISTRATIVE, MEASURED
from esbench.requests.exchange import RequestFailed
from esbench.requests.script import Script, Session

_REPOSITORY = Parameter("the repository's name", required=True)
_SNAPSHOT = Parameter("the snapshot's name", required=True)
_WAIT = Parameter("whether the reply comes when it is done", (bool,), False)
_RECHECK = Parameter("seconds between two looks", SECONDS, 1, duration=True)
_OPTIONAL_BODY = Parameter("the request's body", (dict,))
_BETWEEN = "completion-recheck-wait-period"
_UNDER_WAY = ("INIT", "STARTED", "IN_PROGRESS")


class CreateSnapshotRepository(RequestType):
    name = "create-snapshot-repository"
    traits = ADMINISTRATIVE
    doc = "Register a snapshot repository."
    parameters = {"repository": _REPOSITORY, "body": BODY, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        yield Call("PUT", f"/_snapshot/{segment(params['repository'])}", query_of(params), params["body"])


class DeleteSnapshotRepository(RequestType):
    name = "delete-snapshot-repository"
    traits = ADMINISTRATIVE
    doc = "Forget a snapshot repository; its files stay."
    parameters = {"repository": _REPOSITORY, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def calls(self, context: TaskContext) -> Iterable[Call]:
        params = context.params
        accept = if_exists(params)
        yield Call("DELETE", f"/_snapshot/{segment(params['repository'])}", query_of(params), accept=accept)


class _SnapshotType(AdministrativeType):
    parameters = {
        "repository": _REPOSITORY,
        "snapshot": _SNAPSHOT,
        "body": _OPTIONAL_BODY,
        "wait-for-completion": _WAIT,
        "request-params": QUERY,
    }
    method: str
    ending = ""

    def script(self, context: TaskContext) -> Script:
        params = context.params
        wait = flag(params.get("wait-for-completion"))
        path = f"/_snapshot/{segment(params['repository'])}/{segment(params['snapshot'])}{self.ending}"
        return _Snapshot(Call(self.method, path, query_of(params, wait_for_completion=wait), params.get("body")))


class CreateSnapshot(_SnapshotType):
    name = "create-snapshot"
    traits = ADMINISTRATIVE
    doc = "Take a snapshot."
    method = "PUT"


class RestoreSnapshot(_SnapshotType):
    name = "restore-snapshot"
    traits = ADMINISTRATIVE
    doc = "Restore a snapshot, or the indices of it that the body names."
    method = "POST"
    ending = "/_restore"


@dataclass(frozen=True)
class _Snapshot:
    """A request about a snapshot; where it waited for the end, the end must have been a good one."""

    call: Call

    async def run(self, session: Session) -> Verdict:
        call = self.call
        reply = (await ask(session, call.method, call.path, params=call.query, body=call.body)).json()
        state = at(reply, "snapshot", "state")
        if state not in (None, "SUCCESS", *_UNDER_WAY):
            return Verdict(0, "snapshot failed", f"the snapshot is {state}: {at(reply, 'snapshot', 'failures')}")
        return judge_shards({"_shards": at(reply, "snapshot", "shards")})


class WaitForSnapshotCreate(AdministrativeType):
    name = "wait-for-snapshot-create"
    traits = MEASURED
    doc = "Wait until a snapshot is taken; its bytes are the units."
    unit = "bytes"
    parameters = {"repository": _REPOSITORY, "snapshot": _SNAPSHOT, _BETWEEN: _RECHECK}

    def script(self, context: TaskContext) -> Script:
        params = context.params
        path = f"/_snapshot/{segment(params['repository'])}/{segment(params['snapshot'])}/_status"
        return _SnapshotTaken(path, seconds(params, _BETWEEN, 1.0))


@dataclass(frozen=True)
class _SnapshotTaken:
    path: str
    between_s: float

    async def run(self, session: Session) -> Verdict:
        while True:
            reply = (await ask(session, "GET", self.path, params={"ignore_unavailable": "true"})).json()
            snapshot = at(reply["snapshots"], 0)  # nothing, as long as the repository does not know it
            state = at(snapshot, "state")
            if state == "SUCCESS":  # `total` is there from 6.4 on
                size = count_at(snapshot, "stats", "total", "size_in_bytes")
                return Verdict(size or count_at(snapshot, "stats", "total_size_in_bytes"))
            if state is not None and state not in _UNDER_WAY:
                return Verdict(0, "snapshot failed", f"the snapshot is {state}")
            await asyncio.sleep(self.between_s)


class WaitForCurrentSnapshotsCreate(AdministrativeType):
    name = "wait-for-current-snapshots-create"
    traits = MEASURED
    doc = "Wait until no snapshot of a repository is being taken."
    parameters = {"repository": _REPOSITORY, _BETWEEN: _RECHECK, "request-params": QUERY}

    def script(self, context: TaskContext) -> Script:
        params = context.params
        path = f"/_snapshot/{segment(params['repository'])}/_current"
        return _NoneUnderWay(path, query_of(params), seconds(params, _BETWEEN, 1.0))


@dataclass(frozen=True)
class _NoneUnderWay:
    path: str
    query: Mapping[str, Any]
    between_s: float

    async def run(self, session: Session) -> Verdict:
        while (await ask(session, "GET", self.path, params=self.query)).json()["snapshots"]:
            await asyncio.sleep(self.between_s)
        return GOOD


class WaitForRecovery(AdministrativeType):
    name = "wait-for-recovery"
    traits = MEASURED
    doc = "Wait until the shards of indices are recovered, say from a snapshot; their bytes are the units."
    unit = "bytes"
    parameters = {"index": Parameter("the index or indices", (str, list), required=True), _BETWEEN: _RECHECK}

    def script(self, context: TaskContext) -> Script:
        params = context.params
        return _Recovered(f"/{segment(params['index'])}/_recovery", seconds(params, _BETWEEN, 1.0))


@dataclass(frozen=True)
class _Recovered:
    path: str
    between_s: float

    async def run(self, session: Session) -> Verdict:
        while True:
            shards = list(_shards((await ask(session, "GET", self.path)).json()))
            if shards and all(at(shard, "stage") == "DONE" for shard in shards):
                return Verdict(sum(count_at(shard, "index", "size", "recovered_in_bytes") for shard in shards))
            await asyncio.sleep(self.between_s)


def _shards(recovery: Mapping[str, Any]) -> Iterator[Any]:
    for index, facts in recovery.items():
        shards = at(facts, "shards")
        if not isinstance(shards, list):
            raise RequestFailed("bad response", f'no shards of "{index}" in its recovery')
        yield from shards
