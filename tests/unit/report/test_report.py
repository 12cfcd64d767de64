"""The summary, the comparison and the list of races in text, Markdown, CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from races import compared, golden_race, task_of, with_task

from esbench.comparison.compare import compare
from esbench.comparison.model import CompareOptions, Comparison, Side
from esbench.errors import UsageError
from esbench.record.figures import Notice, failed_checks, figures, notices
from esbench.record.model import (
    Check,
    CheckKind,
    CorpusFacts,
    ErrorKind,
    HostEvent,
    NamedRequest,
    RaceRecord,
    Session,
    Throughput,
)
from esbench.record.store import DamagedRace, RaceEntry
from esbench.report.comparison import comparison
from esbench.report.lists import race_list
from esbench.report.race_summary import short_summary, summary
from esbench.report.render import COMPARISON_FORMATS, FORMATS, names, render
from esbench.report.table_model import Above, Column, Interval, ReportDocument, Section, Table
from esbench.report.text import cell_text

RED, GREEN = "\x1b[31m", "\x1b[32m"


def metrics(record: RaceRecord, task: str) -> list[str]:
    return [figure.metric for figure in figures(record) if figure.task == task]


def texts(record: RaceRecord) -> list[str]:
    return [notice.text for notice in notices(record)]


def test_the_clusters_statistics_come_first_in_their_own_order() -> None:
    found = [(figure.metric, figure.value, figure.unit) for figure in figures(golden_race())[:3]]
    assert found == [
        ("Cumulative indexing time of primary shards", 18250, "ms"),
        ("Cumulative merge count of primary shards", 3, ""),
        ("Store size", 40.0, "MB"),
    ]


def test_statistics_that_are_for_the_record_only_have_no_row() -> None:
    record = golden_race()
    cluster = record.clusters["default"]
    counted = {"label": "Get count of all shard copies", "value": 7, "unit": "", "row": False}
    more = replace(cluster, statistics={**cluster.statistics, "get_count": counted})
    assert figures(replace(record, clusters={"default": more})) == figures(record)


def test_a_closed_loop_has_no_latency() -> None:
    assert metrics(golden_race(), "bulk") == [
        "Min throughput",
        "Mean throughput",
        "Median throughput",
        "Max throughput",
        "p50 service time",
        "p90 service time",
        "p99 service time",
        "max service time",
        "error rate",
        *("bytes sent", "bytes sent per request", "bytes received", "bytes received per request"),
        "status 200",
    ]


def test_an_open_loop_shows_its_target_its_latency_and_the_drivers_lag() -> None:
    found = metrics(golden_race(), "get-by-id-open")
    assert found[0] == "Target rate"
    assert found.index("p50 latency") < found.index("p50 service time") < found.index("p50 driver lag")
    assert "latency within 50 ms" in found
    assert "unsent requests" in found


def test_the_halves_of_a_sequence_have_rows_of_their_own() -> None:
    assert "p50 service time" in metrics(golden_race(), "read-after-write/get")
    assert "p50 service time" in metrics(golden_race(), "read-after-write/index")


def test_the_only_class_of_results_does_not_repeat_the_task() -> None:
    created = NamedRequest("created", 400, 0, {"p50": 191.0})
    record = with_task(golden_race(), "bulk", requests_by_name=(created,))
    assert metrics(record, "bulk/created") == []
    updated = NamedRequest("updated", 1, 0, {"p50": 9.0})
    record = with_task(golden_race(), "bulk", requests_by_name=(replace(created, requests=399), updated))
    assert metrics(record, "bulk/created") == ["requests", "p50 service time", "error rate"]


def test_refreshes_of_a_task_have_a_row_where_there_were_any() -> None:
    record = with_task(golden_race(), "bulk", telemetry={"cluster": {"refresh_count": 12, "merge_count": 3}})
    assert metrics(record, "bulk")[-1] == "refresh count"
    record = with_task(golden_race(), "bulk", telemetry={"cluster": {"refresh_count": 0}})
    assert "refresh count" not in metrics(record, "bulk")


def test_what_a_runner_returned_has_rows_though_its_task_is_hidden() -> None:
    returned = {"avg_recall": {"mean": 0.9, "min": 0.8, "max": 1.0}, "k": {"mean": 10.0, "min": 10.0, "max": 10.0}}
    record = with_task(golden_race(), "create-index", returned=returned)
    shown = [(figure.metric, figure.value, figure.unit) for figure in figures(record) if figure.task == "create-index"]
    assert shown == [("avg_recall", 0.9, ""), ("k", 10, "")]
    assert isinstance(shown[1][1], int)


def test_an_administrative_task_is_hidden_unless_it_failed() -> None:
    record = golden_race()
    assert metrics(record, "create-index") == []
    assert metrics(record, "force-merge") == ["error rate"]
    shown = with_task(record, "create-index", errors=1, error_rate_ratio=1.0)
    assert metrics(shown, "create-index") == ["error rate", "status 200"]


def test_bytes_are_shown_at_the_rate_of_the_throughput_and_per_request_and_replies_by_status() -> None:
    shown = {figure.metric: (figure.value, figure.unit) for figure in figures(golden_race()) if figure.task == "bulk"}
    assert shown["bytes sent"] == (10, "MB/s")
    assert shown["bytes sent per request"] == (262_144, "bytes")
    assert shown["bytes received per request"] == (20_000, "bytes")
    statuses = [figure for figure in figures(golden_race()) if figure.metric.startswith("status")]
    assert [(each.metric, each.value) for each in statuses if each.task == "get-by-id"] == [
        ("status 200", 51_990),
        ("status 404", 10),
    ]


def test_older_records_have_no_rows_of_bytes_and_statuses() -> None:
    record = with_task(golden_race(), "bulk", bytes_sent=None, bytes_received=None, status_codes=None)
    assert not [metric for metric in metrics(record, "bulk") if "bytes" in metric or "status" in metric]


def test_tasks_of_several_clusters_say_which() -> None:
    facts = golden_race().clusters["default"]
    record = golden_race(clusters={"default": facts, "remote": facts})
    assert {figure.task for figure in figures(record) if figure.metric == "Store size"} == {"default", "remote"}
    assert "p50 service time" in metrics(record, "bulk [default]")


def test_what_was_not_measured_has_no_row_and_says_so() -> None:
    record = with_task(golden_race(), "bulk", throughput=Throughput("docs", None))
    assert not [metric for metric in metrics(record, "bulk") if "throughput" in metric]
    assert "bulk: nothing was completed in its measurement window, so it has no throughput" in texts(record)


def test_checks_and_errors_become_notices_with_their_remedy_and_an_example() -> None:
    checks = (Check("a", "ok", "fine"), Check("b", "warning", "hm", "do x"), Check("c", "unusable", "bad"))
    kinds = {"503": ErrorKind(7, "busy\n  now")}
    record = golden_race(tasks=(replace(task_of(golden_race(), "bulk"), checks=checks, error_kinds=kinds),))
    assert notices(record) == (
        Notice("bulk: hm (do x)"),
        Notice("bulk: bad", unusable=True),
        Notice("bulk: 7 x 503, the first: busy now"),
    )


def test_what_failed_the_race_is_said_once() -> None:
    check = CheckKind.ERRORS.warning("1 of 1 requests failed, most with HTTP 400: unknown query [mtach]", "see it")
    task = replace(task_of(golden_race(), "bulk"), checks=(check,), error_kinds={})
    failure = 'task "bulk": HTTP 400 for GET /_search: unknown query [mtach]'
    failed, noted = notices(golden_race(tasks=(task,), status="failed", failure=failure, warnings=(), corpora=()))
    assert failed.text == f"the race failed: {failure}"
    assert noted.text == "bulk: 1 of 1 requests failed, most with HTTP 400 (see it)"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"status": "failed", "failure": "the node died"}, "the race failed: the node died"),
        ({"status": "cancelled"}, "the race is not complete (cancelled)"),
        ({"test_mode": True}, "test mode"),
        (
            {"corpora": (CorpusFacts("a", "x", 2000, synthetic=True),)},
            "synthetic documents, not the track's own: a (2,000)",
        ),
        (
            {"corpora": (CorpusFacts("a", "x", 2000, streamed=True),)},
            "unpacked while they were sent: a: that took CPU of this host",
        ),
        ({"warnings": ("another race ran",)}, "another race ran"),
    ],
)
def test_a_race_that_was_not_as_it_should_be_says_so_first(changes: dict[str, Any], text: str) -> None:
    assert texts(golden_race(**changes))[0].startswith(text)


def test_a_percentile_among_unsent_requests_is_printed_as_above_the_longest() -> None:
    lines = render(summary(golden_race()), "text").splitlines()
    assert [line.split()[-4:] for line in lines if line.startswith("p99.99 latency")] == [[">", "812.5", "ms", "!"]]


def test_figures_among_requests_that_timed_out_are_above_what_is_known_of_them() -> None:
    times = {
        "mean": 1.2,
        "min": 0.4,
        "p50": 1.1,
        "p99": inf,
        "p99_at_least": 1000.4,
        "max": inf,
        "max_at_least": 1003.0,
    }
    record = with_task(golden_race(), "get-by-id-open", latency_ms=times)
    lines = [line.split() for line in render(summary(record), "text").splitlines() if "get-by-id-open" in line]
    found = {" ".join(line[:2]): line[3:-2] for line in lines if line[1] == "latency"}
    assert found == {"p50 latency": ["1.100"], "p99 latency": [">", "1000"], "max latency": [">", "1003"]}


def test_a_percentile_among_unsent_requests_is_above_the_longest_in_every_format() -> None:
    markdown, text = (render(summary(golden_race()), form) for form in ("markdown", "csv"))
    (line,) = [line for line in markdown.splitlines() if "p99.99 latency" in line]
    assert line.split("|")[3].strip() == "> 812.5"
    assert "inf" not in markdown + text
    row = {"metric": "p99.99 latency", "task": "get-by-id-open", "value": "> 812.5", "unit": "ms", "unusable": True}
    assert row in json.loads(render(summary(golden_race()), "json"))["rows"]
    rows = list(csv.DictReader(io.StringIO(text)))
    assert {**row, "unusable": "True"} in rows


def test_the_figures_of_a_task_that_must_not_be_used_are_marked() -> None:
    found = {figure.task for figure in figures(golden_race()) if not figure.usable}
    assert found == {"get-by-id-open"}
    for form in ("text", "markdown"):
        lines = render(summary(golden_race()), form).split("\n\n")[1].splitlines()
        assert all(line.rstrip("| ").endswith("!") == ("get-by-id-open" in line) for line in lines[2:])


def test_a_race_whose_figures_may_all_be_used_has_no_column_of_marks() -> None:
    record = with_task(golden_race(), "get-by-id-open", checks=())
    assert render(summary(record), "text").split("\n\n")[1].splitlines()[0].split() == [
        *("Metric", "Task", "Value", "Unit")
    ]
    assert render(summary(record), "markdown").split("\n\n")[1].splitlines()[0].count("|") == 5
    assert render(summary(record), "csv").startswith("metric,task,value,unit,unusable\n")


def test_a_row_of_a_comparison_is_marked_when_one_side_must_not_be_used() -> None:
    fine = with_task(golden_race(race_id="fine"), "get-by-id-open", checks=())
    for sides in ((golden_race(), fine), (fine, golden_race())):
        rows = json.loads(render(comparison(two_races(*sides)), "json"))["rows"]
        assert {row["task"] for row in rows if row["unusable"]} == {"get-by-id-open"}
    assert not any(row["unusable"] for row in json.loads(render(comparison(two_races(fine, fine)), "json"))["rows"])


def test_the_text_of_a_race_has_its_facts_its_table_and_its_notices() -> None:
    text = render(summary(golden_race()), "text")
    header, table, footer = text.split("\n\n")
    assert header.splitlines()[0].split() == ["Race", "ID", "20261121t101530-4f2a"]
    assert "Parameters  number_of_shards:24,secret_token:<hidden>" in header
    assert "Took        1 min 36 s" in header
    assert table.splitlines()[0].split() == ["Metric", "Task", "Value", "Unit"]
    assert "! get-by-id-open: 4 requests that were due were never sent" in footer
    assert "warning: get-by-id: 10 x 404" in footer


def test_markdown_is_tables_and_a_list_and_keeps_pipes_out_of_the_cells() -> None:
    table = Table((Column("A", "a"),), (("x|y",),))
    lines = render(ReportDocument(table, notices=(Notice("n"),)), "markdown").splitlines()
    assert lines[0].split() == ["|", "A", "|"]
    assert lines[2] == "| x\\|y |"
    assert lines[-1] == "- warning: n"


def test_markdown_shows_text_that_could_be_html_or_end_a_cell() -> None:
    text, shown = "a|<b>&lt;\n\nc", "a\\|&lt;b>&amp;lt;  c"
    table = Table((Column(text, "a"),), ((text,),))
    document = ReportDocument(table, table, (Notice(text),), line=text, sections=(Section(text, table),))
    lines = render(document, "markdown").splitlines()
    cells = [line for line in lines if line.startswith("| ")]
    assert len(cells) == 6
    assert {line.strip("| ") for line in cells} == {shown}
    assert [line for line in lines if "c" in line and line not in cells] == [shown, shown, f"- warning: {shown}"]


def test_csv_has_one_line_of_keys_and_every_digit() -> None:
    rows = list(csv.DictReader(io.StringIO(render(summary(golden_race()), "csv"))))
    assert list(rows[0]) == ["metric", "task", "value", "unit", "unusable"]
    error_rate = next(row for row in rows if row["metric"] == "error rate" and row["task"] == "get-by-id")
    assert float(error_rate["value"]) == 100 * task_of(golden_race(), "get-by-id").error_rate_ratio


def test_json_has_facts_rows_and_warnings() -> None:
    document = json.loads(render(summary(golden_race()), "json"))
    assert document["facts"]["Race ID"] == "20261121t101530-4f2a"
    assert document["facts"]["Parameters"] == {"number_of_shards": 24, "secret_token": "<hidden>"}
    p50 = {"metric": "p50 service time", "task": "get-by-id", "value": 1.4, "unit": "ms", "unusable": False}
    assert p50 in document["rows"]
    assert [warning["unusable"] for warning in document["warnings"]].count(True) == 1


def test_an_unknown_format_is_refused() -> None:
    with pytest.raises(UsageError, match='did you mean "json"'):
        render(summary(golden_race()), "jsn")
    with pytest.raises(UsageError, match='did you mean "junit"'):
        render(summary(golden_race()), "junitt")


def test_a_name_and_a_suffix_mean_one_format() -> None:
    suffixes = [suffix for each in COMPARISON_FORMATS for suffix in each.suffixes]
    assert len(set(suffixes)) == len(suffixes)
    assert len(set(names(COMPARISON_FORMATS))) == len(COMPARISON_FORMATS)


@pytest.mark.parametrize("form", ["text", "markdown"])
def test_the_line_above_a_table_stands_without_rows_too(form: str) -> None:
    assert render(ReportDocument(Table((), ()), line="0 primary rows"), form) == "0 primary rows\n"


@pytest.mark.parametrize("form", names(FORMATS))
def test_an_empty_list_is_valid_in_every_format(form: str) -> None:
    text = render(race_list([], []), form)
    if form == "json":
        assert json.loads(text) == []
    if form == "csv":
        assert text == "race_id,started,status,track,challenge,version,parameters,session,tags\n"


@pytest.mark.parametrize(
    ("cell", "column", "text"),
    [
        (None, Column("", ""), "-"),
        (0, Column("", ""), "0"),
        (0.0, Column("", "", signed=True), "0"),
        (2.5, Column("", "", signed=True), "+2.500"),
        (-2.5, Column("", "", signed=True), "-2.500"),
        (9.04, Column("", "", signed=True, percent=True), "+9.0%"),
        (True, Column("", ""), "yes"),
        (Above(812.5), Column("", ""), "> 812.5"),
        (Interval(-1.25, 4.0), Column("", ""), "[-1.2, +4.0]"),
        (Interval(-100.0, 14152025.1), Column("", ""), "[-100.0, > +10000]"),
        ({"a": 1, "rates": [1, 2], "b": True}, Column("", ""), "a:1,rates:1/2,b:true"),
        (("x", "y"), Column("", ""), "x, y"),
    ],
)
def test_a_cell_reads_as_people_write_it(cell: Any, column: Column, text: str) -> None:
    assert cell_text(cell, column) == text


def two_races(baseline: RaceRecord, contender: RaceRecord) -> Comparison:
    return Comparison((compared(baseline, contender),))


def line_of(text: str, metric: str) -> str:
    return next(line for line in text.splitlines() if line.startswith(metric) and " bulk " in line)


def test_a_comparison_has_rallys_columns_and_what_differs_above() -> None:
    other = golden_race(race_id="contender", track_params={"number_of_shards": 5, "secret_token": "<hidden>"})
    _, header, table, footer = render(comparison(two_races(golden_race(), other)), "text").split("\n\n")
    assert header.splitlines()[-1].split() == ["param", "number_of_shards", "24", "5"]
    titles = ["Metric", "Task", "Baseline", "Contender", "Diff", "Unit", "Diff", "%", "95%", "CI", "Verdict"]
    assert table.splitlines()[1].split() == titles
    assert "A/A" not in footer


def test_of_lists_that_differ_only_what_differs_is_shown() -> None:
    facts = golden_race().clusters["default"]
    plain, other = (
        replace(facts, nodes=(replace(facts.nodes[0], jvm_flags=("-Xms512m", *flags)),))
        for flags in ((), ("-XX:+UseZGC",))
    )
    races = (golden_race(clusters={"default": plain}), golden_race(race_id="contender", clusters={"default": other}))
    text = render(comparison(two_races(*races)), "text")
    assert next(line for line in text.splitlines() if "jvm flags" in line).split() == [
        "node",
        "jvm",
        "flags",
        "-",
        "-XX:+UseZGC",
    ]


def test_identical_races_are_labelled_a_a() -> None:
    assert "A/A: nothing but chance" in render(
        comparison(two_races(golden_race(), golden_race(race_id="contender"))), "text"
    )


def test_a_difference_of_two_single_races_is_not_coloured() -> None:
    other = with_task(golden_race(race_id="contender"), "bulk", throughput=Throughput("docs", 1.0))
    assert "\x1b" not in render(comparison(two_races(golden_race(), other)), "text", colour=True)


def rounds(side: str, docs_per_s: list[float], places: list[int]) -> Side:
    """A side of a session whose races took turns with the other side's."""
    races = [
        with_task(
            golden_race(race_id=f"{side}-{place}", session=Session("s", "duel", side, number, number, place)),
            "bulk",
            throughput=Throughput("docs", value),
        )
        for number, (value, place) in enumerate(zip(docs_per_s, places, strict=True), 1)
    ]
    return Side(side, tuple(races), "s")


