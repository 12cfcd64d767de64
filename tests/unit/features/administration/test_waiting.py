"""Operations that wait for something: snapshots, recoveries, transforms, shrunk and reindexed indices."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from compiled import FakeSession, context, script, session

from esbench.features.administration.resizing import shrink
from esbench.measure.verdict import Verdict
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger

SNAPSHOT = {"repository": "r", "snapshot": "s", "completion-recheck-wait-period": "1ms"}


def snapshot(state: str, **stats: Any) -> str:
    return json.dumps({"snapshots": [{"snapshot": "s", "state": state, "stats": stats}]})


# Snapshots


async def test_a_snapshot_is_taken_and_restored() -> None:
    told = session('{"accepted":true}')
    params = {"repository": "r", "snapshot": "s", "body": {"indices": "a"}}
    assert await script("create-snapshot", params).run(told) == Verdict()
    assert await script("restore-snapshot", {**params, "wait-for-completion": True}).run(told) == Verdict()
    assert told.asked == ["PUT /_snapshot/r/s", "POST /_snapshot/r/s/_restore"]
    assert told.queries == [{"wait_for_completion": False}, {"wait_for_completion": True}]
    assert told.bodies == [{"indices": "a"}] * 2


@pytest.mark.parametrize(
    ("kind", "reply", "error"),
    [
        ("create-snapshot", {"snapshot": {"state": "SUCCESS", "shards": {"total": 2, "failed": 0}}}, None),
        ("create-snapshot", {"snapshot": {"state": "PARTIAL", "failures": [{"reason": "x"}]}}, "snapshot failed"),
        ("restore-snapshot", {"snapshot": {"shards": {"total": 2, "failed": 1}}}, "shard failures"),
        ("restore-snapshot", {"snapshot": {"shards": {"total": 2, "failed": 0}}}, None),
    ],
)
async def test_a_snapshot_that_was_waited_for_must_be_whole(kind: str, reply: Any, error: str | None) -> None:
    params = {"repository": "r", "snapshot": "s", "wait-for-completion": True}
    assert (await script(kind, params).run(session(json.dumps(reply)))).error == error


async def test_a_snapshot_is_waited_for_and_its_bytes_counted() -> None:
    done = snapshot("SUCCESS", incremental={"size_in_bytes": 5}, total={"size_in_bytes": 70})
    told = session('{"snapshots":[]}', snapshot("STARTED"), done)
    assert await script("wait-for-snapshot-create", SNAPSHOT).run(told) == Verdict(70)
    assert told.asked == ["GET /_snapshot/r/s/_status"] * 3
    before_6_4 = session(snapshot("SUCCESS", total_size_in_bytes=60))
    assert await script("wait-for-snapshot-create", SNAPSHOT).run(before_6_4) == Verdict(60)
    verdict = await script("wait-for-snapshot-create", SNAPSHOT).run(session(snapshot("FAILED")))
    assert (verdict.error, verdict.example) == ("snapshot failed", "the snapshot is FAILED")


async def test_snapshots_under_way_are_waited_for() -> None:
    told = session(snapshot("IN_PROGRESS"), '{"snapshots":[]}')
    assert await script("wait-for-current-snapshots-create", SNAPSHOT).run(told) == Verdict()
    assert told.asked == ["GET /_snapshot/r/_current"] * 2


def recovery(*stages: str) -> str:
    shards = [{"stage": stage, "index": {"size": {"recovered_in_bytes": 30}}} for stage in stages]
    return json.dumps({"a": {"shards": shards[:1]}, "b": {"shards": shards[1:]}})


async def test_a_recovery_is_waited_for_and_its_bytes_counted() -> None:
    told = session("{}", recovery("DONE", "INDEX"), recovery("DONE", "DONE"))
    params = {"index": ["a", "b"], "completion-recheck-wait-period": "1ms"}
    assert await script("wait-for-recovery", params).run(told) == Verdict(60)
    assert told.asked == ["GET /a,b/_recovery"] * 3


# Transforms


def stats(state: Any, **of: Any) -> str:
    return json.dumps({"count": 1, "transforms": [{"id": "t", "state": state, "stats": of}]})


async def test_a_transform_is_waited_for_and_its_documents_counted() -> None:
    told = session("{}", stats("stopping"), stats("stopped", documents_processed=500))
    params = {"transform-id": "t", "poll-interval": "1ms"}
    assert await script("wait-for-transform", params).run(told) == Verdict(500)
    assert told.asked == ["POST /_transform/t/_stop", *["GET /_transform/t/_stats"] * 2]
    assert told.queries[0] == {"force": False, "wait_for_completion": False, "wait_for_checkpoint": True}


async def test_a_transform_of_7_2_says_its_state_elsewhere() -> None:
    told = session("{}", stats({"task_state": "stopped", "indexer_state": "stopped"}, documents_processed=5))
    assert await script("wait-for-transform", {"transform-id": "t"}).run(told) == Verdict(5)


async def test_a_transform_that_failed_is_a_failure() -> None:
    failed = json.dumps({"transforms": [{"state": "failed", "reason": "no such index [so]"}]})
    verdict = await script("wait-for-transform", {"transform-id": "t"}).run(session("{}", failed))
    assert (verdict.error, verdict.example) == ("transform failed", "no such index [so]")


async def test_a_transform_is_not_waited_for_for_ever() -> None:
    params = {"transform-id": "t", "transform-timeout": "20ms", "poll-interval": "1ms"}
    asked = session("{}", stats("indexing"))
    verdict = await script("wait-for-transform", params).run(asked)
    assert (verdict.error, verdict.example) == ("transform not finished", "it is indexing after 0.02 s")
    assert len(asked.asked) > 2


async def test_statistics_of_a_transform_can_be_waited_for() -> None:
    params = {
        "transform-id": "t",
        "condition": {"path": "stats.documents_processed", "expected-value": 5},
        "retry-until-success": True,
        "retry-wait-period": 0,
    }
    told = session(stats("started", documents_processed=4), stats("started", documents_processed=5))
    assert (await script("transform-stats", params).run(told)).error is None
    assert len(told.asked) == 2


# Shrinking and reindexing

NODES = json.dumps({"nodes": {"1": {"name": "n2", "roles": ["data_hot"]}, "2": {"name": "n1", "roles": ["master"]}}})


def shards(*nodes: str, relocating: str | None = None) -> str:
    copies = [[{"state": "STARTED", "node": node, "relocating_node": relocating, "primary": True}] for node in nodes]
    return json.dumps({"nodes": {"1": {"name": "n2"}, "2": {"name": "n1"}}, "shards": copies})


async def test_an_index_is_moved_to_a_node_and_shrunk() -> None:
    told = session(NODES, "{}", shards("1", "2"), shards("1", "1", relocating="2"), shards("1", "1"), "{}", GREEN)
    body = {"settings": {"index.number_of_shards": 1}}
    params = {"source-index": "a", "target-index": "b", "target-body": body}
    assert await shrink(context("shrink-index", params), told, poll_s=0) == Verdict(1)
    assert told.asked == [
        "GET /_nodes",
        "PUT /a/_settings",
        *["GET /a/_search_shards"] * 3,
        "POST /a/_shrink/b",
        "GET /_cluster/health/b",
    ]
    moved = {"index.routing.allocation.require._name": "n2", "index.blocks.write": True}
    assert told.bodies[1] == {"settings": moved}
    freed = dict.fromkeys(moved)
    assert told.bodies[5] == {"settings": {**freed, "index.number_of_shards": 1}}


GREEN = '{"status":"green","relocating_shards":0}'


async def test_each_index_of_a_pattern_is_shrunk() -> None:
    found = '{"src-1":{},"src-2":{}}'
    each = ("{}", shards("1"), "{}", GREEN)
    told = session(found, *each, *each)
    params = {"source-index": "src*", "target-index": "tgt", "target-body": {}, "shrink-node": "n2"}
    assert await script("shrink-index", params).run(told) == Verdict(2)
    assert [line for line in told.asked if "_shrink" in line] == [
        "POST /src-1/_shrink/tgt-1",
        "POST /src-2/_shrink/tgt-2",
    ]


REINDEX = {"body": {"source": {"index": "a"}, "dest": {"index": "b"}}}


async def test_documents_are_reindexed_and_counted() -> None:
    told = session('{"created":5,"updated":2,"failures":[]}')
    assert await script("reindex", REINDEX).run(told) == Verdict(7)
    assert (told.asked, told.bodies) == (["POST /_reindex"], [REINDEX["body"]])
    verdict = await script("reindex", REINDEX).run(session('{"created":5,"failures":[{"status":400}]}'))
    assert (verdict.units, verdict.error) == (5, "reindex failed")


async def test_new_documents_of_a_reindex_are_in_the_ledger() -> None:
    ledger = Ledger()
    await script("reindex", REINDEX, ledger=ledger).run(session('{"created":5,"updated":2,"failures":[]}'))
    assert ledger.acknowledged == {"b": 5}


async def test_a_reindex_in_the_background_is_polled() -> None:
    done = '{"completed":true,"response":{"created":9}}'
    told = session('{"task":"n:7"}', '{"completed":false}', done)
    assert await script("reindex", {**REINDEX, "mode": "polling", "poll-period": 0}).run(told) == Verdict(9)
    assert told.asked == ["POST /_reindex", *["GET /_tasks/n:7"] * 2]
    assert told.queries[0] == {"wait_for_completion": "false"}


# Strange replies

WAITING: list[tuple[str, dict[str, Any]]] = [
    ("create-snapshot", SNAPSHOT),
    ("wait-for-snapshot-create", SNAPSHOT),
    ("wait-for-current-snapshots-create", SNAPSHOT),
    ("wait-for-recovery", {"index": "a"}),
    ("wait-for-transform", {"transform-id": "t", "transform-timeout": 0}),
    ("transform-stats", {"transform-id": "t"}),
    ("shrink-index", {"source-index": "a", "target-index": "b", "target-body": {}}),
    ("shrink-index", {"source-index": "a*", "target-index": "b", "target-body": {}}),
    ("reindex", REINDEX),
]
STRANGE = (
    '{"snapshots":5,"snapshot":5,"transforms":5,"nodes":5,"failures":5,"a":5}',
    '{"snapshots":[5],"snapshot":[5],"transforms":[5],"nodes":{"a":5},"failures":[5],"a":{"shards":5}}',
    "[]",
    "<html>",
)


@pytest.mark.parametrize("reply", STRANGE)
@pytest.mark.parametrize(("kind", "params"), WAITING)
async def test_no_reply_is_too_strange(kind: str, params: dict[str, Any], reply: str) -> None:
    told = FakeSession(session(reply).answers)
    running = asyncio.create_task(script(kind, params).run(told))
    for _ in range(20):
        await asyncio.sleep(0)
    if not running.done():  # it waits for something that this server never says
        running.cancel()
        return
    error = running.exception()
    assert error is None or isinstance(error, RequestFailed)
