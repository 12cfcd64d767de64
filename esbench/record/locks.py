"""The races and sessions that are running: a locked file for each, by which a race can be found and ended.

The kernel drops a lock with its process, so a file whose lock can be taken has no running process. A process is
signalled only while its lock is held, never because of its name.
"""

from __future__ import annotations

import fcntl
import fnmatch
import json
import os
import signal
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from esbench.errors import RaceError, RecordError, UsageError
from esbench.record.private import private_folder

UNSUCCESSFUL = ("failed", "died", "cancelled")
STATUSES = ("running", "complete", *UNSUCCESSFUL)  # that `status_now` returns
_POLL_S = 0.02
_TAKE_S = 1.0  # another esbench that looks whether we run holds the lock for microseconds
_KILL_S = 5.0


@dataclass(frozen=True)
class Claim:
    """The part of a cluster that a race uses: `targets` are the names and patterns of its indices and data streams.

    `cluster` is the cluster's UUID, "" if it has none; `hosts` are those that the user named.
    """

    cluster: str = ""
    hosts: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()

    def shared_with(self, other: Claim) -> tuple[str, ...]:
        """Return those of its targets that the other race uses, too; none if the clusters differ."""
        is_same = self.cluster == other.cluster if self.cluster and other.cluster else {*self.hosts} & {*other.hosts}
        if not is_same:
            return ()
        return tuple(name for name in self.targets if any(_overlap(name, theirs) for theirs in other.targets))


def _overlap(name: str, other: str) -> bool:
    return fnmatch.fnmatchcase(name, other) or fnmatch.fnmatchcase(other, name)


@dataclass(frozen=True)
class RunningRace:
    """A race that is running, and its process; `pid` is 0 if it is not known.

    `claims`: of each cluster, empty until its track is read.
    """

    race_id: str
    pid: int
    claims: tuple[Claim, ...] = ()


class RunLock:
    """Lock of a race or session: `with RunLock(file, 'race "a"'):` marks this process as the one that runs it.

    `what` names it in errors. Raises UsageError if another process runs it, RecordError if the file cannot be written.
    The file is removed at the end.
    """

    def __init__(self, path: Path, what: str) -> None:
        self.path = path
        self._what = what
        self._descriptor = -1

    def __enter__(self) -> Self:
        deadline = time.monotonic() + _TAKE_S
        try:
            private_folder(self.path.parent)
            while not self._take():
                if time.monotonic() > deadline:
                    what, pid = f"{self._what} is running already", _pid(self.path)
                    raise UsageError(what, where=str(self.path), hint=f"its process is {pid}" if pid else "")
                time.sleep(_POLL_S)
            os.truncate(self._descriptor, 0)
            os.write(self._descriptor, f"{os.getpid()}\n".encode())
        except OSError as error:
            raise RecordError(f"cannot be written: {error.strerror}", where=str(self.path)) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.path.unlink(missing_ok=True)
        os.close(self._descriptor)

    def _take(self) -> bool:
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        if _lock(descriptor) and _is_named(descriptor, self.path):
            self._descriptor = descriptor
            return True
        os.close(descriptor)
        return False


class RaceLock(RunLock):
    """Lock of a race: `with RaceLock(home, race_id):` marks this process as running that race."""

    def __init__(self, home: Path, race_id: str) -> None:
        super().__init__(_folder(home) / f"{race_id}.lock", f'race "{race_id}"')

    def claim(self, claims: Sequence[Claim]) -> None:
        """Write into the lock, for other races to see, what this race uses of each of its clusters."""
        os.pwrite(self._descriptor, f"{os.getpid()}\n{json.dumps([asdict(claim) for claim in claims])}\n".encode(), 0)


class SessionLock(RunLock):
    """Lock of a session, held between its races, too: marks this process as running that session."""

    def __init__(self, home: Path, session_id: str) -> None:
        super().__init__(_of_session(home, session_id), f'session "{session_id}"')


def is_running(home: Path, race_id: str) -> bool:
    """True if a process, this one included, holds the lock of that race. A file without a process is removed."""
    return is_held(_folder(home) / f"{race_id}.lock")


def session_is_running(home: Path, session_id: str) -> bool:
    """True if a process, this one included, holds the lock of that session.

    A file without a process is removed.
    """
    return is_held(_of_session(home, session_id))


