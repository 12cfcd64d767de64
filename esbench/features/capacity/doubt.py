"""The probes of a search that count, and those that are asked again: what else runs on a machine passes, and clusters
change. Pure.

A probe that misses by far shows that something was overloaded while it ran: the cluster at this rate, or the machine
for half a minute. Which one is known only later. So

- the later of two probes that contradict each other counts: one missed by far, and the other held at its rate or above;
- a rate that misses by far where one has held before is asked again at once, for two minutes until it is believed;
- so is one that bounds the result, before the search ends, unless it has missed again two minutes later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from esbench.features.capacity.record import (
    BY_FAR,
    CLEARLY,
    FoundCapacity,
    Probe,
    SearchTerms,
    SeenProbe,
    excess_of,
    holds,
)

FEWEST_LATE = 5.0  # late requests that are no chance
MOST_TRIES = 3  # of a rate whose probes are void
_CLOSE = 1.1  # times the next rate
_CHANGED = 1.05  # times a rate that missed by far: if it holds, the cluster has changed
_PATIENCE, _LONGER = 4, 2  # times the first probes: until a miss is believed, and a probe that asks again


def counting(terms: SearchTerms, seen: Sequence[SeenProbe]) -> list[SeenProbe]:
    """Return the probes that no later one contradicts, in their order.

    With the one that is contradicted go all earlier ones that are like it: which of them met the same is not known. A
    miss is contradicted only by a probe that asked again, or held a result, as others may be lucky; a hold, by a miss
    that is believed.
    """
    kept: list[SeenProbe] = []
    for each in seen:
        rate_per_s = each.probe.rate_per_s
        if _misses_by_far(terms, each):
            kept.append(each)
            if _is_surprise(terms, kept) and _is_believed(terms, kept):
                highest = max(_held(terms, one) for one in kept)
                is_lower = highest >= rate_per_s * _CHANGED or _was_to_be_held(kept)
                since_per_s = 0.0 if is_lower else rate_per_s
                kept = [one for one in kept if not _held(terms, one) or one.probe.rate_per_s < since_per_s]
            continue
        if _held(terms, each) and each.probe.stage in ("again", "sustain"):
            missed = [one for one in kept if _misses_by_far(terms, one)]
            if any(one.probe.rate_per_s <= rate_per_s for one in missed):
                kept = [one for one in kept if one not in missed]
        kept.append(each)
    return kept


def has_changed(terms: SearchTerms, seen: Sequence[SeenProbe]) -> bool:
    """True if a rate missed by far, and one clearly above it has held, before or after it."""
    missed = min((each.probe.rate_per_s for each in seen if _misses_by_far(terms, each)), default=math.inf)
    return max((_held(terms, each) for each in seen), default=0.0) >= missed * _CHANGED


def surprise(terms: SearchTerms, probes: Sequence[SeenProbe]) -> Probe | None:
    """Return the last probe once more if it missed by far where one has held before, or while it was to be held, until
    that is believed."""
    if not probes or not _misses_by_far(terms, probes[-1]):
        return None
    is_open = _is_surprise(terms, probes) and not _is_believed(terms, probes)
    return _again(terms, probes[-1].probe.rate_per_s) if is_open else None


def doubt(terms: SearchTerms, probes: Sequence[SeenProbe], next_or_found: Probe | FoundCapacity) -> Probe | None:
    """Return once more the lowest rate that missed above a result, or above the next rate near one, if it missed by
    far: before the search ends, or after two minutes. None once that is believed, or was void again and again."""
    is_result = isinstance(next_or_found, FoundCapacity)
    if isinstance(next_or_found, Probe) and next_or_found.stage != "near":
        return None
    from_per_s = next_or_found.rate_per_s
    above = [n for n, each in enumerate(probes) if _misses(terms, each) and each.probe.rate_per_s >= from_per_s]
    if not above:
        return None
    lowest = min(above, key=lambda number: probes[number].probe.rate_per_s)
    missed, since = probes[lowest], probes[lowest:]
    again = _again(terms, missed.probe.rate_per_s)
    is_near = missed.probe.rate_per_s <= from_per_s * _CLOSE
    is_due = is_result or (is_near and sum(each.took_s for each in since[1:]) >= _PATIENCE * terms.probe_s)
    is_void = sum(bool(each.void) and each.probe == again for each in since) >= MOST_TRIES
    return again if _misses_by_far(terms, missed) and is_due and not is_void and not _is_settled(terms, since) else None


def _is_surprise(terms: SearchTerms, probes: Sequence[SeenProbe]) -> bool:
    """True if a probe has held at the rate of the last one or above, or one was to hold it."""
    rate_per_s = probes[-1].probe.rate_per_s
    return _was_to_be_held(probes) or any(_held(terms, each) >= rate_per_s for each in probes)


def _was_to_be_held(probes: Sequence[SeenProbe]) -> bool:
    rate_per_s = probes[-1].probe.rate_per_s
    return any(each.probe.stage == "sustain" and each.probe.rate_per_s == rate_per_s for each in probes)


def _again(terms: SearchTerms, rate_per_s: float) -> Probe:
    return Probe(rate_per_s, _LONGER * terms.probe_s, "again")


def _is_believed(terms: SearchTerms, probes: Sequence[SeenProbe]) -> bool:
    """True if the last probe, which misses by far, does so two minutes after it first did, or after it had held when it
    was asked again."""
    rate_per_s = probes[-1].probe.rate_per_s
    same = [number for number, each in enumerate(probes) if each.probe.rate_per_s == rate_per_s and not each.void]
    has_held_again = any(_held(terms, probes[n]) and probes[n].probe.stage == "again" for n in same)
    first = next(number for number in same if _misses(terms, probes[number]))
    return has_held_again or _is_settled(terms, probes[first:])


def _is_settled(terms: SearchTerms, since: Sequence[SeenProbe]) -> bool:
    """True if the first of these probes, which missed, did so again, at the same rate or a lower one, two minutes
    later."""
    most_per_s, after_s = since[0].probe.rate_per_s, 0.0
    for each in since[1:]:
        if after_s >= _PATIENCE * terms.probe_s and _misses(terms, each) and each.probe.rate_per_s <= most_per_s:
            return True
        after_s += each.took_s
    return False


def _held(terms: SearchTerms, seen: SeenProbe) -> float:
    """Return the rate of a probe that held, 0 of another one."""
    return 0.0 if seen.void or not holds(terms, seen) else seen.probe.rate_per_s


def _misses(terms: SearchTerms, seen: SeenProbe) -> bool:
    return not seen.void and not holds(terms, seen)


def _misses_by_far(terms: SearchTerms, seen: SeenProbe) -> bool:
    most = CLEARLY if seen.probe.stage == "sustain" else BY_FAR
    late = max(sum(counts.late) for counts in seen.counts)
    return not seen.void and (seen.cut_short or (excess_of(terms, seen) > most and late >= FEWEST_LATE))
