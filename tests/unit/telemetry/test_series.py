"""What samples say about a span of time, and counters that begin anew."""

from __future__ import annotations

import pytest

from esbench.telemetry.series import Continued, SeriesOf


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