def text_of_rounds(*contender: float) -> str:
    baseline = rounds("baseline", [20000, 20100, 19900, 20050], [1, 4, 6, 7])
    compared = compare(baseline, [rounds("contender", list(contender), [2, 3, 5, 8])])
    return render(comparison(compared), "text", colour=True)


def test_the_verdicts_of_rounds_are_green_and_red() -> None:
    faster, slower = text_of_rounds(24000, 24100, 23900, 24050), text_of_rounds(16000, 16100, 15900, 16050)
    assert f"{GREEN}+20.0%\x1b[0m" in line_of(faster, "Mean throughput")
    assert f"{GREEN}faster\x1b[0m" in line_of(faster, "Mean throughput")
    assert f"{RED}slower\x1b[0m" in line_of(slower, "Mean throughput")
    assert "p<0.001" in line_of(slower, "Mean throughput")


def test_a_line_says_what_the_verdicts_of_rounds_stand_on() -> None:
    text = text_of_rounds(20000, 20100, 19900, 20050)
    line = next(line for line in text.splitlines() if line.startswith("baseline 4 rounds"))
    assert line.startswith("baseline 4 rounds   contender 4 rounds   in turns   ")
    assert line.endswith("3 of 8 rows could be judged")
    titles = ["Metric", "Task", "Baseline", "Contender", "Diff", "Unit", "Diff", "%", "95%", "CI", "Verdict"]
    assert text.splitlines()[text.splitlines().index(line) + 1].split() == titles
    assert "  same" in line_of(text, "Mean throughput")
    assert "\x1b" not in text


