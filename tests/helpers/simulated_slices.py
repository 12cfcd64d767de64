"""Closed loops in slices, simulated: when requests are sent and completed by servers whose throughput is known.

All clients begin a slice at once; what is in flight at its end is completed after it. Times are s from the slice's
begin, in arrays of [slices, requests]; nan where a slice has fewer requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from esbench.measure.slice_rate import weights

Array = NDArray[np.float64]
CLIENTS = 8
SLOTS = 2  # cores that all requests share, or slots of a queue
SETTLE_S = 0.1
_PARTS = 500  # of a second
SERVERS = ("delay", "shared cores", "queue")


@dataclass(frozen=True)
class Requests:
    """The requests of some slices."""

    sent: Array
    completed: Array

    @property
    def times_s(self) -> Array:
        return self.completed - self.sent

    @property
    def measured(self) -> NDArray[np.bool_]:
        """Those that the record's percentiles are of: sent after the beginning of a slice."""
        return self.sent >= SETTLE_S


def requests(
    server: str, mean_s: float, variation: float, length_s: float, slices: int, random: np.random.Generator
) -> Requests:
    """Some slices of a server that answers 8 clients with service times of a gamma distribution.

    `delay`: each request takes its time, whatever else runs. `shared cores`: two cores are shared by all requests in
    flight; with 8 of them each takes `mean_s`. `queue`: two slots, first come, first served; a request takes `mean_s`
    with its wait. `variation`: the coefficient of variation.
    """
    if server == "queue":
        ends = _renewals(mean_s * SLOTS / CLIENTS, variation, length_s + 3 * mean_s, (slices, SLOTS), random)
        starts = np.concatenate([np.zeros((slices, SLOTS, 1)), ends[:, :, :-1]], 2).reshape(slices, -1)
        ends = ends.reshape(slices, -1)
        order = np.argsort(starts, 1, kind="stable")
        ends = np.take_along_axis(ends, order, 1)
        # the n-th that is begun is the n-th that was sent: each reply lets its client send the next one
        sent = np.concatenate([np.zeros((slices, CLIENTS)), np.sort(ends, 1)], 1)[:, : ends.shape[1]]
        return _until(length_s, sent, ends)
    ends = _renewals(mean_s, variation, length_s, (slices, CLIENTS), random)
    sent = np.concatenate([np.zeros((slices, CLIENTS, 1)), ends[:, :, :-1]], 2)
    if server == "shared cores":  # of 8 requests in flight each has a quarter of a core: until the end, as a delay
        ends = _drained(ends, (sent < length_s) & (ends >= length_s), length_s)
    return _until(length_s, sent.reshape(slices, -1), ends.reshape(slices, -1))


def _renewals(
    mean_s: float, variation: float, length_s: float, shape: tuple[int, int], random: np.random.Generator
) -> Array:
    """Times at which each of some servers, which is never idle, completes its requests."""
    number = int(length_s / mean_s + 10 + 9 * variation * (1 + (length_s / mean_s) ** 0.5) + 20 * variation**2)
    size = (*shape, number)
    drawn = random.gamma(variation**-2, mean_s * variation**2, size) if variation else np.full(size, mean_s)
    times = np.cumsum(drawn, axis=2)
    assert times[:, :, -1].min() > length_s
    return times


def _drained(ends: Array, in_flight: NDArray[np.bool_], length_s: float) -> Array:
    """The ends of what is in flight at the end of a slice: the fewer are left, the more of the cores each one has."""
    left = np.where(in_flight, ends - length_s, 0).sum(2)
    order = np.argsort(left, 1)
    steps = np.diff(np.take_along_axis(left, order, 1), axis=1, prepend=0)
    speed = np.minimum(1, SLOTS / (CLIENTS - np.arange(CLIENTS))) / (SLOTS / CLIENTS)
    took = np.take_along_axis(np.cumsum(steps / speed, axis=1), np.argsort(order, 1), 1)
    return np.where(in_flight, length_s + took[:, :, np.newaxis], ends)


