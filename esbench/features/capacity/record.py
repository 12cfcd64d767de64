"""The search for a capacity as a race's record keeps it: its terms, what each probe has shown, and what was found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

NEAR = 1.4  # times the estimate, or through it: the probes through which its curve is laid
CLEARLY = 2.0  # times the share that may be late: it does not hold, whatever else a probe may have met
BY_FAR = 5.0  # times the share that may be late: something was overloaded

_LEAST_PER_S, _LEAST_RATIO = 10.0, 1 / 16
_OVERLOADED = 0.3  # of the way from the share that may be late to all


@dataclass(frozen=True)
class SearchTerms:
    """The terms of a search. `most_late`: by objective, the share of requests that may be late.

    `closed_per_s`: the throughput of the task in a closed loop; `ceiling_per_s`: what the driver can send, infinity if
    that is not known; `budget_s`: the time of all probes; `sustain_s`: how long the result is held, 0 for not at all;
    `probe_s`: how long the first probes are measured.
    """

    most_late: tuple[float, ...]
    closed_per_s: float
    ceiling_per_s: float = math.inf
    budget_s: float = 1800.0
    sustain_s: float = 120.0
    probe_s: float = 30.0

    @property
    def least_per_s(self) -> float:
        """The lowest rate that is probed: 10/s, or a sixteenth of the closed loop's where that is less."""
        return min(_LEAST_PER_S, _LEAST_RATIO * self.closed_per_s)


@dataclass(frozen=True)
class Probe:
    """A rate (1/s) to send, and for how long it is measured (s).

    `stage`: bracket, near or sustain; again: the rate had missed by far; other: another side of a duel asked for it.
    """

    rate_per_s: float
    measured_s: float
    stage: str


@dataclass(frozen=True)
class LateCounts:
    """The requests of one probe at a rate (1/s): those answered in each of its equal batches, and how many were late.

    Requests that were never sent count in the last batch.
    """

    rate_per_s: float
    due: tuple[int, ...]
    late: tuple[int, ...]

    @property
    def late_ratio(self) -> float:
        """The share of late requests, 0 if none was due."""
        return sum(self.late) / max(1, sum(self.due))

    def excess(self, most_late: float) -> float:
        """Return by how many times more requests were late than may be, above 1 where too many were."""
        return self.late_ratio / most_late

    def is_overload(self, most_late: float) -> bool:
        """True if the share of late requests is far above what may be: nothing was steady."""
        return self.late_ratio > most_late + _OVERLOADED * (1 - most_late)

    @property
    def dispersion(self) -> float:
        """The variance of late requests between the batches over that of independent ones, 1 at least."""
        return batch_dispersion([self])


def batch_dispersion(probes: Sequence[LateCounts]) -> float:
    """Return the variance of late requests between the batches of each probe over that of independent ones, 1 at least.

    Pearson's chi-squared over its degrees of freedom (McCullagh and Nelder, Generalized Linear Models, 1989, 4.5).
    """
    squares = expected = 0.0
    for probe in probes:
        share, batches = probe.late_ratio, len(probe.due)
        if 0 < share < 1 < batches:
            of_batches = (late - due * share for due, late in zip(probe.due, probe.late, strict=True))
            squares += sum(each**2 for each in of_batches) * batches / (batches - 1)
            expected += sum(probe.due) * share * (1 - share)
    return max(1.0, squares / expected) if expected else 1.0


@dataclass(frozen=True)
class SeenProbe:
    """The counts of a probe, by objective. `took_s`: all of its time, preparations included.

    `task` is the name of its task in the record. `void`: why its figures cannot be used, as the driver was its limit;
    `cut_short`: it ended when it was certain that the rate does not hold.
    """

    probe: Probe
    counts: tuple[LateCounts, ...]
    took_s: float
    void: str = ""
    cut_short: bool = False
    task: str = ""

    def excesses(self, most_late: Sequence[float]) -> tuple[float, ...]:
        """Return by objective, of which each allows a share of late requests, by how many times more were late."""
        return tuple(counts.excess(most) for counts, most in zip(self.counts, most_late, strict=True))


def excess_of(terms: SearchTerms, seen: SeenProbe) -> float:
    """Return by how many times a probe had more late requests than an objective allows, of the worst one."""
    return max(seen.excesses(terms.most_late))


def holds(terms: SearchTerms, seen: SeenProbe) -> bool:
    """True if no objective had more late requests in a probe than it allows."""
    return excess_of(terms, seen) <= 1


