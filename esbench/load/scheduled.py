"""Loops that a scheduler of the track's own paces: each client asks it when its next request is due.

As in Rally, each client has a scheduler of its own, and what is late is sent at once. Latency counts from the due
time.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.errors import TrackError
from esbench.load.client import Client
from esbench.load.loops import NS, Length, TimedLoop
from esbench.load.python_client import PythonClient
from esbench.load.recorder import Recorder
from esbench.load.transport import clock_ns
from esbench.model import Task
from esbench.operations.base import Exhausted, TrackCode, Verdict
from esbench.track.plugins import own_code, place_of
from esbench.track.plugins_view import task_view


@dataclass
class ClientSchedule:
    """When the requests of one client are due, by its scheduler, which is the track's own. Times are seconds.

    `is_simple`: its scheduler knows nothing but `next`; then the first request is due at the start.
    """

    scheduler: Any
    name: str
    code: TrackCode
    where: str
    due_s: float = 0.0
    asked: bool = False

    @property
    def is_simple(self) -> bool:
        return not hasattr(self.scheduler, "before_request")

    def next(self, now_s: float) -> float:
        """The next due time; a TrackError when the scheduler says something else."""
        first, self.asked = not self.asked, True
        if first and self.is_simple:
            return 0.0
        due_s = self._ask(self.scheduler.next, self.due_s)
        if isinstance(due_s, bool) or not isinstance(due_s, int | float) or not math.isfinite(due_s):
            raise TrackError(
                f'next() of scheduler "{self.name}" returned {due_s!r}',
                where=f"{place_of(self.scheduler.next)}: {self.where}",
                hint="it returns seconds since the start of the task",
            )
        self.due_s = due_s if due_s > 0 else now_s  # 0: at once, which is not late since the beginning
        return self.due_s

    def before_request(self, now_s: float) -> None:
        if not self.is_simple:
            self._ask(self.scheduler.before_request, now_s)

    def after_request(self, now_s: float, weight: float, unit: str, result: Mapping[str, Any]) -> None:
        if hasattr(self.scheduler, "after_request"):
            self._ask(self.scheduler.after_request, now_s, weight, unit, dict(result))

    def _ask(self, question: Callable[..., Any], *arguments: Any) -> Any:
        with own_code(self.code.plugins.folder, f'scheduler "{self.name}"', self.where, question):
            return question(*arguments)


def make_schedulers(
    task: Task, code: TrackCode, sources: Mapping[Client, Any], per_request: Mapping[str, float]
) -> dict[Client, ClientSchedule]:
    """A scheduler for each client; a TrackError, with the track's frames, when its code fails.

    One is made of (task, target_throughput), the client's share of the target in requests/s, or of (task) alone.
    `sources` are the track's own parameter sources, for schedulers with an attribute `parameter_source`.
    """
    name, where, rate = task.schedule.kind, f'task "{task.name}"', task.schedule.rate
    made_by = code.plugins.schedulers.get(name, where)
    made = {}
    for client, source in sources.items():
        with own_code(code.plugins.folder, f'scheduler "{name}"', where, made_by):
            if "target_throughput" not in inspect.signature(made_by).parameters:
                scheduler = made_by(task_view(task))
            elif rate is None:
                raise TrackError(f'scheduler "{name}" needs a target-throughput', where=where)
            else:
                scheduler = made_by(task_view(task), rate.value / per_request[rate.unit] / task.clients)
            if hasattr(scheduler, "parameter_source"):
                scheduler.parameter_source = source
        if not callable(getattr(scheduler, "next", None)):
            raise TrackError(f'scheduler "{name}" has no next(current)', where=where)
        made[client] = ClientSchedule(scheduler, name, code, where)
    return made


class ScheduledLoop(TimedLoop):
    """An open loop in which each client has its own due times."""

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
        schedulers: Mapping[Client, ClientSchedule],
    ) -> None:
        super().__init__(clients, recorder, length, ended=ended, failed=failed)
        self._schedulers = schedulers
        self._left = len(clients)  # clients that will send more
        self._start_ns = 0

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        self._start_ns = start_ns
        for client in self.clients:
            self._next(client)

    def freed(self, client: Client) -> None:
        super().freed(client)
        result: Mapping[str, Any] = {}
        weight, unit = 1.0, "ops"
        if isinstance(client, PythonClient):
            result = client.turns.result
            weight, unit = client.turns.counted
        self._schedulers[client].after_request(self._now_s(), weight, unit, result)
        self._next(client)

    def _next(self, client: Client) -> None:
        """Ask when a client's next request is due, draw it, and wait."""
        if not self._stopping:
            due_ns = self._due_ns(client)
            if due_ns is not None:
                delay_s = max(0, due_ns - clock_ns()) / NS
                handle = asyncio.get_running_loop().call_later(delay_s, self._send, client, due_ns)
                self._waiting[client] = handle
                return
            self._left -= 1
            if not self._left and self._length.end_ns is None:
                self._stopping = True
        self._end_if_idle()

    def _due_ns(self, client: Client) -> int | None:
        """When a client's next request is due, which is drawn then; None when there is none any more."""
        if self._begun + len(self._waiting) >= self._most:
            return None
        due_ns = self._start_ns + int(self._schedulers[client].next(self._now_s()) * NS)
        if due_ns >= self._last_ns:
            return None
        try:
            client.drawn = client.draw()
        except Exhausted:
            return None
        return due_ns

    def _send(self, client: Client, due_ns: int) -> None:
        del self._waiting[client]
        while clock_ns() < due_ns:
            pass  # the loop's timers may be a millisecond early
        self._schedulers[client].before_request(self._now_s())
        warmup = self._is_warmup(due_ns)
        self._begun += 1
        self._busy += 1
        self.recorder.arrived(due_ns, warmup, client.free_ns > due_ns)
        client.begin(due_ns, warmup)

    def _now_s(self) -> float:
        return (clock_ns() - self._start_ns) / NS