def test_rounds_show_what_is_judged_and_every_figure_when_asked() -> None:
    baseline = rounds("baseline", [20000, 20100], [1, 4])
    compared = compare(baseline, [rounds("contender", [20000, 20100], [2, 3])])
    judged, every = (
        json.loads(render(comparison(compared, every_figure=choice), "json"))["rows"] for choice in (None, True)
    )
    assert all(row["primary"] or row["interval_percent"] for row in judged)
    assert len(every) > len(judged)
    assert {"error rate", "Median throughput"} <= {row["metric"] for row in every}


def test_the_json_of_a_comparison_has_rounds_intervals_and_an_overview() -> None:
    baseline = rounds("baseline", [20000, 20100], [1, 4])
    found = json.loads(render(comparison(compare(baseline, [rounds("contender", [22000, 22100], [2, 3])])), "json"))
    row = next(row for row in found["rows"] if (row["metric"], row["task"]) == ("Mean throughput", "bulk"))
    assert row["baseline_rounds"] == [20000, 20100]
    low, high = row["interval_percent"]
    assert low < row["diff_percent"] < high
    assert row["method"] == "interleaved"
    assert found["overview"]["baseline"]["races"] == ["baseline-1", "baseline-4"]
    assert found["overview"]["contenders"][0]["interleaved"] is True


