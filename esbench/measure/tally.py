"""Counts of one task per second and phase, and their sums over workers and seconds. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from esbench.measure.histogram import Counts
from esbench.measure.measures import HISTOGRAMS
from esbench.measure.scores import Scores
from esbench.measure.verdict import Evidence, Verdict

MOST_RETURNED = 100  # names, so that memory does not grow with what a runner makes up


@dataclass(slots=True)
class PartTally:
    """Counts of one request of a sequence, or of one class of results, under its name. `beyond` as in `Tally`."""

    requests: int = 0
    errors: int = 0
    service_time: Counts = field(default_factory=Counts)
    beyond: Counts = field(default_factory=Counts)

    def merge(self, other: PartTally) -> None:
        self.requests += other.requests
        self.errors += other.errors
        self.service_time.merge(other.service_time)
        self.beyond.merge(other.beyond)


@dataclass(slots=True)
class Spread:
    """A summary of numbers of one name: their count, sum, minimum and maximum."""

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
    """Failures by kind, with the text of the first failure of each kind and its evidence."""

    counts: dict[str, int] = field(default_factory=dict)
    examples: dict[str, str] = field(default_factory=dict)
    evidence: dict[str, Evidence | None] = field(default_factory=dict)

    def add(self, kind: str, example: str, count: int = 1, evidence: Evidence | None = None) -> None:
        """Count failures of a kind; `example` and `evidence` are kept of the first one only."""
        self.counts[kind] = self.counts.get(kind, 0) + count
        if kind not in self.examples:
            self.examples[kind], self.evidence[kind] = example, evidence

    def merge(self, other: Errors) -> None:
        for kind, count in other.counts.items():
            self.add(kind, other.examples[kind], count, other.evidence.get(kind))

    @property
    def total(self) -> int:
        """The number of failures of all kinds."""
        return sum(self.counts.values())

    @property
    def most_frequent(self) -> Verdict:
        """The most frequent kind of failure, as the verdict of its first failure.

        Raises ValueError without failures.
        """
        kind = max(self.counts, key=lambda kind: self.counts[kind])
        return Verdict(0, kind, self.examples[kind], evidence=self.evidence.get(kind))


@dataclass(slots=True)
class Tally:
    """Counts of one task in one second and phase, or summed over several.

    `requests` are completed ones, good and failed; `units` what the server acknowledged. Of these, `in_window` and
    `in_window_units` completed inside the measurement window, whatever their due time. `waited` arrivals found no free
    client; `backlog` (of one second, not of a sum) were still waiting for one. `overlapping` requests ended while
    another side had its slice. Until `settle` is called, `punctual` is the driver lag of requests that waited for no
    client. `within` counts good replies by the lowest of the task's thresholds that each has kept. `bytes_sent` and
    `bytes_received` are those of all exchanges over connections of esbench's own; `statuses` counts replies by their
    HTTP status. Of closed loops, `driver_ns` is the time from when a client was free until it sent its request; in
    slices, `completed_at` counts when requests were completed: ns since the begin of their second, to 2 ms. `scores`
    are those of the good replies that were scored.

    Requests that timed out, and arrivals that were never sent, rank as longer than every duration. They are counted in
    `service_time_beyond` and `latency_beyond`, at the time after which they were given up.
    """

    due: int = 0
    sent: int = 0
    requests: int = 0
    units: float = 0
    in_window: int = 0
    in_window_units: float = 0
    waited: int = 0
    backlog: int = 0
    overlapping: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    driver_ns: int = 0
    statuses: dict[int, int] = field(default_factory=dict)
    errors: Errors = field(default_factory=Errors)
    latency: Counts = field(default_factory=Counts)
    service_time: Counts = field(default_factory=Counts)
    client_wait: Counts = field(default_factory=Counts)
    driver_lag: Counts = field(default_factory=Counts)
    punctual: Counts = field(default_factory=Counts)
    completed_at: Counts = field(default_factory=Counts)
    schedule_lag: Counts = field(default_factory=Counts)
    failed: Counts = field(default_factory=Counts)
    latency_beyond: Counts = field(default_factory=Counts)
    service_time_beyond: Counts = field(default_factory=Counts)
    within: list[int] = field(default_factory=list)
    parts: dict[str, PartTally] = field(default_factory=dict)
    returned: dict[str, Spread] = field(default_factory=dict)
    scores: Scores = field(default_factory=Scores)

    def add_status(self, status: int, count: int = 1) -> None:
        """Count replies of a status."""
        self.statuses[status] = self.statuses.get(status, 0) + count

    def add_returned(self, name: str, numbers: Spread) -> None:
        """Add numbers that a runner returned under a name; after MOST_RETURNED names, new names are ignored."""
        if name in self.returned:
            self.returned[name].merge(numbers)
        elif len(self.returned) < MOST_RETURNED:
            self.returned[name] = replace(numbers)  # a copy: several sums take the same second

    def settle(self) -> None:
        """Move the counts of `punctual` into `driver_lag`, `schedule_lag` and, as zeros, `client_wait`.

        A request that waited for no client has a client wait of 0 and equal driver and schedule lags: while the clock
        runs, one histogram is counted instead of three.
        """
        punctual, self.punctual = self.punctual, Counts()
        self.driver_lag.merge(punctual)
        self.schedule_lag.merge(punctual)
        self.client_wait.add_zeros(punctual.count)

    def response(self, is_open: bool) -> tuple[Counts, Counts]:
        """Return the response times and those beyond: of an open loop the latency, of a closed one the service time."""
        return (self.latency, self.latency_beyond) if is_open else (self.service_time, self.service_time_beyond)

    def part(self, name: str) -> PartTally:
        """Return the tally of a part, a new one for a new name."""
        if name not in self.parts:
            self.parts[name] = PartTally()
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
        self.overlapping += other.overlapping
        self.bytes_sent += other.bytes_sent
        self.bytes_received += other.bytes_received
        self.driver_ns += other.driver_ns
        self.completed_at.merge(other.completed_at)
        for status, count in other.statuses.items():
            self.add_status(status, count)
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
        self.scores.merge(other.scores)

    def within_limits(self, limits_ms: Sequence[float]) -> dict[float, int]:
        """Return the number of good replies within each of the task's thresholds, by threshold in ms."""
        return dict(zip(limits_ms, accumulate(self.within or [0] * len(limits_ms)), strict=True))


@dataclass(frozen=True, slots=True)
class Second:
    """A completed second of a task: the requests completed in [second, second + 1) since the task's start.

    `warmup`: those of the warmup; a second may have both phases, each with a tally.
    """

    second: int
    warmup: bool
    tally: Tally
