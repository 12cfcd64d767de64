"""Counting durations: HdrHistogram's layout, exact ends, percentiles by rank."""

from __future__ import annotations

import gc
import math
import random

import pytest
from hdrh.histogram import HdrHistogram

from esbench.measure.histogram import (
    DIGITS,
    HIGHEST_NS,
    LOWEST_NS,
    Counts,
    decode,
    encode,
    lowest_equivalent_ns,
    percentiles_ns,
    supported,
)

RANKS = (50.0, 90.0, 95.0, 99.0, 99.9, 99.99)


def counted(values: list[int]) -> Counts:
    counts = Counts()
    for value in values:
        counts.add(value)
    return counts


def durations(count: int, seed: int) -> list[int]:
    """From below a microsecond to hours, each magnitude as often."""
    draw = random.Random(seed)
    return [int(10 ** draw.uniform(2, 13.9)) for _ in range(count)]


EDGES = [0, 1, 511, 512, 999, 1000, 1023, 1024, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, (1 << 21) - 1, 1 << 21]
EDGES += [10**9, 60 * 10**9, HIGHEST_NS - 1, HIGHEST_NS]


def test_buckets_are_those_of_hdr_histogram() -> None:
    values = EDGES + durations(20_000, 1)
    ours = counted(values)
    theirs = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for value in values:
        assert theirs.record_value(value)
    assert ours.buckets == {index: count for index, count in enumerate(theirs.counts) if count}


def test_every_bucket_begins_where_hdr_histogram_lets_it_begin() -> None:
    theirs = HdrHistogram(LOWEST_NS, HIGHEST_NS, DIGITS)
    for value in EDGES + durations(2000, 2):
        (index,) = counted([value]).buckets
        assert lowest_equivalent_ns(index) == theirs.get_lowest_equivalent_value(value)


def test_a_bucket_is_a_thousandth_wide_at_most_from_a_millisecond() -> None:
    for value in durations(2000, 3):
        (index,) = counted([value]).buckets
        width = lowest_equivalent_ns(index + 1) - lowest_equivalent_ns(index)
        assert width <= max(512, value / 1000)


def test_the_sum_and_the_ends_are_exact() -> None:
    values = durations(1000, 4)
    counts = counted(values)
    assert (counts.count, counts.total_ns) == (1000, sum(values))
    assert (counts.min_ns, counts.max_ns) == (min(values), max(values))
    assert counts.mean_ns == sum(values) / 1000
    assert counts.clamped == 0


def test_what_lies_outside_is_clamped_and_counted() -> None:
    counts = counted([-1, -(10**9), HIGHEST_NS + 1, HIGHEST_NS, 0])
    assert counts.clamped == 3
    assert counts.count == 5
    assert (counts.min_ns, counts.max_ns) == (0, HIGHEST_NS)


def test_merging_is_counting_together() -> None:
    parts = [[-5, *durations(700, seed)] for seed in range(4)]
    merged = Counts()
    for part in parts:
        merged.merge(counted(part))
    whole = counted([value for part in parts for value in part])
    assert all(getattr(merged, name) == getattr(whole, name) for name in Counts.__slots__)


def test_merging_nothing_changes_nothing() -> None:
    counts = counted([5000])
    counts.merge(Counts())
    assert (counts.count, counts.min_ns, counts.max_ns) == (1, 5000, 5000)


def test_encoded_histograms_come_back() -> None:
    counts = counted(EDGES + durations(5000, 5))
    decoded = decode(encode(counts))
    assert decoded.buckets == counts.buckets
    assert decoded.count == counts.count
    assert decoded.total_ns == pytest.approx(counts.total_ns, rel=0.001)
    assert decoded.min_ns == 0
    assert decoded.max_ns == pytest.approx(counts.max_ns, rel=0.001)
    assert encode(decoded) == encode(counts)


def test_encoded_histograms_are_read_by_the_library() -> None:
    theirs = HdrHistogram.decode(encode(counted([5_000_000] * 99 + [80_000_000])))
    assert theirs.get_total_count() == 100
    assert theirs.get_value_at_percentile(50) == pytest.approx(5_000_000, rel=0.001)
    assert theirs.get_max_value() == pytest.approx(80_000_000, rel=0.001)