def test_several_contenders_have_a_column_that_names_them() -> None:
    baseline = rounds("baseline", [20000, 20100], [1, 6])
    others = [rounds("two", [22000, 22100], [2, 5]), rounds("three", [24000, 24100], [3, 4])]
    text = render(comparison(compare(baseline, others)), "text")
    assert "baseline 2 rounds   two 2 rounds   three 2 rounds   in turns" in text
    lines = [line for line in text.splitlines() if "Mean throughput" in line and " bulk " in line]
    assert [line.split()[0] for line in lines] == ["two", "three"]


def test_p_values_are_multiplied_by_the_looks() -> None:
    sides = rounds("baseline", [20000, 20300, 19700, 20050], [1, 4, 6, 7])
    contender = rounds("contender", [22000, 23100, 22900, 22050], [2, 3, 5, 8])
    once, thrice = (
        next(row for row in compare(sides, [contender], CompareOptions(looks=looks)).pairs[0].rows if row.is_primary)
        for looks in (1, 3)
    )
    assert once.verdict is not None and thrice.verdict is not None
    assert once.verdict.p is not None
    assert thrice.verdict.p == pytest.approx(3 * once.verdict.p)


@pytest.mark.parametrize("form", ["markdown", "csv", "json"])
def test_only_text_is_coloured(form: str) -> None:
    other = with_task(golden_race(race_id="contender"), "bulk", throughput=Throughput("docs", 1.0))
    assert "\x1b" not in render(comparison(two_races(golden_race(), other)), form, colour=True)


