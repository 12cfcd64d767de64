"""What one worker counts of one task: per second and phase, while the clock runs. Memory does not grow with requests.

A request is counted in the second (from the step's start) in which it completed, under the phase in which it was due
(closed loop: sent). Nothing here talks to anybody: the worker collects closed seconds.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from esbench.load.histogram import Counts
from esbench.operations.base import Details, Evidence, Verdict

NS = 1_000_000_000
MOST_RETURNED = 100  # names, so that memory does not grow with what a runner makes up


@dataclass(slots=True)
class Part:
    """One request of a sequence, or one class of results, under its own name."""

    requests: int = 0
    errors: int = 0
    service_time: Counts = field(default_factory=Counts)
    timed_out: int = 0

    def merge(self, other: Part) -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.timed_out += other.timed_out
        self.service_time.merge(other.service_time)


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
    free client; `backlog` (of one second, not of a sum) were still in line. `timed_out` failures rank as longer than
    every duration.
    """

    due: int = 0
    sent: int = 0
    requests: int = 0
    units: float = 0
    in_window: int = 0
    in_window_units: float = 0
    waited: int = 0
    backlog: int = 0
    timed_out: int = 0
    errors: Errors = field(default_factory=Errors)
    latency: Counts = field(default_factory=Counts)
    service_time: Counts = field(default_factory=Counts)
    client_wait: Counts = field(default_factory=Counts)
    driver_lag: Counts = field(default_factory=Counts)
    schedule_lag: Counts = field(default_factory=Counts)
    failed: Counts = field(default_factory=Counts)
    within: list[int] = field(default_factory=list)
    parts: dict[str, Part] = field(default_factory=dict)
    returned: dict[str, Spread] = field(default_factory=dict)

    def add_returned(self, name: str, numbers: Spread) -> None:
        """Add numbers that a runner returned; of more than MOST_RETURNED names, the first ones are kept."""
        if name in self.returned:
            self.returned[name].merge(numbers)
        elif len(self.returned) < MOST_RETURNED:
            self.returned[name] = numbers

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
        self.timed_out += other.timed_out
        self.errors.merge(other.errors)
        for measure in MEASURES:
            getattr(self, measure).merge(getattr(other, measure))
        if other.within:
            mine = self.within or [0] * len(other.within)
            self.within = [a + b for a, b in zip(mine, other.within, strict=True)]
        for name, part in other.parts.items():
            self.part(name).merge(part)
        for name, numbers in other.returned.items():
            self.add_returned(name, numbers)


MEASURES = ("latency", "service_time", "client_wait", "driver_lag", "schedule_lag", "failed")


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


