"""The table of the rounds of a session."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import pytest
from races import golden_race, task_of, with_task

from esbench.record.figures import reported_tasks
from esbench.record.model import RaceRecord
from esbench.report.rounds import rounds
from esbench.report.table_model import Above

TASK = next(task.name for task in reported_tasks(golden_race()) if task.throughput.mean)


def with_throughput(mean: float) -> RaceRecord:
    record = golden_race()
    return with_task(record, TASK, throughput=replace(task_of(record, TASK).throughput, mean=mean))


def row(records: list[RaceRecord], metric: str) -> tuple[object, ...]:
    (found,) = [row for row in rounds("some-session", records).table.rows if row[:2] == (metric, TASK)]
    return found


def test_each_figure_of_a_task_has_its_mean_and_how_much_it_differed() -> None:
    records = [with_throughput(mean) for mean in (90.0, 100.0, 110.0)]
    _, _, mean, spread, least, most, _, count, _ = row(records, "Mean throughput")
    assert (mean, least, most, count) == (100, 90, 110, 3)
    assert spread == pytest.approx(10)
    assert all(row[1] for row in rounds("some-session", records).table.rows)


def test_one_round_has_no_spread() -> None:
    assert row([with_throughput(90.0)], "Mean throughput")[2:6] == (90, None, 90, 90)


def test_the_spread_of_negative_figures_is_positive() -> None:
    assert row([with_throughput(mean) for mean in (-90.0, -100.0, -110.0)], "Mean throughput")[3] == pytest.approx(10)


def test_a_figure_beyond_what_was_measured_has_no_mean() -> None:
    record = golden_race()
    task = next(task for task in reported_tasks(record) if task.latency_ms and "p50" in task.latency_ms)
    late = with_task(record, task.name, latency_ms={**(task.latency_ms or {}), "p50": inf})
    (found,) = [row for row in rounds("s", [record, late]).table.rows if row[:2] == ("p50 latency", task.name)]
    assert found[2:4] == (None, None)
    assert found[5] is None


def test_the_least_of_figures_beyond_what_was_measured_is_above_it() -> None:
    record = golden_race()
    task = next(task for task in reported_tasks(record) if task.latency_ms and "p50" in task.latency_ms)
    late = [
        with_task(record, task.name, latency_ms={"p50": inf, "p50_at_least": at_least, "max": 9.0})
        for at_least in (5.0, 4.0)
    ]
    known = with_task(record, task.name, latency_ms={"p50": 4.0, "max": 9.0})
    for records, least in ((late[:1], Above(5.0)), (late, Above(4.0)), ([*late, known], 4.0)):
        (found,) = [row for row in rounds("s", records).table.rows if row[:2] == ("p50 latency", task.name)]
        assert found[4] == least


def test_a_count_is_0_in_rounds_that_counted_none() -> None:
    codes = ({"200": 9}, {"200": 9}, {"200": 9}, {"200": 8, "429": 12})
    records = [with_task(golden_race(), TASK, status_codes=each) for each in codes]
    _, _, mean, _, least, most, _, count, _ = row(records, "status 429")
    assert (mean, least, most, count) == (3, 0, 12, 4)


def test_what_is_to_be_known_says_of_how_many_rounds_it_is() -> None:
    records = [golden_race(warnings=("the disk is nearly full",)), golden_race(warnings=())]
    texts = [notice.text for notice in rounds("s", records).notices]
    assert "the disk is nearly full (in 1 of 2 rounds)" in texts


def test_of_much_that_is_to_be_known_the_worst_is_said() -> None:
    records = [golden_race(warnings=(f"late by {number} ms",), status=status) for number, status in enumerate(STATUSES)]
    *told, last = rounds("s", records).notices
    assert len(told) == 12
    assert told[0].unusable
    assert "more: esbench show" in last.text


STATUSES = ["complete"] * 15 + ["failed"]
