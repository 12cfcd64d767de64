"""Locks of running races: held by a live process, taken over from a dead one, ended by pid and never by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from esbench.errors import UsageError
from esbench.record.locks import (
    Claim,
    RaceLock,
    RunningRace,
    SessionLock,
    end_other_races,
    is_running,
    other_races,
    session_is_running,
)

HOLD = """
import signal, sys, time
from pathlib import Path
from esbench.record.locks import RaceLock
if sys.argv[3] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
with RaceLock(Path(sys.argv[1]), sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""


class Holder:
    """Processes that hold a race's lock until they are signalled."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, race_id: str, manner: str = "polite") -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(self.home), race_id, manner], stdout=subprocess.PIPE, text=True
        )
        self.processes.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process


@pytest.fixture
def holder(esbench_home: Path) -> Iterator[Holder]:
    holder = Holder(esbench_home)
    yield holder
    for process in holder.processes:
        process.kill()
        process.communicate()


def test_a_session_is_run_by_one_process_and_is_no_race(esbench_home: Path) -> None:
    with SessionLock(esbench_home, "s"):
        assert session_is_running(esbench_home, "s")
        assert other_races(esbench_home) == ()
        with (
            pytest.raises(UsageError, match=rf'session "s" is running already \(its process is {os.getpid()}\)'),
            SessionLock(esbench_home, "s"),
        ):
            pass
    assert not session_is_running(esbench_home, "s")


def test_a_race_is_running_as_long_as_its_lock_is_held(esbench_home: Path) -> None:
    assert not is_running(esbench_home, "a")
    with RaceLock(esbench_home, "a"):
        assert is_running(esbench_home, "a")
        assert other_races(esbench_home) == (RunningRace("a", os.getpid()),)
        assert other_races(esbench_home, own={"a"}) == ()
    assert not is_running(esbench_home, "a")
    assert list((esbench_home / "running").iterdir()) == []


@contextmanager
def nobody() -> Iterator[None]:
    """Run as another user, if the tests run as root."""
    is_root = os.geteuid() == 0
    if is_root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if is_root:
            os.seteuid(0)


def test_the_race_of_another_user_is_running_too() -> None:
    with TemporaryDirectory() as folder, RaceLock(Path(folder), "a") as lock:
        for path in (lock.path.parent, Path(folder)):
            path.chmod(0o755)
        lock.path.chmod(0)
        (lock.path.parent / "dead.lock").touch(0)
        with nobody():
            assert is_running(Path(folder), "a")
            assert other_races(Path(folder)) == (RunningRace("a", os.getpid()),)


def test_a_race_that_runs_cannot_be_started_again(esbench_home: Path) -> None:
    with (
        RaceLock(esbench_home, "a"),
        pytest.raises(UsageError, match='race "a" is running already'),
        RaceLock(esbench_home, "a"),
    ):
        pass


def test_a_killed_race_is_not_running_and_its_file_is_removed(esbench_home: Path, holder: Holder) -> None:
    process = holder.start("a")
    assert other_races(esbench_home) == (RunningRace("a", process.pid),)
    process.kill()
    process.wait()
    assert other_races(esbench_home) == ()
    assert list((esbench_home / "running").iterdir()) == []


def test_other_races_are_ended_and_ones_own_is_not(esbench_home: Path, holder: Holder) -> None:
    first, second = holder.start("a"), holder.start("b")
    with RaceLock(esbench_home, "own"):
        ended = end_other_races(esbench_home, {"own"})
        assert is_running(esbench_home, "own")
    assert {race.pid for race in ended} == {first.pid, second.pid}
    assert (first.wait(5), second.wait(5)) == (-signal.SIGTERM, -signal.SIGTERM)


def test_a_race_that_ignores_the_request_is_killed(esbench_home: Path, holder: Holder) -> None:
    process = holder.start("a", "stubborn")
    end_other_races(esbench_home, grace_s=0.1)
    assert process.wait(5) == -signal.SIGKILL


def test_a_process_whose_lock_is_not_held_is_never_signalled(esbench_home: Path) -> None:
    bystander = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        (esbench_home / "running").mkdir(parents=True)
        (esbench_home / "running" / "a.lock").write_text(f"{bystander.pid}\n")
        assert end_other_races(esbench_home) == ()
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_a_child_of_the_race_does_not_keep_its_lock(esbench_home: Path) -> None:
    with RaceLock(esbench_home, "a"):
        child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        with RaceLock(esbench_home, "a"):
            pass
    finally:
        child.kill()
        child.wait()


CLAIM = Claim("uuid", ("es:9200",), ("orders", "logs-*"))


@pytest.mark.parametrize(
    ("other", "shared"),
    [
        (Claim("uuid", (), ("orders",)), ("orders",)),
        (Claim("uuid", (), ("ord*", "carts")), ("orders",)),
        (Claim("uuid", (), ("logs-a",)), ("logs-*",)),
        (Claim("uuid", (), ("carts",)), ()),
        (Claim("another", ("es:9200",), ("orders",)), ()),
        (Claim("", ("es:9200", "es2:9200"), ("orders",)), ("orders",)),
        (Claim("", ("es2:9200",), ("orders",)), ()),
        (Claim(), ()),
    ],
)
def test_races_share_indices_of_one_cluster(other: Claim, shared: tuple[str, ...]) -> None:
    assert CLAIM.shared_with(other) == shared
    assert bool(other.shared_with(CLAIM)) is bool(shared)


def test_races_of_nodes_of_their_own_share_nothing() -> None:
    assert Claim("", (), ("orders",)).shared_with(Claim("", (), ("orders",))) == ()


def test_the_lock_says_what_a_race_uses(esbench_home: Path) -> None:
    with RaceLock(esbench_home, "a") as lock:
        assert other_races(esbench_home) == (RunningRace("a", os.getpid()),)
        lock.claim([CLAIM])
        assert other_races(esbench_home) == (RunningRace("a", os.getpid(), (CLAIM,)),)