@dataclass(frozen=True)
class LateCurve:
    """The capacity by one objective: the rate (1/s) at which as many requests are late as it allows.

    `low` and `high` are the bounds of its 95 % interval, 0 and infinity where it has no end. `slope`: the logits by
    which the odds of being late rise when the rate grows by its own amount. `dispersion`: the variance of late requests
    over that of independent ones. `effective_late`: how many independent late requests the counts are worth. `probes`:
    how many the curve is laid through. `drifts`: later ones had other odds than earlier ones at the same rate.
    """

    capacity_per_s: float
    low_per_s: float
    high_per_s: float
    slope: float
    dispersion: float
    effective_late: float
    probes: int
    drifts: bool = False

    @property
    def half_width_ratio(self) -> float:
        """Half of the interval's width over the capacity; infinity if a bound is missing."""
        if self.low_per_s <= 0 or not math.isfinite(self.high_per_s):
            return math.inf
        return (self.high_per_s - self.low_per_s) / 2 / self.capacity_per_s


@dataclass(frozen=True)
class FoundCapacity:
    """The end of a search: the capacity with its 95 % interval; of a cliff, the last rate that held and the first that
    did not.

    `why`: "precise"; "cliff"; "flat": by how late requests depend on the rate, the budget does not settle it; "out of
    time"; "at least": the driver cannot send more (a rate of 0: not even at the first); "no rate": not even the lowest
    holds. `binding`: the number of the objective with the lowest capacity. `curves`: by objective, None without one.
    `changed`: a rate missed by far, and one a twentieth above it has held, earlier or later.
    """

    why: str
    rate_per_s: float
    low_per_s: float
    high_per_s: float
    binding: int = 0
    curves: tuple[LateCurve | None, ...] = ()
    changed: bool = False

    @property
    def estimate_per_s(self) -> float | None:
        """The rate of a curve or a cliff, whose interval may have no ends; else the middle of bounds that are near each
        other; None if there is but a bound."""
        if self.why in ("precise", "cliff") or self.curves:
            return self.rate_per_s
        return math.sqrt(self.low_per_s * self.high_per_s) if 0 < self.high_per_s <= NEAR * self.low_per_s else None

    def bound_beyond(self, other: FoundCapacity) -> float | None:
        """Return the bound of a search without an estimate that lies above, or below, all that the other one may carry;
        None where both may carry the same, or there is an estimate."""
        if self.estimate_per_s is not None:
            return None
        low, high = (other.estimate_per_s or other.low_per_s), (other.estimate_per_s or other.high_per_s)
        if self.low_per_s > high:
            return self.low_per_s
        return self.high_per_s if self.high_per_s < low else None

    @property
    def has_interval(self) -> bool:
        """True if its interval has both ends."""
        return self.low_per_s > 0 and math.isfinite(self.high_per_s)

    @property
    def was_found(self) -> bool:
        """True if the search was not given up, and some rate holds."""
        return self.why in ("precise", "cliff", "at least") and self.rate_per_s > 0

    @property
    def drifts(self) -> bool:
        """True if later probes had another share of late requests than earlier ones at the same rate, or contradicted
        them by far."""
        return self.changed or any(curve is not None and curve.drifts for curve in self.curves)


@dataclass(frozen=True)
class CapacitySearch:
    """A search: the task, its objectives as texts, the rates (1/s) of tasks beside it; None until it has ended."""

    task: str
    objectives: tuple[str, ...]
    beside: Mapping[str, float] = field(default_factory=dict)
    terms: SearchTerms | None = None
    probes: tuple[SeenProbe, ...] = ()
    found: FoundCapacity | None = None

    @property
    def probe_tasks(self) -> frozenset[str]:
        """The names of the tasks of all probes, and of those that ran beside them."""
        names = [seen.task for seen in self.probes]
        return frozenset([*names, *(beside_probe(task, name) for task in self.beside for name in names)])

    @property
    def closed_task(self) -> str:
        """The name of the closed loop with which the search begins."""
        return f"{self.task}@closed"


def beside_probe(task: str, probe: str) -> str:
    """Return the name of a task that runs beside another one: a probe, or the closed loop."""
    return f"{task} beside {probe}"


@dataclass(frozen=True)
class KnownCapacity:
    """A capacity (1/s) that an earlier race has found, of which the rates of a later one are percents.

    `task` and `operation`: those whose requests were counted, of `track`. `why` as in FoundCapacity, and "at
    least" of any search without an estimate.
    """

    race_id: str
    track: str
    task: str
    operation: str
    rate_per_s: float
    why: str
