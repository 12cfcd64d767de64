"""Bulks whose documents get ids of which some come again, and the order of files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from compiled import HEADERS, compiled, context
from corpora import from_file, generated, lines

from esbench.corpus.bulk_source import BulkSource, ConflictingBulks, Conflicts, in_turn
from esbench.corpus.prepared import PreparedDocuments
from esbench.errors import TrackError
from esbench.requests.exchange import ClientProgram, Exhausted, Script
from esbench.requests.ledger import Ledger
from esbench.requests.programs import Program

Action = tuple[str, str, dict[str, Any]]  # what is done, the id, the source


@pytest.fixture
def documents(tmp_path: Path) -> PreparedDocuments:
    (tmp_path / "d.json").write_bytes(b"\n".join(lines(1000)))
    return from_file(tmp_path, "d.json", 1000)


def actions(body: bytes) -> list[Action]:
    found = []
    rows = body.splitlines()
    for action, source in zip(rows[::2], rows[1::2], strict=True):
        ((kind, keys),) = json.loads(action).items()
        assert list(keys) == ["_id"]
        found.append((kind, keys["_id"], json.loads(source)))
    return found


def sent(
    documents: PreparedDocuments, conflicts: Conflicts, first: int = 0, last: int = 1000, seed: str = "1"
) -> list[Action]:
    bulks = ConflictingBulks(BulkSource(documents, first, last, 64), first, last - first, conflicts, seed)
    made = list(bulks)
    assert [count for _, count in made] == [64] * ((last - first) // 64) + [(last - first) % 64] * bool(
        (last - first) % 64
    )
    return [action for body, _ in made for action in actions(body)]


def ids(found: Sequence[Action]) -> list[str]:
    return [document_id for _, document_id, _ in found]


def test_every_document_is_sent_once_whatever_its_id(documents: PreparedDocuments) -> None:
    for update in (False, True):
        found = sent(documents, Conflicts(shuffled=True, again_ratio=0.4, update=update), 100, 900)
        sources = [source["doc"] if kind == "update" else source for kind, _, source in found]
        assert sources == [json.loads(line) for line in lines(1000)[100:900]]


def test_without_repetition_ids_are_the_numbers_of_the_documents(documents: PreparedDocuments) -> None:
    expected = [f"{number:010d}" for number in range(200, 500)]
    assert ids(sent(documents, Conflicts(shuffled=False, again_ratio=0), 200, 500)) == expected
    shuffled = ids(sent(documents, Conflicts(shuffled=True, again_ratio=0), 200, 500))
    assert shuffled != expected
    assert sorted(shuffled) == expected


def test_so_many_ids_come_again(documents: PreparedDocuments) -> None:
    found = ids(sent(documents, Conflicts(shuffled=False, again_ratio=0.25)))
    assert 180 < 1000 - len(set(found)) < 320  # binomial: 250, standard deviation 14
    new = list(dict.fromkeys(found))
    assert new == [f"{number:010d}" for number in range(len(new))]


def test_the_first_document_has_nothing_to_repeat(documents: PreparedDocuments) -> None:
    found = sent(documents, Conflicts(shuffled=True, again_ratio=1))
    assert set(ids(found[1:])) == {found[0][1]}


def test_only_what_comes_again_is_updated(documents: PreparedDocuments) -> None:
    seen: set[str] = set()
    kinds = set()
    for kind, document_id, _ in sent(documents, Conflicts(shuffled=True, again_ratio=0.5, update=True)):
        assert kind == ("update" if document_id in seen else "index")
        seen.add(document_id)
        kinds.add(kind)
    assert kinds == {"index", "update"}


def test_recency_takes_the_latest_ids(documents: PreparedDocuments) -> None:
    def mean_age(recency: float) -> float:
        ages, used = [], 0
        for document_id in ids(sent(documents, Conflicts(shuffled=False, again_ratio=0.5, recency=recency))):
            if int(document_id) == used:
                used += 1
            else:
                ages.append((used - int(document_id)) / used)
        return sum(ages) / len(ages)

    # uniform: 1/2 of what was used; recency r: an exponential of mean 1 / (30 r)
    assert mean_age(0) == pytest.approx(0.5, abs=0.08)
    assert mean_age(0.2) == pytest.approx(1 / 6, abs=0.05)
    assert mean_age(1) == pytest.approx(1 / 30, abs=0.02)


def test_the_same_seed_draws_the_same(documents: PreparedDocuments) -> None:
    conflicts = Conflicts(shuffled=True, again_ratio=0.5)
    assert sent(documents, conflicts, seed="a") == sent(documents, conflicts, seed="a")
    assert ids(sent(documents, conflicts, seed="a")) != ids(sent(documents, conflicts, seed="b"))


def test_files_are_sent_corpus_by_corpus_in_turn() -> None:
    corpora = [["a1", "a2", "a3"], ["b1"], ["c1", "c2"]]
    assert in_turn(corpora, 0) == ["a1", "b1", "c1", "a2", "c2", "a3"]
    assert in_turn(corpora, 1) == ["b1", "c1", "a1", "c2", "a2", "a3"]
    assert in_turn(corpora, 5) == ["c1", "a1", "b1", "c2", "a2", "a3"]
    assert in_turn([], 3) == []


# as an operation


def started(program: Program, slot: int = 0) -> ClientProgram:
    made = program.client(slot, HEADERS)
    assert not isinstance(made, Script)
    return made


def drawn(program: ClientProgram, most: int = 1000) -> list[bytes]:
    (exchange,) = program.exchanges
    found: list[bytes] = []
    while len(found) < most:
        try:
            piece = program.draw()
        except Exhausted:
            break
        head, body = exchange.render(piece)
        assert b"Content-Length: %d\r\n" % len(body) in bytes(head)
        found.append(bytes(body))
    return found


def test_clients_share_no_id(documents: PreparedDocuments) -> None:
    params = {"bulk-size": 50, "conflicts": "random", "conflict-probability": "50"}
    program = compiled(context("bulk", params, documents=[documents], clients=3))
    found = [{*ids([a for body in drawn(started(program, slot)) for a in actions(body)])} for slot in range(3)]
    assert all(not one & other for one, other in pairwise([*found, found[0]]))
    assert all(80 < len(each) < 260 for each in found)


def test_the_parameters_of_conflicts_are_those_of_the_track(documents: PreparedDocuments) -> None:
    params = {"bulk-size": 1000, "conflicts": "sequential", "on-conflict": "update", "conflict-probability": 100}
    (body,) = drawn(started(compiled(context("bulk", params, documents=[documents]))))
    assert [(kind, document_id) for kind, document_id, _ in actions(body)] == [
        ("index", "0000000000"),
        *[("update", "0000000000")] * 999,
    ]
    (body,) = drawn(started(compiled(context("bulk", {**params, "conflict-probability": 0}, documents=[documents]))))
    assert [kind for kind, _, _ in actions(body)] == ["index"] * 1000


ITEM = (
    '{"index":{"_index":"orders","_id":"%s","_version":%d,"result":"%s",'
    '"_shards":{"total":2,"successful":1,"failed":0},"status":200}}'
)


def test_only_created_documents_are_acknowledged(documents: PreparedDocuments) -> None:
    ledger = Ledger()
    params = {"bulk-size": 3, "conflicts": "random"}
    program = compiled(context("bulk", params, documents=[documents], ledger=ledger))
    made = started(program)
    items = [ITEM % ("1", 1, "created"), ITEM % ("1", 2, "updated"), ITEM % ('a\\"b,{\\"', 1, "created")]
    reply = f'{{"took":5,"errors":false,"items":[{",".join(items)}]}}'
    assert made.exchanges[0].judge(200, reply.encode(), made.draw()).units == 3
    program.close()
    assert ledger.acknowledged == {"orders": 2}


def failure(params: dict[str, Any], documents: list[PreparedDocuments]) -> str:
    with pytest.raises(TrackError) as caught:
        compiled(context("bulk", {"bulk-size": 5, **params}, documents=documents))
    return str(caught.value)


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"conflicts": "randomly"}, '"conflicts" cannot be \'randomly\' (did you mean "random"?'),
        ({"conflicts": "random", "on-conflict": "delete"}, "\"on-conflict\" cannot be 'delete' (known: index, update)"),
        ({"conflict-probability": 101}, '"conflict-probability" must be a number from 0 to 100, not 101'),
        ({"conflict-probability": "often"}, "\"conflict-probability\" must be a number from 0 to 100, not 'often'"),
        ({"recency": 1.5}, '"recency" must be a number from 0 to 1, not 1.5'),
        (
            {"conflicts": "random", "data-streams": "logs"},
            "the documents of a data stream cannot have conflicts (its documents are created, never indexed again)",
        ),
    ],
)
def test_what_conflicts_cannot_be_is_told(documents: PreparedDocuments, params: dict[str, Any], message: str) -> None:
    assert failure(params, [documents]).startswith(f'task "t": {message}')


def test_documents_with_ids_of_their_own_have_no_conflicts(tmp_path: Path) -> None:
    message = 'task "t": "conflicts" needs documents without ids, and those of corpus "small" have their own'
    assert failure({"conflicts": "random"}, [generated(tmp_path, 10)]).startswith(message)
    (tmp_path / "d.json").write_bytes(b'{"index":{}}\n{"n":1}\n')
    own = from_file(tmp_path, "d.json", 1, includes_action_and_meta_data=True)
    assert '"filed" have their own' in failure({"conflicts": "random"}, [own])
    (tmp_path / "e.json").write_bytes(b'{"n":1}\n')
    stream = from_file(tmp_path, "e.json", 1, target_data_stream="logs")
    assert failure({"conflicts": "random"}, [stream]).startswith(
        'task "t": the documents of the data stream "logs" cannot have conflicts'
    )
