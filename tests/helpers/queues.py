"""Servers with one queue, simulated: what a probe of a search for capacity sees of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from esbench.record.capacity import LateCounts

BATCHES = 15
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
) -> Server:
    """Return a server with one queue and exponential or constant service times: M/M/1, M/D/1 by Lindley's recursion.

    Every `pause_every_s` on average it stops for `pause_s`, as a node that collects garbage does.
    """

    def probe(rate_per_s: float, measured_s: float, at_s: float) -> LateCounts:
        discarded_s = max(3.0, 20 * limit_s)
        due = np.cumsum(rng.exponential(1 / rate_per_s, int(rate_per_s * (measured_s + discarded_s) * 1.3) + 50))
        due = due[due < measured_s + discarded_s]
        mean_s = 1 / (service_per_s * (1 - slower_per_s * at_s))
        service = np.full(len(due), mean_s) if constant else rng.exponential(mean_s, len(due))
        if pause_s:
            service += pause_s * (rng.random(len(due)) < 1 / (rate_per_s * pause_every_s))
        work = np.cumsum(service)
        latency = work + np.maximum.accumulate(due - (work - service)) - due
        counted = due >= discarded_s
        batch = np.minimum(BATCHES - 1, ((due[counted] - discarded_s) / measured_s * BATCHES).astype(int))
        late = np.bincount(batch, weights=latency[counted] > limit_s, minlength=BATCHES)
        return LateCounts(rate_per_s, tuple(np.bincount(batch, minlength=BATCHES).tolist()), tuple(map(int, late)))

    return probe
