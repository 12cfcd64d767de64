"""The capacities that two sides have found: their row, and what it says without figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import v1
from races import golden_race, kept_search, task_of, with_search

from esbench.comparison.compare import compare
from esbench.comparison.conditions import outcome, parse_condition
from esbench.comparison.model import CompareOptions, Pair, Row, Side
from esbench.features.capacity.record import CapacitySearch, FoundCapacity, LateCounts, LateCurve, Probe, SeenProbe
from esbench.features.pages.comparison_page import comparison_page
from esbench.record.model import RaceRecord, Session, SlicePlan
from esbench.report.comparison import comparison
from esbench.report.junit import junit

TASK = "get-by-id"
NOISE = (1.01, 0.992, 1.004, 0.988, 1.006, 1.002)


def precise(rate_per_s: float, half_width: float = 0.03) -> FoundCapacity:
    low, high = rate_per_s * (1 - half_width), rate_per_s * (1 + half_width)
    curve = LateCurve(rate_per_s, low, high, 20.0, 1.0, 50.0, 5)
    return FoundCapacity("precise", rate_per_s, low, high, 0, (curve,))


def search(race_id: str, found: FoundCapacity | None, sliced: bool = False, **asked: Any) -> RaceRecord:
    """A race that loaded documents and then searched: a closed loop and a probe, which has a rate of its own."""
    golden = golden_race(race_id=race_id)
    load, read = task_of(golden, "bulk"), task_of(golden, TASK)
    slices = SlicePlan(length_s=1.0, gap_s=0.05, settle_s=0.1, sides=2, side=0, seed=1) if sliced else None
    name = f"{TASK}@{found.rate_per_s if found else 1:.4g}"
    tasks = (
        replace(load, step=0, checks=()),
        replace(read, name=f"{TASK}@closed", step=1, slices=slices),
        replace(read, name=name, step=2, slices=slices),
    )
    probe = SeenProbe(Probe(500.0, 30.0, "near"), (LateCounts(500.0, (100,), (1,)),), 36.0, task=name)
    asked = {"objectives": ("p99<50ms",), **asked}
    return with_search(replace(golden, tasks=tasks), CapacitySearch(TASK, probes=(probe,), found=found, **asked))


def rounds(name: str, founds: Sequence[FoundCapacity | None], places: Sequence[int], sliced: bool = False) -> Side:
    records = []
    for number, (found, place) in enumerate(zip(founds, places, strict=True), 1):
        session = Session("s", "duel", name, number, number, place)
        started_at = f"2026-11-21T{place:02}:00:00+00:00"
        record = search(f"{name}-{number}", found, sliced)
        records.append(
            replace(record, session=session, started_at=started_at, clusters=fresh(record, f"{name}{number}"))
        )
    return Side(name, tuple(records), "s")


def fresh(record: RaceRecord, node: str) -> dict[str, Any]:
    """The clusters of a race, of a node of esbench's own that no other race has had."""
    (cluster,) = record.clusters.values()
    nodes = tuple(replace(each, id=node, host="127.0.0.1") for each in cluster.nodes)
    return {"default": replace(cluster, pipeline="from-distribution", nodes=nodes, hosts=(f"127.0.0.1:{node}",))}


def at_once(factor: float, count: int = 6) -> Pair:
    founds = [precise(1000 * noise) for noise in NOISE[:count]]
    better = [precise(1000 * factor * noise**0.5) for noise in NOISE[:count]]
    ours = rounds("baseline", founds, range(1, 2 * count, 2), sliced=True)
    return pair(ours, rounds("contender", better, range(2, 2 * count + 1, 2), sliced=True))


def pair(baseline: Side, contender: Side, **options: Any) -> Pair:
    (found,) = compare(baseline, [contender], CompareOptions(**options)).pairs
    return found


def singles(one: RaceRecord, other: RaceRecord, **options: Any) -> Pair:
    return pair(Side("baseline", (one,)), Side("contender", (other,)), **options)


def capacity_of(found: Pair) -> Row:
    return next(row for row in found.rows if row.metric == "Capacity")