def status_now(home: Path, race_id: str, status: str) -> str:
    """Return the present status of a race: `died` if its record says "running" and its process is gone.

    Any other `status` (that of its record) is returned as it is.
    """
    return "died" if status == "running" and not is_running(home, race_id) else status


def other_races(home: Path, own: Collection[str] = ()) -> tuple[RunningRace, ...]:
    """Return the races that are running under this home, except those with an id in `own`.

    Lock files without a process are removed.
    """
    return tuple(
        RunningRace(path.stem, _pid(path), _claims(path))
        for path in sorted(_folder(home).glob("*.lock"))
        if path.stem not in own and is_held(path)
    )


def end_other_races(home: Path, own: Collection[str] = (), *, grace_s: float = 10.0) -> tuple[RunningRace, ...]:
    """End every race that is not in `own`: SIGTERM, and SIGKILL for those that still hold their lock after `grace_s`.

    Returns the races that were ended. Raises RaceError when one belongs to another user or does not end.
    """
    races = other_races(home, own)
    _signal(home, races, signal.SIGTERM)
    left = _wait(home, races, grace_s)
    _signal(home, left, signal.SIGKILL)
    for race in _wait(home, left, _KILL_S):
        raise RaceError(f'race "{race.race_id}" (pid {race.pid}) does not end')
    return races


def _signal(home: Path, races: Sequence[RunningRace], number: signal.Signals) -> None:
    for race in races:
        if race.pid <= 0 or not is_running(home, race.race_id):
            continue
        try:
            os.kill(race.pid, number)
        except ProcessLookupError:
            pass
        except PermissionError as error:
            raise RaceError(
                f'race "{race.race_id}" (pid {race.pid}) cannot be ended: it belongs to another user'
            ) from error


def _wait(home: Path, races: Sequence[RunningRace], limit_s: float) -> list[RunningRace]:
    deadline = time.monotonic() + limit_s
    left = [race for race in races if is_running(home, race.race_id)]
    while left and time.monotonic() < deadline:
        time.sleep(_POLL_S)
        left = [race for race in left if is_running(home, race.race_id)]
    return left


def _folder(home: Path) -> Path:
    return home / "running"


def _of_session(home: Path, session_id: str) -> Path:
    return _folder(home) / "sessions" / f"{session_id}.lock"  # not beside those of races, which may be ended


def _lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_named(descriptor: int, path: Path) -> bool:
    """True if `path` still names the locked file: another process that tested the lock may have removed it in
    between."""
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def is_held(path: Path, *, remove: bool = True) -> bool:
    """True if a process, this one included, holds the lock of a file.

    `remove`: a file whose lock is not held is removed.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except PermissionError:  # another user's
        return _holder(path) > 0
    except OSError:  # gone meanwhile
        return False
    try:
        if not _lock(descriptor):
            return True
        if remove and _is_named(descriptor, path):
            with suppress(PermissionError):
                path.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


def _claims(path: Path) -> tuple[Claim, ...]:
    """Return the claims in a lock file, none if it has none yet."""
    try:
        found = json.loads(path.read_text().partition("\n")[2])
        return tuple(Claim(each["cluster"], tuple(each["hosts"]), tuple(each["targets"])) for each in found)
    except (OSError, ValueError, TypeError, KeyError):
        return ()


def _holder(path: Path) -> int:
    """Return the pid of the process that holds a file's lock, of any user, from /proc/locks (proc(5)); 0 for none."""
    try:
        file = f":{path.stat().st_ino}"
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return 0
    return next((int(lock[4]) for lock in locks if lock[1] == "FLOCK" and lock[5].endswith(file)), 0)


def _pid(path: Path) -> int:
    """Return the pid in a held lock file, which is written right after the lock is taken; 0 if it does not appear.

    Of another user's file, which cannot be read, it is that of /proc/locks.
    """
    deadline = time.monotonic() + _TAKE_S
    while True:
        try:
            return int(path.read_text().partition("\n")[0])
        except FileNotFoundError:
            return 0
        except PermissionError:
            return _holder(path)
        except ValueError:
            if time.monotonic() > deadline:
                return 0
        time.sleep(_POLL_S)
