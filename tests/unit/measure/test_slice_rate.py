"""The throughput of closed loops in slices: what a request counts, and simulated servers whose throughput is known."""

from __future__ import annotations

import math

import numpy as np
import pytest
import simulated_slices
from simulated_slices import SERVERS, Duel

from esbench.measure.histogram import Counts, decode, encode
from esbench.measure.slice_rate import PART_NS, Completions, by_part, weights, whole_slices
from esbench.measure.slices import NS, SlicedTime

pytestmark = pytest.mark.computed

CLIENTS = 8


def test_without_a_cycle_a_request_counts_in_the_measured_part_alone() -> None:
    found = weights(2.0, 0.1, 0.0)
    assert len(found) == 1000
    assert sum(found) * PART_NS / NS == pytest.approx(1)
    assert found[:50] == (0,) * 50  # 0.1 s
    assert set(np.round(found[51:-1], 6)) == {round(1 / (1.9 - 0.002), 6)}


def test_a_request_counts_by_the_part_of_its_triangle() -> None:
    cycle_s, found = 0.4, weights(2.0, 0.1, 0.4)
    middle = [each for number, each in enumerate(found) if 0.1 + 2 * cycle_s <= number / 500 < 2.0 - 2 * cycle_s]
    assert middle == pytest.approx([1 / (1.9 - 2 * cycle_s)] * len(middle), rel=1e-6)
    at_half = found[round((0.1 + cycle_s) * 500)] / middle[0]  # half of its triangle lies inside
    assert at_half == pytest.approx(0.5, abs=0.01)
    assert found[50:] == pytest.approx(found[:49:-1], abs=1e-9)  # the end is the beginning, mirrored


@pytest.mark.parametrize("length_s", [1, 2, 8])
@pytest.mark.parametrize("of_slice", [0.011, 0.0477, 0.1, 0.1637, 0.21, 0.25])
def test_requests_that_all_take_the_same_time_are_counted_exactly(length_s: int, of_slice: float) -> None:
    service_s = of_slice * length_s
    time = SlicedTime(0, length_s * NS, NS // 20, NS // 10, 2, 0, seed=1)
    placed, begun = Completions(time), 2
    for number in range(begun, begun + 10):
        ends_s = [service_s * n for n in range(1, math.ceil(length_s / service_s) + 1)]
        for second in range(length_s):
            inside = [round((end - second) * NS) for end in ends_s if second <= end < second + 1]
            late = CLIENTS * sum(end >= length_s for end in ends_s) if second == length_s - 1 else 0
            counts = Counts()
            for at_ns in inside * CLIENTS:
                counts.add(at_ns // PART_NS * PART_NS)
            requests = CLIENTS * len(inside) + late
            placed.add(number * length_s + second, decode(encode(counts)), requests, 500.0 * requests)
    rate = placed.rate(range(begun, begun + 10), service_s)
    assert rate == pytest.approx(500 * CLIENTS / service_s, rel=0.003)
    assert placed.rate(range(begun + 10, begun + 20), service_s) is None


def test_parts_outlive_the_encoding() -> None:
    counts = Counts()
    for part in range(500):
        counts.add(part * PART_NS)
    assert by_part(decode(encode(counts))) == dict.fromkeys(range(500), 1)


def test_whole_seconds_count_what_was_completed_after_the_beginning_of_their_slice() -> None:
    placed = Completions(SlicedTime(0, 2 * NS, NS // 20, NS // 10, 2, 0, seed=1))
    for second in range(2):
        counts = Counts()
        for number in range(100):
            counts.add(number * 10_000_000)
        placed.add(second, counts, 100, 300.0)
    assert [placed.measured_rate(second) for second in range(3)] == pytest.approx([300, 300, 0])


@pytest.mark.parametrize("is_open", [False, True])
def test_whole_slices_of_a_window(is_open: bool) -> None:
    """Of an open loop the last reply may come a little before the end of a slice that was whole."""
    assert whole_slices((0.3, 8.0), 2.0, after_warmup=False, is_open=is_open) == range(4)
    assert whole_slices((0.3, 7.97), 2.0, after_warmup=False, is_open=is_open) == range(3 + is_open)
    assert whole_slices((0.3, 7.5), 2.0, after_warmup=False, is_open=is_open) == range(3)
    assert whole_slices((3.0, 8.0), 2.0, after_warmup=True, is_open=is_open) == range(2, 4)
    assert len(whole_slices((0.0, 1.2), 2.0, after_warmup=False, is_open=is_open)) == 0


# Simulated duels, 200 of each kind. More of them, and what else was tried: benchmarks/slice_rates.py.


@pytest.mark.parametrize("by_documents", [False, True])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("variation", [0.0, 0.1, 0.2, 1.0])
def test_a_ratio_is_the_true_one_in_the_median(server: str, variation: float, by_documents: bool) -> None:
    random = np.random.default_rng(7)
    for of_slice, ratio in ((0.0477, 0.97), (0.0477, 1.1), (0.1637, 1.03), (0.21, 0.5), (0.25, 0.97), (0.285, 2.0)):
        duel = Duel(server, of_slice * 2, ratio, variation, 2.0, by_documents, requests=600)
        found = duel.found(200, random)
        chance = 3 * 1.25 * found.std() / math.sqrt(len(found))  # of the median
        assert abs(np.median(found)) < 0.005 + chance, (of_slice, ratio)
        assert variation == 1 or chance < 0.015


def test_a_request_of_more_than_a_quarter_of_a_slice_is_no_basis() -> None:
    """What the guard is for: where a cycle is longer, so much of a slice is its ends that rates go wrong."""
    random = np.random.default_rng(7)
    loop = simulated_slices.requests("delay", 1.0, 0.2, 2.0, 400, random)
    assert simulated_slices.smoothed(loop, 2.0) != pytest.approx(CLIENTS, rel=0.01)


def test_whole_requests_in_a_window_were_no_throughput() -> None:
    random = np.random.default_rng(7)
    off = [
        simulated_slices.counted(simulated_slices.requests("delay", s, 0.0, 2.0, 10, random), 2.0) * s / CLIENTS - 1
        for s in (0.655, 0.675)
    ]
    assert off == pytest.approx([0.03421, -0.28947], abs=1e-3)
