"""Histograms for Prometheus: what is counted under which bound."""

from __future__ import annotations

import random

import pytest

from esbench.errors import UsageError
from esbench.features.publish.prometheus.folding import DEFAULT_BOUNDS, LAG_BOUNDS, NS, parse_bounds
from esbench.measure.histogram import Counts

MS = 1_000_000


def counted(values_ns: list[int]) -> Counts:
    counts = Counts()
    for value_ns in values_ns:
        counts.add(value_ns)
    return counts


def durations(count: int) -> list[int]:
    draw = random.Random(7)
    return [int(draw.lognormvariate(16, 2)) for _ in range(count)]


@pytest.mark.parametrize("text", [DEFAULT_BOUNDS, LAG_BOUNDS])
def test_what_is_within_a_bound_is_counted_to_three_digits_and_never_overstated(text: str) -> None:
    bounds = parse_bounds(text, "")
    values = durations(20_000)
    found = bounds.cumulative(counted(values).buckets)
    assert found[-1] == len(values)
    for bound_ns, count in zip(bounds.bounds_ns, found, strict=False):
        within = sum(value <= bound_ns for value in values)
        surely_within = sum(value <= bound_ns * 0.999 - 512 for value in values)
        assert surely_within <= count <= within


def test_a_bucket_that_a_bound_ends_is_counted_under_it() -> None:
    bounds = parse_bounds("1.048575", "")  # the last nanosecond of a bucket but one
    (bound_ns,) = bounds.bounds_ns
    assert bound_ns == (1 << 20) - 1
    assert bounds.cumulative(counted([bound_ns]).buckets) == [1, 1]
    assert bounds.cumulative(counted([bound_ns + 1]).buckets) == [0, 1]


def test_nothing_counted_is_within_every_bound_as_zero() -> None:
    assert parse_bounds("1,2", "").cumulative({}) == [0, 0, 0]


def test_bounds_are_milliseconds_or_have_a_unit() -> None:
    bounds = parse_bounds(" 50, 1,500us,1s , 50,", "--metrics-buckets")
    assert bounds.bounds_ns == (500_000, MS, 50 * MS, NS)
    assert bounds.labels == ("0.0005", "0.001", "0.05", "1.0", "+Inf")


def test_the_default_bounds_are_those_of_the_published_benchmark() -> None:
    milliseconds = [float(label) * 1000 for label in parse_bounds(DEFAULT_BOUNDS, "").labels[:-1]]
    assert milliseconds == pytest.approx([1, 2, 3, 4, 5, 10, 30, 50, 70, 100, 200, 300, 500, 1000])


@pytest.mark.parametrize("text", ["", ",", "fast", "1,x", "-1", "0", "1,2 parsecs", "nan", "48h", "0.0001"])
def test_bounds_that_mean_nothing_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--metrics-buckets"):
        parse_bounds(text, "--metrics-buckets")


def test_more_bounds_than_anybody_wants_are_refused() -> None:
    with pytest.raises(UsageError, match="101 bounds"):
        parse_bounds(",".join(map(str, range(1, 102))), "--metrics-buckets")
