"""Administrative operations: what they ask, and what they make of the answers."""

from __future__ import annotations

import json
from typing import Any

import pytest
from compiled import ES5, ES6, ES8, ES60, OPENSEARCH, FakeSession, compiled, context, script, session

from esbench.cluster.dialect import Dialect
from esbench.errors import TrackError
from esbench.features.administration.waiting import Health
from esbench.measure.verdict import GOOD
from esbench.model import Index
from esbench.requests.exchange import RequestFailed
from esbench.requests.ledger import Ledger

ACKNOWLEDGED = '{"acknowledged":true,"shards_acknowledged":true,"index":"orders"}'
EXISTS = (
    '{"error":{"root_cause":[{"type":"resource_already_exists_exception","reason":"index [orders/x] already exists"}],'
    '"type":"resource_already_exists_exception","reason":"index [orders/x] already exists"},"status":400}'
)
NO_INDEX = '{"error":{"type":"index_not_found_exception","reason":"no such index [orders]"},"status":404}'
TWO = [Index("a", {"settings": {"number_of_shards": 1}, "mappings": {"dynamic": "strict"}}), Index("b")]


def failure(kind: str, params: dict[str, Any], **keys: Any) -> str:
    with pytest.raises(TrackError) as caught:
        compiled(context(kind, params, **keys))
    return str(caught.value)


# create-index

MARK = {"_meta": {"made_by": "esbench"}}


@pytest.mark.parametrize(
    ("dialect", "mappings"),
    [
        (ES5, {"doc": {"dynamic": "strict", **MARK}}),
        (ES60, {"doc": {"dynamic": "strict", **MARK}}),
        (ES6, {"_doc": {"dynamic": "strict", **MARK}}),
        (ES8, {"dynamic": "strict", **MARK}),
        (OPENSEARCH, {"dynamic": "strict", **MARK}),
    ],
)
async def test_an_index_is_created_as_the_version_wants_it(dialect: Dialect, mappings: dict[str, Any]) -> None:
    asked = session(ACKNOWLEDGED)
    verdict = await script("create-index", indices=TWO[:1], dialect=dialect).run(asked)
    assert verdict.units == 1
    assert asked.asked == ["PUT /a"]
    assert asked.bodies == [{"settings": {"number_of_shards": 1}, "mappings": mappings}]


async def test_an_index_without_a_mapping_is_marked_where_mappings_have_no_types() -> None:
    for dialect, bodies in ((ES6, [{}]), (ES8, [{"mappings": {"_meta": {"made_by": "esbench"}}}])):
        asked = session(ACKNOWLEDGED)
        await script("create-index", indices=TWO[1:], dialect=dialect).run(asked)
        assert asked.bodies == bodies


async def test_all_indices_of_the_track_are_created_and_known_to_be_empty() -> None:
    ledger = Ledger({"a": 5, "c": 7})
    asked = session(ACKNOWLEDGED)
    params = {"request-params": {"wait_for_active_shards": "all"}}
    verdict = await script("create-index", params, indices=TWO, ledger=ledger).run(asked)
    assert (verdict.units, asked.asked) == (2, ["PUT /a", "PUT /b"])
    assert asked.queries[0] == {"wait_for_active_shards": "all"}
    assert ledger.acknowledged == {"c": 7}
    assert ledger.emptied == {"a", "b"}


async def test_settings_of_the_operation_win_over_those_of_the_index() -> None:
    asked = session(ACKNOWLEDGED)
    params = {"index": "a", "settings": {"number_of_shards": 3, "refresh_interval": "-1"}}
    await script("create-index", params, indices=TWO).run(asked)
    assert asked.bodies[0]["settings"] == {"number_of_shards": 3, "refresh_interval": "-1"}
    assert TWO[0].body["settings"] == {"number_of_shards": 1}


async def test_an_index_of_the_operations_own_is_created() -> None:
    asked = session(ACKNOWLEDGED)
    params = {"index": "own", "body": {"mappings": {"properties": {}}}}
    await script("create-index", params, dialect=ES5).run(asked)
    assert (asked.asked, asked.bodies) == (["PUT /own"], [{"mappings": {"doc": {"properties": {}, **MARK}}}])


async def test_an_index_that_exists_already_is_a_failure() -> None:
    with pytest.raises(RequestFailed) as caught:
        await script("create-index").run(session((400, EXISTS)))
    assert caught.value.kind == "HTTP 400 resource_already_exists_exception"
    assert caught.value.detail == "index [orders/x] already exists"