def test_a_zero_baseline_prints_a_dash() -> None:
    other = with_task(golden_race(race_id="contender"), "bulk", error_rate_ratio=0.05)
    line = line_of(render(comparison(two_races(golden_race(), other)), "text"), "error rate")
    assert line.split() == ["error", "rate", "bulk", "0", "5.000", "+5.000", "%", "-", "-"]


def entry(**changes: Any) -> RaceEntry:
    record = golden_race()
    entry = RaceEntry("a", "complete", "2026-11-21T10:15:30.9+00:00", record.track, "default", 1)
    return replace(entry, **changes)


def test_the_list_of_races_names_damaged_ones_below() -> None:
    document = race_list([entry()], [DamagedRace("bad", "x/race.json: truncated", "")])
    assert document.notices == (Notice("race bad is left out: x/race.json: truncated"),)
    assert document.table.rows[0][:5] == ("a", "2026-11-21T10:15:30Z", "complete", "orders", "default")


def test_a_race_of_a_session_says_its_place() -> None:
    document = race_list([entry(session=Session("s1", "duel", "baseline", 2))], [])
    assert document.table.rows[0][7] == "s1 baseline round 2"


def test_what_the_host_did_to_several_tasks_is_said_once_with_its_worst_figure() -> None:
    def delayed(share: float) -> Check:
        return Check("run-delay", "warning", f"waited {share:.0%} of the time", "use its own cores", share)

    record = with_task(golden_race(), "bulk", checks=(delayed(0.07),))
    record = with_task(record, "get-by-id-open", checks=(delayed(0.4),))
    texts = [notice.text for notice in notices(record) if "waited" in notice.text]
    assert texts == ["bulk, get-by-id-open: waited 40% of the time (use its own cores)"]


