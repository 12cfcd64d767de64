"""Searches for a capacity against simulated servers: what they find, and how often the truth lies in their interval."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from queues import BATCHES, OVERHEAD_S, Server, cliff, queue, search, usable

from esbench.features.capacity.curve import bounded, fit
from esbench.features.capacity.record import FoundCapacity, LateCounts, Probe, SearchTerms, SeenProbe
from esbench.features.capacity.search import found_so_far, next_of

pytestmark = pytest.mark.computed


def slow_when_idle(rng: np.random.Generator, at_per_s: float) -> Server:
    """Return a server on which 5 % are late at low rates, as its CPUs fall asleep, then fewer, and 1 % at a rate."""

    def probe(rate_per_s: float, measured_s: float, _: float) -> LateCounts:
        asleep = 0.05 * math.exp(-rate_per_s / (at_per_s / 10))
        busy = 1 / (1 + math.exp(math.log(99) - 20 * (rate_per_s / at_per_s - 1)))
        due = int(rate_per_s * measured_s / BATCHES)
        late = rng.binomial(due, min(1.0, asleep + busy), BATCHES)
        return LateCounts(rate_per_s, (due,) * BATCHES, tuple(map(int, late)))

    return probe


def bisection(server: Server, closed_per_s: float) -> tuple[float, float, float]:
    """Search by probes of 30 s that pass or fail, to 5 %: the last rate that passed, the first that failed, and s."""
    passed, failed, took_s, rate_per_s = 0.0, math.inf, 0.0, closed_per_s / 2
    while failed > 1.05 * passed:
        if server(rate_per_s, 30.0, took_s).late_ratio <= 0.01:
            passed = rate_per_s
        else:
            failed = rate_per_s
        took_s += 30.0 + OVERHEAD_S
        if not passed:
            rate_per_s = failed / 1.25
        elif failed == math.inf:
            rate_per_s = passed * 1.25
        else:
            rate_per_s = math.sqrt(passed * failed)
    return passed, failed, took_s


@pytest.mark.parametrize("service_per_s", [500.0, 2000.0])
def test_the_capacity_of_a_queue_is_found_within_minutes(service_per_s: float) -> None:
    """M/M/1: 99 % within t at mu - ln(100) / t. 40 searches: 5 % in 95 %, covered in 90 %, a median under 700 s."""
    limit_s = 20 / service_per_s
    truth = service_per_s - math.log(100) / limit_s
    terms = SearchTerms((0.01,), closed_per_s=service_per_s)
    searches = [search(queue(np.random.default_rng(seed), service_per_s, limit_s), terms) for seed in range(40)]
    assert {found.why for found, _ in searches} == {"precise"}
    assert sum(abs(found.rate_per_s / truth - 1) <= 0.05 for found, _ in searches) >= 38
    assert sum(found.low_per_s <= truth <= found.high_per_s for found, _ in searches) >= 36
    assert np.median([sum(each.took_s for each in seen) for _, seen in searches]) < 700
    assert sum(found.drifts for found, _ in searches) <= 2


def test_plain_bisection_is_quicker_and_mostly_wrong() -> None:
    """Why probes vote by a curve: the truth of the servers above lies in few of the intervals of pass and fail."""
    found = [bisection(queue(np.random.default_rng(seed), 500.0, 0.04), 500.0) for seed in range(40)]
    truth = 500.0 - math.log(100) / 0.04
    assert sum(passed <= truth <= failed for passed, failed, _ in found) <= 20
    assert np.median([took_s for _, _, took_s in found]) < 400


def test_the_capacity_of_a_queue_with_constant_service_times_is_found() -> None:
    """M/D/1, 99 % within 10 service times: at 0.773 of the service rate (ten million arrivals, Lindley's recursion)."""
    truth = 0.773 * 500
    terms = SearchTerms((0.01,), closed_per_s=500.0)
    servers = (queue(np.random.default_rng(seed), 500.0, 0.02, constant=True) for seed in range(40))
    found = [search(server, terms)[0] for server in servers]
    assert sum(abs(each.rate_per_s / truth - 1) <= 0.05 for each in found) >= 38
    assert sum(each.low_per_s <= truth <= each.high_per_s for each in found) >= 36


def test_late_requests_at_low_rates_do_not_mislead() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0)
    found = [search(slow_when_idle(np.random.default_rng(seed), 800.0), terms)[0] for seed in range(20)]
    assert sum(each.low_per_s <= 800 <= each.high_per_s for each in found) >= 18


def test_a_share_that_hardly_depends_on_the_rate_is_flat() -> None:
    terms = SearchTerms((0.01,), closed_per_s=500.0)
    found = [search(queue(np.random.default_rng(seed), 500.0, 0.01), terms)[0] for seed in range(40)]
    assert {each.why for each in found} == {"flat"}


