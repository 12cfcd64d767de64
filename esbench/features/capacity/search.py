"""The search for a capacity: which rate to probe next, from what the probes so far have shown. Pure: no clock, no I/O.

A search for p99 < 50 ms whose closed loop reached 1,000/s goes like this (late: the share of requests above 50 ms):

    bracket    500/s   0 %       30 s    half of the closed loop's throughput
               625/s   0.1 %     30 s    it holds: 1.25 times as much
               977/s   38 %      30 s    1.25^2 times as much: too much
    near       664/s   0.2 %     30 s    from here on a curve is laid through the probes near the estimate, and the
               790/s   1.9 %     30 s    next rate stands in turn below and above it
               742/s   0.8 %     30 s
               776/s   1.3 %     30 s    five near, the interval is +-4 %: [731, 792]
    sustain    731/s   0.6 %     120 s   its lower end is held for two minutes, and joins the curve
    found      carries 763/s (738 to 786)

A probe never passes or fails by itself. One that was overloaded, or ended early, is no point of a curve, as nothing was
steady: it only bounds the search. A probe whose driver was the limit is void, and repeated twice at most, unless it
held at its rate.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

from esbench.features.capacity.curve import bounded, crossing, drift_p, fit
from esbench.features.capacity.doubt import FEWEST_LATE, MOST_TRIES, counting, doubt, has_changed, surprise
from esbench.features.capacity.record import (
    CLEARLY,
    NEAR,
    FoundCapacity,
    LateCounts,
    LateCurve,
    Probe,
    SearchTerms,
    SeenProbe,
    excess_of,
    holds,
)

_LONGEST, _LONGER_AFTER = 4, 6  # times the first probes; probes near the estimate between two lengths
_FIRST_RATIO, _FACTOR = 0.5, 1.25  # of the closed loop's throughput; between the first probes
_FEWEST_NEAR, _PRECISE = 5, 0.05
_MOST_FITS = 5  # until the probes near the estimate stay the same
_STEEP = 100.0  # a slope above it is a cliff
_HOPELESS = 5.0  # times the share that may be late: no lower rate holds, either
_NEAREST, _FARTHEST = 0.01, 0.15  # of a probe from the estimate
_BESIDE = 1.1  # times the rates of its probes: where a curve may cross a limit
_MOST_STEPS = 4  # of the factor between two probes: by 2.4, or to 0.4 of a rate that misses after all
_SUSPECTED, _MOST_REPEATED = 0.25, 4  # p of drift; probes that are repeated for it
_TELLING = 3.0  # times the share that may be late, or through it


def next_of(terms: SearchTerms, seen: Sequence[SeenProbe]) -> Probe | FoundCapacity:
    """Return the next probe, or what was found; without a `sustain_s` by the probes that held a result, too."""
    has_time = sum(each.took_s for each in seen) < terms.budget_s
    probes = counting(terms, seen)
    if has_time and (again := surprise(terms, probes)) is not None:
        return again
    found = _next_or_hold(terms, probes)
    if has_time and (again := doubt(terms, probes, found)) is not None:
        return again
    return found if isinstance(found, Probe) else replace(found, changed=has_changed(terms, seen))


def found_so_far(terms: SearchTerms, seen: Sequence[SeenProbe]) -> FoundCapacity | None:
    """Return the result that is still to be held, or whose bounds are still doubted; None without one yet."""
    found = _next_or_hold(replace(terms, sustain_s=0.0), counting(terms, seen))
    return replace(found, changed=has_changed(terms, seen)) if isinstance(found, FoundCapacity) else None


def _next_or_hold(terms: SearchTerms, seen: Sequence[SeenProbe]) -> Probe | FoundCapacity:
    searched = [each for each in seen if each.probe.stage != "sustain" or not terms.sustain_s]
    found = _next(terms, searched)
    if isinstance(found, Probe) or not found.was_found or not terms.sustain_s:
        return found
    sustained = [each for each in seen if each.probe.stage == "sustain"]
    all_held = all(holds(terms, each) for each in _usable(sustained))
    if found.why == "precise" or all_held:
        if (hold := _hold(terms, found, sustained)) is not None:
            return hold
        if found.why == "precise" and (joined := _of_curves(terms, _usable(seen), found.why)) is not None:
            return joined
        if all_held:
            return found
    found = _next(terms, seen)
    if isinstance(found, Probe) or not found.was_found:
        return found
    return _hold(terms, found, sustained) or found


def _hold(terms: SearchTerms, found: FoundCapacity, sustained: Sequence[SeenProbe]) -> Probe | None:
    """Return the probe that holds a result for a longer time; None if its rate was held, or is void again and again.

    One that missed is a point of a curve as well.
    """
    tries = [each for each in sustained if abs(each.probe.rate_per_s / found.low_per_s - 1) < _NEAREST]
    usable = _usable(tries)
    is_done = bool(usable) if found.why == "precise" else any(holds(terms, each) for each in usable)
    if is_done or len(tries) - len(usable) >= MOST_TRIES:
        return None
    return Probe(found.low_per_s, terms.sustain_s, "sustain")


def _next(terms: SearchTerms, seen: Sequence[SeenProbe]) -> Probe | FoundCapacity:
    usable, voided = _usable(seen), [each.probe.rate_per_s for each in seen if each.void]
    held, over = _bounds(usable, [excess_of(terms, each) for each in usable])
    rate_per_s, measured_s, stage = terms.closed_per_s * _FIRST_RATIO, terms.probe_s, "bracket"
    all_held = all(holds(terms, each) for each in usable)
    if held and all_held:
        rate_per_s = held * _FACTOR ** _steps(terms, usable)
    elif held:
        since = _asked([each for each in usable[_bracketing(terms, usable) :] if each.probe.stage != "again"])
        found = _near(terms, usable, (held, over), since)
        if isinstance(found, FoundCapacity):
            return found
        rate_per_s, stage = found, "near"
        measured_s = terms.probe_s * min(_LONGEST, 1 + since // _LONGER_AFTER)
    elif usable:
        if over <= terms.least_per_s:
            lowest = _lowest(usable, over)
            worst = _worst(terms, lowest)
            is_hopeless = excess_of(terms, lowest) > _HOPELESS or _is_overloaded(lowest, worst, terms.most_late[worst])
            return FoundCapacity("no rate" if is_hopeless else "flat", 0.0, 0.0, over, worst)
        rate_per_s = max(terms.least_per_s, over / _FACTOR ** _steps(terms, usable))
    if seen and sum(each.took_s for each in seen) >= terms.budget_s:
        return _out_of_time(terms, usable, (held, over))
    sent = max((each.probe.rate_per_s for each in usable), default=0.0)
    unsent = {rate for rate in voided if voided.count(rate) >= MOST_TRIES}
    while rate_per_s in unsent and rate_per_s <= sent:  # the driver can do more: something else was in its way
        rate_per_s *= 1 - _NEAREST
    ceiling = min([terms.ceiling_per_s, *(rate for rate in unsent if rate > sent)])
    if rate_per_s >= ceiling:
        if ceiling in unsent or (held >= (1 - _NEAREST) * ceiling and all_held):
            return FoundCapacity("at least", held, held, math.inf)
        rate_per_s = ceiling
    enough_s = FEWEST_LATE / (min(terms.most_late) * rate_per_s)  # for so few late requests where it is the capacity
    return Probe(rate_per_s, max(measured_s, min(_LONGEST * terms.probe_s, enough_s)), stage)


def _bounds(usable: Sequence[SeenProbe], excesses: Sequence[float]) -> tuple[float, float]:
    """Return the highest rate that holds by the excesses of its probes, 0 if none does, and the next one, infinity if
    all do. None holds from one on that did not when it was held for a longer time, unless a later one did."""
    failed = math.inf
    for each, excess in zip(usable, excesses, strict=True):
        if each.probe.stage == "sustain" and excess > 1:
            failed = min(failed, each.probe.rate_per_s)
        elif excess <= 1 and each.probe.rate_per_s >= failed:
            failed = math.inf
    pairs = zip(usable, excesses, strict=True)
    below = [(each.probe, min(CLEARLY, excess)) for each, excess in pairs if each.probe.rate_per_s < failed]
    rates_per_s, capped = [probe.rate_per_s for probe, _ in below], [excess for _, excess in below]
    held, over = crossing(rates_per_s, capped, [probe.measured_s for probe, _ in below])
    return held, min(over, failed)


def _lowest(usable: Sequence[SeenProbe], over: float) -> SeenProbe:
    """Return the first probe of the lowest rate from `over` on."""
    return min((each for each in usable if each.probe.rate_per_s >= over), key=lambda each: each.probe.rate_per_s)


def _out_of_time(terms: SearchTerms, usable: Sequence[SeenProbe], bounds: tuple[float, float]) -> FoundCapacity:
    if (found := _of_curves(terms, usable, "out of time")) is not None:
        return found
    held, over = bounds
    number = _worst(terms, _lowest(usable, over)) if over < math.inf else 0
    return FoundCapacity("out of time", held, held, over, number)


def _near(
    terms: SearchTerms, usable: Sequence[SeenProbe], bounds: tuple[float, float], since: int
) -> float | FoundCapacity:
    """Return the next rate near the estimate, or the result.

    `bounds`: those of `_bounds`. `since`: the number of rates near it so far.
    """
    held, over = bounds
    found = _of_curves(terms, usable, "precise")
    curve = found.curves[found.binding] if found is not None else None
    if found is None or curve is None or curve.slope > _STEEP:
        if over <= held * (1 + _PRECISE):
            is_cliff = _overloaded(terms, usable) <= held * NEAR or any(
                over <= each.probe.rate_per_s <= held * (1 + _PRECISE) and _clearly_misses(terms, each)
                for each in usable
            )
            number = _worst(terms, _lowest(usable, over))
            return FoundCapacity("cliff" if is_cliff else "flat", math.sqrt(held * over), held, over, number)
        return math.sqrt(held * min(over, held * NEAR))
    precise = curve.half_width_ratio <= _PRECISE and curve.effective_late >= FEWEST_LATE
    if precise and curve.probes >= _FEWEST_NEAR:
        return _suspected(terms, usable, found.binding, curve) or found
    late_per_s = terms.most_late[found.binding] * curve.capacity_per_s
    is_foretold = since >= 3 and curve.effective_late >= FEWEST_LATE
    if is_foretold and (1.96 / (_PRECISE * curve.slope)) ** 2 * curve.dispersion / late_per_s > terms.budget_s:
        return _suspected(terms, usable, found.binding, curve) or replace(found, why="flat")
    away = min(_FARTHEST, max(_NEAREST, math.log(2.5) / curve.slope))
    rate_per_s = curve.capacity_per_s * (1 + away / 2 if since % 2 else 1 - away)
    return min(rate_per_s, math.sqrt(held * over)) if over < math.inf and since < 2 else rate_per_s


def _of_curves(terms: SearchTerms, usable: Sequence[SeenProbe], why: str) -> FoundCapacity | None:
    """Return the result by the objective with the lowest capacity; None if no curve crosses its limit, or only above a
    rate at which a probe was overloaded, or that misses an objective without a curve."""
    curves = tuple(_curve(most, usable, number) for number, most in enumerate(terms.most_late))
    known = [(curve.capacity_per_s, number) for number, curve in enumerate(curves) if curve is not None]
    if not known:
        return None
    curve = curves[binding := min(known)[1]]
    if curve is None or curve.capacity_per_s >= _overloaded(terms, usable):
        return None
    for number, (most, other) in enumerate(zip(terms.most_late, curves, strict=True)):
        excesses = [each.counts[number].excess(most) for each in usable]
        if other is None and _bounds(usable, excesses)[1] <= curve.capacity_per_s:
            return None
    return FoundCapacity(why, curve.capacity_per_s, curve.low_per_s, curve.high_per_s, binding, curves)


def _curve(most_late: float, usable: Sequence[SeenProbe], number: int) -> LateCurve | None:
    """Return the curve of an objective through the steady probes near its own capacity; None if none crosses it there:
    beyond its probes a curve is a guess."""
    counts = [each.counts[number] for each in usable]
    held = [each.rate_per_s for each in counts if each.late_ratio <= most_late]
    missed = [each.rate_per_s for each in counts if each.late_ratio > most_late]
    steady = _steady(most_late, usable, number)
    if not held or not missed:
        return None
    near: list[LateCounts] = []
    curve, at = None, math.sqrt(max(held) * min(missed))
    for _ in range(_MOST_FITS):
        before, near = near, _beside(steady, at)
        if near == before or len(near) < 2 or not any(sum(each.late) for each in near):
            break
        curve = fit(near, most_late)
        if not 0 < (at := curve.capacity_per_s) < math.inf:
            return None
    rates = [each.rate_per_s for each in near]
    if curve is None or not rates or not min(rates) / _BESIDE <= at <= max(rates) * _BESIDE:
        return None
    return bounded(curve, counts, most_late)


def _steady(most_late: float, usable: Sequence[SeenProbe], number: int) -> list[LateCounts]:
    """Return the points of a curve: not those that ask again for a miss, which lies far above the estimate."""
    steady = [each for each in usable if not _is_overloaded(each, number, most_late)]
    return [each.counts[number] for each in steady if each.probe.stage != "again"]


def _beside(steady: Sequence[LateCounts], rate_per_s: float) -> list[LateCounts]:
    return [each for each in steady if rate_per_s / NEAR <= each.rate_per_s <= rate_per_s * NEAR]


def _suspected(terms: SearchTerms, usable: Sequence[SeenProbe], number: int, curve: LateCurve) -> float | None:
    """Return the rate of the first probe beside the estimate if drift is likely, and not certain yet: how many are late
    there now will show it. None once as many as tell were asked again."""
    near = _beside(_steady(terms.most_late[number], usable, number), curve.capacity_per_s)
    if curve.drifts or drift_p(near, terms.most_late[number]) >= _SUSPECTED:
        return None
    times, most_late = Counter(each.rate_per_s for each in near), terms.most_late[number]
    telling = [each.rate_per_s for each in near if 1 / _TELLING <= each.excess(most_late) <= _TELLING]
    once = [rate_per_s for rate_per_s in telling if times[rate_per_s] == 1]
    return once[0] if once and len(near) - len(times) < _MOST_REPEATED else None


def _steps(terms: SearchTerms, usable: Sequence[SeenProbe]) -> int:
    """Return by how many steps to go on: one more for each probe in a row that went the same way."""
    verdicts = [holds(terms, each) for each in reversed(usable) if each.probe.stage != "other"]
    in_a_row = len(list(takewhile(lambda verdict: verdict == verdicts[0], verdicts)))
    return max(1, min(in_a_row, _MOST_STEPS))


def _asked(seen: Sequence[SeenProbe]) -> int:
    """Return the number of probes that this search asked for: those of a duel's other sides follow another estimate."""
    return sum(each.probe.stage != "other" for each in seen)


