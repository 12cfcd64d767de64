"""When the clients of a task send: a closed loop (again as soon as answered) or an open loop (as the schedule says).

One loop is one task's share in one worker. It ends when its time or its numbers are over, or its corpora are
exhausted, or it is stopped; what is in flight then is awaited.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from esbench.alarm import Alarm
from esbench.load.client import Client
from esbench.load.recorder import Recorder
from esbench.load.transport import clock_ns
from esbench.operations.base import Exhausted, NotReady, Verdict

NS = 1_000_000_000
_NEVER = 1 << 62


@dataclass(frozen=True)
class Length:
    """How long a loop lasts: until `end_ns`, or `requests` of them of which `warmup_requests` come first.

    Both None: until its clients' corpora are exhausted. Requests due before `warmup_end_ns` are warmup.
    """

    warmup_end_ns: int = 0
    end_ns: int | None = None
    requests: int | None = None
    warmup_requests: int = 0


class TaskLoop:
    """What both kinds of loop share: who is busy, and the end.

    `ended` is called once, when nothing is in flight any more; `failed` for each failed request.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
    ) -> None:
        self.recorder = recorder
        self.clients = clients
        self.end_ns = 0
        self._length = length
        self._last_ns = _NEVER if length.end_ns is None else length.end_ns
        self._most = _NEVER if length.requests is None else length.requests
        self._ended = ended
        self.failed = failed
        self._busy = 0
        self._begun = 0
        self._stopping = False
        self._over = False
        for client in clients:
            client.loop = self

    @property
    def unsent(self) -> int:
        """Arrivals that were due in the measurement and were never sent."""
        return 0

    @property
    def backlog(self) -> int:
        """Arrivals that are due and wait for a free client, at the end for good."""
        return 0

    def start(self, start_ns: int) -> None:
        """Begin at `start_ns`; every client is connected."""
        for client in self.clients:
            client.free_ns = start_ns

    def freed(self, client: Client) -> None:
        """A client's request is over."""
        self._busy -= 1

    def stop(self) -> None:
        """Take no further arrival."""
        self._stopping = True
        self._end_if_idle()

    def give_up(self, kind: str, detail: str) -> None:
        """Fail what is still in flight."""
        for client in self.clients:
            client.give_up(kind, detail)

    def sweep(self, now_ns: int) -> None:
        """Fail requests that have timed out."""
        for client in self.clients:
            client.sweep(now_ns)

    def close(self) -> None:
        """Drop everything without a word to anybody."""
        self._stopping = self._over = True
        for client in self.clients:
            client.close()

    def _is_warmup(self, at_ns: int) -> bool:
        return at_ns < self._length.warmup_end_ns or self._begun < self._length.warmup_requests

    def _end_if_idle(self) -> None:
        if self._stopping and not self._busy and not self._over:
            self._over = True
            self.end_ns = clock_ns()
            self._ended()


class TimedLoop(TaskLoop):
    """A loop whose clients wait by timers of the event loop, each by its own."""

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
    ) -> None:
        super().__init__(clients, recorder, length, ended=ended, failed=failed)
        self._waiting: dict[Client, asyncio.TimerHandle] = {}
        self._end_timer: asyncio.TimerHandle | None = None

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        if self._length.end_ns is not None:
            # the loop's timers may be a millisecond early, and no window ends before its time
            delay_s = max(0, self._length.end_ns - clock_ns()) / NS + 0.001
            self._end_timer = asyncio.get_running_loop().call_later(delay_s, self.stop)

    def stop(self) -> None:
        self._forget_who_waits()
        super().stop()

    def close(self) -> None:
        if self._end_timer is not None:
            self._end_timer.cancel()
        self._forget_who_waits()
        super().close()

    def _forget_who_waits(self) -> None:
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()


