"""The share of each load host in a task: its requests and response times, so that a host that differs is seen."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf

from esbench.load.checks import clock_offset, host_skew
from esbench.measure.histogram import Counts, distribution_ms, supported
from esbench.measure.tally import Tally
from esbench.record.model import PERCENTILES, Check, HostShare

_FEWEST_FOR_SKEW = 100  # requests of a host: medians of few differ by chance


@dataclass
class _Share:
    requests: int = 0
    errors: int = 0
    measured: Counts = field(default_factory=Counts)
    beyond: Counts = field(default_factory=Counts)


class HostShares:
    """The shares of the load hosts in one task. `host_of` maps the numbers of its workers to the names of their hosts.

    Response times are the latency of an open loop, the service time of a closed one.
    """

    def __init__(self, host_of: Mapping[int, str], uncertainty_ms: Callable[[str], float], *, is_open: bool) -> None:
        """Begin without shares. `uncertainty_ms` returns the bound of the error of a host's clock, so far."""
        self._host_of = host_of
        self._uncertainty_ms = uncertainty_ms
        self._is_open = is_open
        self._shares: dict[str, _Share] = {}

    def add(self, worker: int, tally: Tally) -> None:
        """Add a worker's measured second."""
        share = self._shares.setdefault(self._host_of[worker], _Share())
        share.requests += tally.requests
        share.errors += tally.errors.total
        measured, beyond = tally.response(self._is_open)
        share.measured.merge(measured)
        share.beyond.merge(beyond)

    @property
    def shares(self) -> tuple[HostShare, ...]:
        """The share of each host, by name; empty if one host alone took part."""
        if len(self._shares) < 2:
            return ()
        return tuple(self._share(host, share) for host, share in sorted(self._shares.items()))

    def checks(self) -> tuple[Check, ...]:
        """Return the checks that speak against figures of several hosts: their clocks, and hosts that differ."""
        medians = [(each, (each.response_ms or {}).get("p50", inf)) for each in self.shares]
        p50_ms = {each.host: median for each, median in medians if median < inf}
        enough = {each.host: median for each, median in medians if each.requests >= _FEWEST_FOR_SKEW}
        bound_ms = max((self._uncertainty_ms(host) for host in p50_ms), default=0.0)
        found = (clock_offset(bound_ms, min(p50_ms.values(), default=None)), host_skew(enough))
        return tuple(check for check in found if check is not None)

    def _share(self, host: str, share: _Share) -> HostShare:
        ranks = supported(PERCENTILES, share.measured.count + share.beyond.count)
        response_ms = distribution_ms(share.measured, ranks, share.beyond)
        return HostShare(host, share.requests, share.errors, self._uncertainty_ms(host), response_ms)
