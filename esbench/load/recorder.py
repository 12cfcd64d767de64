"""Counts of one task in one worker: per second and phase, while the clock runs. Memory does not grow with requests.

A request is counted in the second (from the task's start) in which it completed, under the phase in which it was due
(closed loop: sent). Nothing is sent from here: the worker collects closed seconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator

from esbench.load.hot import Link, Meter
from esbench.measure.histogram import Counts
from esbench.measure.slice_rate import PART_NS
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Second, Spread, Tally
from esbench.measure.verdict import SAMPLED_TOOK, TIMEOUT, TOOK, Details, Verdict

NS = 1_000_000_000


def _count_details(tally: Tally, details: Details) -> None:
    """Count documents by result, the server's own time, and what a runner returned, each under its own name."""
    for name, count in details.results.items():
        tally.part(name).requests += count
    if details.took_ms is not None:
        took = tally.part(SAMPLED_TOOK if details.sampled else TOOK)
        took.requests += 1
        took.service_time.add(details.took_ms * 1_000_000)
    for name, number in details.returned.items():
        tally.add_returned(name, Spread(1, number, number, number))


class Recorder(Meter):
    """The counter of one task's requests in one worker. All times are ns of one monotonic clock.

    `time` is the task's, in whose own seconds it counts. `window_ns` is the measurement window [start, end) of a
    time-based task, None for one that ends by numbers or is raced in slices. `within_ns` are sorted thresholds, counted
    exactly over good replies. `soon` calls a function when the event loop has handled all that it read, and sent
    what follows: then replies are scored; None: when their second is closed.
    """

    def __init__(
        self,
        time: WholeTime,
        *,
        is_open: bool,
        window_ns: tuple[int, int] | None = None,
        within_ns: tuple[int, ...] = (),
        soon: Callable[[Callable[[], None]], object] | None = None,
    ) -> None:
        super().__init__(is_open, within_ns)
        self.time = time
        self.first_measured_ns: int | None = None  # the first arrival (closed loop: send) of the measurement
        self._is_open = is_open
        self._within_ns = within_ns
        self._window_ns = window_ns
        self._tally = Tally()
        self._tallies: dict[tuple[int, bool], Tally] = {}
        self._closed_until = 0
        self._soon = soon
        self._unscored: list[tuple[Tally, Callable[[], tuple[str, int, float]]]] = []

    @property
    def last_measured_received_ns(self) -> int | None:
        """The time of the last byte of the measurement so far; None before any."""
        return self.last_received_ns or None

    def completed(
        self, due_ns: int, free_ns: int, sent_ns: int, received_ns: int, warmup: bool, verdict: Verdict
    ) -> None:
        """Count a request at its last byte, or at its failure. `due_ns` matters to open loops only."""
        tally = self.count_apart(received_ns, warmup)
        tally.requests += 1
        tally.overlapping += self.time.is_beside(received_ns)
        if not warmup:
            self.last_received_ns = received_ns
        service_ns = received_ns - sent_ns
        if verdict.error is None:
            self._count_good(tally, verdict, service_ns, received_ns - due_ns if self._is_open else service_ns)
        else:
            tally.errors.add(verdict.error, verdict.example, evidence=verdict.evidence)
            tally.failed.add(service_ns)
            # It would have taken longer still: left out, a server that hangs had better percentiles than a slow one.
            if verdict.error == TIMEOUT:
                tally.service_time_beyond.add(service_ns)
                if self._is_open:
                    tally.latency_beyond.add(received_ns - due_ns)
        self._count_units(tally, received_ns, warmup, verdict, requests=1)
        if self._is_open:
            # Before both, nobody could have sent it: until then it waits for a client, from then on for the driver.
            ready_ns = max(due_ns, free_ns)
            tally.client_wait.add(ready_ns - due_ns)
            tally.driver_lag.add(sent_ns - ready_ns)
            tally.schedule_lag.add(sent_ns - due_ns)
        else:
            tally.driver_ns += sent_ns - free_ns
            if second_ns := self.time.slice_second_ns(received_ns):
                tally.completed_at.add((received_ns - second_ns) // PART_NS * PART_NS)

    def _count_good(self, tally: Tally, verdict: Verdict, service_ns: int, charged_ns: int) -> None:
        tally.service_time.add(service_ns)
        if self._is_open:
            tally.latency.add(charged_ns)
        if (position := bisect_left(self._within_ns, charged_ns)) < len(self._within_ns):
            tally.within[position] += 1
        if verdict.label is not None:
            part = tally.part(verdict.label)
            part.requests += 1
            part.service_time.add(service_ns)

    def _count_units(self, tally: Tally, at_ns: int, warmup: bool, verdict: Verdict, requests: int) -> None:
        tally.units += verdict.units
        if self._lies_in_window(at_ns, warmup):
            tally.in_window += requests
            tally.in_window_units += verdict.units
        if verdict.details is not None:
            _count_details(tally, verdict.details)
            if verdict.details.score is not None:
                self._score_later(tally, verdict.details.score)

    def _score_later(self, tally: Tally, score: Callable[[], tuple[str, int, float]]) -> None:
        # To score a reply takes CPU, and this is called before the next request of the loop is sent.
        self._unscored.append((tally, score))
        if self._soon is not None and len(self._unscored) == 1:
            self._soon(self._score_all)

    def _score_all(self) -> None:
        unscored, self._unscored = self._unscored, []
        for tally, score in unscored:
            tally.scores.add(*score())

    def tried(self, received_ns: int, warmup: bool, verdict: Verdict) -> None:
        """Count the units and details of one try; the request goes on with another one."""
        self._count_units(self.count_apart(received_ns, warmup), received_ns, warmup, verdict, requests=0)

    def part(self, name: str, sent_ns: int, received_ns: int, warmup: bool, error: str | None = None) -> None:
        """Count one request of a sequence under its own name; `error` is the kind of its failure, if it has failed."""
        part = self.count_apart(received_ns, warmup).part(name)
        part.requests += 1
        if error is None:
            part.service_time.add(received_ns - sent_ns)
        else:
            part.errors += 1
            if error == TIMEOUT:
                part.beyond.add(received_ns - sent_ns)

    def exchanged(self, link: Link, status: int, at_ns: int, warmup: bool) -> None:
        """Count the bytes of a link's last request and its reply, whose status is 0 if it has none.

        The link of a client library's client is never used: the bytes of its connections are not known.
        """
        tally = self.count_apart(at_ns, warmup)
        tally.bytes_sent += link.bytes_sent
        tally.bytes_received += link.bytes_received
        if status:
            tally.add_status(status)

    def never_sent(self, now_ns: int, waited: Counts) -> None:
        """Count arrivals of the measurement that are given up in the queue; only the time that they waited is known."""
        self.count_apart(now_ns, warmup=False).latency_beyond.merge(waited)

    def closed_seconds(self, now_ns: int) -> Iterator[Second]:
        """Yield, in order, the seconds before the one that `now_ns` lies in, and forget them.

        What is reported late of a closed second is counted in the first open one.
        """
        self.fold()
        self._score_all()
        self._closed_until = max(self._closed_until, self.time.second_of(now_ns))
        for second, warmup in sorted(key for key in self._tallies if key[0] < self._closed_until):
            tally = self._tallies.pop((second, warmup))
            tally.settle()
            yield Second(second, warmup, tally)
        self.from_ns = self.until_ns = 0  # the next request looks its tally up again

    def count_apart(self, at_ns: int, warmup: bool) -> Tally:
        """Return the tally of a time's second and phase, a new one at the first call.

        Of a second that was closed already, it is that of the first open one.
        """
        if self.first_measured_ns is None and not warmup:
            self.first_measured_ns = at_ns
        key = (max(self._closed_until, self.time.second_of(at_ns)), warmup)
        if key not in self._tallies:
            self._tallies[key] = Tally(within=[0] * len(self._within_ns))
        return self._tallies[key]

    def move_to(self, at_ns: int, warmup: bool) -> bool:
        """Make the second and phase of a time the current segment; never back in time, or in a second to its warmup.

        Returns False, and does nothing, where that would be a step back (requests of the warmup complete beside the
        first ones of the measurement), and for a request that is still in flight when another side has its slice.
        """
        is_back = at_ns < self.from_ns or (warmup and not self.is_warmup and at_ns < self.until_ns)
        if is_back or self.time.is_beside(at_ns):
            return False
        self.fold()
        self._tally = self.count_apart(at_ns, warmup)
        self.is_warmup = warmup
        self.is_in_window = self._lies_in_window(at_ns, warmup)
        from_ns = self.time.at_ns(max(self._closed_until, self.time.second_of(at_ns)) * NS)
        until_ns = from_ns + NS
        for edge_ns in self._window_ns or ():
            if edge_ns <= at_ns:
                from_ns = max(from_ns, edge_ns)
            else:
                until_ns = min(until_ns, edge_ns)
        self.from_ns, self.until_ns = min(from_ns, at_ns), until_ns
        if not self._is_open:
            self.second_ns = self.time.slice_second_ns(at_ns) or 0
        return True

    def _lies_in_window(self, at_ns: int, warmup: bool) -> bool:
        if self._window_ns is None:
            return not warmup
        start_ns, end_ns = self._window_ns
        return start_ns <= at_ns < end_ns