def test_an_index_that_the_track_lacks_is_told() -> None:
    assert failure("create-index", {"index": "ordres"}) == (
        'task "t": the track has no index "ordres" (did you mean "orders"? known: orders)'
    )
    assert failure("create-index", {"body": {}}) == 'task "t": create-index with a "body" needs an "index"'
    assert failure("create-index", {}, indices=[]) == (
        'task "t": the track has no index to create (give the operation "index" and "body")'
    )
    assert failure("delete-index", {}, indices=[]) == (
        'task "t": the track has no index to delete (give the operation an "index")'
    )


# delete-index


async def test_a_missing_index_is_as_good_as_a_deleted_one() -> None:
    ledger = Ledger({"orders": 5})
    asked = session((404, NO_INDEX))
    assert (await script("delete-index", ledger=ledger).run(asked)).error is None
    assert asked.asked == ["DELETE /orders"]
    assert ledger.acknowledged == {}
    with pytest.raises(RequestFailed, match="HTTP 404 index_not_found_exception"):
        await script("delete-index", {"only-if-exists": "false"}).run(session((404, NO_INDEX)))


@pytest.mark.parametrize(
    ("index", "asked"),
    [("a", ["DELETE /a"]), (["a", "b"], ["DELETE /a", "DELETE /b"]), ("a,b", ["DELETE /a", "DELETE /b"])],
)
async def test_named_indices_are_deleted(index: Any, asked: list[str]) -> None:
    told = session(ACKNOWLEDGED)
    assert (await script("delete-index", {"index": index}).run(told)).units == len(asked)
    assert told.asked == asked


async def test_of_a_pattern_each_index_is_deleted_by_its_name() -> None:
    """A cluster from 8.0 on deletes nothing by a pattern; indices of data streams can only go with them."""
    ledger = Ledger({"b-1": 5, "c": 7})
    told = session('{"b-1":{"aliases":{}},"b-2":{"aliases":{}},".ds-b-000001":{"aliases":{}}}', ACKNOWLEDGED)
    verdict = await script("delete-index", {"index": "b-*"}, ledger=ledger).run(told)
    assert verdict.error is None
    assert told.asked == ["GET /b-*/_settings/index.uuid", "DELETE /b-1", "DELETE /b-2"]
    assert ledger.acknowledged == {"c": 7}


async def test_a_pattern_that_matches_nothing_is_as_good_as_deleted() -> None:
    told = session("{}")
    assert (await script("delete-index", {"index": "b-*"}).run(told)).error is None
    assert told.asked == ["GET /b-*/_settings/index.uuid"]


# refresh and force-merge

SHARDS = '{"_shards":{"total":2,"successful":2,"failed":0}}'
FAILED_SHARD = (
    '{"_shards":{"total":2,"successful":1,"failed":1,"failures":[{"shard":0,"index":"a","status":"INTERNAL_SERVER_'
    'ERROR","reason":{"type":"flush_failed_engine_exception","reason":"disk full"}}]}}'
)


async def test_refreshes_and_merges_go_to_the_tracks_indices() -> None:
    asked = session(SHARDS)
    assert await script("refresh", indices=TWO).run(asked) == GOOD
    assert await script("force-merge", {"max-num-segments": -1}, indices=TWO).run(asked) == GOOD
    assert await script("refresh", {"index": ["x", "y"]}, indices=TWO).run(asked) == GOOD
    assert await script("force-merge", indices=[]).run(asked) == GOOD
    assert asked.asked == [
        "POST /a,b/_refresh",
        "POST /a,b/_forcemerge",
        "POST /x,y/_refresh",
        "POST /_all/_forcemerge",
    ]
    assert asked.queries[1] == {"max_num_segments": -1}


async def test_a_shard_that_failed_is_a_failure() -> None:
    for kind in ("refresh", "force-merge"):
        verdict = await script(kind).run(session(FAILED_SHARD))
        assert (verdict.error, verdict.example) == ("shard failures", "1 of 2 shards failed: disk full")


POLLING = {"mode": "polling", "poll-period": "1ms", "max-num-segments": 1}


async def test_a_merge_is_polled_until_it_is_done() -> None:
    running = '{"completed":false,"task":{"node":"n","id":7,"action":"indices:admin/forcemerge"}}'
    done = '{"completed":true,"task":{"id":7},"response":{"_shards":{"total":2,"successful":2,"failed":0}}}'
    asked = session('{"task":"n:7"}', running, running, done)
    assert await script("force-merge", POLLING, dialect=ES8).run(asked) == GOOD
    assert asked.asked == ["POST /orders/_forcemerge", *["GET /_tasks/n:7"] * 3]
    assert asked.queries[0] == {"max_num_segments": 1, "wait_for_completion": "false"}


