"""Operations on whole indices: create, delete, refresh, force-merge, statistics, counting."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from esbench.errors import TrackError, did_you_mean
from esbench.measure.verdict import GOOD, Verdict
from esbench.model import Index
from esbench.operations.administrative import (
    CONDITION,
    ONLY_IF_EXISTS,
    QUERY,
    AdministrativeType,
    Call,
    Condition,
    RequestType,
    delete_matching,
    finished_task,
    if_exists,
    query_of,
    seconds,
    segment,
)
from esbench.operations.base import TaskContext
from esbench.operations.parameters import SECONDS, Parameter, whole
from esbench.operations.replies import judge_shards
from esbench.operations.scripts import ask
from esbench.operations.settings import with_settings
from esbench.operations.traits import ADMINISTRATIVE
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger
from esbench.requests.script import Script, Session
from esbench.requests.templates import plain

_ALL = Parameter("the index or indices; those of the track by default", (str, list))


def _target(context: TaskContext) -> str:
    """The `index` parameter, or all indices or data streams of the track, or all there are, as part of a path."""
    if index := context.params.get("index"):
        return segment(index)
    return segment([target.name for target in context.indices or context.data_streams]) or "_all"


class CreateIndex(RequestType):
    name = "create-index"
    traits = replace(ADMINISTRATIVE, creates="index")
    doc = "Create the track's indices, or one from its own body."
    parameters = {
        "index": Parameter("which indices of the track; all by default", (str, list)),
        "settings": Parameter("settings merged into those of the index", (dict,)),
        "body": Parameter("a body of its own, with index", (dict,)),
        "request-params": QUERY,
    }

    def calls(self, context: TaskContext) -> Iterable[Call]:
        for index in _to_create(context):
            body = context.dialect.index_body(with_settings(index.body, context.params.get("settings")))
            path = f"/{segment(index.name)}"
            yield Call("PUT", path, query_of(context.params), body, empties=index.name)


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


class DeleteIndex(AdministrativeType):
    name = "delete-index"
    traits = replace(ADMINISTRATIVE, deletes="index")
    doc = "Delete the track's indices, or the named ones; of a pattern, each index that matches."
    parameters = {"index": _ALL, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY}

    def script(self, context: TaskContext) -> Script:
        given = context.params.get("index")
        wanted = plain(given) if given else ",".join(index.name for index in context.indices)
        names = tuple(name for name in wanted.split(",") if name)
        if not names:
            raise TrackError(
                "the track has no index to delete", where=context.where, hint='give the operation an "index"'
            )
        return _Delete(names, query_of(context.params), if_exists(context.params), context.ledger)


@dataclass(frozen=True)
class _Delete:
    names: tuple[str, ...]
    query: Mapping[str, Any]
    accept: tuple[int, ...]
    ledger: Ledger

    async def run(self, session: Session) -> Verdict:
        for name in self.names:
            if "*" in name or name == "_all":
                await delete_matching(session, name, self.ledger, self.query)
                continue
            await ask(session, "DELETE", f"/{segment(name)}", params=self.query, accept=self.accept)
            self.ledger.empty(name)
        return Verdict(len(self.names))


class Refresh(AdministrativeType):
    name = "refresh"
    traits = ADMINISTRATIVE
    doc = "Make everything that was written visible to searches."
    parameters = {"index": _ALL, "request-params": QUERY}

    def script(self, context: TaskContext) -> Script:
        return _Post(f"/{_target(context)}/_refresh", query_of(context.params))


@dataclass(frozen=True)
class _Post:
    path: str
    params: Mapping[str, Any]

    async def run(self, session: Session) -> Verdict:
        return judge_shards((await ask(session, "POST", self.path, params=self.params)).json())


class ForceMerge(AdministrativeType):
    name = "force-merge"
    traits = ADMINISTRATIVE
    doc = "Merge the segments of the track's indices."
    parameters = {
        "index": _ALL,
        "max-num-segments": Parameter("how many segments a shard may keep", (int,)),
        "mode": Parameter("blocking, or polling of the task", default="blocking", choices=("blocking", "polling")),
        "poll-period": Parameter("seconds between polls", SECONDS, 10, duration=True),
        "request-params": QUERY,
    }

    def script(self, context: TaskContext) -> Script:
        params = context.params
        query = query_of(params, max_num_segments=whole(params.get("max-num-segments")) or None)
        path = f"/{_target(context)}/_forcemerge"
        if params.get("mode") == "polling":
            return _PollingMerge(path, {**query, "wait_for_completion": "false"}, seconds(params, "poll-period", 10.0))
        return _Post(path, query)


@dataclass(frozen=True)
class _PollingMerge:
    path: str
    params: Mapping[str, Any]
    poll_s: float

    async def run(self, session: Session) -> Verdict:
        started = (await ask(session, "POST", self.path, params=self.params)).json()
        if "task" not in started:
            raise RequestFailed("bad response", "this version cannot force-merge in the background: use mode blocking")
        return judge_shards(await finished_task(session, started["task"], self.poll_s, "force-merge"))


class IndexStats(AdministrativeType):
    name = "index-stats"
    traits = ADMINISTRATIVE
    doc = "Index statistics, optionally until a value is as expected."
    parameters = {
        "index": Parameter("the index or indices; all by default", (str, list)),
        "condition": CONDITION,
    }

    def script(self, context: TaskContext) -> Script:
        path = f"/{segment(context.params.get('index') or '_all')}/_stats"
        return _Stats(path, Condition.of(context.params, context.where))


@dataclass(frozen=True)
class _Stats:
    path: str
    condition: Condition | None

    async def run(self, session: Session) -> Verdict:
        stats = (await ask(session, "GET", self.path)).json()
        if self.condition is None:
            return GOOD
        return self.condition.verdict(stats, missing=0 if stats.get("indices") == {} else None)  # of no index, all is 0


class AssertCount(AdministrativeType):
    name = "assert-count"
    traits = replace(ADMINISTRATIVE, compares_counts=True)
    asks_index = True
    doc = "Refresh, count, and fail the race when documents are missing or too many."
    parameters = {
        "index": Parameter("the index; the track's only one by default"),
        "expected": Parameter("a number, or acknowledged: what the race's writes got acknowledged", (int, str)),
    }

    def check(self, params: Mapping[str, Any], where: str) -> None:
        super().check(params, where)
        expected = params.get("expected")
        if isinstance(expected, str) and expected != "acknowledged" and not expected.isdigit():
            raise TrackError(f'"expected" must be a number or "acknowledged", not "{expected}"', where=where)

    def script(self, context: TaskContext) -> Script:
        return _Count(context.default_index(), _expected(context))


def _expected(context: TaskContext) -> int:
    expected = context.params.get("expected")
    if expected not in (None, "acknowledged"):
        return whole(expected) or 0
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
