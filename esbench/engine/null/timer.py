"""Callbacks at absolute times of CLOCK_MONOTONIC, accurate to tens of microseconds.

The loops' own timers have a resolution of 1 ms: a timerfd beside them has the kernel's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from heapq import heappop, heappush

_TFD_NONBLOCK_CLOEXEC = os.O_NONBLOCK | getattr(os, "O_CLOEXEC", 0)
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("interval", _Timespec), ("value", _Timespec))


class Timer:
    """A heap of due callbacks behind one timer of the kernel (elsewhere than on Linux: of the loop)."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._heap: list[tuple[int, int, Callable[[], None]]] = []
        self._sequence = 0
        self._armed_ns = 0  # 0: not armed
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._spec = _Itimerspec()
            self._fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
            if self._fd < 0:
                raise OSError(ctypes.get_errno(), "timerfd_create")
            loop.add_reader(self._fd, self._wake)

    def at(self, due_ns: int, callback: Callable[[], None]) -> None:
        """Call back at `due_ns`, after all that were asked for the same time before."""
        self._sequence += 1
        heappush(self._heap, (due_ns, self._sequence, callback))
        if not self._armed_ns or due_ns < self._armed_ns:
            self._arm(due_ns)

    def fire(self, now_ns: int) -> None:
        """Call back what is due; also called between requests, so that a burst of them delays nobody."""
        heap = self._heap
        while heap and heap[0][0] <= now_ns:
            heappop(heap)[2]()

    def clear(self) -> None:
        """Forget all callbacks."""
        self._heap.clear()

    def close(self) -> None:
        self._heap.clear()
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)

    def _arm(self, due_ns: int) -> None:
        self._armed_ns = due_ns
        if self._fd < 0:
            self._loop.call_later(max(0.0, (due_ns - time.monotonic_ns()) / 1e9), self._wake)
            return
        value = self._spec.value
        value.seconds, value.nanoseconds = divmod(due_ns, 1_000_000_000)
        if self._libc.timerfd_settime(self._fd, _TFD_TIMER_ABSTIME, ctypes.byref(self._spec), None) < 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def _wake(self) -> None:
        if self._fd >= 0:
            try:
                os.read(self._fd, 8)
            except BlockingIOError:  # armed anew since the loop saw it
                return
        self._armed_ns = 0
        self.fire(time.monotonic_ns())
        if self._heap and not self._armed_ns:
            self._arm(self._heap[0][0])