def test_two_searches_have_an_interval_and_no_verdict_on_the_sides() -> None:
    found = singles(search("a", precise(1000.0, 0.03)), search("b", precise(1200.0, 0.04)))
    row = capacity_of(found)
    assert (row.task, row.unit, v1(row), row.better) == (TASK, "ops/s", "within-race only", "higher")
    assert row.diff == pytest.approx(200.0)
    assert row.estimate is not None
    half = math.hypot(math.log(1.03 / 0.97) / 2, math.log(1.04 / 0.96) / 2)  # of the logarithm of the ratio
    assert row.estimate.low == pytest.approx(1.2 * math.exp(-half))
    assert row.estimate.high == pytest.approx(1.2 * math.exp(half))
    assert row.estimate.method == "searches"
    assert row.is_primary


def test_the_tasks_of_a_search_are_not_compared_and_those_that_prepare_it_are() -> None:
    found = singles(search("a", precise(1000.0)), search("b", precise(1200.0)))
    assert {row.task for row in found.rows} == {TASK, "bulk"}
    assert not [each for each in found.differences if each.forbids]
    assert not any("has this task" in notice.text for notice in found.notices)
    assert found.speed_ratio is None


def test_rounds_that_held_both_sides_are_paired() -> None:
    row = capacity_of(at_once(1.3))
    assert (v1(row), row.estimate.method if row.estimate else "") == ("faster", "paired")
    assert row.differences[0] == pytest.approx(math.log(1.3 * 1.01**0.5 / 1.01))
    assert v1(capacity_of(at_once(0.7))) == "slower"
    assert v1(capacity_of(at_once(1.0))) == "same"


@pytest.mark.parametrize("count", [1, 3])
def test_few_rounds_have_an_interval(count: int) -> None:
    row = capacity_of(at_once(1.3, count))
    assert (v1(row), row.verdict.detail if row.verdict else "") == ("few rounds", f"{count} of 6 rounds")
    assert row.estimate is not None


def test_a_round_without_intervals_needs_more_rounds() -> None:
    open_ended = [replace(precise(1000.0), why="flat", high_per_s=math.inf)]
    ours = rounds("baseline", open_ended, [1], sliced=True)
    row = capacity_of(pair(ours, rounds("contender", open_ended, [2], sliced=True)))
    assert (v1(row), row.verdict.detail if row.verdict else "") == ("few rounds", "1 of 6 rounds")


def test_rounds_in_turns_are_judged_as_other_rows_are() -> None:
    ours = rounds("baseline", [precise(1000 * noise) for noise in NOISE[:4]], (1, 4, 6, 7))
    theirs = rounds("contender", [precise(1300 * noise) for noise in NOISE[:4]], (2, 3, 5, 8))
    row = capacity_of(pair(ours, theirs))
    assert (v1(row), row.estimate.method if row.estimate else "") == ("faster", "interleaved")


def test_earlier_searches_make_it_a_result() -> None:
    history = [search(f"h{number}", precise(1000 * noise)) for number, noise in enumerate(NOISE)]
    found = singles(search("a", precise(1000.0)), search("b", precise(1300.0)), history=tuple(history))
    assert v1(capacity_of(found)) == "faster"


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (FoundCapacity("no rate", 0.0, 0.0, 10.0), "contender: no rate holds the objectives"),
        (FoundCapacity("at least", 800.0, 800.0, math.inf), "contender: at least 800.0/s"),
        (FoundCapacity("at least", 0.0, 0.0, math.inf), "contender: no rate could be probed"),
        (FoundCapacity("flat", 700.0, 500.0, 1200.0), "contender: flat"),
        (FoundCapacity("out of time", 700.0, 700.0, 1200.0), "contender: out of time"),
        (None, "contender: its search has not ended"),
    ],
)
def test_a_search_without_a_capacity_says_so(found: FoundCapacity | None, said: str) -> None:
    row = capacity_of(singles(search("a", precise(1000.0)), search("b", found)))
    assert row.verdict is not None
    assert (v1(row), row.verdict.note, row.figures, row.estimate) == ("!", said, (), None)


def test_two_estimates_without_intervals_have_no_verdict() -> None:
    """Each is a value, and only rounds can say by how much they differ."""
    open_ended = replace(precise(1300.0), why="flat", high_per_s=math.inf)
    row = capacity_of(singles(search("a", precise(1000.0)), search("b", open_ended)))
    assert [side.value for side in (row.baseline, row.contender) if side] == [1000.0, 1300.0]
    assert (v1(row), row.estimate) == ("session-only", None)


def test_bounds_near_each_other_count_by_their_middle() -> None:
    near = FoundCapacity("out of time", 1000.0, 1000.0, 1210.0)
    row = capacity_of(singles(search("a", precise(1000.0)), search("b", near)))
    assert row.contender is not None
    assert row.contender.value == pytest.approx(1100.0)


