"""What one race gives to a comparison: samples beyond a percentile, sections, whether its rate was reached."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from compared_sides import OPEN, line
from races import compared, golden_race, task_of, with_task

from esbench.comparison.metrics import (
    Percentile,
    has_interval,
    is_primary,
    other_fault,
    primary_keys,
    races_of,
    samples_beyond,
    seconds_beyond,
    sections,
    typical,
)
from esbench.measure.histogram import Counts, encode
from esbench.record.figures import missed_target
from esbench.record.model import Check, Throughput, Window
from esbench.record.series import SecondLine

BULK = task_of(with_task(golden_race(), "bulk", window=Window(0.5, 126.5)), "bulk")


def second_of(second: int, phase: str, units: float, *ms: int) -> SecondLine:
    return replace(line(BULK, second, units, service_time=histogram(*ms)), phase=phase)


def histogram(*ms: int) -> str:
    counts = Counts()
    for each in ms:
        counts.add(each * 1_000_000)
    return encode(counts)


def test_sections_are_fifths_of_the_whole_seconds_of_the_window() -> None:
    """Seconds 1 to 125 of 0.5 to 126.5: what completed before, after, and in the halves of seconds is in none."""
    rates = [10.0, 20.0, 40.0, 80.0, 160.0]
    lines = [line(BULK, second, rates[(second - 1) // 25]) for second in range(1, 126)]
    outside = [line(BULK, second, 1e9) for second in (0, 126, 130)]
    found = sections(BULK, "Mean throughput", [*outside, *lines])
    assert found == pytest.approx([math.log(rate) for rate in rates])


def test_the_throughput_of_a_section_counts_what_completed_and_its_percentiles_what_was_measured() -> None:
    """A second may have requests of the warmup, too."""
    warm = [second_of(second, "warmup", 1.0, *[900] * 50) for second in range(1, 126)]
    measured = [second_of(second, "measurement", 3.0, *[2] * 50) for second in range(1, 126)]
    both = sections(BULK, "Mean throughput", [*warm, *measured])
    assert both is not None and both[0] == pytest.approx(math.log(4.0))
    tails = sections(BULK, "p99 service time", [*warm, *measured])
    assert tails == pytest.approx([math.log(2.0)] * 5, abs=0.01)


@pytest.mark.parametrize(("a_second", "enough"), [(39, False), (41, True)])
def test_each_section_needs_ten_samples_beyond_a_percentile(a_second: int, enough: bool) -> None:
    """25 seconds of so many are 975 or 1,025: nine or ten are beyond p99."""
    lines = [line(BULK, second, service_time=histogram(*[2] * a_second)) for second in range(1, 126)]
    assert (sections(BULK, "p99 service time", lines) is not None) == enough


def test_a_section_in_which_nothing_completed_leaves_none() -> None:
    lines = [line(BULK, second) for second in range(1, 100)]
    assert sections(BULK, "Mean throughput", lines) is None


@pytest.mark.parametrize("name", ["unsent", "backlog", "target-rate"])
def test_what_says_that_a_rate_was_missed_is_no_fault_of_the_driver(name: str) -> None:
    check = Check(name, "unusable", "overloaded")
    task = task_of(with_task(golden_race(), OPEN, checks=(check,)), OPEN)
    assert (missed_target(task), other_fault(task)) == (True, None)


@pytest.mark.parametrize("name", ["driver-lag", "incomplete"])
def test_any_other_check_is_a_fault_if_figures_must_not_be_used(name: str) -> None:
    for level in ("unusable", "warning"):
        check = Check(name, level, "said so")
        task = task_of(with_task(golden_race(), OPEN, checks=(check,)), OPEN)
        assert (missed_target(task), other_fault(task)) == (False, check if level == "unusable" else None)


def test_arrivals_that_were_never_sent_are_beyond_a_latency_and_have_no_service_time() -> None:
    task = task_of(with_task(golden_race(), OPEN, requests=1000, errors=100, unsent=100), OPEN)
    latency, service = Percentile.of("p90 latency"), Percentile.of("p90 service time")
    assert latency is not None and service is not None
    assert (samples_beyond(task, latency), samples_beyond(task, service)) == (100, 90)


def test_seconds_beyond_a_percentile_are_counted_up_to_five_and_once_each() -> None:
    (race,) = races_of([with_task(golden_race(), "bulk", service_time_ms={"p50": 2.0, "p99": 8.0, "max": 9.0})])
    task = race.tasks["bulk"]
    keys = [("p50 service time", "bulk", "ms"), ("p99 service time", "bulk", "ms")]
    lines = [line(task, second, service_time=histogram(1, 4, 9 if second == 3 else 4)) for second in (*range(8), 3)]
    assert list(seconds_beyond(race, keys, lines).values()) == [5, 1]
    assert list(seconds_beyond(race, keys, lines[:2]).values()) == [2, 0]
    other = [line(race.tasks["get-by-id"], 0, service_time=histogram(9))]
    assert list(seconds_beyond(race, keys, other).values()) == [None, None]


def test_no_histogram_is_decoded_beyond_what_is_needed() -> None:
    (race,) = races_of([with_task(golden_race(), "bulk", service_time_ms={"p50": 2.0, "max": 9.0})])

    def lines() -> Iterator[SecondLine]:
        yield from (line(race.tasks["bulk"], second, service_time=histogram(4)) for second in range(5))
        yield replace(line(race.tasks["bulk"], 5), service_time="damaged")

    assert list(seconds_beyond(race, [("p50 service time", "bulk", "ms")], lines()).values()) == [5]


def test_a_side_has_the_geometric_mean_of_its_races_and_none_where_no_race_has_a_figure() -> None:
    key = ("Mean throughput", "bulk", "docs/s")
    races = races_of(
        [with_task(golden_race(), "bulk", throughput=Throughput("docs", mean)) for mean in (100.0, 400.0, None)]
    )
    figure = typical(races, key)
    assert figure is not None and figure.value == pytest.approx(200)
    assert typical(races[2:], key) is None


def test_what_tables_leave_out_is_not_judged() -> None:
    bulk = task_of(golden_race(), "bulk")
    assert primary_keys(bulk, "x") == (("Mean throughput", "x", "docs/s"), ("p99 service time", "x", "ms"))
    hidden = task_of(with_task(golden_race(), "bulk", include_in_reporting=False), "bulk")
    assert primary_keys(hidden, "x") == ()
    assert not is_primary(hidden, "Mean throughput") and not has_interval(hidden, "Mean throughput")
    assert is_primary(bulk, "Mean throughput") and has_interval(bulk, "p99 service time")


def test_a_metric_that_begins_with_p_is_no_percentile() -> None:
    assert Percentile.of("p99.9 latency") is not None
    for metric in ("peak latency", "p latency", "p99x latency", "p.9 service time", "p99 recall"):
        assert Percentile.of(metric) is None
    record = with_task(golden_race(), "bulk", returned={"peak latency": {"mean": 3.0, "min": 1.0, "max": 5.0}})
    assert ("peak latency", "bulk") in [(row.metric, row.task) for row in compared(record, record).rows]


def test_a_count_of_one_race_is_0_in_those_that_counted_none() -> None:
    codes = ({"200": 9}, {"200": 9}, {"200": 9}, {"200": 8, "429": 12}, None)  # None: an older record
    races = races_of([with_task(golden_race(), "bulk", status_codes=each) for each in codes])
    key = ("status 429", "bulk", "")
    assert [race.value(key) for race in races] == [0, 0, 0, 12, None]
    figure = typical(races, key)
    assert figure is not None and figure.value == 3
    keys = list(races[0].figures)
    place = keys.index(key)
    assert [each[1] == "bulk" for each in keys[place - 1 : place + 2]] == [True, True, False]


@pytest.mark.parametrize(
    ("metric", "some", "none", "not_counted"),
    [
        ("unsent requests", {"unsent": 4}, {"unsent": 0}, {"unsent": None}),
        (
            "refresh count",
            *(
                {"telemetry": each}
                for each in ({"cluster": {"refresh_count": 4}}, {"cluster": {"refresh_count": 0}}, {})
            ),
        ),
    ],
)
def test_a_count_is_0_only_where_it_was_counted(
    metric: str, some: dict[str, Any], none: dict[str, Any], not_counted: dict[str, Any]
) -> None:
    races = races_of([with_task(golden_race(), OPEN, **each) for each in (some, none, not_counted)])
    assert [race.value((metric, OPEN, "")) for race in races] == [4, 0, None]
