"""Worker processes that die, hang or lose their coordinator; a driver that is told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from driver import Driver, bulk, documents, generated_documents, get, task

from esbench.errors import RaceError
from esbench.load.coordinator import Cancelled, StepFailed
from esbench.load.hot import clock_ns
from esbench.measure.slices import NS, SlicedTime
from esbench.measure.tally import Second
from esbench.null_server import NullServer
from esbench.record.model import TaskResult

ENDLESS = 60.0
SOON_S = 5.0  # well below any timeout, and enough for a busy machine


@pytest.fixture
def driver(tmp_path: Path, server: NullServer, event_loop_name: str) -> Iterator[Driver]:
    with Driver(tmp_path, workers=2, drain_s=0.5) as driver:
        driver.run(server.url, get(clients=600, iterations=1))  # both workers are there
        server.use({})
        yield driver


def workers_of(pid: int) -> list[psutil.Process]:
    """The load workers among a process' children, by their number."""
    workers = [child for child in psutil.Process(pid).children() if "esbench.worker.process" in child.cmdline()]
    return sorted(workers, key=lambda child: child.cmdline()[-1])


@pytest.fixture
def patient(tmp_path: Path, server: NullServer) -> Iterator[Driver]:
    """For tests that wait for a silence, whatever the event loop."""
    with Driver(tmp_path, workers=2) as driver:
        driver.run(server.url, get(clients=600, iterations=1))
        server.use({})
        yield driver


def names(result: TaskResult) -> list[str]:
    return [check.name for check in result.checks]


def after(delay_s: float, action: Callable[[], object]) -> None:
    threading.Timer(delay_s, action).start()


def when(condition: Callable[[], bool], action: Callable[[], object]) -> None:
    """Act in another thread as soon as something holds, or when it has not come to pass for long."""

    def wait() -> None:
        deadline = time.monotonic() + 4 * SOON_S
        while not condition() and time.monotonic() < deadline:
            time.sleep(0.01)
        action()

    threading.Thread(target=wait).start()


class FirstSecond:
    """Observes a step: acts a moment after the first second of task "a" was told, and keeps what was told of it."""

    def __init__(self, action: Callable[[], object]) -> None:
        self.told: list[Second] = []
        self._action = action

    def __call__(self, name: str, second: Second) -> None:
        if name == "a":
            if not self.told:
                after(0.3, self._action)
            self.told.append(second)

    @property
    def requests(self) -> int:
        return sum(second.tally.requests for second in self.told)


def wait_until_gone(processes: list[psutil.Process], within_s: float = SOON_S) -> None:
    _, alive = psutil.wait_procs(processes, timeout=within_s)
    assert alive == []


def test_workers_say_which_event_loop_they_run(driver: Driver, event_loop_name: str) -> None:
    assert [facts.loop for facts in driver.coordinator.drivers] == [event_loop_name] * 2


def test_a_killed_worker_is_named_with_its_task_and_the_others_keep_their_results(
    server: NullServer, driver: Driver
) -> None:
    first, _ = workers_of(os.getpid())
    observe = FirstSecond(first.kill)
    begin = time.monotonic()
    with pytest.raises(StepFailed) as caught:
        driver.step(
            server.url,
            get(name="a", rate=50, time_period_s=ENDLESS),
            get(name="b", rate=50, time_period_s=ENDLESS),
            observe=observe,
        )
    assert time.monotonic() - begin < SOON_S
    error = str(caught.value.error)
    assert error.startswith('task "a": load worker 0 ended unexpectedly (killed by SIGKILL)')
    assert str(driver.log) in error
    killed, other = caught.value.results
    assert (killed.name, killed.duration_s, killed.requests) == ("a", len(observe.told), observe.requests)
    assert killed.requests >= 45
    (check,) = (check for check in killed.checks if check.name == "incomplete")
    assert check.level == "unusable"
    assert check.message.startswith("load worker 0 ended unexpectedly (killed by SIGKILL)")
    assert (other.name, "incomplete" in names(other)) == ("b", False)
    assert other.requests > 60


