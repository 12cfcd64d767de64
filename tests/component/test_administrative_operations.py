"""Administrative operations on a real socket: what they change, what they wait for, and what a server lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from driver import Driver, NullServerFactory, task
from raw_server import serve

from esbench.null_server import NullServer

STREAM = {"PUT /_data_stream/logs": (200, {"acknowledged": True}), "DELETE /_data_stream/logs": (404, {"error": "x"})}


@pytest.fixture(scope="module")
def servers(null_servers: NullServerFactory) -> NullServer:
    return null_servers(log=True)


@pytest.fixture
def server(servers: NullServer) -> NullServer:
    servers.use({})
    return servers


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver")) as driver:
        yield driver


def test_indices_of_a_pattern_are_made_and_deleted(driver: Driver, server: NullServer) -> None:
    for name in ("logs-1", "logs-2", "other"):
        created = driver.run(server.url, task("create-index", {"index": name, "body": {"mappings": {}}}))
        assert (created.requests, created.errors) == (1, 0)
    deleted = driver.run(server.url, task("delete-index", {"index": "logs-*"}))
    assert (deleted.requests, deleted.errors) == (1, 0)
    again = driver.run(server.url, task("delete-index", {"index": "logs-1", "only-if-exists": False}))
    assert list(again.error_kinds) == ["HTTP 404 index_not_found_exception"]
    still_there = driver.run(server.url, task("delete-index", {"index": "other", "only-if-exists": False}))
    assert still_there.errors == 0


def test_a_pause_takes_its_time_and_asks_nothing(driver: Driver, server: NullServer) -> None:
    paused = driver.run(server.url, task("sleep", {"duration": "300ms"}))
    assert (paused.requests, paused.errors) == (1, 0)
    assert paused.duration_s >= 0.29  # timers have a resolution of 1 ms
    assert server.counts().requests == 0


def test_a_pause_before_the_first_request_of_a_composite_is_no_lag_of_the_driver(
    driver: Driver, server: NullServer
) -> None:
    requests = [{"operation-type": "sleep", "duration": "200ms"}, {"operation-type": "raw-request", "path": "/"}]
    result = driver.run(server.url, task("composite", {"requests": requests}))
    assert result.errors == 0
    assert result.service_time_ms is not None
    assert result.service_time_ms["min"] >= 199  # timers have a resolution of 1 ms


def test_what_the_server_lacks_is_named(driver: Driver, server: NullServer) -> None:
    policy = task("create-ilm-policy", {"policy-name": "p", "body": {}, "retry-until-success": True})
    result = driver.run(server.url, policy)
    assert list(result.error_kinds) == ["not supported"]


def test_requests_reach_the_server_as_the_track_says(driver: Driver) -> None:
    with serve(STREAM) as server:
        created = driver.run(server.url, task("create-data-stream", {"data-stream": "logs"}))
        deleted = driver.run(server.url, task("delete-data-stream", {"data-stream": "logs", "opaque-id": "me"}))
    assert (created.errors, deleted.errors) == (0, 0)
    assert [f"{asked.method} {asked.target}" for asked in server.requests] == list(STREAM)
    assert server.requests[1].headers["X-Opaque-Id"] == "me"


def test_an_overloaded_server_is_asked_until_it_answers(driver: Driver, server: NullServer) -> None:
    server.use({"rules": [{"path": "/_nodes/stats", "first": 1, "last": 2, "reply": {"status": 503}}]})
    stats = {"retries": 2, "retry-wait-period": "10ms"}
    assert driver.run(server.url, task("node-stats", stats)).errors == 0
    assert server.counts().requests == 3
