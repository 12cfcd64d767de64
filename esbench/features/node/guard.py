"""The guard of one node: a process that starts the node, and ends it when the process that asked for it is gone.

Run as `python -m esbench.features.node.guard`; imports nothing but the standard library. Its standard input is a pipe
whose other end only the asking process holds:

- the first line is the plan, JSON: command, environment, folder, console, user, logs, kept, grace_s;
- the line `release` lets the node live on; its folder, and the file `kept`, whose lock shows that the guard lives,
  are removed when the node ends;
- the end of the input, by a stop or by any death of the asking process, ends the node's process group, saves
  its logs and removes its folder.

On standard output it writes one JSON line per event: `{"pid": n}`, `{"error": text}`, `{"exit": code}`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

KILL_PATIENCE_S = 5.0
RELEASED_POLL_S = 0.5


def main() -> None:
    """Guard one node until its end."""
    os.umask(0o077)  # a node's log may have the settings in it
    with contextlib.ExitStack() as stack:
        wake_read, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write)
        # handlers, not SIG_IGN: an ignored signal would stay ignored in the node
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        orders = _Orders(sys.stdin.fileno())
        plan = orders.plan()
        if plan is None:
            return
        stack.callback(_finish, plan)
        try:
            node = _start(plan)
        except (OSError, subprocess.SubprocessError) as error:
            _tell(error=str(error))
            orders.wait([])
            return
        _tell(pid=node.pid)
        told = False
        while True:
            order = orders.wait([wake_read])
            if order == "release":
                _lock(plan["kept"])
                if os.fork():
                    stack.pop_all()  # the asking process sees its guard end; the child cleans up one day
                else:
                    _wait_detached(node.pid)
                return
            if order == "stop":
                end_group(node.pid, float(plan["grace_s"]), node.poll)
                return
            os.read(wake_read, 4096)
            if not told and node.poll() is not None:
                told = True
                _tell(exit=node.returncode)


class _Orders:
    """The orders on standard input, line by line."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._buffer = b""

    def plan(self) -> dict[str, Any] | None:
        """Return the plan, which is the first line; None if the asking process died before the line was complete."""
        while b"\n" not in self._buffer:
            data = os.read(self._fd, 65536)
            if not data:
                return None
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))

    def wait(self, others: list[int]) -> str:
        """Wait for an order: "release", "stop", or "" if one of the descriptors `others` can be read."""
        while True:
            if b"release\n" in self._buffer:
                return "release"
            readable, _, _ = select.select([self._fd, *others], [], [])
            if self._fd not in readable:
                return ""
            data = os.read(self._fd, 65536)
            if not data:
                return "stop"
            self._buffer += data


def _start(plan: dict[str, Any]) -> subprocess.Popen[bytes]:
    user: dict[str, Any] = {}
    if plan["user"] is not None:
        user = {"user": plan["user"], "group": plan["user"], "extra_groups": []}
    with Path(plan["console"]).open("ab") as console:
        return subprocess.Popen(
            plan["command"],
            stdin=subprocess.DEVNULL,
            stdout=console,
            stderr=subprocess.STDOUT,
            cwd=plan["folder"],
            env=plan["environment"],
            start_new_session=True,
            **user,
        )


def end_group(group: int, grace_s: float, reap: Callable[[], object] = lambda: None) -> None:
    """End a process group: SIGTERM, then SIGKILL after `grace_s`. Returns in bounded time.

    `reap` waits for a child of this process: as a zombie it would keep its group alive.
    """
    for number, patience_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_PATIENCE_S)):
        if not _signal_group(group, number):
            break
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            reap()
            if not _signal_group(group, 0):
                return
            time.sleep(0.02)
    reap()


def _wait_detached(group: int) -> None:
    """Wait until the group has ended, without holding the asking process's terminal or pipes."""
    with Path(os.devnull).open("r+b") as null:
        for descriptor in (0, 1, 2):
            os.dup2(null.fileno(), descriptor)
    while _signal_group(group, 0):
        time.sleep(RELEASED_POLL_S)


def _signal_group(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter for zombies on macOS
        return False
    return True


def _lock(kept: str) -> None:
    """Lock the file of a kept node until this process, and those that it forks, have ended."""
    with contextlib.suppress(OSError):
        fcntl.flock(os.open(kept, os.O_RDONLY), fcntl.LOCK_EX)


def _finish(plan: dict[str, Any]) -> None:
    if problem := clean_up(Path(plan["folder"]), Path(plan["logs"])):
        _tell(error=problem)
    with contextlib.suppress(OSError):
        Path(plan["kept"]).unlink(missing_ok=True)


def clean_up(folder: Path, logs: Path) -> str:
    """Copy the logs of a node that has ended to the folder `logs`, and remove the node's `folder`.

    Returns why logs could not be saved, else "". Those of a race that was deleted, so that there is no folder for
    `logs`, are not.
    """
    problem = ""
    try:
        if logs.parent.is_dir():
            shutil.copytree(folder / "logs", logs, symlinks=True, dirs_exist_ok=True)
    except (OSError, shutil.Error) as error:
        problem = f"the logs of the node could not be saved: {error}"
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        folder.parent.rmdir()  # the race's, once its last node is gone
    return problem


def _tell(**event: object) -> None:
    with contextlib.suppress(OSError):  # the reader is gone
        os.write(sys.stdout.fileno(), json.dumps(event).encode() + b"\n")


if __name__ == "__main__":
    main()
