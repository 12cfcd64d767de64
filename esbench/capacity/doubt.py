"""Which probes of a search count, and which are asked again: what else runs on a machine passes, and clusters change.
Pure.

A probe that misses by far shows that something was overloaded while it ran: the cluster at this rate, or the machine
for half a minute. Which one is known only later. So

- the later of two probes that contradict each other counts: one missed by far, and the other held at its rate or above;
- a rate that misses by far where one has held before is asked again at once, for two minutes until it is believed;
- so is one that bounds the result, before the search ends, unless it has missed again two minutes later.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import takewhile

from esbench.record.capacity import CLEARLY, FoundCapacity, Probe, SearchTerms, SeenProbe, excess_of, holds

FEWEST_LATE = 5.0  # late requests that are no chance
MOST_TRIES = 3  # of a rate whose probes are void
_BY_FAR = 5.0  # times the share that may be late; of a longer probe, CLEARLY is far
_CHANGED = 1.1  # times a rate that missed by far: if it holds, the cluster has changed
_PATIENCE, _LONGER = 4, 2  # times the first probes: until a miss is believed, and a probe that asks again


def counting(terms: SearchTerms, seen: Sequence[SeenProbe]) -> list[SeenProbe]:
    """Return the probes that no later one contradicts, in their order.

    With the one that is contradicted go all that are like it, and earlier than the later one: which of them met the
    same is not known. A miss is contradicted only by a probe that asked again, or held a result: others may be lucky.
    """
    kept: list[SeenProbe] = []
    no_misses = no_holds = False
    for number, each in reversed(list(enumerate(seen))):
        rate_per_s, earlier = each.probe.rate_per_s, seen[:number]
        if _misses_by_far(terms, each):
            if no_misses:
                continue
            no_holds = no_holds or any(_held(terms, one) >= rate_per_s for one in earlier)
        elif _held(terms, each):
            if no_holds:
                continue
            no_misses = no_misses or (
                each.probe.stage in ("again", "sustain")
                and any(_misses_by_far(terms, one) and one.probe.rate_per_s <= rate_per_s for one in earlier)
            )
        kept.append(each)
    return kept[::-1]


def has_changed(terms: SearchTerms, seen: Sequence[SeenProbe]) -> bool:
    """True if a rate missed by far, and one a tenth above it has held, before or after it."""
    missed = min((each.probe.rate_per_s for each in seen if _misses_by_far(terms, each)), default=math.inf)
    return max((_held(terms, each) for each in seen), default=0.0) >= missed * _CHANGED


def surprise(terms: SearchTerms, seen: Sequence[SeenProbe]) -> Probe | None:
    """Return the last probe once more if it missed by far where one has held before; None once that is believed, as it
    has for two minutes, or has missed again after it held."""
    if not seen or not _misses_by_far(terms, last := seen[-1]):
        return None
    rate_per_s = last.probe.rate_per_s
    asked = [each for each in seen if not each.void]
    misses = list(takewhile(lambda each: each.probe.rate_per_s == rate_per_s, reversed(asked)))
    held = [each for each in counting(terms, asked[: -len(misses)]) if _held(terms, each) >= rate_per_s]
    is_believed = _is_settled(terms, misses[::-1]) or any(
        each.probe.stage == "again" and each.probe.rate_per_s == rate_per_s for each in held
    )
    return _again(terms, rate_per_s) if held and not is_believed else None


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
    is_due = is_result or sum(each.took_s for each in since[1:]) >= _PATIENCE * terms.probe_s
    is_void = sum(bool(each.void) and each.probe == again for each in since) >= MOST_TRIES
    return again if _misses_by_far(terms, missed) and is_due and not is_void and not _is_settled(terms, since) else None


def _again(terms: SearchTerms, rate_per_s: float) -> Probe:
    return Probe(rate_per_s, _LONGER * terms.probe_s, "again")


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
    most = CLEARLY if seen.probe.stage == "sustain" else _BY_FAR
    late = max(sum(counts.late) for counts in seen.counts)
    return not seen.void and (seen.cut_short or (excess_of(terms, seen) > most and late >= FEWEST_LATE))
