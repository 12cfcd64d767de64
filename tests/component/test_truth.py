"""The driver measures what happened: every request is matched with the null server's own log by its X-Opaque-Id."""

from __future__ import annotations

import pytest
from driver import NullServerFactory
from matching import DISTRIBUTIONS, Crowded, Matched, match, nearest_rank

from esbench.measure.slices import NS, SlicedTime
from esbench.null_server import NullServer

pytestmark = pytest.mark.alone

# Of six attempts one has to agree. Where none does and the driver waited for a CPU all the while, with whatever else
# runs on this machine, nothing was proved: that is what races are warned of by their check "run-delay", too.
ATTEMPTS = 6
CROWDED_RATIO = 0.05
RATE_PER_S = 1_250  # as many requests as p99.9 needs
SECONDS = 3


@pytest.fixture(scope="module")
def server(null_servers: NullServerFactory) -> NullServer:
    return null_servers(log=True)


def in_words(loop: str, matched: Matched) -> str:
    median_ms, allowed_ms = matched.median_difference_ms, matched.allowed_median_ms
    return f"{loop}: {median_ms:.3f} ms of {allowed_ms:.3f} at the median, {dict(matched.percentiles)}"


@pytest.fixture(scope="module", params=DISTRIBUTIONS)
def matched(request: pytest.FixtureRequest, server: NullServer) -> tuple[Matched, Matched]:
    """An open and a closed loop that agree with the server's log, of each distribution of its delays."""
    differed: list[str] = []
    run_delay_ratios: list[float] = []
    for _ in range(ATTEMPTS):
        try:
            opened, closed, run_delay_ratio = match(
                server, DISTRIBUTIONS[request.param], rate_per_s=RATE_PER_S, clients=6, seconds=SECONDS
            )
        except Crowded as error:
            differed.append(str(error))
            continue
        assert set(opened.percentiles) == {99.0, 99.9}
        assert set(closed.percentiles) == {99.0}
        if opened.agrees and closed.agrees:
            return opened, closed
        differed += [in_words("open", opened), in_words("closed", closed)]
        run_delay_ratios.append(run_delay_ratio)
    if min(run_delay_ratios, default=1) > CROWDED_RATIO:
        pytest.skip(f"the driver waited for a CPU {min(run_delay_ratios, default=1):.0%} of the time or more")
    pytest.fail("\n".join(differed))


@pytest.mark.parametrize("side", [0, 1])
def test_durations_in_slices_are_those_of_the_servers_log(side: int, server: NullServer) -> None:
    def sliced(start_ns: int) -> SlicedTime:
        return SlicedTime(start_ns, NS, 50_000_000, 100_000_000, 2, side, seed=5)

    differed: list[str] = []
    for _ in range(ATTEMPTS):
        try:
            opened, closed, run_delay_ratio = match(
                server, DISTRIBUTIONS["bimodal"], rate_per_s=RATE_PER_S, clients=6, seconds=SECONDS, time_of=sliced
            )
        except Crowded as error:
            differed.append(str(error))
            continue
        if opened.agrees and closed.agrees:
            return
        differed += [in_words("open", opened), in_words("closed", closed), f"run delay {run_delay_ratio:.0%}"]
    pytest.fail("\n".join(differed))


in_the_stall = pytest.mark.parametrize("matched", ["stall"], indirect=True)


def test_durations_are_those_of_the_servers_log(matched: tuple[Matched, Matched]) -> None:
    opened, closed = matched
    assert opened.agrees
    assert closed.agrees


@in_the_stall
def test_a_request_is_due_when_the_schedule_says_so_stall_or_not(matched: tuple[Matched, Matched]) -> None:
    opened, _ = matched
    assert len(opened.times) == SECONDS * RATE_PER_S
    for number, each in enumerate(opened.times):
        assert each.due_ns - opened.start_ns == pytest.approx(number * 1e9 / RATE_PER_S, abs=1)


@in_the_stall
def test_no_request_took_less_than_the_delay_that_was_asked_for(matched: tuple[Matched, Matched]) -> None:
    for loop in matched:
        for driver_ms, script_ms in zip(loop.driver_ms, loop.script_ms, strict=True):
            assert driver_ms >= script_ms


@in_the_stall
def test_a_driver_that_counted_from_the_send_would_not_agree(matched: tuple[Matched, Matched]) -> None:
    """The comparison can fail: of the arrivals in the stall all wait, but few of them as requests in flight."""
    opened, _ = matched
    from_send_ms = [(each.received_ns - each.sent_ns) / 1e6 for each in opened.times]
    rank = 85.0  # of three seconds more than half a one is late
    latency_ms, truth_ms = nearest_rank(opened.driver_ms, rank), nearest_rank(opened.server_ms, rank)
    assert abs(latency_ms - truth_ms) < 20
    assert truth_ms - nearest_rank(from_send_ms, rank) > 100
