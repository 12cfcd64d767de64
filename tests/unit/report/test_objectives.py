"""Objectives in what is shown of races: the summary, its notices, the page, comparisons and JUnit."""

from __future__ import annotations

from dataclasses import replace
from html import unescape
from xml.etree import ElementTree as ET

import pytest
from html_pages import text_of
from races import GOLDEN, golden_race, with_task

from esbench.comparison.compare import compare
from esbench.comparison.conditions import outcome, parse_condition
from esbench.comparison.model import Comparison, Side
from esbench.features.pages.race import race_page
from esbench.record.figures import judged_objectives, notices
from esbench.record.model import ObjectiveResult, RaceRecord
from esbench.record.store import decode_record
from esbench.report.junit import junit
from esbench.report.race_summary import short_summary, summary
from esbench.report.text import render_text

HELD = ObjectiveResult("p99 < 50 ms", 41.25, "ms", holds=True)
MISSED = replace(HELD, value=71.32, holds=False)
OVERLOADED = replace(MISSED, reason="only 80.0% of the target rate was reached")
BROKEN = ObjectiveResult("p99 < 50 ms", None, "ms", holds=False, reason="10.0% of the requests were late")
UNJUDGED = replace(BROKEN, holds=None, reason="9 requests are too few for p99")
FEW_OPS = ObjectiveResult("throughput >= 1000", 912.5, "ops/s", holds=False)


def race(*objectives: ObjectiveResult, race_id: str = "a") -> RaceRecord:
    return with_task(golden_race(race_id=race_id), "get-by-id", objectives=objectives)


def said(record: RaceRecord) -> list[str]:
    return [notice.text for notice in notices(record) if " < 50 ms" in notice.text or " >= 1000" in notice.text]


@pytest.mark.parametrize(
    ("objective", "text"),
    [
        (HELD, None),
        (MISSED, "p99 < 50 ms is not held: p99 is 71.32 ms"),
        (OVERLOADED, "p99 < 50 ms is not held: p99 is 71.32 ms, and only 80.0% of the target rate was reached"),
        (BROKEN, "p99 < 50 ms is not held: 10.0% of the requests were late"),
        (UNJUDGED, "p99 < 50 ms could not be judged: 9 requests are too few for p99"),
        (FEW_OPS, "throughput >= 1000 is not held: throughput is 912.5 ops/s"),
    ],
)
def test_an_objective_that_is_not_held_is_a_warning(objective: ObjectiveResult, text: str | None) -> None:
    assert said(race(objective)) == ([] if text is None else [f"get-by-id: {text}"])
    assert not any(notice.unusable for notice in notices(race(objective)) if notice.text == f"get-by-id: {text}")


def test_a_summary_has_a_line_for_each_objective() -> None:
    record = race(HELD, FEW_OPS, UNJUDGED)
    for document in (summary(record), short_summary(record)):
        (section,) = [section for section in document.sections if section.title == "Objectives"]
        assert [row[:5] for row in section.table.rows] == [
            ("get-by-id", "p99 < 50 ms", 41.25, "ms", True),
            ("get-by-id", "throughput >= 1000", 912.5, "ops/s", False),
            ("get-by-id", "p99 < 50 ms", None, "ms", None),
        ]
    printed = [line.split() for line in render_text(short_summary(record)).splitlines()]
    assert ["get-by-id", "p99", "<", "50", "ms", "41.25", "ms", "yes"] in printed
    assert "Objectives" not in [section.title for section in summary(golden_race()).sections]


def test_the_page_of_a_race_says_first_which_objectives_were_missed() -> None:
    page = unescape(text_of(race_page(decode_record(GOLDEN.read_bytes()), (), ())))
    assert "1 of 5 objectives were missed: p99 < 50 ms of get-by-id-open" in page
    assert "throughput >= 1000" in page
    assert "Some objectives could not be judged" in text_of(race_page(race(HELD, UNJUDGED), (), ()))
    assert "The one objective was held." in text_of(race_page(race(HELD), (), ()))
    assert "objective" not in text_of(race_page(golden_race(), (), ()))


def compared(ours: ObjectiveResult, *theirs: ObjectiveResult) -> Comparison:
    contender = tuple(race(each, race_id=f"b{number}") for number, each in enumerate(theirs))
    return compare(Side("baseline", (race(ours),)), [Side("contender", contender)])


def test_a_note_says_which_side_misses_an_objective() -> None:
    found = [notice.text for notice in compared(HELD, MISSED).notices if "p99 < 50 ms" in notice.text]
    assert found == ["contender: get-by-id: p99 < 50 ms is not held: p99 is 71.32 ms"]
    found = [notice.text for notice in compared(HELD, HELD, MISSED).notices if "p99 < 50 ms" in notice.text]
    assert found == ["contender: get-by-id: p99 < 50 ms is not held: p99 is 71.32 ms (in 1 of 2 races)"]


@pytest.mark.parametrize(
    ("theirs", "hits", "undecided"),
    [
        ((HELD, HELD), (), ()),
        ((HELD, MISSED), ("p99 < 50 ms of get-by-id",), ()),
        ((UNJUDGED, MISSED), ("p99 < 50 ms of get-by-id",), ()),
        ((HELD, UNJUDGED), (), ("p99 < 50 ms of get-by-id (9 requests are too few for p99)",)),
    ],
)
def test_any_race_of_the_contender_may_miss_an_objective(
    theirs: tuple[ObjectiveResult, ...], hits: tuple[str, ...], undecided: tuple[str, ...]
) -> None:
    """The baseline's do not count."""
    assert judged_objectives([race(each) for each in theirs]) == (hits, undecided)
    found = outcome(parse_condition("Objectives"), compared(MISSED, *theirs))
    assert (found.hits, found.undecided) == (hits, undecided)


def test_without_any_objective_nothing_is_judged() -> None:
    assert judged_objectives([golden_race()]) == ((), ("no task has an objective",))


def test_junit_has_a_test_for_each_objective_if_that_is_a_condition() -> None:
    conditions = [parse_condition("objectives")]
    tags = {}
    for theirs in ((HELD,), (HELD, MISSED), (HELD, UNJUDGED)):
        suite = ET.fromstring(junit(compared(HELD, *theirs), conditions))[0]
        (case,) = [case for case in suite if (case.get("classname"), case.get("name")) == ("get-by-id", HELD.text)]
        tags[theirs] = [child.tag for child in case]
        assert int(suite.get("tests", "")) == len(suite.findall("testcase"))
    assert list(tags.values()) == [[], ["failure"], ["skipped"]]
    suite = ET.fromstring(junit(compared(HELD, MISSED), [parse_condition("slower")]))[0]
    assert HELD.text not in [case.get("name") for case in suite]