def test_a_task_that_no_tick_has_told_of_is_named_all_the_same(server: NullServer, driver: Driver) -> None:
    """And the other worker's share of a task that two of them run is in its result."""
    first, _ = workers_of(os.getpid())
    when(lambda: server.counts().requests > 60, first.kill)
    with pytest.raises(StepFailed) as caught:
        driver.step(server.url, get(name="a", clients=600, rate=200, time_period_s=ENDLESS), get(name="b", rate=1))
    both, _ = caught.value.results
    assert (both.name, both.workers) == ("a", 2)
    assert "incomplete" in names(both)
    assert 20 < both.requests < server.counts().requests


def test_a_worker_that_hangs_is_ended_and_what_it_told_is_kept(server: NullServer, patient: Driver) -> None:
    first, second = workers_of(os.getpid())
    stopped_at: list[float] = []

    def stop() -> None:
        first.suspend()
        stopped_at.append(time.monotonic())

    observe = FirstSecond(stop)
    with pytest.raises(StepFailed, match=r'task "a": load worker 0 has sent nothing for \d+ s') as caught:
        patient.step(
            server.url,
            get(name="a", rate=50, time_period_s=60),
            get(name="b", rate=50, time_period_s=60),
            observe=observe,
        )
    patient.coordinator.__exit__()
    assert time.monotonic() - stopped_at[0] < 10
    assert not first.is_running()
    assert not second.is_running()
    hung, other = caught.value.results
    assert (hung.requests, "incomplete" in names(hung)) == (observe.requests, True)
    assert hung.requests >= 45
    assert (other.errors, "incomplete" in names(other)) == (0, False)
    assert other.requests > 250


def test_a_worker_with_nothing_left_to_do_waits_for_the_others(server: NullServer, patient: Driver) -> None:
    """For longer than a silence may be."""
    tasks = get(name="a", rate=5, time_period_s=1), get(name="b", rate=5, time_period_s=8)
    assert [result.requests for result in patient.step(server.url, *tasks)] == [5, 40]
    assert patient.run(server.url, get(clients=600, iterations=1)).requests == 600  # both live on


def test_a_worker_that_dies_when_it_has_nothing_left_to_do_is_named(server: NullServer, patient: Driver) -> None:
    idle, _ = workers_of(os.getpid())
    after(1.5, idle.kill)
    with pytest.raises(StepFailed, match=r"^load worker 0 ended unexpectedly \(killed by SIGKILL\)"):
        patient.step(server.url, get(name="a", iterations=1), get(name="b", rate=5, time_period_s=ENDLESS))


def test_a_worker_that_hangs_when_it_has_nothing_left_to_do_is_ended(server: NullServer, patient: Driver) -> None:
    idle, _ = workers_of(os.getpid())
    after(1.5, idle.suspend)
    with pytest.raises(StepFailed, match=r"^load worker 0 has sent nothing for \d+ s") as caught:
        patient.step(server.url, get(name="a", iterations=1), get(name="b", rate=5, time_period_s=ENDLESS))
    assert not idle.is_running()
    assert [result.requests > 0 for result in caught.value.results] == [True, True]


def test_a_task_is_judged_by_the_workers_that_it_runs_on(server: NullServer, patient: Driver) -> None:
    busy, idle = patient.step(
        server.url, get(name="a", clients=8, time_period_s=2), get(name="b", time_period_s=2, rate=1)
    )
    assert busy.worker_health is not None
    assert idle.worker_health is not None
    assert busy.worker_health.busy_ratio > 2 * idle.worker_health.busy_ratio


def test_a_coordinator_that_is_held_up_ends_no_worker(server: NullServer, patient: Driver) -> None:
    """A listener waits for its disk for longer than a silence may be."""
    held_up: list[Second] = []

    def observe(name: str, second: Second) -> None:
        if not held_up:
            time.sleep(8)
        held_up.append(second)

    result = patient.run(server.url, get(rate=100, clients=8, time_period_s=10), observe=observe)
    assert result.requests == 1_000
    assert len(held_up) in (10, 11)  # the last replies may come in the eleventh second


