"""What replies of each server generation are worth."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from esbench.measure.verdict import GOOD, REFUSED, Details, Verdict
from esbench.operations.replies import (
    CREATED,
    UPDATED,
    http_failure,
    judge_bulk,
    judge_deleted,
    judge_found,
    judge_get,
    judge_indexed,
    judge_plain,
    judge_raw_bulk,
    judge_search,
    judge_shards,
)

# Replies as the servers write them: 5.6, 6.8, 7.17, 8.15 and OpenSearch 1.3.
FOUND = {
    "5.6": '{"_index":"orders","_type":"doc","_id":"1","_version":1,"found":true,"_source":{"n":1}}',
    "7.17": '{"_index":"orders","_type":"_doc","_id":"1","_version":1,"_seq_no":0,"_primary_term":1,"found":true,'
    '"_source":{"n":1}}',
    "8.15": '{"_index":"orders","_id":"1","_version":1,"_seq_no":0,"_primary_term":1,"_routing":"u1","found":true,'
    '"_source":{"n":1}}',
}
MISSING = {
    "5.6": '{"_index":"orders","_type":"doc","_id":"7","found":false}',
    "8.15": '{"_index":"orders","_id":"7","found":false}',
}
NO_INDEX = (
    '{"error":{"root_cause":[{"type":"index_not_found_exception","reason":"no such index [ordres]",'
    '"resource.type":"index_or_alias","resource.id":"ordres","index_uuid":"_na_","index":"ordres"}],'
    '"type":"index_not_found_exception","reason":"no such index [ordres]","index":"ordres"},"status":404}'
)


@pytest.mark.parametrize("version", FOUND)
@pytest.mark.parametrize("judge", [judge_found, judge_get])
def test_a_document_that_is_there_is_good(version: str, judge: Callable[..., Verdict]) -> None:
    assert judge(200, FOUND[version].encode(), None) == GOOD


@pytest.mark.parametrize("version", MISSING)
def test_a_missing_document_is_a_failure_where_it_must_be_found(version: str) -> None:
    verdict = judge_found(404, MISSING[version].encode(), None)
    assert (verdict.units, verdict.error, verdict.example) == (0, "not found", MISSING[version])
    assert judge_get(404, MISSING[version].encode(), None) == GOOD


@pytest.mark.parametrize("judge", [judge_found, judge_get, judge_deleted, judge_search, judge_indexed])
def test_a_missing_index_is_a_failure_everywhere(judge: Callable[..., Verdict]) -> None:
    verdict = judge(404, NO_INDEX.encode(), None)
    assert verdict == Verdict(0, "HTTP 404 index_not_found_exception", "no such index [ordres]")


def test_a_document_that_says_found_in_its_source_is_not_found_by_it() -> None:
    body = b'{"_index":"i","_id":"7","found":false,"x":"\\"found\\":true"}'
    assert judge_found(404, body, None).error == "not found"


SEARCH = {
    "5.6": '{"took":3,"timed_out":false,"_shards":{"total":5,"successful":5,"skipped":0,"failed":0},"hits":{"total":2,'
    '"max_score":1.0,"hits":[{"_index":"orders","_type":"doc","_id":"1","_score":1.0,"_source":{"n":1}}]}}',
    "5.0": '{"took":3,"timed_out":false,"_shards":{"total":5,"successful":5,"failed":0},"hits":{"total":0,'
    '"max_score":null,"hits":[]}}',
    "7.17": '{"took":3,"timed_out":false,"_shards":{"total":5,"successful":5,"skipped":0,"failed":0},"hits":{"total":'
    '{"value":2,"relation":"eq"},"max_score":1.0,"hits":[]}}',
    "scroll": '{"_scroll_id":"' + "FGluY2x1ZGVf" * 80 + '","took":3,"timed_out":false,"_shards":{"total":5,'
    '"successful":5,"skipped":0,"failed":0},"hits":{"hits":[]}}',
    "filtered": '{"took":3,"hits":{"total":{"value":2}}}',
}


@pytest.mark.parametrize("version", SEARCH)
def test_a_search_over_all_shards_in_time_is_good(version: str) -> None:
    assert judge_search(200, SEARCH[version].encode(), None) == GOOD


class Unread(bytes):
    """A reply that is not to be decoded."""

    def decode(self, *arguments: object) -> str:
        raise AssertionError("a reply was decoded")


@pytest.mark.parametrize("key", ["_scroll_id", "pit_id"])
@pytest.mark.parametrize("length", [1, 290, 300, 320, 340, 396, 400, 600, 50_000])
def test_a_page_is_judged_without_decoding_it_however_long_its_id(key: str, length: int) -> None:
    rest = SEARCH["7.17"].removeprefix("{")
    page = Unread(f'{{"{key}":"{"x" * length}",{rest}'.encode())
    assert judge_search(200, page, None) == GOOD
    for good, bad, error in (
        ('"failed":0', '"failed":1', "shard failures"),
        ('"timed_out":false', '"timed_out":true', "search timed out"),
    ):
        body = page.replace(good.encode(), bad.encode())
        assert judge_search(200, body, None).error == error


def test_what_stands_at_the_place_of_a_count_that_is_not_there_is_not_read() -> None:
    body = '{"took":0,"timed_out":false,"hits":{"hits":[]}}'
    assert judge_search(200, body.encode(), None) == GOOD
    assert judge_search(200, (body + "x").encode(), None).error == "bad response"


def test_a_search_that_timed_out_is_a_failure() -> None:
    body = SEARCH["7.17"].replace('"timed_out":false', '"timed_out":true')
    assert judge_search(200, body.encode(), None).error == "search timed out"


def test_a_search_that_lost_shards_is_a_failure_with_its_reason() -> None:
    body = (
        '{"took":8,"timed_out":false,"_shards":{"total":5,"successful":3,"skipped":0,"failed":2,"failures":[{"shard":0,'
        '"index":"orders","node":"hTlBu","reason":{"type":"query_shard_exception","reason":"failed to create query",'
        '"index_uuid":"x","index":"orders","caused_by":{"type":"number_format_exception",'
        '"reason":"For input string: \\"a\\""}}}]},"hits":{"total":{"value":0,"relation":"eq"},"hits":[]}}'
    )
    verdict = judge_search(200, body.encode(), None)
    assert verdict.error == "shard failures"
    assert verdict.example == '2 of 5 shards failed: failed to create query: For input string: "a"'


def test_a_search_reply_that_is_no_json_is_a_failure() -> None:
    assert judge_search(200, b"<html>504</html>", None).error == "bad response"


BULK_GOOD = {
    "5.6": '{"took":30,"errors":false,"items":[{"index":{"_index":"orders","_type":"doc","_id":"1","_version":1,'
    '"result":"created","_shards":{"total":1,"successful":1,"failed":0},"created":true,"status":201}}]}',
    "8.15": '{"errors":false,"took":30,"items":[{"index":{"_index":"orders","_id":"1","_version":1,"result":"created",'
    '"_shards":{"total":1,"successful":1,"failed":0},"_seq_no":0,"_primary_term":1,"status":201}}]}',
    "pipeline": '{"took":30,"ingest_took":12,"errors":false,"items":[]}',
}


@pytest.mark.parametrize("version", BULK_GOOD)
def test_a_bulk_without_errors_acknowledges_its_documents(version: str) -> None:
    assert judge_bulk(200, BULK_GOOD[version].encode(), 500) == Verdict(500)


def bulk_errors(*items: str) -> bytes:
    return ('{"took":30,"errors":true,"items":[' + ",".join(items) + "]}").encode()


OK_ITEM = '{"index":{"_index":"orders","_id":"1","status":201}}'
REJECTED = (
    '{"index":{"_index":"orders","_id":"2","status":429,"error":{"type":"es_rejected_execution_exception",'
    '"reason":"rejected execution of coordinating operation"}}}'
)
MAPPING = (
    '{"index":{"_index":"orders","_id":"3","status":400,"error":{"type":"mapper_parsing_exception",'
    '"reason":"failed to parse field [amount] of type [double]","caused_by":{"type":"number_format_exception",'
    '"reason":"For input string: \\"x\\""}}}}'
)


def test_a_bulk_with_errors_acknowledges_the_rest() -> None:
    verdict = judge_bulk(200, bulk_errors(OK_ITEM, REJECTED, OK_ITEM, MAPPING, REJECTED), 5)
    assert verdict.units == 2
    assert verdict.error == "bulk item 429 es_rejected_execution_exception"
    assert verdict.example == "3 of 5 documents: rejected execution of coordinating operation"


def test_a_bulk_item_tells_its_cause() -> None:
    verdict = judge_bulk(200, bulk_errors(MAPPING), 1)
    assert verdict.example == '1 of 1 documents: failed to parse field [amount] of type [double]: For input string: "x"'


def test_an_old_bulk_item_error_is_text() -> None:
    item = '{"create":{"_index":"orders","_id":"2","status":409,"error":"DocumentAlreadyExistsException[exists]"}}'
    verdict = judge_bulk(200, bulk_errors(item, OK_ITEM), 2)
    assert (verdict.units, verdict.error) == (1, "bulk item 409 DocumentAlreadyExistsException")


def test_errors_that_no_item_has_are_none() -> None:
    assert judge_bulk(200, bulk_errors(OK_ITEM), 1) == Verdict(1)
    assert judge_raw_bulk(200, bulk_errors(OK_ITEM), None) == GOOD


@pytest.mark.parametrize("version", BULK_GOOD)
def test_a_raw_bulk_without_errors_is_good(version: str) -> None:
    assert judge_raw_bulk(200, BULK_GOOD[version].encode(), None) == GOOD


def test_a_raw_bulk_with_refused_documents_fails_as_a_bulk_does() -> None:
    body = bulk_errors(OK_ITEM, REJECTED, OK_ITEM, MAPPING, REJECTED)
    verdict = judge_raw_bulk(200, body, None)
    assert verdict == replace(judge_bulk(200, body, 5), units=0)
    assert verdict.example == "3 of 5 documents: rejected execution of coordinating operation"


def test_a_raw_bulk_may_leave_out_what_it_was_not_asked_for() -> None:
    assert judge_raw_bulk(200, b'{"took":30}', None) == GOOD
    assert judge_raw_bulk(200, b"", None) == GOOD
    assert judge_raw_bulk(200, b'{"errors":true}', None).error == "bad response"
    assert judge_raw_bulk(404, b"", None).error == "HTTP 404"


def test_a_refused_bulk_acknowledges_nothing() -> None:
    body = (
        '{"error":{"root_cause":[{"type":"circuit_breaking_exception","reason":"[parent] Data too large"}],'
        '"type":"circuit_breaking_exception","reason":"[parent] Data too large","durability":"TRANSIENT"},"status":429}'
    )
    assert judge_bulk(429, body.encode(), 500) == Verdict(
        0, "HTTP 429 circuit_breaking_exception", "[parent] Data too large", details=Details({REFUSED: 500})
    )
    assert judge_bulk(200, b"not json", 500).error == "bad response"


def test_created_and_updated_are_told_apart() -> None:
    created = b'{"_index":"orders","_id":"1","_version":1,"result":"created","_shards":{"total":1},"_seq_no":0}'
    assert judge_indexed(201, created, None) is CREATED
    assert judge_indexed(200, created.replace(b"created", b"updated"), None) is UPDATED
    exists = (
        '{"error":{"root_cause":[{"type":"version_conflict_engine_exception","reason":"[1]: version conflict, document'
        ' already exists (current version [1])"}],"type":"version_conflict_engine_exception","reason":"[1]: version '
        'conflict, document already exists (current version [1])"},"status":409}'
    )
    assert judge_indexed(409, exists.encode(), None).error == "HTTP 409 version_conflict_engine_exception"


def test_a_delete_must_find_its_document() -> None:
    assert judge_deleted(200, b'{"_index":"i","_id":"1","_version":2,"result":"deleted"}', None) == GOOD
    for body in (
        b'{"found":false,"_index":"i","_type":"doc","_id":"1","_version":1,"result":"not_found"}',  # 5.x
        b'{"_index":"i","_id":"1","_version":1,"result":"not_found","_shards":{"total":2}}',
    ):
        assert judge_deleted(404, body, None).error == "not found"


@pytest.mark.parametrize("status", [200, 201, 204, 299])
def test_any_2xx_is_good_for_a_plain_request(status: int) -> None:
    assert judge_plain(status, b"", None) == GOOD


@pytest.mark.parametrize("status", [199, 301, 400, 404, 500])
def test_anything_else_is_not(status: int) -> None:
    assert judge_plain(status, b"oops", None) == Verdict(0, f"HTTP {status}", "oops")


def test_a_failure_says_what_the_cause_of_its_first_shard_was_caused_by() -> None:
    root = {"type": "query_shard_exception", "reason": "the script could not be loaded"}
    shard = {**root, "caused_by": {"reason": "compile error", "caused_by": {"reason": "no language [lua]"}}}
    error = {"root_cause": [root], "reason": "all shards failed", "failed_shards": [{"shard": 0, "reason": shard}]}
    verdict = http_failure(400, json.dumps({"error": error}).encode())
    assert verdict.example == "all shards failed: the script could not be loaded: no language [lua]"


def test_a_failure_names_its_root_cause() -> None:
    body = {
        "error": {
            "root_cause": [{"type": "parse_exception", "reason": "failed to parse date field [x]"}],
            "type": "search_phase_execution_exception",
            "reason": "all shards failed",
            "phase": "query",
        },
        "status": 400,
    }
    verdict = http_failure(400, json.dumps(body).encode())
    assert verdict.error == "HTTP 400 search_phase_execution_exception"
    assert verdict.example == "all shards failed: failed to parse date field [x]"


@pytest.mark.parametrize(
    ("status", "body", "kind", "example"),
    [
        (503, b"", "HTTP 503", ""),
        (413, b"<html>413 Request Entity Too Large</html>", "HTTP 413", "<html>413 Request Entity Too Large</html>"),
        (404, b'{"error":"alias [x] missing","status":404}', "HTTP 404", "alias [x] missing"),
        (500, b'["strange"]', "HTTP 500", '["strange"]'),
        (500, b'{"error":{"type":"null_pointer_exception","reason":null}}', "HTTP 500 null_pointer_exception", None),
        (502, b"\xff\xfe", "HTTP 502", "��"),
        (
            401,
            b'{"error":{"root_cause":[],"type":"security_exception","reason":"missing authentication credentials"}}',
            "HTTP 401 security_exception",
            "missing authentication credentials",
        ),
    ],
)
def test_failures_of_all_forms_have_a_kind_and_an_example(
    status: int, body: bytes, kind: str, example: str | None
) -> None:
    verdict = http_failure(status, body)
    assert verdict.error == kind
    assert verdict.example == (body.decode() if example is None else example)


def test_examples_are_short() -> None:
    assert len(http_failure(500, b"x" * 10_000).example) == 2_000


def test_shards_that_failed_are_a_failure_of_refreshes_too() -> None:
    assert judge_shards({"_shards": {"total": 2, "successful": 2, "failed": 0}}) == GOOD
    assert judge_shards(None) == judge_shards({}) == GOOD
    verdict = judge_shards({"_shards": {"total": 2, "successful": 1, "failed": 1}})
    assert (verdict.error, verdict.example) == ("shard failures", "1 of 2 shards failed")


def test_errors_of_the_connection_are_told_from_others() -> None:
    assert Verdict(0, "connection lost").error_is_of_connection
    assert Verdict(0, "connection refused").error_is_of_connection
    assert not Verdict(0, "timeout").error_is_of_connection
    assert not GOOD.error_is_of_connection


# what no server should answer

STRANGE = [
    "",
    "null",
    "0",
    "[]",
    "{}",
    '"text"',
    "[" * 100_000,
    '{"error":[]}',
    '{"error":["x"]}',
    '{"error":{"root_cause":"x"}}',
    '{"error":{"root_cause":{"reason":"x"}}}',
    '{"error":{"root_cause":[null],"type":{"a":1},"reason":["x"]}}',
    '{"error":{"caused_by":"x","type":7}}',
    '{"found":"maybe"}',
    '{"_shards":5}',
    '{"_shards":null}',
    '{"_shards":{"failed":"x","failures":"y"}}',
    '{"_shards":{"failed":1,"failures":[null]}}',
    '{"_shards":{"failed":1,"failures":[{"reason":7}]}}',
    '{"errors":true}',
    '{"errors":true,"items":{}}',
    '{"errors":true,"items":[1,{},{"index":2},{"index":{"error":null}},{"index":{"error":[1],"status":"x"}}]}',
]


@pytest.mark.parametrize("body", STRANGE, ids=[text[:40] for text in STRANGE])
@pytest.mark.parametrize("status", [200, 201, 404, 500])
def test_no_reply_is_too_strange_to_be_judged(status: int, body: str) -> None:
    for judge in (judge_plain, judge_found, judge_get, judge_search, judge_indexed, judge_deleted):
        verdict = judge(status, body.encode(), None)
        assert (verdict.error is None) or verdict.error.isprintable()
    assert judge_bulk(status, body.encode(), 5).units == (1 if '"error":null' in body and status == 200 else 0)


@pytest.mark.parametrize(
    ("body", "units"),
    [
        ("{}", 0),  # a proxy's
        ('{"took":3,"errors":true}', 0),
        (bulk_errors(OK_ITEM, OK_ITEM).decode(), 2),
        (bulk_errors(OK_ITEM, OK_ITEM, OK_ITEM, OK_ITEM).decode(), 3),
    ],
)
def test_a_bulk_reply_that_does_not_account_for_each_document_is_none(body: str, units: int) -> None:
    verdict = judge_bulk(200, body.encode(), 3)
    assert (verdict.error, verdict.units) == ("bad response", units)


def test_a_bulk_without_errors_is_told_wherever_it_says_so() -> None:
    body = '{"took":3,' + '"ingest":"x",' * 30 + '"errors":false,"items":[]}'
    assert judge_bulk(200, body.encode(), 7) == Verdict(7)


def test_kinds_of_failures_are_few_however_much_a_server_says() -> None:
    """Old servers wrote the document's id into the error, some proxies write whole sentences into its type."""
    item = '{"index":{"_id":"2","status":409,"error":"VersionConflict[[orders][doc][%d]: version conflict]"}}'
    kinds = {judge_bulk(200, bulk_errors(item % number), 1).error for number in range(3)}
    assert kinds == {"bulk item 409 VersionConflict"}
    error = '{"error":{"type":"rate limit of client %d","reason":"x"}}'
    assert {http_failure(429, (error % number).encode()).error for number in range(3)} == {"HTTP 429 rate"}


def test_a_search_of_remote_clusters_is_judged_by_its_own_shards() -> None:
    body = (
        '{"took":8,"timed_out":false,"num_reduce_phases":3,"_shards":{"total":2,"successful":1,"skipped":0,"failed":1},'
        '"_clusters":{"total":2,"successful":2,"skipped":0,"running":0,"partial":0,"failed":0},"hits":{"hits":[]}}'
    )
    assert judge_search(200, body.encode(), None).error == "shard failures"
