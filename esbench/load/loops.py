"""Loops of a task's clients: closed (each sends again as soon as it is answered) or open (as the schedule says).

One loop is one task's share in one worker. It ends when its time or its numbers are over, or its corpora are exhausted,
or it is stopped; what is in flight then is awaited.
"""

from __future__ import annotations

import asyncio
from array import array
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from esbench.load.client import Client
from esbench.load.hot import NEVER_NS, clock_ns
from esbench.load.recorder import Recorder
from esbench.measure.histogram import Counts, index_of, lowest_equivalent_ns
from esbench.measure.precise_timer import Alarm
from esbench.measure.verdict import Verdict
from esbench.requests.exchange import Exhausted, NotReady

NS = 1_000_000_000
_AT_ONCE = 1_000  # arrivals that are dispatched before the event loop goes on with other things
_LATE_NS = 1_000_000  # an arrival that is seen later than this after it was due is late by the driver's doing
_EARLY_NS = 2_000_000  # by which an alarm may be early
_SHARED_NS = 50_000  # that a dense arrival may wait for another reason to wake up
_DENSE_NS = 4 * _SHARED_NS  # the widest gap after which an arrival is dense
_FORGET_AT = 1 << 16  # arrivals that were taken out of a line


@dataclass(frozen=True)
class Length:
    """The length of a loop, one worker's share of a task: until `end_ns`, or `requests` of them.

    Both None: until its clients' corpora are exhausted. Requests due (closed loop: sent) before `warmup_end_ns` are
    warmup, and so are the first `warmup_requests`. From `ramp_down_ns` on the clients of a closed loop leave, the last
    of them at `end_ns`; None: they all end then. Times are of `clock_ns`.
    """

    warmup_end_ns: int = 0
    end_ns: int | None = None
    requests: int | None = None
    warmup_requests: int = 0
    ramp_down_ns: int | None = None


