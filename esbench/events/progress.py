"""Display of progress: messages and long-running jobs. Engines and corpora depend on nothing else of the display."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Self

from esbench.errors.printable import printable


def print_to_stderr(line: str) -> None:
    """Print a line to stderr, its control characters escaped; ignore an OSError, such as that of a closed pipe."""
    with suppress(OSError):
        print(printable(line), file=sys.stderr, flush=True)


def _go_on() -> None:
    """Check nothing."""


@dataclass(eq=False)
class Job:
    """A long-running job; `what` names it, `total` is the amount of `unit` to do, None if it is unknown.

    `began_s`: its start on the clock of its Progress. Amounts of the unit "bytes" are shown as sizes.
    """

    what: str
    total: float | None
    unit: str
    began_s: float
    done: float = 0.0
    check: Callable[[], None] = _go_on  # raises KeyboardInterrupt if the job is to end

    def advance(self, count: float) -> None:
        """Add to the amount done. Raises KeyboardInterrupt if the job is to end."""
        self.reach(self.done + count)

    def reach(self, done: float) -> None:
        """Set the amount done. Raises KeyboardInterrupt if the job is to end."""
        self.check()
        self.done = done


class Progress:
    """The display of progress, active within a `with` block. This class shows only what --quiet does not hide.

    `clock` returns seconds that only grow; times of jobs are on it. `check` raises KeyboardInterrupt if what is shown
    is to end.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.check: Callable[[], None] = _go_on

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def say(self, message: str) -> None:
        """Show one line of information."""

    def warn(self, message: str) -> None:
        """Show one line about something that may spoil the result."""

    def insist(self, message: str) -> None:
        """Show one line that --quiet does not hide: what is left behind, what went wrong."""
        print_to_stderr(message)

    def fail(self, message: str) -> bool:
        """Show the error that ends the command. Returns False if it was not shown and the caller must print it."""
        return False

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Context manager: show what was said so far, and nothing else while a question is asked on the terminal."""
        yield

    @contextmanager
    def checked(self, check: Callable[[], None]) -> Iterator[None]:
        """Context manager: let `check`, called often, end what is shown."""
        before, self.check = self.check, check
        try:
            yield
        finally:
            self.check = before

    @contextmanager
    def job(self, what: str, total: float | None = None, unit: str = "", *, announce: bool = True) -> Iterator[Job]:
        """Context manager for a long-running job: yields the Job, whose `advance` or `reach` the caller calls.

        `total` is the amount of `unit` to do, None or 0 if it is unknown. `announce=False` for a part of a job that is
        already shown.
        """
        job = Job(what, total or None, unit, self.clock(), check=self.check)
        self._begin(job, announce)
        try:
            yield job
        finally:
            self._end(job)

    @contextmanager
    def download(self, name: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """Context manager for one file of an announced download.

        Yields the function to call with the number of bytes of each chunk.
        """
        with self.job(f"downloading {name}", total_bytes, "bytes", announce=False) as job:
            yield job.advance

    def _begin(self, job: Job, announce: bool) -> None:
        """Show the start of a job."""

    def _end(self, job: Job) -> None:
        """Show the end of a job."""
