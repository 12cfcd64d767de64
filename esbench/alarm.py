"""Calling back at absolute times: a timerfd on Linux, whose resolution is microseconds; the loop's timers elsewhere."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable

NS = 1_000_000_000
_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1


class Alarm:
    """One alarm at a time at an absolute time of the monotonic clock; it calls back at once for a time gone by."""

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._timer = _TimerFd() if sys.platform == "linux" else None
        self._handle: asyncio.TimerHandle | None = None
        if self._timer is not None:
            loop.add_reader(self._timer.fd, self._fired)

    def set(self, at_ns: int) -> None:
        """Call back at `at_ns` (CLOCK_MONOTONIC), instead of at a time that was set before."""
        if self._timer is not None:
            self._timer.set(at_ns)
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0, at_ns - time.monotonic_ns()) / NS, self._callback)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
        if self._timer is not None:
            self._loop.remove_reader(self._timer.fd)
            self._timer.close()
            self._timer = None

    def _fired(self) -> None:
        if self._timer is not None and self._timer.drain():
            self._callback()


class _TimeSpec(ctypes.Structure):
    _fields_ = (("seconds", ctypes.c_long), ("nanoseconds", ctypes.c_long))


class _TimerSpec(ctypes.Structure):
    _fields_ = (("interval", _TimeSpec), ("value", _TimeSpec))


class _TimerFd:
    """timerfd_create(2) through libc: `os.timerfd_create` is Python 3.13's."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = _TimerSpec()
        self._pointer = ctypes.byref(self._spec)

    def set(self, at_ns: int) -> None:
        seconds, nanoseconds = divmod(max(1, at_ns), NS)
        self._spec.value.seconds = seconds
        self._spec.value.nanoseconds = nanoseconds
        if self._libc.timerfd_settime(self.fd, _TFD_TIMER_ABSTIME, self._pointer, None) != 0:
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def drain(self) -> bool:
        """Whether the timer has expired since it was last drained."""
        try:
            return len(os.read(self.fd, 8)) == 8
        except BlockingIOError:
            return False

    def close(self) -> None:
        os.close(self.fd)
