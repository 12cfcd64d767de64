"""Messages between the coordinator and its workers that are longer than what a socket takes at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from driver import Driver, NullServerFactory, get

from esbench.model import Variable
from esbench.null_server import NullServer


@pytest.fixture(scope="module")
def server(null_servers: NullServerFactory) -> NullServer:
    return null_servers()


@pytest.fixture
def driver(tmp_path: Path, server: NullServer, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path) as driver:
        yield driver


def test_a_task_with_a_megabyte_of_values_reaches_its_worker(server: NullServer, driver: Driver) -> None:
    values = [f"value-{number}" for number in range(200_000)]
    task = get(clients=2, requests=20)
    operation = replace(task.operation, variables=(Variable("any_id", "list", {"data": values}),))

    result = driver.run(server.url, replace(task, operation=operation))

    assert result.requests == 20
    assert not result.errors