def searches(limit: float, service_per_s: float, *, constant: bool = False, **terms: Any) -> list[FoundCapacity]:
    """Twenty searches of a queue by its limit in service times."""
    asked = SearchTerms((0.01,), closed_per_s=service_per_s, **terms)
    return [
        search(queue(np.random.default_rng(seed), service_per_s, limit / service_per_s, constant=constant), asked)[0]
        for seed in range(20)
    ]


def covered(found: list[FoundCapacity], truth: float) -> int:
    """How many known capacities have the truth in their interval."""
    return sum(each.estimate_per_s is not None and each.low_per_s <= truth <= each.high_per_s for each in found)


@pytest.mark.parametrize(("limit", "fewest"), [(50, 18), (100, 13), (200, 14)])
def test_a_limit_far_from_the_service_time_is_steep_and_mostly_covered(limit: float, fewest: int) -> None:
    found = searches(limit, 2000.0)
    assert covered(found, 2000 - math.log(100) * 2000 / limit) >= fewest
    assert sum(each.why == "cliff" for each in found) <= (4 if limit < 200 else 20)


def test_a_curve_that_few_late_requests_show_is_not_called_flat() -> None:
    assert "flat" not in {each.why for each in searches(200, 500.0, constant=True)}


def test_of_a_slow_server_probes_are_longer_and_few_searches_end_in_a_cliff() -> None:
    found = searches(20, 5.0)
    assert sum(each.why == "cliff" for each in found) <= 4
    assert next_of(SearchTerms((0.01,), closed_per_s=8.0), []) == Probe(4.0, 120.0, "bracket")


def test_a_ceiling_near_the_capacity_is_held_before_it_is_a_result() -> None:
    truth = 500 - math.log(100) * 25
    found = searches(20, 500.0, ceiling_per_s=1.02 * truth)
    assert sum(each.why == "at least" for each in found) <= 3
    assert covered(found, truth) >= 16


def test_of_a_cliff_the_last_rate_that_held_and_the_first_that_did_not_are_found() -> None:
    found, seen = search(cliff(800.0), SearchTerms((0.01,), closed_per_s=1000.0))
    assert found.why == "cliff"
    assert found.low_per_s <= 800 < found.high_per_s <= 1.05 * found.low_per_s
    last = [(each.probe.stage, each.probe.rate_per_s) for each in seen[-2:]]
    assert last == [("sustain", found.low_per_s), ("again", found.high_per_s)]


def test_a_server_that_becomes_slower_while_it_is_searched_drifts() -> None:
    terms = SearchTerms((0.01,), closed_per_s=500.0)
    servers = (queue(np.random.default_rng(seed), 500.0, 0.04, slower_per_s=1 / 4000) for seed in range(20))
    assert sum(search(server, terms)[0].drifts for server in servers) >= 12


def test_what_the_driver_cannot_send_is_not_asked_for() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0, ceiling_per_s=600.0)
    found, seen = search(cliff(800.0), terms)
    assert (found.why, found.rate_per_s, found.high_per_s) == ("at least", 600.0, math.inf)
    assert max(each.probe.rate_per_s for each in seen) == 600.0


@pytest.mark.parametrize("most_late", [0.01, 0.2, 0.5])
def test_a_limit_below_the_time_of_one_request_holds_at_no_rate(most_late: float) -> None:
    found, seen = search(cliff(0.0), SearchTerms((most_late,), closed_per_s=1000.0))
    assert (found.why, found.high_per_s) == ("no rate", 10.0)
    assert seen[-1].probe.rate_per_s == 10.0


def test_a_void_probe_is_repeated_twice_and_then_the_rate_is_out_of_reach() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0)
    first = next_of(terms, [])
    assert first == Probe(500.0, 30.0, "bracket")
    void = SeenProbe(first, (LateCounts(500.0, (100,), (0,)),), 36.0, void="driver lag")
    assert next_of(terms, [void]) == next_of(terms, [void, void]) == first
    found = next_of(terms, [void, void, void])
    assert isinstance(found, FoundCapacity)
    assert (found.why, found.rate_per_s) == ("at least", 0.0)


@pytest.mark.parametrize(
    ("late_ratios", "low_per_s", "high_per_s"),
    [((0.0, 0.0), 625.0, math.inf), ((0.6, 0.6), 0.0, 500.0), ((0.0, 0.6), 500.0, 625.0)],
)
def test_no_probe_begins_after_the_budget(late_ratios: tuple[float, ...], low_per_s: float, high_per_s: float) -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0, budget_s=70.0)
    seen = [usable(rate, late) for rate, late in zip((500.0, 625.0), late_ratios, strict=True)]
    found = next_of(terms, seen)
    assert isinstance(found, FoundCapacity)
    assert (found.why, found.low_per_s, found.high_per_s) == ("out of time", low_per_s, high_per_s)
    assert isinstance(next_of(terms, seen[:1]), Probe)


