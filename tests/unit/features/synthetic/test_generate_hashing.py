from __future__ import annotations

import numpy as np
import pytest

from esbench.features.synthetic.generate.hashing import Permutation, Zipf, below, draw, stream_key, unit


def indices(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.uint64)


def test_draws_are_the_published_outputs_of_splitmix64() -> None:
    outputs = draw(np.uint64(1234567), indices(3)).tolist()
    assert outputs == [6457827717110365317, 3203168211198807973, 9817491932198370423]


def test_drawing_leaves_the_indices_as_they_were() -> None:
    index = indices(5)
    draw(np.uint64(1), index)
    assert index.tolist() == [0, 1, 2, 3, 4]


def test_streams_of_different_names_differ() -> None:
    assert stream_key(1, "user") != stream_key(1, "merchant") != stream_key(2, "merchant")


@pytest.mark.parametrize("size", [1, 2, 3, 10, 1 << 32, (1 << 32) + 1, 10**15])
def test_uniform_numbers_lie_below_their_size_and_fill_it(size: int) -> None:
    numbers = below(draw(stream_key("below"), indices(20_000)), size)
    assert int(numbers.max()) < size
    assert float(numbers.astype(np.float64).mean()) == pytest.approx((size - 1) / 2, rel=0.03, abs=1e-9)


@pytest.mark.parametrize("size", [1, 2, 3, 7, 10, 99, 100, 1000, 4097, 65_536])
def test_a_permutation_hits_every_number_once(size: int) -> None:
    permutation = Permutation(size, stream_key("permutation", size))
    image = permutation.forward(indices(size))
    assert sorted(image.tolist()) == list(range(size))


def test_a_large_permutation_is_unique_and_spread_out() -> None:
    permutation = Permutation(10**18, stream_key(1, "order_id"))
    image = permutation.forward(indices(1_000_000))
    assert len(np.unique(image)) == 1_000_000
    tenths = np.bincount((image // np.uint64(10**17)).astype(np.int64), minlength=10)
    assert tenths.min() > 99_000
    assert tenths.max() < 101_000


def test_permutations_of_other_keys_differ() -> None:
    one, other = (Permutation(1000, stream_key(seed)).forward(indices(1000)) for seed in (1, 2))
    assert (one == other).sum() < 20


@pytest.mark.parametrize("exponent", [0.0, 0.7, 1.0, 1.1, 2.5])
@pytest.mark.parametrize("count", [1, 2, 1024, 1025, 50_000])
def test_zipf_ranks_follow_the_exact_distribution(count: int, exponent: float) -> None:
    zipf = Zipf(count, exponent)
    weights = np.arange(1, count + 1, dtype=np.float64) ** -exponent
    ends = np.cumsum(weights) / weights.sum()
    uniform = (np.arange(20_011) + 0.5) / 20_011
    exact = np.searchsorted(ends, uniform, side="right") + 1
    ranks = zipf.ranks(uniform)
    assert ranks.min() >= 1
    assert ranks.max() <= count
    assert np.abs(ranks - exact).max() <= 1  # at a border between two ranks at most
    assert (ranks != exact).mean() < 0.001 if exponent else True


def test_zipf_reaches_both_ends_of_a_very_large_range() -> None:
    zipf = Zipf(10**12, 1.0)
    assert zipf.ranks(np.array([0.0])).tolist() == [1]
    assert 0.99e12 < zipf.ranks(np.array([1 - 2**-53]))[0] <= 10**12


def test_unit_numbers_lie_in_the_half_open_interval() -> None:
    numbers = unit(np.array([0, (1 << 64) - 1], np.uint64))
    assert numbers[0] == 0.0
    assert 0.9999999 < numbers[1] < 1.0
