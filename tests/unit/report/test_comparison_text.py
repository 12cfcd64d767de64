"""What a reader of a printed comparison is told beside the figures: what verdicts stand on, and which are coloured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import ALONE, TURNS, docs_per_s, scaled, seconds_of, side, usable
from races import golden_race, with_task

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Side
from esbench.record.model import RaceRecord, Throughput
from esbench.report.comparison import comparison
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
    assert "look 3: verdicts are stricter" in text(rounds(1.0, looks=3))


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
    assert "~" in undecided and "p=" not in undecided


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