def test_a_void_rate_below_one_that_was_sent_is_no_ceiling() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0)
    seen = [usable(500.0, 0.0), usable(625.0, 0.0), usable(977.0, 0.9)]
    asked = next_of(terms, seen)
    assert isinstance(asked, Probe)
    again = next_of(terms, [*seen, *3 * [usable(asked.rate_per_s, 0.0, void="late")]])
    assert isinstance(again, Probe)
    assert again.rate_per_s == pytest.approx(0.99 * asked.rate_per_s)


def test_a_cliff_that_does_not_hold_for_long_is_searched_again() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0)
    seen = [usable(800.0, 0.0), usable(839.0, 1.0), usable(800.0, 0.1, "sustain", measured_s=120.0)]
    assert isinstance(next_of(terms, seen), Probe)


def test_the_cliff_below_one_that_did_not_hold_is_held_too() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0)
    seen = [usable(800.0, 0.0), usable(839.0, 1.0), usable(800.0, 0.1, "sustain", measured_s=120.0)]
    server = cliff(700.0)
    while isinstance(found := next_of(terms, seen), Probe):
        seen.append(SeenProbe(found, (server(found.rate_per_s, found.measured_s, 0.0),), found.measured_s))
    assert found.why == "cliff"
    assert seen[-2].probe == Probe(found.low_per_s, terms.sustain_s, "sustain")
    assert seen[-1].probe == Probe(found.high_per_s, 60.0, "again")


def test_a_capacity_that_is_overloaded_while_it_is_held_is_searched_again() -> None:
    terms = SearchTerms((0.01,), closed_per_s=500.0)
    server = queue(np.random.default_rng(1), 500.0, 0.04)
    seen: list[SeenProbe] = []
    while isinstance(asked := next_of(terms, seen), Probe) and asked.stage != "sustain":
        seen.append(SeenProbe(asked, (server(asked.rate_per_s, asked.measured_s, 0.0),), asked.measured_s))
    assert isinstance(asked, Probe)
    held_per_s = asked.rate_per_s
    seen.append(usable(held_per_s, 0.6, "sustain", measured_s=120.0))
    slower = cliff(held_per_s / 2)
    while isinstance(asked := next_of(terms, seen), Probe):
        assert asked.rate_per_s <= held_per_s
        seen.append(SeenProbe(asked, (slower(asked.rate_per_s, asked.measured_s, 0.0),), asked.measured_s))
    assert asked.low_per_s <= held_per_s / 2 < asked.high_per_s
    assert asked.drifts


def test_a_probe_that_was_lucky_does_not_hold_above_several_that_missed() -> None:
    seen = [usable(500.0, 0.0), *(usable(rate, 1.0) for rate in (740.0, 780.0, 800.0)), usable(820.0, 0.008)]
    probe = next_of(SearchTerms((0.01,), closed_per_s=1000.0), seen)
    assert isinstance(probe, Probe)
    assert 500 < probe.rate_per_s < 740


def test_no_curve_crosses_its_limit_above_an_overloaded_rate() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0, budget_s=60.0, sustain_s=0.0)
    steady = [usable(rate, 0.001 + number / 5000) for number, rate in enumerate((820.0, 840.0, 860.0, 880.0))]
    found = next_of(terms, [*steady, usable(940.0, 0.02)])
    assert isinstance(found, FoundCapacity)
    assert found.curves
    overloaded = next_of(terms, [*steady, usable(940.0, 1.0)])
    assert isinstance(overloaded, FoundCapacity)
    assert (overloaded.why, overloaded.low_per_s, overloaded.high_per_s) == ("out of time", 880.0, 940.0)


def test_no_curve_crosses_its_limit_far_from_its_probes() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0, budget_s=60.0)
    late = {800.0: 0.014, 850.0: 0.0085, 900.0: 0.0145, 950.0: 0.0135, 1000.0: 0.015}
    found = next_of(terms, [usable(500.0, 0.0), *(usable(*each) for each in late.items())])
    assert isinstance(found, FoundCapacity)
    assert found.low_per_s >= 500


