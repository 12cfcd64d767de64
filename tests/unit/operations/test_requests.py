"""Administrative operations that are requests known beforehand: method, path, query string and body of each."""

from __future__ import annotations

from typing import Any

import pytest
from compiled import ES5, ES6, ES7, OPENSEARCH, compiled, context, script, session

from esbench.cluster.dialect import Dialect
from esbench.errors import TrackError
from esbench.operations import builtin_operations
from esbench.requests.exchange import RequestFailed

ACKNOWLEDGED = '{"acknowledged":true}'
MISSING = (404, '{"error":{"type":"resource_not_found_exception","reason":"it is not there"},"status":404}')
ES73 = Dialect("elasticsearch", (7, 3))
B: dict[str, Any] = {"b": 1}

REQUESTS: list[tuple[str, dict[str, Any], str, dict[str, Any] | None]] = [
    ("put-settings", {"body": B, "request-params": {"flat_settings": True}}, "PUT /_cluster/settings", B),
    ("put-pipeline", {"id": "my pipe", "body": B}, "PUT /_ingest/pipeline/my%20pipe", B),
    ("delete-pipeline", {"id": "p"}, "DELETE /_ingest/pipeline/p", None),
    ("create-ilm-policy", {"policy-name": "p", "body": B}, "PUT /_ilm/policy/p", B),
    ("delete-ilm-policy", {"policy-name": "p"}, "DELETE /_ilm/policy/p", None),
    ("node-stats", {}, "GET /_nodes/stats", None),
    ("create-snapshot-repository", {"repository": "r", "body": B}, "PUT /_snapshot/r", B),
    ("delete-snapshot-repository", {"repository": "r"}, "DELETE /_snapshot/r", None),
    ("create-transform", {"transform-id": "t", "body": B}, "PUT /_transform/t", B),
    ("start-transform", {"transform-id": "t", "timeout": "1m"}, "POST /_transform/t/_start", None),
    ("stop-transform", {"transform-id": "t"}, "POST /_transform/t/_stop", None),
    ("delete-transform", {"transform-id": "t"}, "DELETE /_transform/t", None),
    ("create-ml-job", {"job-id": "j", "body": B}, "PUT /_ml/anomaly_detectors/j", B),
    ("open-ml-job", {"job-id": "j"}, "POST /_ml/anomaly_detectors/j/_open", None),
    ("close-ml-job", {"job-id": "j", "timeout": "1m"}, "POST /_ml/anomaly_detectors/j/_close", None),
    ("delete-ml-job", {"job-id": "j", "force": True}, "DELETE /_ml/anomaly_detectors/j", None),
    ("create-ml-datafeed", {"datafeed-id": "d", "body": B}, "PUT /_ml/datafeeds/d", B),
    ("start-ml-datafeed", {"datafeed-id": "d", "start": 5, "end": "9"}, "POST /_ml/datafeeds/d/_start", None),
    ("stop-ml-datafeed", {"datafeed-id": "d", "force": "true"}, "POST /_ml/datafeeds/d/_stop", None),
    ("delete-ml-datafeed", {"datafeed-id": "d"}, "DELETE /_ml/datafeeds/d", None),
    ("downsample", {"source-index": "a", "target-index": "b"}, "POST /a/_downsample/b", {"fixed_interval": "1h"}),
    ("downsample", {"index": "a", "fixed-interval": "1d"}, "POST /a/_downsample/a-1d", {"fixed_interval": "1d"}),
]
QUERIES: dict[str, dict[str, Any]] = {
    "put-settings": {"flat_settings": True},
    "start-transform": {"timeout": "1m"},
    "stop-transform": {"force": False, "wait_for_completion": True, "wait_for_checkpoint": False},
    "close-ml-job": {"force": False, "timeout": "1m"},
    "delete-ml-job": {"force": True},
    "stop-ml-datafeed": {"force": True},
    "delete-ml-datafeed": {"force": False},
}


@pytest.mark.parametrize(("kind", "params", "request_line", "body"), REQUESTS, ids=[row[0] for row in REQUESTS])
async def test_the_request(kind: str, params: dict[str, Any], request_line: str, body: Any) -> None:
    told = session(ACKNOWLEDGED)
    verdict = await script(kind, params).run(told)
    assert (verdict.units, verdict.error) == (1, None)
    assert told.asked == [request_line]
    assert told.bodies == [{"start": 5, "end": "9"} if kind == "start-ml-datafeed" else body]
    assert told.queries == [QUERIES.get(kind, {})]


@pytest.mark.parametrize("kind", [row[0] for row in REQUESTS if row[0].startswith("delete-")])
async def test_what_is_missing_already_is_as_good_as_deleted(kind: str) -> None:
    params = next(row[1] for row in REQUESTS if row[0] == kind)
    assert (await script(kind, params).run(session(MISSING))).error is None
    with pytest.raises(RequestFailed, match="HTTP 404 resource_not_found_exception"):
        await script(kind, {**params, "only-if-exists": False}).run(session(MISSING))


@pytest.mark.parametrize("kind", [row[0] for row in REQUESTS])
async def test_an_overloaded_server_is_asked_again_as_often_as_the_track_says(kind: str) -> None:
    params = {**next(row[1] for row in REQUESTS if row[0] == kind), "retry-wait-period": 0}
    told = session((503, "{}"), (503, "{}"), ACKNOWLEDGED)
    assert (await script(kind, {**params, "retries": 2}).run(told)).error is None
    assert len(told.asked) == 3
    with pytest.raises(RequestFailed, match="HTTP 503"):
        await script(kind, params).run(session((503, "{}"), ACKNOWLEDGED))