class TaskLoop:
    """The base of both kinds of loop: counts the busy clients; it ends when it is to stop and no client is busy.

    `ended` is called once, when nothing is in flight any more; `failed` for each failed request. `end_ns` is when it
    ended.
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
        self._ended = ended
        self.failed = failed
        self._busy = 0
        self._resting: dict[Client, asyncio.TimerHandle] = {}
        self._stopping = False
        self._over = False
        self._end_ns = recorder.end_ns = NEVER_NS if length.end_ns is None else length.end_ns
        recorder.most = NEVER_NS if length.requests is None else length.requests
        recorder.warmup_end_ns, recorder.warmup_requests = length.warmup_end_ns, length.warmup_requests
        self._time = recorder.time
        self._warmup_ns = recorder.time.own_ns(length.warmup_end_ns)
        for client in clients:
            client.loop, client.meter = self, recorder

    @property
    def unsent(self) -> int:
        """The number of arrivals that were due in the measurement and were never sent."""
        return 0

    @property
    def backlog(self) -> int:
        """The number of due arrivals that wait for a free client; at the end, with those that were never sent."""
        return 0

    def start(self, start_ns: int) -> None:
        """Begin at `start_ns`; every client is connected already."""
        for client in self.clients:
            client.free_ns = start_ns

    def freed(self, client: Client) -> None:
        """Take back a client whose request is over."""
        self._busy -= 1

    def rests(self, client: Client, until_ns: int) -> None:
        """Take back a client whose request is over after a pause, or at the end, which waits for no pause."""

        def rested() -> None:
            del self._resting[client]
            client.free_ns = until_ns
            self.freed(client)

        if self._stopping:
            self.freed(client)
            return
        delay_s = max(0, until_ns - clock_ns()) / NS
        self._resting[client] = asyncio.get_running_loop().call_later(delay_s, rested)

    def _wake(self) -> None:
        """Take back all clients that rest."""
        resting, self._resting = self._resting, {}
        for client, handle in resting.items():
            handle.cancel()
            self.freed(client)

    def not_drawn(self, client: Client, reason: Exception) -> None:
        """Take back a client whose request is over, and whose next one could not be drawn.

        `reason` is what `draw` raised; it is raised again unless it is Exhausted or NotReady.
        """
        raise NotImplementedError

    def stop(self) -> None:
        """Take no further arrivals; what is in flight is awaited."""
        self._stopping = True
        self._wake()
        self._end_if_idle()

    def give_up(self, kind: str, detail: str) -> None:
        """Fail all requests that are still in flight, with this kind of failure (`Verdict.error`) and detail."""
        for client in self.clients:
            client.give_up(kind, detail)

    def sweep(self, now_ns: int) -> None:
        """Fail the requests that have timed out by `now_ns`."""
        for client in self.clients:
            client.sweep(now_ns)

    def close(self) -> None:
        """Close all connections; nothing more is reported."""
        self._stopping = self._over = True
        for handle in self._resting.values():
            handle.cancel()
        for client in self.clients:
            client.close()

    def _is_warmup(self, own_ns: int, number: int) -> bool:
        """True if a request is not measured: in the warmup, by own time or number, or at the beginning of a slice."""
        return own_ns < self._warmup_ns or self._time.settles(own_ns) or number < self._length.warmup_requests

    def _end_if_idle(self) -> None:
        if self._stopping:
            self._wake()
        if self._stopping and not self._busy and not self._over:
            self._over = True
            self.end_ns = clock_ns()
            self._ended()


class TimedLoop(TaskLoop):
    """A loop whose clients wait by timers of the event loop, one each."""

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
    """A closed loop: every client sends again as soon as it is answered, after its think time.

    `think_s` draws that time; None: no time. A number of requests is one shared total: no client waits for a
    slower one. The client of slot i begins i times
    `stagger_s` of own time late. Outside of the slices of its side, clients that are answered wait for the next slice.
    """

    def __init__(
        self,
        clients: Sequence[Client],
        recorder: Recorder,
        length: Length,
        *,
        ended: Callable[[], None],
        failed: Callable[[Verdict], None],
        think_s: Callable[[], float] | None = None,
        stagger_s: float = 0.0,
    ) -> None:
        super().__init__(clients, recorder, length, ended=ended, failed=failed)
        self._think_s = think_s
        self._stagger_s = stagger_s
        self._exhausted = 0
        self._parked: list[Client] = []
        self._next_slice: Alarm | None = None

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        self._enter_slice(start_ns)
        self.recorder.repeats = self._think_s is None
        for client in self.clients:
            if self._stagger_s and client.slot:
                joins_ns = self._time.at_ns(int(self._stagger_s * client.slot * NS))
                self._later(client, joins_ns)
            else:
                self._next(client, start_ns)

    def freed(self, client: Client) -> None:
        self._busy -= 1
        if self._think_s is not None and not self._stopping:
            self._later(client, client.free_ns + round(self._think_s() * NS))
        else:
            self._next(client, client.free_ns)

    def _later(self, client: Client, at_ns: int) -> None:
        def turn() -> None:
            del self._waiting[client]
            client.free_ns = at_ns
            self._next(client, clock_ns())

        delay_s = max(0, at_ns - clock_ns()) / NS
        self._waiting[client] = asyncio.get_running_loop().call_later(delay_s, turn)

    def stop(self) -> None:
        self.recorder.repeats = False
        super().stop()

    def _next(self, client: Client, now_ns: int) -> None:
        recorder = self.recorder
        if now_ns >= self._end_ns or recorder.begun >= recorder.most:
            self._stopping = True
        elif now_ns >= recorder.end_ns and not self._stopping:
            self._park(client)
            return
        if self._stopping:
            self._end_if_idle()
            return
        try:
            client.drawn = client.draw()
        except (Exhausted, NotReady) as reason:
            self._busy += 1
            self.not_drawn(client, reason)
            return
        warmup = now_ns < recorder.warmup_end_ns or recorder.begun < recorder.warmup_requests
        recorder.begun += 1
        self._busy += 1
        client.begin(0, warmup)

    def _enter_slice(self, at_ns: int) -> None:
        """Set the limits of the slice at a time: its end, and until when nothing is measured."""
        _, settled_ns, end_ns = self._time.slice_at(at_ns)
        self.recorder.end_ns = min(self._end_ns, end_ns)
        self.recorder.warmup_end_ns = max(self._length.warmup_end_ns, settled_ns)

    def _park(self, client: Client) -> None:
        """Let a client wait for the next slice."""
        if self._next_slice is None:
            self._next_slice = Alarm(asyncio.get_running_loop(), self._go_on)
        if not self._parked:
            self._next_slice.set(self._time.slice_at(clock_ns()).begin_ns)
        self._parked.append(client)

    def _go_on(self) -> None:
        """Begin the slice that all parked clients wait for."""
        begin_ns = self._time.slice_at(clock_ns()).begin_ns
        if self._next_slice is not None and begin_ns - clock_ns() > _EARLY_NS:  # the process was stopped for a slice
            self._next_slice.set(begin_ns)
            return
        while clock_ns() < begin_ns:
            pass  # where alarms are the loop's timers, they may be a millisecond early
        self._enter_slice(begin_ns)
        parked, self._parked = self._parked, []
        for client in parked:
            client.free_ns = begin_ns
            self._next(client, begin_ns)

    def close(self) -> None:
        if self._next_slice is not None:
            self._next_slice.close()
        super().close()

    def not_drawn(self, client: Client, reason: Exception) -> None:
        self._busy -= 1
        if isinstance(reason, NotReady):
            reason.call_back(lambda: self._next(client, clock_ns()))  # free since its `free_ns`: the driver's lag
            return
        if not isinstance(reason, Exhausted):
            raise reason
        self._exhausted += 1
        if self._exhausted == len(self.clients):
            self._stopping = True
        self._end_if_idle()


class Line:
    """A queue of arrivals that wait for a free client, in order. Each takes 8 bytes, since there may be millions.

    Times are the task's own: nothing waits while other sides have their slices.
    """

    def __init__(self) -> None:
        self.length = 0
        self._due_ns = array("q")
        self._first = 0  # place of the first one that still waits
        self._taken = 0
        self._seen_late: deque[tuple[int, int, int]] = deque()  # numbers of arrivals, from and until, and when seen

    def append(self, due_ns: int, seen_ns: int) -> None:
        """Add an arrival to the end; `seen_ns` is when the dispatcher saw that it was due."""
        number = self._taken + self.length
        self.length += 1
        self._due_ns.append(due_ns)
        if seen_ns - due_ns > _LATE_NS:
            begin = number
            if self._seen_late and self._seen_late[-1][1:] == (number, seen_ns):
                begin = self._seen_late.pop()[0]
            self._seen_late.append((begin, number + 1, seen_ns))

    def take(self) -> tuple[int, int]:
        """Remove the first arrival of a queue that is not empty.

        Returns when it was due, and when it was seen: if not late, its due time.
        """
        due_ns, number = self._due_ns[self._first], self._taken
        self.length -= 1
        self._taken += 1
        self._first += 1
        if self._first == _FORGET_AT:
            del self._due_ns[: self._first]
            self._first = 0
        while self._seen_late and self._seen_late[0][1] <= number:
            self._seen_late.popleft()
        is_late = self._seen_late and self._seen_late[0][0] <= number
        return due_ns, self._seen_late[0][2] if is_late else due_ns

    def waited(self, now_ns: int, since_ns: int, skip: int) -> Counts:
        """Return a histogram of how long arrivals due at `since_ns` or later have waited by `now_ns`.

        The first `skip` of the queue are left out. It counts bucket by bucket: there may be millions.
        """
        due_ns, waited = self._due_ns, Counts()
        first = begin = max(self._first + skip, bisect_left(due_ns, since_ns, self._first))
        while begin < len(due_ns):
            bucket = index_of(now_ns - due_ns[begin])
            end = bisect_right(due_ns, now_ns - lowest_equivalent_ns(bucket), begin)
            waited.buckets[bucket] = end - begin
            begin = end
        if waited.buckets:
            waited.total_ns = now_ns * (len(due_ns) - first) - sum(due_ns[first:])
            waited.min_ns, waited.max_ns = now_ns - due_ns[-1], now_ns - due_ns[first]
        return waited


class OpenLoop(TaskLoop):
    """An open loop: arrivals are handed to free clients when they are due; late ones are queued and never dropped.

    `arrivals` are due times in ns of own time, in ascending order. None is sent early. Dense ones wait up to 50 us for
    a reply, or for the next of them, to share its wake-up of the process: driver lag, like any other. Outside of the
    slices of its side nothing is due, and the queue waits for the next one. At its end the queue is still sent if there
    is a client for each of its arrivals, so that chance leaves none behind; of a longer queue, which is that of an
    overloaded cluster, nothing more is sent.
    """

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
        self._line = Line()
        self._undrawn = 0  # clients whose next request is not made yet
        self._exhausted = 0  # clients without a next request
        self._arrived_all = False
        self._unsent = 0
        self._left = 0
        self._next_own_ns = self._next_due_ns = 0
        self._is_dense = False  # whether the next arrival is
        self._slice = recorder.time.slice_at(recorder.time.begin_ns)
        self._zero_ns = recorder.time.begin_ns  # of own time, on the clock of the present slice
        self._alarm: Alarm | None = None

    @property
    def unsent(self) -> int:
        return self._unsent

    @property
    def backlog(self) -> int:
        return self._line.length + self._left

    def start(self, start_ns: int) -> None:
        super().start(start_ns)
        self._begin_slice(start_ns)
        for client in self.clients:
            self._set_free(client)
        self._alarm = Alarm(asyncio.get_running_loop(), self._dispatch)
        self._advance()
        self._set_alarm(self._alarm)

    def freed(self, client: Client) -> None:
        self._busy -= 1
        if not self._stopping or self._line.length:
            self._set_free(client)
            if self._line.length:
                self._serve_in_time()
        if self._arrived_all:
            self._end_if_served()
        elif self._free and self._next_due_ns <= clock_ns():
            self._dispatch()

    def _begin_slice(self, now_ns: int) -> None:
        """Serve the queue in a new slice of the side, whose own time goes on where it stood still."""
        begin_ns, _, _ = self._slice = self._time.slice_at(now_ns)
        self._zero_ns = begin_ns - self._time.own_ns(begin_ns)
        self._next_due_ns = self._due_ns(self._next_own_ns)
        # While the other side had the time, a free client did not wait for arrivals: there were none in own time.
        for client in self._free:
            client.free_ns = max(client.free_ns, begin_ns)
        while self._line.length and self._free:
            self._serve_line()

    def stop(self) -> None:
        self._arrived_all = True
        if self._line.length > len(self.clients):
            self._leave_line()
        super().stop()

    def give_up(self, kind: str, detail: str) -> None:
        self._leave_line()
        super().give_up(kind, detail)
        self._end_if_idle()

    def close(self) -> None:
        if self._alarm is not None:
            self._alarm.close()
        super().close()

    def _dispatch(self) -> None:
        """Hand due arrivals to free clients, or queue them; end the loop once the last one was."""
        seen_ns = clock_ns()
        if self._slice.end_ns <= seen_ns >= self._time.slice_at(seen_ns).begin_ns:
            self._begin_slice(seen_ns)
        for _ in range(_AT_ONCE):
            due_ns = self._next_due_ns
            if due_ns > seen_ns:
                seen_ns = clock_ns()
            if due_ns > seen_ns or self._arrived_all:
                break
            warmup = self._is_warmup(self._next_own_ns, self.recorder.begun)
            self.recorder.begun += 1
            is_late = seen_ns - due_ns > _LATE_NS  # what the driver saw late does not wait for the cluster
            if self._free:
                client = self._free.popleft()
                self.recorder.arrived(due_ns, warmup, waits=client.free_ns > due_ns and not is_late)
                self._busy += 1
                client.begin(due_ns, warmup)
            else:
                # nor does what it has no document for
                self.recorder.arrived(due_ns, warmup, waits=not (is_late or self._undrawn))
                self._line.append(due_ns - self._zero_ns, seen_ns - self._zero_ns)
            self._advance()
        if self._alarm is not None:
            self._set_alarm(self._alarm)

    def _set_alarm(self, alarm: Alarm) -> None:
        """Set the alarm for the next arrival, or for the next slice if it lies there; after the last one, for the end.

        A late loop overlooks none of them.
        """
        end_ns, now_ns = self._length.end_ns, clock_ns()
        if self._over:
            return
        if self._arrived_all and end_ns is not None and now_ns >= end_ns:
            self.stop()
            while self._line.length and self._free:  # clients that were freed before this alarm
                self._serve_line()
            return
        goes_on_ns = self._next_due_ns
        if self._arrived_all:
            goes_on_ns = now_ns if self._line.length else 0
        if goes_on_ns >= self._slice.end_ns:
            alarm.set(self._time.slice_at(self._slice.end_ns).begin_ns)
        elif not self._arrived_all:
            alarm.set(self._next_due_ns + (_SHARED_NS if self._is_dense else 0))
        elif end_ns is not None:
            alarm.set(end_ns)

    def _advance(self) -> None:
        """Move to the next arrival, if there is one; end the arrivals otherwise."""
        last_ns = self._next_own_ns
        self._next_own_ns = next(self._arrivals, NEVER_NS)
        self._is_dense = self._next_own_ns - last_ns <= _DENSE_NS
        self._next_due_ns = at_ns = self._due_ns(self._next_own_ns)
        if at_ns >= self.recorder.end_ns or self.recorder.begun >= self.recorder.most:
            self._arrived_all = True
            self._end_if_served()

    def _due_ns(self, own_ns: int) -> int:
        """Return the time of an arrival on the clock of the present slice, also of one that an earlier slice had."""
        if own_ns == NEVER_NS:
            return NEVER_NS
        at_ns = self._time.at_ns(own_ns)
        return at_ns if at_ns >= self._slice.begin_ns else self._zero_ns + own_ns

    def not_drawn(self, client: Client, reason: Exception) -> None:
        if not isinstance(reason, Exhausted):
            raise reason
        self._busy -= 1
        self._leave()
        if self._arrived_all:
            self._end_if_served()

    def _leave(self) -> None:
        """Do without a client that has no next request; without any, nothing is left that could be missed."""
        self._exhausted += 1
        if self._exhausted == len(self.clients):
            self._line = Line()
            self.stop()

    def _set_free(self, client: Client) -> None:
        try:
            # Drawn before an arrival is due: to make a request takes time, which would be the lag of its send.
            client.drawn = client.draw()
        except Exhausted:
            self._leave()
        except NotReady as not_ready:
            self._undrawn += 1
            not_ready.call_back(lambda: self._draw_again(client))
        else:
            self._free.append(client)

    def _draw_again(self, client: Client) -> None:
        """Draw for a client that is free since its `free_ns`: the time without a request to send is driver lag."""
        self._undrawn -= 1
        if not self._stopping or self._line.length:
            self._set_free(client)
            if self._line.length:
                self._serve_in_time()
        self._end_if_served()

    def _serve_in_time(self) -> None:
        """Send the first of the queue; outside of the slices, it waits for the next one."""
        if self._alarm is not None and not self._stopping and clock_ns() >= self._slice.end_ns:
            self._set_alarm(self._alarm)
        else:
            self._serve_line()

    def _serve_line(self) -> None:
        if self._free:
            number = self.recorder.begun - self._line.length
            own_ns, seen_ns = self._line.take()
            client = self._free.popleft()
            client.free_ns -= seen_ns - own_ns  # that it was seen late is the driver's lag, not client wait
            self._busy += 1
            client.begin(self._zero_ns + own_ns, self._is_warmup(own_ns, number))

    def _leave_line(self) -> None:
        """Give up the queue: count its arrivals as unsent."""
        line, now_ns = self._line, clock_ns()
        warmup_left = max(0, self._length.warmup_requests - (self.recorder.begun - line.length))
        waited = line.waited(self._time.own_ns(now_ns), self._warmup_ns, min(warmup_left, line.length))
        self._unsent += waited.count
        self._left += line.length
        self._line = Line()
        if waited.count:
            self.recorder.never_sent(now_ns, waited)

    def _end_if_served(self) -> None:
        """End a loop of a given number of requests once all arrivals were served; one with an end time waits for it."""
        if self._arrived_all and not self._line.length:
            if self._length.end_ns is None:
                self._stopping = True
            self._end_if_idle()

    def _end_if_idle(self) -> None:
        if not self._line.length:
            super()._end_if_idle()