def test_a_worker_is_heard_while_other_sides_have_their_slices(patient: Driver, server: NullServer) -> None:
    """Six slices of others lie between the first two of a side of four: longer than any silence may be."""
    step_time = SlicedTime(0, NS, NS // 20, 0, sides=4, side=0, seed=1)
    outer = replace(step_time, side=step_time.side_at(0))

    def begin(delay_ns: int) -> SlicedTime:
        return replace(outer, start_ns=clock_ns() + NS // 10)

    result = patient.run(server.url, get(clients=600, time_period_s=2, think_time_s=0.1), begin=begin)
    assert (result.window.end_s, result.errors) == (2, 0)


def test_a_worker_that_died_between_steps_is_named(server: NullServer, driver: Driver) -> None:
    workers_of(os.getpid())[0].kill()
    with pytest.raises(RaceError, match=r"load worker 0 .*\(killed by SIGKILL\)"):
        driver.run(server.url, get())


def test_a_worker_that_dies_while_it_prepares_is_named(server: NullServer, driver: Driver) -> None:
    worker = workers_of(os.getpid())[0]
    worker.suspend()
    after(0.5, worker.kill)
    with pytest.raises(RaceError, match=r'task "get": load worker 0 ended unexpectedly \(killed by SIGKILL\)'):
        driver.run(server.url, get())


def test_a_worker_that_is_stopped_while_it_prepares_is_ended(server: NullServer, patient: Driver) -> None:
    worker = workers_of(os.getpid())[0]
    worker.suspend()
    begin = time.monotonic()
    with pytest.raises(RaceError, match=r'task "get": load worker 0 has sent nothing for \d+ s'):
        patient.run(server.url, get())
    assert time.monotonic() - begin < 10
    assert not worker.is_running()


def test_workers_end_with_the_driver(server: NullServer, tmp_path: Path) -> None:
    with Driver(tmp_path, workers=2, drain_s=0.2) as driver:
        driver.run(server.url, get(clients=600, iterations=1))  # a process has no command line before its exec ends
        server.use({"rules": [{"fault": "hang"}]})
        workers = workers_of(os.getpid())
        after(0.5, driver.coordinator.cancel)
        with pytest.raises(Cancelled):
            driver.run(server.url, get(clients=600, time_period_s=ENDLESS))
    assert len(workers) == 2
    assert not any(worker.is_running() for worker in workers)


def test_workers_end_when_their_coordinator_is_killed(server: NullServer, tmp_path: Path) -> None:
    program = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[1] / "helpers")!r})
from driver import Driver, get
with Driver(Path({str(tmp_path)!r}), workers=2) as driver:
    driver.run({server.url!r}, get(clients=600, rate=200, time_period_s=60))
