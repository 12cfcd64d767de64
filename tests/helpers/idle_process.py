"""Processes of a test's own that do nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Idle:
    """A process that runs until it is told to end; `arguments` are told by its command line."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, "-c", "print(flush=True); input()", *arguments]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        self._process.stdout.readline()  # its command line is there when it has begun

    @property
    def pid(self) -> int:
        return self._process.pid

    def end(self) -> None:
        """Return when it has ended; once is enough."""
        if self._process.poll() is None:
            self._process.communicate(b"\n")


@contextmanager
def idle(*arguments: str) -> Iterator[Idle]:
    """A process that ends with the block at the latest."""
    process = Idle(*arguments)
    try:
        yield process
    finally:
        process.end()
