"""The hot path, run once for each request: send it, read its reply, judge and count it, send the next one.

    OpenLoop or ClosedLoop -> Lane.begin -> Link.send ... Link.data_received -> Inbox -> Link.handle -> Lane.on_reply

The classes are bases of `Recorder`, `Connection` and `TemplateClient`, which hold all that is rare. `_hot.c` is the
same code compiled, and takes their place where it could be built; ESBENCH_PURE=1 in the environment keeps Python's.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_left
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from esbench.measure.slice_rate import PART_NS
from esbench.measure.verdict import GOOD, Verdict
from esbench.requests.exchange import RequestBytes

if TYPE_CHECKING:
    from esbench.measure.tally import Tally

NEVER_NS = 1 << 62
clock_ns = time.perf_counter_ns  # CLOCK_MONOTONIC on Linux: one clock for all processes of a host


class Meter:
    """The counter of one task's good requests in its current segment: a second and phase, and inside the window or not.

    It holds the limits of a loop, too. While it `repeats`, a client whose request was good sends the next one at once,
    until `end_ns`, and until `most` have `begun`. `second_ns` is the begin of the current second where times of
    completion are counted. Times are ns; 0 stands for none.
    """

    def __init__(self, is_open: bool, within_ns: tuple[int, ...]) -> None:
        self.repeats = False
        self.begun = 0
        self.most = NEVER_NS
        self.end_ns = NEVER_NS
        self.warmup_end_ns = 0
        self.warmup_requests = 0
        self.last_received_ns = 0  # of the measurement
        self.from_ns = 0
        self.until_ns = 0
        self.second_ns = 0
        self.is_warmup = False
        self.is_in_window = False
        self._is_open = is_open
        self._within_ns = within_ns
        self._tally: Tally

    def move_to(self, at_ns: int, warmup: bool) -> bool:
        """Make the segment of a time the current one. Returns False, and does nothing, if that would be a step back."""
        raise NotImplementedError

    def count_apart(self, at_ns: int, warmup: bool) -> Tally:
        """Return the tally of a time and phase that need not lie in the current segment."""
        raise NotImplementedError

    def completed(
        self, due_ns: int, free_ns: int, sent_ns: int, received_ns: int, warmup: bool, verdict: Verdict
    ) -> None:
        """Count any request, good or failed, in any segment."""
        raise NotImplementedError

    def exchanged(self, link: Link, status: int, at_ns: int, warmup: bool) -> None:
        """Count the bytes of a link's last request and its reply, whose status is 0 if it has none."""
        raise NotImplementedError

    def fold(self) -> None:
        """Add what was counted to the tally of the current segment; here it is in it already."""

    def arrived(self, due_ns: int, warmup: bool, waits: bool) -> None:
        """Count an arrival of an open loop; `waits` if it found no free client."""
        tally = self._tally if self._is_current(due_ns, warmup) else self.count_apart(due_ns, warmup)
        tally.due += 1
        if waits:
            tally.waited += 1

    def sent(self, sent_ns: int, warmup: bool) -> None:
        """Count a request at its first byte."""
        tally = self._tally if self._is_current(sent_ns, warmup) else self.count_apart(sent_ns, warmup)
        tally.sent += 1

    def good(
        self,
        due_ns: int,
        free_ns: int,
        sent_ns: int,
        received_ns: int,
        warmup: bool,
        verdict: Verdict,
        link: Link,
        status: int,
    ) -> None:
        """Count a request without failure and details at its last byte, as `exchanged` and `completed` do."""
        if not self._is_current(received_ns, warmup):
            self.exchanged(link, status, received_ns, warmup)
            self.completed(due_ns, free_ns, sent_ns, received_ns, warmup, verdict)
            return
        tally = self._tally
        tally.bytes_sent += link.bytes_sent
        tally.bytes_received += link.bytes_received
        if status:
            tally.add_status(status)
        tally.requests += 1
        tally.units += verdict.units
        if self.is_in_window:
            tally.in_window += 1
            tally.in_window_units += verdict.units
        if not warmup:
            self.last_received_ns = received_ns
        charged_ns = service_ns = received_ns - sent_ns
        tally.service_time.add(service_ns)
        if verdict.label is not None:
            part = tally.part(verdict.label)
            part.requests += 1
            part.service_time.add(service_ns)
        if self._is_open:
            charged_ns = received_ns - due_ns
            tally.latency.add(charged_ns)
            if free_ns <= due_ns:
                tally.punctual.add(sent_ns - due_ns)
            else:
                tally.client_wait.add(free_ns - due_ns)
                tally.driver_lag.add(sent_ns - free_ns)
                tally.schedule_lag.add(sent_ns - due_ns)
        else:
            tally.driver_ns += sent_ns - free_ns
        if self.second_ns and received_ns < self.until_ns:
            tally.completed_at.add((received_ns - self.second_ns) // PART_NS * PART_NS)
        if (position := bisect_left(self._within_ns, charged_ns)) < len(self._within_ns):
            tally.within[position] += 1

    def _is_current(self, at_ns: int, warmup: bool) -> bool:
        return (self.from_ns <= at_ns < self.until_ns and warmup is self.is_warmup) or self.move_to(at_ns, warmup)


class Inbox:
    """The data that the connections of a process have read in this turn of the event loop, stamped and not handled yet.

    All replies of a turn are stamped before the first of them is handled: none is charged for another's handling.
    """

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: list[tuple[Link, bytes, int]] = []

    def put(self, link: Link, data: bytes) -> None:
        self._read.append((link, data, clock_ns()))
        if len(self._read) == 1:
            self._handle_soon()

    def handle(self) -> None:
        """Handle all data that was read; after an error, the rest is left to another turn."""
        read, self._read = self._read, []
        handled = 0
        try:
            for link, data, read_ns in read:
                handled += 1
                link.handle(data, read_ns)
        finally:
            if handled < len(read):
                self._read[:0] = read[handled:]
                self._handle_soon()

    def _handle_soon(self) -> None:
        asyncio.get_running_loop().call_soon(self.handle)


class Link:
    """A connection to a host: its socket. `sent_ns` is the time of its request's first byte, `deadline_ns` its timeout.

    `owner` has the methods of `transport.Owner`. `received_ns` is when it last received anything, 0 before. `fd` is -1
    where the transport writes. `partial` is True when a part of a reply was read. `bytes_sent` and `bytes_received`
    are of the last request and its reply, as far as it was read.
    """

    __slots__ = (
        *("_inbox", "bytes_received", "bytes_sent", "deadline_ns", "fd", "in_flight", "owner", "partial"),
        *("received_ns", "sent_ns", "usable"),
    )

    def __init__(self, owner: Any, inbox: Inbox) -> None:
        self.owner = owner
        self._inbox = inbox
        self.fd = -1
        self.usable = False
        self.in_flight = False
        self.partial = False
        self.sent_ns = 0
        self.received_ns = 0
        self.deadline_ns = 0
        self.bytes_sent = 0
        self.bytes_received = 0

    def data_received(self, data: bytes) -> None:
        self._inbox.put(self, data)

    def handle(self, data: bytes, read_ns: int) -> None:
        """Take data that was read at `read_ns`; a complete reply is passed to the owner, with that time."""
        self.received_ns = read_ns
        self.bytes_received += len(data)
        self.parse(data, read_ns)

    def parse(self, data: bytes, read_ns: int) -> None:
        """Handle any data of a reply, whole or in part."""
        raise NotImplementedError

    def send(self, pieces: RequestBytes, timeout_ns: int) -> bool:
        """Write one request; its reply or failure is passed to the owner.

        `timeout_ns` only sets `deadline_ns`: the owner fails the request after it. Returns False if the connection
        turns out to be lost and nothing was sent; the owner is not called then.
        """
        self.sent_ns = sent_ns = clock_ns()
        self.deadline_ns = sent_ns + timeout_ns
        self.in_flight = True
        self.bytes_received = 0
        # Written to the socket itself: uvloop writes at the end of its turn only, after all that it does until then.
        if self.fd < 0:
            return self.write_later(pieces, 0)
        try:
            written = os.writev(self.fd, pieces)
        except BlockingIOError:
            return self.write_later(pieces, 0)
        except OSError:
            self.close()
            return False
        if written != sum(map(len, pieces)):
            return self.write_later(pieces, written)
        self.bytes_sent = written
        return True

    def write_later(self, pieces: RequestBytes, written: int) -> bool:
        """Let the transport write the bytes after the first `written` ones.

        It counts them all as sent, and writes further requests, too, until its buffer is empty. Returns False if
        nothing was written and the connection turns out to be lost.
        """
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class Lane:
    """The path of a client's requests, one after the other.

    `is_plain` if each request is one exchange without a name.
    """

    is_plain: bool
    meter: Meter
    link: Link
    draw: Callable[[], Any]
    render: Callable[[Any], RequestBytes]
    judge: Callable[[int, bytes, Any], Verdict]
    drawn: Any
    timeout_ns: int
    free_ns: int
    due_ns: int
    sent_ns: int
    warmup: bool
    loop: Any

    def begin(self, due_ns: int, warmup: bool) -> None:
        """Send the request in `drawn`; the loop's `freed` is called when it is over.

        `due_ns` is its due time (of `clock_ns`), 0 in a closed loop. With `warmup`, it is counted in the warmup.
        """
        self.due_ns = due_ns
        self.warmup = warmup
        link = self.link
        if self.is_plain and link.usable and link.send(self.render(self.drawn), self.timeout_ns):
            self.sent_ns = link.sent_ns
            self.meter.sent(link.sent_ns, warmup)
        else:
            self.begin_slowly()

    def begin_slowly(self) -> None:
        """Send the request in `drawn` where `begin` cannot do it at once: a sequence, or a lost connection."""
        raise NotImplementedError

    def on_reply(self, status: int, body: bytes, received_ns: int) -> None:
        verdict = self.judge(status, body, self.drawn)
        if (verdict is not GOOD and (verdict.error is not None or verdict.details is not None)) or not self.is_plain:
            self.meter.exchanged(self.link, status, received_ns, self.warmup)
            self.on_verdict(status, body, received_ns, verdict)
            return
        meter = self.meter
        meter.good(self.due_ns, self.free_ns, self.sent_ns, received_ns, self.warmup, verdict, self.link, status)
        self.free_ns = received_ns
        if not (meter.repeats and received_ns < meter.end_ns and meter.begun < meter.most):
            self.loop.freed(self)
            return
        try:
            self.drawn = self.draw()
        except Exception as reason:  # noqa: BLE001 - the loop raises what it does not expect
            self.loop.not_drawn(self, reason)
            return
        warmup = received_ns < meter.warmup_end_ns or meter.begun < meter.warmup_requests
        meter.begun += 1
        self.begin(0, warmup)

    def on_verdict(self, status: int, body: bytes, received_ns: int, verdict: Verdict) -> None:
        """Handle the verdict on any reply: good, failed, to be tried again, or one of a sequence."""
        raise NotImplementedError


IS_COMPILED = not os.environ.get("ESBENCH_PURE") and find_spec("esbench.load._hot") is not None
if IS_COMPILED:
    _hot: Any = import_module("esbench.load._hot")
    Inbox, Lane, Link, Meter = _hot.Inbox, _hot.Lane, _hot.Link, _hot.Meter  # type: ignore[misc]
