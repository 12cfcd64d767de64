"""The summary for the screen: a line for each task, target rates and thresholds; tables as wide as the terminal."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from races import golden_race, task_of, with_task

from esbench.record.model import RaceRecord, Throughput
from esbench.report.race_summary import short_summary, summary
from esbench.report.render import render
from esbench.report.table_model import ColumnOf, ReportDocument, table_of
from esbench.report.task_tables import servers, sweeps, targets, task_lines
from esbench.report.text import shortened

LONGEST_OF_ORDERS = "get-by-id-at-1000-per-s"


def lines(record: RaceRecord) -> dict[str, list[str]]:
    """The lines of the tasks in the short text, without the tasks' names, by name."""
    table = render(ReportDocument(task_lines(record)), "text").splitlines()[2:]
    return {line.split()[0]: line.split()[1:] for line in table}


def test_a_line_has_throughput_percentiles_of_what_is_judged_and_errors() -> None:
    found = lines(golden_race())
    assert found["get-by-id"] == ["5199", "ops", "service", "1.400", "4.100", "9.800", "31.25", "0.019"]
    assert found["get-by-id-open"][2:5] == ["latency", "1.700", "31.00"]
    assert "create-index" not in found


def test_percentiles_without_enough_samples_and_throughput_of_nothing_are_dashes() -> None:
    found = lines(golden_race())
    assert found["bulk"] == ["20000", "docs", "service", "191.0", "388.0", "-", "412.5", "0"]
    assert found["force-merge"] == ["-", "service", "-", "-", "-", "-", "100.0"]
    stopped = with_task(golden_race(), "bulk", throughput=Throughput("docs", 0.0), error_rate_ratio=None)
    assert lines(stopped)["bulk"][:2] == ["0", "docs"]
    assert lines(stopped)["bulk"][-1] == "-"


def test_percentiles_among_timeouts_are_above_what_is_known() -> None:
    times = {"p50": 1.0, "p99": inf, "p99_at_least": 1000.4, "max": inf, "max_at_least": 1003.0}
    record = with_task(golden_race(), "get-by-id-open", latency_ms=times)
    assert lines(record)["get-by-id-open"][3:9] == ["1.000", ">", "1000", "-", ">", "1003"]


def test_a_task_that_must_not_be_used_is_marked() -> None:
    marked = {name for name, cells in lines(golden_race()).items() if cells[-1] == "!"}
    assert marked == {"get-by-id-open"}


def test_target_rates_and_all_thresholds_that_were_asked_for_are_there() -> None:
    everywhere = {"3": 100.0, "5": 100.0}
    record = with_task(golden_race(), "get-by-id", within_ms=everywhere)
    (section,) = targets(record)
    assert section.title == "Target rate per second, and percent of requests within so many ms"
    assert [column.title for column in section.table.columns] == ["Task", "Target", "3", "5", "50"]
    assert section.table.rows == (
        ("get-by-id", None, 100.0, 100.0, None),
        ("get-by-id-open", 1000, 90.02, None, 99.1),
    )


def test_a_target_in_another_unit_than_the_throughput_says_so() -> None:
    record = with_task(golden_race(), "get-by-id-open", target_unit="requests", within_ms={})
    (section,) = targets(with_task(record, "get-by-id", within_ms={}))
    assert section.title == "Target rate per second"
    assert section.table.rows == (("get-by-id-open", "1000 requests"),)


def test_a_race_without_targets_and_thresholds_and_tasks_of_sweeps_have_no_such_table() -> None:
    record = golden_race()
    assert targets(replace(record, tasks=(task_of(record, "bulk"),))) == ()
    task = task_of(record, "get-by-id-open")
    swept = [replace(task, name=f"at-{rate}", step=rate, target_rate_per_s=float(rate)) for rate in (1, 2)]
    record = replace(record, tasks=tuple(swept))
    assert len(sweeps(record)) == 1
    assert targets(record) == ()
    assert list(lines(record)) == ["at-1", "at-2"]


def test_it_leads_to_all_figures_and_has_the_notices() -> None:
    text = render(short_summary(golden_race()), "text")
    assert "! get-by-id-open: 4 requests that were due were never sent" in text
    assert text.splitlines()[-1].startswith("note: esbench show 20261121t101530-4f2a --all prints")
    assert "Store size" not in text
    assert "Store size" in render(summary(golden_race()), "text")


def test_numbers_that_runners_returned_are_there_though_their_task_is_hidden() -> None:
    returned = {"avg_recall": {"mean": 0.9, "min": 0.8, "max": 1.0}}
    text = render(short_summary(with_task(golden_race(), "create-index", returned=returned)), "text")
    assert "Returned by the tasks\n" in text
    assert ["avg_recall", "create-index", "0.900"] in [line.split() for line in text.splitlines()]
    assert "Returned by" not in render(short_summary(golden_race()), "text")


def test_the_tables_of_usual_names_are_as_narrow_as_a_terminal() -> None:
    nodes = {
        "nodes": 1,
        "cpu_core_percent": {"mean": 199.9, "peak": 200.0},
        "load_1m": {"last": 12.5},
        "heap_used_percent": {"mean": 66.66, "peak": 90},
        "gc_time_ms": 12345,
        "rejections": 12345,
    }
    cluster = {"refresh_count": 12345, "merge_count": 1234}
    times = {"p50": 1999.0, "p99": 211.9, "p99.9": 213.1, "max": 59999.0}
    task = task_of(golden_race(), "get-by-id-open")
    telemetry = {"nodes": nodes, "cluster": cluster}
    task = replace(task, name=LONGEST_OF_ORDERS, latency_ms=times, telemetry=telemetry)
    task = replace(task, throughput=Throughput("docs", 16125.0), target_unit="docs", error_rate_ratio=0.125)
    task = replace(task, within_ms=dict.fromkeys(("3", "5", "10", "30", "50", "100", "300"), 99.99))
    record = replace(golden_race(), tasks=(task,))
    (section,) = servers(record, every_figure=False)
    titles = [column.title for column in section.table.columns]
    assert titles == ["Task", "CPU %", "Heap %", "GC ms", "Refreshes", "Merges", "Rejections"]
    tables = replace(short_summary(record), header=None, notices=(), lead="")
    assert max(map(len, render(tables, "text").splitlines())) <= 80


def test_names_are_cut_where_a_table_is_wider_than_its_terminal() -> None:
    names = [f"percolator_{how}_with_content_{text}" for how in ("all", "no_score") for text in ("google", "ignore_me")]
    columns = (
        ColumnOf[str]("Task", "task", cuttable=True, read=lambda name: name),
        ColumnOf[str]("Note", "note", read=lambda _: "x" * 20),
    )
    document = ReportDocument(table_of(columns, names))
    whole, cut = (render(document, "text", columns=width).splitlines() for width in (None, 50))
    assert names[0] in whole[2]
    assert max(map(len, cut)) == 50
    assert len(set(cut)) == len(cut)
    assert names[0] in render(document, "markdown", columns=50)


@pytest.mark.parametrize(
    ("texts", "width", "expected"),
    [
        ((), 16, []),
        (("short", "short"), 5, ["short", "short"]),
        (("a-long-name-of-a-task",), 12, ["a-lon...task"]),
        (("get-at-1000-per-s", "get-at-5000-per-s"), 14, ["get-at-1...r-s", "get-at-5...r-s"]),
        (("abc1xyz", "abc2xyz"), 6, ["abc1xyz", "abc2xyz"]),
    ],
)
def test_shortened_texts_still_differ(texts: tuple[str, ...], width: int, expected: list[str]) -> None:
    assert shortened(texts, width) == expected
