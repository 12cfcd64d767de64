"""Sides raced at once: by the servers' own logs, each request lies in a slice of its side, and none is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from driver import Driver, all_requests, all_units, bulk, documents, get, task

from esbench.load.hot import clock_ns
from esbench.measure.slices import NS, SlicedTime
from esbench.measure.tally import Tally
from esbench.model import Task
from esbench.null_server import NullServer
from esbench.null_server.log import LogLine
from esbench.record.model import TaskResult

pytestmark = pytest.mark.alone  # a request may arrive late on a busy machine, and then lies in the other side's slice

MS = 1_000_000
GAP_MS = 50
READ_AFTER_WRITE = {"id": "$[[any_id]]", "body": {"n": 1}}
SLOW = {"rules": [{"path": "/_doc/", "delay": {"type": "constant", "ms": 8}}]}

# A request is sent in its slice, and may arrive a little later: the machine of the tests is busy.
LATE_NS = 40 * MS


@dataclass(frozen=True)
class Raced:
    """A side of a step: its time, the results of its tasks, its seconds, the log of its server."""

    time: SlicedTime
    results: tuple[TaskResult, ...]
    tallies: dict[tuple[str, int, bool], Tally]
    log: list[LogLine]

    @property
    def result(self) -> TaskResult:
        return self.results[0]

    def outside(self, path: str = "") -> list[LogLine]:
        """The requests that came outside of the slices of this side."""
        lines = [line for line in self.log if path in line.path]
        return [
            line
            for line in lines
            if not (begin := self.time.slice_at(line.received_ns - LATE_NS).begin_ns) - LATE_NS
            <= line.received_ns
            <= max(begin, self.time.slice_at(line.received_ns - LATE_NS).end_ns) + LATE_NS
        ]


Race = Callable[..., list[Raced]]


@pytest.fixture
def race(tmp_path: Path) -> Iterator[Race]:
    """Races the same tasks on two null servers at once, in slices, from when the workers of both are ready."""
    with ExitStack() as stack:

        def raced(*tasks: Task, script: Any = SLOW, length_s: int = 1, docs: bool = False, **keys: Any) -> list[Raced]:
            starts_ns: list[int] = []
            ready = Barrier(2, lambda: starts_ns.append(clock_ns() + NS // 4), timeout=30)
            pool = stack.enter_context(ThreadPoolExecutor(2))

            def time_of(side: int) -> SlicedTime:
                return SlicedTime(starts_ns[0], length_s * NS, GAP_MS * MS, 100 * MS, 2, side, seed=3)

            def side(number: int) -> Raced:
                folder = tmp_path / str(number)
                folder.mkdir()
                prepared = documents(folder, 20_000) if docs else None

                def begin(delay_ns: int) -> SlicedTime:
                    ready.wait()
                    return time_of(number)

                with NullServer(script, log=True) as server, Driver(folder) as driver:
                    results = driver.step(server.url, *tasks, begin=begin, docs=prepared, **keys)
                    assert driver.heard.stretch == time_of(number).stretch == 2 * (1 + GAP_MS / 1000 / length_s)
                    tallies = {(name, each.second, each.warmup): each.tally for name, each in driver.seconds}
                    return Raced(time_of(number), results, tallies, server.log())

            return list(pool.map(side, range(2)))

        yield raced


def check(sides: Sequence[Raced], path: str = "/_doc/") -> None:
    """No request lies outside of the slices of its side; every one is counted once."""
    for side in sides:
        assert side.outside(path) == []
        asked = [line for line in side.log if path in line.path]
        assert sum(all_requests(result) for result in side.results) == len(asked)
        assert sum(tally.requests for tally in side.tallies.values()) == len(asked)


def test_a_closed_loop_sends_in_its_slices_only(race: Race) -> None:
    sides = race(get(clients=8, time_period_s=2))
    check(sides)
    for side in sides:
        result = side.result
        assert (result.window.start_s, result.window.end_s) == (0, 2)
        assert result.slices is not None and result.slices.sides == 2
        # eight clients, 8 ms each: 1,000/s of its own time, whatever the other side does
        assert result.throughput.mean == pytest.approx(len(side.log) / 2, rel=0.05)
        assert result.driver_share_ratio is not None and result.driver_share_ratio < 0.5
        assert {second for _, second, _ in side.tallies} == {0, 1}
        settling = sum(tally.requests for (_, _, warmup), tally in side.tallies.items() if warmup)
        assert settling == pytest.approx(0.1 * len(side.log), rel=0.25)


def test_an_open_loop_keeps_its_rate_in_its_own_time(race: Race) -> None:
    sides = race(get(clients=32, rate=300, time_period_s=2))
    check(sides)
    for side in sides:
        result = side.result
        assert all_requests(result) == pytest.approx(600, abs=1)
        assert result.throughput.mean == pytest.approx(300, rel=0.01)
        assert result.latency_ms is not None
        assert result.latency_ms["p50"] == pytest.approx(8, rel=0.5)
        assert result.unsent == 0


def test_nobody_is_charged_for_the_slice_of_the_other_side(race: Race) -> None:
    """A line of arrivals that waits over the other side's slices grows no older in them."""
    script = {"rules": [{"path": "/_doc/", "delay": {"type": "constant", "ms": 20}}]}
    sides = race(get(clients=2, rate=150, time_period_s=3), script=script)  # 100/s are possible
    for side in sides:
        assert side.outside("/_doc/") == []
        latencies = side.result.latency_ms
        assert latencies is not None and side.result.unsent
        # after 3 s of its own time, the last one sent was due 1/3 of that ago
        assert latencies["max_at_least"] < 2_000


def test_bulks_are_sent_once_each_to_the_end_of_the_documents(race: Race) -> None:
    sides = race(bulk(50, clients=2), script={}, docs=True)
    for side in sides:
        assert all_units(side.result) == 20_000
        assert side.outside("_bulk") == []


def test_the_parts_of_a_sequence_follow_one_another(race: Race) -> None:
    sides = race(task("read-after-write", READ_AFTER_WRITE, clients=4, time_period_s=2))
    for side in sides:
        assert side.outside("/_doc/") == []
        assert 2 * all_requests(side.result) == len(side.log)


def test_a_task_that_waits_for_clients_of_another_begins_with_a_slice(race: Race) -> None:
    first, second = get(name="first", clients=4, time_period_s=2), get(name="second", clients=4, time_period_s=2)
    sides = race(first, second, clients=4)
    check(sides)
    for side in sides:
        assert [result.window.end_s for result in side.results] == [2, 2]
        slices = side.results[1].slices
        assert slices is not None and slices.skipped == 2


def test_a_task_that_another_ends_is_over_with_it(race: Race) -> None:
    first, second = get(name="first", clients=2, time_period_s=2), get(name="second", clients=2, time_period_s=100)
    began_s = time.monotonic()
    sides = race(first, second, completed_by="first")
    assert time.monotonic() - began_s < 40
    check(sides)


def test_what_is_in_flight_in_the_slice_of_the_other_side_is_counted(race: Race) -> None:
    script = {"rules": [{"path": "/_doc/", "delay": {"type": "constant", "ms": 150}}]}
    sides = race(get(clients=4, time_period_s=2), script=script)
    check(sides)
    assert all(side.result.slices is not None and side.result.slices.overlapping > 0 for side in sides)
