"""What the replies to bulks tell: results of documents, and what is sent again."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compiled import HEADERS, compiled, context
from corpora import from_file, lines

from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.measure.verdict import Details, Verdict
from esbench.operations.replies import bulk_details, created_by_index, judge_unrefused
from esbench.requests.exchange import ClientProgram, Script
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program

SHARDS = '"_shards":{"total":2,"successful":1,"failed":0}'
ITEMS = {  # as servers write them: 5.6, 7.17, and a data stream of 8.15
    "5.6": '{"index":{"_index":"orders","_type":"doc","_id":"%s","_version":1,"result":"%s",' + SHARDS + ","
    '"created":true,"status":201}}',
    "7.17": '{"index":{"_index":"orders","_type":"_doc","_id":"%s","_version":1,"result":"%s",' + SHARDS + ","
    '"_seq_no":5,"_primary_term":1,"status":201}}',
    "8.15": '{"create":{"_index":".ds-logs-app-2026.11.21-000001","_id":"%s","_version":1,"result":"%s",' + SHARDS + ","
    '"_seq_no":5,"_primary_term":1,"status":201}}',
}
REFUSED = (
    '{"index":{"_index":"orders","_id":"x","status":429,"error":'
    '{"type":"es_rejected_execution_exception","reason":"rejected execution of coordinating operation"}}}'
)
INVALID = (
    '{"index":{"_index":"orders","_id":"x","status":400,"error":'
    '{"type":"document_parsing_exception","reason":"failed to parse field [n]"}}}'
)
OK = ITEMS["7.17"] % ("1", "created")


def reply(*items: str, took: int = 7) -> bytes:
    errors = str(any('"error"' in item for item in items)).lower()
    return f'{{"took":{took},"errors":{errors},"items":[{",".join(items)}]}}'.encode()


# results


@pytest.mark.parametrize("version", ITEMS)
def test_results_are_counted_apart(version: str) -> None:
    item = ITEMS[version]
    body = reply(item % ("1", "created"), item % ("2", "updated"), item % ("3", "created"), item % ("4", "noop"))
    assert bulk_details(200, body) == Details({"created": 2, "updated": 1, "noop": 1}, took_ms=7)


def test_documents_whose_replica_failed_are_counted() -> None:
    failed = OK.replace('"failed":0', '"failed":1')
    assert bulk_details(200, reply(OK, failed, took=0)) == Details({"created": 2, "with failed shards": 1}, 0)


def test_a_reply_of_another_kind_has_no_details() -> None:
    assert bulk_details(429, b'{"error":"too many"}') == Details()
    assert bulk_details(200, b"welcome") == Details()


def test_created_documents_are_told_by_index() -> None:
    body = reply(
        ITEMS["5.6"] % ("1", "created"),
        ITEMS["7.17"] % ('a\\"},{\\\\', "created"),
        ITEMS["7.17"] % ("2", "updated"),
        ITEMS["8.15"] % ("3", "created"),
        REFUSED,
        OK.replace("orders", "other"),
    )
    json.loads(body)
    assert created_by_index(body) == {"orders": 2, "logs-app": 1, "other": 1}


# what was refused


def test_refused_documents_are_told_from_others() -> None:
    refused, others = judge_unrefused(200, reply(OK, REFUSED, INVALID, REFUSED), 4)
    assert refused == [1, 3]
    assert (others.units, others.error) == (1, "bulk item 400 document_parsing_exception")
    assert judge_unrefused(200, reply(OK, REFUSED), 2) == ([1], Verdict(1))
    assert judge_unrefused(429, b"", 3) == ([0, 1, 2], Verdict(0))


@pytest.mark.parametrize("body", [b"", b"[]", b'{"errors":true}', reply(REFUSED)])
def test_a_reply_that_does_not_account_for_each_document_refuses_nothing(body: bytes) -> None:
    refused, others = judge_unrefused(200, body, 2)
    assert refused == []
    assert others.error == "bad response"


# the operation


@pytest.fixture
def documents(tmp_path: Path) -> PreparedDocuments:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(8)))
    return from_file(tmp_path, "d.json", 8)


def started(program: Program) -> ClientProgram:
    made = program.client(0, HEADERS)
    assert not isinstance(made, Script)
    return made


def made(documents: PreparedDocuments, ledger: Ledger | None = None, compress: bool = False, **params: Any) -> Program:
    spelt = {name if name.endswith("429") else name.replace("_", "-"): value for name, value in params.items()}
    of = context("bulk", {"bulk-size": 4, **spelt}, documents=[documents], ledger=ledger)
    return compiled(replace(of, compress=compress))


def numbers(program: ClientProgram, piece: Any) -> list[int]:
    """Which documents a piece would send now."""
    head, body = program.exchanges[0].render(piece)
    text = gzip.decompress(bytes(body)) if b"gzip" in bytes(head) else bytes(body)
    assert b"Content-Length: %d\r\n" % len(body) in bytes(head)
    return [json.loads(line)["n"] for line in text.splitlines()[1::2]]


def test_details_are_only_read_where_the_track_asks(documents: PreparedDocuments) -> None:
    plain = started(made(documents))
    assert plain.exchanges[0].judge(200, reply(OK, OK, OK, OK), plain.draw()).details is None
    detailed = started(made(documents, detailed_results=True))
    verdict = detailed.exchanges[0].judge(200, reply(OK, OK, OK, REFUSED), detailed.draw())
    assert verdict.details == Details({"created": 3, "refused": 1}, 7)
    assert (verdict.units, verdict.again_after_s) == (3, None)


@pytest.mark.parametrize("compress", [False, True])
def test_only_refused_documents_are_sent_again(documents: PreparedDocuments, compress: bool) -> None:
    ledger = Ledger()
    program = made(documents, ledger, compress, retries_on_429=2, retry_wait_period="20ms")
    client = started(program)
    judge = client.exchanges[0].judge
    piece = client.draw()
    assert numbers(client, piece) == [0, 1, 2, 3]
    first = judge(200, reply(OK, REFUSED, OK, REFUSED), piece)
    assert (first.units, first.again_after_s, first.details) == (2, 0.02, Details({"retried": 2}))
    assert first.error == "bulk item 429 es_rejected_execution_exception"
    assert numbers(client, piece) == [1, 3]
    second = judge(200, reply(REFUSED, OK), piece)
    assert (second.units, second.again_after_s, second.details) == (1, 0.02, Details({"retried": 1}))
    assert numbers(client, piece) == [1]
    assert judge(200, reply(OK), piece) == Verdict(1)
    assert numbers(client, client.draw()) == [4, 5, 6, 7]
    program.close()
    assert ledger.acknowledged == {"orders": 4}


def test_what_is_refused_to_the_end_is_a_failure(documents: PreparedDocuments) -> None:
    client = started(made(documents, retries_on_429=1))
    piece = client.draw()
    judge = client.exchanges[0].judge
    assert judge(429, b"", piece).again_after_s == 0.5
    assert numbers(client, piece) == [0, 1, 2, 3]
    last = judge(200, reply(OK, OK, OK, REFUSED), piece)
    assert (last.units, last.error, last.again_after_s) == (3, "bulk item 429 es_rejected_execution_exception", None)


def test_another_failure_of_a_try_is_not_forgotten(documents: PreparedDocuments) -> None:
    client = started(made(documents, retries_on_429=3))
    piece = client.draw()
    judge = client.exchanges[0].judge
    assert judge(200, reply(OK, INVALID, REFUSED, OK), piece).units == 2
    assert numbers(client, piece) == [2]
    last = judge(200, reply(OK), piece)
    assert (last.units, last.error) == (1, "bulk item 400 document_parsing_exception")


def test_other_failures_are_not_sent_again(documents: PreparedDocuments) -> None:
    client = started(made(documents, retries_on_429=3))
    judge = client.exchanges[0].judge
    assert judge(200, reply(OK, INVALID, OK, OK), client.draw()).again_after_s is None
    assert judge(503, b"", client.draw()).again_after_s is None


@pytest.mark.parametrize("retries", [-1, "1.5", "many"])
def test_retries_are_a_whole_number(documents: PreparedDocuments, retries: Any) -> None:
    with pytest.raises(TrackError, match="retries_on_429"):
        made(documents, retries_on_429=retries)
