"""The tests that must never go: a stalling server, seen by two open loops and by a closed one at the same time; and a
stalling driver.

100 requests a second are due and the server stalls for 500 ms: about 50 arrivals are late, and the latency of each
is what was left of the stall when it was due. A closed loop does not ask meanwhile, and sees next to nothing. When the
driver stalls, latency is the same, but it is the driver's lag.
"""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace

import pytest
from driver import Driver, NullServerFactory, get

from esbench.cluster.options import Access, ClientOptions, parse_hosts
from esbench.load.client import Route, TemplateClient
from esbench.load.hosts import Hosts
from esbench.load.hot import clock_ns
from esbench.load.loops import NS, Length, OpenLoop
from esbench.load.recorder import Recorder
from esbench.measure.histogram import Counts, decode, lowest_equivalent_ns, percentiles_ns
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Tally
from esbench.measure.verdict import Verdict
from esbench.operations.replies import judge_found
from esbench.record.model import TaskResult
from esbench.requests.exchange import Exchange

pytestmark = pytest.mark.alone

STALL_S = 0.5
# A timer on a busy machine may be so late; far less than what the stall does to those that it hits.
SLACK_MS = 60


def times_ms(result: TaskResult, measure: str) -> list[float]:
    """Every recorded value of a measure, exact to three digits, rising."""
    buckets = decode(result.histograms[measure]).buckets
    return sorted(lowest_equivalent_ns(index) / 1e6 for index, count in buckets.items() for _ in range(count))


def late_ms(result: TaskResult, measure: str, beyond_ms: float = SLACK_MS) -> list[float]:
    return [value for value in times_ms(result, measure) if value > beyond_ms]


@pytest.fixture(scope="module")
def results(null_servers: NullServerFactory, tmp_path_factory: pytest.TempPathFactory) -> dict[str, TaskResult]:
    server = null_servers(
        {
            "rules": [
                {"path": "/_doc/", "since": "first-match", "stall": {"at_s": 2, "for_s": STALL_S}},
                {"path": "/_doc/closed-", "delay": {"type": "constant", "ms": 5}},
            ]
        }
    )
    with Driver(tmp_path_factory.mktemp("driver")) as driver:
        found = driver.step(
            server.url,
            get(name="few clients", rate=100, clients=8, time_period_s=4),
            get(name="many clients", rate=100, clients=64, time_period_s=4),
            get(name="closed", params={"id": "closed-$[[any_id]]"}, clients=2, time_period_s=4),
        )
    return {result.name: result for result in found}


@pytest.fixture(params=["few clients", "many clients"])
def open_loop(request: pytest.FixtureRequest, results: dict[str, TaskResult]) -> TaskResult:
    return results[request.param]


def test_every_arrival_is_sent_and_answered(open_loop: TaskResult) -> None:
    assert open_loop.due == open_loop.sent == open_loop.requests == 400
    assert (open_loop.unsent, open_loop.errors) == (0, 0)


def test_the_latency_of_the_late_ones_falls_in_a_line(open_loop: TaskResult) -> None:
    late = late_ms(open_loop, "latency")
    expected = [STALL_S * 1000 - 10 * number for number in range(50)]
    assert abs(len(late) - len([value for value in expected if value > SLACK_MS])) <= SLACK_MS / 10
    for measured, due in zip(reversed(late), expected, strict=False):
        assert abs(measured - due) < SLACK_MS


def test_p99_latency_shows_the_stall(open_loop: TaskResult) -> None:
    assert open_loop.latency_ms is not None
    assert abs(open_loop.latency_ms["p99"] - 460) < SLACK_MS  # of 400 the fifth of those that fall by 10 ms each
    assert open_loop.latency_ms["p50"] < SLACK_MS / 2


def test_the_driver_is_not_blamed(open_loop: TaskResult) -> None:
    assert open_loop.driver_lag_ms is not None
    assert open_loop.driver_lag_ms["p95"] < SLACK_MS / 2  # a tenth of the arrivals were late
    assert open_loop.driver_lag_ms["p99"] < STALL_S * 1000 / 3  # where their latency is 460 ms


def test_half_of_the_requests_are_as_fast_as_ever(open_loop: TaskResult) -> None:
    assert open_loop.service_time_ms is not None
    assert open_loop.service_time_ms["p50"] < SLACK_MS / 2


def test_with_few_clients_the_rest_of_the_latency_is_client_wait(results: dict[str, TaskResult]) -> None:
    few = results["few clients"]
    service, wait = late_ms(few, "service_time", 250), late_ms(few, "client_wait")
    assert len(service) == 8  # each client had one request in the stall
    assert min(service) > STALL_S * 1000 - 80 - SLACK_MS
    assert abs(len(wait) - 36) <= SLACK_MS / 10  # 42 waited for up to 420 ms, 6 of them for less than the slack
    assert abs(max(wait) - 420) < SLACK_MS
    assert few.waited_ratio == pytest.approx(42 / 400, abs=8 / 400)
    assert "client-limited" in [check.name for check in few.checks]


