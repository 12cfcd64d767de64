"""The page of a comparison: its outcome in words, what it draws, and that it is one small file that loads nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from duels import seconds, sides
from races import golden_race, keep
from sliced_sides import LENGTH_S, Drawn, flat
from sliced_sides import rounds as levels

from esbench.cli.main import run
from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Side
from esbench.features.pages.charts import BLUE, HEIGHT, curves_chart, shortened
from esbench.features.pages.comparison_charts import intervals, rounds
from esbench.features.pages.comparison_page import comparison_page
from esbench.features.pages.comparison_series import ComparedSides, Raced
from esbench.record.figures import Notice
from esbench.record.model import Window

pytestmark = pytest.mark.computed

BULK = "bulk"


def duel(changes: dict[str, float], **options: float) -> Comparison:
    baseline, contender = sides(changes)
    return compare(baseline, [contender], CompareOptions(seconds=seconds, **options))


def words(page: str) -> list[str]:
    """What is under test, and the sentences at the top of a page, without marks."""
    top = page[page.index("<header>") : page.index('<table class="verdicts"')]
    found = re.findall(r'<p class="tested.*?</p>|<li.*?</li>', top)
    return [re.sub(" +", " ", re.sub("<[^>]+>", " ", item)).strip() for item in found]


def titles(page: str) -> list[str]:
    return re.findall("<figure[^>]*><h3>(.*?)</h3>", page)


def section(page: str, task: str) -> str:
    """The charts of a task."""
    return next(each for each in re.findall("<section.*?</section>", page, re.DOTALL) if f"<h2>{task}</h2>" in each)


@pytest.fixture(scope="module")
def page() -> str:
    return comparison_page(duel({"bulk": 0.85, "get-by-id": 1.2, "get-by-id-open": 1.0}))


def test_what_is_under_test_and_the_outcome_stand_first_in_words_worst_first(page: str) -> None:
    tested, slower, faster, same, speed = words(page)
    assert tested == "Under test: param number_of_replicas 0 → 1"
    changes = r"Mean throughput -1\d\.\d% and p99 service time \+\d\d\.\d%"
    assert re.fullmatch(rf"▼ slower, 2 of 6 rows: get-by-id, {changes}", slower)
    assert faster.startswith("▲ faster, 2 of 6 rows: bulk, Mean throughput +1")
    assert same.startswith("= same, 2 of 6 rows: get-by-id-open, p50 latency ")
    assert re.match(r"Speed ratio over all tasks: 0\.9\d\d \[0\.9", speed)


def test_each_judged_row_has_its_races_and_each_task_its_curves(page: str) -> None:
    assert titles(page)[0] == "contender against baseline"  # the changes
    assert titles(section(page, "get-by-id")) == [
        "Mean throughput, race by race",
        "p99 service time, race by race",
        "Percentiles of service time",  # a closed loop has no due times
    ]
    assert titles(section(page, "get-by-id-open"))[1:] == ["p99 latency, race by race", "Percentiles of latency"]
    assert len(titles(page)) == 1 + 6 + 3  # changes, primary rows, tasks


def test_a_task_says_how_it_came_out_and_which_direction_is_better(page: str) -> None:
    task = section(page, "get-by-id")
    assert re.search(r'Mean throughput: <span class="badge bad">▼ slower</span> -1\d\.\d% \[-1', task)
    captions = re.findall("<figcaption>(.*?)</figcaption>", task)
    assert [caption.split(".")[0] for caption in captions] == ["More is better", "Less is better", "Less is better"]
    assert captions[0] == "More is better. Dashed: the geometric mean of a side."


def test_a_row_of_the_table_leads_to_the_charts_of_its_task(page: str) -> None:
    (link,) = set(re.findall('<td [^>]*><a href="#([^"]*)">get-by-id</a>', page))
    assert f'<section class="task" id="{link}"><h2>get-by-id</h2>' in page


def test_all_values_of_the_charts_stand_in_a_table(page: str) -> None:
    table = page[page.index("Judged figures, race by race") :]
    assert "Race 6</th>" in table
    assert len(re.findall("<tr><td>get-by-id-open</td><td>p99 latency</td>", table)) == 2  # sides


def test_the_settings_of_each_side_are_folded_away(page: str) -> None:
    folds = re.findall("<summary>(Settings .*?)</summary>", page)
    assert folds == [f"Settings and environment of {side} (race {side}-1)" for side in ("baseline", "contender")]
    assert re.findall("<td>parameters.number_of_replicas</td><td[^>]*>(.)</td>", page[page.index(folds[0]) :]) == [
        "0",
        "1",
    ]
    assert "session duel</p>" in page


def test_it_is_one_small_file_that_loads_nothing(page: str) -> None:
    assert len(page) < 3_000_000
    assert re.findall(r"<(?:link|iframe|img)\b|<script[^>]+src=|@import|url\(http", page.split("<script", 1)[0]) == []
    assert re.findall(r"<script[^>]+src=|<link\b[^>]+href=", page) == []


def test_identical_sides_are_called_a_a() -> None:
    records = sides({BULK: 1.0})[0].records
    odd, even = Side("one", records[::2]), Side("other", records[1::2])
    found = words(comparison_page(compare(odd, [even], CompareOptions(seconds=seconds))))
    assert found[0] == "A/A: nothing but chance differs between the sides"


def test_single_races_have_no_chart_of_rounds_and_say_why_there_is_no_verdict() -> None:
    one, other = golden_race(), golden_race(race_id="other")
    page = comparison_page(compare(Side("one", (one,)), [Side("other", (other,))]))
    assert {title.partition(" of ")[0] for title in titles(page)} == {"Percentiles"}
    assert re.fullmatch(r"! not judged, .* rows: .*too few requests.* \(\d+\).*: the table says which", words(page)[-1])


def test_several_contenders_have_their_charts_each_and_one_table() -> None:
    baseline, first = sides({BULK: 0.85})
    second = replace(first, name="again")
    page = comparison_page(compare(baseline, [first, second], CompareOptions(seconds=seconds)))
    assert titles(page) == [
        "contender against baseline",
        "again against baseline",
        "Mean throughput, race by race",  # of all sides
        "p99 service time, race by race",
        "Percentiles of service time",
    ]
    told = [re.split("[,:]", line)[0] for line in words(page)]
    assert told == ["Under test", "▲ faster", "Speed ratio over all tasks"] * 2
    assert "Side</th>" in page
    assert "Mean throughput, again: " in section(page, BULK)


def test_sides_keep_their_looks_where_one_of_them_has_no_row() -> None:
    records, (task,) = sides({BULK: 1.0})[0].records, ["get-by-id"]
    other = Side("other", sides({task: 1.0})[0].records)
    compared = compare(Side("one", records), [other, Side("third", records)], CompareOptions(seconds=seconds))
    judged = ComparedSides(compared).judged()
    with_figures = [
        side.number for side in ComparedSides(compared).raced(judged[BULK]["Mean throughput"]) if any(side.values)
    ]
    assert with_figures == [0, 2]
    assert [curve.number for curve in ComparedSides(compared).curves(BULK, "service_time")] == [0, 2]


def test_what_must_not_differ_stands_at_the_top_and_its_reason_once() -> None:
    baseline, contender = sides({BULK: 1.0})
    other = replace(contender, records=tuple(replace(record, seed=7) for record in contender.records))
    forbidden, unusable = words(comparison_page(compare(baseline, [other], CompareOptions(seconds=seconds))))[1:]
    assert forbidden.startswith("Must not differ, but does: seed ")
    assert unusable == "! not judged, all 2 rows: not comparable: seed (--allow=seed)"
    allowed = words(comparison_page(compare(baseline, [other], CompareOptions(seconds=seconds, allow=("seed",)))))
    assert allowed[1].startswith("Differs, as was allowed: seed ")


def test_parameters_that_are_lists_are_told() -> None:
    baseline, contender = sides({BULK: 1.0})
    records = tuple(replace(record, track_params={"clients": [8, 32]}) for record in contender.records)
    tested = words(comparison_page(compare(baseline, [replace(contender, records=records)])))[0]
    assert "param clients none → 8, 32" in tested


def test_a_fact_that_differs_between_the_races_of_a_side_is_told() -> None:
    found = [
        replace(
            side, records=tuple(replace(record, esbench={"version": f"1.{n}"}) for n, record in enumerate(side.records))
        )
        for side in sides({BULK: 1.0}, rounds=2)
    ]
    first = found[0].records[0]
    records = (replace(first, track_params={**first.track_params, "size": 5}), *found[0].records[1:])
    page = comparison_page(compare(replace(found[0], records=records), [found[1]]))
    assert "<tr><td>esbench</td><td>1.0, 1.1</td><td>1.0, 1.1</td></tr>" in page
    assert "<tr><td>param size</td><td>5, none</td><td>-</td></tr>" in page


def test_names_of_sides_and_parameters_and_notices_are_text_and_no_markup() -> None:
    name = "<i>a</i>"
    baseline, contender = sides({BULK: 1.0}, names=("one", name))
    records = tuple(replace(record, track_params={name: name}) for record in contender.records)
    options = CompareOptions(notices=(Notice(name),))
    page = comparison_page(compare(baseline, [replace(contender, records=records)], options))
    body = re.sub("<script.*?</script>", "", page, flags=re.DOTALL)  # charts have names as data
    assert name not in body
    assert body.count("&lt;i&gt;a&lt;/i&gt;") > 6


def test_of_many_notices_the_first_are_shown_and_none_is_lost() -> None:
    compared = duel({BULK: 1.0})
    notices = (*(Notice(f"warned of {n}") for n in range(9)), Notice("forbidden", unusable=True))
    page = comparison_page(replace(compared, pairs=(replace(compared.pairs[0], notices=notices),)))
    shown, _, folded = page[page.index("What to know") : page.index("Everything else")].partition("<details>")
    assert re.findall('<li class="bad">(.*?)<', shown) == ["forbidden"]
    assert (shown.count("<li"), folded.count("<li")) == (4, 6)
    assert "<summary>6 more</summary>" in folded


def test_names_too_long_for_a_phone_lose_their_middle() -> None:
    assert shortened("get-by-id", 9) == "get-by-id"
    assert shortened("nested-date-histogram", 9) == "nest…gram"


@pytest.mark.parametrize(("names", "lines"), [("ab", 1), (["replicas-0", "replicas-1"], 1), (["x" * 60, "y"], 2)])
def test_a_legend_has_as_many_lines_as_a_phone_needs(names: list[str], lines: int) -> None:
    records = sides({BULK: 1.0})[0].records
    drawn = rounds([Raced(n, name, records, (1.0,) * 6, None) for n, name in enumerate(names)], "p99 latency", "ms")
    legend: Any = drawn.legend[0]
    assert (legend.ncols == 1) == (lines == 2)
    assert drawn.height is not None and drawn.height - HEIGHT == 26 * (lines - 1)
    assert all(len(item.label.value) < 38 for item in legend.items)


def test_a_race_that_is_on_both_sides_has_one_place() -> None:
    baseline, contender = sides({BULK: 1.0}, rounds=2)
    shared = (baseline.records[0], *contender.records)
    raced = [Raced(0, "a", baseline.records, (1.0, 1.1), None), Raced(1, "b", shared, (1.0, 1.2, 1.3), None)]
    drawn: Any = rounds(raced, "p99 latency", "ms")
    places = {tuple(each.data_source.data["place"]) for each in drawn.renderers}
    assert places == {(1, 4), (1, 2, 3)}
    assert drawn.xaxis[0].ticker.ticks == [1, 2, 3, 4]


@pytest.mark.parametrize(("warm", "start_s", "grey"), [(True, 0.0, False), (True, 0.1, False), (False, 0.0, True)])
def test_only_a_warmup_is_grey_among_the_slices(warm: bool, start_s: float, grey: bool) -> None:
    """The window of a bulk begins with its first measured reply: that is no warmup."""
    drawn = Drawn()
    level = flat() if warm else lambda second: 1 - 0.6 * math.exp(-second / 2)
    window = {"changes": {"window": Window(start_s, LENGTH_S)}}
    ours, theirs = drawn.side("baseline", [flat()] * 6, **window), drawn.side("contender", [level] * 6, **window)
    page = comparison_page(compare(ours, [theirs], CompareOptions(seconds=drawn.read)), drawn.read)
    assert "Throughput, slice by slice" in page
    assert ("Grey: warmup" in page) == grey


def test_sides_raced_at_once_have_the_change_of_each_round() -> None:
    drawn = Drawn()
    ours, theirs = drawn.side("baseline", levels()), drawn.side("contender", levels(1.2, noise=(0.0,)))
    page = comparison_page(compare(ours, [theirs], CompareOptions(seconds=drawn.read)), drawn.read)
    assert "Mean throughput, change of each round" in page
    drawn.seconds["contender-2"] = []
    page = comparison_page(compare(ours, [theirs], CompareOptions(seconds=drawn.read)), drawn.read)
    assert "change of each round" not in page


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


def test_the_scale_of_percentiles_has_names_enough_for_few_and_for_many_samples() -> None:
    few, many = (curves_chart([("one", BLUE, [(1, 3.0), (samples, 8.0)])]) for samples in (4.0, 2000.0))
    assert list(few.xaxis[0].major_label_overrides.values()) == ["p50", "p75"]
    assert list(many.xaxis[0].major_label_overrides.values()) == ["p50", "p90", "p99", "p99.9"]
    most = curves_chart([("one", BLUE, [(1, 3.0), (3e8, 8.0)])])
    assert most.x_range.end == 1.3 * 3e8
    assert list(most.xaxis[0].major_label_overrides.values())[-1] == "p99.999"


def test_the_command_writes_the_page_and_prints_as_ever(
    esbench_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keep(esbench_home, golden_race(race_id="one"))
    keep(esbench_home, golden_race(race_id="other"))
    file = tmp_path / "comparison.html"
    (tmp_path / "no").touch()
    assert run(["compare", "--baseline=one", "--contender=other", f"--html={file}"]) == 0
    assert "esbench compare one other --all" in capsys.readouterr().out
    assert file.read_text().startswith("<!DOCTYPE html>")


def test_a_page_that_cannot_be_written_is_one_clear_line(
    esbench_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no").touch()
    assert run(["compare", "--baseline=one", "--contender=other", f"--html={tmp_path / 'no' / 'x.html'}"]) == 2
    assert "cannot be written: " in capsys.readouterr().err
