"""Bulks with conflicts, in a loop, with action lines of their own, and sent again, against a server on a socket."""

from __future__ import annotations

from pathlib import Path

import pytest
from driver import Driver, NullServerFactory, all_errors, all_requests, all_units, bulk, documents, task

from esbench.corpus.preparation import prepare
from esbench.corpus.prepared import PreparedDocuments
from esbench.model import Corpus, Documents
from esbench.null_server import NullServer
from esbench.record.model import NamedRequest, TaskResult

DOCUMENTS = 2_000
ALL_COUNT = task("assert-count", {"expected": "acknowledged"})
EMPTY = [task("delete-index"), task("create-index")]


@pytest.fixture(scope="module")
def servers(null_servers: NullServerFactory) -> NullServer:
    return null_servers({"store": True})


@pytest.fixture
def server(servers: NullServer, driver: Driver) -> NullServer:
    servers.use({"store": True})
    for administrative in EMPTY:
        driver.run(servers.url, administrative)
    servers.reset()
    return servers


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> PreparedDocuments:
    return documents(tmp_path_factory.mktemp("corpus"), DOCUMENTS)


def named(result: TaskResult) -> dict[str, NamedRequest]:
    return {part.name: part for part in result.requests_by_name}


@pytest.mark.parametrize("conflict", ["index", "update"])
def test_conflicts_update_documents_and_the_results_are_told_apart(
    server: NullServer, driver: Driver, docs: PreparedDocuments, conflict: str
) -> None:
    params = {"conflicts": "random", "conflict-probability": 40, "on-conflict": conflict, "detailed-results": True}
    result = driver.run(server.url, bulk(100, clients=3, params=params), docs=docs)
    parts = named(result)
    assert result.units == DOCUMENTS
    assert result.errors == 0
    assert set(parts) == {"created", "updated", "took"}
    assert parts["created"].requests + parts["updated"].requests == DOCUMENTS
    assert 650 < parts["updated"].requests < 950  # binomial: 800, standard deviation 22
    assert parts["took"].requests == result.requests
    assert parts["took"].service_time_ms is not None
    assert parts["took"].service_time_ms["max"] == 1  # what the server says
    assert driver.run(server.url, ALL_COUNT).errors == 0


def test_a_looped_bulk_lasts_as_long_as_its_task(server: NullServer, driver: Driver, docs: PreparedDocuments) -> None:
    a_task = bulk(500, clients=2, params={"looped": True}, time_period_s=0.5, rate="20000 docs/s")
    result = driver.run(server.url, a_task, docs=docs)
    assert 2 * DOCUMENTS < result.units == server.counts().documents
    assert result.duration_s == pytest.approx(0.5, abs=0.2)
    counted = driver.run(server.url, bulk(500, clients=2, params={"looped": True}, iterations=6), docs=docs)
    assert counted.units == 12 * 500


def test_action_lines_of_the_corpus_say_where_documents_go(server: NullServer, driver: Driver, tmp_path: Path) -> None:
    lines = "".join(f'{{"index":{{"_index":"part-{n % 2}","_id":"{n}"}}}}\n{{"n":{n}}}\n' for n in range(300))
    (tmp_path / "own.json").write_text(lines)
    corpus = Corpus("own", (Documents(300, source_file="own.json", includes_action_and_meta_data=True),))
    (own,) = prepare([corpus], cache=tmp_path / "cache", track_dir=tmp_path)
    result = driver.run(server.url, bulk(70, clients=2), docs=own)
    assert (result.units, result.requests, result.errors) == (300, 6, 0)
    for index in ("part-0", "part-1"):
        counted = driver.run(server.url, task("assert-count", {"index": index, "expected": 150}))
        assert counted.errors == 0
        assert driver.run(server.url, task("assert-count", {"index": index})).errors == 0  # as acknowledged


def refusing(share: float, **rule: object) -> dict[str, object]:
    return {"store": True, "rules": [{"path": "_bulk", "bulk_errors": {"share": share}, **rule}]}


@pytest.mark.parametrize("loop", [{}, {"rate": "50000 docs/s"}])
def test_refused_documents_are_sent_again_until_all_are_there(
    server: NullServer, driver: Driver, docs: PreparedDocuments, loop: dict[str, str]
) -> None:
    server.use(refusing(0.3))
    params = {"retries_on_429": 30, "retry-wait-period": "10ms"}
    result = driver.run(server.url, bulk(50, clients=4, params=params, **loop), docs=docs)
    assert (all_units(result), all_errors(result)) == (DOCUMENTS, 0)
    assert all_requests(result) == DOCUMENTS / 50  # tries are no requests of their own
    assert server.counts().documents == DOCUMENTS
    assert 500 < named(result)["retried"].requests < 1_300  # 0.3 + 0.09 + ... of the documents: 857
    assert result.service_time_ms is not None
    assert result.service_time_ms["p50"] > 10  # with the time between tries
    assert driver.run(server.url, ALL_COUNT).errors == 0


def test_a_refused_request_is_sent_again_as_a_whole(
    server: NullServer, driver: Driver, docs: PreparedDocuments
) -> None:
    server.use({"store": True, "rules": [{"path": "_bulk", "every": 3, "reply": {"status": 429}}]})
    params = {"retries_on_429": 5, "retry-wait-period": 0.005}
    result = driver.run(server.url, bulk(100, clients=2, params=params), docs=docs)
    assert (result.units, result.errors, server.counts().documents) == (DOCUMENTS, 0, DOCUMENTS)
    assert named(result)["retried"].requests % 100 == 0


def test_what_is_refused_too_often_is_a_failure(server: NullServer, driver: Driver, docs: PreparedDocuments) -> None:
    server.use(refusing(1.0))
    params = {"retries_on_429": 2, "retry-wait-period": 0}
    result = driver.run(server.url, bulk(500, clients=2, params=params), docs=docs)
    assert (result.requests, result.errors, result.units) == (4, 4, 0)
    assert list(result.error_kinds) == ["bulk item 429 es_rejected_execution_exception"]
    assert named(result)["retried"].requests == 2 * DOCUMENTS


def test_units_of_earlier_tries_count_when_the_last_one_is_lost(
    server: NullServer, driver: Driver, docs: PreparedDocuments
) -> None:
    rules = [
        {"path": "_bulk", "bulk_errors": {"share": 0.5}, "last": 1},
        {"path": "_bulk", "first": 2, "fault": "cut-before"},
    ]
    server.use({"store": True, "rules": rules})
    params = {"retries_on_429": 3, "retry-wait-period": 0.01}
    result = driver.run(server.url, bulk(DOCUMENTS, params=params), docs=docs)
    assert (result.requests, result.errors) == (1, 1)
    assert list(result.error_kinds) == ["connection lost"]
    assert 800 < result.units < 1_200  # of the first try
