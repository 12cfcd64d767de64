"""Searches on servers that change while they are searched, for half a minute or for good: what they still find."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from queues import Times, cliff, queue, search, usable

from esbench.features.capacity.doubt import counting, has_changed
from esbench.features.capacity.record import FoundCapacity, Probe, SearchTerms, SeenProbe
from esbench.features.capacity.search import found_so_far, next_of

pytestmark = pytest.mark.computed

TERMS = SearchTerms((0.01,), closed_per_s=1000.0)
LIMIT_S = 0.04
CAPACITY = 500 - math.log(100) / LIMIT_S
SEARCHES = 10


def half_between(begin_s: float, end_s: float) -> Callable[[Times], Times]:
    return lambda at_s: np.where((at_s > begin_s) & (at_s < end_s), 0.5, 1.0)


def searches(speed: Callable[[Times], Times]) -> list[tuple[FoundCapacity, list[SeenProbe]]]:
    """Ten searches of half an hour of a queue (M/M/1) of 500/s that changes its speed."""
    terms = SearchTerms((0.01,), closed_per_s=500.0)
    servers = (queue(np.random.default_rng(seed), 500.0, LIMIT_S, speed=speed) for seed in range(SEARCHES))
    return [search(server, terms) for server in servers]


@pytest.mark.parametrize(
    ("begin_s", "for_s"), [(0, 30), (0, 60), (40, 60), (60, 60), (90, 30), (150, 30), (300, 60), (450, 30)]
)
def test_half_a_minute_at_half_speed_does_not_bound_a_search(begin_s: float, for_s: float) -> None:
    found = searches(half_between(begin_s, begin_s + for_s))
    assert sum(each.low_per_s <= CAPACITY <= each.high_per_s or each.drifts for each, _ in found) >= 8
    assert sum(abs(each.rate_per_s / CAPACITY - 1) < 0.1 for each, _ in found) >= 8


@pytest.mark.parametrize(("after_s", "times"), [(180, 2.0), (180, 0.5), (300, 0.5)])
def test_a_capacity_that_changes_for_good_is_found_as_it_is_at_the_end(after_s: float, times: float) -> None:
    found = searches(lambda at_s: np.where(at_s < after_s, 1.0, times))
    capacity = 500 * times - math.log(100) / LIMIT_S
    assert sum(each.low_per_s <= capacity <= each.high_per_s or each.drifts for each, _ in found) >= 8
    assert sum(abs(each.rate_per_s / capacity - 1) < 0.1 for each, _ in found) >= 8


def test_a_server_that_becomes_a_tenth_slower_in_ten_minutes_drifts() -> None:
    assert sum(found.drifts for found, _ in searches(lambda at_s: 1 - at_s / 6000)) >= 8


def test_a_cliff_below_a_hold_that_missed_is_held_itself() -> None:
    seen = [usable(797.0, 0.0), usable(800.0, 0.0), usable(805.0, 1.0)]
    held = next_of(TERMS, seen)
    assert held == Probe(800.0, TERMS.sustain_s, "sustain")
    seen.append(usable(800.0, 0.011, "sustain", measured_s=120.0))
    server = cliff(750.0)
    while isinstance(found := next_of(TERMS, seen), Probe):
        seen.append(SeenProbe(found, (server(found.rate_per_s, found.measured_s, 0.0),), found.measured_s))
    assert found.why == "cliff"
    assert found.high_per_s < 800
    held_s = [each.probe.measured_s for each in seen if each.probe.rate_per_s == found.low_per_s]
    assert TERMS.sustain_s in held_s


def test_a_rate_that_misses_by_far_where_one_has_held_is_asked_again_until_it_is_believed() -> None:
    seen = [usable(500.0, 0.0), usable(700.0, 0.0), usable(620.0, 1.0)]
    again = Probe(620.0, 60.0, "again")
    assert next_of(TERMS, seen) == again
    assert next_of(TERMS, [*seen, usable(620.0, 1.0, "again", measured_s=60.0)]) == again
    missed = [usable(620.0, 1.0, "again", measured_s=60.0)] * 3
    believed = next_of(TERMS, [*seen, *missed])
    assert isinstance(believed, Probe)
    assert believed.rate_per_s < 400
    held = [*seen, usable(620.0, 0.0, "again", measured_s=60.0)]
    assert counting(TERMS, held) == [*seen[:2], held[-1]]
    assert has_changed(TERMS, held)


def test_rates_near_each_other_that_hold_and_miss_in_turn_are_no_change() -> None:
    seen = [usable(500.0, 0.0), usable(625.0, 0.0), usable(620.0, 1.0)]
    missed = [*seen, *[usable(620.0, 1.0, "again", measured_s=60.0)] * 3]
    assert counting(TERMS, missed) == [seen[0], *missed[2:]]
    assert not has_changed(TERMS, missed)


def test_what_bounds_a_result_is_asked_again_before_the_search_ends() -> None:
    seen = [usable(800.0, 0.0), usable(839.0, 1.0), usable(800.0, 0.0, "sustain", measured_s=120.0)]
    assert next_of(TERMS, seen) == Probe(839.0, 60.0, "again")
    so_far = found_so_far(TERMS, seen)
    assert so_far is not None
    assert (so_far.why, so_far.low_per_s, so_far.high_per_s) == ("cliff", 800.0, 839.0)
    confirmed = next_of(TERMS, [*seen, usable(839.0, 1.0, "again")])
    assert confirmed == so_far
    refuted = next_of(TERMS, [*seen, usable(839.0, 0.0, "again")])
    assert isinstance(refuted, Probe)
    assert refuted.rate_per_s > 839


def test_nothing_is_asked_again_after_the_budget() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0, budget_s=150.0)
    seen = [usable(800.0, 0.0), usable(839.0, 1.0), usable(800.0, 0.0, "sustain", measured_s=120.0)]
    assert isinstance(next_of(terms, seen), FoundCapacity)


def test_the_evidence_of_void_probes_counts_neither_way() -> None:
    seen = [usable(500.0, 0.0), usable(800.0, 1.0), usable(900.0, 0.0, void="late"), usable(400.0, 1.0, void="late")]
    assert counting(TERMS, seen) == seen
    assert not has_changed(TERMS, seen)
