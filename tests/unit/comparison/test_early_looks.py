"""A task that a planned duel left out after a look is compared as it was then; the others with all rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from compared_sides import row_of
from sliced_sides import CLOSED, OPEN, Drawn, Level, flat, rounds

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Pair, Side
from esbench.record.model import RaceRecord
from esbench.record.series import SecondLine

LEFT_OUT = OPEN
FIRST, ALL = 6, 9


def pair_of(left_out: Sequence[Level], still_raced: Sequence[Level], first: int = FIRST, looks: int = 2) -> Pair:
    """A contender with these levels in a task that only the first rounds raced, and in one that all did."""
    drawn, other = Drawn(), Drawn()

    def side(name: str, early: Sequence[Level], late: Sequence[Level]) -> Side:
        of_early = other.side(name, early, task=LEFT_OUT).records
        records = []
        for number, record in enumerate(drawn.side(name, late).records):
            early_tasks = of_early[number].tasks if number < first else ()
            records.append(replace(record, tasks=(*early_tasks, *record.tasks)))
        return Side(name, tuple(records), "s")

    def read(record: RaceRecord) -> Iterator[SecondLine]:
        yield from other.seconds[record.race_id]
        yield from drawn.seconds[record.race_id]

    baseline = side("baseline", [flat()] * ALL, [flat()] * ALL)
    contender = side("contender", left_out, still_raced)
    return compare(baseline, [contender], CompareOptions(seconds=read, looks=looks)).pairs[0]


def levels(factor: float) -> list[Level]:
    return rounds(factor, ALL, noise=(0.01, -0.01, 0.0))


@pytest.mark.parametrize(("factor", "word"), [(1.2, "faster"), (0.8, "slower"), (1.0, "same")])
def test_the_verdict_of_a_task_is_the_one_of_its_last_look(factor: float, word: str) -> None:
    pair = pair_of(levels(factor), levels(1.0))
    row = row_of(pair, "p50 latency", LEFT_OUT)
    assert row.word == word
    assert len(row.differences) == FIRST


def test_other_tasks_have_all_rounds_and_the_settled_rows_stay_in_their_family() -> None:
    pair = pair_of(levels(1.2), levels(1.08))
    row = row_of(pair, "Mean throughput", CLOSED)
    alone = pair_of(levels(1.2), levels(1.08), first=ALL)
    assert len(row.differences) == ALL
    assert row.verdict is not None and row.estimate is not None
    p_values = sorted(each.estimate.p for each in pair.primary if each.task == CLOSED and each.estimate)
    least = min(p * len(pair.primary) / rank for rank, p in enumerate(p_values, 1))
    assert row.verdict.p == pytest.approx(2 * least, rel=1e-6)
    assert row.estimate == row_of(alone, "Mean throughput", CLOSED).estimate


def test_rows_and_tasks_keep_their_order_and_nothing_forbids_to_compare() -> None:
    pair, alone = (pair_of(levels(1.0), levels(1.0), first=first) for first in (FIRST, ALL))
    assert [(row.metric, row.task) for row in pair.primary] == [(row.metric, row.task) for row in alone.primary]
    assert not [difference for difference in pair.differences if difference.forbids]
    assert [len(record.tasks) for record in pair.baseline.records] == [2] * FIRST + [1] * (ALL - FIRST)
    assert pair.sliced is not None
    assert set(pair.sliced.cuts) == {LEFT_OUT, CLOSED}