def _until(length_s: float, sent: Array, completed: Array) -> Requests:
    ok = sent < length_s
    return Requests(np.where(ok, sent, np.nan), np.where(ok, completed, np.nan))


def median_s(found: Requests) -> float:
    """The median service time, as a record has it."""
    return float(np.median(found.times_s[found.measured]))


def rates(found: Requests, length_s: float) -> Array:
    """The throughput of each slice, in requests/s, by the product's weights."""
    slices, numbers = np.nonzero(found.completed < length_s)
    parts = (found.completed[slices, numbers] * _PARTS).astype(int)
    of_parts = _weights(length_s, round(median_s(found), 4))
    return np.bincount(slices, of_parts[parts], len(found.sent))


@cache
def _weights(length_s: float, cycle: float) -> Array:
    return np.array(weights(length_s, SETTLE_S, cycle))


# What else was tried, for the tables of docs/evidence.md.


def counted(found: Requests, length_s: float) -> float:
    """Whole requests that were sent in the measured part, over its length: until schema 7."""
    return float(found.measured.sum() / len(found.sent) / (length_s - SETTLE_S))


def credited(found: Requests, length_s: float) -> float:
    """Each request by the part of its time that lies in the measured part."""
    inside = np.minimum(found.completed, length_s) - np.maximum(found.sent, SETTLE_S)
    return float(np.nansum(np.maximum(inside, 0) / found.times_s) / len(found.sent) / (length_s - SETTLE_S))


def clients_over_mean(found: Requests, length_s: float) -> float:
    """Clients over the mean service time."""
    return float(CLIENTS / found.times_s[found.measured].mean())


def first_to_last(found: Requests, length_s: float) -> float:
    """All requests over the time from the first one's begin to the last one's end, in each slice."""
    return float(np.isfinite(found.sent).sum() / np.nanmax(found.completed, axis=1).sum())


def smoothed(found: Requests, length_s: float) -> float:
    """The product's."""
    return float(rates(found, length_s).mean())


ESTIMATORS = {
    "whole requests": counted,
    "credit": credited,
    "clients / mean": clients_over_mean,
    "first to last": first_to_last,
    "smoothed": smoothed,
}


@dataclass(frozen=True)
class Duel:
    """Two closed loops on servers of the same kind: `ratio` is the contender's throughput over the baseline's.

    `mean_s`: the service time of the slower one. Each loop does about `requests` requests, but two slices at least; one
    that ends by its documents ends within a slice, which is not counted.
    """

    server: str
    mean_s: float
    ratio: float
    variation: float
    length_s: float
    by_documents: bool = False
    requests: int = 2000

    def found(self, seeds: int, random: np.random.Generator) -> Array:
        """The ratio over the true one, minus 1, of some duels."""
        slower = max(1.0, 1 / self.ratio), max(1.0, self.ratio)
        ours, theirs = (self._side(self.mean_s / max(slower) * each, seeds, random) for each in slower[::-1])
        found: Array = theirs / ours / self.ratio - 1
        return found

    def _side(self, mean_s: float, seeds: int, random: np.random.Generator) -> Array:
        of_slice = CLIENTS * self.length_s / mean_s
        number = max(2, round(self.requests / of_slice))
        slices = number + 3 + round(0.2 * number) if self.by_documents else number
        loop = requests(self.server, mean_s, self.variation, self.length_s, seeds * slices, random)
        of_slices = rates(loop, self.length_s).reshape(seeds, slices)
        counted = np.ones((seeds, slices))
        if self.by_documents:
            sent = np.isfinite(loop.sent).sum(1).reshape(seeds, slices)
            documents = (number + 0.5) * sent.mean()
            counted = np.cumsum(sent, axis=1) <= documents
        return (of_slices * counted).sum(1) / counted.sum(1)
