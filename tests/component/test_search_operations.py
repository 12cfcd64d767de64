"""Operations of several requests over real sockets: rows of their parts, time that spans all, failures in them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from driver import Driver, task

from esbench.load.coordinator import StepFailed
from esbench.null_server import NullServer
from esbench.record.model import NamedRequest, TaskResult

SHARDS = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
SORTED = {"query": {"match_all": {}}, "sort": ["n"], "size": 2}


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[Driver]:
    with Driver(tmp_path) as running:
        yield running


def page(hits: int = 2, **keys: Any) -> dict[str, Any]:
    found = [{"_id": str(n), "sort": [n]} for n in range(hits)]
    total = {"value": 1000, "relation": "gte"}
    return {"took": 3, "timed_out": False, "_shards": SHARDS, "hits": {"total": total, "hits": found}, **keys}


def use(server: NullServer, *rules: dict[str, Any], delay_ms: float = 0) -> None:
    """Replies to paths that contain something, each after the same time."""
    delay = {"type": "constant", "ms": delay_ms}
    server.use({"rules": [*rules, {"path": "^/[^_]|^/_[^_]", "delay": delay}]})


def says(path: str, body: Any, **keys: Any) -> dict[str, Any]:
    return {"path": path, "reply": {"status": 200, "body": body}, **keys}


def parts(result: TaskResult) -> dict[str, NamedRequest]:
    return {part.name: part for part in result.requests_by_name}


def p50(times: Any) -> float:
    assert times is not None
    return float(times["p50"])


def test_pages_are_units_and_have_rows_and_the_task_spans_them_all(server: NullServer, driver: Driver) -> None:
    use(server, says("_search", page()), delay_ms=20)
    paged = task("paginated-search", {"body": SORTED, "pages": 3}, iterations=5, warmup_iterations=1)
    result = driver.run(server.url, paged)
    assert (result.requests, result.units, result.unit, result.errors) == (5, 15, "pages", 0)
    first, following = parts(result)["first-page"], parts(result)["next-page"]
    assert (first.requests, following.requests) == (5, 10)
    assert 20 <= p50(first.service_time_ms) < 40
    assert 60 <= p50(result.service_time_ms) < 120
    assert server.counts().requests == 18


def test_a_page_that_fails_is_told_with_its_own_request(server: NullServer, driver: Driver) -> None:
    use(server, {"path": "_search/scroll", "reply": {"status": 503}}, says("_search", page(_scroll_id="s1")))
    result = driver.run(server.url, task("search", {"pages": 3, "body": {}}, iterations=4))
    assert (result.requests, result.errors, result.units) == (4, 4, 0)
    (kind,) = result.error_kinds.values()
    assert (kind.request, kind.status) == ("POST /_search/scroll", 503)
    assert (parts(result)["next-page"].requests, parts(result)["next-page"].errors) == (4, 4)
    assert "close" not in parts(result)


def test_a_scroll_at_a_rate_of_pages_keeps_it(server: NullServer, driver: Driver) -> None:
    use(server, says("_search/scroll", page(_scroll_id="s1")), says("_search", page(_scroll_id="s1")))
    scroll = task("scroll-search", {"pages": 5, "body": {}}, rate="100 pages/s", time_period_s=1.0, clients=2)
    result = driver.run(server.url, scroll)
    assert result.target_unit == "pages"
    assert result.requests == pytest.approx(20, abs=1)
    assert result.throughput.mean == pytest.approx(100, rel=0.1)


def test_details_of_a_search_have_rows(server: NullServer, driver: Driver) -> None:
    use(server, says("_search", page()))
    result = driver.run(server.url, task("search", {"body": {}, "detailed-results": True}, iterations=4))
    assert parts(result)["hits"].requests == 4_000
    took = parts(result)["took"]
    assert took.requests == 4
    assert p50(took.service_time_ms) == pytest.approx(3, rel=0.01)


# composite


def stream(*paths: str) -> dict[str, Any]:
    requests = [{"operation-type": "raw-request", "name": path[1:], "path": path} for path in paths]
    return {"stream": requests}


def composite(*requests: dict[str, Any], iterations: int = 4, **params: Any) -> Any:
    return task("composite", {"requests": list(requests), **params}, iterations=iterations, warmup_iterations=1)


def test_streams_run_beside_each_other(server: NullServer, driver: Driver) -> None:
    use(server, says("/[abcd]$", {}), delay_ms=50)
    result = driver.run(server.url, composite(stream("/a", "/b"), stream("/c"), stream("/d")))
    assert (result.requests, result.units, result.errors) == (4, 4, 0)
    assert {name: part.requests for name, part in parts(result).items()} == {"a": 4, "b": 4, "c": 4, "d": 4}
    assert 100 <= p50(result.service_time_ms) < 150
    assert 50 <= p50(parts(result)["b"].service_time_ms) < 90
    assert server.counts().connections == 3


def test_connections_of_a_composite_are_as_few_as_it_says(server: NullServer, driver: Driver) -> None:
    use(server, says("/[abcd]$", {}), delay_ms=30)
    streams = [stream(f"/{name}") for name in "abcd"]
    result = driver.run(server.url, composite(*streams, **{"max-connections": 2}))
    assert 60 <= p50(result.service_time_ms) < 110
    assert 30 <= p50(parts(result)["d"].service_time_ms) < 60  # to wait for a connection is not in a request's own time
    assert server.counts().connections == 2


def test_a_point_in_time_is_handed_on(server: NullServer, driver: Driver) -> None:
    use(server, says("_pit", {"id": "p1"}), says("_search", page(pit_id="p2")))
    paged = {"operation-type": "paginated-search", "name": "list", "pages": 2, "body": SORTED}
    requests = (
        {"operation-type": "open-point-in-time", "name": "open"},
        {**paged, "with-point-in-time-from": "open"},
        {"operation-type": "close-point-in-time", "with-point-in-time-from": "open"},
    )
    result = driver.run(server.url, composite(*requests))
    assert result.errors == 0
    counted = {name: part.requests for name, part in parts(result).items()}
    assert counted == {
        "open": 4,
        "list": 4,
        "list/first-page": 4,
        "list/next-page": 4,
        "close-point-in-time": 4,
    }


def test_a_lost_connection_of_a_stream_fails_the_turn_and_is_renewed(server: NullServer, driver: Driver) -> None:
    use(server, {"path": "/a$", "first": 2, "last": 2, "fault": "cut-before"}, says("/[abc]$", {}), delay_ms=5)
    result = driver.run(server.url, composite(stream("/a"), stream("/b", "/c"), iterations=5))
    assert (result.requests, result.errors, result.units) == (5, 1, 4)
    (kind,) = result.error_kinds
    assert kind == "connection lost"
    assert result.error_kinds[kind].request == "GET /a"
    assert (parts(result)["a"].errors, parts(result)["c"].requests) == (1, 5)  # the stream beside it went on


def test_a_request_of_a_stream_that_hangs_times_out(server: NullServer, driver: Driver) -> None:
    use(server, {"path": "/b$", "first": 2, "last": 2, "fault": "hang"}, says("/[ab]$", {}))
    hanging = stream("/b")
    hanging["stream"][0]["request-timeout"] = 0.3
    result = driver.run(server.url, composite(stream("/a"), hanging))
    assert (result.requests, result.errors) == (4, 1)
    assert list(result.error_kinds) == ["timeout"]
    assert result.duration_s < 2


def test_composites_are_stopped_in_the_middle(server: NullServer, driver: Driver) -> None:
    use(server, {"path": "/b$", "fault": "hang"}, says("/[ac]$", {}), delay_ms=1)
    failing = task("raw-request", {"path": "/_nothing"}, name="failing", iterations=1)
    with Driver(driver.log.parent / "aborting", on_error="abort") as aborting, pytest.raises(StepFailed) as caught:
        (driver.log.parent / "aborting").mkdir(exist_ok=True)
        aborting.step(server.url, composite(stream("/a"), stream("/b"), iterations=100), failing)
    stopped = next(result for result in caught.value.results if result.name == "composite")
    assert stopped.duration_s < 3


# assertions


def test_a_failed_assertion_ends_even_a_race_that_goes_on(server: NullServer, driver: Driver) -> None:
    use(server, says("_search", page()))
    assertions = [{"property": "hits", "condition": "==", "value": 999}]
    with pytest.raises(StepFailed) as caught:
        driver.run(server.url, task("search", {"body": {}, "assertions": assertions}, iterations=50))
    (result,) = caught.value.results
    assert result.errors == 1
    assert result.error_kinds["assertion"].example == "hits should be == 999, and is 1000"
    assert "assertion for GET /orders/_search" in str(caught.value.error)


def test_assertions_that_hold_cost_nothing_in_the_figures(server: NullServer, driver: Driver) -> None:
    use(server, says("_search", page()))
    assertions = [{"property": "hits", "condition": ">", "value": 0}]
    result = driver.run(server.url, task("search", {"body": {}, "assertions": assertions}, iterations=20))
    assert (result.requests, result.errors) == (20, 0)