def test_with_many_clients_all_of_it_is_service_time(results: dict[str, TaskResult]) -> None:
    many = results["many clients"]
    assert many.waited_ratio == 0
    assert late_ms(many, "client_wait") == []
    service, latency = late_ms(many, "service_time", 250), late_ms(many, "latency", 250)
    assert len(service) > 20
    assert len(latency) - len(service) in (0, 1)  # a lag of 2 ms takes one of them below 250
    assert many.client_wait_ms is not None
    assert many.client_wait_ms["max"] == 0


def test_the_closed_loop_hides_the_stall(results: dict[str, TaskResult]) -> None:
    closed = results["closed"]
    assert closed.latency_ms is None
    assert closed.service_time_ms is not None
    assert len(late_ms(closed, "service_time", 250)) == 2  # one of each client
    assert closed.service_time_ms["max"] > STALL_S * 1000 - 20
    assert closed.service_time_ms["p99"] < SLACK_MS
    assert closed.requests > 500


# the driver stalls


@pytest.fixture(scope="module", params=[8, 64])
def stalled(request: pytest.FixtureRequest, null_servers: NullServerFactory) -> Tally:
    """What an open loop of 100 requests a second counts whose event loop stands still after two of its four seconds."""
    server = null_servers({"rules": [{"path": "/_doc/", "delay": {"type": "constant", "ms": 5}}]})
    return asyncio.run(_stall(server.url, request.param))


async def _stall(url: str, clients: int) -> Tally:
    hosts = Hosts(parse_hosts([url], None)[0], ClientOptions(), lost=lambda: None, back=lambda: None)
    answered = 0

    def judge(status: int, body: bytes, drawn: object) -> Verdict:
        nonlocal answered
        answered += 1
        return judge_found(status, body, drawn)

    exchange = Exchange("", lambda drawn: (b"GET /orders/_doc/1 HTTP/1.1\r\nHost: test\r\n\r\n",), judge)
    program = SimpleNamespace(exchanges=(exchange,), draw=lambda: None)
    route = Route(hosts, Access(), b"", 10)
    made = [TemplateClient(slot, route, program) for slot in range(clients)]  # type: ignore[arg-type]
    for client in made:
        await client.connect()
    ended = asyncio.Event()
    start_ns = clock_ns()
    recorder = Recorder(WholeTime(start_ns), is_open=True)
    length = Length(start_ns, start_ns + 4 * NS)
    arrivals = iter(range(0, 4 * NS, NS // 100))
    loop = OpenLoop(made, recorder, length, ended=ended.set, failed=lambda verdict: None, arrivals=arrivals)

    def stand_still() -> None:
        if recorder.begun - answered <= 1:
            time.sleep(STALL_S)
        else:  # the host, or the null server, stands still itself: of its requests the clients would be short
            asyncio.get_running_loop().call_later(0.002, stand_still)

    asyncio.get_running_loop().call_later(2, stand_still)
    loop.start(start_ns)
    await asyncio.wait_for(ended.wait(), 60)
    loop.close()
    hosts.close()
    tally = Tally()
    for second in recorder.closed_seconds(clock_ns() + NS):
        tally.merge(second.tally)
    return tally


def late(counts: Counts, beyond_ms: float = SLACK_MS) -> list[float]:
    """Milliseconds of what was later than the slack."""
    times = {lowest_equivalent_ns(index) / 1e6: count for index, count in counts.buckets.items()}
    return sorted(at_ms for at_ms, count in times.items() for _ in range(count) if at_ms > beyond_ms)


def test_a_stall_of_the_driver_is_its_lag(stalled: Tally) -> None:
    assert (stalled.due, stalled.requests) == (400, 400)
    lags = late(stalled.driver_lag)
    expected = [STALL_S * 1000 - 10 * number for number in range(50)]
    assert abs(len(lags) - len([value for value in expected if value > SLACK_MS])) <= SLACK_MS / 10
    for measured, due in zip(reversed(lags), expected, strict=False):
        assert abs(measured - due) < SLACK_MS


def test_p99_driver_lag_shows_it(stalled: Tally) -> None:
    p99_ms = percentiles_ns(stalled.driver_lag, (99.0,))[99.0] / 1e6
    assert abs(p99_ms - 460) < SLACK_MS
    assert abs(percentiles_ns(stalled.latency, (99.0,))[99.0] / 1e6 - 460) < SLACK_MS


def test_the_cluster_is_not_blamed(stalled: Tally) -> None:
    assert stalled.waited <= 4
    assert late(stalled.client_wait, 250) == []  # clients work off what has piled up
    assert len(late(stalled.service_time)) <= 2  # what was in flight when the stall began is read after it
