"""The row of the capacities that the races of two sides have found: one search is one value."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace

from esbench.comparison import stats
from esbench.comparison.comparability import OBJECTIVES, SEARCHED_TASK, WHILE, Fact, named_facts, slices_text
from esbench.comparison.effects import Design, Fit, fit, fit_at_once, round_differences
from esbench.comparison.metrics import CAPACITY, Key, Race, min_effect, typical
from esbench.comparison.model import SEARCHES, CompareOptions, Difference, Row, RowVerdict
from esbench.comparison.preconditions import on_this_node, saturation
from esbench.comparison.reasons import NO_CAPACITY, NO_TURNS
from esbench.comparison.rows import CandidateRow, beside_the_interval, not_comparable
from esbench.comparison.settling import too_few_rounds
from esbench.features.capacity.parts import SEARCH
from esbench.features.capacity.record import FoundCapacity
from esbench.record.figures import HIGHER, Figure
from esbench.record.model import RaceRecord
from esbench.units import format_number


def without_search(record: RaceRecord) -> RaceRecord:
    """Return a race that searched for a capacity without the tasks of its search, which follow from what it has seen,
    and without the statistics of its clusters, which count these tasks."""
    if (search := SEARCH.kept_in(record)) is None:
        return record
    begin = next((task.step for task in record.tasks if task.name == search.closed_task), math.inf)
    clusters = {name: replace(cluster, statistics={}) for name, cluster in record.clusters.items()}
    return replace(record, tasks=tuple(task for task in record.tasks if task.step < begin), clusters=clusters)


def search_facts(record: RaceRecord) -> dict[str, Fact]:
    """Return what a race's search for a capacity asked for; empty without one."""
    search = SEARCH.kept_in(record)
    if search is None:
        return {}
    closed = next((task for task in record.tasks if task.name == search.closed_task), None)
    asked = {
        OBJECTIVES: sorted(search.objectives),
        WHILE: sorted(f"{task}@{rate:g}" for task, rate in search.beside.items()),
        "slices": closed and slices_text(closed),
    }
    searched = {SEARCHED_TASK: Fact([search.task], SEARCHED_TASK)}
    return searched | named_facts(f"{search.task}: ", asked, tuple(asked), search.task)


def capacity_rows(design: Design, differences: Sequence[Difference], options: CompareOptions) -> Iterator[CandidateRow]:
    """Yield the row of the task whose capacity all races of both sides have searched; else nothing."""
    searches = [SEARCH.kept_in(race.record) for race in design.races]
    tasks = {search.task if search else None for search in searches}
    task = tasks.pop()
    if not tasks and task is not None:
        yield _row((CAPACITY, task, "ops/s"), design, differences, options)


def _row(key: Key, design: Design, differences: Sequence[Difference], options: CompareOptions) -> CandidateRow:
    in_slices = any(task.slices for race in design.races for task in race.record.tasks)
    bounds = _counted_bounds(design)

    def searched(races: Sequence[Race]) -> tuple[Race, ...]:
        return tuple(_of_search(race.record, key, bounds.get(race.record.race_id)) for race in races)

    design = replace(
        design,
        baseline=searched(design.baseline),
        contender=searched(design.contender),
        history=searched(design.history),
        places=None if in_slices else design.places,
    )
    row = Row(
        *key,
        typical(design.baseline, key),
        typical(design.contender, key),
        is_primary=True,
        baseline_rounds=tuple(race.value(key) for race in design.baseline),
        contender_rounds=tuple(race.value(key) for race in design.contender),
    )
    if (forbidden := not_comparable(differences, key[1])) is not None:
        return CandidateRow(replace(row, comparable=False, verdict=forbidden), design)
    if missing := "; ".join(_without_capacity(design)):
        row = replace(row, baseline=None, contender=None)
        return CandidateRow(replace(row, verdict=RowVerdict(NO_CAPACITY, missing)), design)
    row = replace(row, differences=round_differences(design, lambda race: race.log(key)))
    fitted = fit_at_once(row.differences) if design.at_once else fit(design, lambda race: race.log(key))
    if fitted is None and design.single:
        fitted = _of_intervals(design)
    verdict: RowVerdict | None = RowVerdict(NO_TURNS, remedy="race both sides in one session: esbench duel --capacity")
    if fitted is not None:
        margin = math.log1p(min_effect(CAPACITY, options.min_effect_ratio, fresh_nodes=design.has_fresh_nodes))
        found = beside_the_interval(design, fitted, key[1], lambda race: race.log(key), margin)
        verdict = found and replace(found, remarks=_remarks(design, key))
    if design.at_once and (fitted is None or fitted.method == SEARCHES):
        verdict = too_few_rounds(design, design.at_once.nodes.fewest_rounds)
    row = replace(row, estimate=fitted.estimate if fitted else None, verdict=verdict)
    return CandidateRow(row, design, fitted, notes=_remarks(design, key))