def _usable(seen: Sequence[SeenProbe]) -> list[SeenProbe]:
    return [each for each in seen if not each.void]


def _is_overloaded(seen: SeenProbe, number: int, most_late: float) -> bool:
    return seen.cut_short or seen.counts[number].is_overload(most_late)


def _overloaded(terms: SearchTerms, usable: Sequence[SeenProbe]) -> float:
    """Return the lowest rate at which a probe was overloaded, infinity if none was."""
    return min(
        (
            each.probe.rate_per_s
            for each in usable
            if any(_is_overloaded(each, number, most) for number, most in enumerate(terms.most_late))
        ),
        default=math.inf,
    )


def _bracketing(terms: SearchTerms, usable: Sequence[SeenProbe]) -> int:
    """Return the number of probes until one had held and one had not."""
    kinds = [holds(terms, each) for each in usable]
    return max(kinds.index(True), kinds.index(False)) + 1


def _clearly_misses(terms: SearchTerms, seen: SeenProbe) -> bool:
    """True if a probe misses an objective by far, and by more late requests than chance brings."""
    return any(
        counts.excess(most) > CLEARLY and sum(counts.late) >= FEWEST_LATE
        for counts, most in zip(seen.counts, terms.most_late, strict=True)
    )


def _worst(terms: SearchTerms, seen: SeenProbe) -> int:
    """Return the number of the objective that a probe missed by most."""
    excesses = seen.excesses(terms.most_late)
    return excesses.index(max(excesses))


def next_of_sides(searches: Sequence[tuple[SearchTerms, Sequence[SeenProbe]]], side: int) -> Probe | FoundCapacity:
    """Return the next probe of one of several sides that are searched at once, or what it has found once no side needs
    another probe.

    Each probe has one rate on all sides: what the side asks for that has asked for fewest of those whose search has not
    ended. Each side has its own curve, through all probes near its own estimate.
    """
    found = [next_of(terms, seen) for terms, seen in searches]
    asking = [number for number, each in enumerate(found) if isinstance(each, Probe)]
    if not asking:
        return found[side]
    asks = min(asking, key=lambda number: _asked(searches[number][1]))
    probe = found[asks]
    return replace(probe, stage="other") if isinstance(probe, Probe) and asks != side else probe
