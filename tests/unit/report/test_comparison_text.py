"""What a reader of a printed comparison is told beside the figures: what verdicts stand on, and which are coloured."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import ALONE, TURNS, docs_per_s, scaled, seconds_of, side, usable
from races import golden_race, with_task
from sliced_sides import Drawn
from sliced_sides import rounds as levels

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, RoundPlan, RoundsNeeded, Side
from esbench.record.model import RaceRecord, Throughput
from esbench.report.comparison import comparison, plan_text
from esbench.report.render import render

OPTIONS = CompareOptions(seconds=seconds_of)
RED, GREEN = "\x1b[31m", "\x1b[32m"


def alone(docs: float, race_id: str) -> RaceRecord:
    return with_task(usable(golden_race(race_id=race_id)), "bulk", throughput=Throughput("docs", docs))


HISTORY = tuple(alone(20000 * (1 + 0.004 * (-1) ** number), f"h{number}") for number in range(6))


def rounds(factor: float, places: Mapping[str, tuple[int, ...]] = TURNS, **options: Any) -> Comparison:
    ours, theirs = (
        side(name, "bulk", docs_per_s(scaled(level)), places[name])
        for name, level in (("baseline", 20000), ("contender", 20000 * factor))
    )
    return compare(ours, [theirs], replace(OPTIONS, **options))


def text(compared: Comparison) -> str:
    return render(comparison(compared), "text", colour=True)


def bulk_of(printed: str) -> str:
    return next(line for line in printed.splitlines() if "bulk" in line and "Mean throughput" in line)


def test_the_line_says_how_many_rows_could_be_judged_and_names_no_procedure() -> None:
    assert "7 of 8 rows could be judged" in text(rounds(1.0))
    assert "Benjamini" not in text(rounds(1.0))
    assert "none of 8 rows could be judged" in text(rounds(1.0, ALONE))
    assert "3 looks: verdicts are stricter" in text(rounds(1.0, looks=3))


def test_a_history_is_named_where_verdicts_stand_on_it() -> None:
    single = [Side(name, (alone(docs, name),)) for name, docs in (("a", 20000), ("b", 24000))]
    with_history = compare(single[0], [single[1]], replace(OPTIONS, history=HISTORY))
    assert "   with 6 earlier races   " in text(with_history)
    assert "not in turns   with 6 earlier races" in text(rounds(1.2, ALONE, history=HISTORY))
    assert "earlier races" not in text(rounds(1.2, history=HISTORY))
    assert "earlier races" not in text(compare(single[0], [single[1]], replace(OPTIONS, history=HISTORY[:4])))


@pytest.mark.parametrize(("factor", "colour"), [(1.2, GREEN), (0.8, RED), (1.0, "")])
def test_only_faster_and_slower_are_coloured(factor: float, colour: str) -> None:
    line = bulk_of(text(rounds(factor)))
    assert (colour in line) if colour else ("\x1b[" not in line)
    assert "\x1b[" not in bulk_of(text(rounds(factor, ALONE)))  # session-only


def test_p_stands_beside_what_is_different_and_nothing_else() -> None:
    assert "p<0.001" in bulk_of(text(rounds(1.2)))
    assert "p=" not in bulk_of(text(rounds(1.0))) and "p<" not in bulk_of(text(rounds(1.0)))
    undecided = bulk_of(text(rounds(1.05, min_effect_ratio=0.0001, looks=10**9)))
    assert "unclear" in undecided and "p=" not in undecided


def test_identical_sides_are_called_a_a() -> None:
    assert "A/A: nothing but chance differs" in text(rounds(1.0))
    other = side("contender", "bulk", docs_per_s(scaled(20000)), TURNS["contender"], track_params={"shards": 1})
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    assert "A/A" not in text(compare(ours, [other], OPTIONS))


def test_a_row_without_a_figure_has_dashes_and_says_why() -> None:
    failed = [{"throughput": Throughput("docs", None), "service_time_ms": None, "errors": 400}] * 4
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    line = bulk_of(text(compare(ours, [side("contender", "bulk", failed, TURNS["contender"])], OPTIONS)))
    assert line.split()[3:7] == ["20010", "-", "-", "docs/s"]
    assert "4 of 8 races have no value" in line


def side_by_side(*, cold: bool = False, count: int = 6) -> Comparison:
    """A contender that is a fifth faster; with `cold`, only when it is warm."""
    drawn = Drawn()
    ours = drawn.side("baseline", levels(count=count))
    warming = [lambda second: 1.2 * (1 - 0.5 * math.exp(-second / 2))] * count
    theirs = drawn.side("contender", warming if cold else levels(1.2, count, noise=(0.0,)))
    return compare(ours, [theirs], CompareOptions(seconds=drawn.read))


def test_sides_that_were_raced_at_once_are_called_side_by_side_with_their_slices_and_cuts() -> None:
    basis = "baseline 6 rounds   contender 6 rounds   side by side in slices of 1 s   "
    assert f"{basis}2 of 2 rows could be judged" in text(side_by_side())
    assert f"{basis}warmup cut: get-by-id 4 s   2 of 2 rows could be judged" in text(side_by_side(cold=True))


def test_the_plan_of_a_session_is_printed_once() -> None:
    printed = text(side_by_side())
    assert printed.count("start luck 0.9%, within rounds 0.0%: ") == 1
    assert "with --task-time=34s, 6 rounds (11 min) settle 5%, 6 rounds 10%" in printed


def test_a_plan_says_the_time_of_a_session_and_when_rounds_are_too_many() -> None:
    needed = (RoundsNeeded(0.05, 42, 5100.0), RoundsNeeded(0.10, 15, 1800.0))
    plan = RoundPlan(0.057, 0.028, True, 32.0, needed, 0.06, 120.0)
    assert plan_text(plan) == (
        "start luck 5.7%, within rounds 2.8%: with --task-time=32s, 42 rounds (1 h 25) settle 5%, 15 rounds 10%"
    )
    endless = replace(plan, is_start_luck=False, needed=(RoundsNeeded(0.05, None, None), needed[1]))
    assert plan_text(endless) == (
        "between rounds 5.7%, within rounds 2.8%: with --task-time=32s, more than 50 rounds settle 5%, 15 rounds 10%"
    )


def test_programs_are_given_slices_cuts_and_plan_of_sides_raced_at_once() -> None:
    found = json.loads(render(comparison(side_by_side(cold=True)), "json"))
    (contender,) = found["overview"]["contenders"]
    assert contender["interleaved"] is False
    assert contender["side_by_side"]["slices_s"] == [1.0]
    assert contender["side_by_side"]["cuts"] == {"get-by-id": {"at_s": 4.0, "is_steady": True, "age_s": 4.0}}
    assert contender["side_by_side"]["plan"]["needed"][0]["effect_ratio"] == 0.05
    assert {row["method"] for row in found["rows"]} == {"paired"}


def test_a_verdict_without_basis_is_not_coloured_and_skipped_by_junit() -> None:
    few = side_by_side(count=4)
    assert "4 of 6 rounds" in text(few)
    assert RED not in text(few) and GREEN not in text(few)
    assert render(comparison(few), "junit").count("<skipped") == 2