def everywhere(names: tuple[str, ...], tasks: int) -> RaceRecord:
    """So many reported tasks that all have these checks."""
    bulk = task_of(golden_race(), "bulk")
    checks = [tuple(Check(name, "warning", f"{name} {n}", "mend it", n) for name in names) for n in range(tasks)]
    return golden_race(tasks=tuple(replace(bulk, name=f"task-{n}", checks=checks[n]) for n in range(tasks)))


@pytest.mark.parametrize("name", ["driver-busy", "run-delay", "steal", "loop-lag"])
def test_what_the_host_did_to_many_tasks_is_one_readable_line(name: str) -> None:
    assert texts(everywhere((name,), 13)) == [f"task-0, task-1, task-2 and 10 more: {name} 12 (mend it)"]
    assert texts(everywhere((name,), 4)) == [f"task-0, task-1, task-2, task-3: {name} 3 (mend it)"]


def test_what_the_host_did_to_a_task_that_is_not_shown_is_not_told() -> None:
    late = Check("run-delay", "warning", "late", "mend it", 0.9)
    record = with_task(golden_race(), "create-index", checks=(late,))
    assert not [text for text in texts(record) if "late" in text]
    assert "run-delay" not in failed_checks(record)
    record = with_task(record, "create-index", checks=(late,), errors=1)  # shown, since it failed
    assert "create-index: late (mend it)" in texts(record)


