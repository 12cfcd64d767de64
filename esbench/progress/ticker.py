"""A thread that repeats an action."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Repeating:
    """Calls an action every `every_s` seconds from `start` to `stop`."""

    def __init__(self, every_s: float, action: Callable[[], None], name: str) -> None:
        self._every_s = every_s
        self._action = action
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for a call that is under way."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._every_s):
            self._action()
