"""Handling of Ctrl-C, SIGTERM and the loss of the terminal (SIGHUP) during a race."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any


class Interrupts:
    """Handlers of Ctrl-C, SIGTERM and SIGHUP: they raise KeyboardInterrupt, or call an action while steps run.

    A SIGHUP that is ignored, as it is below nohup, stays ignored.
    """

    def __init__(self) -> None:
        self._instead: Callable[[], None] | None = None
        self._before: dict[int, Any] = {}
        self._called = False

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *exc: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def call_instead(self, action: Callable[[], None]) -> None:
        """Make interrupts call `action` from now on."""
        self._instead = action

    def raise_again(self) -> None:
        """Make interrupts raise KeyboardInterrupt from now on; raise it at once if an action was called."""
        self._instead = None
        if self._called:
            raise KeyboardInterrupt

    def _handle(self, number: int, frame: object) -> None:
        if self._instead is None:
            raise KeyboardInterrupt
        self._called = True
        self._instead()
