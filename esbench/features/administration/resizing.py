"""Operations that make an index from another: shrink, downsample, reindex."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from esbench.cluster.dialect import Feature
from esbench.measure.verdict import Verdict
from esbench.operations.administrative import (
    BODY,
    POLLING,
    QUERY,
    AdministrativeType,
    Call,
    ask,
    at,
    concrete_indices,
    count_at,
    finished_task,
    in_turn,
    query_of,
    running,
    segment,
)
from esbench.operations.base import MEASURED_ONCE, OF_THE_CLUSTER, ON_NO_SERVERLESS, TaskContext
from esbench.operations.parameters import Parameter
from esbench.requests.exchange import RequestFailed, ScriptSession

DOWNSAMPLING = Feature("downsampling", (8, 5), node="downsampling")


async def shrink(context: TaskContext, session: ScriptSession, poll_s: float = 0.5) -> Verdict:
    """Shrink one index, or each index that matches a pattern, one after the other; each is a unit.

    Each is moved to one node, stays read-only, and the new index is waited for; `poll_s` is the time between two looks.
    Raises RequestFailed if nothing matches, the cluster has no data node or a request fails.
    """
    params = context.params
    pattern = params["source-index"]
    node = params.get("shrink-node") or await _first_data_node(session)
    sources = await concrete_indices(session, pattern) if "*" in pattern else [pattern]
    if not sources:
        raise RequestFailed("no such index", f'nothing matches "{pattern}"')
    stem = pattern.partition("*")[0]
    body, moved = params["target-body"], {"index.routing.allocation.require._name": node, "index.blocks.write": True}
    settings = {**dict.fromkeys(moved), **(body.get("settings") or {})}  # the new index is free of both
    for source in sources:
        target = params["target-index"] + source.removeprefix(stem)
        await ask(session, "PUT", f"/{segment(source)}/_settings", body={"settings": moved})
        while not await _is_on(session, source, node):
            await asyncio.sleep(poll_s)
        path = f"/{segment(source)}/_shrink/{segment(target)}"
        await ask(session, "POST", path, body={**body, "settings": settings})
        while not await _is_allocated(session, target):
            await asyncio.sleep(poll_s)
    return Verdict(len(sources))


async def _first_data_node(session: ScriptSession) -> str:
    nodes = (await ask(session, "GET", "/_nodes")).json().get("nodes")
    found = nodes.values() if isinstance(nodes, dict) else ()
    names = [str(at(node, "name")) for node in found if "data" in str(at(node, "roles"))]
    if not names:
        raise RequestFailed("no data node", "the cluster has no node that could hold the index")
    return min(names)


async def _is_on(session: ScriptSession, index: str, node: str) -> bool:
    """True if each shard has a started copy on the node, and no copy is being moved."""
    reply = (await ask(session, "GET", f"/{segment(index)}/_search_shards")).json()
    nodes, shards = reply["nodes"], reply["shards"]
    return isinstance(shards, list) and all(
        isinstance(copies, list)
        and any(at(copy, "state") == "STARTED" and at(nodes, str(at(copy, "node")), "name") == node for copy in copies)
        and not any(at(copy, "relocating_node") for copy in copies)
        for copies in shards
    )


async def _is_allocated(session: ScriptSession, index: str) -> bool:
    """True if all primary shards are assigned (status yellow or green) and no shard is being moved."""
    health = (await ask(session, "GET", f"/_cluster/health/{segment(index)}", accept=(408,))).json()
    return health["status"] in ("yellow", "green") and not health.get("relocating_shards")


def _downsample(context: TaskContext) -> Iterable[Call]:
    params = context.params
    interval = params.get("fixed-interval") or "1h"
    body = {"fixed_interval": interval}
    if method := params.get("sampling-method"):
        body["sampling_method"] = method
    source = params.get("source-index") or context.default_index()
    target = params.get("target-index") or f"{source}-{interval}"
    yield Call("POST", f"/{segment(source)}/_downsample/{segment(target)}", query_of(params), body)


@running
async def _reindex(context: TaskContext, session: ScriptSession) -> Verdict:
    params = context.params
    query = query_of(params, wait_for_completion="false" if params.get("mode") == "polling" else None)
    reply: dict[str, Any] = (await ask(session, "POST", "/_reindex", params=query, body=params["body"])).json()
    if "task" in reply:
        reply = await finished_task(session, reply["task"], params, "reindex")
    created = count_at(reply, "created")
    context.ledger.acknowledge(str(at(params["body"], "dest", "index")), created)
    written = created + count_at(reply, "updated")
    if (first := at(reply, "failures", 0)) is not None:
        return Verdict(written, "reindex failed", f"{len(reply['failures'])} failures, the first: {first}")
    return Verdict(written)


TYPES = (
    AdministrativeType(
        "shrink-index",
        "Move an index to one node, make it read-only, and shrink it; a pattern shrinks each of its indices.",
        {
            "source-index": Parameter("the index that is there, or a pattern", required=True),
            "target-index": Parameter("the index to make; of a pattern, its beginning", required=True),
            "target-body": Parameter("settings and aliases of the new index", (dict,), required=True),
            "shrink-node": Parameter("the node's name; the first data node by default"),
        },
        running(shrink),
        traits=OF_THE_CLUSTER,
    ),
    AdministrativeType(
        "downsample",
        "Downsample a time series index, which must be read-only.",
        {
            "source-index": Parameter("the index that is there; the track's only one by default"),
            "target-index": Parameter("the index to make; the source's name, a hyphen and the interval by default"),
            "fixed-interval": Parameter("the time that one document stands for afterwards", default="1h"),
            "sampling-method": Parameter("what is kept of it: aggregate or last_value; from 9.3 on"),
            "request-params": QUERY,
        },
        in_turn(_downsample),
        traits=replace(MEASURED_ONCE, not_on_serverless=ON_NO_SERVERLESS),
        feature=DOWNSAMPLING,
    ),
    AdministrativeType(
        "reindex",
        "Copy documents from one index to another; those that were written are the units.",
        {"body": BODY, **POLLING, "request-params": QUERY},
        _reindex,
        unit="docs",
        traits=replace(MEASURED_ONCE, node_features=frozenset({"reindex"})),
    ),
)
