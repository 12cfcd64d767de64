"""Loops that a scheduler of the track's own paces: each client asks it when its next request is due.

As in Rally, each client has a scheduler of its own, the first request is due at the start, and what is late is sent
at once. Latency counts from the due time.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from esbench.errors import TrackError
from esbench.load.client import Client
from esbench.load.loops import NS, Length, TaskLoop
from esbench.load.python_client import PythonClient
from esbench.load.recorder import Recorder
from esbench.load.transport import clock_ns
from esbench.model import Task
from esbench.operations.base import Exhausted, TrackCode, Verdict
from esbench.track.plugins import own_code
from esbench.track.plugins_view import task_view


class Scheduler(Protocol):
    """When a client's next request is due: `next` is given the last due time, in seconds since the start."""

    def next(self, current: float) -> float: ...


def make_scheduler(task: Task, code: TrackCode, client: Client) -> Any:
    """The scheduler of one client; TrackError, with the track's frames, when its code fails.

    A simple one is made of (task, target_throughput), the client's share of the rate; another one of (task).
    """
    where = f'task "{task.name}"'
    made_by = code.plugins.schedulers.get(task.schedule.kind, where)
    view = task_view(task)
    with own_code(code.plugins.folder, f'scheduler "{task.schedule.kind}"', where):
        names = list(inspect.signature(made_by).parameters)
        if "target_throughput" in names:
            if task.schedule.rate is None:
                raise TrackError(f'scheduler "{task.schedule.kind}" needs a target-throughput', where=where)
            scheduler = made_by(view, task.schedule.rate.value / task.clients)
        else:
            scheduler = made_by(view)
        if hasattr(scheduler, "parameter_source"):
            scheduler.parameter_source = client.turns.source if isinstance(client, PythonClient) else None
    if not callable(getattr(scheduler, "next", None)):
        raise TrackError(f'scheduler "{task.schedule.kind}" has no next(current)', where=where)
    return scheduler


class ScheduledLoop(TaskLoop):
    """An open loop in which each client has its own due times."""

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
        task: Task,
        code: TrackCode,
    ) -> None:
        super().__init__(clients, recorder, length, ended=ended, failed=failed)
        self._task = task
        self._code = code
        self._schedulers = {client: make_scheduler(task, code, client) for client in clients}
        self._due_s = dict.fromkeys(clients, 0.0)
        self._waiting: dict[Client, asyncio.TimerHandle] = {}
        self._start_ns = 0
        self._first = set(clients)
        self._done: set[Client] = set()
        self._end_timer: asyncio.TimerHandle | None = None

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        self._start_ns = start_ns
        if self._length.end_ns is not None:
            delay_s = max(0, self._length.end_ns - clock_ns()) / NS + 0.001
            self._end_timer = asyncio.get_running_loop().call_later(delay_s, self.stop)
        for client in self.clients:
            self._next(client)

    def freed(self, client: Client) -> None:
        super().freed(client)
        self._after(client)
        self._next(client)

    def stop(self) -> None:
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
        super().stop()

    def close(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
        for handle in self._waiting.values():
            handle.cancel()
        super().close()

    def _next(self, client: Client) -> None:
        """Draw a client's next request and wait until it is due."""
        if self._begun + len(self._waiting) >= self._most:
            self._done.add(client)
        if client not in self._done and not self._stopping:
            try:
                client.drawn = client.draw()
            except Exhausted:
                self._done.add(client)
        if self._stopping or client in self._done:
            if len(self._done) == len(self.clients):
                self._stopping = True
            self._end_if_idle()
            return
        due_ns = self._start_ns + int(self._due(client) * NS)
        if due_ns >= self._last_ns:
            self._done.add(client)
            self._stop_when_done()
            return
        delay_s = max(0, due_ns - clock_ns()) / NS
        self._waiting[client] = asyncio.get_running_loop().call_later(delay_s, self._send, client, due_ns)

    def _stop_when_done(self) -> None:
        if len(self._done) == len(self.clients) and self._length.end_ns is None:
            self._stopping = True
        self._end_if_idle()

    def _due(self, client: Client) -> float:
        """Seconds since the start at which a client's next request is due."""
        if client in self._first:
            self._first.discard(client)
            if not hasattr(self._schedulers[client], "before_request"):
                return 0.0
        due_s = self._ask(lambda: self._schedulers[client].next(self._due_s[client]))
        if isinstance(due_s, bool) or not isinstance(due_s, int | float) or not math.isfinite(due_s):
            raise TrackError(
                f'next() of scheduler "{self._task.schedule.kind}" returned {due_s!r}',
                where=f'task "{self._task.name}"',
                hint="it returns seconds since the start of the task",
            )
        now_s = (clock_ns() - self._start_ns) / NS
        self._due_s[client] = due_s if due_s > 0 else now_s  # 0: at once, not late since the beginning
        return self._due_s[client]

    def _send(self, client: Client, due_ns: int) -> None:
        del self._waiting[client]
        while clock_ns() < due_ns:
            pass  # the loop's timers may be a millisecond early
        scheduler = self._schedulers[client]
        if hasattr(scheduler, "before_request"):
            self._ask(lambda: scheduler.before_request((clock_ns() - self._start_ns) / NS))
        warmup = self._is_warmup(due_ns)
        self._begun += 1
        self._busy += 1
        self.recorder.arrived(due_ns, warmup, client.free_ns > due_ns)
        client.begin(due_ns, warmup)

    def _after(self, client: Client) -> None:
        scheduler = self._schedulers[client]
        if not hasattr(scheduler, "after_request"):
            return
        weight, unit, result = 1.0, "ops", {}
        if isinstance(client, PythonClient):
            result = dict(client.turns.result)
            weight, unit = result.get("weight", client.last.units), result.get("unit", "ops")
        self._ask(lambda: scheduler.after_request((clock_ns() - self._start_ns) / NS, weight, unit, result))

    def _ask(self, question: Callable[[], Any]) -> Any:
        with own_code(
            self._code.plugins.folder, f'scheduler "{self._task.schedule.kind}"', f'task "{self._task.name}"'
        ):
            return question()