def test_the_difference_of_bounds_is_that_of_the_capacities_shown() -> None:
    near = FoundCapacity("out of time", 1000.0, 1000.0, 1210.0)
    row = capacity_of(singles(search("a", precise(1100.0)), search("b", near)))
    assert row.estimate is not None
    assert (row.diff, row.estimate.ratio) == (pytest.approx(0.0), pytest.approx(1.0))


@pytest.mark.parametrize(
    ("bound", "counted"),
    [
        (FoundCapacity("at least", 1900.0, 1900.0, math.inf), 1900.0),
        (FoundCapacity("out of time", 1700.0, 1700.0, math.inf), 1700.0),
        (FoundCapacity("out of time", 900.0, 900.0, math.inf), None),
        (FoundCapacity("no rate", 0.0, 0.0, 10.0), 10.0),
        (FoundCapacity("out of time", 0.0, 0.0, 500.0), 500.0),
        (None, None),
    ],
)
def test_a_bound_beyond_what_the_other_side_carries_counts(bound: FoundCapacity | None, counted: float | None) -> None:
    ours = rounds("baseline", [precise(1000 * noise) for noise in NOISE], range(1, 12, 2), sliced=True)
    theirs = [bound, *(precise(1900 * noise**0.5) for noise in NOISE[1:])]
    row = capacity_of(pair(ours, rounds("contender", theirs, range(2, 13, 2), sliced=True)))
    assert row.contender_rounds[0] == counted
    assert row.verdict is not None
    if counted is None:
        assert v1(row) == "!"
    else:
        assert v1(row) == ("faster" if counted > 1000 else "~")
        assert row.verdict.note.endswith("at least so much: in 1 of 6 rounds one side has only a bound")


def test_of_several_rounds_those_without_a_capacity_are_counted() -> None:
    none = FoundCapacity("no rate", 0.0, 0.0, 10.0)
    ours = rounds("baseline", [precise(1000.0), precise(1010.0)], (1, 4))
    row = capacity_of(pair(ours, rounds("contender", [none, precise(900.0)], (2, 3))))
    assert row.verdict is not None
    assert row.verdict.note == "contender: no rate holds the objectives in 1 of 2 rounds"


@pytest.mark.parametrize(
    ("asked", "key"),
    [({"objectives": ("p99<20ms",)}, "objectives"), ({"beside": {"insert": 200.0}}, "while")],
)
def test_other_questions_are_not_comparable(asked: dict[str, Any], key: str) -> None:
    one, other = search("a", precise(1000.0)), search("b", precise(1200.0), **asked)
    found = singles(one, other)
    row = capacity_of(found)
    assert (v1(row), row.verdict.detail if row.verdict else "") == ("!", f"not comparable: {key}")
    assert not row.comparable
    assert any(notice.text.startswith(f"not comparable: {key}") for notice in found.notices)
    assert capacity_of(singles(one, other, allow=(key,))).comparable


def test_searches_of_other_tasks_have_no_row() -> None:
    other = search("b", precise(1200.0))
    found = singles(search("a", precise(1000.0)), with_search(other, replace(kept_search(other), task="search")))
    assert not any(row.metric == "Capacity" for row in found.rows)
    assert "searched task" in {each.key for each in found.differences if each.forbids}


def test_a_search_of_a_duel_is_none_beside_no_other_side() -> None:
    found = singles(search("a", precise(1000.0), sliced=True), search("b", precise(1000.0)))
    assert v1(capacity_of(found)) == "!"
    assert "slices" in {each.key for each in found.differences if each.forbids}


def test_the_row_stands_in_text_junit_and_on_the_page() -> None:
    ours = rounds("baseline", [precise(1000 * noise) for noise in NOISE], range(1, 12, 2), sliced=True)
    theirs = rounds("contender", [precise(700 * noise**0.5) for noise in NOISE], range(2, 13, 2), sliced=True)
    compared = compare(ours, [theirs])
    document = comparison(compared)
    assert document.table.rows[0][:2] == ("Capacity", TASK)
    assert "side by side in slices of 1 s" in document.line
    condition = parse_condition("capacity<-10%")
    assert outcome(condition, compared).hits == (f"Capacity of {TASK}",)
    assert 'name="Capacity"' in junit(compared, [condition])
    assert "Capacity" in comparison_page(compared)
