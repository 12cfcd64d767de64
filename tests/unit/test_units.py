"""Durations, rates and sizes: as people write and read them."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from esbench.errors import UsageError
from esbench.units import (
    Rate,
    format_bytes,
    format_duration,
    format_number,
    parse_duration,
    parse_rate,
    parse_ratio,
    parse_size,
    parse_target_rate,
)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (90, 90),
        (0, 0),
        (0.5, 0.5),
        ("90", 90),
        (".5", 0.5),
        ("1e3", 1000),
        ("500ms", 0.5),
        (" 5 m ", 300),
        ("2 min", 120),
        ("1h", 3600),
        ("1.5d", 129600),
        ("10us", 1e-5),
        ("7ns", 7e-9),
        ("3 sec", 3),
        ("12s", 12),
    ],
)
def test_durations_are_seconds(value: Any, seconds: float) -> None:
    assert parse_duration(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        (1000, Rate(1000, "ops")),
        ("1000", Rate(1000, "ops")),
        ("1000/s", Rate(1000, "ops")),
        ("1000 ops/s", Rate(1000, "ops")),
        ("0.5 docs/s", Rate(0.5, "docs")),
        ("20MB/s", Rate(20, "MB")),
        ("20 mb/s", Rate(20, "MB")),
        ("512 KB/s", Rate(0.5, "MB")),
        ("2 GiB/s", Rate(2048, "MB")),
        ("524288 B/s", Rate(0.5, "MB")),
        ("5 doc/sec", Rate(5, "docs")),
        ("5 requests per second", Rate(5, "ops")),
        ("5 vectors/s", Rate(5, "vectors")),
    ],
)
def test_rates_have_a_unit(value: Any, rate: Rate) -> None:
    assert parse_rate(value) == rate


@pytest.mark.parametrize(
    ("value", "count"),
    [
        (1048576, 1 << 20),
        ("512", 512),
        ("100b", 100),
        ("512m", 512 << 20),
        ("1g", 1 << 30),
        ("1.5 GB", 3 << 29),
        ("2KiB", 2048),
        ("1T", 1 << 40),
    ],
)
def test_sizes_are_bytes(value: Any, count: int) -> None:
    assert parse_size(value) == count


@pytest.mark.parametrize(
    ("parse", "value", "message"),
    [
        (parse_duration, "soon", '"soon" is not a duration (say 30, "500ms" or "5m")'),
        (parse_duration, "", '"" is not a duration'),
        (parse_duration, None, "None is not a duration"),
        (parse_duration, True, "True is not a duration"),
        (parse_duration, [5], "[5] is not a duration"),
        (parse_duration, -1, "a duration cannot be negative: -1"),
        (parse_duration, "-5s", '"-5s" is not a duration'),
        (parse_duration, "5 parsecs", '"5 parsecs" has no known unit of time (units: ns, us, ms, s,'),
        (parse_duration, "1 min 30 s", '"1 min 30 s" has no known unit of time'),
        (parse_duration, "1,000", '"1,000" is not a duration'),
        (parse_duration, math.inf, "inf is not a duration"),
        (parse_duration, math.nan, "nan is not a duration"),
        (parse_duration, "1e999", '"1e999" is not a duration'),
        (parse_rate, "fast", '"fast" is not a rate (say 1000 or "1000 docs/s")'),
        (parse_rate, 0, 'a rate must be above zero, not "0"'),
        (parse_rate, "1000 docs", '"1000 docs" is not a rate per second (say "1000 docs/s")'),
        (parse_rate, "60 docs/min", '"60 docs/min" is not a rate per second'),
        (parse_rate, "8 Mb/s", '"8 Mb/s" is a rate in bits (say "MB/s" for bytes)'),
        (parse_rate, "1,000 docs/s", '"1,000 docs/s" is not a rate (say 1000 or'),
        (parse_rate, "1_000/s", '"1_000/s" is not a rate'),
        (parse_rate, "70%", '"70%" is not a rate'),
        (parse_target_rate, "%", '"%" is not a rate (say "70%" of the capacity, or 1000)'),
        (parse_target_rate, "1e999%", '"1e999%" is not a rate'),
        (parse_target_rate, "fast", '"fast" is not a rate (say 1000'),
        (parse_size, "big", '"big" is not a size (say "512m" or "1g")'),
        (parse_size, "5 x", '"5 x" has no known unit of size (units: b, k, m, g, t)'),
    ],
)
def test_what_is_none_is_told(parse: Any, value: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(value, "--flag")
    assert str(caught.value).startswith(f"--flag: {message}")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.42, "420 ms"),
        (1, "1 s"),
        (1.25, "1.2 s"),
        (59.9, "59.9 s"),
        (60, "1 min"),
        (75, "1 min 15 s"),
        (3599.9, "1 h"),
        (3600, "1 h"),
        (5400, "1 h 30 min"),
        (0.9996, "1 s"),
        (59.96, "1 min"),
    ],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1023.6, "1.0 KB"),
        ((1 << 20) - 1, "1.0 MB"),
        (-(1 << 30) + 1, "-1.0 GB"),
        (1536, "1.5 KB"),
        (5 << 20, "5.0 MB"),
        (3 << 40, "3.0 TB"),
        (5000 << 40, "5000.0 TB"),
    ],
)
def test_sizes_are_for_people(count: float, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (7, "7"),
        (41210, "41210"),
        (41210.4, "41210"),
        (123.456, "123.5"),
        (12.3456, "12.35"),
        (1.23456, "1.235"),
        (0.0456, "0.046"),
        (0.0004, "0.0004"),
        (0.00012345, "0.0001"),
        (0.0, "0.000"),
        (-12.3456, "-12.35"),
        (2000.0, "2000"),
        (999.96, "1000"),
        (99.996, "100.0"),
        (9.9996, "10.00"),
        (-0.00999, "-0.010"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers_have_about_four_digits(value: float, text: str) -> None:
    assert format_number(value) == text


def test_a_rate_reads_as_it_is_written() -> None:
    assert str(Rate(1000.0, "docs")) == "1000 docs/s"
    assert parse_rate(str(Rate(0.25, "ops"))) == Rate(0.25, "ops")


@pytest.mark.parametrize(
    ("text", "ratio"),
    [("1%", 0.01), ("0.01", 0.01), (" 2.5 % ", 0.025), ("0", 0), ("0%", 0), ("100%", 1), (".5", 0.5), ("1e-3", 0.001)],
)
def test_a_ratio_is_a_percentage_or_a_fraction(text: str, ratio: float) -> None:
    assert parse_ratio(text) == pytest.approx(ratio)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("1", 'say "1%"'),
        ("5", 'say "5%"'),
        ("120%", 'say "100%"'),
        ("-1%", 'say "1%" or 0.01'),
        ("1 percent", 'say "1%" or 0.01'),
        ("0,5%", 'say "1%" or 0.01'),
        ("%", 'say "1%" or 0.01'),
        ("", 'say "1%" or 0.01'),
        ("nan", 'say "1%" or 0.01'),
    ],
)
def test_a_ratio_that_may_mean_two_things_is_refused(text: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_ratio(text, "--max-error-rate")
    assert caught.value.where == "--max-error-rate"
    assert caught.value.hint == hint


@pytest.mark.parametrize("value", ["3651d", 1e9, "1e17s", 10**400, math.inf, "1e400", "9" * 5_000, "9" * 25 + "h"])
def test_a_duration_beyond_ten_years_is_one_short_line(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        parse_duration(value, "time-period")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("read", [parse_size, parse_rate])
@pytest.mark.parametrize("value", [10**400, 1e300, "1e300", "1e300 TB", "9" * 5_000])
def test_sizes_and_rates_that_nobody_has_are_one_short_line(read: Callable[[object], object], value: object) -> None:
    with pytest.raises(UsageError) as caught:
        read(value)
    assert len(str(caught.value)) < 200