async def test_a_polled_merge_that_failed_is_a_failure() -> None:
    failed = '{"completed":true,"error":{"type":"illegal_state_exception","reason":"disk full"}}'
    with pytest.raises(RequestFailed, match="force-merge failed: disk full"):
        await script("force-merge", POLLING, dialect=ES8).run(session('{"task":"n:7"}', failed))
    shard_failed = '{"completed":true,"response":' + FAILED_SHARD + "}"
    verdict = await script("force-merge", POLLING, dialect=ES8).run(session('{"task":"n:7"}', shard_failed))
    assert (verdict.error, verdict.example) == ("shard failures", "1 of 2 shards failed: disk full")


@pytest.mark.parametrize("dialect", [ES5, ES6, Dialect("elasticsearch", (8, 0)), Dialect("opensearch", (2, 6))])
async def test_a_version_that_cannot_merge_in_the_background_is_asked_and_waited_for(dialect: Dialect) -> None:
    asked = session(SHARDS)
    assert await script("force-merge", POLLING, dialect=dialect).run(asked) == GOOD
    assert (asked.asked, asked.queries) == (["POST /orders/_forcemerge"], [{"max_num_segments": 1}])


async def test_where_a_merge_cannot_be_in_the_background_its_end_is_waited_for_beyond_the_timeout() -> None:
    timed_out = RequestFailed("timeout", "no reply within 60 s")
    asked = session(timed_out, '{"nodes":{"n":{"tasks":{"n:7":{}}}}}', '{"nodes":{}}')
    assert await script("force-merge", POLLING, dialect=ES6).run(asked) == GOOD
    assert asked.asked == ["POST /orders/_forcemerge", *["GET /_tasks"] * 2]
    assert asked.queries[2] == {"actions": "indices:admin/forcemerge"}
    for params, failed in ((POLLING, RequestFailed("HTTP 503", "x")), ({}, timed_out)):
        with pytest.raises(RequestFailed):
            await script("force-merge", params, dialect=ES6).run(session(failed))


async def test_a_merge_in_the_background_without_a_task_is_told() -> None:
    with pytest.raises(RequestFailed, match="use mode blocking"):
        await script("force-merge", POLLING, dialect=ES8).run(session(SHARDS))


# index-stats

STATS = '{"_shards":{"total":2},"_all":{"primaries":{},"total":{"merges":{"current":%d},"x":{"on":true}}}}'
CONDITION = {"path": "_all.total.merges.current", "expected-value": 0}


async def test_statistics_are_asked_once_without_a_condition() -> None:
    asked = session(STATS % 3)
    assert await script("index-stats").run(asked) == GOOD
    assert await script("index-stats", {"index": ["a", "b"]}).run(asked) == GOOD
    assert asked.asked == ["GET /_all/_stats", "GET /a,b/_stats"]


async def test_a_condition_is_waited_for() -> None:
    params = {"condition": CONDITION, "retry-until-success": True, "retry-wait-period": 0}
    asked = session(STATS % 2, STATS % 1, STATS % 0)
    assert await script("index-stats", params).run(asked) == GOOD
    assert len(asked.asked) == 3


async def test_a_condition_that_does_not_hold_says_what_holds() -> None:
    verdict = await script("index-stats", {"condition": CONDITION}).run(session(STATS % 2))
    assert (verdict.error, verdict.example) == ("condition not met", "_all.total.merges.current is 2, not 0")
    missing = {"path": "_all.total.nothing.here", "expected-value": 0}
    verdict = await script("index-stats", {"condition": missing}).run(session(STATS % 2))
    assert verdict.example == "_all.total.nothing.here is None, not 0"


async def test_nothing_merges_where_there_is_no_index() -> None:
    nothing = '{"_shards":{"total":0},"_all":{"primaries":{},"total":{}},"indices":{}}'
    assert await script("index-stats", {"condition": CONDITION}).run(session(nothing)) == GOOD


@pytest.mark.parametrize("expected", [True, "True"])
async def test_a_condition_compares_as_text(expected: Any) -> None:
    params = {"condition": {"path": "_all.total.x.on", "expected-value": expected}}
    assert await script("index-stats", params).run(session(STATS % 0)) == GOOD


def test_a_condition_has_a_path_and_a_value() -> None:
    assert failure("index-stats", {"condition": {"path": "a"}}) == (
        'task "t": "condition" needs "path" and "expected-value"'
    )


# assert-count


def counting(count: int) -> FakeSession:
    return session(SHARDS, f'{{"count":{count},"_shards":{{"total":1,"successful":1,"skipped":0,"failed":0}}}}')


