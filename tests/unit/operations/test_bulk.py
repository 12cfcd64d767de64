"""bulk: every document once, in the version's path, the acknowledged ones in the ledger."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from compiled import ES5, ES6, ES8, HEADERS, compiled, context
from corpora import from_file, generated, lines

from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.model import Index
from esbench.operations import builtin_operations
from esbench.operations.bulk_program import counts_to_send
from esbench.requests.exchange import ClientProgram, Exhausted, Script
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program

GOOD_REPLY = b'{"took":30,"errors":false,"items":[]}'


@pytest.fixture
def documents(tmp_path: Path) -> PreparedDocuments:
    return generated(tmp_path, 1000)


def all_bulks(program: ClientProgram) -> list[tuple[str, bytes]]:
    """First line and body of every bulk of a client."""
    (exchange,) = program.exchanges
    found = []
    while True:
        try:
            drawn = program.draw()
        except Exhausted:
            return found
        sent = b"".join(bytes(part) for part in exchange.render(drawn))
        head, _, body = sent.partition(b"\r\n\r\n")
        assert f"Content-Length: {len(body)}".encode() in head
        assert b"Content-Type: application/x-ndjson" in head
        found.append((head.partition(b"\r\n")[0].decode().removesuffix(" HTTP/1.1"), body))


def started(program: Program, slot: int = 0) -> ClientProgram:
    made = program.client(slot, HEADERS)
    assert not isinstance(made, Script)
    return made


@pytest.mark.parametrize("clients", [1, 3, 8])
def test_the_clients_together_send_every_document_once(documents: PreparedDocuments, clients: int) -> None:
    program = compiled(context("bulk", {"bulk-size": 64}, documents=[documents], clients=clients))
    bodies = [body for slot in range(clients) for _, body in all_bulks(started(program, slot))]
    assert b"".join(bodies) == documents.path.read_bytes()
    assert all(body.count(b"\n") <= 128 for body in bodies)
    assert program.finite


def test_how_much_a_bulk_will_do_is_known_before(documents: PreparedDocuments) -> None:
    bulk, indices = builtin_operations().get("bulk"), (Index("orders"),)

    def known(**params: Any) -> float | None:
        return bulk.units_in_all({"bulk-size": 100, **params}, [documents], indices, "t")

    assert (known(), known(**{"ingest-percentage": 12.5})) == (1000, 125)
    assert known(looped=True) is None
    assert builtin_operations().get("force-merge").units_in_all({}, [documents], indices, "t") is None


def test_a_part_of_the_documents_is_the_first_ones(documents: PreparedDocuments) -> None:
    ledger = Ledger()
    params = {"bulk-size": 100, "ingest-percentage": 12.5}
    program = compiled(context("bulk", params, documents=[documents], ledger=ledger, clients=2))
    bodies = [body for slot in range(2) for _, body in all_bulks(started(program, slot))]
    sent = b"".join(bodies)
    assert sent.count(b"\n") == 250
    assert documents.path.read_bytes().startswith(sent)
    program.close()
    assert ledger.loaded_counts() == {documents.key: 125}


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ((0, 0), {}),  # nothing is known
        ((2, 0), 200),
        ((2, 3), 200),  # what the second client has sent begins at 500
        ((5, 1), 600),
        ((0, 3), 0),
    ],
)
def test_of_a_bulk_that_was_ended_only_documents_that_were_sent_are_loaded(
    documents: PreparedDocuments, sent: tuple[int, int], expected: int | dict[str, int]
) -> None:
    ledger = Ledger()
    for slot, count in enumerate(sent):  # a worker for each
        news = Ledger()
        program = compiled(context("bulk", {"bulk-size": 100}, documents=[documents], clients=2, ledger=news))
        client = started(program, slot)
        for _ in range(count):
            client.exchanges[0].render(client.draw())
        if count < 5:
            client.draw()  # drawn ahead, and never sent
        program.close()
        ledger.enter(news)
    assert ledger.loaded_counts() == (expected if isinstance(expected, dict) else {documents.key: expected})


def test_files_that_an_ended_bulk_did_not_come_to_are_not_loaded(tmp_path: Path) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_bytes(b"\n".join(lines(30)))
    both, ledger = [from_file(tmp_path, name, 30) for name in ("a.json", "b.json")], Ledger()
    program = compiled(context("bulk", {"bulk-size": 10}, documents=both, ledger=ledger))
    client = started(program)
    client.exchanges[0].render(client.draw())
    program.close()
    assert ledger.loaded_counts() == {both[0].key: 10, both[1].key: 0}


def test_a_later_smaller_load_counts_after_its_index_was_created_again() -> None:
    ledger = Ledger()
    ledger.enter(Ledger(loaded={("orders", "a.json"): [(0, 500), (500, 1000)], ("items", "b.json"): [(0, 70)]}))
    assert ledger.loaded_counts() == {"a.json": 1000, "b.json": 70}
    ledger.enter(Ledger(loaded={("orders", "a.json"): [(0, 10)]}))  # once more into the same index
    assert ledger.loaded_counts()["a.json"] == 1000
    ledger.enter(Ledger(emptied={"orders"}))
    ledger.enter(Ledger(loaded={("orders", "a.json"): [(0, 10)]}))
    assert ledger.loaded_counts() == {"a.json": 10, "b.json": 70}


def test_a_number_of_documents_is_shared_by_the_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b"\n".join(lines(30)))
    (tmp_path / "b.json").write_bytes(b"\n".join(lines(10)))
    both = [from_file(tmp_path, "a.json", 30), from_file(tmp_path, "b.json", 10)]
    for wanted, expected in ((1, 1), ("20", 20), (40, 40), (1000, 40)):
        program = compiled(context("bulk", {"bulk-size": 7, "ingest-doc-count": wanted}, documents=both, clients=2))
        bodies = [body for slot in range(2) for _, body in all_bulks(started(program, slot))]
        assert b"".join(bodies).count(b"\n") == 2 * expected
    counts = counts_to_send(both, {"ingest-doc-count": 20})
    assert counts == [15, 5]


def test_a_looped_bulk_begins_again(documents: PreparedDocuments) -> None:
    for looped in (True, "true"):
        program = compiled(context("bulk", {"bulk-size": 400, "looped": looped}, documents=[documents], clients=2))
        assert not program.finite
        made = started(program, 1)
        (exchange,) = made.exchanges
        bodies = [bytes(exchange.render(made.draw())[1]) for _ in range(6)]
        assert bodies[:2] == bodies[2:4] == bodies[4:]
        assert b"".join(bodies[:2]) == documents.path.read_bytes()[-len(bodies[0]) - len(bodies[1]) :]
    assert compiled(context("bulk", {"bulk-size": 400, "looped": "false"}, documents=[documents])).finite


def test_a_looped_client_without_documents_is_exhausted(tmp_path: Path) -> None:
    program = compiled(context("bulk", {"bulk-size": 5, "looped": True}, documents=[generated(tmp_path, 1)], clients=3))
    ends = []
    for slot in range(3):
        try:
            ends.append(started(program, slot).draw().documents)
        except Exhausted:
            ends.append(0)
    assert sorted(ends) == [0, 0, 1]


def test_a_bulk_that_never_began_has_loaded_nothing(documents: PreparedDocuments) -> None:
    ledger = Ledger()
    program = compiled(context("bulk", {"bulk-size": 100}, documents=[documents], ledger=ledger))
    started(program)
    program.close()
    assert ledger == Ledger()


@pytest.mark.parametrize(
    ("dialect", "path"), [(ES5, "/orders/doc/_bulk"), (ES6, "/orders/_doc/_bulk"), (ES8, "/orders/_bulk")]
)
def test_the_path_of_a_bulk_is_that_of_the_version(documents: PreparedDocuments, dialect: Any, path: str) -> None:
    program = compiled(context("bulk", {"bulk-size": 1000}, documents=[documents], dialect=dialect))
    assert [line for line, _ in all_bulks(started(program))] == [f"POST {path}"]


def test_a_type_of_the_tracks_own_is_in_the_path_where_there_are_types(documents: PreparedDocuments) -> None:
    typed = replace(documents, target_index="orders", target_type="docs")
    for dialect, path in ((ES6, "/orders/docs/_bulk"), (ES8, "/orders/_bulk")):
        program = compiled(context("bulk", {"bulk-size": 1000}, documents=[typed], dialect=dialect))
        assert [line for line, _ in all_bulks(started(program))] == [f"POST {path}"]


def test_parameters_of_a_bulk_are_in_its_query(documents: PreparedDocuments) -> None:
    params = {"bulk-size": "1000", "pipeline": "p 1", "refresh": False, "timeout": "2m", "opaque-id": "load"}
    params["request-params"] = {"require_alias": True, "timeout": "1m"}
    program = compiled(context("bulk", params, documents=[documents]))
    (drawn, (exchange,)) = (started(program).draw(), started(program).exchanges)
    head = bytes(exchange.render(drawn)[0])
    assert head.startswith(
        b"POST /orders/_bulk?pipeline=p%201&refresh=false&timeout=1m&require_alias=true HTTP/1.1\r\nHost: node:9200\r\n"
    )
    assert b"\r\nX-Opaque-Id: load\r\n" in head


def test_headers_of_a_bulk_replace_those_of_the_connection(documents: PreparedDocuments) -> None:
    own = {"host": "other:1", "content-type": "application/vnd.elasticsearch+x-ndjson;compatible-with=8"}
    program = compiled(
        context("bulk", {"bulk-size": 1000, "headers": own, "opaque-id": "größe"}, documents=[documents])
    )
    made = started(program)
    head = bytes(made.exchanges[0].render(made.draw())[0]).decode()
    assert head.split("\r\n")[1:4] == [
        f"host: {own['host']}",
        f"content-type: {own['content-type']}",
        "X-Opaque-Id: größe",
    ]
    assert head.count("\r\n") == 6


def test_documents_go_to_the_index_of_their_file(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(10)))
    one = from_file(tmp_path, "d.json", 10, target_index="one")
    stream = replace(one, corpus="streamed", target_index=None, target_data_stream="logs-x")
    bare = replace(one, corpus="bare", target_index=None)
    program = compiled(context("bulk", {"bulk-size": 10}, documents=[one, stream, bare]))
    assert [line for line, _ in all_bulks(started(program))] == [
        "POST /one/_bulk",
        "POST /logs-x/_bulk",
        "POST /orders/_bulk",
    ]


def test_documents_with_action_lines_go_where_these_say(tmp_path: Path) -> None:
    text = b"".join(b'{"index":{"_index":"i%d","_id":"%d"}}\n{"n":%d}\n' % (n % 2, n, n) for n in range(10))
    (tmp_path / "d.json").write_bytes(text)
    ledger = Ledger()
    own = from_file(tmp_path, "d.json", 10, includes_action_and_meta_data=True)
    two = [Index("i0"), Index("i1")]
    program = compiled(context("bulk", {"bulk-size": 4}, documents=[own], indices=two, ledger=ledger))
    bulks = all_bulks(started(program))
    assert [(line, body.count(b"\n")) for line, body in bulks] == [
        ("POST /_bulk", 8),
        ("POST /_bulk", 8),
        ("POST /_bulk", 4),
    ]
    assert b"".join(body for _, body in bulks) == text
    made = started(program)
    item = '{"index":{"_index":"%s","_id":"0","_version":%d,"result":"%s","status":201}}'
    items = [item % values for values in (("i0", 1, "created"), ("i1", 1, "created"), ("i0", 2, "updated"))]
    reply = f'{{"took":1,"errors":false,"items":[{",".join([*items, items[0]])}]}}'
    assert made.exchanges[0].judge(200, reply.encode(), made.draw()).units == 4
    program.close()
    assert ledger.acknowledged == {"i0": 2, "i1": 1}


def test_the_index_of_a_corpus_is_the_default_of_its_action_lines(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(b'{"create":{}}\n{"n":1}\n')
    own = from_file(tmp_path, "d.json", 1, includes_action_and_meta_data=True, target_data_stream="logs")
    assert all_bulks(started(compiled(context("bulk", {"bulk-size": 4}, documents=[own]))))[0][0] == "POST /logs/_bulk"
    bare = replace(own, target_data_stream=None)
    program = compiled(context("bulk", {"bulk-size": 4, "index": "given"}, documents=[bare]))
    assert all_bulks(started(program))[0][0] == "POST /given/_bulk"


def test_clients_begin_at_different_corpora(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(10)))
    one = from_file(tmp_path, "d.json", 10, target_index="one")
    two = replace(one, corpus="two", target_index="two")
    program = compiled(context("bulk", {"bulk-size": 10}, documents=[one, two], clients=2))
    orders = [[line for line, _ in all_bulks(started(program, slot))] for slot in range(2)]
    assert orders == [["POST /one/_bulk", "POST /two/_bulk"], ["POST /two/_bulk", "POST /one/_bulk"]]


def test_corpora_and_indices_can_be_chosen(tmp_path: Path) -> None:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(10)))
    one = from_file(tmp_path, "d.json", 10, target_index="one")
    two = replace(one, corpus="two", target_index="two")
    stream = replace(one, corpus="streamed", target_index=None, target_data_stream="logs")
    for params, expected in (
        ({"corpora": "two"}, ["POST /two/_bulk"]),
        ({"corpora": ["two", "filed"]}, ["POST /one/_bulk", "POST /two/_bulk"]),
        ({"indices": ["one"]}, ["POST /one/_bulk"]),
        ({"indices": "logs"}, []),
        ({"data-streams": "logs"}, ["POST /logs/_bulk"]),
        ({"corpora": ["two", "streamed"], "data-streams": ["logs"]}, ["POST /logs/_bulk"]),
    ):
        if not expected:
            assert "no document of the corpora is for logs" in failure({"bulk-size": 10, **params}, [one, two, stream])
            continue
        program = compiled(context("bulk", {"bulk-size": 10, **params}, documents=[one, two, stream]))
        assert [line for line, _ in all_bulks(started(program))] == expected


def test_what_the_server_acknowledged_is_entered_into_the_ledger(documents: PreparedDocuments) -> None:
    ledger = Ledger()
    program = compiled(context("bulk", {"bulk-size": 100}, documents=[documents], ledger=ledger))
    made = started(program)
    (exchange,) = made.exchanges
    assert exchange.judge(200, GOOD_REPLY, made.draw()).units == 100
    good, bad = b'{"index":{"status":201}},', b'{"index":{"status":429,"error":{"type":"x","reason":"full"}}}'
    failed = b'{"took":1,"errors":true,"items":[' + good * 99 + bad + b"]}"
    assert exchange.judge(200, failed, made.draw()).units == 99
    assert exchange.judge(503, b"", made.draw()).units == 0
    program.close()
    assert ledger.acknowledged == {"orders": 199}


def test_documents_with_ids_that_are_written_again_are_not_new(documents: PreparedDocuments) -> None:
    ledger = Ledger()
    program = compiled(context("bulk", {"bulk-size": 3}, documents=[documents], ledger=ledger))
    made = started(program)
    results = [
        b'{"index":{"_id":"%d","result":"%b","status":200}}' % each for each in ((1, b"created"), (2, b"updated"))
    ]
    reply = b'{"took":1,"errors":false,"items":[' + b",".join([*results, results[1]]) + b"]}"
    assert made.exchanges[0].judge(200, reply, made.draw()).units == 3
    assert made.exchanges[0].judge(200, GOOD_REPLY, made.draw()).units == 3  # of a server that leaves items out
    program.close()
    assert ledger.acknowledged == {"orders": 4}


def test_a_client_without_documents_is_exhausted_at_once(tmp_path: Path) -> None:
    program = compiled(context("bulk", {"bulk-size": 5}, documents=[generated(tmp_path, 2)], clients=8))
    assert sum(len(all_bulks(started(program, slot))) for slot in range(8)) == 2


def test_a_rate_in_documents_is_divided_by_the_bulk_size() -> None:
    assert builtin_operations().get("bulk").units_per_request({"bulk-size": "5000"}) == 5000
    assert builtin_operations().get("search").units_per_request({}) == 1


def failure(params: dict[str, Any], documents: list[PreparedDocuments], **keys: Any) -> str:
    with pytest.raises(TrackError) as caught:
        program = compiled(context("bulk", params, documents=documents, **keys))
        program.client(0, HEADERS)
    return str(caught.value)


@pytest.mark.parametrize("size", [0, -5, "5k", "1.5", "inf", "nan", ""])
def test_a_bulk_size_is_a_whole_number_above_zero(documents: PreparedDocuments, size: Any) -> None:
    assert failure({"bulk-size": size}, [documents]) == (
        f'task "t": "bulk-size" must be a whole number above zero, not {size!r}'
    )


def test_a_bulk_size_may_be_text() -> None:
    for size in ("1000", "1e3", "1000.0"):
        assert builtin_operations().get("bulk").units_per_request({"bulk-size": size}) == 1000


@pytest.mark.parametrize("share", [0, 101, "half", "inf"])
def test_a_share_is_a_percentage(documents: PreparedDocuments, share: Any) -> None:
    message = failure({"bulk-size": 5, "ingest-percentage": share}, [documents])
    assert message == f'task "t": "ingest-percentage" must be above 0 and at most 100, not {share!r}'


def test_what_is_missing_or_unknown_is_named(documents: PreparedDocuments) -> None:
    assert failure({}, [documents]).startswith('task "t": operation type "bulk" needs "bulk-size": documents per')
    assert failure({"bulk_size": 5}, [documents]).endswith('(it is spelt "bulk-size", not "bulk_size")')
    assert failure({"bulk-size": 5}, []) == 'task "t": there are no documents to index (the track needs a corpus)'
    assert failure({"bulk-size": 5, "corpora": ["smal"]}, [documents]) == (
        'task "t": unknown corpus "smal" (did you mean "small"? known: small)'
    )
    two = [Index("a"), Index("b")]
    assert failure({"bulk-size": 5}, [documents], indices=two).startswith('task "t": the operation needs "index"')


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"batch-size": 12}, '"batch-size" must be a multiple of "bulk-size" (5), not 12'),
        ({"batch-size": "many"}, "\"batch-size\" must be a whole number above zero, not 'many'"),
        ({"ingest-doc-count": 0}, '"ingest-doc-count" must be a whole number above zero, not 0'),
        (
            {"ingest-doc-count": 5, "ingest-percentage": 50},
            'the operation has both "ingest-doc-count" and "ingest-percentage" (keep one of them)',
        ),
        ({"looped": "yes"}, "\"looped\" must be true or false, not 'yes'"),
        ({"pipeline": "p-$[[n]]"}, '"pipeline" of "bulk" cannot hold a variable: $[[n]] (a raw-request can have it)'),
        ({"request-params": {"routing": "$[[n]]"}}, '"request-params" of "bulk" cannot hold a variable: $[[n]]'),
        ({"headers": {"X-A": "$[[n]]"}}, '"headers" of "bulk" cannot hold a variable: $[[n]]'),
        ({"opaque-id": "$[[n]]"}, '"opaque-id" of "bulk" cannot hold a variable: $[[n]]'),
        ({"opaque-id": "a\r\nb"}, r"HTTP cannot send the header 'X-Opaque-Id': 'a\r\nb'"),
        ({"indices": "ordres"}, "no document of the corpora is for ordres (known: "),
        ({"data-streams": ["logs"]}, "no document of the corpora is for logs"),
    ],
)
def test_what_a_parameter_cannot_be_is_told(documents: PreparedDocuments, params: dict[str, Any], message: str) -> None:
    target = replace(documents, target_index="orders")
    message = message.replace("(known: ", '(did you mean "orders"? known: orders)')
    assert failure({"bulk-size": 5, **params}, [target]).startswith(f'task "t": {message}')


def test_a_batch_is_several_bulks(documents: PreparedDocuments) -> None:
    for batch in (5, "50", 1000, None):
        compiled(context("bulk", {"bulk-size": 5, "batch-size": batch}, documents=[documents]))
