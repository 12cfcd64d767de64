"""Callbacks at absolute times of CLOCK_MONOTONIC, accurate to tens of microseconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush

from esbench.measure.precise_timer import Alarm


class Timer:
    """A heap of callbacks and their times, behind one alarm."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._armed_ns = 0  # 0: not armed
        self._alarm = Alarm(loop, self._wake)

    def at(self, due_ns: int, callback: Callable[[], None]) -> None:
        """Call back at `due_ns`, after earlier calls of this method with the same time."""
        self._sequence += 1
        heappush(self._heap, (due_ns, self._sequence, callback))
        if not self._armed_ns or due_ns < self._armed_ns:
            self._arm(due_ns)

    def fire(self, now_ns: int) -> None:
        """Run the callbacks that are due.

        Also called between requests, so that a burst of requests delays none of them.
        """
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            heappop(heap)[2]()

    def close(self) -> None:
        self._heap.clear()
        self._alarm.close()

    def _arm(self, due_ns: int) -> None:
        self._armed_ns = due_ns
        self._alarm.set(due_ns)

    def _wake(self) -> None:
        self._armed_ns = 0
        self.fire(time.monotonic_ns())
        if self._heap and not self._armed_ns:
            self._arm(self._heap[0][0])
