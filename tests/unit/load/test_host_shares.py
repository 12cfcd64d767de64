"""The share of each load host in a task, and what speaks against figures of several hosts."""

from __future__ import annotations

import pytest

from esbench.load.checks import clock_offset, host_skew
from esbench.load.host_shares import HostShares
from esbench.measure.tally import Tally

MS = 1_000_000
HOSTS = {0: "a", 1: "a", 2: "b"}


def tally(requests: int, response_ms: float, late: int = 0) -> Tally:
    found = Tally(requests=requests + late)
    for _ in range(requests):
        found.latency.add(round(response_ms * MS))
        found.service_time.add(round(response_ms * MS / 2))
    for _ in range(late):
        found.latency_beyond.add(100 * MS)
        found.errors.add("timeout", "")
    return found


def shares(*seconds: tuple[int, Tally], is_open: bool = True, bound_ms: float = 0.1) -> HostShares:
    found = HostShares(HOSTS, lambda host: bound_ms, is_open=is_open)
    for worker, each in seconds:
        found.add(worker, each)
    return found


def test_workers_of_a_host_are_added_up() -> None:
    of_a, of_b = shares((0, tally(100, 4)), (1, tally(50, 4)), (2, tally(200, 4, late=3))).shares
    assert (of_a.host, of_a.requests, of_a.errors, of_a.clock_uncertainty_ms) == ("a", 150, 0, 0.1)
    assert (of_b.host, of_b.requests, of_b.errors) == ("b", 203, 3)
    assert of_a.response_ms is not None
    assert of_a.response_ms["p50"] == pytest.approx(4, rel=0.01)


def test_a_closed_loop_has_service_times() -> None:
    share, _ = shares((0, tally(100, 4)), (2, tally(100, 4)), is_open=False).shares
    assert share.response_ms is not None
    assert share.response_ms["p50"] == pytest.approx(2, rel=0.01)


def test_hosts_that_agree_have_no_checks() -> None:
    assert shares((0, tally(200, 4)), (2, tally(200, 4.3))).checks() == ()


def test_a_slower_host_is_named() -> None:
    (check,) = shares((0, tally(200, 4)), (2, tally(200, 5))).checks()
    assert (check.name, check.level) == ("host-skew", "warning")
    assert check.message.startswith("load hosts differ: the median of b is 5")


def test_medians_of_few_requests_are_not_compared() -> None:
    assert shares((0, tally(200, 4)), (2, tally(99, 5))).checks() == ()


@pytest.mark.parametrize(
    ("bound_ms", "p50_ms", "speaks"),
    [
        (5.0, 20.0, False),
        (5.1, 20.0, True),
        (1.9, 4.0, False),
        (2.1, 4.0, True),
        (4.0, None, False),
    ],
)
def test_a_clock_is_known_to_5_ms_and_to_half_of_the_median(
    bound_ms: float, p50_ms: float | None, speaks: bool
) -> None:
    check = clock_offset(bound_ms, p50_ms)
    assert (None if check is None else (check.name, check.value)) == (("clock-offset", bound_ms) if speaks else None)


def test_one_host_has_no_other_to_differ_from() -> None:
    assert host_skew({"a": 4.0}) is None


def test_a_task_of_one_host_is_not_shared() -> None:
    of_one = shares((0, tally(200, 4)), (1, tally(200, 4)), bound_ms=9)
    assert (of_one.shares, of_one.checks()) == ((), ())