def test_an_interval_without_ends_ends_at_rates_that_clearly_hold_and_miss() -> None:
    """Late requests in bursts, whose share hardly depends on the rate near the capacity."""
    shares = {800.0: 8, 850.0: 13, 900.0: 7, 950.0: 12, 1000.0: 11}
    near = [LateCounts(rate, (1000,) * 16, (0, 2 * late) * 8) for rate, late in shares.items()]
    curve = fit(near, 0.01)
    assert (curve.low_per_s, curve.high_per_s) == (0.0, math.inf)
    far = [LateCounts(rate, (1000,) * 16, (late,) * 16) for rate, late in ((500.0, 0), (700.0, 9), (1300.0, 900))]
    ended = bounded(curve, [*near, *far], 0.01)
    assert (ended.low_per_s, ended.high_per_s) == (500.0, 1300.0)
    assert ended.capacity_per_s == curve.capacity_per_s


def test_a_cliff_is_of_the_objective_that_it_misses() -> None:
    terms = SearchTerms((0.01, 0.001), closed_per_s=1000.0, sustain_s=0.0)

    def both(rate_per_s: float, failed: float) -> SeenProbe:
        late, errors = usable(rate_per_s, 0.0), usable(rate_per_s, failed)
        return replace(late, counts=(*late.counts, *errors.counts))

    found = found_so_far(terms, [both(800.0, 0.0), both(839.0, 0.5)])
    assert found is not None
    assert (found.why, found.binding) == ("cliff", 1)


def with_errors(rate_per_s: float, late_ratio: float, failed_ratio: float, **keys: Any) -> SeenProbe:
    late, failed = (usable(rate_per_s, ratio, **keys) for ratio in (late_ratio, failed_ratio))
    return replace(late, counts=(*late.counts, *failed.counts))


def test_no_curve_counts_above_a_rate_at_which_an_objective_without_a_curve_is_missed() -> None:
    terms = SearchTerms((0.01, 0.001), closed_per_s=1000.0, budget_s=60.0)
    late = {500.0: 0.04, 400.0: 0.004}
    held = next_of(terms, [with_errors(rate, ratio, 0.0003) for rate, ratio in late.items()])
    assert isinstance(held, FoundCapacity)
    assert (held.binding, held.curves[1], round(held.rate_per_s)) == (0, None, 441)
    missed = next_of(terms, [with_errors(rate, ratio, 0.005) for rate, ratio in late.items()])
    assert isinstance(missed, FoundCapacity)
    assert (missed.why, missed.low_per_s, missed.high_per_s, missed.binding) == ("out of time", 0.0, 400.0, 1)


@pytest.mark.parametrize(("failed", "why"), [(4, "flat"), (5, "cliff")])
def test_a_handful_of_failed_requests_is_no_cliff(failed: int, why: str) -> None:
    """Errors by chance: none at 11/s, too many of 1,200 requests a little above, none again far above."""
    terms = SearchTerms((0.01, 0.001), closed_per_s=1000.0, sustain_s=0.0)

    def probe(rate_per_s: float, failed: int = 0) -> SeenProbe:
        due, none = (80,) * BATCHES, (0,) * BATCHES
        counts = (LateCounts(rate_per_s, due, none), LateCounts(rate_per_s, due, (failed, *none[1:])))
        return SeenProbe(Probe(rate_per_s, 120.0, "near"), counts, 126.0)

    found = next_of(terms, [probe(11.0), probe(11.4, failed), probe(12.0, failed), probe(250.0)])
    assert isinstance(found, FoundCapacity)
    assert (found.why, found.low_per_s, found.high_per_s, found.binding) == (why, 11.0, 11.4, 1)


def test_a_void_probe_of_the_result_is_repeated_twice() -> None:
    terms = SearchTerms((0.01,), closed_per_s=1000.0)
    seen = [usable(800.0, 0.0), usable(839.0, 1.0)]
    assert next_of(terms, seen) == Probe(800.0, terms.sustain_s, "sustain")
    seen += [usable(800.0, 0.0, "sustain", void="late", measured_s=120.0)] * 2
    assert next_of(terms, seen) == Probe(800.0, terms.sustain_s, "sustain")
    seen.append(seen[-1])
    assert next_of(terms, seen) == Probe(839.0, 60.0, "again")
    found = next_of(terms, [*seen, usable(839.0, 1.0, "again")])
    assert isinstance(found, FoundCapacity)
    assert found.why == "cliff"


def test_of_several_objectives_the_one_with_the_lowest_capacity_binds() -> None:
    terms = SearchTerms((0.01, 0.001), closed_per_s=500.0, sustain_s=0.0)
    server = queue(np.random.default_rng(3), 500.0, 0.04)
    seen: list[SeenProbe] = []
    while isinstance(found := next_of(terms, seen), Probe):
        counts = server(found.rate_per_s, found.measured_s, 0.0)
        seen.append(SeenProbe(found, (counts, counts), found.measured_s))
    assert found.binding == 1
    assert found.rate_per_s < 500 - math.log(100) / 0.04
