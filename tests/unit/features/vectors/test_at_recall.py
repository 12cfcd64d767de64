"""Two sweeps at equal recall: frontiers, and the rows of the recalls that both sides reach."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import ALONE, LEVEL, TURNS, seconds_of, sweep
from sliced_sides import Drawn, rounds

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Pair, Row, Side
from esbench.comparison.reasons import CHECK, FEW_ROUNDS, MORE_ERRORS, NO_EQUAL_RECALL, NO_TURNS, NO_VALUE
from esbench.features.vectors.at_recall import Frontier, Sweep
from esbench.record.model import Check, ScoreFigures, Throughput

Points = Sequence[tuple[float, float]]
OURS: Points = [(0.80, 4000), (0.92, 2000), (0.97, 1000), (0.995, 500)]
LABEL = "candidates-*"


def sides(ours: Points, theirs: Points, places: Any = TURNS, levels: Sequence[float] = LEVEL) -> tuple[Side, Side]:
    return (
        sweep("baseline", ours, places["baseline"], LEVEL),
        sweep("contender", theirs, places["contender"], levels),
    )


def rows_of(baseline: Side, contender: Side, **options: Any) -> dict[str, Row]:
    """Return the rows at equal recall by their tasks."""
    return {row.task: row for row in pair(baseline, contender, **options).rows if row.task.startswith(LABEL)}


def pair(baseline: Side, contender: Side, **options: Any) -> Pair:
    return compare(baseline, [contender], CompareOptions(seconds=seconds_of, **options)).pairs[0]


def sliced(drawn: Drawn, name: str, points: Points, count: int) -> Side:
    """A side that was raced at once with another one, with 10, 20 ... candidates, in some rounds."""
    parts = []
    for recall, per_s in points:
        scores = ScoreFigures("recall@10", 100, 50, 0.5, recall, recall, recall)
        own = Drawn()
        side = own.side(name, rounds(per_s / 1000, count, (0.0,)), changes={"scores": scores})
        parts.append((side, own))
    records = []
    for number, record in enumerate(parts[0][0].records):
        tasks = []
        for step, (side, own) in enumerate(parts):
            label = f"candidates-{10 * (step + 1)}"
            tasks.append(replace(side.records[number].tasks[0], name=label, step=step))
            lines = [replace(line, task=label) for line in own.seconds[record.race_id]]
            drawn.seconds.setdefault(record.race_id, []).extend(lines)
        records.append(replace(record, tasks=tuple(tasks)))
    return replace(parts[0][0], records=tuple(records))


def with_tasks(side: Side, **changes: Any) -> Side:
    records = (
        replace(record, tasks=tuple(replace(task, **changes) for task in record.tasks)) for record in side.records
    )
    return replace(side, records=tuple(records))


def test_a_frontier_is_of_the_points_that_no_other_one_beats() -> None:
    frontier = Frontier.of([(0.9, 1000), (0.8, 900), (0.95, 800), (0.94, 700), (0.95, 600)])
    assert frontier.points == ((0.9, 1000), (0.95, 800))
    assert (frontier.low, frontier.high) == (0.8, 0.95)
    assert frontier.at(0.85) == 1000  # the point of 0.9 is faster than that of 0.8, and finds more
    assert frontier.at(0.9) == pytest.approx(1000)
    assert frontier.at(0.95) == pytest.approx(800)
    assert frontier.at(0.925) == pytest.approx(math.sqrt(1000 * 800))
    assert frontier.at(0.79) is None
    assert frontier.at(0.951) is None


def test_a_frontier_never_rises_with_recall() -> None:
    frontier = Frontier.of([(0.5, 3000), (0.61, 3100), (0.7, 2500), (0.72, 2600), (0.9, 100), (1.0, 90)])
    found = [frontier.at(0.5 + step / 200) for step in range(101)]
    known = [each for each in found if each is not None]
    assert len(known) == 101
    assert known == sorted(known, reverse=True)


def test_a_frontier_of_one_point_has_its_recall_alone() -> None:
    assert Frontier.of([(1.0, 70)]).at(1.0) == 70
    with pytest.raises(ValueError, match="points"):
        Frontier.of([])


def test_a_side_that_is_slower_for_each_recall_is_slower_though_as_fast_for_each_number_of_candidates() -> None:
    theirs = [(0.78, 4000), (0.89, 2000), (0.95, 1000), (0.992, 500)]
    found = rows_of(*sides(OURS, theirs))
    assert list(found) == [f"candidates-* at recall@10 {each}" for each in (0.9, 0.95, 0.99)]
    row = found["candidates-* at recall@10 0.95"]
    assert row.baseline is not None and row.contender is not None and row.estimate is not None
    level = math.prod(LEVEL) ** (1 / len(LEVEL))
    assert row.baseline.value == pytest.approx(level * 2000 * 0.5 ** (0.03 / 0.05))
    assert row.contender.value == pytest.approx(level * 1000)
    assert row.estimate.ratio == pytest.approx(1000 / (2000 * 0.5 ** (0.03 / 0.05)))
    assert row.estimate.low < row.estimate.ratio < row.estimate.high
    assert {each.word for each in found.values()} == {"slower"}


def test_the_same_points_are_the_same() -> None:
    assert {row.word for row in rows_of(*sides(OURS, OURS)).values()} == {"same"}


def test_rows_are_of_the_recalls_that_are_asked_for_and_that_both_reach() -> None:
    found = rows_of(*sides(OURS, OURS[1:]), recalls=(0.85, 0.93, 0.999), allow=("tasks",))
    assert list(found) == ["candidates-* at recall@10 0.93"]


def test_sweeps_without_a_common_recall_are_not_judged() -> None:
    (row,) = rows_of(*sides([(0.93, 900), (0.99, 300)], [(0.71, 2000), (0.86, 1000)])).values()
    assert row.verdict is not None
    assert row.verdict.reason is NO_EQUAL_RECALL
    assert row.verdict.detail == "recalls do not overlap (0.93 to 0.99, 0.71 to 0.86)"


def test_sweeps_that_reach_none_of_the_recalls_say_one_that_they_do() -> None:
    (row,) = rows_of(*sides([(0.5, 900), (0.8, 300)], [(0.6, 2000), (0.86, 1000)])).values()
    assert row.verdict is not None
    assert row.verdict.detail == "no recall of 0.9, 0.95, 0.99 is on both sides (0.50 to 0.80, 0.60 to 0.86)"
    assert row.verdict.remedy == "--recall=70%"
    (row,) = rows_of(*sides([(1.0, 900), (1.0, 300)], [(1.0, 2000), (1.0, 1000)])).values()
    assert row.verdict is not None
    assert row.verdict.remedy == "--recall=100%"


def test_sides_that_took_no_turns_are_not_judged() -> None:
    found = rows_of(*sides(OURS, OURS, ALONE))
    assert {row.verdict.reason for row in found.values() if row.verdict} == {NO_TURNS}


def test_figures_that_must_not_be_used_and_more_errors_are_no_gain() -> None:
    ours, theirs = sides(OURS, [(recall, 2 * per_s) for recall, per_s in OURS])
    assert {row.word for row in rows_of(ours, theirs).values()} == {"faster"}
    failing = with_tasks(theirs, errors=theirs.records[0].tasks[0].requests // 50)
    assert {row.verdict.reason for row in rows_of(ours, failing).values() if row.verdict} == {MORE_ERRORS}
    checked = with_tasks(theirs, checks=(Check("incomplete", "unusable", "a load worker died", "race again"),))
    nothing = with_tasks(theirs, throughput=Throughput("ops", None))
    assert [row.verdict.reason for row in rows_of(ours, nothing).values() if row.verdict] == [NO_VALUE]
    assert [row.verdict.reason for row in rows_of(ours, checked).values() if row.verdict] == [CHECK]


def test_a_sweep_is_of_tasks_whose_names_differ_in_the_last_number() -> None:
    task = sweep("baseline", OURS, [1], [1.0]).records[0].tasks[0]
    assert Sweep.of("tenth-10-candidates-50", task) == Sweep("tenth-10-candidates-*", "recall@10", "ops/s")
    assert Sweep.of("near", task) is None
    assert Sweep.of("candidates-10", replace(task, loop="open")) is None
    assert Sweep.of("candidates-10", replace(task, scores=None)) is None


def test_no_speed_over_all_tasks_is_told_of_sweeps() -> None:
    assert pair(*sides(OURS, OURS)).speed_ratio is None


def test_sides_that_were_raced_at_once_are_compared_round_by_round() -> None:
    drawn = Drawn()
    ours = sliced(drawn, "baseline", OURS, 6)
    theirs = sliced(drawn, "contender", [(recall - 0.02, per_s) for recall, per_s in OURS], 6)
    found = {row.task: row for row in compare(ours, [theirs], CompareOptions(seconds=drawn.read)).pairs[0].rows}
    row = found["candidates-* at recall@10 0.95"]
    assert row.estimate is not None
    assert (row.word, row.estimate.method, len(row.differences)) == ("slower", "paired", 6)
    assert row.estimate.ratio == pytest.approx(1000 / (2000 * 0.5 ** (0.03 / 0.05)), rel=0.01)
    few = [replace(side, records=side.records[:1]) for side in (ours, theirs)]
    found = {row.task: row for row in compare(few[0], few[1:], CompareOptions(seconds=drawn.read)).pairs[0].rows}
    verdict = found["candidates-* at recall@10 0.95"].verdict
    assert verdict is not None
    assert verdict.reason is FEW_ROUNDS