def test_an_empty_histogram_comes_back_empty() -> None:
    assert decode(encode(Counts())).buckets == {}


@pytest.mark.parametrize("size", [1, 2, 10, 36, 99, 100, 101, 368, 1000, 3688, 20_000])
@pytest.mark.parametrize("seed", [1, 2])
def test_percentiles_are_those_of_the_sorted_values(size: int, seed: int) -> None:
    draw = random.Random(seed)
    values = sorted(int(draw.lognormvariate(15, 1.5)) + 1_000_000 for _ in range(size))
    found = percentiles_ns(counted(values), RANKS)
    assert list(found) == list(RANKS)
    for rank, value in found.items():
        nearest = values[math.ceil(round(rank / 100 * size, 9)) - 1]
        assert value == pytest.approx(nearest, rel=0.001), rank


def test_short_percentiles_are_never_too_short_and_at_most_half_a_microsecond_too_long() -> None:
    draw = random.Random(7)
    values = sorted(draw.randrange(1_000, 1_000_000) for _ in range(5_000))
    for rank, value in percentiles_ns(counted(values), RANKS).items():
        assert 0 <= value - values[math.ceil(round(rank / 100 * 5_000, 9)) - 1] < 512
    assert percentiles_ns(counted([19_969, 20_479, 30_000]), (50.0, 10.0)) == {50.0: 20_479, 10.0: 20_479}  # 2.6 %


def test_percentiles_never_lie_beyond_the_ends() -> None:
    assert percentiles_ns(counted([1_000_003] * 3), (1.0, 50.0, 100.0)) == dict.fromkeys((1.0, 50.0, 100.0), 1_000_003)
    assert percentiles_ns(counted([HIGHEST_NS + 1]), (50.0,)) == {50.0: HIGHEST_NS}


def test_samples_beyond_all_others_push_percentiles_out() -> None:
    counts = counted([1_000_000 * n for n in range(1, 91)])
    found = percentiles_ns(counts, (50.0, 90.0, 90.1, 99.0), beyond=10)
    assert found[50.0] == pytest.approx(50_000_000, rel=0.001)
    assert found[90.0] == pytest.approx(90_000_000, rel=0.001)
    assert found[90.1] == found[99.0] == math.inf


@pytest.mark.parametrize(("good", "beyond", "rank"), [(999, 1, 99.9), (9999, 1, 99.99), (2997, 3, 99.9), (95, 5, 95.0)])
def test_a_rank_on_the_last_good_sample_is_its_value(good: int, beyond: int, rank: float) -> None:
    assert percentiles_ns(counted([5_000_000] * good), (rank,), beyond)[rank] == pytest.approx(5_000_000)
    assert percentiles_ns(counted([5_000_000] * good), (rank,), beyond + 1)[rank] == math.inf


def test_only_samples_beyond_all_others_are_all_beyond() -> None:
    assert percentiles_ns(Counts(), (50.0, 99.0), beyond=3) == {50.0: math.inf, 99.0: math.inf}


def test_nothing_has_no_percentiles() -> None:
    assert percentiles_ns(Counts(), RANKS) == {}


@pytest.mark.parametrize(("rank", "samples"), [(90.0, 36), (95.0, 72), (99.0, 368), (99.9, 3688), (99.99, 36_887)])
def test_a_percentile_needs_enough_samples(rank: float, samples: int) -> None:
    assert supported((rank,), samples) == (rank,)
    assert supported((rank,), samples - 1) == ()


def test_the_median_needs_no_number_of_samples() -> None:
    assert supported(RANKS, 0) == (50.0,)
    assert supported(RANKS, 400) == (50.0, 90.0, 95.0, 99.0)


def test_encoding_leaves_no_histogram_to_the_collector() -> None:
    counts = Counts()
    counts.add(1_000_000)
    gc.collect()
    gc.disable()
    try:
        encode(counts)
        left = [each for each in gc.get_objects() if type(each).__name__ in ("HdrHistogram", "HdrPayload")]
        assert left == []
    finally:
        gc.enable()
