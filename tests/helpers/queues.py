"""Servers with one queue, simulated: what a probe of a search for capacity sees of them, and whole searches."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from esbench.features.capacity.record import FoundCapacity, LateCounts, Probe, SearchTerms, SeenProbe
from esbench.features.capacity.search import next_of

BATCHES = 15
OVERHEAD_S = 6.0  # of a probe
Times = NDArray[np.float64]
Server = Callable[[float, float, float], LateCounts]  # rate (1/s), measured and begun (s) -> what was seen


def queue(
    rng: np.random.Generator,
    service_per_s: float,
    limit_s: float,
    *,
    slower_per_s: float = 0.0,
    constant: bool = False,
    pause_s: float = 0.0,
    pause_every_s: float = 10.0,
    speed: Callable[[Times], Times] = np.ones_like,
) -> Server:
    """Return a server with one queue and exponential or constant service times: M/M/1, M/D/1 by Lindley's recursion.

    Every `pause_every_s` on average it stops for `pause_s`, as a node that collects garbage does. `speed`: times its
    rate of service, by the seconds since the search began.
    """

    def probe(rate_per_s: float, measured_s: float, at_s: float) -> LateCounts:
        discarded_s = max(3.0, 20 * limit_s)
        due = np.cumsum(rng.exponential(1 / rate_per_s, int(rate_per_s * (measured_s + discarded_s) * 1.3) + 50))
        due = due[due < measured_s + discarded_s]
        mean_s = 1 / (service_per_s * (1 - slower_per_s * at_s))
        service = np.full(len(due), mean_s) if constant else rng.exponential(mean_s, len(due))
        service /= speed(at_s + due)
        if pause_s:
            service += pause_s * (rng.random(len(due)) < 1 / (rate_per_s * pause_every_s))
        work = np.cumsum(service)
        latency = work + np.maximum.accumulate(due - (work - service)) - due
        counted = due >= discarded_s
        batch = np.minimum(BATCHES - 1, ((due[counted] - discarded_s) / measured_s * BATCHES).astype(int))
        late = np.bincount(batch, weights=latency[counted] > limit_s, minlength=BATCHES)
        return LateCounts(rate_per_s, tuple(np.bincount(batch, minlength=BATCHES).tolist()), tuple(map(int, late)))

    return probe


def cliff(at_per_s: float) -> Server:
    """Return a server that is never late up to a rate, and always above it."""

    def probe(rate_per_s: float, measured_s: float, _: float) -> LateCounts:
        due = (int(rate_per_s * measured_s / BATCHES),) * BATCHES
        return LateCounts(rate_per_s, due, due if rate_per_s > at_per_s else (0,) * BATCHES)

    return probe


def search(server: Server, terms: SearchTerms) -> tuple[FoundCapacity, list[SeenProbe]]:
    """Search a server's capacity; probes that are certain end early, as they do in races."""
    seen: list[SeenProbe] = []
    while isinstance(found := next_of(terms, seen), Probe):
        counts = server(found.rate_per_s, found.measured_s, sum(each.took_s for each in seen))
        late = np.cumsum(counts.late)
        certain = np.flatnonzero(late > 20 * terms.most_late[0] * sum(counts.due))
        cut_short = bool(certain.size) and found.stage != "sustain"
        batches = int(certain[0]) + 1 if cut_short else BATCHES
        counts = LateCounts(found.rate_per_s, counts.due[:batches], counts.late[:batches])
        took_s = found.measured_s * batches / BATCHES + OVERHEAD_S
        seen.append(SeenProbe(found, (counts,), took_s, cut_short=cut_short))
        assert len(seen) < 100
    return found, seen


def usable(
    rate_per_s: float, late_ratio: float, stage: str = "bracket", *, void: str = "", measured_s: float = 30.0
) -> SeenProbe:
    due = round(2 * rate_per_s)
    counts = LateCounts(rate_per_s, (due,) * BATCHES, (round(due * late_ratio),) * BATCHES)
    return SeenProbe(Probe(rate_per_s, measured_s, stage), (counts,), measured_s + 6.0, void)