class Recorder:
    """Counts the requests of one task in one worker. All times are ns of one monotonic clock.

    `window_ns` is the measurement window [start, end) of a time-based task, None for one that ends by numbers.
    `within_ns` are sorted thresholds, counted exactly over good replies.
    """

    def __init__(
        self, start_ns: int, *, is_open: bool, window_ns: tuple[int, int] | None = None, within_ns: tuple[int, ...] = ()
    ) -> None:
        self.start_ns = start_ns
        self.first_measured_sent_ns: int | None = None
        self.last_measured_received_ns: int | None = None
        self._is_open = is_open
        self._window_start_ns, self._window_end_ns = window_ns or (0, 1 << 62)
        self._has_window = window_ns is not None
        self._within_ns = within_ns
        self._tallies: dict[tuple[int, bool], Tally] = {}
        self._closed_until = 0
        # What is counted now: a second and phase, and which part of the second lies in the window or outside of it.
        self._tally = Tally()
        self._from_ns = 0
        self._until_ns = 0
        self._is_warmup = False
        self._is_in_window = False

    def arrived(self, due_ns: int, warmup: bool, waits: bool) -> None:
        """Count an arrival of an open loop; `waits` when it found no free client."""
        if not (self._from_ns <= due_ns < self._until_ns and warmup is self._is_warmup):
            self._turn_to(due_ns, warmup)
        tally = self._tally
        tally.due += 1
        if waits:
            tally.waited += 1

    def sent(self, sent_ns: int, warmup: bool) -> None:
        """Count a request at its first byte."""
        if self.first_measured_sent_ns is None and not warmup:
            self.first_measured_sent_ns = sent_ns
        if not (self._from_ns <= sent_ns < self._until_ns and warmup is self._is_warmup):
            self._turn_to(sent_ns, warmup)
        self._tally.sent += 1

    def completed(
        self, due_ns: int, free_ns: int, sent_ns: int, received_ns: int, warmup: bool, verdict: Verdict
    ) -> None:
        """Count a request at its last byte, or at its failure. `due_ns` and `free_ns` matter to open loops only."""
        if not (self._from_ns <= received_ns < self._until_ns and warmup is self._is_warmup):
            self._turn_to(received_ns, warmup)
        tally = self._tally
        tally.requests += 1
        tally.units += verdict.units
        if self._is_in_window:
            tally.in_window += 1
            tally.in_window_units += verdict.units
        if not warmup:
            self.last_measured_received_ns = received_ns
        service_ns = received_ns - sent_ns
        if verdict.error is None:
            tally.service_time.add(service_ns)
            charged_ns = service_ns
            if self._is_open:
                charged_ns = received_ns - due_ns
                tally.latency.add(charged_ns)
            if self._within_ns:
                self._count_within(tally, charged_ns)
            if verdict.label is not None:
                part = tally.part(verdict.label)
                part.requests += 1
                part.service_time.add(service_ns)
        else:
            tally.errors.add(verdict.error, verdict.example, evidence=verdict.evidence)
            tally.failed.add(service_ns)
            if verdict.error == TIMEOUT:
                tally.timed_out += 1
        if verdict.details is not None:
            _count_details(tally, verdict.details)
        if self._is_open:
            ready_ns = due_ns if due_ns > free_ns else free_ns
            tally.client_wait.add(ready_ns - due_ns)
            tally.driver_lag.add(sent_ns - ready_ns)
            tally.schedule_lag.add(sent_ns - due_ns)

    def tried(self, received_ns: int, warmup: bool, verdict: Verdict) -> None:
        """Count what one try of a request was worth; the request itself goes on."""
        self._turn_to(received_ns, warmup)
        self._tally.units += verdict.units
        if self._is_in_window:
            self._tally.in_window_units += verdict.units
        if verdict.details is not None:
            _count_details(self._tally, verdict.details)

    def part(self, name: str, sent_ns: int, received_ns: int, warmup: bool, error: str | None = None) -> None:
        """Count one request of a sequence under its own name; `error` is the kind of its failure."""
        self._turn_to(received_ns, warmup)
        part = self._tally.part(name)
        part.requests += 1
        if error is None:
            part.service_time.add(received_ns - sent_ns)
        else:
            part.errors += 1
            part.timed_out += error == TIMEOUT

    def closed_seconds(self, now_ns: int) -> Iterator[Second]:
        """Hand over, in order, the seconds before the one that `now_ns` lies in; they are forgotten here.

        What is told late of a closed second is counted in the first open one.
        """
        self._closed_until = max(self._closed_until, (now_ns - self.start_ns) // NS)
        for second, warmup in sorted(key for key in self._tallies if key[0] < self._closed_until):
            yield Second(second, warmup, self._tallies.pop((second, warmup)))
        self._until_ns = 0  # the next request looks its tally up again

    def _count_within(self, tally: Tally, ns: int) -> None:
        if not tally.within:
            tally.within = [0] * len(self._within_ns)
        position = bisect_left(self._within_ns, ns)
        if position < len(tally.within):
            tally.within[position] += 1

    def _turn_to(self, at_ns: int, warmup: bool) -> None:
        """Count what happened at `at_ns` from now on: set the tally, and the time for which it is the right one."""
        second = max(self._closed_until, (at_ns - self.start_ns) // NS)
        key = (second, warmup)
        if key not in self._tallies:
            self._tallies[key] = Tally()
        self._tally = self._tallies[key]
        self._is_warmup = warmup
        self._from_ns = self.start_ns + second * NS
        self._until_ns = self._from_ns + NS
        if not self._has_window:
            self._is_in_window = not warmup
            return
        self._is_in_window = self._window_start_ns <= at_ns < self._window_end_ns
        for edge_ns in (self._window_start_ns, self._window_end_ns):
            if edge_ns <= at_ns:
                self._from_ns = max(self._from_ns, edge_ns)
            else:
                self._until_ns = min(self._until_ns, edge_ns)
