"""What one worker counts of one task: per second and phase, while the clock runs. Memory does not grow with requests.

A request is counted in the second (from the step's start) in which it completed, under the phase in which it was due
(closed loop: sent). Nothing here talks to anybody: the worker collects closed seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from esbench.load.hot import Meter
from esbench.measure.histogram import Counts
from esbench.measure.measures import HISTOGRAMS
from esbench.operations.base import Details, Evidence, Verdict

NS = 1_000_000_000
MOST_RETURNED = 100  # names, so that memory does not grow with what a runner makes up


@dataclass(slots=True)
class Part:
    """One request of a sequence, or one class of results, under its own name. `beyond` as in `Tally`."""

    requests: int = 0
    errors: int = 0
    service_time: Counts = field(default_factory=Counts)
    beyond: Counts = field(default_factory=Counts)

    def merge(self, other: Part) -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.service_time.merge(other.service_time)
        self.beyond.merge(other.beyond)


@dataclass(slots=True)
class Spread:
    """Numbers of one name: how many, their sum, the smallest and the largest."""

    count: int = 0
    total: float = 0.0
    smallest: float = math.inf
    largest: float = -math.inf

    def merge(self, other: Spread) -> None:
        self.count += other.count
        self.total += other.total
        self.smallest = min(self.smallest, other.smallest)
        self.largest = max(self.largest, other.largest)


@dataclass(slots=True)
class Errors:
    """Failures by kind, with the text of the first of each and its evidence."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, Evidence | None] = field(default_factory=dict)

    def add(self, kind: str, example: str, count: int = 1, evidence: Evidence | None = None) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + count
        if kind not in self.examples:
            self.examples[kind], self.evidence[kind] = example, evidence

    def merge(self, other: Errors) -> None:
        for kind, count in other.counts.items():
            self.add(kind, other.examples[kind], count, other.evidence.get(kind))

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def most_frequent(self) -> Verdict:
        """The kind that there is most of, as its first failure."""
        kind = max(self.counts, key=lambda kind: self.counts[kind])
        return Verdict(0, kind, self.examples[kind], evidence=self.evidence.get(kind))


@dataclass(slots=True)
class Tally:
    """Counts of one task in one second and phase, or summed over several.

    `requests` are completed ones, good and failed; `units` what the server acknowledged. Of these, `in_window` and
    `in_window_units` completed inside the measurement window, whatever their due time. `waited` arrivals found no
    free client; `backlog` (of one second, not of a sum) were still in line. Until `settle` is called, `punctual` is
    the driver lag of requests that waited for no client.

    Requests that timed out, and arrivals that were never sent, rank as longer than every duration. They are counted
    in `service_time_beyond` and `latency_beyond`, at the time after which they were given up.
    """

    due: int = 0
    sent: int = 0
    requests: int = 0
    units: float = 0
    in_window: int = 0
    in_window_units: float = 0
    waited: int = 0
    backlog: int = 0
    errors: Errors = field(default_factory=Errors)
    latency: Counts = field(default_factory=Counts)
    service_time: Counts = field(default_factory=Counts)
    client_wait: Counts = field(default_factory=Counts)
    driver_lag: Counts = field(default_factory=Counts)
    punctual: Counts = field(default_factory=Counts)
    schedule_lag: Counts = field(default_factory=Counts)
    failed: Counts = field(default_factory=Counts)
    latency_beyond: Counts = field(default_factory=Counts)
    service_time_beyond: Counts = field(default_factory=Counts)
    within: list[int] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    returned: dict[str, Spread] = field(default_factory=dict)

    def add_returned(self, name: str, numbers: Spread) -> None:
        """Add numbers that a runner returned; of more than MOST_RETURNED names, the first ones are kept."""
        if name in self.returned:
            self.returned[name].merge(numbers)
        elif len(self.returned) < MOST_RETURNED:
            self.returned[name] = replace(numbers)  # a copy: several sums take the same second

    def settle(self) -> None:
        """Count what `punctual` has under its measures: such requests have no client wait, and no other schedule lag.

        One histogram is counted for three while the clock runs.
        """
        punctual, self.punctual = self.punctual, Counts()
        self.driver_lag.merge(punctual)
        self.schedule_lag.merge(punctual)
        self.client_wait.add_zeros(punctual.count)

    def part(self, name: str) -> Part:
        if name not in self.parts:
            self.parts[name] = Part()
        return self.parts[name]

    def merge(self, other: Tally) -> None:
        self.due += other.due
        self.sent += other.sent
        self.requests += other.requests
        self.units += other.units
        self.in_window += other.in_window
        self.in_window_units += other.in_window_units
        self.waited += other.waited
        self.backlog += other.backlog
        self.errors.merge(other.errors)
        for name in HISTOGRAMS:
            getattr(self, name).merge(getattr(other, name))
        if other.within:
            mine = self.within or [0] * len(other.within)
            self.within = [a + b for a, b in zip(mine, other.within, strict=True)]
        for name, part in other.parts.items():
            self.part(name).merge(part)
        for name, numbers in other.returned.items():
            self.add_returned(name, numbers)


@dataclass(frozen=True, slots=True)
class Second:
    """A closed second of a task: what completed in [second, second + 1) since the step's start."""

    second: int
    warmup: bool
    tally: Tally


TIMEOUT = "timeout"


