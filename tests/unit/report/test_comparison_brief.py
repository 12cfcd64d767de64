"""The short form of a comparison: its conclusion first, what can be judged, and a line for each reason."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from compared_sides import ALONE, TURNS, docs_per_s, scaled, seconds_of, side
from races import golden_race
from sliced_sides import Drawn
from sliced_sides import rounds as levels

from esbench.comparison.compare import compare
from esbench.comparison.model import AnswerPair, CompareOptions, Comparison, Row, RowVerdict, Side, TaskAnswers
from esbench.comparison.reasons import ANSWERS_DIFFER, REASONS, VERDICTS, Reason
from esbench.features.pages.comparison_page import comparison_page
from esbench.report.brief import brief
from esbench.report.comparison import comparison
from esbench.report.conclusion import conclusion
from esbench.report.render import render

pytestmark = pytest.mark.computed

COMMAND = ("esbench", "compare", "s")
OPTIONS = CompareOptions(seconds=seconds_of)
CLUSTER = golden_race().clusters["default"]


def rounds(contender: Sequence[float], places: Any = TURNS, **race: Any) -> Comparison:
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), places["baseline"])
    return compare(ours, [side("contender", "bulk", docs_per_s(contender), places["contender"], **race)], OPTIONS)


def text(compared: Comparison, columns: int = 80) -> str:
    return render(brief(compared, COMMAND), "text", columns=columns)


def first_line(compared: Comparison) -> str:
    return conclusion(compared)


def version(name: str) -> dict[str, Any]:
    return {"clusters": {"default": replace(CLUSTER, version=name)}}


def test_the_conclusion_comes_first_and_names_the_sides_by_what_differs() -> None:
    slower = rounds(scaled(16000), **version("7.99.1"))
    assert first_line(slower).startswith(f"{CLUSTER.version} -> 7.99.1: 20 % slower in bulk; the same in get-by-id")
    assert text(slower, 1000).startswith(first_line(slower))
    param = {**golden_race().track_params, "number_of_shards": 7}
    shards = first_line(rounds(scaled(20000), track_params=param))
    assert shards == "number_of_shards:24 -> number_of_shards:7: the same in all 4 tasks"
    both = first_line(rounds(scaled(20000), track_params=param, **version("7.99.1")))
    assert both.startswith("baseline -> contender: ")  # two facts differ: neither may be taken for the reason


def test_identical_sides_are_called_so() -> None:
    assert first_line(rounds(scaled(20000))) == "baseline -> contender (no known difference): the same in all 4 tasks"


def test_a_ratio_above_two_is_a_factor_with_its_range() -> None:
    many = rounds(scaled(300000))
    assert "15 times faster in bulk" in first_line(many)
    row = next(line for line in text(many).splitlines() if line.startswith("faster"))
    assert [each[:3] for each in row.split()[-3:]] in (["x15"] * 3, ["x15", "x14", "x15"])
    assert "%" not in row


@pytest.mark.parametrize("columns", [80, 100])
def test_no_line_is_wider_than_asked(columns: int) -> None:
    long = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    records = tuple(
        replace(record, tasks=tuple(replace(task, name=f"{task.name}-that-has-a-long-name") for task in record.tasks))
        for record in long.records
    )
    renamed = replace(long, records=records)
    for compared in (
        rounds(scaled(16000)),
        rounds(scaled(300000)),
        rounds(scaled(24000), ALONE),
        compare(renamed, [replace(renamed, name="contender")], OPTIONS),
        compare(Side("a", (golden_race(),)), [Side("b", (golden_race(race_id="b"),))], OPTIONS),
    ):
        assert max(map(len, text(compared, columns).splitlines())) <= columns


def test_rows_stand_in_the_order_of_their_verdicts_and_what_cannot_be_judged_is_a_line() -> None:
    noisy = rounds([20500, 19500, 21000, 19000])
    lines = text(noisy).splitlines()
    table = lines[lines.index("") + 3 : lines.index("", lines.index("") + 1)]
    words = [line.partition("  ")[0] for line in table]
    assert words == sorted(words, key=VERDICTS.index) and "not judged" not in words
    lacking = "not judged p99 of bulk: only 400 requests, and it needs 1,000 (3 times as many documents)"
    assert lacking in " ".join(" ".join(lines).split())
    assert lines[-1] == "more       esbench compare s --all"


def test_sides_of_which_nothing_can_be_judged_show_their_figures_and_why() -> None:
    races = compare(Side("a", (golden_race(),)), [Side("b", (golden_race(race_id="b"),))], OPTIONS)
    printed = text(races)
    assert "not judged in all 4 tasks: too few requests" in " ".join(printed.split())
    assert any(line.startswith("not judged  bulk ") for line in printed.splitlines())


def test_more_errors_and_other_answers_are_said_first() -> None:
    failing = [{**each, "errors": 4} for each in docs_per_s(scaled(24000))]
    ours = side("baseline", "bulk", docs_per_s(scaled(20000)), TURNS["baseline"])
    found = compare(ours, [side("contender", "bulk", failing, TURNS["contender"])], OPTIONS)
    assert ": more requests failed on contender in bulk; " in first_line(found)
    (pair,) = found.pairs
    other = tuple(
        replace(row, verdict=RowVerdict(ANSWERS_DIFFER)) if row.is_primary and row.task == "get-by-id" else row
        for row in pair.rows
    )
    both = first_line(Comparison((replace(pair, rows=other),)))
    assert ": more requests failed on contender in bulk; the answers differ in get-by-id; " in both


def test_answers_that_differ_are_shown_with_a_request() -> None:
    pair = rounds(scaled(20000)).pairs[0]
    found = TaskAnswers("get-by-id", 9, 1, examples=(AnswerPair("GET /orders/_doc/7", {"found": True}, None),))
    printed = " ".join(text(Comparison((replace(pair, answers=(found,)),))).split())
    assert "answers differ: get-by-id (1 of 10 asked again) get-by-id: GET /orders/_doc/7: baseline" in printed


def test_every_format_begins_with_the_same_sentence() -> None:
    compared = rounds(scaled(16000))
    document, said = comparison(compared), conclusion(compared)
    assert render(document, "text").startswith(f"{said}\n")
    assert render(document, "markdown").startswith(f"**{said}**\n")
    printed = json.loads(render(document, "json"))
    assert list(printed)[:2] == ["version", "conclusion"]
    assert (printed["version"], printed["conclusion"]) == (2, said)
    first = next(ET.fromstring(render(document, "junit")).iter("property"))
    assert first.attrib == {"name": "conclusion", "value": said}
    page = comparison_page(compared)
    assert 0 < page.index(said.replace(">", "&gt;")) < page.index("<table")


def test_values_of_a_p99_taken_in_sections_are_those_that_its_ratio_is_of() -> None:
    drawn = Drawn()
    compared = compare(
        drawn.side("baseline", levels()), [drawn.side("contender", levels(1.3))], CompareOptions(seconds=drawn.read)
    )
    tails = [row for row in compared.pairs[0].primary if row.metric.startswith("p99")]
    assert tails
    for row in tails:
        assert row.estimate is not None and row.baseline is not None and row.contender is not None
        assert row.contender.value / row.baseline.value == pytest.approx(row.estimate.ratio, rel=1e-9)


@pytest.mark.parametrize("reason", REASONS, ids=lambda reason: reason.code)
def test_each_reason_has_its_sentence_in_text_and_its_word_in_every_format(reason: Reason) -> None:
    (pair,) = rounds(scaled(16000)).pairs
    row: Row = next(row for row in pair.primary if row.task == "bulk" and row.estimate is not None)
    only = Comparison((replace(pair, rows=(replace(row, verdict=RowVerdict(reason, p=0.01)),), notices=()),))
    printed = " ".join(text(only).split())
    if reason.verdict in VERDICTS[3:] and not reason.is_alarm:
        assert reason.sentence in printed
        assert reason.what_helps in printed
    assert reason.verdict in printed or reason.is_alarm
    full = comparison(only)
    (shown,) = json.loads(render(full, "json"))["rows"]
    assert (shown["verdict"], shown["reason"], shown["verdict_v1"]) == (reason.verdict, reason.code, reason.v1)
    assert f' reason" value="{reason.code}"' in render(full, "junit")
    assert f"| {reason.verdict} " in render(full, "markdown")
    assert reason.code in render(full, "csv")
    assert reason.verdict in comparison_page(only)


def test_what_moved_with_an_unclear_row_is_said_if_it_leans_to_one_side() -> None:
    def with_gc(docs: float, refreshes: int) -> dict[str, Any]:
        (changed,) = docs_per_s([docs])
        return {**changed, "telemetry": {"cluster": {"refresh_count": refreshes}}}

    ours = [with_gc(docs, 100) for docs in (20000, 21500, 19000, 20500)]
    for factor, said in ((0.93, True), (1.0, False)):
        theirs = [with_gc(factor * docs, 900) for docs in (20400, 19700, 21000, 19400)]
        one = side("baseline", "bulk", ours, TURNS["baseline"])
        found = compare(one, [side("contender", "bulk", theirs, TURNS["contender"])], OPTIONS)
        row = next(row for row in found.pairs[0].primary if (row.task, row.metric) == ("bulk", "Mean throughput"))
        assert row.word == "unclear"
        assert ("also moved bulk: refreshes" in text(found)) == said
