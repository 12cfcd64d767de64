"""What samples say about a span of time, and counters that begin anew."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from esbench.telemetry.series import Continued, SeriesOf
from esbench.telemetry.spill import SpillFile


def series(**counters: list[float | None]) -> SeriesOf:
    """Readings at 0, 1, 2 ... s."""
    found = SeriesOf()
    for second in range(max(map(len, counters.values()))):
        found.add(float(second), {}, {name: values[second] for name, values in counters.items()})
    return found


def gauges(*values: float | None) -> SeriesOf:
    found = SeriesOf()
    for second, value in enumerate(values):
        found.add(float(second), {"x": value}, {})
    return found


def test_a_gauge_has_mean_and_peak_of_the_values_in_a_span() -> None:
    found = gauges(1, 2, 3, 10)
    assert found.mean("x", 1, 2) == 2.5
    assert found.peak("x", 0, 2.5) == 3


def test_a_gauge_without_values_in_a_span_has_neither() -> None:
    found = gauges(1, None, 3)
    assert found.mean("x", 0.5, 1.5) is None
    assert found.peak("x", 0.5, 1.5) is None
    assert found.mean("unknown", 0, 2) is None


def test_the_last_value_is_that_before_the_end_or_the_first_after_it() -> None:
    found = gauges(None, 2, 3)
    assert found.last("x", 1.9) == 2
    assert found.last("x", 0.5) == 2
    assert gauges(None).last("x", 5) is None


def test_what_is_inside_a_span_knows_nothing_of_what_is_outside() -> None:
    inside = series(cpu=[0, 100, 300, 600, 1000]).inside(0.5, 3.0)
    assert inside.times_s == [1.0, 2.0, 3.0]
    assert inside.rate("cpu", 0.5, 3.0) == 250
    assert inside.peak_rate("cpu", 0.5, 3.0) == 300
    assert gauges(1, 2, 3).inside(1.5, 1.8) == SeriesOf([], {"x": []}, {})


def test_a_counter_is_linear_between_its_readings() -> None:
    found = series(cpu=[0, 100, 300])
    assert found.rate("cpu", 0.5, 1.5) == pytest.approx(150)
    assert found.gained("cpu", 0.5, 1.5) == pytest.approx(150)
    assert found.gained("cpu", 0, 2) == pytest.approx(300)


def test_a_rate_is_of_what_readings_cover_of_a_span() -> None:
    found = series(cpu=[0, 100, 200])
    assert found.rate("cpu", 1, 2.9) == pytest.approx(100)  # the last 0.9 s are not covered


def test_a_span_that_is_hardly_covered_has_no_rate() -> None:
    found = series(cpu=[0, 100, 200])
    assert found.rate("cpu", 1.5, 4) is None
    assert found.rate("cpu", 5, 6) is None
    assert series(cpu=[1]).rate("cpu", 0, 1) is None


def test_missing_readings_of_a_counter_are_bridged() -> None:
    assert series(cpu=[0, None, 200]).rate("cpu", 0, 2) == pytest.approx(100)


def test_the_peak_rate_is_the_fastest_gain_between_neighbours() -> None:
    assert series(cpu=[0, 100, 400, 500]).peak_rate("cpu", 0, 3) == 300
    assert series(cpu=[0, 100, 400, 500]).peak_rate("cpu", 2, 3) == 100


def test_a_share_is_of_what_another_counter_gained() -> None:
    found = series(busy=[0, 1, 4, 4], total=[0, 4, 8, 12])
    assert found.share("busy", "total", 0, 3) == pytest.approx(1 / 3)
    assert found.share("busy", "total", 1, 2) == pytest.approx(3 / 4)
    assert found.peak_share("busy", "total", 0, 3) == pytest.approx(3 / 4)
    assert found.peak_share("busy", "total", 2, 3) == 0


def test_there_is_no_share_of_what_did_not_grow_or_was_not_read() -> None:
    still = series(busy=[0, 0], total=[5, 5])
    assert still.share("busy", "total", 0, 1) is None
    assert still.peak_share("busy", "total", 0, 1) is None
    assert still.share("idle", "total", 0, 1) is None
    assert still.peak_share("idle", "total", 0, 1) is None


def test_values_of_a_gauge_are_those_of_the_span() -> None:
    assert gauges(1, None, 3, 10).values("x", 0, 2) == [1, 3]
    assert gauges(1).values("unknown", 0, 2) == []


def test_forgetting_keeps_the_reading_before_the_moment() -> None:
    found = series(cpu=[0, 100, 200, 300])
    found.forget_before(2.5)
    assert found.times_s == [2, 3]
    assert found.rate("cpu", 2.5, 3) == pytest.approx(100)


def test_names_that_come_later_are_missing_before() -> None:
    found = SeriesOf()
    found.add(0, {"a": 1}, {})
    found.add(1, {"b": 2}, {})
    assert found.gauges == {"a": [1, None], "b": [None, 2]}


def test_a_counter_starts_at_zero_and_goes_on_when_its_process_began_anew() -> None:
    counters = Continued()
    seen = [counters.of("node-0", "process", {"cpu": value})["cpu"] for value in (500, 700, 50, 60, None, 80)]
    assert seen == [0, 200, 250, 260, None, 280]


def test_a_counter_that_a_later_reading_is_the_first_to_have_began_at_zero_where_its_group_says_so() -> None:
    counters = Continued(frozenset({"pools"}))
    for group, expected in (("pools", [500, 520]), ("disks", [0, 20])):
        assert counters.of("node-0", group, {"all": 7}) == {"all": 0}
        seen = [counters.of("node-0", group, {"all": 7 + value, "write": value})["write"] for value in (500, 520)]
        assert seen == expected
    assert counters.of("node-1", "pools", {"all": 9, "write": 9}) == {"all": 0, "write": 0}


def test_counters_of_different_things_are_apart() -> None:
    counters = Continued()
    assert counters.of("node-0", "process", {"cpu": 5}) == {"cpu": 0}
    assert counters.of("node-1", "process", {"cpu": 100}) == {"cpu": 0}
    assert counters.of("node-0", "process", {"cpu": 7}) == {"cpu": 2}


@pytest.fixture
def spill_file(tmp_path: Path) -> Iterator[SpillFile]:
    file = SpillFile(tmp_path)
    yield file
    file.clear()


def in_memory_and_spilled(file: SpillFile, readings: int) -> tuple[SeriesOf, SeriesOf]:
    """The same readings, of which the second series has most in a file; some are missing, a name comes late."""
    drawn = random.Random(readings)
    series = SeriesOf(), SeriesOf(overflow=file)
    cpu, time_s = 0, 0.0
    for number in range(readings):
        cpu, time_s = cpu + drawn.randrange(900), time_s + drawn.uniform(0.1, 2)
        gauges = {"heap": None if drawn.random() < 0.1 else drawn.random(), "late": number}
        if number < readings // 2:
            del gauges["late"]
        for each in series:
            each.add(time_s, gauges, {"cpu": None if number % 7 == 3 else cpu, "total": 1000.0 * number})
    return series


def said(of: SeriesOf, start_s: float, end_s: float) -> list[object]:
    """All that can be asked for a span."""
    return [
        *(
            getattr(of, ask)(name, start_s, end_s)
            for ask in ("values", "mean", "peak")
            for name in ("heap", "late", "x")
        ),
        *(of.last(name, at_s) for name in ("heap", "late", "x") for at_s in (start_s, end_s)),
        *(getattr(of, ask)(name, start_s, end_s) for ask in ("rate", "gained", "peak_rate") for name in ("cpu", "x")),
        *(getattr(of, ask)("cpu", "total", start_s, end_s) for ask in ("share", "peak_share")),
    ]


def test_series_of_many_readings_say_the_same_from_a_file(spill_file: SpillFile, tmp_path: Path) -> None:
    whole, spilled = in_memory_and_spilled(spill_file, 3000)
    assert len(spilled.blocks) == 5
    assert len(spilled.times_s) < 520
    drawn, end_s = random.Random(1), whole.times_s[-1]
    for _ in range(12):
        start_s, until_s = sorted((drawn.uniform(-9, end_s + 9), drawn.uniform(-9, end_s + 9)))
        assert said(spilled, start_s, until_s) == said(whole, start_s, until_s)
        inside = [of.inside(start_s, until_s) for of in (spilled, whole)]
        assert said(inside[0], start_s - 5, until_s + 5) == said(inside[1], start_s - 5, until_s + 5)
    assert list(tmp_path.iterdir()) == []  # the file has no name


@pytest.mark.parametrize("part", [-1.0, 0.1, 0.5, 0.9999, 2.0])
def test_what_is_forgotten_leaves_nothing_in_the_file(part: float, spill_file: SpillFile) -> None:
    whole, spilled = in_memory_and_spilled(spill_file, 1500)
    moment_s = part * whole.times_s[-1]
    for of in (whole, spilled):
        of.forget_before(moment_s)
    assert spilled == whole
    assert spilled.blocks == ()
