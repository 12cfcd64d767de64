"""The page of a race: what it says, what it draws, and that it is one small file that loads nothing."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bokeh.models.annotations import BoxAnnotation
from html_pages import READS, histogram, loads, second, text_of
from races import as_counted, golden_race, task_of, with_task

from esbench.cli.main import run
from esbench.features.pages.charts import shared_cursor
from esbench.features.pages.race import race_page
from esbench.features.pages.timeline import READINGS, clock, reading_chart, stripe, tasks_legend, time_chart
from esbench.measure.histogram import decode
from esbench.record.model import Check, ErrorKind, RaceRecord, TaskResult, Throughput, Window
from esbench.record.series import SecondLine, Series, encode_second
from esbench.record.store import RaceStore
from esbench.report.chart_series import histograms_at_least, over_time, percentile_curve

pytestmark = pytest.mark.computed


def open_task(record: RaceRecord) -> TaskResult:
    return replace(task_of(record, READS), begun_s=100.0, duration_s=5.0, window=Window(1.0, 5.0), loop="open")


def page_of(record: RaceRecord, *lines: SecondLine, telemetry: tuple[Series, ...] = ()) -> str:
    return race_page(record, lines, telemetry)


def test_a_page_loads_nothing_and_is_small() -> None:
    page = page_of(golden_race(), *(second(number, 1, 2, 3) for number in range(5)))
    assert loads(page) == []
    assert "@import" not in page
    assert "url(" not in page[: page.index("</style>")]
    assert len(page) < 1_700_000


def test_a_page_says_first_what_became_of_the_race() -> None:
    said = text_of(page_of(golden_race(status="failed", failure="the node is gone")))
    assert "The race failed. the node is gone" in said
    assert said.index("The race failed.") < said.index("Tasks")


def test_missed_target_rates_errors_and_a_late_driver_are_named_with_their_tasks() -> None:
    checks = (Check("target-rate", "unusable", "half of it"), Check("driver-lag", "warning", "late"))
    errors = {"timeout": ErrorKind(7, "timed out")}
    record = with_task(golden_race(), READS, checks=checks, errors=7, error_kinds=errors)
    said = text_of(page_of(record))
    assert f"Some figures must not be used: {READS}" in said
    assert f"Target rates were missed: {READS}" in said
    assert "7 x timeout" in said
    assert f"esbench itself was too slow or too late in: get-by-id, {READS}" in said


def test_a_race_without_problems_says_so() -> None:
    record = golden_race()
    record = replace(record, tasks=tuple(replace(task, checks=(), errors=0, error_kinds={}) for task in record.tasks))
    said = text_of(page_of(record))
    for sentence in ("The race is complete.", "The one target rate was reached.", "No request failed.", "kept up."):
        assert sentence in said


def test_an_open_loop_of_stages_has_target_rates_too() -> None:
    staged = {"loop": "open", "target_rate_per_s": None, "checks": (Check("unsent", "unusable", "9 were never sent"),)}
    record = golden_race()
    record = replace(record, tasks=tuple(replace(task, loop="closed", target_rate_per_s=None) for task in record.tasks))
    assert "Every client waited for its reply before it sent again." in text_of(page_of(record))
    said = text_of(page_of(with_task(record, READS, **staged)))
    assert "No target rates." not in said
    assert f"Target rates were missed: {READS}" in said


def test_a_race_without_a_task_is_not_praised() -> None:
    page = page_of(replace(golden_race(status="failed", failure="the node is gone"), tasks=()))
    said = text_of(page)
    assert "No task was measured." in said
    for praise in ("No target rates.", "No request failed.", "kept up."):
        assert praise not in said
    assert "<h2>Tasks</h2>" not in page


def test_tasks_without_a_request_are_not_called_free_of_failures() -> None:
    record = golden_race()
    idle = tuple(replace(task, requests=0, errors=0, error_kinds={}) for task in record.tasks)
    said = text_of(page_of(replace(record, tasks=idle)))
    assert "No request was measured." in said
    assert "No request failed." not in said


def test_every_reported_task_has_a_section_and_what_lasted_has_charts() -> None:
    lines = [second(number, 1, 2, 3) for number in range(5)]
    page = page_of(golden_race(), *lines)
    for task in golden_race().tasks:
        assert (f">{task.name}</h2>" in page) == bool(task.include_in_reporting or task.errors)
    assert page.count("<h3>Latency over time") == page.count("<h3>Latency, all requests") == 1
    assert "Latency over time" not in page_of(golden_race(), *lines[:2])


def test_a_task_whose_requests_all_failed_has_no_chart_of_times_and_reached_no_rate() -> None:
    failed = replace(task_of(golden_race(), READS), throughput=Throughput("ops", 0.0), checks=(), histograms={})
    lines = [second(number, errors={"not supported": 4}) for number in range(5)]
    said = text_of(page_of(replace(golden_race(), tasks=(failed,)), *lines))
    assert "Throughput over time" in said
    assert "Latency over time" not in said
    assert "Latency, all requests" not in said
    assert "All tasks" not in said
    assert f"Target rates were missed: {READS}" in said


@pytest.mark.parametrize("device", ["nodes", "node-stats"])
def test_servers_are_drawn_where_telemetry_has_them(device: str) -> None:
    record = golden_race()
    record = replace(record, tasks=tuple(replace(task, begun_s=100.0) for task in record.tasks))
    cpu = Series(device, "node-0", "process", (100.0, 101.0, 102.0), {}, {"cpu_ms": (0.0, 500.0, 1500.0)})
    disk = Series(device, "node-0", "fs", (100.0, 101.0, 102.0), {}, {"written_kb": (0.0, 0.0, 40.0)})
    unread = Series(device, "node-0", "jvm", (100.0,), {"heap_used_percent": (None,)}, {})
    page = page_of(record, telemetry=(cpu, disk, unread))
    assert "CPU of the nodes" in page
    assert "Disk, written by the nodes" in page
    assert "Heap of the nodes" not in page


def heaps_drawn(nodes: int) -> dict[str, list[float]]:
    """The lines of a chart of the heaps of nodes, each read once a second a little after the one before it."""
    telemetry = [
        Series("nodes", f"node-{n}", "jvm", tuple(m + 0.01 * n for m in range(6)), {"heap_used_percent": (n,) * 6}, {})
        for n in range(nodes)
    ]
    heap = next(reading for reading in READINGS if reading.name == "heap_used_percent")
    drawn: Any = reading_chart(heap, telemetry, (), clock(0.0, 6.0, shared_cursor()))
    return {line.name: list(line.data_source.data["y"]) for line in drawn.renderers}


def test_each_node_has_a_line_and_many_nodes_their_mean_and_the_highest() -> None:
    assert list(heaps_drawn(3)) == ["node-0", "node-1", "node-2"]
    assert heaps_drawn(21) == {"mean of 21": [10.0] * 3, "highest": [20.0] * 3}


def test_tasks_of_a_step_share_their_stripe() -> None:
    spans = {"first": (0, 0.0), "left": (1, 10.0), "right": (1, 11.0), "last": (2, 20.0)}
    tasks = [
        replace(open_task(golden_race()), name=name, step=step, begun_s=begun_s, duration_s=5.0)
        for name, (step, begun_s) in spans.items()
    ]
    drawn: Any = time_chart("", clock(0.0, 25.0, shared_cursor()))
    stripe(tasks, drawn)
    stripes = [each for each in drawn.center if isinstance(each, BoxAnnotation)]
    assert [(each.left, each.right) for each in stripes] == [(0.0, 5.0), (20.0, 25.0)]


def test_the_chart_of_all_tasks_has_a_legend_in_which_no_two_look_the_same() -> None:
    record = golden_race()
    legend = tasks_legend([replace(open_task(record), name=f"task-{n}") for n in range(20)])
    assert len({(key.colour, key.sign) for key in legend}) == 20
    page = page_of(with_task(record, READS, begun_s=1.0), *(second(number, 1, 2, 3) for number in range(4)))
    assert re.search(rf'<ul class="legend".*?●</span>{READS}</li>', page, re.DOTALL)


def test_what_the_servers_did_during_each_task_stands_below_the_tasks() -> None:
    nodes = {"nodes": {"cpu_core_percent": {"mean": 82.5, "peak": 101.25}}}
    said = text_of(page_of(with_task(golden_race(), READS, telemetry=nodes)))
    assert said.index("During each task") < said.index("Everything else")


def test_names_are_text_and_no_markup() -> None:
    name = "<script>alert(1)</script>"
    record = golden_race()
    record = with_task(record, READS, begun_s=1.0)
    record = replace(record, tasks=tuple(replace(task, name=task.name.replace(READS, name)) for task in record.tasks))
    page = page_of(record, *(second(number, 1, 2, task=name) for number in range(4)))
    assert name not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_second_has_its_percentiles_rate_and_errors_on_the_races_clock() -> None:
    lines = [second(0, 5, phase="warmup"), second(1, *range(1, 101)), second(3, 9, errors={"timeout": 2})]
    found = over_time(open_task(golden_race()), lines)
    assert found.times_s == (100.5, 101.5, 102.5, 103.5)
    assert found.units_per_s == (1, 100, 0, 1)
    assert found.p50_ms[1] == pytest.approx(50, rel=0.001)
    assert found.p99_ms[1] == pytest.approx(99, rel=0.001)
    assert found.max_ms[1] == pytest.approx(100, rel=0.001)
    assert found.p99_ms[2] is None  # nothing completed: a gap, no zero
    assert found.errors == (0, 0, 0, 2)
    assert found.failures[3] == "2 x timeout"


def test_requests_that_timed_out_are_drawn_as_long_as_they_took_at_least() -> None:
    line = replace(second(0, *[1.0] * 9), latency_beyond=histogram(1000.0))
    found = over_time(open_task(golden_race()), [line])
    assert (found.p50_ms[0], found.p99_ms[0]) == pytest.approx((1, 1000), rel=0.001)
    assert found.max_ms[0] == pytest.approx(1000, rel=0.001)
    assert sum(found.grid.counts) == 10
    both = replace(
        open_task(golden_race()), histograms={"latency": line.latency, "latency_beyond": line.latency_beyond}
    )
    curve = percentile_curve(*histograms_at_least(both, "latency"))
    assert curve[-1] == pytest.approx((10, 1000), rel=0.002)


def test_a_second_in_which_the_warmup_ends_is_one() -> None:
    found = over_time(open_task(golden_race()), [second(0, 1, phase="warmup"), second(0, 3, 3)])
    assert found.units_per_s == (3,)
    assert found.p50_ms[0] == pytest.approx(3, rel=0.001)


def test_a_last_second_counts_by_the_part_that_there_was_and_a_short_rest_has_its_longest_request_alone() -> None:
    lines = [second(number, 1, 1, 1) for number in range(6)]
    assert over_time(replace(open_task(golden_race()), duration_s=5.75), lines).units_per_s[5] == 4
    rest = over_time(replace(open_task(golden_race()), duration_s=5.01), lines)
    assert (rest.units_per_s[5], rest.p50_ms[5], rest.p99_ms[5]) == (None, None, None)
    assert rest.max_ms[5] == pytest.approx(1, rel=0.001)


def test_the_grid_counts_every_request_once_however_long_the_task() -> None:
    for seconds in (10, 1000):
        grid = over_time(open_task(golden_race()), [second(number, 1.1, 11, 11) for number in range(seconds)]).grid
        assert sum(grid.counts) == 3 * seconds
        assert len(set(grid.times_s)) <= 240
        assert {round(log_ms, 2) for log_ms in grid.log_ms} == {0.05, 1.05}


def test_a_percentile_curve_ends_at_what_the_samples_carry() -> None:
    curve = percentile_curve(decode(histogram(*[1.0] * 90, *[10.0] * 9, 100.0)))
    assert [x for x, _ in curve] == pytest.approx([10, 100, 100])
    assert [ms for _, ms in curve] == pytest.approx([1, 10, 100], rel=0.002)


def test_a_percentile_curve_stays_at_close_durations_up_to_their_last() -> None:
    curve = percentile_curve(decode(histogram(*[30.0] * 500, *[30.25] * 490, *[300.0] * 10)))
    assert [x for x, _ in curve] == pytest.approx([2, 100, 1000])
    assert [ms for _, ms in curve] == pytest.approx([30, 30.25, 300], rel=0.002)


def test_ten_tasks_of_ten_minutes_make_less_than_three_megabytes() -> None:
    task = replace(
        open_task(golden_race()), duration_s=600.0, histograms={"latency": histogram(*(1.02**n for n in range(500)))}
    )
    busy = histogram(*(math.exp(n / 40) for n in range(300)))  # three decades in every second
    lines = [
        SecondLine(READS, number, "measurement", 300, 300, 300, 300, {"timeout": 1}, 0, busy) for number in range(600)
    ]
    times_s = tuple(float(number) for number in range(6000))
    telemetry = (Series("node-stats", "n", "process", times_s, {}, {"cpu_ms": tuple(9.0 * n for n in range(6000))}),)
    empty = len(page_of(replace(golden_race(), tasks=())))
    one_task = len(page_of(replace(golden_race(), tasks=(task,)), *lines, telemetry=telemetry))
    assert empty + 10 * (one_task - empty) < 3_000_000


@pytest.fixture
def raced(esbench_home: Path) -> Path:
    folder = RaceStore(esbench_home).create("raced")
    for number in range(4):
        line = SecondLine(READS, number, "measurement", 1, 1, 1, 1, latency=histogram(2))
        folder.append_seconds(encode_second(line))
    folder.save(as_counted(golden_race(race_id="raced"), folder.seconds_file))
    return esbench_home


def test_report_writes_the_page_of_a_race(raced: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "out.html"
    assert run(["report", "last", "--html", str(file)]) == 0
    assert "Latency over time" in file.read_text()
    assert capsys.readouterr().out.startswith(f"{file}: 1.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "last"], "--html"),
        (["report", "last", "--html", "."], "is a folder"),
        (["report", "last", "--html", "/dev/null/where.html"], "cannot be written: "),
        (["race", "--track=orders", "--html", "/dev/null/where.html"], "cannot be written: "),
        (
            ["race", "--track=orders", "--rounds=2", "--html", "/dev/null/no/a.html"],
            "no folder can be made in /dev/null",
        ),
    ],
)
def test_a_page_that_cannot_be_written_is_wrong_usage(
    arguments: list[str], said: str, raced: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err
