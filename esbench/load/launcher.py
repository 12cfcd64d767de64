"""The start of load workers: a launcher starts them as processes that messages are exchanged with.

The coordinator knows no more of them than is declared here. `LocalLauncher` starts them on this host.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any, Protocol

from esbench.load.messages import Message
from esbench.record.host import process_fields, stolen_s
from esbench.record.private import open_private, private_folder

_HANG_UP_S = 1.0  # a pipe closes a moment before its process has ended


class WorkerProcess(Protocol):
    """A load worker, as the coordinator sees it. `host` is the name of its load host, `pid` its process id there."""

    number: int
    host: str
    pid: int

    def fileno(self) -> int:
        """Return the descriptor that can be read when a message has arrived, or no further one will."""

    def send(self, message: Message) -> None:
        """Send a message. OSError if the worker is gone."""

    def receive(self) -> Message:
        """Return the next message, its times on this host's clock. EOFError or OSError if no further one will come."""

    def has_message(self) -> bool:
        """True if a message has arrived that was not received yet."""

    def ended(self, within_s: float = 0.0) -> str | None:
        """Return how the worker ended ("killed by SIGKILL"), None if it runs on after `within_s`."""

    @property
    def is_host_lost(self) -> bool:
        """True if its load host is lost: the workers of others can go on."""

    @property
    def is_stopped(self) -> bool:
        """True if a signal has stopped the worker; False where that is not known."""

    @property
    def is_provided_for(self) -> bool:
        """True unless the files of a step are still on their way to its host."""

    def kill(self) -> None:
        """Kill the worker; it may be gone already."""

    def close(self) -> None:
        """Close the connection to the worker."""


class Launcher(Protocol):
    """A way to start load workers. `log` names the file with their output; `start_delay_ns` is the time that a message
    may take to reach all of them."""

    log: str
    start_delay_ns: int

    def start(self) -> Sequence[WorkerProcess]:
        """Start the workers, numbered from 0 on. EsbenchError if one cannot be started."""

    def close(self) -> None:
        """Release what was started besides the workers."""

    def compare_clocks(self) -> None:
        """Compare the clocks of the workers' hosts with this one's, before and after each step."""

    def clock_uncertainty_ms(self, host: str) -> float:
        """Return the bound of the error of a host's times on this host's clock, in ms."""

    def stolen_s(self) -> Mapping[Hashable, float]:
        """Return the seconds that the hypervisors gave to others, by CPU of the workers' hosts."""

    def warnings(self) -> tuple[str, ...]:
        """Return sentences about the hosts that were started: what may make their figures differ."""

    def host_facts(self) -> tuple[Mapping[str, Any], ...]:
        """Return facts about each load host; empty if the workers run on this one."""


class LocalLauncher:
    """Starts load workers on this host; their output is appended to the file `log`."""

    start_delay_ns = 5_000_000

    def __init__(self, count: int, log: Path, first: int = 0) -> None:
        """Create the launcher of `count` workers, numbered from `first` on."""
        self.log = str(log)
        self._numbers = range(first, first + count)
        self._log_file = log

    def start(self) -> list[LocalWorker]:
        private_folder(self._log_file.parent)
        workers = []
        with open_private(self._log_file, "ab") as log:
            for number in self._numbers:
                ours, theirs = socket.socketpair()
                with theirs:
                    process = subprocess.Popen(
                        [sys.executable, "-P", "-m", "esbench.worker.process", str(theirs.fileno()), str(number)],
                        pass_fds=(theirs.fileno(),),
                        stdin=subprocess.DEVNULL,
                        stdout=log,
                        stderr=log,
                        start_new_session=True,  # the terminal's Ctrl-C would end them before the drain
                    )
                workers.append(LocalWorker(number, process, Pipe(ours.detach())))
        return workers

    def close(self) -> None:
        pass  # nothing but the workers was started

    def compare_clocks(self) -> None:
        pass  # all processes of a host share its clock

    def clock_uncertainty_ms(self, host: str) -> float:
        return 0.0

    def stolen_s(self) -> Mapping[Hashable, float]:
        return dict[Hashable, float](stolen_s().items())

    def warnings(self) -> tuple[str, ...]:
        return ()

    def host_facts(self) -> tuple[Mapping[str, Any], ...]:
        return ()


class LocalWorker:
    """A load worker of this host: a process, and our end of its socket pair."""

    is_host_lost = False
    is_provided_for = True

    def __init__(self, number: int, process: subprocess.Popen[bytes], pipe: Pipe) -> None:
        self.number = number
        self.host = socket.gethostname()
        self.pid = process.pid
        self.pipe = pipe
        self._process = process

    def fileno(self) -> int:
        return self.pipe.fileno()

    def send(self, message: Message) -> None:
        self.pipe.send(message)

    def receive(self) -> Message:
        message: Message = self.pipe.recv()
        return message

    def has_message(self) -> bool:
        return self.pipe.poll()

    def ended(self, within_s: float = 0.0) -> str | None:
        with suppress(subprocess.TimeoutExpired):
            code = self._process.wait(within_s)
            return f"killed by {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
        return None

    @property
    def is_stopped(self) -> bool:
        return is_stopped(self.pid)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        self.pipe.close()


def is_stopped(pid: int) -> bool:
    """True if a process was stopped by a signal (proc(5): its state is T); False where that cannot be determined."""
    return process_fields(pid)[:1] == ["T"]


def end_all(workers: Sequence[WorkerProcess], within_s: float) -> None:
    """Wait for the end of workers that were asked to leave; kill those that run on, and close all connections."""
    deadline_s = time.monotonic() + within_s
    for worker in workers:
        if worker.ended(max(0.1, deadline_s - time.monotonic())) is None:
            worker.kill()
            worker.ended(_HANG_UP_S)
        worker.close()
