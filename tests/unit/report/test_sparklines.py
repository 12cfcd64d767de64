"""Throughput and p99 over time for a terminal: what a bar stands for, its scale, and what fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from races import GOLDEN, golden_race, task_of, with_task

from esbench.measure.histogram import Counts, encode
from esbench.record.model import Check, RaceRecord, Window
from esbench.record.series import SecondLine, read_seconds
from esbench.report.sparklines import ASCII, BLOCKS, bars_of, over_time, spark
from esbench.report.table_model import ReportDocument, Table
from esbench.report.text import render_text

SERIES = GOLDEN.with_name("series-schema-2")


def second(number: int, units: float, ms: Iterable[float] = (), phase: str = "measurement") -> SecondLine:
    counts = Counts()
    for each in ms:
        counts.add(int(each * 1e6))
    encoded = encode(counts) if counts.buckets else None
    return SecondLine("bulk", number, phase, 0, 1, 1, units, service_time=encoded)


def measured(start_s: float, end_s: float) -> RaceRecord:
    return with_task(golden_race(), "bulk", window=Window(start_s, end_s))


def bars(start_s: float, end_s: float, lines: list[SecondLine], most: int = 60) -> tuple[list[float | None], ...]:
    found = bars_of(task_of(measured(start_s, end_s), "bulk"), lines, most)
    return list(found.units_per_s), [None if ms is None else round(ms) for ms in found.p99_ms]


def shown(record: RaceRecord, lines: Iterable[SecondLine], width: int = 200, *, ascii_only: bool = False) -> list[str]:
    (section,) = over_time(record, lines, width, ascii_only=ascii_only)
    return render_text(ReportDocument(Table((), ()), sections=(section,))).splitlines()[1:]


def test_a_bar_begins_at_zero() -> None:
    assert spark([0.0, 50.0, 100.0], BLOCKS) == "▁▅█"
    assert spark([0.0, None, 100.0], ASCII) == "_?@"
    assert spark([0.0, 0.0], BLOCKS) == "▁▁"


def test_a_bar_for_each_second_of_the_window() -> None:
    rates, p99 = bars(0, 3, [second(0, 10, [1]), second(1, 30, [1, 9]), second(2, 20, [2])])
    assert rates == [10, 30, 20]
    assert p99 == [1.0, 9.0, 2.0]


def test_a_second_without_a_line_is_one_in_which_nothing_was_completed() -> None:
    assert bars(0, 3, [second(0, 10, [1]), second(2, 20, [2])]) == ([10, 0, 20], [1.0, None, 2.0])


def test_seconds_that_the_window_covers_in_part_have_the_rate_of_that_part() -> None:
    rates, _ = bars(0.5, 2.25, [second(0, 5, [1]), second(1, 10, [1]), second(2, 2, [1])])
    assert rates == [10, 10, None]  # a quarter of a second says too little


def test_replies_after_the_window_are_in_the_last_p99_and_no_throughput() -> None:
    assert bars(0, 2, [second(0, 10, [1]), second(1, 10, [1]), second(4, 7, [900])]) == ([10, 10], [1.0, 900.0])


def test_many_seconds_share_a_bar_and_their_histograms_are_merged() -> None:
    lines = [second(number, number, [1.0] * 99 + [50.0] * (number == 3)) for number in range(4)]
    rates, p99 = bars(0, 4, lines, most=2)
    assert rates == [0.5, 2.5]
    assert p99 == [1.0, 1.0]  # one of 199: no mean of 1 and 50


def test_the_warmup_is_left_out() -> None:
    lines = [second(0, 10, [500], "warmup"), second(1, 10, [1])]
    row = next(line for line in shown(measured(1, 2), lines) if line.startswith("bulk"))
    assert "1.000 ms" in row


def test_an_open_loop_shows_latency_and_its_checks() -> None:
    """The golden series stall in the third second."""
    record = with_task(golden_race(), "get-by-id-open", window=Window(1.5, 5))
    row = next(line for line in shown(record, read_seconds(SERIES / "seconds.jsonl")) if "get-by-id-open" in line)
    assert "▁▁█▁" in row
    assert row.endswith("! backlog")


def test_tasks_without_seconds_have_their_checks() -> None:
    lines = shown(golden_race(), [])
    row = next(line for line in lines if line.startswith("get-by-id "))
    assert row.split() == ["get-by-id", "-", "-", "-", "-", "driver-share"]


def test_a_race_without_tasks_has_no_section() -> None:
    assert over_time(golden_race(tasks=()), [], 80, ascii_only=False) == ()


@pytest.mark.parametrize("width", [80, 100, 132, 250])
def test_lines_are_as_wide_as_the_terminal_at_most(width: int) -> None:
    checks = tuple(Check(f"a-check-that-failed-{n}", "warning", "") for n in range(3))
    task = replace(task_of(measured(0, 300), "bulk"), name="a-task-with-quite-a-long-name-indeed", checks=checks)
    seconds = [replace(second(number, 10_000, [1.0]), task=task.name) for number in range(300)]
    lines = shown(golden_race(tasks=(task,)), seconds, width)
    assert max(map(len, lines)) <= width
    assert any("a-check-that-failed-0" in line for line in lines) == (width > 132)
    assert any("3 failed" in line for line in lines) == (width <= 132)


def test_a_terminal_without_blocks_gets_ascii() -> None:
    assert "\n".join(shown(golden_race(), read_seconds(SERIES / "seconds.jsonl"), ascii_only=True)).isascii()
