"""get, index, delete, read-after-write: the requests that they send, what they enter into the ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from compiled import ES5, ES6, ES7, ES8, ES60, HEADERS, OPENSEARCH, client, compiled, context, judged, request, requests
from corpora import SPEC, bodies_of, from_file, generated

from esbench.cluster.dialect import Dialect
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.features.synthetic.generate.generator import Generator
from esbench.measure.verdict import GOOD
from esbench.model import Index, Variable
from esbench.operations.replies import CREATED
from esbench.requests.exchange import ClientProgram, Script
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program

CREATED_REPLY = b'{"_index":"orders","_id":"1","_version":1,"result":"created","_seq_no":0,"_primary_term":1}'


@pytest.fixture
def documents(tmp_path: Path) -> PreparedDocuments:
    return generated(tmp_path, 100)


@pytest.fixture
def programs() -> Iterator[list[Program]]:
    """What tests put here is closed: feeds have processes of their own."""
    made: list[Program] = []
    yield made
    for program in made:
        program.close()


def first_line(sent: bytes) -> str:
    return sent.partition(b"\r\n")[0].decode().removesuffix(" HTTP/1.1")


def body(sent: bytes) -> bytes:
    return sent.partition(b"\r\n\r\n")[2]


def started(program: Program) -> ClientProgram:
    made = program.client(0, HEADERS)
    assert not isinstance(made, Script)
    return made


# get and delete


@pytest.mark.parametrize(
    ("dialect", "path"),
    [
        (ES5, "/orders/doc/1"),
        (ES60, "/orders/doc/1"),
        (ES6, "/orders/_doc/1"),
        (ES7, "/orders/_doc/1"),
        (ES8, "/orders/_doc/1"),
        (OPENSEARCH, "/orders/_doc/1"),
    ],
)
def test_the_path_of_a_document_is_that_of_the_version(dialect: Dialect, path: str) -> None:
    assert request("get", {"id": 1}, dialect=dialect) == (f"GET {path}", b"")
    assert request("delete", {"id": "1"}, dialect=dialect) == (f"DELETE {path}", b"")


def test_a_get_has_its_routing_and_what_else_it_was_given() -> None:
    assert request("get", {"id": "1", "routing": "u 1", "realtime": False})[0] == (
        "GET /orders/_doc/1?routing=u%201&realtime=false"
    )
    assert request("get", {"id": "1", "routing": "", "realtime": "true"})[0] == "GET /orders/_doc/1"
    assert request("get", {"id": "1", "index": "others"})[0] == "GET /others/_doc/1"


def test_ids_are_encoded_drawn_or_not() -> None:
    assert request("get", {"id": "a/b?c"})[0] == "GET /orders/_doc/a%2Fb%3Fc"
    assert request("delete", {"id": "a b"})[0] == "DELETE /orders/_doc/a%20b"
    variable = Variable("v", "list", {"data": ["a/b?c"]})
    assert request("get", {"id": "$[[v]]"}, variables=[variable])[0] == "GET /orders/_doc/a%2Fb%3Fc"
    assert request("get", {"id": "x $[[v]]"}, variables=[variable])[0] == "GET /orders/_doc/x%20a%2Fb%3Fc"


def test_headers_of_the_operation_are_sent() -> None:
    (sent,) = requests(
        client("get", {"id": "1", "headers": {"X-A": 1}, "opaque-id": "race $[[n]]"}, variables=[NUMBER])
    )
    assert sent.startswith(b"GET /orders/_doc/1 HTTP/1.1\r\nHost: node:9200\r\nX-A: 1\r\nX-Opaque-Id: race 1\r\n")


NUMBER = Variable("n", "sequence")


def test_a_get_that_may_miss_is_judged_so() -> None:
    missing = '{"_index":"orders","_id":"7","found":false}'
    assert judged(client("get", {"id": "7"}), 404, missing).error == "not found"
    assert judged(client("get", {"id": "7", "expect-found": True}), 404, missing).error == "not found"
    assert judged(client("get", {"id": "7", "expect-found": "false"}), 404, missing) == GOOD


def test_deleted_documents_leave_the_ledger() -> None:
    ledger = Ledger()
    program = compiled(context("delete", {"id": "1"}, ledger=ledger))
    made = started(program)
    judged(made, 200, '{"_index":"orders","_id":"1","result":"deleted"}')
    judged(made, 200, '{"_index":"orders","_id":"1","result":"deleted"}')
    judged(made, 404, '{"_index":"orders","_id":"1","result":"not_found"}')
    program.close()
    assert ledger.acknowledged == {"orders": -2}


# index


def test_a_document_with_an_id_is_put_one_without_is_posted() -> None:
    assert request("index", {"id": "7", "body": {"n": 1}}) == ("PUT /orders/_doc/7", b'{"n": 1}')
    assert request("index", {"body": {"n": 1}}) == ("POST /orders/_doc", b'{"n": 1}')
    assert request("index", {"body": {"n": 1}}, dialect=ES5)[0] == "POST /orders/doc"


def test_a_write_has_its_parameters_in_the_query() -> None:
    params = {"id": 7, "body": {}, "op-type": "create", "pipeline": "p", "refresh": "wait_for", "routing": "u"}
    assert request("index", params)[0] == "PUT /orders/_doc/7?pipeline=p&refresh=wait_for&op_type=create&routing=u"
    assert request("index", {"body": {}, "refresh": True})[0] == "POST /orders/_doc?refresh=true"


def test_a_body_with_variables_shares_the_draw_of_its_id() -> None:
    params = {"id": "$[[n]]", "routing": "r$[[n]]", "body": {"n": "$[[n]]", "text": "number $[[n]]"}}
    program = client("index", params, variables=[NUMBER])
    for n in (1, 2):
        (sent,) = requests(program)
        assert first_line(sent) == f"PUT /orders/_doc/{n}?routing=r{n}"
        assert json.loads(body(sent)) == {"n": n, "text": f"number {n}"}


def test_the_operations_own_variable_wins_over_the_tracks() -> None:
    of = context("index", {"body": {"n": "$[[n]]"}}, variables=[NUMBER])
    object.__setattr__(of.task.operation, "variables", (Variable("n", "sequence", {"from": 50}),))
    assert json.loads(body(requests(started(compiled(of)))[0])) == {"n": 50}


def test_new_documents_lie_beyond_all_that_were_loaded(documents: PreparedDocuments, programs: list[Program]) -> None:
    ledger = Ledger()
    programs.append(compiled(context("index", {"corpus": "small"}, documents=[documents], ledger=ledger)))
    made = started(programs[0])
    keys = Generator(SPEC).values(["_id", "_routing"], range(100, 103))
    bodies = bodies_of(Generator(SPEC), 100, 3)
    for (document_id, routing), document in zip(keys, bodies, strict=True):
        (sent,) = requests(made)
        assert first_line(sent) == f"PUT /orders/_doc/{document_id}?routing={routing}"
        assert body(sent) == document
        assert f"Content-Length: {len(document)}\r\n".encode() in sent


def test_new_documents_of_two_workers_and_of_the_next_task_are_others(
    documents: PreparedDocuments, programs: list[Program]
) -> None:
    seen: list[bytes] = []
    ledgers = [Ledger(), Ledger()]
    for stripe, ledger in enumerate(ledgers):
        of = context("index", documents=[documents], stripe=stripe, stripes=2, clients=2, ledger=ledger)
        program = compiled(of)
        seen += [body(requests(started(program))[0]) for _ in range(5 + stripe)]
        program.close()
    (key,) = ledgers[0].next_values
    before = Ledger(next_values={key: max(ledger.next_values[key] for ledger in ledgers)})
    programs.append(compiled(context("index", documents=[documents], before=before)))
    made = started(programs[0])
    seen += [body(requests(made)[0]) for _ in range(5)]
    assert len(set(seen)) == 16
    assert set(seen) <= set(bodies_of(Generator(SPEC), 100, 30))


def test_own_ids_and_routing_win_over_those_of_the_corpus(
    documents: PreparedDocuments, programs: list[Program]
) -> None:
    params = {"id": "$[[n]]", "routing": "all"}
    programs.append(compiled(context("index", params, documents=[documents], variables=[NUMBER])))
    (sent,) = requests(started(programs[0]))
    assert first_line(sent) == "PUT /orders/_doc/1?routing=all"


def test_documents_of_a_file_have_no_id(tmp_path: Path, programs: list[Program]) -> None:
    (tmp_path / "d.json").write_bytes(b'{"n":1}\n{"n":2}\n')
    programs.append(compiled(context("index", documents=[from_file(tmp_path, "d.json", 2)])))
    made = started(programs[0])
    assert [(first_line(sent), body(sent)) for _ in range(2) for sent in requests(made)] == [
        ("POST /orders/_doc", b'{"n":1}'),
        ("POST /orders/_doc", b'{"n":2}'),
    ]


def test_only_created_documents_are_acknowledged() -> None:
    ledger = Ledger()
    program = compiled(context("index", {"body": {}}, ledger=ledger))
    made = started(program)
    assert judged(made, 201, CREATED_REPLY) == CREATED
    judged(made, 200, CREATED_REPLY.replace(b"created", b"updated"))
    judged(made, 429, "{}")
    judged(made, 201, CREATED_REPLY)
    assert ledger.acknowledged == {}
    program.close()
    assert ledger.acknowledged == {"orders": 2}


def test_where_a_sequence_has_got_to_is_entered_into_the_ledger() -> None:
    ledger = Ledger(next_values={"n": 40})
    for drawn, expected in ((5, 40), (60, 61)):
        program = compiled(context("index", {"body": {"n": "$[[n]]"}}, variables=[NUMBER], ledger=ledger))
        made = started(program)
        for _ in range(drawn):
            requests(made)
        program.close()
        assert ledger.next_values["n"] == expected  # never back to what another task of the step has drawn


def test_a_sequence_begins_where_the_race_has_got_to() -> None:
    program = client("get", {"id": "$[[n]]"}, variables=[NUMBER], before=Ledger(next_values={"n": 900}))
    assert first_line(requests(program)[0]) == "GET /orders/_doc/900"


def test_the_time_is_told_at_the_send() -> None:
    program = client("index", {"body": {"at": "$[[now]]"}}, variables=[Variable("now", "now_unix_in_nano")])
    early, late = program.draw(), program.draw()
    (exchange,) = program.exchanges
    sent = [json.loads(body(b"".join(bytes(part) for part in exchange.render(draw)))) for draw in (late, early)]
    assert sent[0]["at"] < sent[1]["at"]


# read-after-write


def test_a_document_is_written_and_read_by_the_same_id(documents: PreparedDocuments, programs: list[Program]) -> None:
    programs.append(compiled(context("read-after-write", {"pipeline": "p"}, documents=[documents])))
    made = started(programs[0])
    assert [exchange.name for exchange in made.exchanges] == ["write", "read"]
    keys = Generator(SPEC).values(["_id", "_routing"], range(100, 102))
    for document_id, routing in keys:
        write, read = requests(made)
        assert first_line(write) == f"PUT /orders/_doc/{document_id}?pipeline=p&routing={routing}"
        assert first_line(read) == f"GET /orders/_doc/{document_id}?routing={routing}"
        assert body(read) == b""


def test_a_body_is_read_back_by_its_drawn_id() -> None:
    params = {"id": "$[[n]]", "body": {"n": "$[[n]]"}, "realtime": False}
    write, read = requests(client("read-after-write", params, variables=[NUMBER], dialect=ES5))
    assert (first_line(write), first_line(read)) == ("PUT /orders/doc/1", "GET /orders/doc/1?realtime=false")


def test_the_read_must_find_and_only_the_write_is_acknowledged() -> None:
    ledger = Ledger()
    program = compiled(context("read-after-write", {"id": "1", "body": {}}, ledger=ledger))
    made = started(program)
    assert judged(made, 201, CREATED_REPLY).error is None
    assert judged(made, 200, '{"_index":"orders","_id":"1","found":true}', exchange=1) == GOOD
    assert judged(made, 404, '{"_index":"orders","_id":"1","found":false}', exchange=1).error == "not found"
    program.close()
    assert ledger.acknowledged == {"orders": 1}


# Errors


def failure(kind: str, params: dict[str, Any], **keys: Any) -> str:
    with pytest.raises(TrackError) as caught:
        compiled(context(kind, params, **keys)).close()
    return str(caught.value)


def test_what_is_missing_is_named(documents: PreparedDocuments, tmp_path: Path) -> None:
    assert failure("get", {}) == 'task "t": operation type "get" needs "id": the document\'s id, usually a variable'
    assert failure("get", {"id": None}).startswith('task "t": operation type "get" needs "id"')
    assert failure("get", {"Id": 7}).endswith('(it is spelt "id", not "Id")')
    assert failure("index", {}) == 'task "t": the operation needs a "body" or a "corpus"'
    assert failure("index", {"corpus": "smal"}, documents=[documents]) == (
        'task "t": unknown corpus "smal" (did you mean "small"? known: small)'
    )
    assert failure("read-after-write", {"body": {}}) == 'task "t": read-after-write needs the document\'s "id"'


def test_the_index_is_named_where_there_are_several() -> None:
    two = [Index("a"), Index("b")]
    assert failure("get", {"id": "1"}, indices=two) == (
        'task "t": the operation needs "index" (the track has 2 indices: a, b)'
    )
    assert failure("get", {"id": "1"}, indices=[]) == ('task "t": the operation needs "index" (the track has no index)')
    assert request("get", {"id": "1", "index": "b"}, indices=two)[0] == "GET /b/_doc/1"