class ClosedLoop(TimedLoop):
    """Every client sends again as soon as it is answered, after its think time.

    Numbers are one shared total: no client waits for a slower one. The client of slot i begins i times
    `stagger_s` late.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
        think_time_s: float = 0.0,
        stagger_s: float = 0.0,
    ) -> None:
        super().__init__(clients, recorder, length, ended=ended, failed=failed)
        self._think_time_s = think_time_s
        self._stagger_s = stagger_s
        self._exhausted = 0

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        for client in self.clients:
            if self._stagger_s and client.slot:
                self._later(client, self._stagger_s * client.slot)
            else:
                self._next(client, start_ns)

    def freed(self, client: Client) -> None:
        self._busy -= 1
        if self._think_time_s and not self._stopping:
            self._later(client, self._think_time_s)
        else:
            self._next(client, client.free_ns)

    def _later(self, client: Client, delay_s: float) -> None:
        def turn() -> None:
            del self._waiting[client]
            client.free_ns = clock_ns()
            self._next(client, client.free_ns)

        self._waiting[client] = asyncio.get_running_loop().call_later(delay_s, turn)

    def _next(self, client: Client, now_ns: int) -> None:
        if now_ns >= self._last_ns or self._begun >= self._most:
            self._stopping = True
        if self._stopping:
            self._end_if_idle()
            return
        try:
            client.drawn = client.draw()
        except Exhausted:
            self._exhausted += 1
            if self._exhausted == len(self.clients):
                self._stopping = True
            self._end_if_idle()
            return
        except NotReady as not_ready:
            not_ready.call_back(lambda: self._next(client, clock_ns()))  # free since its `free_ns`: the driver's lag
            return
        warmup = now_ns < self._length.warmup_end_ns or self._begun < self._length.warmup_requests
        self._begun += 1
        self._busy += 1
        client.begin(0, warmup)


class OpenLoop(TaskLoop):
    """Arrivals at their due times, handed to free clients; late ones wait in line and are never dropped."""

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
        arrivals: Iterator[int],
    ) -> None:
        super().__init__(clients, recorder, length, ended=ended, failed=failed)
        self._arrivals = arrivals
        self._free: deque[Client] = deque()
        self._line: deque[tuple[int, bool]] = deque()
        self._undrawn = 0  # clients whose next request is not made yet
        self._arrived_all = False
        self._unsent = 0
        self._left = 0
        self._next_due_ns = 0
        self._start_ns = 0
        self._alarm: Alarm | None = None

    @property
    def unsent(self) -> int:
        return self._unsent

    @property
    def backlog(self) -> int:
        return len(self._line) + self._left

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        self._start_ns = start_ns
        for client in self.clients:
            self._set_free(client)
        self._alarm = Alarm(asyncio.get_running_loop(), self._dispatch)
        self._advance()
        self._set_alarm(self._alarm)

    def freed(self, client: Client) -> None:
        super().freed(client)
        if self._stopping:
            self._end_if_idle()
            return
        self._set_free(client)
        self._serve_line()

    def _serve_line(self) -> None:
        if self._line and self._free:
            due_ns, warmup = self._line.popleft()
            self._busy += 1
            self._free.popleft().begin(due_ns, warmup)
        self._end_if_served()

    def stop(self) -> None:
        self._unsent += sum(not warmup for _, warmup in self._line)
        self._left += len(self._line)
        self._line.clear()
        self._arrived_all = True
        super().stop()

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.close()
        super().close()

    def _dispatch(self) -> None:
        """Hand every due arrival to a free client, or put it in line; end the loop once the last one was."""
        while not self._arrived_all and self._next_due_ns <= clock_ns():
            due_ns = self._next_due_ns
            warmup = self._is_warmup(due_ns)
            self._begun += 1
            waits = not self._free
            self.recorder.arrived(due_ns, warmup, waits)
            if waits:
                self._line.append((due_ns, warmup))
            else:
                self._busy += 1
                self._free.popleft().begin(due_ns, warmup)
            self._advance()
        if self._alarm is not None:
            self._set_alarm(self._alarm)

    def _set_alarm(self, alarm: Alarm) -> None:
        """For the next arrival; after the last one, for the end: however late the loop is, none is overlooked."""
        end_ns = self._length.end_ns
        if self._over:
            return
        if not self._arrived_all:
            alarm.set(self._next_due_ns)
        elif end_ns is not None and clock_ns() < end_ns:
            alarm.set(end_ns)
        elif end_ns is not None:
            self.stop()

    def _advance(self) -> None:
        """Move to the next arrival, if there is one."""
        offset_ns = next(self._arrivals, _NEVER)
        self._next_due_ns = at_ns = self._start_ns + offset_ns
        if offset_ns == _NEVER or at_ns >= self._last_ns or self._begun >= self._most:
            self._arrived_all = True
            self._end_if_served()

    def _set_free(self, client: Client) -> None:
        try:
            client.drawn = client.draw()
        except Exhausted:
            if not self._busy and not self._free and not self._undrawn:
                self._line.clear()  # every client's corpus is exhausted: nothing is left that could be missed
                self.stop()
        except NotReady as not_ready:
            self._undrawn += 1
            not_ready.call_back(lambda: self._draw_again(client))
        else:
            self._free.append(client)

    def _draw_again(self, client: Client) -> None:
        """For a client that is free since its `free_ns`: that it has nothing to send was the driver's lag."""
        self._undrawn -= 1
        if not self._stopping:
            self._set_free(client)
            self._serve_line()

    def _end_if_served(self) -> None:
        """A loop that ends by numbers is over when all arrivals were served; one with an end waits for it."""
        if self._arrived_all and self._length.end_ns is None and not self._line:
            self._stopping = True
            self._end_if_idle()
