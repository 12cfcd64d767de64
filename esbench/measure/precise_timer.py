"""Callbacks at absolute times: a timerfd on Linux, with a resolution of microseconds; the loop's timers elsewhere."""

from __future__ import annotations

import asyncio
import ctypes
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from struct import Struct

NS = 1_000_000_000
_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1


class Alarm:
    """A timer for one absolute time of the monotonic clock; for a time in the past it calls back at once.

    The callback may come early if the timer is set to a later time at the moment in which it was due.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
        self._loop = loop
        self._callback = callback
        self._timer = _TimerFd() if sys.platform == "linux" else None
        self._handle: asyncio.TimerHandle | None = None
        self._is_set = False
        if self._timer is not None:
            loop.add_reader(self._timer.fd, self._fired)

    def set(self, at_ns: int) -> None:
        """Call back at `at_ns` (CLOCK_MONOTONIC), instead of at the time that was set before."""
        if self._timer is not None:
            self._is_set = True
            self._timer.set(at_ns)
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0, at_ns - time.monotonic_ns()) / NS, self._callback)

    def close(self) -> None:
        """Cancel the callback and release the timer."""
        if self._handle is not None:
            self._handle.cancel()
        if self._timer is not None:
            self._loop.remove_reader(self._timer.fd)
            self._timer.close()
            self._timer = None

    def _fired(self) -> None:
        self._is_set = False
        self._callback()
        if self._timer is not None and not self._is_set:  # setting it again clears it, too
            self._timer.drain()


_TIMER_SPEC = Struct("@4l")  # seconds and nanoseconds of the interval, and of the time


class _TimerFd:
    """timerfd_create(2) through libc: `os.timerfd_create` exists from Python 3.13 on."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self.fd: int = self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._spec = ctypes.create_string_buffer(_TIMER_SPEC.size)
        self._settime = self._libc.timerfd_settime

    def set(self, at_ns: int) -> None:
        _TIMER_SPEC.pack_into(self._spec, 0, 0, 0, *divmod(at_ns if at_ns > 0 else 1, NS))
        if self._settime(self.fd, _TFD_TIMER_ABSTIME, self._spec, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def drain(self) -> None:
        """Clear the expiry, so that the descriptor is no longer readable."""
        with suppress(BlockingIOError):
            os.read(self.fd, 8)

    def close(self) -> None:
        os.close(self.fd)