async def test_what_was_acknowledged_is_what_is_expected() -> None:
    before = Ledger({"orders": 1000, "others": 7})
    asked = counting(1000)
    assert await script("assert-count", before=before).run(asked) == GOOD
    assert asked.asked == ["POST /orders/_refresh", "GET /orders/_count"]
    verdict = await script("assert-count", {"expected": "acknowledged"}, before=before).run(counting(1001))
    assert verdict.error == "wrong count"
    assert verdict.example == 'index "orders" holds 1,001 documents, 1,000 were expected'


@pytest.mark.parametrize(
    ("params", "count"),
    [
        ({"expected": 5}, 5),
        ({"expected": "5"}, 5),
        ({"expected": 0}, 0),
        ({"index": "log-*"}, 11),
        ({"index": "orders,log-1"}, 1001),
        ({"index": "never-written"}, 0),
    ],
)
async def test_other_counts_are_expected_where_they_are_asked_for(params: dict[str, Any], count: int) -> None:
    before = Ledger({"orders": 1000, "log-1": 1, "log-2": 10})
    assert await script("assert-count", params, before=before).run(counting(count)) == GOOD
    assert (await script("assert-count", params, before=before).run(counting(count + 1))).error == "wrong count"


# cluster-health


def health(status: str, relocating: int = 0, **more: Any) -> str:
    reply = {
        "cluster_name": "c",
        "status": status,
        "timed_out": False,
        "number_of_nodes": 1,
        "active_primary_shards": 5,
        "relocating_shards": relocating,
        "initializing_shards": 0,
        "unassigned_shards": 2,
    }
    return json.dumps({**reply, **more})


@pytest.mark.parametrize(
    ("wanted", "reply", "good"),
    [
        ({"wait_for_status": "green"}, health("green"), True),
        ({"wait_for_status": "green"}, health("yellow"), False),
        ({"wait_for_status": "yellow"}, health("green"), True),
        ({"wait_for_status": "GREEN"}, health("yellow"), False),
        ({}, health("red"), True),
        ({"wait_for_no_relocating_shards": "true"}, health("green", 1), False),
        ({"wait_for_no_relocating_shards": True}, health("green", 0), True),
        ({"wait_for_no_relocating_shards": "false"}, health("green", 1), True),
    ],
)
async def test_health_is_what_was_asked_for(wanted: dict[str, Any], reply: str, good: bool) -> None:
    asked = session(reply)
    verdict = await script("cluster-health", {"request-params": wanted, "index": "orders"}).run(asked)
    assert (verdict.error is None) is good
    assert asked.asked == ["GET /_cluster/health/orders"]
    assert asked.queries == [wanted]


async def test_a_cluster_that_is_not_healthy_in_time_says_how_it_is() -> None:
    asked = session((408, health("yellow", timed_out=True)))
    verdict = await script("cluster-health", {"request-params": {"wait_for_status": "green"}}).run(asked)
    assert verdict.error == "cluster not healthy"
    assert verdict.example == "the cluster is yellow (wanted: green), 2 shards are unassigned, 0 relocating"
    assert asked.asked == ["GET /_cluster/health"]


class Clock:
    """A clock that moves on by a step with each look."""

    def __init__(self, step_s: float) -> None:
        self.now_s = 0.0
        self._step_s = step_s

    def __call__(self) -> float:
        self.now_s += self._step_s
        return self.now_s


async def test_a_cluster_that_assigns_nothing_is_not_waited_for_for_ever() -> None:
    stuck = Health("/_cluster/health", {"wait_for_status": "green"}, Clock(6.0))
    asked = session(health("yellow", number_of_data_nodes=1))
    assert (await stuck.run(asked)).error == "cluster not healthy"
    with pytest.raises(RequestFailed, match="2 shards are unassigned, none is being assigned, and there are 1 data"):
        for _ in range(3):
            await stuck.run(asked)


async def test_an_index_that_is_not_there_is_not_waited_for_for_ever() -> None:
    missing = Health("/_cluster/health/mine", {"wait_for_status": "green"}, Clock(6.0))
    asked = session((408, health("red", timed_out=True, unassigned_shards=0, active_shards=0)))
    assert (await missing.run(asked)).error == "cluster not healthy"
    with pytest.raises(RequestFailed, match="0 shards are unassigned, and none is there: no index is named so"):
        for _ in range(3):
            await missing.run(asked)


@pytest.mark.parametrize("at_work", ["initializing_shards", "delayed_unassigned_shards", "number_of_pending_tasks"])
async def test_a_cluster_at_work_is_waited_for(at_work: str) -> None:
    busy = Health("/_cluster/health", {"wait_for_status": "green"}, Clock(60.0))
    asked = session(health("yellow", **{at_work: 1}))
    for _ in range(5):
        assert (await busy.run(asked)).error == "cluster not healthy"
