"""What an engine tells while it gets ready: messages and the progress of downloads, on stderr only."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol


class Progress(Protocol):
    """Someone to tell."""

    def say(self, message: str) -> None:
        """One line of news."""
        ...

    def insist(self, message: str) -> None:
        """One line that --quiet does not hide: what is left behind, what went wrong."""
        ...

    def download(self, name: str, total_bytes: int) -> AbstractContextManager[Callable[[int], None]]:
        """A download's progress: the function that it yields is called with each chunk's bytes."""
        ...


class NoProgress:
    """Says nothing but what must be known (--quiet)."""

    def say(self, message: str) -> None: ...

    def insist(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    @contextmanager
    def download(self, name: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        yield lambda count: None


class TerminalProgress:
    """Lines on stderr, and there a bar for each download where it is a terminal."""

    def say(self, message: str) -> None:
        print(message, file=sys.stderr, flush=True)

    insist = say

    @contextmanager
    def download(self, name: str, total_bytes: int) -> Iterator[Callable[[int], None]]:
        if not sys.stderr.isatty():
            yield lambda count: None
            return
        from rich.console import Console  # 0.1 s, and only downloads need it
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
            TransferSpeedColumn,
        )

        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            DownloadColumn(),
            TransferSpeedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(name, total=total_bytes)
            yield lambda count: bar.advance(task, count)
