"""A race that is interrupted or killed: what it keeps, how fast it ends, and that nothing runs on."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from driver import NullServerFactory
from racing import Races, interrupt, press_ctrl_c, wait_until

from esbench.record.store import RaceStore

SOON_S = 4  # less than the drain, and enough on a busy machine


@pytest.fixture
def races(tmp_path: Path, event_loop_name: str) -> Iterator[Races]:
    races = Races(tmp_path)
    yield races
    races.end()


def children_of(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def assert_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=SOON_S)
    assert alive == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_an_interrupt_keeps_what_was_measured(
    number: signal.Signals, null_server: NullServerFactory, races: Races, event_loop_name: str
) -> None:
    server = null_server()
    process = races.start(server, "--challenge=endless", "--workers=2")
    wait_until(lambda: server.counts().requests > 60, process)
    children = children_of(process.pid)
    assert len(children) == 2
    interrupt(process, number)
    outcome = races.finish(process)
    assert outcome.code == 130
    assert outcome.seconds < SOON_S  # nothing was in flight that had to be awaited
    record = races.record()
    assert (record.status, record.failure) == ("cancelled", None)
    assert f"esbench: cancelled; what was measured is in race {record.race_id}" in outcome.error
    assert [task.name for task in record.tasks] == ["first", "paced"]
    assert sum(task.requests for task in record.tasks) == server.counts().by_class["GET /*/_doc/*"]
    assert all(task.errors == 0 for task in record.tasks)
    assert record.drivers[0].loop == event_loop_name
    assert "Per second" in outcome.stdout
    assert_gone(children)


def test_an_interrupt_waits_for_what_is_in_flight_and_a_second_one_does_not(
    null_server: NullServerFactory, races: Races
) -> None:
    server = null_server({"rules": [{"path": "_doc", "first": 40, "fault": "hang"}]})
    process = races.start(server, "--challenge=endless")
    wait_until(lambda: server.counts().by_class.get("GET /*/_doc/*", 0) >= 43, process)
    children = children_of(process.pid)
    press_ctrl_c(process)
    time.sleep(0.7)
    assert process.poll() is None
    press_ctrl_c(process)
    outcome = races.finish(process)
    assert outcome.code == 130
    assert outcome.seconds < SOON_S
    record = races.record()
    first, killed = record.tasks
    assert (record.status, first.name, killed.name) == ("cancelled", "first", "paced")
    assert "incomplete" in [check.name for check in killed.checks]
    assert races.series(record.race_id)
    assert_gone(children)


@pytest.mark.parametrize("arguments", [(), ("--challenge=endless",)], ids=["at once", "in a step"])
def test_a_race_on_a_terminal_that_is_gone_is_cancelled(
    arguments: tuple[str, ...], null_server: NullServerFactory, races: Races
) -> None:
    """Nothing more can be written: neither progress nor a table nor the error."""
    server = null_server() if arguments else null_server({"rules": [{"path": "^/$", "fault": "hang"}]})
    ours, terminal = os.openpty()
    process = races.start(server, *arguments, terminal=terminal)
    os.close(terminal)
    wait_until(lambda: server.counts().requests > (60 if arguments else 0), process)
    os.close(ours)
    interrupt(process, signal.SIGHUP)
    assert process.wait(timeout=60) == 130
    assert [entry.status for entry in RaceStore(races.home).entries()[0]] == ["cancelled"] * bool(arguments)


def test_an_interrupt_before_the_first_request_leaves_nothing(null_server: NullServerFactory, races: Races) -> None:
    server = null_server({"rules": [{"path": "^/$", "delay": {"type": "constant", "ms": 1_800}}]})
    process = races.start(server)
    wait_until(lambda: server.counts().requests == 1, process)
    press_ctrl_c(process)
    outcome = races.finish(process)
    assert (outcome.code, outcome.error) == (130, "esbench: cancelled")
    assert outcome.seconds < SOON_S
    assert list((races.home / "races").iterdir()) == []
    assert list((races.home / "running").iterdir()) == []


def test_an_interrupt_while_statistics_are_read_is_heard(null_server: NullServerFactory, races: Races) -> None:
    """Before the steps, and after them."""
    server = null_server({"rules": [{"path": "_nodes/stats", "fault": "hang"}]})
    process = races.start(server, "--include-tasks=closed")
    wait_until(lambda: any("_nodes/stats" in name for name in server.counts().by_class), process)
    press_ctrl_c(process)
    outcome = races.finish(process)
    assert outcome.code == 130
    assert outcome.seconds < SOON_S
    assert races.record().status == "cancelled"

    server.use({"rules": [{"path": "orders/_stats/indexing", "first": 2, "fault": "hang"}]})
    process = races.start(server, "--include-tasks=closed")
    wait_until(lambda: server.counts().by_class.get("GET /*/_doc/*", 0) == 120, process)
    time.sleep(0.5)
    press_ctrl_c(process)
    outcome = races.finish(process)
    assert outcome.code == 130
    assert outcome.seconds < SOON_S
    record = races.record()
    assert (record.status, [task.requests for task in record.tasks]) == ("cancelled", [100])


def test_a_killed_worker_fails_the_race_by_name(null_server: NullServerFactory, races: Races) -> None:
    server = null_server()
    process = races.start(server, "--challenge=endless", "--workers=2")
    wait_until(lambda: server.counts().requests > 60, process)
    children = children_of(process.pid)
    min(children, key=lambda child: child.cmdline()[-1]).kill()
    outcome = races.finish(process)
    assert outcome.code == 1
    assert outcome.seconds < SOON_S
    assert 'task "paced": load worker 0 ended unexpectedly (killed by SIGKILL)' in outcome.error
    record = races.record()
    assert record.status == "failed"
    assert record.failure is not None
    assert "load worker 0" in record.failure
    first, killed = record.tasks
    assert (first.name, killed.name) == ("first", "paced")
    assert "load worker 0 ended" in next(check.message for check in killed.checks if check.name == "incomplete")
    assert "! paced: load worker 0 ended unexpectedly (killed by SIGKILL)" in outcome.stdout
    assert races.series(record.race_id)
    assert_gone(children)


def test_nothing_outlives_a_race_that_is_killed(null_server: NullServerFactory, races: Races) -> None:
    server = null_server()
    process = races.start(server, "--challenge=endless", "--workers=2")
    wait_until(lambda: server.counts().requests > 60, process)
    children = children_of(process.pid)
    process.send_signal(signal.SIGKILL)
    assert_gone(children)
    record = races.record()
    assert (record.status, [task.name for task in record.tasks]) == ("running", ["first"])  # the evidence
    for command in (["list", "races"], ["show", record.race_id]):
        assert "died" in races.ask(*command)


def test_a_race_that_is_killed_before_it_begins_leaves_a_readable_record(
    null_server: NullServerFactory, races: Races
) -> None:
    process = races.start(null_server(), "--race-id=early", "--user-tags=why:test")
    folder = races.home / "races" / "early"
    wait_until(folder.exists, process)
    process.kill()
    process.wait()
    record = RaceStore(races.home).load("early")
    assert (record.status, record.tasks, record.damage) == ("running", (), "")
    assert record.user_tags == {"why": "test"}
    assert " died " in races.ask("list", "races")
    assert "the race is not complete (died)" in " ".join(races.ask("show", "early").split())
