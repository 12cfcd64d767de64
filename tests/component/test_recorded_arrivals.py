"""Recorded arrivals over real sockets: every request once, in order, at its time, by any number of workers."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from random import Random

import pytest
from driver import Driver
from logging_server import LoggingServer
from recorded import recorded_task

pytestmark = pytest.mark.alone
COUNT = 900


@pytest.fixture(scope="module")
def three_workers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    with Driver(tmp_path_factory.mktemp("driver"), workers=3) as driver:
        yield driver


@pytest.mark.parametrize(("clients", "workers"), [(4, 1), (1200, 3)])
def test_each_arrival_carries_its_request(three_workers: Driver, tmp_path: Path, clients: int, workers: int) -> None:
    draw = Random(7)
    times_s = [*accumulate(draw.expovariate(300) for _ in range(COUNT))]
    with LoggingServer() as server:
        result = three_workers.run(server.url, recorded_task(tmp_path, times_s, clients=clients))
        log = list(server.log)
    assert (result.workers, result.due, result.sent, result.unsent, result.errors) == (workers, COUNT, COUNT, 0, 0)
    assert result.schedule == "recorded"
    assert result.target_rate_per_s is None
    seen = {int(line.rpartition("=")[2]): at_ns / 1e9 for at_ns, line in log}
    assert len(log) == COUNT
    assert sorted(seen) == list(range(COUNT))
    zero_s = min(seen[number] - times_s[number] for number in seen)
    late_s = [seen[number] - times_s[number] - zero_s for number in range(COUNT)]
    assert sorted(late_s)[COUNT // 2] < 0.004, "the gaps are those of the file"
    swapped = sum(seen[number] > seen[number + 1] + 0.002 for number in range(COUNT - 1))
    assert swapped < COUNT // 20, "they come in order, as far as the machine lets them"
    took, hits = ({row.name: row for row in result.requests_by_name}[name] for name in ("took", "hits"))
    assert (took.requests, hits.requests) == (COUNT, 7 * COUNT)


def test_a_closed_loop_sends_them_in_order_and_ends_with_the_file(three_workers: Driver, tmp_path: Path) -> None:
    with LoggingServer() as server:
        result = three_workers.run(server.url, recorded_task(tmp_path, [0.0] * 300, clients=1, is_open=False))
        log = list(server.log)
    assert result.requests == 300
    assert [line for _, line in log] == [f"POST /orders/_search?n={number}" for number in range(300)]
