"""Requests that are matched with the server's own log: the driver's loops, clients and recorder, in this process.

Each request carries an X-Opaque-Id of its own. A recorder keeps its times beside what it counts as always, so that
both can be held against what the null server has logged. Nothing in the driver knows of it.
"""

from __future__ import annotations

import asyncio
import gc
import math
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count
from statistics import median
from typing import Any, TypeVar

from esbench.cluster.options import Access, ClientOptions, parse_hosts
from esbench.load.client import Route, TemplateClient
from esbench.load.hosts import Hosts
from esbench.load.hot import clock_ns
from esbench.load.loops import ClosedLoop, Length, OpenLoop, TaskLoop
from esbench.load.recorder import Recorder
from esbench.load.transport import header_lines
from esbench.measure.cpu_time import run_delay_ns
from esbench.measure.histogram import percentiles_ns, supported
from esbench.measure.schedule import arrivals
from esbench.measure.slices import WholeTime
from esbench.measure.tally import Tally
from esbench.measure.verdict import GOOD, Verdict
from esbench.model import Schedule
from esbench.null_server import NullServer
from esbench.null_server.log import LogLine
from esbench.requests.exchange import Exchange
from esbench.units import Rate

NS = 1_000_000_000
MS = 1_000_000
T = TypeVar("T")


def _rule(**keys: Any) -> dict[str, Any]:
    return {"path": "/orders/_doc/", **keys}


DISTRIBUTIONS: Mapping[str, list[dict[str, Any]]] = {
    "constant": [_rule(delay={"type": "constant", "ms": 40})],
    "bimodal": [_rule(delay={"type": "bimodal", "low_ms": 10, "high_ms": 50, "high_ratio": 0.25})],
    "stall": [
        _rule(delay={"type": "constant", "ms": 40}),
        _rule(since="first-match", stall={"at_s": 1, "for_s": 0.5}),
    ],
    "3 % slow": [_rule(delay={"type": "bimodal", "low_ms": 38, "high_ms": 100, "high_ratio": 0.03})],
}
MEAN_MS = 30  # of all of them, about


class Crowded(Exception):  # noqa: N818 - nothing is wrong with the driver
    """This machine was too busy for the open loop's rate."""


@dataclass(frozen=True)
class Times:
    """What the driver knows of one request, in ns of the clock that the server reads, too."""

    due_ns: int
    free_ns: int
    sent_ns: int
    received_ns: int


class KeepingRecorder(Recorder):
    """A recorder that also keeps each request's times, by the id that its verdict brings as a label."""

    def __init__(self, start_ns: int, *, is_open: bool) -> None:
        super().__init__(start_ns, is_open=is_open)
        self.times: dict[str, Times] = {}

    def move_to(self, at_ns: int, warmup: bool) -> bool:
        """Have no current segment: then each request comes to `completed`."""
        return False

    def completed(
        self, due_ns: int, free_ns: int, sent_ns: int, received_ns: int, warmup: bool, verdict: Verdict
    ) -> None:
        assert verdict.error is None and verdict.label is not None, verdict
        self.times[verdict.label] = Times(due_ns, free_ns, sent_ns, received_ns)
        super().completed(due_ns, free_ns, sent_ns, received_ns, warmup, GOOD)


class NumberedGets:
    """The program of one client: GETs whose numbers, shared with the other clients, are their ids."""

    def __init__(self, index: bytes, numbers: Iterator[int], headers: bytes) -> None:
        self.exchanges = [Exchange("", self._render, self._judge)]
        self._index = index
        self._numbers = numbers
        self._headers = headers

    def draw(self) -> int:
        return next(self._numbers)

    def _render(self, number: int) -> list[bytes]:
        head = b"GET /%s/_doc/%d HTTP/1.1\r\n%sX-Opaque-Id: %d\r\n\r\n"
        return [head % (self._index, number, self._headers, number)]

    def _judge(self, status: int, body: bytes, number: int) -> Verdict:
        return Verdict(label=str(number)) if status == 200 else Verdict(0, f"status {status}", body.decode())


@dataclass(frozen=True)
class Percentile:
    """One percentile as the driver's histogram has it and as the server's log has it.

    `unseen_ms` is what the log cannot know of, at that percentile: the driver lag, and of a service time also what
    passes from the send until the server has read the request.
    """

    driver_ms: float
    server_ms: float
    unseen_ms: float

    @property
    def allowed_ms(self) -> float:
        return 0.01 * self.server_ms + self.unseen_ms

    @property
    def agrees(self) -> bool:
        return abs(self.driver_ms - self.server_ms) <= self.allowed_ms


@dataclass(frozen=True)
class Matched:
    """One loop's requests: their durations (latency; closed loop: service time) by the driver and by the server's log.

    `script_ms` is the delay that the script asked for. `percentiles` are those of p99 and p99.9 that the number of
    requests carries.
    """

    start_ns: int
    times: Sequence[Times]  # in the order of their due times (closed loop: of their sends)
    driver_ms: Sequence[float]
    server_ms: Sequence[float]
    script_ms: Sequence[float]
    percentiles: Mapping[float, Percentile]

    @property
    def median_difference_ms(self) -> float:
        return median(abs(mine - theirs) for mine, theirs in zip(self.driver_ms, self.server_ms, strict=True))

    @property
    def allowed_median_ms(self) -> float:
        return 0.1 + 0.01 * median(self.server_ms)

    @property
    def agrees(self) -> bool:
        """Whether the driver has measured what happened: the median request, and the tail of its histogram."""
        tail_agrees = all(percentile.agrees for percentile in self.percentiles.values())
        return self.median_difference_ms <= self.allowed_median_ms and tail_agrees


