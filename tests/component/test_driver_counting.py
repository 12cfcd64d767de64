"""What the server counted is what the record says: nothing is dropped, doubled or made up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import Driver, NullServerFactory, all_errors, all_requests, all_units, bulk, documents, get, task

from esbench.corpus.prepared import PreparedDocuments
from esbench.model import Task
from esbench.null_server import NullServer
from esbench.record.model import TaskResult

DOCUMENTS = 6_050
FAULTS = {
    "rules": [
        {"path": "_doc", "every": 7, "reply": {"status": 429}},
        {"path": "_doc", "every": 11, "fault": "cut-inside"},
        {"path": "_doc", "every": 13, "fault": "reset-before"},
        {"path": "_doc", "every": 17, "connection_close": True},
        {"path": "_bulk", "every": 3, "bulk_errors": {"share": 0.2}},
        {"path": "_bulk", "every": 5, "fault": "cut-before"},
    ]
}


@pytest.fixture(scope="module")
def server(null_servers: NullServerFactory) -> NullServer:
    return null_servers()


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """With three workers; a task takes part of them only where one could not carry it."""
    with Driver(tmp_path_factory.mktemp("driver"), workers=3) as driver:
        yield driver


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> PreparedDocuments:
    return documents(tmp_path_factory.mktemp("corpus"), DOCUMENTS)


TASKS = [
    get(name="closed", clients=4, warmup_time_s=0.1, time_period_s=0.2),
    get(name="closed, by number", clients=4, warmup_iterations=20, iterations=100),
    get(name="closed, total", clients=3, requests=100),
    get(name="open", rate=500, clients=8, warmup_time_s=0.1, time_period_s=0.4),
    get(name="open, poisson", schedule="poisson", rate=500, clients=8, time_period_s=0.4),
    get(name="open, by number", rate=1000, clients=8, warmup_iterations=5, iterations=50),
    task("read-after-write", {"id": "$[[any_id]]", "body": {"n": 1}}, name="sequence", clients=4, time_period_s=0.2),
    bulk(name="bulk", bulk_size=50, clients=7),
    bulk(name="bulk at a rate", rate="20000 docs/s", bulk_size=100, clients=4),
    bulk(name="bulk in a window", bulk_size=10, clients=2, warmup_time_s=0.1, time_period_s=0.3),
]


def assert_counted(server: NullServer, driver: Driver, *results: TaskResult) -> None:
    counted = server.counts()
    halves = [part.requests for result in results for part in result.requests_by_name if part.name in ("write", "read")]
    whole = [all_requests(result) for result in results if result.operation_type != "read-after-write"]
    assert counted.requests == sum(whole) + sum(halves)
    assert all(result.sent == result.requests for result in results if not result.warmup.requests)
    for result in results:
        lines = [(second.second, second.warmup) for name, second in driver.seconds if name == result.name]
        assert lines == sorted(set(lines))
        series = [second.tally for name, second in driver.seconds if name == result.name]
        assert sum(tally.requests for tally in series) == all_requests(result)
        assert sum(tally.sent for tally in series) == all_requests(result)
        assert sum(tally.errors.total for tally in series) == all_errors(result)


@pytest.mark.parametrize("a_task", TASKS, ids=lambda a_task: a_task.name)
def test_the_record_counts_what_the_server_counts(
    server: NullServer, driver: Driver, docs: PreparedDocuments, a_task: Task
) -> None:
    server.use({})
    result = driver.run(server.url, a_task, docs=docs)
    assert all_requests(result) > 0
    assert all_errors(result) == 0
    assert_counted(server, driver, result)
    if result.unit == "docs":
        assert server.counts().documents == all_units(result)
    if a_task.time_period_s is None and a_task.operation.type == "bulk":
        assert all_units(result) == DOCUMENTS
    if a_task.iterations is not None:
        assert (result.warmup.requests, result.requests) == (
            a_task.clients * (a_task.warmup_iterations or 0),
            a_task.clients * a_task.iterations,
        )
    if a_task.requests is not None:
        assert result.requests == a_task.requests


@pytest.mark.parametrize("rate", [None, "100 ops/s"])
@pytest.mark.parametrize("clients", [4, 7])
def test_clients_may_be_more_than_documents(
    server: NullServer, driver: Driver, tmp_path: Path, clients: int, rate: str | None
) -> None:
    """The parts of the first ones are empty."""
    server.use({})
    result = driver.run(server.url, bulk(1, rate=rate, clients=clients), docs=documents(tmp_path, 2))
    assert (result.requests, result.units, result.errors) == (2, 2, 0)
    assert server.counts().documents == 2
    if rate is not None:
        assert (result.sent, result.unsent) == (2, 0)


@pytest.mark.parametrize("a_task", TASKS, ids=lambda a_task: a_task.name)
def test_errors_and_cuts_are_counted_too(
    server: NullServer, driver: Driver, docs: PreparedDocuments, a_task: Task
) -> None:
    server.use(FAULTS)
    result = driver.run(server.url, a_task, docs=docs)
    assert 0 < all_errors(result) < all_requests(result)
    assert_counted(server, driver, result)
    assert all_errors(result) == sum(kind.count for kind in result.error_kinds.values()) + result.warmup.errors


@pytest.mark.parametrize("clients", [3, 600])
@pytest.mark.parametrize(
    ("keys", "warmup", "measured"),
    [
        ({"requests": 50}, 0, 50),
        ({"requests": 50, "warmup_iterations": 1}, 1, 50),
        ({"iterations": 2, "warmup_iterations": 1}, 1, 2),
        ({"warmup_iterations": 1}, 1, 1),
        ({}, 0, 1),
    ],
)
@pytest.mark.parametrize("rate", [None, 4_000])
def test_numbers_are_totals_of_all_clients(
    server: NullServer,
    driver: Driver,
    clients: int,
    keys: dict[str, int],
    warmup: int,
    measured: int,
    rate: float | None,
) -> None:
    server.use({})
    result = driver.run(server.url, get(clients=clients, rate=rate, **keys))
    expected = measured if "requests" in keys else measured * clients
    assert (result.warmup.requests, result.requests) == (warmup * clients, expected)
    assert server.counts().requests == warmup * clients + expected
    if rate is not None:
        assert result.due == expected
        assert result.unsent == 0


def test_tasks_in_parallel_are_counted_apart(server: NullServer, driver: Driver, docs: PreparedDocuments) -> None:
    server.use({})
    results = driver.step(
        server.url,
        get(name="open", rate=300, clients=4, time_period_s=0.5),
        get(name="closed", clients=2, requests=500),
        bulk(bulk_size=25, clients=3),
        docs=docs,
    )
    assert [result.name for result in results] == ["open", "closed", "bulk"]
    assert (results[0].due, results[1].requests) == (150, 500)
    assert results[0].requests + (results[0].unsent or 0) == 150
    assert_counted(server, driver, *results)
    assert server.counts().documents == results[2].units == DOCUMENTS


MANY = [
    get(name="closed", clients=1100, warmup_iterations=1, iterations=2),
    get(name="open", rate=1000, clients=1100, time_period_s=0.4),
    get(name="high rate", rate=65_000, clients=64, requests=4_000),
    bulk(name="bulk", bulk_size=2, clients=1100),
]


@pytest.mark.parametrize("script", [{}, FAULTS], ids=["good", "faults"])
@pytest.mark.parametrize("a_task", MANY, ids=lambda a_task: a_task.name)
def test_a_large_task_is_dealt_to_all_workers_and_counted_once(
    server: NullServer, driver: Driver, docs: PreparedDocuments, a_task: Task, script: dict[str, Any]
) -> None:
    server.use(script)
    result = driver.run(server.url, a_task, docs=docs)
    assert result.workers == 3
    assert_counted(server, driver, result)
    assert (all_errors(result) > 0) == bool(script)
    if not script and a_task.operation.type == "bulk":
        assert server.counts().documents == all_units(result) == DOCUMENTS
    if not script and a_task.name == "closed":
        assert server.counts().connections == 1100
