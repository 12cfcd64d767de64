"""Limits on what a template of a track may take: tracks may come from strangers."""

from __future__ import annotations

import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CPU_S = 5.0
MEMORY_BYTES = 1 << 30
_AGAIN_S = 0.1  # of CPU time: what takes no notice is told again


class LimitExceeded(BaseException):
    """Raised in code that takes more CPU time than it may. No Exception: templates are evaluated in code that takes
    those for its own."""


@contextmanager
def limited(cpu_s: float = CPU_S, memory_bytes: int = MEMORY_BYTES) -> Iterator[None]:
    """Run code with limits: LimitExceeded after `cpu_s` of CPU time, MemoryError above `memory_bytes` more memory.

    The limit on CPU time holds in the main thread, which is where signals arrive, and the limit on memory on Linux.
    """
    with _memory(memory_bytes), _cpu(cpu_s):
        yield


@contextmanager
def _cpu(seconds: float) -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> None:
        raise LimitExceeded(f"it takes more than {seconds:g} s of CPU time")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


@contextmanager
def _memory(more_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[0])  # man 5 proc: the whole address space
    except OSError:  # not Linux
        yield
        return
    wanted = pages * resource.getpagesize() + more_bytes
    if soft != resource.RLIM_INFINITY:
        wanted = min(wanted, soft)
    resource.setrlimit(resource.RLIMIT_AS, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
