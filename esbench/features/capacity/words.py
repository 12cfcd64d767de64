"""The search for a capacity in words: what a cluster carries, the verdict on each probe, and what to know. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from esbench.features.capacity.parts import SEARCH
from esbench.features.capacity.record import CLEARLY, CapacitySearch, FoundCapacity, SeenProbe, beside_probe
from esbench.features.capacity.signs_of_limit import SignOfLimit, signs_of_limit
from esbench.measure.objectives import parse_objective
from esbench.model import Objective
from esbench.record.figures import Notice, known, missed_target
from esbench.record.model import RaceRecord, TaskResult
from esbench.units import format_duration, format_number

_COMPARED = 3  # probes below the capacity, and above it
_STEEP = 2.0  # a slope above it: the share of late requests depends on the rate


class Searched(Protocol):
    """The task, the objectives and the tasks beside it (their rates, 1/s) of a search."""

    @property
    def task(self) -> str: ...
    @property
    def objectives(self) -> tuple[str, ...]: ...
    @property
    def beside(self) -> Mapping[str, float]: ...


@dataclass(frozen=True)
class JudgedProbe:
    """A probe with its task, None if the record lacks it, and by objective the share of requests that may be late."""

    seen: SeenProbe
    task: TaskResult | None
    most_late: tuple[float, ...]

    @property
    def rate_per_s(self) -> float:
        return self.seen.probe.rate_per_s

    def excess(self, number: int) -> float:
        """Return by how many times more requests were late than an objective, by its number, allows."""
        return self.seen.excesses(self.most_late)[number]

    @property
    def holds(self) -> bool:
        """True if no objective had more late requests than it allows."""
        return all(excess <= 1 for excess in self.seen.excesses(self.most_late))

    @property
    def verdict(self) -> str:
        """The verdict in a word or two: held, missed, overloaded (nothing was steady), cut short, or void."""
        if self.seen.void:
            return "void"
        if self.seen.cut_short:
            return "cut short"
        if self.holds:
            return "held"
        pairs = zip(self.seen.counts, self.most_late, strict=True)
        return "overloaded" if any(counts.is_overload(most) for counts, most in pairs) else "missed"


@dataclass(frozen=True)
class ShownSearch:
    """A search as reports show it: with its probes in their order, and its objectives."""

    record: RaceRecord
    search: CapacitySearch
    objectives: tuple[Objective, ...]
    probes: tuple[JudgedProbe, ...]

    @property
    def found(self) -> FoundCapacity | None:
        return self.search.found

    @property
    def binding(self) -> int:
        """The number of the objective with the lowest capacity, of the first one while that is not known."""
        return self.found.binding if self.found else 0

    @property
    def usable(self) -> list[JudgedProbe]:
        """The probes that are not void, the lowest rate first."""
        return sorted((each for each in self.probes if not each.seen.void), key=lambda each: each.rate_per_s)

    @property
    def below(self) -> list[JudgedProbe]:
        """The probes below the capacity's interval that held, the nearest first; without a capacity all that held."""
        to = (self.found.low_per_s or self.found.rate_per_s or math.inf) if self.found else math.inf
        return [each for each in reversed(self.usable) if each.holds and each.rate_per_s <= to]

    @property
    def above(self) -> list[JudgedProbe]:
        """The probes above the capacity's interval that did not hold, the nearest first; those above the capacity if
        the interval has no end."""
        since = self.found.high_per_s if self.found else 0.0
        since = since if math.isfinite(since) or not self.found else self.found.rate_per_s
        return [each for each in self.usable if not each.holds and each.rate_per_s >= since]

    @property
    def signs(self) -> tuple[SignOfLimit, ...] | None:
        """The signs of what gave way above the capacity; None without any, if no probe with figures of nodes lies below
        it, or above it."""
        below, above = ([each.task for each in probes if each.task][:_COMPARED] for probes in (self.below, self.above))
        signs = signs_of_limit(self.record, below, above) if below and above else ()
        return signs if signs or (watched(self.below) and watched(self.above)) else None


def watched(probes: Sequence[JudgedProbe]) -> list[TaskResult]:
    """Return the tasks of probes that have figures of nodes."""
    return [each.task for each in probes if each.task and each.task.telemetry.get("nodes")]


def search_of(record: RaceRecord) -> ShownSearch | None:
    """Return the search of a race; None if it did not search for a capacity."""
    search = SEARCH.kept_in(record)
    if search is None:
        return None
    objectives, tasks = tuple(map(parse_objective, search.objectives)), {task.name: task for task in record.tasks}
    most_late = search.terms.most_late if search.terms else ()
    probes = tuple(JudgedProbe(seen, tasks.get(seen.task), most_late) for seen in search.probes)
    return ShownSearch(record, search, objectives, probes)