def test_the_only_kind_of_errors_is_told_once() -> None:
    check = Check("errors", "warning", "7 of 9 requests failed, most with 503: busy", "look", 7 / 9)
    one, two = {"503": ErrorKind(7, "busy")}, {"503": ErrorKind(7, "busy"), "429": ErrorKind(1, "full")}
    record = golden_race(tasks=(replace(task_of(golden_race(), "bulk"), checks=(check,), error_kinds=one),))
    assert texts(record) == ["bulk: 7 of 9 requests failed, most with 503: busy (look)"]
    record = with_task(record, "bulk", error_kinds=two)
    assert texts(record)[1:] == ["bulk: 7 x 503, the first: busy", "bulk: 1 x 429, the first: full"]


# --strict


def test_failed_checks_are_named_with_their_tasks() -> None:
    assert failed_checks(golden_race()) == "backlog (get-by-id-open), driver-share (get-by-id)"  # and no "ok" one
    assert failed_checks(with_task(everywhere(("run-delay",), 13), "task-5", checks=())) == (
        "run-delay (task-0, task-1, task-2 and 9 more)"
    )


def test_a_race_without_failed_checks_has_none_to_name() -> None:
    fine = (Check("driver-lag", "ok", "driver lag p99 0.18 ms"),)
    bulk = replace(task_of(golden_race(), "bulk"), checks=fine)
    assert failed_checks(golden_race(tasks=(bulk,))) == ""


