"""The base of progress that is written line by line, with a tick once a second."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from esbench.events.progress import print_to_stderr
from esbench.progress.task_progress import Following
from esbench.progress.ticker import Repeating


class PrintedProgress(Following):
    """Progress as lines on stderr; `tick` is called every second for the length of a `with`."""

    def __init__(
        self, write: Callable[[str], None] = print_to_stderr, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(clock)
        self._write = write
        self._repeating = Repeating(1.0, self.tick, "progress")

    def __enter__(self) -> Self:
        self._repeating.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._repeating.stop()

    def tick(self) -> None:
        """Write the state of every running job and task."""
        raise NotImplementedError