def rate_text(per_s: float) -> str:
    """Return a rate as text, to three digits: 12,300, 4.25."""
    rounded = float(f"{per_s:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def sentence(shown: ShownSearch) -> str:
    """Return the result of a search in one sentence: `carries 4,210/s with p99 < 50 ms (4,050 to 4,330); at 4,600/s
    12 % are late`."""
    found = shown.found
    if found is None:
        return f"{_subject(shown.search)}: the search has not ended: {_so_far(shown)}"
    words = found_text(shown.search, found)
    if found.why == "no rate":
        return f"{words}: {_why_none(shown)}"
    return f"{words}{_above_it(shown)}" if found.why != "at least" else words


def found_text(search: Searched, found: FoundCapacity) -> str:
    """Return what was found, without what its probes have shown."""
    held, interval = " and ".join(_held(objective) for objective in search.objectives), _interval(found)
    rate, low, high = (rate_text(each) for each in (found.rate_per_s, found.low_per_s, found.high_per_s))
    match found.why:
        case "precise":
            said = f" carries {rate}/s with {held} {interval}"
        case "cliff":
            said = f" carries {low}/s with {held}, and not {high}/s: it is a cliff"
        case "at least" if not found.rate_per_s:
            said = ": no rate could be probed: the driver was the limit at the first one (esbench calibrate)"
        case "at least":
            said = f" carries at least {low}/s with {held}: the driver cannot send more (esbench calibrate)"
        case "no rate":
            said = f": no rate holds {search.objectives[found.binding]}"
        case "flat" if found.curves and found.has_interval:
            said = (
                f" carries about {rate}/s with {held} {interval}: to know it better would take longer than the budget"
            )
        case "flat":
            figure = _figure_name(parse_objective(search.objectives[found.binding]))
            curve = found.curves[found.binding] if found.curves else None
            why = (
                "would take longer than the budget to find"
                if curve and curve.slope >= _STEEP
                else "hardly depends on the rate"
            )
            said = f": {figure} {why}; its limit is reached {_between(found)} so far"
        case _ if found.curves:  # out of time
            said = f" carries about {rate}/s with {held} {interval}, as far as was found when the time was over"
        case _ if known_rate(found.low_per_s) or known_rate(found.high_per_s):
            said = f" carries {_between(found)} with {held}, as far as was found when the time was over"
        case _:
            said = ": no rate could be judged before the time was over"
    return f"{_subject(search)}{said}"


def capacity_notices(shown: ShownSearch) -> Iterator[Notice]:
    """Yield what a reader needs beside the result: drift, a rate that was not held for long, that nothing gave way."""
    if shown.found and shown.found.drifts:
        yield Notice(
            "state-drift: later probes had more or fewer late requests than earlier ones at the same rate: the index "
            "or the node changed while it was searched, or something else ran on it for a time"
        )
    for each in shown.probes:
        if each.seen.void:
            continue
        if not each.holds and each.seen.probe.stage == "sustain":
            late = _late_text(shown, each, max(range(len(each.most_late)), key=each.excess))
            held_s = format_duration(each.seen.probe.measured_s)
            yield Notice(f"{rate_text(each.rate_per_s)}/s did not hold for {held_s}: {late}")
        if each.holds and (missed := _missed_beside(shown, each)):
            yield Notice(f"{rate_text(each.rate_per_s)}/s held, but {' and '.join(missed)} did not reach its rate")
    sustained = [each.seen for each in shown.probes if each.seen.probe.stage == "sustain"]
    if sustained and all(seen.void for seen in sustained):
        yield Notice(f"the capacity was not held for a longer time: {sustained[-1].void}")
    elif _is_unheld(shown):
        yield Notice(f"the capacity was not held for a longer time: the status of the race is {shown.record.status}")
    if shown.signs == ():
        yield Notice("nothing that was measured gave way above the capacity", note=True)


def _is_unheld(shown: ShownSearch) -> bool:
    """True if a race was interrupted before the end of the probe that holds what was found."""
    found, terms = shown.found, shown.search.terms
    stages = [each.seen.probe.stage for each in shown.probes if each.seen.probe.stage != "again"]
    is_held = stages[-1:] == ["sustain"]
    is_to_be_held = found is not None and found.was_found and terms is not None and terms.sustain_s > 0
    return is_to_be_held and not is_held and shown.record.status != "complete"


def overview(shown: ShownSearch) -> Mapping[str, Any]:
    """Return the result for programs; rates in 1/s, None for one that is not known, an interval's missing end
    included."""
    found, signs = shown.found, shown.signs
    ends = (found.rate_per_s, found.low_per_s, found.high_per_s) if found else (0.0,) * 3
    rate, low, high = (known_rate(each) for each in ends)
    return {
        "task": shown.search.task,
        "objectives": list(shown.search.objectives),
        "beside": dict(shown.search.beside),
        "why": found.why if found else None,
        "rate_per_s": rate,
        "low_per_s": low,
        "high_per_s": high,
        "binding": shown.search.objectives[found.binding] if found and found.why != "at least" else None,
        "drifts": found.drifts if found else None,
        "gave_way": None if signs is None else [sign.what for sign in signs],
        "text": sentence(shown),
    }


def known_rate(per_s: float) -> float | None:
    """Return a rate of a result; None for 0 and infinity, by which a bound is missing."""
    return per_s if 0 < per_s < math.inf else None


def _subject(search: Searched) -> str:
    beside = " and ".join(f"{name} at {rate_text(rate)}/s" for name, rate in search.beside.items())
    return f"{search.task} (beside {beside})" if beside else search.task


def _interval(found: FoundCapacity) -> str:
    low = "no lower end" if known_rate(found.low_per_s) is None else rate_text(found.low_per_s)
    high = "no upper end" if known_rate(found.high_per_s) is None else rate_text(found.high_per_s)
    return f"({low} to {high})"


def _between(found: FoundCapacity) -> str:
    low, high = known_rate(found.low_per_s), known_rate(found.high_per_s)
    if low is None:
        return "at some rate" if high is None else f"below {rate_text(high)}/s"
    return f"above {rate_text(low)}/s" if high is None else f"between {rate_text(low)}/s and {rate_text(high)}/s"


def _figure_name(objective: Objective) -> str:
    if objective.kind == "within":
        return f"the share {objective.figure}"
    return "the share of errors" if objective.kind == "errors" else objective.figure


def _held(objective: str) -> str:
    """Return an objective as what holds: `p99 < 50 ms`, `99 % within 50 ms`."""
    held = parse_objective(objective)
    return f"{held.bound:.12g} % {held.figure}" if held.kind == "within" else held.text


def _above_it(shown: ShownSearch) -> str:
    """Return what the nearest probe with clearly too many late requests has shown, and what gave way."""
    if not shown.above:
        return ""
    clear = (each for each in shown.above if each.excess(shown.binding) >= CLEARLY)
    probe, signs = next(clear, shown.above[0]), shown.signs
    why = f": {signs[0].what}" if signs else ""
    return f"; at {rate_text(probe.rate_per_s)}/s {_late_text(shown, probe, shown.binding)}{why}"


def _missed_beside(shown: ShownSearch, probe: JudgedProbe) -> list[str]:
    """Return the tasks beside a probe that did not reach their rates."""
    names = {beside_probe(name, probe.seen.task): name for name in shown.search.beside}
    return [names[task.name] for task in shown.record.tasks if task.name in names and missed_target(task)]


def _late_text(shown: ShownSearch, probe: JudgedProbe, number: int) -> str:
    """Return the share of late requests of a probe by an objective: 12 % are late."""
    verb = "fail" if shown.objectives[number].kind == "errors" else "are late"
    return f"{100 * probe.seen.counts[number].late_ratio:.3g} % {verb}"


def _why_none(shown: ShownSearch) -> str:
    """Return the figure of the lowest probe, which did not hold: at 10/s it is 2.3 ms."""
    if not shown.usable:
        return "nothing was measured"
    probe, objective = shown.usable[0], shown.objectives[shown.binding]
    times = (probe.task.latency_ms if probe.task else None) or {}
    if objective.kind == "percentile" and objective.figure in times:
        above = "above " if math.isinf(times[objective.figure]) else ""
        shows = f"it is {above}{format_number(known(times, objective.figure))} ms"
    else:
        shows = _late_text(shown, probe, shown.binding)
    return f"at {rate_text(probe.rate_per_s)}/s {shows}"


def _so_far(shown: ShownSearch) -> str:
    from esbench.features.capacity.curve import crossing  # takes NumPy and SciPy, which other reports do without

    excesses = [min(CLEARLY, max(each.seen.excesses(each.most_late), default=0.0)) for each in shown.usable]
    lengths_s = [each.seen.probe.measured_s for each in shown.usable]
    held, missed = crossing([each.rate_per_s for each in shown.usable], excesses, lengths_s)
    said = [f"{rate_text(held)}/s held"] if held else []
    said += [f"{rate_text(missed)}/s did not hold"] if missed < math.inf else []
    return ", ".join(said) or "no probe was measured yet"
