"""Operations on whole indices: create, delete, refresh, force-merge, statistics, counting."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from esbench.errors import TrackError, did_you_mean
from esbench.model import Index
from esbench.operations.base import (
    SECONDS,
    OperationType,
    Parameter,
    Program,
    RequestFailed,
    Session,
    TaskContext,
    Verdict,
    flag,
)
from esbench.operations.programs import ScriptProgram
from esbench.operations.replies import judge_shards, reason_of
from esbench.operations.scripts import Retrying, ask
from esbench.track.templates import plain
from esbench.units import parse_duration

_ALL = Parameter("the index or indices; those of the track by default", (str, list))
_QUERY = Parameter("query string parameters", (dict,))


def _target(context: TaskContext, otherwise: str = "_all") -> str:
    """The `index` parameter, or all indices of the track, or `otherwise`."""
    if index := context.params.get("index"):
        return plain(index)
    return ",".join(index.name for index in context.indices) or otherwise


def _query(context: TaskContext) -> dict[str, Any]:
    return dict(context.params.get("request-params") or {})


class CreateIndex(OperationType):
    name = "create-index"
    doc = "Create the track's indices, or one from its own body."
    admin = True
    parameters = {
        "index": Parameter("which indices of the track; all by default", (str, list)),
        "settings": Parameter("settings merged into those of the index", (dict,)),
        "body": Parameter("a body of its own, with index", (dict,)),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        return ScriptProgram(Retrying(_Create(context, _to_create(context)), context.params), context.params)


def _to_create(context: TaskContext) -> tuple[Index, ...]:
    params = context.params
    wanted = params.get("index")
    if params.get("body") is not None:
        if not isinstance(wanted, str):
            raise TrackError('create-index with a "body" needs an "index"', where=context.where)
        return (Index(wanted, params["body"]),)
    if wanted is None:
        if not context.indices:
            raise TrackError(
                "the track has no index to create", where=context.where, hint='give the operation "index" and "body"'
            )
        return context.indices
    names = [wanted] if isinstance(wanted, str) else list(wanted)
    known = {index.name: index for index in context.indices}
    for name in names:
        if name not in known:
            raise TrackError(f'the track has no index "{name}"', where=context.where, hint=did_you_mean(name, known))
    return tuple(known[name] for name in names)


@dataclass(frozen=True)
class _Create:
    context: TaskContext
    indices: tuple[Index, ...]

    async def run(self, session: Session) -> Verdict:
        for index in self.indices:
            body = dict(index.body)
            if extra := self.context.params.get("settings"):
                body["settings"] = {**body.get("settings", {}), **extra}
            await ask(
                session,
                "PUT",
                f"/{quote(index.name)}",
                params=_query(self.context),
                body=self.context.dialect.index_body(body),
            )
            self.context.ledger.empty(index.name)
        return Verdict(len(self.indices))


class DeleteIndex(OperationType):
    name = "delete-index"
    doc = "Delete the track's indices, or the named ones."
    admin = True
    parameters = {
        "index": Parameter("the index or indices; those of the track by default", (str, list)),
        "only-if-exists": Parameter("a missing index is no failure", (bool,), True),
        "request-params": _QUERY,
    }

    def compile(self, context: TaskContext) -> Program:
        names = tuple(name for name in _target(context, "").split(",") if name)
        if not names:
            raise TrackError(
                "the track has no index to delete", where=context.where, hint='give the operation an "index"'
            )
        return ScriptProgram(Retrying(_Delete(context, names), context.params), context.params)


@dataclass(frozen=True)
class _Delete:
    context: TaskContext
    names: tuple[str, ...]

    async def run(self, session: Session) -> Verdict:
        accept = (404,) if flag(self.context.params.get("only-if-exists"), True) else ()
        for name in self.names:
            await ask(session, "DELETE", f"/{quote(name, safe='*')}", params=_query(self.context), accept=accept)
            self.context.ledger.empty(name)
        return Verdict(len(self.names))


class Refresh(OperationType):
    name = "refresh"
    doc = "Make everything that was written visible to searches."
    admin = True
    parameters = {"index": _ALL, "request-params": _QUERY}

    def compile(self, context: TaskContext) -> Program:
        script = _Post(f"/{_target(context)}/_refresh", _query(context))
        return ScriptProgram(Retrying(script, context.params), context.params)


@dataclass(frozen=True)
class _Post:
    path: str
    params: Mapping[str, Any]

    async def run(self, session: Session) -> Verdict:
        return judge_shards((await ask(session, "POST", self.path, params=self.params)).json())


class ForceMerge(OperationType):
    name = "force-merge"
    doc = "Merge the segments of the track's indices."
    admin = True
    parameters = {
        "index": _ALL,
        "max-num-segments": Parameter("how many segments a shard may keep", (int,)),
        "mode": Parameter("blocking, or polling of the task", default="blocking", choices=("blocking", "polling")),
        "poll-period": Parameter("seconds between polls", SECONDS, 10, duration=True),
    }

    def compile(self, context: TaskContext) -> Program:
        params = context.params
        query = {"max_num_segments": params["max-num-segments"]} if params.get("max-num-segments") else {}
        path = f"/{_target(context)}/_forcemerge"
        if params.get("mode") == "polling":
            period = params.get("poll-period")
            poll_s = 10.0 if period is None else parse_duration(period)
            return ScriptProgram(_PollingMerge(path, {**query, "wait_for_completion": "false"}, poll_s), params)
        return ScriptProgram(_Post(path, query), params)


@dataclass(frozen=True)
class _PollingMerge:
    path: str
    params: Mapping[str, Any]
    poll_s: float

    async def run(self, session: Session) -> Verdict:
        started = (await ask(session, "POST", self.path, params=self.params)).json()
        task = started.get("task")
        if task is None:
            raise RequestFailed("bad response", "this version cannot force-merge in the background: use mode blocking")
        while not (status := (await ask(session, "GET", f"/_tasks/{task}")).json()).get("completed"):
            await asyncio.sleep(self.poll_s)
        if error := status.get("error"):
            return Verdict(0, "force-merge failed", reason_of(error))
        return judge_shards(status.get("response"))


class IndexStats(OperationType):
    name = "index-stats"
    doc = "Index statistics, optionally until a value is as expected."
    admin = True
    parameters = {
        "index": Parameter("the index or indices; all by default", (str, list)),
        "condition": Parameter('{"path": "_all.total.merges.current", "expected-value": 0}', (dict,)),
    }

    def compile(self, context: TaskContext) -> Program:
        condition = context.params.get("condition")
        if condition is not None and not {"path", "expected-value"} <= set(condition):
            raise TrackError('"condition" needs "path" and "expected-value"', where=context.where)
        path = f"/{plain(context.params.get('index') or '_all')}/_stats"
        return ScriptProgram(Retrying(_Stats(path, condition), context.params), context.params)


@dataclass(frozen=True)
class _Stats:
    path: str
    condition: Mapping[str, Any] | None

    async def run(self, session: Session) -> Verdict:
        value: Any = (await ask(session, "GET", self.path)).json()
        if self.condition is None:
            return Verdict()
        for key in str(self.condition["path"]).split("."):
            value = value.get(key) if isinstance(value, dict) else None
        expected = self.condition["expected-value"]
        if str(value) == str(expected):
            return Verdict()
        return Verdict(0, "condition not met", f"{self.condition['path']} is {value}, not {expected}")


class AssertCount(OperationType):
    name = "assert-count"
    doc = "Refresh, count, and fail the race when documents are missing or too many."
    admin = True
    parameters = {
        "index": Parameter("the index; the track's only one by default"),
        "expected": Parameter("a number, or acknowledged: what the race's writes got acknowledged", (int, str)),
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        expected = params.get("expected")
        if isinstance(expected, str) and expected != "acknowledged" and not expected.isdigit():
            raise TrackError(f'"expected" must be a number or "acknowledged", not "{expected}"', where=where)

    def compile(self, context: TaskContext) -> Program:
        return ScriptProgram(_Count(context.default_index(), _expected(context)), context.params)


def _expected(context: TaskContext) -> int:
    expected = context.params.get("expected")
    if expected not in (None, "acknowledged"):
        return int(expected)
    patterns = context.default_index().split(",")
    return sum(
        documents
        for name, documents in context.before.acknowledged.items()
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)
    )


ASSERTION_FAILED = "wrong count"


@dataclass(frozen=True)
class _Count:
    index: str
    expected: int

    async def run(self, session: Session) -> Verdict:
        await ask(session, "POST", f"/{self.index}/_refresh")
        found = (await ask(session, "GET", f"/{self.index}/_count")).json()["count"]
        if found == self.expected:
            return Verdict()
        return Verdict(
            0,
            ASSERTION_FAILED,
            f'index "{self.index}" holds {found:,} documents, {self.expected:,} were expected',
        )
