"""Loops with a scheduler of the track, which returns the due time of each client's next request.

As in Rally, there is one scheduler per client, and late requests are sent at once. Latency counts from the due time.
"""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esbench.errors import TrackError
from esbench.features.python.client import PythonClient
from esbench.features.python.loading import own_code, place_of
from esbench.features.python.task_sources import TrackCode
from esbench.features.python.view import task_view
from esbench.load.client import Client
from esbench.load.hot import NEVER_NS, clock_ns
from esbench.load.loops import NS, Length, TimedLoop
from esbench.load.recorder import Recorder
from esbench.measure.histogram import Counts
from esbench.measure.verdict import Verdict
from esbench.model import Task
from esbench.requests.exchange import Exhausted

_MOST_COUNTED = 1_000_000  # unsent arrivals of a queue: each costs a call of the track's code


@dataclass
class ClientSchedule:
    """The due times of one client's requests, from its scheduler, an object of the track. Times are in seconds.

    `is_simple`: the scheduler has no `before_request`; then the first request is due at the start.
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
        """Return the next due time, in s since the start; raises TrackError if the scheduler gives no number.

        `now_s`, in s since the start, takes the place of a time that is not above 0: such a request is due at once.
        """
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
    """Make a scheduler for each client; raises TrackError, with the track's frames, if its code fails.

    It is called with (task, target_throughput), the client's share of the target in requests/s, or with (task) alone.
    `sources` are the track's parameter sources by client (None: no source), for schedulers with an attribute
    `parameter_source`; `per_request` the amount of each unit in a request.
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
    """An open loop in which each client has its own due times, in own time of the task.

    Each late client has a queue: its arrivals from the next one of its scheduler up to the end. As in every open loop,
    at the end a queue of one arrival is still sent; a longer one is not, and its arrivals count as unsent.
    """

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
        self._due: dict[Client, int] = {}  # of clients that wait for that own time
        self._done: set[Client] = set()  # clients that send nothing more
        # arrivals that are due from then on do not exist
        self._stopped_ns = NEVER_NS if length.end_ns is None else self._time.own_ns(length.end_ns)
        self._gives_up = False
        self._may_count = _MOST_COUNTED
        self._unsent = 0

    @property
    def unsent(self) -> int:
        return self._unsent

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        for client in self.clients:
            self._next(client)

    def stop(self) -> None:
        waiting = list(self._waiting)
        if not self._stopping:
            self._stopped_ns = min(self._stopped_ns, self._time.own_ns(clock_ns()))
        self._busy += len(waiting)  # so that the loop does not end before they are looked at
        super().stop()
        for client in waiting:
            self._busy -= 1
            self._end(client)
        self._end_if_idle()

    def freed(self, client: Client) -> None:
        super().freed(client)
        result: Mapping[str, Any] = {}
        weight, unit = 1.0, "ops"
        if isinstance(client, PythonClient):
            result = client.turns.result
            weight, unit = client.turns.counted
        self._schedulers[client].after_request(self._now_s(), weight, unit, result)
        self._next(client)

    def give_up(self, kind: str, detail: str) -> None:
        self._gives_up = True
        super().give_up(kind, detail)

    def _next(self, client: Client) -> None:
        """Ask the scheduler when a client's next request is due, and draw that request."""
        if client not in self._done and self.recorder.begun + len(self._due) < self.recorder.most:
            self._due[client] = self._ask(client)
            self._draw(client)
        else:
            self._leave(client)
        self._end_if_idle()

    def _draw(self, client: Client) -> None:
        due_ns = self._due[client]
        try:
            if due_ns < self._stopped_ns:
                client.drawn = client.draw()
        except Exhausted:
            due_ns = self._stopped_ns
        if due_ns >= self._stopped_ns:
            self._leave(client)
        elif self._stopping:
            self._end(client)
        else:
            self._wait(client)

    def _wait(self, client: Client) -> None:
        """Let a client wait until its arrival is due and its side has a slice."""
        now_ns = clock_ns()
        begin_ns = max(self._time.at_ns(self._due[client]), self._time.slice_at(now_ns).begin_ns)
        delay_s = max(0, begin_ns - now_ns) / NS
        self._waiting[client] = asyncio.get_running_loop().call_later(delay_s, self._send, client, begin_ns)

    def _leave(self, client: Client) -> None:
        """Mark a client as done; a loop without an end time stops when all clients are done."""
        self._due.pop(client, None)
        self._done.add(client)
        if len(self._done) == len(self.clients) and self._length.end_ns is None:
            self._stopping = True

    def _end(self, client: Client) -> None:
        """At the end, send a client's waiting arrival if no further one is queued; else count all of them as unsent."""
        due_ns = self._due.pop(client)
        self._done.add(client)
        if due_ns >= self._stopped_ns:
            return
        line = [due_ns, *self._due_after(client, due_ns)]
        if len(line) == 1 and not self._gives_up:
            self._begin(client, due_ns)
            return
        now_ns, waited = clock_ns(), Counts()
        for never_sent_ns in line:
            warmup = self._is_warmup(never_sent_ns, self.recorder.begun)
            self.recorder.begun += 1
            self.recorder.arrived(self._time.at_ns(never_sent_ns), warmup, waits=True)
            if not warmup:
                waited.add(self._time.own_ns(now_ns) - never_sent_ns)
        if waited.count:
            self._unsent += waited.count
            self.recorder.never_sent(now_ns, waited)

    def _ask(self, client: Client) -> int:
        return int(self._schedulers[client].next(self._now_s()) * NS)

    def _due_after(self, client: Client, due_ns: int) -> Iterator[int]:
        """Yield the further due times of a client up to the end, within the limit on counted arrivals."""
        most = min(self._may_count, self.recorder.most - self.recorder.begun - len(self._due) - 1)
        while most > 0 and due_ns < (due_ns := self._ask(client)) < self._stopped_ns:
            most -= 1
            self._may_count -= 1
            yield due_ns

    def _send(self, client: Client, begin_ns: int) -> None:
        del self._waiting[client]
        while (now_ns := clock_ns()) < begin_ns:
            pass  # the loop's timers may be a millisecond early
        if now_ns < self._time.slice_at(now_ns).begin_ns:  # or late
            self._wait(client)
        else:
            self._begin(client, self._due.pop(client))

    def _begin(self, client: Client, own_ns: int) -> None:
        """Send a client's request that was due at an own time; it is charged for own time only."""
        self._schedulers[client].before_request(self._now_s())
        warmup = self._is_warmup(own_ns, self.recorder.begun)
        now_ns = clock_ns()
        zero_ns = now_ns - self._time.own_ns(now_ns)  # of own time, which stands still outside of the slices
        due_ns = zero_ns + own_ns
        client.free_ns = zero_ns + self._time.own_ns(client.free_ns)
        self.recorder.begun += 1
        self._busy += 1
        self.recorder.arrived(due_ns, warmup, client.free_ns > due_ns)
        client.begin(due_ns, warmup)

    def _now_s(self) -> float:
        return self._time.own_ns(clock_ns()) / NS
