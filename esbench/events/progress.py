"""Whom to tell what goes on: messages, and work that takes its time. Engines and corpora know nothing more of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Self


def print_to_stderr(line: str) -> None:
    """Print a line; where nobody reads it any more, the work goes on."""
    with suppress(OSError):
        print(line, file=sys.stderr, flush=True)


class Job:
    """Something that takes its time; `total` is how much of `unit` there is to do, None where nobody knows."""

    def __init__(self, what: str, total: float | None, unit: str, began_s: float) -> None:
        self.what = what
        self.total = total
        self.unit = unit
        self.began_s = began_s
        self.done = 0.0

    def advance(self, count: float) -> None:
        """So much more is done."""
        self.done += count

    def reach(self, done: float) -> None:
        """So much is done in all."""
        self.done = done


class Progress:
    """Someone to tell, for the length of a `with`. This one says nothing but what must be known (--quiet)."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None: ...

    def say(self, message: str) -> None:
        """One line of news."""

    def warn(self, message: str) -> None:
        """One line of something that may spoil the result."""

    def insist(self, message: str) -> None:
        """One line that --quiet does not hide: what is left behind, what went wrong."""
        print_to_stderr(message)

    def fail(self, message: str) -> bool:
        """The error that ends it all; False where it is the caller's to print."""
        return False

    @contextmanager
    def job(self, what: str, total: float | None = None, unit: str = "", *, announce: bool = True) -> Iterator[Job]:
        """A job, from its begin to its end; without `announce` it is a part of one that was told."""
        job = Job(what, total or None, unit, self.clock())
        self._begin(job, announce)
        try:
            yield job
        finally:
            self._end(job)

    @contextmanager
    def download(self, name: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        """A file of a download that was told: the function that it yields is called with each chunk's bytes."""
        with self.job(f"downloading {name}", total_bytes, "bytes", announce=False) as job:
            yield job.advance

    def _begin(self, job: Job, announce: bool) -> None:
        """A job begins."""

    def _end(self, job: Job) -> None:
        """A job has ended."""
