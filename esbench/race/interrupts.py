"""Interruption of a race: by Ctrl-C, SIGTERM and the loss of the terminal (SIGHUP), or by other races of its round."""

from __future__ import annotations

import signal
from collections.abc import Callable
from types import TracebackType
from typing import Any


class InterruptsByOthers:
    """The effect of an interrupt: an action while steps run, else KeyboardInterrupt at the next opportunity.

    It may come from another thread.
    """

    def __init__(self) -> None:
        self._instead: Callable[[], None] | None = None
        self._called = False

    def __enter__(self) -> InterruptsByOthers:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Nothing is to be undone."""

    def call_instead(self, action: Callable[[], None]) -> None:
        """Make interrupts call `action` from now on. Raises KeyboardInterrupt if there was one before."""
        self._instead = action
        self.check()

    def raise_again(self) -> None:
        """Make interrupts raise KeyboardInterrupt from now on; raise it at once if there was one."""
        self._instead = None
        self.check()

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was an interrupt."""
        if self._called:
            raise KeyboardInterrupt

    def interrupt(self) -> None:
        """Interrupt the race."""
        self._called = True
        instead = self._instead  # its thread may take it away
        if instead is not None:
            instead()


class Interrupts(InterruptsByOthers):
    """Interrupts by signals to this process; as a context it handles them. While no steps run, they raise at once.

    A SIGHUP that is ignored, as it is below nohup, stays ignored.
    """

    def __init__(self) -> None:
        super().__init__()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: object) -> None:
        if self._instead is None:
            raise KeyboardInterrupt
        self.interrupt()