def _count_details(tally: Tally, details: Details) -> None:
    """Count what became of documents, the server's own time, and what a runner returned, each under its own name."""
    for name, count in details.results.items():
        tally.part(name).requests += count
    if details.took_ms is not None:
        took = tally.part("took")
        took.requests += 1
        took.service_time.add(details.took_ms * 1_000_000)
    for name, number in details.returned.items():
        tally.add_returned(name, Spread(1, number, number, number))


class Recorder(Meter):
    """Counts the requests of one task in one worker. All times are ns of one monotonic clock.

    `window_ns` is the measurement window [start, end) of a time-based task, None for one that ends by numbers.
    `within_ns` are sorted thresholds, counted exactly over good replies.
    """

    def __init__(
        self, start_ns: int, *, is_open: bool, window_ns: tuple[int, int] | None = None, within_ns: tuple[int, ...] = ()
    ) -> None:
        super().__init__(is_open, within_ns)
        self.start_ns = start_ns
        self.first_measured_ns: int | None = None  # the first arrival (closed loop: send) of the measurement
        self._is_open = is_open
        self._within_ns = within_ns
        self._window_ns = window_ns
        self._tally = Tally()
        self._tallies: dict[tuple[int, bool], Tally] = {}
        self._closed_until = 0

    @property
    def last_measured_received_ns(self) -> int | None:
        """The last byte of the measurement so far."""
        return self.last_received_ns or None

    def completed(
        self, due_ns: int, free_ns: int, sent_ns: int, received_ns: int, warmup: bool, verdict: Verdict
    ) -> None:
        """Count a request at its last byte, or at its failure. `due_ns` and `free_ns` matter to open loops only."""
        tally = self.count_apart(received_ns, warmup)
        tally.requests += 1
        if not warmup:
            self.last_received_ns = received_ns
        service_ns = received_ns - sent_ns
        if verdict.error is None:
            self._count_good(tally, verdict, service_ns, received_ns - due_ns if self._is_open else service_ns)
        else:
            tally.errors.add(verdict.error, verdict.example, evidence=verdict.evidence)
            tally.failed.add(service_ns)
            if verdict.error == TIMEOUT:
                tally.service_time_beyond.add(service_ns)
                if self._is_open:
                    tally.latency_beyond.add(received_ns - due_ns)
        self._count_units(tally, received_ns, warmup, verdict, requests=1)
        if self._is_open:
            ready_ns = max(due_ns, free_ns)
            tally.client_wait.add(ready_ns - due_ns)
            tally.driver_lag.add(sent_ns - ready_ns)
            tally.schedule_lag.add(sent_ns - due_ns)

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

    def tried(self, received_ns: int, warmup: bool, verdict: Verdict) -> None:
        """Count what one try of a request was worth; the request itself goes on."""
        self._count_units(self.count_apart(received_ns, warmup), received_ns, warmup, verdict, requests=0)

    def part(self, name: str, sent_ns: int, received_ns: int, warmup: bool, error: str | None = None) -> None:
        """Count one request of a sequence under its own name; `error` is the kind of its failure."""
        part = self.count_apart(received_ns, warmup).part(name)
        part.requests += 1
        if error is None:
            part.service_time.add(received_ns - sent_ns)
        else:
            part.errors += 1
            if error == TIMEOUT:
                part.beyond.add(received_ns - sent_ns)

    def never_sent(self, now_ns: int, waited: Counts) -> None:
        """Count arrivals of the measurement that are given up in line: nothing is known but that they waited."""
        self.count_apart(now_ns, warmup=False).latency_beyond.merge(waited)

    def closed_seconds(self, now_ns: int) -> Iterator[Second]:
        """Hand over, in order, the seconds before the one that `now_ns` lies in; they are forgotten here.

        What is reported late of a closed second is counted in the first open one.
        """
        self.fold()
        self._closed_until = max(self._closed_until, (now_ns - self.start_ns) // NS)
        for second, warmup in sorted(key for key in self._tallies if key[0] < self._closed_until):
            tally = self._tallies.pop((second, warmup))
            tally.settle()
            yield Second(second, warmup, tally)
        self.from_ns = self.until_ns = 0  # the next request looks its tally up again

    def count_apart(self, at_ns: int, warmup: bool) -> Tally:
        if self.first_measured_ns is None and not warmup:
            self.first_measured_ns = at_ns
        key = (max(self._closed_until, (at_ns - self.start_ns) // NS), warmup)
        if key not in self._tallies:
            self._tallies[key] = Tally(within=[0] * len(self._within_ns))
        return self._tallies[key]

    def move_to(self, at_ns: int, warmup: bool) -> bool:
        """Count what happens at `at_ns` and in this phase from now on; never back to the warmup, or in time.

        Requests of the warmup complete beside the first ones of the measurement.
        """
        if at_ns < self.from_ns or (warmup and self.until_ns and not self.is_warmup):
            return False
        self.fold()
        self._tally = self.count_apart(at_ns, warmup)
        self.is_warmup = warmup
        self.is_in_window = self._lies_in_window(at_ns, warmup)
        from_ns = self.start_ns + max(self._closed_until, (at_ns - self.start_ns) // NS) * NS
        until_ns = from_ns + NS
        for edge_ns in self._window_ns or ():
            if edge_ns <= at_ns:
                from_ns = max(from_ns, edge_ns)
            else:
                until_ns = min(until_ns, edge_ns)
        self.from_ns, self.until_ns = min(from_ns, at_ns), until_ns
        return True

    def _lies_in_window(self, at_ns: int, warmup: bool) -> bool:
        if self._window_ns is None:
            return not warmup
        start_ns, end_ns = self._window_ns
        return start_ns <= at_ns < end_ns
