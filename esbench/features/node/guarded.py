"""A server process that esbench runs, and the guard process that ends it when esbench is gone."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from esbench.errors import EngineError
from esbench.features.node.folders import disk_errors, open_folder
from esbench.features.node.guard import KILL_PATIENCE_S
from esbench.race.node_options import LOG_FOLLOWS
from esbench.record.host import has_ended
from esbench.record.private import private_folder
from esbench.record.secrets import Redactor

GRACE_S = 5.0  # between SIGTERM and SIGKILL
GUARD_PATIENCE_S = GRACE_S + KILL_PATIENCE_S + 40.0  # the rest is for saving logs and removing the data
_GUARD_SEES_S = 2.0  # that a node has died


class GuardedProcess:
    """A server process in a folder, and the guard process that ends it when this process is gone.

    It runs as the user `user` (a uid), or as esbench's if that is None. `console` is the file of what it prints; its
    logs are saved to the folder `saved_logs` when it has ended, unless that one's parent does not exist.
    """

    def __init__(self, name: str, folder: Path, console: Path, user: int | None, saved_logs: Path) -> None:
        self.name = name
        self._folder = folder
        self._console = console
        self._user = user
        self.pid: int | None = None  # the leader of its process group
        self.saved_logs = saved_logs
        self._guard: subprocess.Popen[bytes] | None = None
        self._buffer = b""
        self._redact = Redactor()
        self._exit: str | None = None

    @contextlib.contextmanager
    def _new_folder(self, owner: str) -> Iterator[None]:
        """Make the process's folder, and that of the race's logs; all that the block writes is given to its user.

        Errors name the `owner` ("a node"). EngineError if the folder exists (it is another process's), or cannot be
        written: nothing of it is left then.
        """
        with disk_errors("making the folder of logs", self.saved_logs.parent):
            private_folder(self.saved_logs.parent)
        with disk_errors(f"making the folder of {owner}", self._folder):
            open_folder(self._folder.parent)
            self._folder.mkdir(mode=0o700)  # for its settings, data and logs
            try:
                yield
                if self._user is not None:
                    for path in (self._folder, *self._folder.rglob("*")):
                        os.chown(path, self._user, self._user)
            except BaseException:
                self._remove_folder()
                raise

    def _launch(self, command: Sequence[str], environment: Mapping[str, str], kept: Path) -> None:
        """Start the guard, which starts the process; return when that exists. EngineError if it cannot start."""
        order = {
            "command": list(command),
            "environment": dict(environment),
            "folder": str(self._folder),
            "console": str(self._console),
            "user": self._user,
            "logs": str(self.saved_logs),
            "kept": str(kept),
            "grace_s": GRACE_S,
        }
        self._guard = subprocess.Popen(
            [sys.executable, "-P", "-m", "esbench.features.node.guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._say(json.dumps(order))
        event = self._event(timeout_s=30.0)
        if "pid" not in event:
            reason = event.get("error", "its guard process ended")
            hint = f"it runs as user {self._user}; --node-user names another" if self._user is not None else ""
            raise EngineError(f"a node could not be started: {reason}", hint=hint)
        self.pid = int(str(event["pid"]))

    def ended(self) -> str | None:
        """Return how the node ended by itself ("exit code 1"), or None while it runs."""
        timeout_s = _GUARD_SEES_S if self.pid is not None and has_ended(self.pid) else 0.0
        if self._exit is None and self._guard is not None and (event := self._event(timeout_s=timeout_s)):
            code = event.get("exit")
            self._exit = f"exit code {code}" if code is not None else "its guard was killed"
        return self._exit

    def failure(self) -> str | None:
        """Return how the node ended by itself, with the end of its log; None while it runs."""
        reason = self.ended()
        return None if reason is None else self.with_log(f"{self.name} ended by itself ({reason})")

    def with_log(self, what: str) -> str:
        """Return a text about the node, followed by the end of its log."""
        return f"{what}{LOG_FOLLOWS}\n{self.log_tail()}"

    def log_tail(self) -> str:
        """Return the last 20 lines of the node's console log, without secrets and the frames of stack traces."""
        try:
            text = self._console.read_bytes()[-200_000:].decode("utf-8", errors="replace")
        except OSError:
            return "(there is no log)"
        told = [line for line in text.splitlines() if not line.lstrip().startswith(("at ", "... "))]
        return "\n".join(self._redact(line)[:300] for line in told[-20:])

    def release(self) -> None:
        """Let the node outlive this process; its folder is removed when the node ends."""
        if self._guard is not None:
            self._say("release")
            self.begin_stop()  # closes the input; the guard has its order already
            self._await_guard(self._guard)

    def begin_stop(self) -> None:
        """Order the node to stop, without waiting for it."""
        if self._guard is not None and self._guard.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._guard.stdin.close()
            self._guard.stdin = None

    def finish_stop(self) -> list[str]:
        """Wait until the node has ended, its logs are saved and its folder is removed.

        Returns the problems as sentences for the user; empty if there were none. Safe to call for a node that never
        began.
        """
        if self._guard is None:
            self._remove_folder()  # prepared, never launched
            return []
        self.begin_stop()
        return self._await_guard(self._guard)

    def _await_guard(self, guard: subprocess.Popen[bytes]) -> list[str]:
        try:
            told, _ = guard.communicate(timeout=GUARD_PATIENCE_S)
        except subprocess.TimeoutExpired:
            guard.kill()
            told, _ = guard.communicate()
        self._guard = None
        events = [json.loads(line) for line in (self._buffer + told).splitlines()]
        problems = [str(event["error"]) for event in events if "error" in event]
        if guard.returncode != 0:
            problems.append(self._end_without_guard())
        return problems

    def _end_without_guard(self) -> str:
        if self.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, 9)
        self._remove_folder()
        return "the guard of the node was killed: the node was ended without saving its logs"

    def _remove_folder(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._folder.parent.rmdir()

    def _say(self, line: str) -> None:
        if self._guard is None or self._guard.stdin is None:
            return
        with contextlib.suppress(BrokenPipeError):  # the guard is gone: its events say so
            self._guard.stdin.write(line.encode() + b"\n")
            self._guard.stdin.flush()

    def _event(self, timeout_s: float) -> dict[str, object]:
        """Return the guard's next event; {} if none comes in time; `{"gone": True}` if the guard has ended."""
        if self._guard is None or self._guard.stdout is None:
            return {}
        descriptor = self._guard.stdout.fileno()
        while b"\n" not in self._buffer:
            readable, _, _ = select.select([descriptor], [], [], timeout_s)
            if not readable:
                return {}
            data = os.read(descriptor, 65536)
            if not data:
                return {"gone": True}
            self._buffer += data
        line, _, self._buffer = self._buffer.partition(b"\n")
        return dict(json.loads(line))