def test_warnings_of_a_race_are_grouped_by_remedy_and_at_most_four_lines() -> None:
    warnings = ("a: late (more cores)", "b: later (more cores)", "c: slow (less)", "d: cold", "e: hot", "f: wet")
    record = replace(golden_race(), warnings=warnings, tasks=())
    texts = [notice.text for notice in short_summary(record).notices if not notice.note]
    assert texts[:2] == ["a: late; b: later (more cores)", "c: slow (less)"]
    assert len(texts) == 4
    assert texts[-1] == f"2 more warnings (esbench show {record.race_id} --all)"
    assert "f: wet" in [notice.text for notice in summary(record).notices]


def lost(host: str, task: str) -> HostEvent:
    return HostEvent("2026-11-21T10:16:02Z", 1, (task,), host, "lost", "Connection refused")


def test_warnings_are_in_the_order_of_what_follows_from_them() -> None:
    unusable = [Check(f"check-{name}", "unusable", f"wrong {name}", f"mend {name}") for name in "abcde"]
    task = replace(task_of(golden_race(), "bulk"), checks=tuple(unusable))
    record = golden_race(
        status="failed",
        failure="503 of bulk",
        tasks=(task,),
        warnings=("a cold disk",),
        damage="race.json was changed since",
        events=(lost("10.0.0.2:9200", "bulk"), lost("10.0.0.3:9200", "bulk")),
    )
    shown = [notice for notice in short_summary(record).notices if not notice.note]
    assert [notice.text.split(" at ")[0] for notice in shown] == [
        "race.json was changed since",
        "the race failed: 503 of bulk",
        "10.0.0.2:9200 was lost",
        f"6 more warnings, 5 of them on figures that must not be used (esbench show {record.race_id} --all)",
    ]
    assert "; 10.0.0.3:9200 was lost" in shown[2].text
    assert [notice.unusable for notice in shown] == [False, True, False, True]


@pytest.mark.parametrize("unusable", [0, 3, 9])
def test_a_lost_host_is_never_behind_unusable_figures(unusable: int) -> None:
    checks = tuple(
        Check(f"check-{number}", "unusable", f"wrong {number}", f"mend {number}") for number in range(unusable)
    )
    task = replace(task_of(golden_race(), "bulk"), checks=checks)
    record = golden_race(tasks=(task,), warnings=("a", "b"), events=(lost("10.0.0.2:9200", "bulk"),))
    texts = [notice.text for notice in short_summary(record).notices if not notice.note]
    assert texts[0].startswith("10.0.0.2:9200 was lost at ")
    assert len(texts) <= 4


def test_a_task_whose_load_host_was_lost_is_before_other_unusable_figures() -> None:
    checks = (
        *(Check(f"check-{number}", "unusable", f"wrong {number}", f"mend {number}") for number in range(5)),
        Check(
            "incomplete", "unusable", "load host b was lost: what it had not reported by then is missing", "race again"
        ),
    )
    record = golden_race(tasks=(replace(task_of(golden_race(), "bulk"), checks=checks),), warnings=())
    texts = [notice.text for notice in short_summary(record).notices if not notice.note]
    assert texts[0].startswith("bulk: load host b was lost")