"""
    coordinator = subprocess.Popen([sys.executable, "-c", program])
    try:
        deadline = time.monotonic() + 20
        while server.counts().requests < 20:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        workers = workers_of(coordinator.pid)
        assert len(workers) == 2
    finally:
        coordinator.kill()
        coordinator.wait()
    wait_until_gone(workers)
    assert (tmp_path / "worker.log").read_text() == ""


# cancel


def test_a_cancel_drains_and_keeps_what_was_measured(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "delay": {"type": "constant", "ms": 100}}]})
    when(lambda: server.counts().requests > 20, driver.coordinator.cancel)
    begin = time.monotonic()
    with pytest.raises(Cancelled) as caught:
        driver.step(
            server.url, get(name="open", rate=50, clients=10, time_period_s=ENDLESS), get(time_period_s=ENDLESS)
        )
    assert time.monotonic() - begin < SOON_S
    assert [(result.name, result.errors) for result in caught.value.results] == [("open", 0), ("get", 0)]
    assert sum(result.requests for result in caught.value.results) == server.counts().requests > 15


def test_a_cancel_gives_up_what_hangs_after_the_drain(server: NullServer, driver: Driver) -> None:
    server.use({"rules": [{"path": "_doc", "first": 10, "fault": "hang"}]})
    when(lambda: server.counts().requests == 12, driver.coordinator.cancel)
    begin = time.monotonic()
    with pytest.raises(Cancelled) as caught:
        driver.run(server.url, get(clients=3, time_period_s=ENDLESS))
    assert time.monotonic() - begin < SOON_S
    (result,) = caught.value.results
    assert result.requests == server.counts().requests == 12
    assert result.error_kinds["cancelled"].count == result.errors == 3


def test_a_second_cancel_does_not_wait(server: NullServer, tmp_path: Path) -> None:
    server.use({"rules": [{"path": "_doc", "first": 10, "fault": "hang"}]})
    with Driver(tmp_path, drain_s=30) as driver:
        driver.run(server.url, get())
        for delay_s in (0.3, 0.7):
            after(delay_s, driver.coordinator.cancel)
        begin = time.monotonic()
        with pytest.raises(Cancelled):
            driver.run(server.url, get(clients=3, time_period_s=ENDLESS))
        assert time.monotonic() - begin < SOON_S


def test_a_cancel_is_heard_while_a_step_is_prepared(server: NullServer, driver: Driver) -> None:
    for worker in workers_of(os.getpid()):
        worker.suspend()
    after(0.3, driver.coordinator.cancel)
    begin = time.monotonic()
    with pytest.raises(Cancelled) as caught:
        driver.run(server.url, get())
    assert time.monotonic() - begin < SOON_S
    assert caught.value.results == ()
    for worker in workers_of(os.getpid()):
        worker.resume()


def test_a_worker_that_hangs_does_not_hold_a_cancel(server: NullServer, driver: Driver) -> None:
    worker = workers_of(os.getpid())[0]
    after(0.3, worker.suspend)
    after(0.5, driver.coordinator.cancel)
    begin = time.monotonic()
    with pytest.raises(Cancelled):
        driver.run(server.url, get(rate=10, time_period_s=ENDLESS))
    assert time.monotonic() - begin < SOON_S
    worker.kill()


# errors that come up while the clock runs


def test_a_programming_error_ends_the_step_and_leaves_its_traceback(
    server: NullServer, driver: Driver, tmp_path: Path
) -> None:
    docs = documents(tmp_path, 1_000)
    docs.path.write_bytes(b"")  # the file that the workers are about to map vanishes under them
    begin = time.monotonic()
    with pytest.raises((StepFailed, RaceError), match=r"an internal error in a load worker.*logs/worker\.log"):
        driver.run(server.url, bulk(10, clients=2), docs=docs)
    assert time.monotonic() - begin < SOON_S
    assert "Traceback" in driver.log.read_text()
    assert driver.run(server.url, get()).requests == 1  # the worker lives on


# what workers start


def feeds_of(workers: list[psutil.Process]) -> list[psutil.Process]:
    return [child for worker in workers for child in worker.children(recursive=True)]


def test_a_feed_of_documents_ends_with_its_task(server: NullServer, driver: Driver, tmp_path: Path) -> None:
    docs = generated_documents(tmp_path, 100)
    feeds: list[psutil.Process] = []
    when(lambda: server.counts().documents > 10, lambda: feeds.extend(feeds_of(workers_of(os.getpid()))))
    result = driver.run(server.url, task("index", rate=200, clients=2, time_period_s=0.8), docs=docs)
    assert result.units == result.requests == server.counts().documents > 100
    assert result.due == 160
    assert feeds
    wait_until_gone(feeds)


def test_a_feed_that_stands_still_says_so_before_its_worker_is_taken_for_silent(
    server: NullServer, driver: Driver, tmp_path: Path
) -> None:
    docs = generated_documents(tmp_path, 100)
    feeds: list[psutil.Process] = []

    def stop() -> None:
        feeds.extend(feeds_of(workers_of(os.getpid())))
        for feed in feeds:
            feed.suspend()

    when(lambda: server.counts().documents > 10, stop)
    with pytest.raises(StepFailed, match=r"no document was made within 4 s .the process that makes them stands still"):
        driver.run(server.url, task("index", clients=8, time_period_s=ENDLESS), docs=docs)
    wait_until_gone(feeds)
    assert driver.run(server.url, get()).requests == 1  # the worker lives on


def test_a_feed_of_documents_ends_with_its_worker(server: NullServer, driver: Driver, tmp_path: Path) -> None:
    docs = generated_documents(tmp_path, 100)
    feeds: list[psutil.Process] = []

    def kill() -> None:
        workers = workers_of(os.getpid())
        feeds.extend(feeds_of(workers))
        for worker in workers:
            worker.kill()

    when(lambda: server.counts().documents > 10, kill)
    with pytest.raises(StepFailed):
        driver.run(server.url, task("index", time_period_s=ENDLESS, think_time_s=0.001), docs=docs)
    assert feeds
    wait_until_gone(feeds)


def test_the_terminals_ctrl_c_does_not_reach_the_workers(server: NullServer, driver: Driver) -> None:
    for worker in workers_of(os.getpid()):
        assert os.getsid(worker.pid) != os.getsid(0)
        worker.send_signal(signal.SIGINT)
    assert driver.run(server.url, get(clients=600, iterations=1)).requests == 600