def _remarks(design: Design, key: Key) -> tuple[str, ...]:
    """Return the notes beside the row's verdict."""
    return tuple(filter(None, [saturation(design, *key[:2]), *on_this_node(design), _bounds(design)]))


def _bounds(design: Design) -> str:
    """Return in how many of the rounds that held both sides at once one has no estimate; empty if none."""
    if design.at_once is None:
        return ""
    pairs = [[_found(race.record) for race in pair] for pair in design.rounds]
    bounds = sum(any(each is not None and each.estimate_per_s is None for each in pair) for pair in pairs)
    return f"at least so much: in {bounds} of {len(pairs)} rounds one side has only a bound" if bounds else ""


def _counted_bounds(design: Design) -> dict[str, float]:
    """Return, by race id, the bounds (1/s) that count for searches without an estimate: those that lie beyond all that
    the other side of the same round may carry, so that the difference is at least so large."""
    counted: dict[str, float] = {}
    for one, other in design.rounds:
        for race, beside in ((one, other), (other, one)):
            found, others = _found(race.record), _found(beside.record)
            if found is not None and others is not None and (bound := found.bound_beyond(others)) is not None:
                counted[race.record.race_id] = bound
    return counted


def _of_search(record: RaceRecord, key: Key, bound: float | None) -> Race:
    """Return a race whose only figure is the capacity that it has found, or the bound that counts in its place."""
    found = _found(record)
    rate = found.estimate_per_s if found is not None and bound is None else bound
    return Race(record, {} if rate is None else {key: Figure(*key[:2], rate, key[2], HIGHER)}, {})


def _found(record: RaceRecord) -> FoundCapacity | None:
    search = SEARCH.kept_in(record)
    return search.found if search else None


def _of_intervals(design: Design) -> Fit | None:
    """Compare two single searches by their 95 % intervals; None if either interval is unbounded."""
    found = [_found(race.record) for race in design.races]
    logs = [
        [math.log(rate) for rate in (each.low_per_s, each.estimate_per_s, each.high_per_s)]
        for each in found
        if each is not None and each.has_interval and each.estimate_per_s is not None
    ]
    return Fit(stats.of_two_intervals(*logs), SEARCHES) if len(logs) == 2 else None


def _without_capacity(design: Design) -> Iterator[str]:
    """Yield, for each side with searches that have found no capacity, how these ended."""
    for side, races in (("baseline", design.baseline), ("contender", design.contender)):
        ends = Counter(_end(_found(race.record)) for race in races if not race.figures)
        if texts := [
            f"{end} in {number} of {len(races)} rounds" if len(races) > 1 else end for end, number in ends.items()
        ]:
            yield f"{side}: {', '.join(texts)}"


def _end(found: FoundCapacity | None) -> str:
    if found is None:
        return "its search has not ended"
    if found.why == "at least":
        return f"at least {format_number(found.rate_per_s)}/s" if found.rate_per_s else "no rate could be probed"
    return "no rate holds the objectives" if found.why == "no rate" else found.why


class JudgedSearch:
    """Searches for a capacity as comparisons judge them (comparison.parts.JudgedPart)."""

    without = staticmethod(without_search)
    facts = staticmethod(search_facts)
    rows = staticmethod(capacity_rows)


JUDGED = JudgedSearch()
