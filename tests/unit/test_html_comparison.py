"""The page of a comparison: its outcome in words, what it draws, and that it is one small file that loads nothing."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from duels import seconds, sides
from races import golden_race, keep

from esbench.cli.main import run
from esbench.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Side
from esbench.report.html.comparison_charts import intervals
from esbench.report.html.comparison_page import comparison_page

BULK = "bulk"


def duel(changes: dict[str, float], **options: float) -> Comparison:
    baseline, contender = sides(changes)
    return compare(baseline, [contender], CompareOptions(seconds=seconds, **options))


def words(page: str) -> list[str]:
    """The sentences at the top of a page, without marks."""
    found = re.search(r'<ul class="verdict">(.*?)</ul>', page, re.DOTALL)
    assert found is not None
    return [re.sub("<[^>]+>", " ", item).strip() for item in found[1].split("</li>") if item]


def titles(page: str) -> list[str]:
    return re.findall("<figure[^>]*><h3>(.*?)</h3>", page)


@pytest.fixture(scope="module")
def page() -> str:
    return comparison_page(duel({"bulk": 0.85, "get-by-id": 1.2, "get-by-id-open": 1.0}))


def test_the_outcome_stands_first_in_words_worst_first(page: str) -> None:
    slower, faster, same, tested = words(page)
    assert re.match(r"▼ slower: get-by-id, Mean throughput -1\d\.\d%; get-by-id, p99 service time \+\d\d\.\d%$", slower)
    assert re.match(r"▲ faster: bulk, Mean throughput \+1\d\.\d%; bulk, p99 service time -1\d\.\d%$", faster)
    assert same.startswith("= same: get-by-id-open, p50 latency")
    assert tested == "Under test: param number_of_replicas 0 → 1"


def test_each_judged_row_has_its_races_and_each_task_its_curves(page: str) -> None:
    found = titles(page)
    assert found[0] == "Change"
    assert "get-by-id: p99 service time, race by race" in found
    assert "get-by-id-open: p99 latency, race by race" in found
    assert "get-by-id-open: percentiles of latency" in found  # due time to last byte
    assert "get-by-id: percentiles of service time" in found  # a closed loop has no due times
    assert len(found) == 1 + 6 + 3  # changes, primary rows, tasks


def test_it_is_one_small_file_that_loads_nothing(page: str) -> None:
    assert len(page) < 3_000_000
    assert re.findall(r"<(?:link|iframe|img)\b|<script[^>]+src=|@import|url\(http", page.split("<script", 1)[0]) == []
    assert re.findall(r"<script[^>]+src=|<link\b[^>]+href=", page) == []


def test_identical_sides_are_called_a_a() -> None:
    records = sides({BULK: 1.0})[0].records
    odd, even = Side("one", records[::2]), Side("other", records[1::2])
    found = words(comparison_page(compare(odd, [even], CompareOptions(seconds=seconds))))
    assert "A/A: other against one: nothing but chance differs" in found


def test_single_races_have_no_chart_of_rounds_and_say_why_there_is_no_verdict() -> None:
    one, other = golden_race(), golden_race(race_id="other")
    page = comparison_page(compare(Side("one", (one,)), [Side("other", (other,))]))
    assert not [title for title in titles(page) if "race by race" in title or title == "Change"]
    assert any(line.startswith("No verdict for some rows:") for line in words(page))


def test_several_contenders_have_their_charts_each_and_one_table() -> None:
    baseline, first = sides({BULK: 0.85})
    second = replace(first, name="again")
    page = comparison_page(compare(baseline, [first, second], CompareOptions(seconds=seconds)))
    assert titles(page).count("Change") == 2
    assert any("contender: bulk" in line and "again: bulk" in line for line in words(page))
    assert "<th>Side</th>" in page


def test_names_of_sides_are_text_not_markup() -> None:
    baseline, contender = sides({BULK: 1.0})
    page = comparison_page(compare(baseline, [replace(contender, name="<script>alert(1)</script>")]))
    assert "<script>alert(1)" not in page


@pytest.mark.parametrize("min_effect", [None, 0.2])
def test_the_band_of_no_change_is_that_of_the_option(min_effect: float | None) -> None:
    page = comparison_page(duel({BULK: 1.0}, **({} if min_effect is None else {"min_effect_ratio": min_effect})))
    assert ("+20%" in page) == (min_effect == 0.2)


def test_ticks_of_changes_are_round_percents_however_far_apart() -> None:
    rows = [row for row in duel({BULK: 4.0, "get-by-id": 1.0}).pairs[0].primary if row.estimate is not None]
    near = intervals([row for row in rows if row.task != BULK], dict.fromkeys((row.metric for row in rows), 0.05))
    far = intervals(rows, dict.fromkeys((row.metric for row in rows), 0.05))
    assert set(near.xaxis[0].major_label_overrides.values()) == {"-4%", "-2%", "0", "+2%", "+4%"}
    assert {"-50%", "0", "+100%"} <= set(far.xaxis[0].major_label_overrides.values())
    assert len(far.xaxis[0].major_label_overrides) <= 7


def test_the_command_writes_the_page_and_prints_as_ever(
    esbench_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(esbench_home, golden_race(race_id="one"))
    keep(esbench_home, golden_race(race_id="other"))
    file = tmp_path / "comparison.html"
    assert run(["compare", "--baseline=one", "--contender=other", f"--html={file}"]) == 0
    assert "Mean throughput" in capsys.readouterr().out
    assert file.read_text().startswith("<!DOCTYPE html>")


def test_a_page_that_cannot_be_written_is_one_clear_line(
    esbench_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["compare", "--baseline=one", "--contender=other", f"--html={tmp_path / 'no' / 'x.html'}"]) == 2
    assert "its folder does not exist" in capsys.readouterr().err
