"""Operations on whole indices: create, delete, refresh, force-merge, statistics, counting."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.cluster.marks import marked
from esbench.errors import TrackError
from esbench.measure.verdict import GOOD, Verdict
from esbench.model import Index
from esbench.operations.administrative import (
    CONDITION,
    ONLY_IF_EXISTS,
    POLLING,
    QUERY,
    AdministrativeType,
    Call,
    ask,
    condition_met,
    delete_matching,
    finished_task,
    if_exists,
    in_turn,
    named,
    query_of,
    running,
    segment,
)
from esbench.operations.base import ADMINISTRATIVE, OF_THE_CLUSTER, TaskContext
from esbench.operations.index_settings import with_settings
from esbench.operations.parameters import Parameter, seconds, whole
from esbench.operations.replies import judge_shards
from esbench.requests.exchange import RequestFailed, Run, ScriptSession
from esbench.requests.templates import plain

ASSERTION_FAILED = "wrong count"


def _target(context: TaskContext) -> str:
    """Return the indices to address, as part of a path: the `index` parameter, else all of the track, else `_all`."""
    if index := context.params.get("index"):
        return segment(index)
    return segment([target.name for target in context.indices or context.data_streams]) or "_all"


def _create(context: TaskContext) -> Iterable[Call]:
    for index in to_create(context):
        body = with_settings(index.body, context.params.get("settings"))
        body = context.dialect.index_body(marked(body, context.dialect))
        yield Call("PUT", f"/{segment(index.name)}", query_of(context.params), body, empties=index.name)


def to_create(context: TaskContext) -> tuple[Index, ...]:
    """Return the indices that a create-index makes. Raises TrackError if the track has none of them."""
    params = context.params
    wanted = params.get("index")
    if params.get("body") is not None:
        if not isinstance(wanted, str):
            raise TrackError('create-index with a "body" needs an "index"', where=context.where)
        return (Index(wanted, params["body"]),)
    if wanted is None and not context.indices:
        what = "the track has no index to create"
        raise TrackError(what, where=context.where, hint='give the operation "index" and "body"')
    return named(context.indices, wanted, "index", context.where)


def _delete(context: TaskContext) -> Run:
    names = to_delete(context.params, context.indices)
    if not names:
        raise TrackError("the track has no index to delete", where=context.where, hint='give the operation an "index"')
    query, accept = query_of(context.params), if_exists(context.params)

    async def run(session: ScriptSession) -> Verdict:
        for name in names:
            if "*" in name or name == "_all":
                await delete_matching(session, name, context.ledger, query)
                continue
            await ask(session, "DELETE", f"/{segment(name)}", params=query, accept=accept)
            context.ledger.empty(name)
        return Verdict(len(names))

    return run


def to_delete(params: Mapping[str, Any], indices: Sequence[Index]) -> tuple[str, ...]:
    """Return the names and patterns of the indices that a delete-index deletes."""
    given = params.get("index")
    wanted = plain(given) if given else ",".join(index.name for index in indices)
    return tuple(name for name in wanted.split(",") if name)


@running
async def _refresh(context: TaskContext, session: ScriptSession) -> Verdict:
    path = f"/{_target(context)}/_refresh"
    return judge_shards((await ask(session, "POST", path, params=query_of(context.params))).json())


# Earlier versions refuse the parameter: there a request merges as long as it takes.
BACKGROUND_MERGES = Feature("force-merges in the background", (8, 1), (2, 7))


@running
async def _force_merge(context: TaskContext, session: ScriptSession) -> Verdict:
    params = context.params
    query = query_of(params, max_num_segments=whole(params.get("max-num-segments")) or None)
    path = f"/{_target(context)}/_forcemerge"
    if params.get("mode") != "polling":
        return judge_shards((await ask(session, "POST", path, params=query)).json())
    if not context.dialect.has(BACKGROUND_MERGES):
        return await _merge_beyond_a_timeout(session, path, query, params)
    reply = (await ask(session, "POST", path, params={**query, "wait_for_completion": "false"})).json()
    if "task" not in reply:
        raise RequestFailed("bad response", "this version cannot force-merge in the background: use mode blocking")
    return judge_shards(await finished_task(session, reply["task"], params, "force-merge"))


async def _merge_beyond_a_timeout(
    session: ScriptSession, path: str, query: Mapping[str, Any], params: Mapping[str, Any]
) -> Verdict:
    """Merge with a request that lasts as long as the merge; once it has timed out, wait until no merge is left.

    How shards fared is not known then. Each look comes after `poll-period` (10 s).
    """
    try:
        return judge_shards((await ask(session, "POST", path, params=query)).json())
    except RequestFailed as failure:
        if failure.kind != "timeout":
            raise
    is_merging = True
    while is_merging:
        await asyncio.sleep(seconds(params, "poll-period", 10.0))
        reply = await ask(session, "GET", "/_tasks", params={"actions": "indices:admin/forcemerge"})
        is_merging = bool(reply.json().get("nodes"))
    return GOOD


@running
async def _stats(context: TaskContext, session: ScriptSession) -> Verdict:
    path = f"/{segment(context.params.get('index') or '_all')}/_stats"
    stats = (await ask(session, "GET", path)).json()
    return condition_met(context.params, stats, missing=0 if stats.get("indices") == {} else None)  # of no index: 0


def _count(context: TaskContext) -> Run:
    index, judge = context.default_index(), judge_count(context)

    async def run(session: ScriptSession) -> Verdict:
        await ask(session, "POST", f"/{index}/_refresh")
        return judge((await ask(session, "GET", f"/{index}/_count")).json()["count"])

    return run


def judge_count(context: TaskContext) -> Callable[[int], Verdict]:
    """Return the function that judges the number of documents which an assert-count has found."""
    index, expected = context.default_index(), _expected(context)

    def judge(found: int) -> Verdict:
        if found == expected:
            return GOOD
        what = f'index "{index}" holds {found:,} documents, {expected:,} were expected'
        return Verdict(0, ASSERTION_FAILED, what)

    return judge


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


def _refuse_expected(params: Mapping[str, Any], where: str) -> None:
    expected = params.get("expected")
    if isinstance(expected, str) and expected != "acknowledged" and not expected.isdigit():
        raise TrackError(f'"expected" must be a number or "acknowledged", not "{expected}"', where=where)


_ALL = Parameter("those of the track by default", (str, list))
_AMAZONS = frozenset({"opensearch"})  # has no _refresh

TYPES = (
    AdministrativeType(
        "create-index",
        "Create the track's indices, or one from its own body.",
        {
            "index": Parameter("which indices of the track; all by default", (str, list)),
            "settings": Parameter("settings merged into those of the index", (dict,)),
            "body": Parameter("its own body, with index", (dict,)),
            "request-params": QUERY,
        },
        in_turn(_create),
        traits=replace(ADMINISTRATIVE, creates="index"),
    ),
    AdministrativeType(
        "delete-index",
        "Delete the track's indices, or the named ones; of a pattern, each index that matches.",
        {"index": _ALL, "only-if-exists": ONLY_IF_EXISTS, "request-params": QUERY},
        _delete,
        traits=replace(ADMINISTRATIVE, deletes="index"),
        deleted=lambda params, track: to_delete(params, track.indices),
    ),
    AdministrativeType(
        "refresh",
        "Make everything that was written visible to searches.",
        {"index": _ALL, "request-params": QUERY},
        _refresh,
        traits=replace(ADMINISTRATIVE, not_on_serverless=_AMAZONS),
    ),
    AdministrativeType(
        "force-merge",
        "Merge the segments of the track's indices.",
        {
            "index": _ALL,
            "max-num-segments": Parameter("how many segments a shard may keep", (int,)),
            **POLLING,
            "request-params": QUERY,
        },
        _force_merge,
        traits=OF_THE_CLUSTER,
    ),
    AdministrativeType(
        "index-stats",
        "Index statistics, optionally until a value is as expected.",
        {"index": Parameter("all by default", (str, list)), "condition": CONDITION},
        _stats,
        traits=OF_THE_CLUSTER,
    ),
    AdministrativeType(
        "assert-count",
        "Refresh, count, and fail the race when documents are missing or too many.",
        {
            "index": Parameter("the track's only one by default"),
            "expected": Parameter(
                "a number, or acknowledged: the new documents of the race's writes and reindexes", (int, str)
            ),
        },
        _count,
        traits=replace(ADMINISTRATIVE, compares_counts=True, not_on_serverless=_AMAZONS),
        asks_index=True,
        refuse=_refuse_expected,
    ),
)