def match(
    server: NullServer,
    rules: Sequence[Mapping[str, Any]],
    *,
    rate_per_s: int,
    clients: int,
    seconds: float,
    time_of: Callable[[int], WholeTime] = WholeTime,
) -> tuple[Matched, Matched, float]:
    """Run an open loop and then a closed one of `clients`, and match both with the server's log.

    `time_of` returns the loops' time, of which `seconds` pass, by its start.

    With them comes the share of the time in which this process waited for a CPU. Beside the closed loop an open one
    asks what is answered at once: it tells that run's driver lag, which a closed loop has none of, and how long its
    requests were on their way to the server.
    """
    waited_before_ns = run_delay_ns()
    found = []
    for is_open in (True, False):
        server.use({"rules": rules})
        opened, closed = _without_collector(
            partial(_run, _drive(server.url, rate_per_s, clients, seconds, time_of, is_open=is_open))
        )
        log = {line.opaque_id: line for line in server.log()}
        lags_ms = [(each.sent_ns - max(each.due_ns, each.free_ns)) / MS for each in opened.times.values()]
        ways_ms = [(log[number].received_ns - each.sent_ns) / MS for number, each in opened.times.items()]
        assert log.keys() == opened.times.keys() | closed.times.keys()
        unseen_ms = [lags_ms] if is_open else [lags_ms, ways_ms]
        found.append(_matched(opened if is_open else closed, log, unseen_ms, is_open=is_open))
    return found[0], found[1], (run_delay_ns() - waited_before_ns) / NS / seconds / 2


def _matched(
    recorder: KeepingRecorder, log: Mapping[str, LogLine], unseen_ms: Sequence[Sequence[float]], *, is_open: bool
) -> Matched:
    times = dict(sorted(recorder.times.items(), key=lambda item: item[1].due_ns if is_open else item[1].sent_ns))
    lines = [log[number] for number in times]
    driver_began_ns = [each.due_ns if is_open else each.sent_ns for each in times.values()]
    server_began_ns = driver_began_ns if is_open else [line.received_ns for line in lines]
    server_ms = [((line.answered_ns or 0) - begin) / MS for line, begin in zip(lines, server_began_ns, strict=True)]
    tally = Tally()
    for second in recorder.closed_seconds(1 << 62):
        tally.merge(second.tally)
    ranks = supported((99.0, 99.9), len(times))
    counted_ns = percentiles_ns(tally.latency if is_open else tally.service_time, ranks)
    return Matched(
        start_ns=recorder.time.start_ns,
        times=tuple(times.values()),
        driver_ms=[(e.received_ns - begin) / MS for e, begin in zip(times.values(), driver_began_ns, strict=True)],
        server_ms=server_ms,
        script_ms=[line.delay_ms for line in lines],
        percentiles={
            rank: Percentile(
                driver_ms=counted_ns[rank] / MS,
                server_ms=nearest_rank(server_ms, rank),
                unseen_ms=sum(nearest_rank(values, rank) for values in unseen_ms),
            )
            for rank in ranks
        },
    )


def nearest_rank(values: Sequence[float], rank: float) -> float:
    """The smallest value that `rank` percent of all do not exceed."""
    return sorted(values)[max(1, math.ceil(rank * len(values) / 100 - 1e-6)) - 1]


async def _drive(
    url: str,
    rate_per_s: int,
    closed_clients: int,
    seconds: float,
    time_of: Callable[[int], WholeTime],
    *,
    is_open: bool,
) -> tuple[KeepingRecorder, KeepingRecorder]:
    """An open loop alone; or a closed one, beside an open one of which the server's rules know nothing."""
    hosts, options = parse_hosts([url], ClientOptions())
    headers = header_lines(hosts[0], options)
    route = Route(Hosts(hosts, options, lost=_nothing, back=_nothing), Access(), headers, options.timeout_s)
    numbers = count()

    def clients_of(index: bytes, how_many: int) -> list[TemplateClient]:
        return [TemplateClient(slot, route, NumberedGets(index, numbers, headers)) for slot in range(how_many)]

    in_open = clients_of(b"orders", 3 * rate_per_s * MEAN_MS // 1000) if is_open else clients_of(b"beside", 8)
    in_closed = [] if is_open else clients_of(b"orders", closed_clients)
    await asyncio.gather(*(client.connect() for client in (*in_open, *in_closed)))
    time = time_of(clock_ns())
    length = Length(end_ns=time.until_ns(round(seconds * NS)))
    opened, closed = KeepingRecorder(time, is_open=True), KeepingRecorder(time, is_open=False)
    await asyncio.sleep(max(0, time.begin_ns - clock_ns()) / NS)
    schedule = Schedule(rate=Rate(rate_per_s, "ops"))
    due = arrivals(schedule, seed=1, clients=len(in_open), slots=tuple(range(len(in_open))))
    open_ended, closed_ended = asyncio.Event(), asyncio.Event()
    loops: list[TaskLoop] = [
        OpenLoop(in_open, opened, length, ended=open_ended.set, failed=_fail, arrivals=due),
        ClosedLoop(in_closed, closed, length, ended=closed_ended.set, failed=_fail),
    ]
    for loop in loops:
        loop.start(time.begin_ns)
    await open_ended.wait()
    await closed_ended.wait()
    for loop in loops:
        loop.close()
    if unsent := loops[0].unsent:
        raise Crowded(f"{unsent} arrivals were never sent")
    return opened, closed


def _nothing() -> None: ...


def _fail(verdict: Verdict) -> None:
    raise AssertionError(verdict)


def _without_collector(work: Callable[[], T]) -> T:
    """As in a worker: a collection of this process's garbage would be measured as service time."""
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        return work()
    finally:
        gc.enable()
        gc.unfreeze()


def _run(work: Coroutine[Any, Any, T]) -> T:
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(work)