@pytest.mark.parametrize(
    ("kind", "params", "dialect", "request_line"),
    [
        ("create-transform", {"transform-id": "t", "body": B}, ES73, "PUT /_data_frame/transforms/t"),
        ("delete-transform", {"transform-id": "t"}, ES73, "DELETE /_data_frame/transforms/t"),
        ("open-ml-job", {"job-id": "j"}, ES6, "POST /_xpack/ml/anomaly_detectors/j/_open"),
        ("delete-ml-datafeed", {"datafeed-id": "d"}, ES5, "DELETE /_xpack/ml/datafeeds/d"),
    ],
)
async def test_an_older_version_has_it_elsewhere(
    kind: str, params: dict[str, Any], dialect: Dialect, request_line: str
) -> None:
    told = session(ACKNOWLEDGED)
    await script(kind, params, dialect=dialect).run(told)
    assert told.asked == [request_line]


async def test_an_older_version_is_not_asked_with_what_it_does_not_know() -> None:
    told = session(ACKNOWLEDGED)
    await script("stop-transform", {"transform-id": "t"}, dialect=ES73).run(told)
    assert told.queries == [{"wait_for_completion": True}]


@pytest.mark.parametrize(
    ("kind", "dialect", "expected"),
    [
        ("create-transform", ES6, "Elasticsearch 6.8 has no transforms (that needs Elasticsearch 7.2 or later;"),
        ("create-transform", OPENSEARCH, "OpenSearch 1.3 has no transforms (that needs Elasticsearch 7.2 or later;"),
        ("open-ml-job", OPENSEARCH, "OpenSearch 1.3 has no machine learning"),
        ("create-ilm-policy", ES5, "Elasticsearch 5.6 has no lifecycle policies"),
        ("create-ilm-policy", OPENSEARCH, "OpenSearch 1.3 has no lifecycle policies"),
        ("enrich-policy", ES73, "Elasticsearch 7.3 has no enrich policies"),
        ("downsample", ES7, "Elasticsearch 7.17 has no downsampling"),
    ],
)
def test_what_a_version_lacks_is_told_in_one_line(kind: str, dialect: Dialect, expected: str) -> None:
    params = {
        "transform-id": "t",
        "job-id": "j",
        "policy-name": "p",
        "policies": {"p": B},
        "source-index": "a",
        "target-index": "b",
        "body": B,
    }
    with pytest.raises(TrackError) as caught:
        compiled(context(kind, params, dialect=dialect))
    assert str(caught.value).startswith(f'task "t": {expected}')


@pytest.mark.parametrize(
    "reply",
    [
        (400, '{"error":"no handler found for uri [/_ilm/policy/p] and method [PUT]"}'),
        (405, '{"error":"Incorrect HTTP method for uri [/_ilm/policy/p] and method [PUT]","status":405}'),
        (400, '{"error":{"reason":"request [/_ilm/policy/p] contains unrecognized parameter: [force]"}}'),
        (400, '{"error":{"type":"invalid_index_name_exception","reason":"Invalid index name [_ilm]"},"status":400}'),
    ],
)
async def test_what_a_distribution_leaves_out_is_named(reply: tuple[int, str]) -> None:
    created = script("create-ilm-policy", {"policy-name": "p", "body": B, "retry-until-success": True})
    with pytest.raises(RequestFailed) as caught:
        await created.run(session(reply))
    assert caught.value.kind == "not supported"
    assert caught.value.detail.startswith("this Elasticsearch 8.15 has no lifecycle policies: its distribution")


@pytest.mark.parametrize("status", [404, 405])
async def test_a_server_without_data_streams_has_none_to_delete(status: int) -> None:
    reply = (status, '{"error":"Incorrect HTTP method for uri [/_data_stream/a] and method [DELETE]"}')
    params = {"data-stream": "a"}
    assert (await script("delete-data-stream", params).run(session(reply))).error is None
    with pytest.raises(RequestFailed, match=str(status)):
        await script("delete-data-stream", {**params, "only-if-exists": False}).run(session(reply))


async def test_an_enrich_policy_is_made_anew_and_executed() -> None:
    for policies in ({"p": B}, [{"name": "p", "body": B}]):
        told = session(ACKNOWLEDGED)
        await script("enrich-policy", {"policies": policies, "delete": True}).run(told)
        assert told.asked == ["DELETE /_enrich/policy/p", "PUT /_enrich/policy/p", "PUT /_enrich/policy/p/_execute"]
        assert told.bodies == [None, B, None]


@pytest.mark.parametrize("policies", [[{"name": "p"}], ["p"], {"p": 5}])
def test_enrich_policies_have_names_and_bodies(policies: Any) -> None:
    with pytest.raises(TrackError, match='"policies"'):
        builtin_operations().get("enrich-policy").check({"policies": policies}, "")


async def test_a_pause_asks_nothing_and_is_part_of_the_turn() -> None:
    told = session()
    assert (await script("sleep", {"duration": "1ms"}).run(told)).error is None
    assert told.asked == ["pause 0.001"]
    with pytest.raises(TrackError, match='operation type "sleep" needs "duration"'):
        builtin_operations().get("sleep").check({}, "")


def test_administrative_types_are_hidden_from_reports_and_the_others_are_not() -> None:
    operations = builtin_operations()
    shown = ["node-stats", "downsample", "reindex", "wait-for-recovery", "wait-for-snapshot-create"]
    assert not any(operations.get(kind).traits.administrative for kind in shown)
    assert all(operations.get(row[0]).traits.administrative for row in REQUESTS if row[0] not in shown)
    assert all(
        operations.get(kind).traits.administrative
        for kind in ("sleep", "put-settings", "shrink-index", "wait-for-transform")
    )
